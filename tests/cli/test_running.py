"""run, answer, fork, resume, cancel: what they print and with which code they leave."""

import io
import json
import re
import shlex

import pytest

from tests.cli.conftest import AGENT

LOOK = {"calls": [{"name": "lookup", "arguments": {"term": "epoch"}}]}
MAIL = {"calls": [{"name": "mail", "arguments": {"to": "bob"}}]}


def say(text):
    return {"text": text}


def test_a_run_streams_its_text_calls_and_results_and_names_run_session_and_head(shell):
    agent = shell.agent(LOOK, say("It is a word."))
    ended = shell("run", "What is an epoch?", "--agent", agent)
    assert ended.code == 0
    assert re.fullmatch(
        r'call    lookup \{"term": ?"epoch"\}\n'
        r"result  lookup: epoch is a word\n"
        r"It is a word\.\n"
        r"\n"
        r"run      run_\w{24}\nsession  ses_\w{24}\nhead     ck_\w{24}\ntokens   16 in, 16 out\n",
        ended.out,
    )
    assert ended.err == ""
    assert (shell.folder / ".causeline/store.db").exists()


def test_json_has_an_event_a_line_and_then_the_result(shell):
    shell.agent(LOOK, say("It is."))
    ended = shell("run", "hi", "--agent", "agent.toml", "--json")
    *events, result = ended.rows
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
    assert events[0]["type"] == "run_started"
    assert events[-1]["type"] == "run_finished"
    assert {event["run_id"] for event in events} == {result["run"]}
    assert list(result) == ["run", "session", "head", "status", "stop_reason", "answer", "interrupts"]
    assert (result["status"], result["stop_reason"], result["answer"]) == ("succeeded", "answered", "It is.")


NOISY = """
import causeline

print("loading")

@causeline.tool(effects=False)
def lookup(term: str) -> str:
    \"\"\"Look a word up.\"\"\"
    print("looking")
    raise RuntimeError("out of\\x1b[31m words")
"""


def noisy(shell):
    shell.agent(LOOK, say("It is."), toml=AGENT.partition('[[tools]]\npython = "tools:mail"')[0])
    (shell.folder / "tools.py").write_text(NOISY)


def test_what_tools_print_does_not_mix_with_json(shell):
    noisy(shell)
    ended = shell("run", "hi", "--agent", "agent.toml", "--json", "--session", "s1")
    assert ended.last["answer"] == "It is."
    assert ended.err.splitlines() == ["loading", "looking"]
    point = shell("show", "s1", "--json").last["checkpoints"][0]["id"]
    forked = shell("fork", ended.last["run"], "--at", point, "--prompt", "again", "--json")
    assert (forked.last["answer"], forked.err.splitlines()) == ("It is.", ["loading", "looking"])
    assert shell("run", "hi", "--agent", "agent.toml").out.startswith("loading\n")


def test_the_traceback_of_a_tool_is_shown_when_asked_for(shell):
    noisy(shell)
    told = shell("run", "--debug", "hi", "--agent", "agent.toml", "--json").err
    assert "Traceback" in told
    assert "RuntimeError: out of words" in told
    assert "Traceback" not in shell("run", "hi", "--agent", "agent.toml", "--json").err


def test_hostile_text_reaches_neither_the_screen_nor_the_lines_for_programs(shell):
    nasty = "\x1b]0;owned\x07\x1b[2Jfine\x9b31m\u202e"
    shell.agent({"calls": [{"name": "lookup", "arguments": {"term": nasty}}]}, say(nasty))
    ended = shell("run", "hi", "--agent", "agent.toml")
    assert ended.code == 0
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e]", ended.out)
    assert "fine" in ended.out
    assert shell("run", "hi", "--agent", "agent.toml", "--json").out.isascii()


def test_a_failed_run_says_why_and_leaves_with_1(shell):
    shell.agent({"status": 401, "body": {"error": {"message": "wrong key"}}})
    ended = shell("run", "hi", "--agent", "agent.toml")
    assert ended.code == 1
    assert "The run failed: " in ended.out
    assert "wrong key" in ended.out
    assert "status   failed (model_error)" in ended.out


def test_a_known_run_id_shows_that_run_again_and_another_body_is_refused(shell):
    shell.agent(LOOK, say("It is."))
    first = shell("run", "hi", "--agent", "agent.toml", "--run-id", "r1", "--session", "s1", "--json")
    again = shell("run", "hi", "--agent", "agent.toml", "--run-id", "r1", "--session", "s1", "--json")
    assert again.out == first.out
    other = shell("run", "ho", "--agent", "agent.toml", "--run-id", "r1", "--session", "s1")
    assert other.code == 1
    assert other.out == ""
    assert "--run-id" in other.err


@pytest.mark.parametrize("option, name", [("--session", "../x"), ("--run-id", "a b")])
def test_a_name_that_cannot_be_one_is_refused_before_anything_is_written(shell, option, name):
    shell.agent(say("hi"))
    ended = shell("run", "hi", "--agent", "agent.toml", option, name)
    assert ended.code == 1
    assert name in ended.err
    assert shell("sessions", "--json").last == {"sessions": []}


