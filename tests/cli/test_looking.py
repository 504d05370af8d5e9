"""sessions, runs, show, why, recall, export, import, verify: what they print, for people and for programs."""

import json
import subprocess
import sys

import pytest

from causeline.causal.view.node_text import decision_text
from causeline.cli.opening import place

LOOK = {"calls": [{"name": "lookup", "arguments": {"term": "epoch"}}]}


@pytest.fixture
def told(shell):
    """A folder with one finished run in session s1."""
    shell.agent(LOOK, {"text": "It is a word."})
    result = shell.ask("What is an epoch?", "--session", "s1", "--run-id", "r1")
    assert result["status"] == "succeeded"
    return shell


def test_without_a_store_a_look_says_so_and_makes_none(shell):
    for words in (("sessions",), ("runs",), ("show", "s1"), ("why", "cw_1"), ("recall", "s1"), ("export", "s1", "-o", "x")):
        ended = shell(*words)
        assert ended.code == 1
        assert "there is no store at .causeline/store.db" in ended.err
    assert not list(shell.folder.iterdir())


def test_the_store_comes_from_the_option_then_the_variable_then_the_default(told, monkeypatch):
    monkeypatch.setenv("CAUSELINE_STORE", "sqlite:///other.db")
    told.ask("hi", "--session", "s2")
    names = [row["id"] for row in told("sessions", "--json").last["sessions"]]
    given = [row["id"] for row in told("sessions", "--json", "--store", "sqlite:///.causeline/store.db").last["sessions"]]
    assert (names, given) == (["s2"], ["s1"])
    assert "causeline answer" not in told("show", "s2").out


def test_sessions_and_runs_are_listed(told):
    title, row = told("sessions").out.splitlines()
    assert title.split()[:2] == ["SESSION", "UPDATED"]
    assert row.split()[0] == "s1"
    assert row.endswith("What is an epoch?")
    title, row = told("runs", "s1").out.splitlines()
    assert row.split()[:2] == ["r1", "s1"]
    assert "succeeded" in row
    listed = told("runs", "--json").last["runs"]
    assert [(one["id"], one["status"], one["answer"]) for one in listed] == [("r1", "succeeded", "It is a word.")]
    assert told("runs", "none").code == 1


MAIL = {"calls": [{"name": "mail", "arguments": {"to": "bob"}}]}


@pytest.fixture
def waiting(shell):
    """A folder with a run in session s1 that waits for an approval; returns its question."""
    shell.agent(MAIL, {"text": "Done."})
    return shell.ask("mail bob", "--session", "s1", "--run-id", "r1")["interrupts"][0]


def listed(shell, *words):
    return {one["id"]: one for one in shell("runs", *words, "--json").last["runs"]}


def test_open_questions_are_listed_with_the_run_that_waits(shell, waiting):
    text = shell("runs").out
    assert "1 open question" in text
    assert f'  open: {waiting["id"]}  may it run: mail {{"to": "bob"}}\n' in text
    assert "causeline resume r1\n" in text
    assert f"  open: {waiting['id']}  may it run: mail" in shell("show", "s1").out
    row = listed(shell)["r1"]
    assert (row["interrupts"], row["answered_by"]) == ([waiting], None)
    assert "manifest" not in row
    assert shell("resume", "r1").code == 3


def test_a_run_that_was_answered_names_the_run_that_goes_on(shell, waiting):
    later = shell("answer", "r1", waiting["id"], "edit", "--value", '{"to": "eve"}', "--reason", "bob left", "--json").last["run"]
    assert f"answered by {later}" in shell("runs").out
    assert "open:" not in shell("runs").out
    assert (listed(shell)["r1"]["interrupts"], listed(shell)["r1"]["answered_by"]) == ([], later)
    assert listed(shell, "s1")[later]["answered_by"] is None
    text = shell("show", "s1").out
    assert f"interrupted (answered by {later})" in text
    assert '  edited to {"to": "eve"}, because: bob left\n' in text
    ended = shell("resume", "r1")
    assert ended.code == 0
    assert f"Its questions were answered by {later}; `causeline resume {later}` shows how that ended." in ended.out


