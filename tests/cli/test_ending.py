"""How a run ended: exit codes, the final object, and questions with the command lines that answer them."""

import shlex

import pytest

from causeline.cli.views import run_end
from tests.cli.samples import asked, ended


def words(result, *, said="", store=()):
    return "".join(piece.text for piece in run_end.told(result, said=said, further=store))


@pytest.mark.parametrize(
    "status, reason, code",
    [
        ("succeeded", "answered", 0),
        ("succeeded", "client_tools", 0),
        ("succeeded", "tool_rounds", 0),
        ("interrupted", "interrupted", 3),
        ("failed", "model_error", 1),
        ("cancelled", "cancelled", 1),
    ],
)
def test_exit_codes(status, reason, code):
    assert run_end.exit_code(ended(status, reason)) == code


def test_the_last_object_has_exactly_the_agreed_keys():
    row = run_end.as_json(ended("interrupted", "interrupted", interrupts=[asked(reason="policy")]))
    assert list(row) == ["run", "session", "head", "status", "stop_reason", "answer", "interrupts"]
    assert row["interrupts"] == [
        {
            "id": "int_1",
            "kind": "approval",
            "tool_call_id": "c1",
            "name": "mail",
            "arguments": {"to": "bob"},
            "question": "May mail run with these arguments?",
            "reason": "policy",
            "run": "run_1",
            "path": [],
        }
    ]


def test_the_end_names_run_session_and_head_and_not_what_was_streamed():
    assert words(ended(answer="Yes."), said="Yes.") == "\nrun      run_1\nsession  ses_1\nhead     ck_1\n"


def test_an_answer_that_was_not_streamed_is_printed():
    assert words(ended(answer="Y\x1b[31mes."), said="").startswith("Yes.\n")
    assert words(ended(answer={"n": 1}), said="").startswith('{"n": 1}\n')


def test_a_failed_run_says_why():
    text = words(ended("failed", "model_error", error={"code": "x", "message": "no key\x1b[2J"}))
    assert "The run failed: no key\n" in text
    assert "status   failed (model_error)\n" in text


def test_client_calls_are_listed():
    text = words(ended(stop_reason="client_tools", pending_tool_call_ids=["c1", "c2"]))
    assert "2 calls for you to carry out: c1, c2\n" in text
    assert "causeline run --session ses_1 --result c1=TEXT --result c2=TEXT\n" in text


@pytest.mark.parametrize(
    "kind, decisions",
    [("approval", ["approve", "deny", "edit"]), ("question", ["deny", "answer"]), ("unknown_outcome", ["retry", "record", "fail"])],
)
def test_an_open_question_comes_with_the_command_lines_that_answer_it(kind, decisions):
    text = words(ended("interrupted", "interrupted", interrupts=[asked(kind)]), store=("--store", "sqlite:///my store.db"))
    lines = [shlex.split(row) for row in text.splitlines() if row.startswith("  causeline ")]
    assert [line[:5] for line in lines] == [["causeline", "answer", "run_1", "int_1", decision] for decision in decisions]
    assert all(line[-2:] == ["--store", "sqlite:///my store.db"] for line in lines)


def test_an_approval_shows_the_arguments_as_they_are():
    text = words(ended("interrupted", "interrupted", interrupts=[asked(arguments={"to": "bob\x1b[8m", "body": "a\nto: eve"})]))
    assert "  tool mail\n    to: bob\\u001b[8m\n    body: a\n      to: eve\n" in text


def test_a_question_is_shown_as_it_was_asked():
    text = words(
        ended("interrupted", "interrupted", interrupts=[asked("question", question="Which?\n- a\n- b", arguments={"question": "Which?"})])
    )
    assert "a question  int_1\n  Which?\n    - a\n    - b\n" in text


@pytest.mark.parametrize(
    "usage, said", [(None, ""), ({"input_tokens": 0}, ""), ({"input_tokens": 1200, "output_tokens": 3}, "1,200 in, 3 out")]
)
def test_tokens(usage, said):
    assert run_end.tokens(usage) == said


def test_a_reason_that_repeats_the_status_is_left_out():
    assert "status   interrupted\n" in words(ended("interrupted", "interrupted"))
    assert "status   cancelled (loop)\n" in words(ended("cancelled", "loop"))
