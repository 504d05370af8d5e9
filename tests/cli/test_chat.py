"""A conversation at the terminal: turns, approvals, Ctrl-C and Ctrl-D."""

import builtins
import signal
import subprocess

import pytest

from causeline.cli.views.ask_person import decide
from tests.cli.samples import asked

LOOK = {"calls": [{"name": "lookup", "arguments": {"term": "x"}}]}
MAIL = {"calls": [{"name": "mail", "arguments": {"to": "bob"}}]}
SLOW = {**LOOK, "delay": 30}


@pytest.fixture
def talk(shell, monkeypatch):
    """Hold a conversation: each line is typed when something is read; then Ctrl-D."""

    def hold(*lines: str, words=()):
        waiting = iter(lines)

        def read(_prompt=""):
            line = next(waiting, None)
            if line is None:
                raise EOFError
            if line == "^C":
                raise KeyboardInterrupt
            return line

        monkeypatch.setattr(builtins, "input", read)
        return shell("chat", "--agent", "agent.toml", *words)

    return hold


def test_turns_share_one_session_that_is_named_at_the_end(shell, talk):
    shell.agent({"text": "Hello."})
    ended = talk("hi", "", "hi again")
    assert ended.code == 0
    assert ended.out.startswith("Hello.\nHello.\n")
    [session] = shell("sessions", "--json").last["sessions"]
    assert len(shell("runs", session["id"], "--json").last["runs"]) == 2
    assert ended.out.endswith(f"go on later with  causeline chat --agent agent.toml --session {session['id']}\n")
    assert talk("more", words=("--session", session["id"])).code == 0
    assert len(shell("runs", session["id"], "--json").last["runs"]) == 3


def test_an_approval_is_asked_here_with_its_arguments(shell, talk):
    shell.agent(MAIL, {"text": "Sent."})
    ended = talk("mail bob", "perhaps", "approve")
    assert "  tool mail\n    to: bob\n" in ended.out
    assert "result  mail: sent to bob\nSent.\n" in ended.out


def test_ctrl_c_at_an_approval_leaves_it_open_and_returns_to_the_prompt(shell, talk):
    shell.agent(MAIL, {"text": "Sent."})
    ended = talk("mail bob", "^C", words=("--session", "s1"))
    assert (ended.code, "left open" in ended.out) == (0, True)
    assert shell("runs", "s1", "--json").last["runs"][-1]["interrupts"]


def test_a_call_is_told_once_in_a_conversation_unless_it_was_edited(shell, talk):
    shell.agent(MAIL, {"text": "Sent."})
    assert talk("mail bob", "approve").out.count("call    mail") == 1
    edited = talk("mail bob", "edit", '{"to": "eve"}').out
    assert [line for line in edited.splitlines() if line.startswith("call")] == ['call    mail {"to":"bob"}', 'call    mail {"to":"eve"}']


def test_words_for_the_chat_do_not_go_to_the_model(shell, talk):
    shell.agent({"text": "Hello."})
    ended = talk("/help", "/hlep", "hi", "exit", "never")
    assert (ended.code, ended.out.count("Hello.")) == (0, 1)
    assert ended.out.startswith("Ctrl-C stops a turn")
    assert "There is no command /hlep." in ended.out
    [session] = shell("sessions", "--json").last["sessions"]
    assert len(shell("runs", session["id"], "--json").last["runs"]) == 1


def test_the_way_back_names_the_model_that_was_given(shell, talk):
    shell.agent({"text": "Hello."})
    ended = talk("hi", words=("--session", "s1", "--model", "scripted:echo"))
    assert ended.out.endswith("go on later with  causeline chat --agent agent.toml --session s1 --model scripted:echo\n")


def test_a_word_that_is_no_decision_is_said_to_be_none():
    lines, prompts = iter(["perhaps", "edit", "{", ""]), []
    assert decide(asked("approval"), lambda prompt: (prompts.append(prompt), next(lines))[1]) is None
    assert prompts[1].startswith("  'perhaps' is none of these: approve, deny, edit")
    assert prompts[3].startswith("  that is no JSON object; new arguments")


def test_a_question_left_open_is_asked_again_in_a_later_conversation(shell, talk):
    shell.agent(MAIL, {"text": "Sent."})
    left = talk("mail bob", "", words=("--session", "s1"))
    assert "left open" in left.out
    ended = talk("deny", "not now", words=("--session", "s1"))
    assert "not approved: not now" in ended.out
    assert ended.out.count("Sent.") == 1


def test_an_error_in_a_turn_does_not_end_the_conversation(shell, talk):
    shell.agent({"text": "Hello."})
    shell.ask("hi", "--session", "s1")
    ended = talk("hi", words=("--session", "s1", "--model", "scripted:echo"))
    assert (ended.code, "hi" in ended.out) == (0, True)
    failing = talk("hi", "hi", words=("--model", "scripted:none.json"))
    assert failing.code == 0
    assert failing.err.count("none.json") == 2


def test_ctrl_c_at_the_prompt_leaves(shell, talk):
    shell.agent({"text": "Hello."})
    assert talk("hi", "^C").code == 130


def test_ctrl_c_stops_the_turn_and_returns_to_the_prompt(shell, start):
    shell.agent(LOOK, SLOW)
    process = start("chat", "--agent", "agent.toml", stdin=subprocess.PIPE)
    process.inner.stdin.write("hi\n")
    process.inner.stdin.flush()
    process.until("result  lookup")
    process.send(signal.SIGINT)
    process.until("The run was cancelled.")
    shell.script({"text": "never read again"})
    process.inner.stdin.close()
    process.inner.stdin = None
    code, out, err = process.end()
    assert code == 0
    assert "go on later with" in out
    assert "Traceback" not in err


@pytest.mark.parametrize(
    "kind, lines, decision",
    [
        ("approval", ["approve"], {"decision": "approve"}),
        ("approval", ["Y"], {"decision": "approve"}),
        ("approval", ["what?", "n", ""], {"decision": "deny"}),
        ("approval", ["d", "too late"], {"decision": "deny", "reason": "too late"}),
        ("approval", ["edit", "{", "[1]", '{"to": "eve"}'], {"decision": "edit", "value": {"to": "eve"}}),
        ("approval", ["edit", ""], None),
        ("approval", [""], None),
        ("question", ["Paris"], {"decision": "answer", "value": "Paris"}),
        ("question", [""], None),
        ("unknown_outcome", ["y", "r", "re", "retry"], {"decision": "retry"}),
        ("unknown_outcome", ["record", "it was sent"], {"decision": "record", "value": "it was sent"}),
        ("unknown_outcome", ["f", ""], {"decision": "fail"}),
    ],
)
def test_only_a_clear_word_decides(kind, lines, decision):
    waiting = iter(lines)
    assert decide(asked(kind), lambda _prompt: next(waiting)) == decision
    assert next(waiting, None) is None