def test_questions_that_a_message_made_void_are_said_to_be(shell, waiting):
    shell.script({"text": "Never mind."})
    shell.ask("forget it", "--session", "s1")
    assert "superseded by a later message" in shell("runs").out
    assert "Its questions were superseded by a later message." in shell("resume", "r1").out
    shell("export", "s1", "-o", "x.json")
    shell("import", "x.json", "--store", "sqlite:///b.db")
    assert "superseded" not in shell("runs", "--store", "sqlite:///b.db").out


@pytest.mark.parametrize(
    "answer, told",
    [
        ({"decision": "approve"}, "approved"),
        ({"decision": "deny", "reason": "no\x1b[2J"}, "denied, because: no"),
        ({"decision": "deny", "reason": None}, "denied"),
        ({"decision": "record", "value": {"a": 1}}, 'result recorded: {"a": 1}'),
        ({"decision": "fail", "reason": "gone"}, "counted as failed, because: gone"),
        ({"decision": "retry"}, "run again"),
        ({"decision": "answer", "value": "Paris"}, "answered Paris"),
    ],
)
def test_a_decision_is_told_with_its_value_and_reason(answer, told):
    assert decision_text(answer) == told


def test_a_trace_has_every_step_with_its_checkpoint_and_nodes(told):
    text = told("show", "s1").out
    shown = told("show", "s1", "--json").last
    assert [one["step"] for one in shown["checkpoints"]] == [0, 1, 2, 3, 4]
    for row in [*shown["checkpoints"], *shown["nodes"]]:
        assert row["id"] in text
    assert [node["kind"] for node in shown["nodes"]] == ["goal", "inference", "tool_call", "tool_result", "inference", "answer"]
    assert shown["head"] == shown["checkpoints"][-1]["id"]
    assert [(call["name"], call["state"]) for call in shown["calls"]] == [("lookup", "succeeded")]
    assert 'lookup {"term": "epoch"}' in text
    assert "8 in, 8 out" in text


def test_the_causal_graph_is_mermaid_text(told):
    text = told("show", "s1", "--graph").out
    assert text.startswith("flowchart TB\n")
    assert text.count("-->") == sum(len(node["parents"]) for node in told("show", "s1", "--json").last["nodes"])
    assert told("show", "s1", "--graph", "--json").last["graph"] == text


def test_a_run_off_the_head_branch_can_still_be_shown(told):
    point = told("show", "s1", "--json").last["checkpoints"][0]["id"]
    told("run", "another way", "--agent", "agent.toml", "--session", "s1", "--at", point, "--run-id", "r2")
    assert "1 run not on this branch" not in told("show", "s1").out  # the fork shares the first run's first step
    alone = told("show", "s1", "--run", "r1", "--json").last
    assert [one["run"] for one in alone["checkpoints"]] == ["r1"] * 5
    assert told("show", "s1", "--run", "none").code == 1
    assert told("show", "none").code == 1


def test_why_is_the_read_set_with_the_inference_last(told):
    nodes = told("show", "s1", "--json").last["nodes"]
    answer, inference, result = nodes[-1]["id"], nodes[-2]["id"], nodes[-3]["id"]
    assert [one["id"] for one in told("why", answer, "--json").last["why"]] == [result, inference]
    *rows, remark = told("why", answer).out.splitlines()
    assert [row.strip("└─ ").split()[1] for row in rows] == [answer, inference, result]
    assert told("why").out == told("why", "r1").out == told("why", answer[:9]).out
    assert remark == "3 more lie behind these (--all)"


def test_why_all_is_everything_before_the_inference(told):
    nodes = [node["id"] for node in told("show", "s1", "--json").last["nodes"]]
    assert [one["id"] for one in told("why", nodes[-1], "--all", "--json").last["why"]] == nodes[:-1]
    *rows, remark = told("why", nodes[-1], "--all").out.splitlines()
    assert [row.split()[0] for row in rows] == nodes[:-1]
    assert "--all" not in remark


def test_why_of_a_question_says_that_no_inference_led_to_it(told):
    goal = told("show", "s1", "--json").last["nodes"][0]["id"]
    for words in ((), ("--all",)):
        ended = told("why", goal, *words)
        assert ended.code == 0
        assert ended.out.endswith("no inference led to this: it is a goal, which comes from outside the model\n")
    assert told("why", goal, "--json").last == {"node": goal, "why": []}


