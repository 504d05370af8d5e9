"""The eight kinds of error, and everything else, as one message, a hint and an exit code."""

from pathlib import Path

import pytest

from causeline import errors
from causeline.adapters.stores import refusals
from causeline.cli.views import error_report


@pytest.mark.parametrize(
    "error, code",
    [
        (errors.Misuse("m"), 2),
        (errors.Invalid("m"), 1),
        (errors.Missing("m"), 1),
        (errors.Conflict("m"), 1),
        (errors.Unavailable("m"), 1),
        (errors.Refused("m"), 1),
        (errors.Exhausted("m", limit="nodes"), 1),
        (errors.Corrupt("m"), 1),
    ],
)
def test_every_kind_has_its_exit_code_and_keeps_its_message(error, code):
    message, _, found = error_report.explained(error)
    assert message.startswith("m")
    assert found == code


def test_findings_are_listed_once():
    message, _, _ = error_report.explained(errors.Invalid("two faults: a is wrong", findings=["a is wrong", "b\x1b[31m is wrong"]))
    assert message == "two faults: a is wrong\n  b is wrong"


def test_a_busy_session_says_what_to_do():
    _, hints, _ = error_report.explained(errors.Conflict("busy", code="session_busy"))
    assert "--on-busy" in hints[0]


@pytest.mark.parametrize(
    "error, said, hint",
    [
        (refusals.session_busy("s1", "r1"), "session s1 is busy with run r1", "--on-busy enqueue"),
        (refusals.run_conflict("r1"), "run r1 is there already and was asked something else", "--run-id"),
        (refusals.session_exists("s1"), "session s1 is in this store already", "causeline delete"),
        (
            errors.Missing("x; give the agent", run="r1", agent="bot"),
            "run r1 is of agent bot, whose tools are not in files",
            "--agent FILE",
        ),
        (errors.Invalid("x; answer with the agent", code="document_changed"), "the agent's graph has changed since", "--agent FILE"),
    ],
)
def test_advice_for_python_is_told_in_words_of_the_command(error, said, hint):
    message, hints, _ = error_report.explained(error)
    assert message.startswith(said)
    assert hint in hints[0]
    assert "on_busy" not in message
    assert "give the" not in message


def test_a_server_that_said_when_is_quoted():
    assert error_report.explained(errors.Unavailable("busy", retry_after=7.0))[1] == ["Try again in 7 s."]


def test_a_limit_is_named():
    assert error_report.explained(errors.Exhausted("too long", limit="depth"))[0] == "too long (limit: depth)"


def test_an_unforeseen_error_is_one_line_without_a_traceback(capsys, monkeypatch):
    monkeypatch.delenv("CAUSELINE_DEBUG", raising=False)
    monkeypatch.setattr(error_report, "_debug", False)
    assert error_report.report(ExceptionGroup("g", [ExceptionGroup("h", [ValueError("line 1\nline 2")])])) == 1
    told = capsys.readouterr().err
    assert told.startswith("causeline: ValueError: line 1\n")
    assert "Traceback" not in told
    assert "line 2" not in told


def test_the_traceback_is_there_when_asked_for(capsys, monkeypatch):
    monkeypatch.setenv("CAUSELINE_DEBUG", "1")
    try:
        raise errors.Missing("no run")
    except errors.Missing as error:
        error_report.report(error)
    told = capsys.readouterr().err
    assert "Traceback" in told
    assert "test_faults.py" in told


def test_an_error_of_the_system_names_the_file():
    with pytest.raises(OSError, match="No such file") as caught:
        Path("/nowhere/at/all").read_bytes()
    assert error_report.explained(caught.value) == ("/nowhere/at/all: No such file or directory", [], 1)


BROKEN = """
import causeline

@causeline.tool
def lookup(term: str) -> str:
    return {}["no such " + "key"]

mail = lookup
"""


def test_what_a_tool_raised_is_traced_when_asked_and_only_then(shell):
    agent = shell.agent({"calls": [{"name": "lookup", "arguments": {"term": "x"}}]}, {"text": "It failed."})
    (shell.folder / "agent.toml").write_text("""
[agent]
model = "scripted:script.json"
[graph]
type = "react"
[[tools]]
python = "tools:lookup"
""")
    (shell.folder / "tools.py").write_text(BROKEN)
    for words, traced in (((), False), (("--debug",), True), ((), False)):
        ended = shell("run", "go", "--agent", agent, "--json", *words)
        assert (ended.code, ended.last["answer"]) == (0, "It failed.")
        assert ('return {}["no such " + "key"]' in ended.err) is traced
        assert ("tool lookup failed in call" in ended.err) is traced