def test_an_agent_file_that_is_not_there_or_wrong_is_told_by_line(shell):
    assert shell("run", "hi", "--agent", "none.toml").code == 1
    shell.agent(say("hi"), toml='[agent]\nname = "bot"\nmodle = "scripted:echo"\n[graph]\ntype = "react"\n')
    ended = shell("run", "hi", "--agent", "agent.toml")
    assert ended.code == 1
    assert "agent.toml:3" in ended.err
    assert "did you mean model?" in ended.err


def test_wrong_words_are_a_usage_error(shell):
    for words in (
        ("run",),
        ("run", "hi"),
        ("rum",),
        ("run", "hi", "--agent", "a.toml", "--on-busy", "explode"),
        ("answer", "r", "i", "perhaps"),
    ):
        ended = shell(*words)
        assert ended.code == 2
        assert "Usage: causeline" in ended.err
    assert "Did you mean 'run'" in shell("rum").err


def test_a_prompt_that_says_nothing_is_a_usage_error_and_starts_no_run(shell, monkeypatch):
    shell.agent(say("hi"))
    monkeypatch.setattr("sys.stdin", io.StringIO("\n"))
    for prompt in ("", "  ", "-"):
        ended = shell("run", prompt, "--agent", "agent.toml")
        assert ended.code == 2
        assert "nothing to ask" in ended.err
    assert not (shell.folder / ".causeline").exists()
    assert shell("fork", "r1", "--at", "ck_1", "--prompt", " ").code == 2


def test_an_open_question_leaves_with_3_and_the_printed_command_answers_it(shell):
    shell.agent(MAIL, say("Mail sent."))
    ended = shell("run", "mail bob", "--agent", "agent.toml")
    assert ended.code == 3
    assert "  tool mail\n    to: bob\n" in ended.out
    command = next(line for line in ended.out.splitlines() if line.startswith("  causeline answer ") and " approve" in line)
    answered = shell(*shlex.split(command)[1:])
    assert answered.code == 0
    assert "result  mail: sent to bob\nMail sent.\n" in answered.out


def test_each_decision_reaches_the_tool_or_the_model(shell):
    shell.agent(MAIL, say("Done."))
    for words, expected in ((("deny", "--reason", "not now"), "not now"), (("edit", "--value", '{"to": "eve"}'), "sent to eve")):
        asked = shell.ask("mail bob")
        assert asked["status"] == "interrupted"
        ended = shell("answer", asked["run"], asked["interrupts"][0]["id"], *words, "--json")
        assert ended.code == 0
        assert any(expected in event.get("content", "") for event in ended.rows if event.get("type") == "tool_call_result")
        assert ended.last["answer"] == "Done."


@pytest.mark.parametrize(
    "value, known", [("Paris", "Paris"), ('"Paris"', "Paris"), ("42", "42"), ('{"city": "Paris"}', '{"city":"Paris"}')]
)
def test_a_question_is_answered_with_text_or_json(shell, value, known):
    shell.agent({"calls": [{"name": "ask_human", "arguments": {"question": "Where?"}}]}, say("Thanks."))
    asked = shell.ask()
    assert asked["interrupts"][0]["kind"] == "question"
    ended = shell("answer", asked["run"], asked["interrupts"][0]["id"], "answer", "--value", value, "--json")
    results = [event["content"].replace(" ", "") for event in ended.rows if event.get("type") == "tool_call_result"]
    assert (ended.code, results) == (0, [known])


def test_answers_that_do_not_fit_are_refused_and_leave_the_question_open(shell):
    shell.agent(MAIL, say("Done."))
    asked = shell.ask()
    run, name = asked["run"], asked["interrupts"][0]["id"]
    assert shell("answer", run, name, "retry").code == 1
    assert shell("answer", run, name, "edit", "--value", "{broken").code == 2
    assert shell("answer", run, name, "edit", "--value", "[1]").code == 2
    missing = shell("answer", run, name, "edit")
    assert (missing.code, "--value" in missing.err, "the new arguments as a JSON object" in missing.err) == (2, True, True)
    assert shell("answer", run, name, "edit", "--value", '{"to": 7}').code == 1
    assert shell("answer", run, "int_none", "approve").code == 1
    assert shell("answer", run, name, "approve").code == 0
    again = shell("answer", run, name, "approve")
    assert again.code == 1
    assert "already" in again.err