def test_why_of_no_node_says_where_nodes_are_listed(told):
    for words in (("cw_none",), ("r9",)):
        ended = told("why", *words)
        assert ended.code == 1
        assert words[0] in ended.err
        assert "causeline show" in ended.err
    elsewhere = told("why", told("show", "s1", "--json").last["nodes"][0]["id"], "--session", "s9")
    assert (elsewhere.code, elsewhere.err) == (1, "causeline: no session 's9'; `causeline sessions` lists them\n")


def test_provenance_is_asked_in_sparql(told):
    query = 'SELECT ?said { ?node ns:kind "answer" ; ns:text ?said }'
    assert told("query", query).out.splitlines() == ["said", "It is a word."]
    assert told("query", query, "--json", "--session", "s1").last == [{"said": {"type": "literal", "value": "It is a word."}}]
    assert told("query", "ASK { ?run a ns:Run }").out == "yes\n"
    assert told("query", "CONSTRUCT { ?c ?p ?o } { ?c a ns:Call ; ?p ?o }").out.count("urn:causeline:call:r1/") > 3
    assert told("query", "SELECT * { ?s ns:nothing ?o }").out == "nothing found\n"
    assert (told("query", "SELECT").code, told("query", "ASK {}", "--session", "s9").code) == (1, 1)


def test_two_runs_are_compared_and_versions_listed(shell):
    shell.agent({"text": "one"})
    shell.ask("first", "--session", "s1", "--run-id", "r1")
    shell.ask("second", "--session", "s1", "--run-id", "r2")
    found = shell("diff", "r1", "r2", "--json").last
    assert (found["before"], [node["kind"] for node in found["after"]]) == ([], ["goal", "inference", "answer"])
    assert "+ " in shell("diff", "r1", "r2").out
    assert shell("diff", "r1", "r9").code == 1
    pair = [node["id"] for node in found["after"] if node["kind"] in ("goal", "answer")]
    versions = shell("diff", *pair, "--json").last
    assert (versions["common"], [row["id"] for row in versions["after"]], versions["resources"]) == (0, [pair[1]], {pair[1]: pair})
    assert " -> " in shell("diff", *pair).out
    assert shell("diff", "s1", "s1", "--json").last["before"] == []
    assert shell("history", "home", "--session", "s1").code == 1


def test_recall_cites_what_it_says(told):
    found = told("recall", "s1", "--json").last
    assert "It is a word." in found["text"]
    known = {node["id"] for node in told("show", "s1", "--json").last["nodes"]}
    assert {one["node"] for one in found["citations"]} <= known
    assert told("recall", "--query", "epoch").out == told("recall", "s1").out
    assert told("recall").code == 2
    assert told("recall", "none").code == 1


def test_an_export_verifies_anywhere_and_comes_back_in_another_store(told):
    head = told("show", "s1", "--json").last["head"]
    wrote = told("export", "s1", "-o", "x.json")
    assert (wrote.code, head in wrote.out) == (0, True)
    ok = told("verify", "x.json", "--head", head)
    assert ok.out == f"ok: 6 nodes, 5 checkpoints, 1 run; head {head}\n"
    assert told("verify", "x.json", "--json").last["nodes"] == 6
    taken = told("import", "x.json", "--store", "sqlite:///new.db")
    assert taken.out.splitlines()[0] == f"imported session s1, head {head}"
    assert told("show", "s1", "--json", "--store", "sqlite:///new.db").last["nodes"] == told("show", "s1", "--json").last["nodes"]
    again = told("import", "x.json", "--store", "sqlite:///new.db")
    assert (again.code, "s1" in again.err) == (1, True)


def test_an_export_on_standard_output_is_the_file(told):
    told("export", "s1", "-o", "x.json")
    printed = subprocess.run([sys.executable, "-m", "causeline.cli", "export", "s1"], capture_output=True, check=True)
    assert printed.stdout == (told.folder / "x.json").read_bytes()
    assert told("verify", "x.json").code == 0


