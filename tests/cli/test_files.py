"""new, check, graph, and the help of every command."""

import subprocess
import sys
from pathlib import Path

import pytest

from causeline.cli.main import COMMANDS

GOLDEN = Path(__file__).parents[1] / "golden/documents"


def test_a_new_agent_is_in_order_and_runs_without_a_network(shell, monkeypatch):
    assert shell("new", "my bot").code == 0
    monkeypatch.chdir(shell.folder / "my bot")
    assert shell("check", "agent.toml").out == "ok: agent storekeeper\n"
    ended = shell("run", "How many lamps are there?", "--agent", "agent.toml")
    assert ended.code == 0
    assert "There are 4 lamps in stock.\n" in ended.out


def test_new_never_overwrites(shell):
    (shell.folder / "there").mkdir()
    (shell.folder / "there/agent.toml").write_text("mine")
    ended = shell("new", "there")
    assert (ended.code, ended.out) == (1, "")
    assert [path.name for path in (shell.folder / "there").iterdir()] == ["agent.toml"]
    assert (shell.folder / "there/agent.toml").read_text() == "mine"
    (shell.folder / "file").write_text("mine")
    assert shell("new", "file").code == 1
    (shell.folder / "empty").mkdir()
    assert shell("new", "empty").code == 0


def test_check_lists_every_finding_with_its_line(shell):
    shell.agent(toml='[agent]\nname = "bot"\nmodel = "scripted:echo"\nmax_repeats = "many"\ncolour = 1\n[graph]\ntype = "react"\n')
    ended = shell("check", "agent.toml")
    assert ended.code == 1
    assert [line.split(": ")[0] for line in ended.out.splitlines()] == ["agent.toml:4", "agent.toml:5", "agent.toml"]
    assert ended.out.splitlines()[-1] == "agent.toml: 2 findings"
    findings = shell("check", "agent.toml", "--json").last["findings"]
    assert [(one["line"], one["place"]) for one in findings] == [(4, "agent.max_repeats"), (5, "agent.colour")]
    assert shell("check", "none.toml").code == 1


def test_check_of_json_has_lines_and_the_path_as_it_was_given(shell):
    (shell.folder / "bots").mkdir()
    rows = ["{", '"agent": {"name": "bot",', '  "model": "scripted:echo",', '  "max_repeats": "a:{b"},', '"graph": {"type": "react"},']
    rows += ['"tools": [', '  {"python": "gone:x"},', '  {"python": "gone:y", "colour": 1}', "]}"]
    (shell.folder / "bots/a.json").write_text("\n".join(rows))
    ended = shell("check", "bots/a.json")
    assert [line.split(": ")[:2] for line in ended.out.splitlines()[:-1]] == [
        ["bots/a.json:4", "agent.max_repeats"],
        ["bots/a.json:7", "tools[0].python"],
        ["bots/a.json:8", "tools[1].colour"],
        ["bots/a.json:8", "tools[1].python"],
    ]


@pytest.mark.parametrize(
    "model, told",
    [
        ("magic:x", "There is no kind of model 'magic'"),
        ("scripted:none.json", "There is no script"),
        ("scripted:bad.json", "is not JSON"),
        ("scripted:object.json", "not a JSON array"),
        ("openai:gpt-5-mini", "OPENAI_API_KEY"),
    ],
)
def test_check_finds_a_model_that_cannot_answer(shell, monkeypatch, model, told):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    (shell.folder / "bad.json").write_text("[")
    (shell.folder / "object.json").write_text("{}")
    shell.agent(toml=f'[agent]\nname = "bot"\nmodel = "{model}"\nfallbacks = ["scripted:echo", "magic:y"]\n[graph]\ntype = "react"\n')
    ended = shell("check", "agent.toml")
    first, second, count = ended.out.splitlines()
    assert first.startswith("agent.toml:3: agent.model: ")
    assert told in first
    assert second.startswith("agent.toml:4: agent.fallbacks[1]: There is no kind of model 'magic'")
    assert (ended.code, count) == (1, "agent.toml: 2 findings")


def test_check_passes_a_model_that_could_be_asked(shell, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    shell.agent(toml='[agent]\nname = "bot"\nmodel = "openai:gpt-5-mini"\n[graph]\ntype = "react"\n')
    assert shell("check", "agent.toml").out == "ok: agent bot\n"


def test_graph_check_and_mermaid_on_the_reference_documents(shell):
    for name in ("react-agent", "react-agent-memory-trace"):
        document = GOLDEN / f"{name}.jsonld"
        assert shell("graph", "mermaid", str(document)).out == (GOLDEN / f"{name}.mmd").read_text()
        assert shell("graph", "check", str(document), "--json").last == {"findings": []}
        assert shell("graph", "check", str(document)).code == 0


def test_graph_check_lists_all_mistakes_and_leaves_with_1(shell):
    ended = shell("graph", "check", str(GOLDEN / "twelve-mistakes.jsonld"), "--json")
    assert ended.code == 1
    assert len(ended.last["findings"]) == 12
    assert set(ended.last["findings"][0]) == {"code", "placement", "message", "path"}
    assert shell("graph", "check", str(GOLDEN / "twelve-mistakes.jsonld")).out.count("\n") == 13


def test_a_file_that_is_no_document_is_a_finding(shell):
    (shell.folder / "x.json").write_text("{")
    ended = shell("graph", "check", "x.json", "--json")
    assert (ended.code, len(ended.last["findings"])) == (1, 1)
    assert shell("graph", "mermaid", "x.json").code == 1
    assert shell("graph", "check", "none.json").code == 1


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_explains_itself(shell, name):
    ended = shell(name, "--help")
    assert ended.code == 0
    assert ended.out.startswith(f"Usage: causeline {name} ")
    assert max(len(line) for line in ended.out.splitlines()) <= 100
    assert "--debug" in ended.out


def test_the_list_of_commands_has_them_all(shell):
    text = shell("--help").out
    for name in COMMANDS:
        assert f"\n  {name} " in text
    assert shell().code == 2


def test_loading_the_table_loads_no_command():
    code = "import sys, causeline.cli.main; print(*sorted(name for name in sys.modules if name.startswith('causeline.')))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert loaded == [
        f"causeline.{name}"
        for name in (
            "cli",
            "cli.main",
            "cli.views",
            "cli.views.clean_text",
            "cli.views.error_report",
            "cli.views.narration",
            "cli.views.terminal",
            "errors",
            "plain_text",
        )
    ]


def test_the_version_is_printed(shell):
    assert shell("--version").out.startswith("causeline 0.")


def test_the_package_is_the_command_too():
    told = [
        subprocess.run([sys.executable, "-m", name, "--version"], capture_output=True, text=True, check=True).stdout
        for name in ("causeline", "causeline.cli")
    ]
    assert told[0] == told[1]
    assert told[0].startswith("causeline 0.")


def test_an_error_can_be_traced_when_asked(shell):
    assert "Traceback" not in shell("verify", "none.json").err
    assert "Traceback" in shell("verify", "--debug", "none.json").err