def test_a_fork_takes_the_runs_own_agent_and_leaves_the_first_branch_alone(shell):
    shell.agent(LOOK, say("First."))
    first = shell.ask("hi", "--session", "s1")
    shell("export", "s1", "-o", "before.json")
    point = next(row for row in shell("show", "s1", "--json").last["checkpoints"] if row["node"].endswith("call_tools"))
    shell.script(say("Second."))
    ended = shell("fork", first["run"], "--at", point["id"], "--prompt", "again", "--json")
    assert (ended.code, ended.last["answer"], ended.last["session"]) == (0, "Second.", "s1")
    shell("export", "s1", "-o", "after.json", "--at", first["head"])
    assert (shell.folder / "after.json").read_bytes() == (shell.folder / "before.json").read_bytes()
    assert shell("fork", first["run"], "--at", "ck_none").code == 1


def test_a_fork_of_an_imported_run_does_not_take_the_agent_that_came_with_it(shell):
    shell.agent(LOOK, say("First."))
    first = shell.ask("hi", "--session", "s1")
    shell("export", "s1", "-o", "s1.json")
    shell("import", "s1.json", "--store", "sqlite:///other.db")
    point = next(row for row in shell("show", "s1", "--json").last["checkpoints"] if row["node"].endswith("call_tools"))
    shell.script(say("Second."))
    fork = ("fork", first["run"], "--at", point["id"], "--prompt", "again", "--store", "sqlite:///other.db", "--json")
    refused = shell(*fork)
    assert (refused.code, "--agent FILE" in refused.err) == (1, True)
    assert len(shell("runs", "--store", "sqlite:///other.db", "--json").last["runs"]) == 1
    assert shell(*fork, "--agent", "agent.toml").last["answer"] == "Second."


def test_run_at_a_checkpoint_finds_its_session(shell):
    shell.agent(say("First."))
    first = shell.ask("hi")
    second = shell.ask("and now?", "--at", first["head"])
    assert second["session"] == first["session"]
    ended = shell("run", "hi", "--agent", "agent.toml", "--at", "ck_none")
    assert (ended.code, "ck_none" in ended.err) == (1, True)


def test_resuming_an_ended_run_prints_its_end(shell):
    shell.agent(LOOK, say("It is."))
    first = shell.ask()
    ended = shell("resume", first["run"])
    assert ended.code == 0
    assert ended.out.startswith("It is.\n")
    assert shell("resume", first["run"], "--json").last == first
    shell.script({"status": 401})
    failed = shell.ask()
    assert shell("resume", failed["run"]).code == 0
    assert shell("resume", "run_none").code == 1


def test_resuming_a_run_that_waits_lists_its_questions(shell):
    shell.agent(MAIL)
    asked = shell.ask()
    ended = shell("resume", asked["run"])
    assert ended.code == 3
    assert f"causeline answer {asked['run']} {asked['interrupts'][0]['id']} approve" in ended.out


def test_cancelling_an_ended_run_leaves_it_alone(shell):
    shell.agent(say("Yes."))
    first = shell.ask()
    assert shell("cancel", first["run"], "--json").last == first
    assert shell("cancel", "run_none").code == 1


def test_another_model_may_be_named_on_the_command_line(shell):
    shell.agent(say("from the file"))
    (shell.folder / "other.json").write_text(json.dumps([say("from the line")]))
    assert shell.ask("hi", "--model", "scripted:other.json")["answer"] == "from the line"
    assert shell.ask("hi", "--model", "scripted:echo")["answer"] == "hi"
    wrong = shell("run", "hi", "--agent", "agent.toml", "--model", "magic:x")
    assert (wrong.code, "magic" in wrong.err) == (1, True)


HELPER = """
import causeline

@causeline.tool(approval="ask")
def mail(to: str) -> str:
    \"\"\"Send mail.\"\"\"
    return f"sent to {to}"

helper = causeline.Agent("scripted:helper.json", name="helper", tools=[mail]).as_tool("helper", "Helps.")
"""
OUTER = """
[agent]
name = "bot"
model = "scripted:script.json"
[graph]
type = "react"
[[tools]]
python = "below:helper"
"""


def test_a_question_of_an_agent_below_is_shown_and_answered_on_the_command_line(shell):
    shell.agent({"calls": [{"name": "helper", "arguments": {"prompt": "mail bob"}}]}, say("All done."), toml=OUTER)
    (shell.folder / "below.py").write_text(HELPER)
    (shell.folder / "helper.json").write_text(json.dumps([MAIL, say("Mailed.")]))
    ended = shell("run", "go", "--agent", "agent.toml", "--run-id", "r1", "--session", "s")
    assert ended.code == 3
    assert "asked by bot > helper\n" in ended.out
    assert '  helper: call    mail {"to":"bob"}\n' in ended.out
    interrupt = re.search(r"int_\w{24}", ended.out)[0]
    assert f"open: {interrupt}  may it run: mail" in shell("show", "s").out
    assert "(asked by helper)" in shell("runs", "s").out
    answered = shell("answer", "r1", interrupt, "edit", "--value", '{"to": "eve"}', "--by", "ada")
    assert answered.code == 0
    assert "(by ada)\n" in answered.out
    assert "  helper: result  mail: sent to eve\n" in answered.out
    assert "All done.\n" in answered.out
    assert shell("answer", "r1", interrupt, "approve").code == 1
