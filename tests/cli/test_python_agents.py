"""Agents made in Python on the command line, and commands that a server carries out."""

import json
import re
import subprocess
import sys

import pytest

MINE = '''
import causeline
from causeline import graph
from causeline.models import ScriptedModel


@causeline.tool(effects=False)
def look(q: str) -> str:
    """Looks."""
    return "found " + q


@causeline.tool(approval="ask")
def pay(amount: int) -> str:
    """Pays."""
    return f"paid {amount}"


script = [{"calls": [{"name": "look", "arguments": {"q": "x"}}]}, {"text": "Done."}]
agent = causeline.Agent(ScriptedModel(script), name="mine", tools=[look])
paying = [{"calls": [{"name": "pay", "arguments": {"amount": 3}}]}, {"text": "Paid."}]
asker = causeline.Agent(ScriptedModel(paying), name="asker", tools=[pay])


@graph.node("urn:t:hi", ports=("done",))
def hi(ctx):
    return graph.Outcome("done", {"result": {"answer": "hello"}})


document = graph.Graph("urn:t:g").node("a", hi.iri, {"done": "end"}).terminal("end").entry("main", "a").build()
pipe = causeline.GraphProgram(document, [hi], name="pipe")
number = 7
'''


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "mine.py").write_text(MINE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("CAUSELINE_STORE", raising=False)
    return tmp_path


def causeline(*words, code=0):
    done = subprocess.run([sys.executable, "-m", "causeline.cli", *words], capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.mark.parametrize("target, answer", [("mine.py:agent", "Done."), ("mine:agent", "Done."), ("mine:pipe", "hello")])
def test_an_agent_or_a_graph_of_a_module_runs(folder, target, answer):
    assert answer in causeline("run", "hi", "--agent", target, "--session", "s1")
    assert "ok: agent" in causeline("check", target)


@pytest.mark.parametrize(
    "target, words",
    [
        ("mine:nobody", "has no nobody"),
        ("mine:number", "mine:number is int"),
        ("yours:agent", "no module yours"),
        ("mine.py:agent", "cannot be set"),
    ],
)
def test_what_is_no_agent_is_refused_in_words(folder, target, words):
    more = ("--model", "scripted:echo") if target == "mine.py:agent" else ()
    assert words in causeline("run", "hi", "--agent", target, *more, code=1)


def test_a_detached_run_waits_to_be_driven(folder):
    said = causeline("run", "hi", "--agent", "mine:agent", "--detach", "--run-id", "r1", "--session", "s1", "--context", '{"a": 1}')
    assert "causeline resume r1" in said
    assert "queued" in causeline("runs")
    assert "Done." in causeline("resume", "r1", "--agent", "mine:agent")
    assert "JSON" in causeline("run", "hi", "--agent", "mine:agent", "--context", "{", code=2)


def test_a_server_carries_out_what_a_command_asks_for(folder):
    words = [sys.executable, "-m", "causeline.cli", "serve", "mine:agent", "mine:asker", "--port", "0"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as serving:
        try:
            assert serving.stdout is not None
            url = serving.stdout.readline().strip()
            assert re.fullmatch(r"http://127\.0\.0\.1:\d+", url)
            at = ("--server", url)
            assert "Done." in causeline("run", "hi", "--agent", "mine", "--session", "s1", "--run-id", "r1", *at)
            asked = causeline("run", "pay", "--agent", "asker", "--session", "s2", "--run-id", "r2", *at, code=3)
            interrupt = re.search(r"int_\w+", asked)[0]
            assert "Paid." in causeline("answer", "r2", interrupt, "approve", *at)
            shown = json.loads(causeline("show", "s1", "--json", *at))
            assert [run["id"] for run in shown["runs"]] == ["r1"]
            assert "inference" in causeline("why", shown["nodes"][-1]["id"], *at)
            assert "s1" in causeline("sessions", *at)
            causeline("export", "s1", "-o", "s1.json", *at)
            causeline("delete", "s1", "--yes", *at)
            assert "s1" in causeline("import", "s1.json", *at)
            assert "another body" in causeline("run", "other", "--agent", "mine", "--run-id", "r1", *at, code=1)
            assert "works on a store" in causeline("migrate", *at, code=1)
        finally:
            serving.terminate()
        assert serving.wait(20) == 0
