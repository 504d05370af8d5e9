"""`causeline answer`: answer one open question of an interrupted run, which then goes on."""

import json
from typing import Annotated, Any, Literal, cast

import typer

from causeline.causal.view.node_text import decision_text
from causeline.cli.opening import agent_from, agent_words, leave, opened
from causeline.cli.shared_arguments import DEFAULT_STORE, EventsAsJson, OtherAgent, RunName, Store
from causeline.cli.views.follow import follow, view
from causeline.cli.views.terminal import Terminal
from causeline.cli.whole_ids import whole_interrupt, whole_run
from causeline.runtime.interrupts import NEEDS_VALUE

_VALUES = {"edit": "the new arguments as a JSON object, all of them", "answer": "text or JSON", "record": "the result, text or JSON"}
Decision = Literal["approve", "deny", "edit", "answer", "retry", "record", "fail"]


def command(
    run: RunName,
    interrupt: Annotated[str, typer.Argument(metavar="INTERRUPT", help="The question's id, as the run printed it.")],
    decision: Annotated[
        Decision,
        typer.Argument(
            metavar="DECISION",
            help="May this run: approve, deny or edit. A question: answer or deny. An unknown outcome: retry, record or fail.",
        ),
    ],
    value: Annotated[
        str | None,
        typer.Option(
            metavar="JSON", help="All the arguments anew (edit), the answer, or the result (record). For the last two plain text will do."
        ),
    ] = None,
    reason: Annotated[str | None, typer.Option(metavar="TEXT", help="Why not; the model is told.")] = None,
    by: Annotated[str | None, typer.Option(metavar="NAME", help="Who decided, for the record; otherwise the store's owner.")] = None,
    agent: OtherAgent = None,
    store: Store = DEFAULT_STORE,
    as_json: EventsAsJson = False,
) -> None:
    """Answer an open question. A new run enters the paused step; no model call is repeated.

    If other questions stay open, it ends waiting for those (exit code 3).
    """
    told: dict[str, Any] = {"decision": decision}
    if value is not None:
        told["value"] = read_value(decision, value)
    elif decision in NEEDS_VALUE:
        raise typer.BadParameter(f"{decision} needs one: {_VALUES[decision]}", param_hint="--value")
    if reason is not None:
        told["reason"] = reason
    if by is not None:
        told["by"] = by

    async def answer() -> int:
        given = agent_from(agent, store) if agent is not None else None
        shown = view(store, agent_words(agent, given), as_json=as_json)
        async with opened(store, *([given] if given else [])) as runtime:
            asked = await whole_run(runtime, run)
            further = await runtime.answer(asked, {await whole_interrupt(runtime, asked, interrupt): told}, agent=given)
            if not as_json:
                Terminal().say(decision_text(told), "call")
            return (await follow(runtime, further, shown)).code

    leave(answer(), aside=as_json)


def read_value(decision: str, text: str) -> Any:
    """The JSON value of `--value`. Text that does not look like JSON is itself where a text may be meant.

    Raises typer.BadParameter.
    """
    try:
        value: Any = json.loads(text)
    except ValueError as fault:
        if decision in ("answer", "record") and not text.lstrip().startswith(("{", "[", '"')):
            return text
        raise typer.BadParameter(f"{text!r} is not JSON: {fault}", param_hint="--value") from None
    if decision == "edit" and not isinstance(value, dict):
        raise typer.BadParameter(f"{text!r} is no JSON object; edit takes {_VALUES['edit']}", param_hint="--value")
    return cast("Any", value)
