"""Answers to a paused tools node, where a Dispatcher runs it without a runtime.

Law: what does not fit a question is refused, with what is wrong; the call neither runs nor counts as denied, and is asked about again.
"""

from collections.abc import Mapping, Sequence
from typing import Any, cast

from causeline.errors import Invalid
from causeline.run.decisions import DECISIONS, check_decision
from causeline.run.ledger import Call
from causeline.tools.decision_check import check_decision_on
from causeline.tools.toolbox import Toolbox

_WORDS = frozenset[str]().union(*DECISIONS.values())
Decisions = dict[str, Mapping[str, Any]]


def bare_answers(
    answer: Any, asked: Mapping[str, Mapping[str, Any]], rows: Sequence[Call], toolbox: Toolbox
) -> tuple[Decisions, Mapping[str, str]]:
    """Decisions by call id, and by call id what is wrong with an answer that is none. An answer is one decision, a map from call id to
    decision, or, for a single question, the plain value."""
    if answer is None or not asked:
        return {}, {}
    calls = {row.call_id: row for row in rows}
    decided: Decisions = {}
    refused: dict[str, str] = {}
    for call_id, given in _by_call(answer, asked).items():
        question = asked[call_id]
        try:
            decision = _decision(call_id, given, question["kind"])
            if decision["decision"] not in ("answer", "retry"):
                check_decision_on(toolbox, calls[call_id].name, calls[call_id].arguments, decision)
        except Invalid as error:
            refused[call_id] = error.message
        else:
            decided[call_id] = {**decision, **question}
    return decided, refused


def _by_call(answer: Any, asked: Mapping[str, Mapping[str, Any]]) -> Mapping[str, Any]:
    whole: Any = answer
    given: Mapping[str, Any] = cast("Mapping[str, Any]", answer) if isinstance(answer, Mapping) else {}
    if given and "decision" not in given and set(given) <= set(asked):
        return given
    if len(asked) == 1 or given.get("decision") == "deny":
        return dict.fromkeys(asked, whole)
    return dict.fromkeys(asked, _Unclear(asked))


class _Unclear:
    """One answer where several calls wait."""

    def __init__(self, asked: Mapping[str, Any]) -> None:
        self.fault = f"{len(asked)} calls wait for answers; give a map from call id to decision: {', '.join(asked)}"


def _decision(call_id: str, given: Any, kind: str) -> Mapping[str, Any]:
    """Raises Invalid for what is no decision on a question of this kind."""
    if isinstance(given, _Unclear):
        raise Invalid(given.fault)
    decision: Mapping[str, Any] = cast("Mapping[str, Any]", given) if isinstance(given, Mapping) else {}
    if decision.get("decision") not in _WORDS:
        if kind != "question":
            raise Invalid(f"call {call_id}: an answer is a decision such as causeline.approve(), not {given!r:.200}")
        decision = {"decision": "answer", "value": given}
    check_decision(f"call {call_id}", kind, decision)
    return decision
