"""Interrupts: which questions a paused step opens, and which decisions fit which question.

Law: a decision is bound to the interrupt, the call and the hash of its arguments; what does not fit is refused
and the interrupt stays open.
"""

from collections.abc import Mapping, Sequence
from typing import Any, cast

from causeline.causal import InvalidValue, canonical
from causeline.errors import Invalid
from causeline.graph import Pause, Step
from causeline.run.ledger import arguments_hash, derive
from causeline.runtime.records import Checkpoint, Interrupt, InterruptKind, Run

DECISIONS: Mapping[InterruptKind, frozenset[str]] = {
    "approval": frozenset({"approve", "deny", "edit"}),
    "question": frozenset({"answer", "deny"}),
    "unknown_outcome": frozenset({"retry", "record", "fail"}),
}
"""The decisions that fit each kind of interrupt."""
NEEDS_VALUE = frozenset({"edit", "answer", "record"})
MAX_NAME = 200


class WrongDecision(Invalid):
    """A decision does not fit its interrupt. The interrupt stays open."""

    code = "invalid"


def check_decision(interrupt: Interrupt, decision: Mapping[str, Any]) -> None:
    """Raises WrongDecision unless `{decision, value?, reason?, by?}` is complete and fits the kind."""
    chosen = decision.get("decision")
    allowed = DECISIONS[interrupt.kind]
    if not isinstance(chosen, str) or chosen not in allowed:
        raise WrongDecision(f"{interrupt.id} is a question of kind {interrupt.kind}; it takes {', '.join(sorted(allowed))}, not {chosen!r}")
    if chosen in NEEDS_VALUE and "value" not in decision:
        raise WrongDecision(f"{interrupt.id}: {chosen} needs a value")
    if chosen not in NEEDS_VALUE and decision.get("value") is not None:
        # Whoever sends arguments does not mean the ones that were asked about.
        raise WrongDecision(f"{interrupt.id}: {chosen} takes no value; {', '.join(sorted(allowed & NEEDS_VALUE))} does")
    if chosen == "edit" and not isinstance(decision["value"], dict):
        raise WrongDecision(f"{interrupt.id}: edit needs the new arguments as an object")
    try:
        canonical(dict(decision))
    except InvalidValue as error:
        raise WrongDecision(f"{interrupt.id}: {error.message}") from error
    if "reason" in decision and decision["reason"] is not None and not isinstance(decision["reason"], str):
        raise WrongDecision(f"{interrupt.id}: reason must be text")
    if "by" in decision and (not isinstance(decision["by"], str) or not 0 < len(decision["by"]) <= MAX_NAME):
        raise WrongDecision(f"{interrupt.id}: by is the name of whoever decided, a text of at most {MAX_NAME} characters")
    unknown = set(decision) - {"decision", "value", "reason", "by"}
    if unknown:
        raise WrongDecision(f"{interrupt.id}: unknown fields {', '.join(sorted(unknown))}")


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
    return {"decision": decision, **more, **({"by": by} if by is not None else {})}
