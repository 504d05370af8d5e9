"""Logs and bundles to test with."""

import json
from typing import Any

from hypothesis import strategies as st

from causeline.causal import KINDS, AgentState, Append, CausalNode, apply, build_export, checkpoint_id

NOW = "2026-01-02T03:04:05.678Z"
LATER = "2026-01-02T03:04:06.000Z"
SYSTEM = "You are a careful librarian."


def turn(question: str, answer: str, rounds: list[tuple[str, Any, Any]], prefix: str = "c") -> list[Append]:
    """One user turn: rounds of (tool, arguments, result), then an answer."""
    batch = [Append("goal", {"text": question})]
    for index, (tool, arguments, result) in enumerate(rounds):
        call_id = f"{prefix}{index}"
        reply = Append("inference", {"text": "", "calls": [{"id": call_id, "name": tool, "arguments": arguments}], "finish": "tool_calls"})
        call = Append("tool_call", {"call_id": call_id, "name": tool, "args": arguments}, (reply,))
        done = Append("tool_result", {"call_id": call_id, "tool": tool, "result": result, "ok": True}, (call,))
        batch += [reply, call, done]
    reply = Append("inference", {"text": answer, "calls": [], "finish": "stop"})
    return [*batch, reply, Append("answer", answer, (reply,))]


class Session:
    """Checkpoints made as a runtime makes them, several branches if asked."""

    def __init__(self) -> None:
        self.rows: dict[str, dict[str, Any]] = {}
        self.nodes: dict[str, CausalNode] = {}
        self.states: dict[str | None, AgentState] = {None: AgentState()}
        self.runs: dict[str, dict[str, Any]] = {}

    def commit(self, parent: str | None, run: str, batch: list[Append], **fields: Any) -> str:
        before = self.states[parent]
        state = AgentState.restore(before.nodes, sorted(before.frontier))
        added = apply(state, batch, NOW)
        step = self.rows[parent]["step"] + 1 if parent is not None and self.rows[parent]["run"] == run else 0
        hashed = {
            "parent": parent,
            "run": run,
            "path": [],
            "node": "call_model",
            "port": "ready",
            "next": None,
            "appended": [node.id for node in added],
            "frontier": sorted(state.frontier),
            "delta": {},
            "position": {"step": step},
            **fields,
        }
        name = checkpoint_id(**hashed)
        self.rows[name] = {**hashed, "id": name, "session": "s", "step": step, "created_at": NOW}
        self.nodes.update((node.id, node) for node in added)
        self.states[name] = state
        self.runs.setdefault(run, {"id": run, "status": "succeeded"})
        return name

    def export(self, head: str | None, *, everything: bool = False) -> bytes:
        kept = list(self.rows)
        if not everything:
            kept = []
            at = head
            while at is not None:
                kept.append(at)
                at = self.rows[at]["parent"]
        used = {self.rows[name]["run"] for name in kept}
        return build_export(
            session="s",
            owner="default",
            head=head,
            nodes=self.nodes.values(),
            checkpoints=[self.rows[name] for name in kept],
            runs=[row for name, row in self.runs.items() if name in used],
            calls=[{"run_id": run, "step": 1, "call_id": "c0", "state": "succeeded"} for run in used],
            facts=[{"checkpoint": name, "usage": {"input_tokens": 3}} for name in kept],
        )


def sample(turns: int = 2) -> tuple[Session, str]:
    """A session of a few turns with memories and resources; returns its head."""
    session = Session()
    start = Append("system", "You are kind.", (), advance=False)
    head = None
    for index in range(turns):
        batch = turn(f"question {index}", f"answer {index}", [("read_file", {"path": "a.txt"}, f"text {index}")], prefix=f"t{index}c")
        first, rest = batch[:1], batch[1:]
        head = session.commit(head, f"run_{index}", [start, *first] if index == 0 else first)
        changed = {"path": "a.txt", "operation": "write", "succeeded": True, "bytes": index}
        note = Append("semantic", {"type": "memory", "key": "k", "content": index}, (rest[-1],), "semantic:memory:k", advance=False)
        head = session.commit(head, f"run_{index}", [*rest[:3], Append("resource", changed, (rest[2],), "resource:file:a.txt")])
        head = session.commit(head, f"run_{index}", [*rest[3:], note])
    assert head is not None
    return session, head


@st.composite
def appended(draw: st.DrawFn, state: AgentState) -> Append:
    """Anything that may be appended to a log."""
    ids = [node.id for node in state.nodes]
    parents = draw(st.just("frontier") | (st.lists(st.sampled_from(ids), max_size=3).map(tuple) if ids else st.just(())))
    key = draw(st.none() | st.sampled_from(["resource:file:a", "semantic:memory:b"]))
    return Append(draw(st.sampled_from(sorted(KINDS))), draw(st.integers(0, 3)), parents, key, draw(st.booleans()))


@st.composite
def states(draw: st.DrawFn, most: int = 12) -> AgentState:
    """A log that grew by random appends."""
    state = AgentState()
    for _ in range(draw(st.integers(0, most))):
        apply(state, [draw(appended(state))], NOW)
    return state


def log(*batches):
    state = AgentState()
    apply(state, [Append("system", SYSTEM, (), advance=False)], NOW)
    for batch in batches:
        apply(state, batch, NOW)
    return state


def remember(state, key, content, kind="memory"):
    parent = state.nodes[-1].id
    entry = {"type": kind, "key": key, "content": content}
    return state.append("semantic", entry, [parent], created_at=NOW, resource_key=f"semantic:{kind}:{key}", advance=False)


def ask(state, question):
    return state.append("goal", {"text": question}, created_at=NOW)


def shown(view):
    return json.dumps(view.messages, ensure_ascii=False)
