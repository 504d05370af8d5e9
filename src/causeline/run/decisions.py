"""Which decisions of people fit which questions.

Law: what does not fit is refused, and the question stays open.
"""

from collections.abc import Mapping
from typing import Any

from causeline.causal import InvalidValue, canonical
from causeline.errors import Invalid

DECISIONS: Mapping[str, frozenset[str]] = {
    "approval": frozenset({"approve", "deny", "edit"}),
    "question": frozenset({"answer", "deny"}),
    "unknown_outcome": frozenset({"retry", "record", "fail"}),
}
"""The decisions that fit each kind of question."""
NEEDS_VALUE = frozenset({"edit", "answer", "record"})
MAX_NAME = 200


class WrongDecision(Invalid):
    """A decision does not fit its question, which stays open."""

    code = "invalid"


def check_decision(question: str, kind: str, decision: Mapping[str, Any]) -> None:
    """Raises WrongDecision unless `{decision, value?, reason?, by?}` is complete and fits the kind. `question` names it in the message."""
    chosen = decision.get("decision")
    allowed = DECISIONS[kind]
    if not isinstance(chosen, str) or chosen not in allowed:
        raise WrongDecision(f"{question} is a question of kind {kind}; it takes {', '.join(sorted(allowed))}, not {chosen!r}")
    if chosen in NEEDS_VALUE and "value" not in decision:
        raise WrongDecision(f"{question}: {chosen} needs a value")
    if chosen not in NEEDS_VALUE and decision.get("value") is not None:
        # Whoever sends arguments does not mean the ones that were asked about.
        raise WrongDecision(f"{question}: {chosen} takes no value; {', '.join(sorted(allowed & NEEDS_VALUE))} does")
    if chosen == "edit" and not isinstance(decision["value"], dict):
        raise WrongDecision(f"{question}: edit needs the new arguments as an object")
    try:
        canonical(dict(decision))
    except InvalidValue as error:
        raise WrongDecision(f"{question}: {error.message}") from error
    _check_words(question, decision)


def _check_words(question: str, decision: Mapping[str, Any]) -> None:
    if "reason" in decision and decision["reason"] is not None and not isinstance(decision["reason"], str):
        raise WrongDecision(f"{question}: reason must be text")
    if "by" in decision and (not isinstance(decision["by"], str) or not 0 < len(decision["by"]) <= MAX_NAME):
        raise WrongDecision(f"{question}: by is the name of whoever decided, a text of at most {MAX_NAME} characters")
    unknown = set(decision) - {"decision", "value", "reason", "by"}
    if unknown:
        raise WrongDecision(f"{question}: unknown fields {', '.join(sorted(unknown))}")