def test_a_forged_export_is_refused_naming_the_node(told):
    told("export", "s1", "-o", "x.json")
    whole = (told.folder / "x.json").read_bytes()
    goal = told("show", "s1", "--json").last["nodes"][0]["id"]
    (told.folder / "bad.json").write_bytes(whole.replace(b"What is an epoch?", b"What is an era?"))
    ended = told("verify", "bad.json")
    assert (ended.code, ended.out, goal in ended.err) == (1, "", True)
    assert told("import", "bad.json", "--store", "sqlite:///new.db").code == 1
    assert told("verify", "x.json", "--head", "ck_" + "0" * 24).code == 1
    assert told("verify", "none.json").code == 1


def test_a_bare_log_verifies_and_has_no_head(told):
    nodes = told("show", "s1", "--json").last["nodes"]
    log = {"version": 1, "nodes": nodes, "frontier": [nodes[-1]["id"]]}
    (told.folder / "log.json").write_text(json.dumps(log, indent=1))
    assert told("verify", "log.json").out.startswith("ok: 6 nodes")
    assert told("verify", "log.json", "--head", "ck_1").code == 2


def test_a_bare_log_is_imported_as_a_session_of_its_own(told):
    nodes = told("show", "s1", "--json").last["nodes"]
    log = {"version": 1, "nodes": nodes, "frontier": [nodes[-1]["id"]]}
    (told.folder / "log.json").write_text(json.dumps(log, indent=1))
    assert told("import", "log.json", "--head", "ck_1").code == 2
    taken = told("import", "log.json", "--json").last
    shown = told("show", taken["session"], "--json").last
    assert (shown["head"], shown["nodes"], shown["session"] == "s1") == (taken["head"], nodes, False)
    assert told("export", taken["session"], "-o", "again.json").code == 0
    assert told("verify", "again.json", "--head", taken["head"]).code == 0
    assert json.loads((told.folder / "again.json").read_text())["state"] == log
    assert told("import", "log.json", "--json").last["session"] not in ("s1", taken["session"])
    (told.folder / "log.json").write_text('{"version": 1, "version": 1, "nodes": [], "frontier": []}')
    assert told("import", "log.json").code == 1


def test_a_session_is_deleted_only_when_that_is_meant(told, monkeypatch):
    asked = told("delete", "s1")
    assert (asked.code, "nothing was deleted" in asked.out) == (1, True)
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    for said, code in (("no", 1), ("yes", 0)):
        monkeypatch.setattr("builtins.input", lambda _prompt, said=said: said)
        assert told("delete", "s1").code == code
    assert told("sessions", "--json").last == {"sessions": []}
    assert told("delete", "s1", "--yes").code == 1


def test_an_import_over_a_session_names_the_command_that_makes_room(told):
    told("export", "s1", "-o", "x.json")
    ended = told("import", "x.json")
    assert ended.code == 1
    assert "session s1 is in this store already" in ended.err
    assert "causeline delete SESSION" in ended.err
    assert told("delete", "s1", "--yes").out == "deleted session s1: 1 run\n"
    assert told("import", "x.json").code == 0


def test_a_store_of_another_program_is_refused_in_words(shell):
    (shell.folder / "notes.db").write_text("not a database at all, but long enough to be looked at" * 20)
    ended = shell("sessions", "--store", "sqlite:///notes.db")
    assert ended.code == 1
    assert "notes.db" in ended.err
    assert "Traceback" not in ended.err
    assert shell("sessions", "--store", "redis://x").code == 1


def test_migrate_says_what_it_did_and_then_that_nothing_was_left_to_do(shell):
    first = shell("migrate", "--store", "sqlite:///new.db")
    assert first.code == 0
    assert first.out.splitlines() == [
        "created sqlite:///new.db, which was not there",
        "applied 0003 initial",
        "applied 0004 open_questions",
        "sqlite:///new.db is up to date",
    ]
    assert shell("migrate", "--store", "sqlite:///new.db").out == "sqlite:///new.db is up to date already\n"
    assert shell("migrate", "--store", "sqlite:///new.db", "--json").last == {"store": "sqlite:///new.db", "created": False, "applied": []}
    assert shell("migrate", "--store", "sqlite:///typo.db", "--json").last["created"]


def test_a_password_in_a_url_is_not_printed():
    assert place("postgresql://ann:s3cret@db/x") == "postgresql://ann:***@db/x"
    assert place("sqlite:///a.db") == "sqlite:///a.db"
