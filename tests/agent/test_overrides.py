"""What stands in for options of a file is read where the caller stands; what the file says, beside the file."""

import json
from pathlib import Path

import pytest

import causeline

FILE = """
[agent]
model = "scripted:own.json"
[graph]
type = "react"
"""


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    there, here = tmp_path / "there", tmp_path / "here"
    for folder, text in ((there, "from there"), (here, "from here")):
        folder.mkdir()
        (folder / "own.json").write_text(json.dumps([{"text": text}]))
        (folder / "skill.md").write_text(f"---\nname: skill\ndescription: d\n---\n{text}")
    (there / "agent.toml").write_text(FILE)
    monkeypatch.chdir(here)
    return there / "agent.toml"


def test_a_script_in_an_override_is_relative_to_the_working_directory(file: Path) -> None:
    assert causeline.load_agent(file).run_sync("go").answer == "from there"
    assert causeline.load_agent(file, model="scripted:own.json").run_sync("go").answer == "from here"
    assert causeline.load_agent("../there/agent.toml", model="scripted:own.json").run_sync("go").answer == "from here"
    fallen = causeline.load_agent(file, model="scripted:own.json", fallbacks=["scripted:own.json", {"model": "scripted:own.json"}])
    named = [one if isinstance(one, str) else one["model"] for one in fallen.options.fallbacks]
    assert named == [f"scripted:{Path.cwd() / 'own.json'}"] * 2


def test_so_are_skills(file: Path) -> None:
    for given in ({"skills": ["skill.md"]}, {"skills": [Path("skill.md")]}, {"skills": ["skill"], "skill_dir": "."}):
        (skill,) = causeline.load_agent(file, **given).options.skill_set()
        assert skill.text.strip() == "from here"


def test_a_graph_given_instead_is_the_one_that_runs(file: Path) -> None:
    assert causeline.load_agent(file).document.name == "react"
    assert causeline.load_agent(file, graph="react-flat").document.name == "react-agent"
    Path("own.jsonld").write_text(json.dumps(causeline.load_agent(file).document.to_json()))
    assert causeline.load_agent(file, graph="own.jsonld").document.name == "react", "found where the caller stands"


def test_what_is_wrong_with_an_override_is_a_finding(file: Path) -> None:
    with pytest.raises(causeline.Invalid, match="model"):
        causeline.load_agent(file, model=3, fallbacks=7, skills="x", skill_dir=4)
