"""Every command takes the beginning of an id, where just one begins so."""

import pytest


@pytest.fixture
def asked(shell):
    """Runs `alpha` and `albert` in session `monday`; `alpha` waits for an approval. Returns its question and its first checkpoint."""
    shell.agent({"calls": [{"name": "mail", "arguments": {"to": "bob"}}]}, {"text": "Done."})
    question = shell.ask("mail bob", "--session", "monday", "--run-id", "alpha")["interrupts"][0]["id"]
    return question, shell("show", "monday", "--json").last["checkpoints"][0]["id"]


def test_a_question_a_run_a_checkpoint_and_a_session_are_found_by_their_beginnings(shell, asked):
    question, first = asked
    forked = shell("fork", "alp", "--at", first[:10], "--run-id", "branch", "--json")
    assert (forked.code, forked.last["run"], forked.last["session"]) == (3, "branch", "monday")
    assert shell("answer", "alp", question[:9], "approve", "--json").last["answer"] == "Done."
    assert shell("export", "mon", "--at", first[:12]).out.count(first) >= 1
    assert shell("diff", first[:10], "alp").code == 0
    assert [run["id"] for run in shell("runs", "mon", "--json").last["runs"]][:2] == ["alpha", "branch"]
    assert shell("delete", "mond", "--yes").out == "deleted session monday: 3 runs\n"


def test_a_beginning_of_two_ids_is_refused_and_names_them(shell, asked):
    shell.ask("again", "--session", "monday", "--run-id", "albert")
    ended = shell("resume", "al")
    assert ended.code == 1
    assert "2 runs begin with 'al': albert, alpha; write more of the id" in ended.err
