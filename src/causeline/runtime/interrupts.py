"""Interrupts: which questions a paused step opens, and which decisions fit which question.

Law: a decision is bound to the interrupt, the call and the hash of its arguments; what does not fit is refused
and the interrupt stays open.
"""

from collections.abc import Mapping, Sequence
from typing import Any, cast

from causeline.errors import Invalid, check_argument
from causeline.graph import Pause, Step
from causeline.run.decisions import DECISIONS, NEEDS_VALUE
from causeline.run.ledger import arguments_hash, derive
from causeline.runtime.records import Checkpoint, Interrupt, Run
from causeline.shapes import FILLED, TEXT, maybe

__all__ = [
    "DECISIONS",
    "NEEDS_VALUE",
    "answer",
    "approve",
    "deny",
    "edit",
    "entries_of",
    "fail",
    "interrupts_of",
    "record",
    "retry",
    "waiting_calls",
]


def interrupts_of(step: Step, checkpoint: Checkpoint, run: Run, path: Sequence[str], known: Mapping[str, Interrupt]) -> Sequence[Interrupt]:
    """The interrupts a paused step holds open, new ones and those it was entered with, under this checkpoint; with those of the runs
    below it. `path` names the agents from the top one to the run's."""
    found: list[Interrupt] = []
    for pause in step.pauses:
        for entry in entries_of(pause):
            if "parent_call" in entry:
                found.append(Interrupt(session=run.session, checkpoint=checkpoint.id, **entry))
                continue
            call_id = entry["tool_call_id"] or pause.key
            earlier = next(
                (
                    one
                    for one in known.values()
                    if one.tool_call_id == call_id and one.args_hash == entry["args_hash"] and one.kind == entry["kind"]
                ),
                None,
            )
            name = earlier.id if earlier else derive("int_", run.id, step.index, list(pause.path), call_id, entry["kind"])
            found.append(
                Interrupt(
                    id=name,
                    session=run.session,
                    run=run.id,
                    checkpoint=checkpoint.id,
                    kind=entry["kind"],
                    tool_call_id=call_id,
                    name=entry["name"],
                    args_hash=entry["args_hash"],
                    arguments=entry["arguments"],
                    question=entry["question"],
                    reason=entry.get("reason"),
                    path=list(path),
                )
            )
    return found


def waiting_calls(pause: Pause) -> list[str]:
    """The calls of this run that wait for what a pause asks; the key of the pause for a node's own question."""
    return list(dict.fromkeys(entry.get("parent_call") or entry["tool_call_id"] or pause.key for entry in entries_of(pause)))


def entries_of(pause: Pause) -> Sequence[Mapping[str, Any]]:
    """What a pause asks: the questions on calls that it lists, or the node's own one."""
    asked: Any = pause.question
    if isinstance(asked, dict) and "interrupts" in asked:
        return cast("Mapping[str, Any]", asked)["interrupts"]
    return [_plain(pause.node, asked)]


def _plain(node: str, question: Any) -> Mapping[str, Any]:
    """A pause of an ordinary node as a question."""
    text = question if isinstance(question, str) else None
    return {
        "kind": "question",
        "tool_call_id": "",
        "name": node,
        "arguments": None if text else question,
        "args_hash": arguments_hash(question),
        "question": text,
        "reason": None,
    }


def approve(*, by: str | None = None) -> Mapping[str, Any]:
    """Let an awaiting call run. `by` names whoever decided, here as for every decision; without it that is the owner."""
    return _made("approve", by)


def deny(reason: str | None = None, *, by: str | None = None) -> Mapping[str, Any]:
    """Do not let it run; the model is told, with the reason."""
    return _made("deny", by, reason=reason)


def edit(args: Mapping[str, Any], *, by: str | None = None) -> Mapping[str, Any]:
    """Let the call run with other arguments, which are checked again."""
    if not isinstance(args, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance] - said here, where the caller can see it
        raise Invalid(f"edit takes the new arguments as an object, not {type(args).__name__}")
    return _made("edit", by, value=dict(args))


def answer(value: Any, *, by: str | None = None) -> Mapping[str, Any]:
    """Answer a question."""
    return _made("answer", by, value=value)


def retry(*, by: str | None = None) -> Mapping[str, Any]:
    """Run a call of unknown outcome again."""
    return _made("retry", by)


def record(result: Any, *, by: str | None = None) -> Mapping[str, Any]:
    """Take this as the result of a call of unknown outcome."""
    return _made("record", by, value=result)


def fail(reason: str | None = None, *, by: str | None = None) -> Mapping[str, Any]:
    """Count a call of unknown outcome as failed."""
    return _made("fail", by, reason=reason)


def _made(decision: str, by: str | None, **more: Any) -> Mapping[str, Any]:
    check_argument("by", maybe(FILLED)(by))
    check_argument("reason", maybe(TEXT)(more.get("reason")))
    return {"decision": decision, **more, **({"by": by} if by is not None else {})}
