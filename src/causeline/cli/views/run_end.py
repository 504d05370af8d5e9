"""How a run ended, in words and as JSON, and with which code the command leaves.

Law: pure. Every open question comes with the command lines that answer it, ready to copy.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from causeline.cli.views.clean_text import clean, command, fields, one_line, shown
from causeline.cli.views.error_report import FAILED, QUESTIONS
from causeline.cli.views.narration import Piece
from causeline.plain_text import counted
from causeline.runtime.handle import RunResult
from causeline.runtime.interrupts import DECISIONS
from causeline.runtime.records import Interrupt

_ORDER = ("approve", "deny", "edit", "answer", "retry", "record", "fail")
_VALUES: Mapping[str, Sequence[str]] = {
    "deny": ("--reason", "WHY"), "answer": ("--value", "TEXT"),
    "record": ("--value", "RESULT"), "fail": ("--reason", "WHY"),
}  # fmt: skip
_TITLES = {"approval": "may this run?", "question": "a question", "unknown_outcome": "what became of this call?"}


def exit_code(result: RunResult) -> int:
    """0 for a run that succeeded (client tools pending included), 3 with open questions, else 1."""
    if result.status == "interrupted":
        return QUESTIONS
    return 0 if result.status == "succeeded" else FAILED


def as_json(result: RunResult) -> Mapping[str, Any]:
    """The object that `--json` prints last."""
    return {
        "run": result.run_id, "session": result.session, "head": result.head, "status": result.status, "stop_reason": result.stop_reason,
        "answer": result.answer, "interrupts": [interrupt_row(one) for one in result.interrupts],
    }  # fmt: skip


def interrupt_row(interrupt: Interrupt) -> Mapping[str, Any]:
    """An open question as a record of the public interface."""
    names = ("id", "kind", "tool_call_id", "name", "arguments", "question", "reason", "run", "path")
    return {name: getattr(interrupt, name) for name in names}


def told(result: RunResult, *, said: str, further: Sequence[str]) -> Sequence[Piece]:
    """The end of a run below its events. `said` is the text that was shown already, `further` the words that name the store and, where
    the run does not know it, the agent in a command line."""
    pieces = list(outcome(result, said=said))
    pieces.extend(question for interrupt in result.interrupts for question in asked(interrupt, result.run_id, further))
    pieces.append(Piece("\n"))
    if result.status != "succeeded" or result.stop_reason != "answered":
        why = f" ({result.stop_reason})" if result.stop_reason and result.stop_reason != result.status else ""
        pieces.append(Piece(f"status   {result.status}{why}\n", "quiet"))
    rows = (("run", result.run_id), ("session", result.session), ("head", result.head or "none"), ("tokens", tokens(result.usage)))
    pieces.extend(Piece(f"{name:<8} {value}\n", "quiet") for name, value in rows if value)
    return pieces


def outcome(result: RunResult, *, said: str) -> Sequence[Piece]:
    """What came of a run: an answer that was not streamed, what is left to the caller, or what went wrong."""
    return (*_answer(result, said), *_trouble(result))


def _answer(result: RunResult, said: str) -> Sequence[Piece]:
    """The answer, unless it was streamed already."""
    if result.answer is None or result.answer == said:
        return ()
    if isinstance(result.answer, str):
        return (Piece(f"{clean(result.answer)}\n"),)
    return () if said else (Piece(f"{shown(result.answer, 10_000)}\n"),)


def _trouble(result: RunResult) -> Sequence[Piece]:
    if result.pending_tool_call_ids:
        pending = ", ".join(one_line(one) for one in result.pending_tool_call_ids)
        return (
            Piece(f"\n{counted(len(result.pending_tool_call_ids), 'call')} for you to carry out: {pending}\n", "title"),
            Piece(f"  {command('run', '--session', result.session, *_results(result))}\n", "call"),
        )
    if result.status == "cancelled":
        return (
            Piece("\nThe run was cancelled. What had finished is kept; the session goes on with the next run.\n", "bad"),
            *(
                Piece(f"left     {one_line(row.name)} ({one_line(row.call_id)}) had begun and may have had its effect\n", "bad")
                for row in result.left_started
            ),
        )
    if result.error is not None:
        return (Piece(f"\nThe run failed: {clean(str(result.error.get('message') or result.error.get('code')))}\n", "bad"),)
    return ()


def _results(result: RunResult) -> Sequence[str]:
    return [word for call in result.pending_tool_call_ids for word in ("--result", f"{one_line(call)}=TEXT")]


def tokens(usage: Mapping[str, Any] | None) -> str:
    """`120 in, 14 out`, or nothing where nothing was counted."""
    if not usage or not (usage.get("input_tokens") or usage.get("output_tokens")):
        return ""
    return f"{usage.get('input_tokens') or 0:,} in, {usage.get('output_tokens') or 0:,} out"


def asked(interrupt: Interrupt, run: str, further: Sequence[str]) -> Sequence[Piece]:
    """One open question with the command lines that answer it."""
    pieces = [Piece(f"\n{_TITLES[interrupt.kind]}  {interrupt.id}\n", "title"), *described(interrupt)]
    values = {**_VALUES, "edit": ("--value", json.dumps(interrupt.arguments, ensure_ascii=False))}
    pieces.extend(
        Piece(f"  {command('answer', run, interrupt.id, decision, *values.get(decision, ()), *further)}\n", "call")
        for decision in _ORDER
        if decision in DECISIONS[interrupt.kind]
    )
    return pieces


def described(interrupt: Interrupt) -> Sequence[Piece]:
    """What is asked: the words, the tool and its arguments as they are, nothing left out unsaid."""
    rows: list[str] = []
    if len(interrupt.path) > 1:
        rows.append(f"asked by {' > '.join(map(one_line, interrupt.path))}")
    if interrupt.question:
        rows.extend(fields(interrupt.question))
    if interrupt.reason:
        rows.extend(f"because: {row}" for row in fields(interrupt.reason))
    if interrupt.kind != "question" or not interrupt.question:
        rows.append(f"tool {shown(interrupt.name)}")
        rows.extend(f"  {row}" for row in fields(interrupt.arguments))
    return [Piece(f"  {row}\n") for row in rows]
