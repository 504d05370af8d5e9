"""The demonstration as it is seen, with the scripted model and, where it is installed, with the local one."""

import re

import pytest

from causeline.cli import demo
from causeline.cli.demo.stage import Stage

TITLES = [
    "1. A question whose answer only a tool knows",
    "2. A run is killed in its middle, and resumed",
    "3. A fork from the middle of that run",
    "4. The history as a file that proves itself",
    "5. A later run recalls the first one",
    "Where to look next",
]


def check(ended):
    assert ended.code == 0, ended.err + ended.out
    assert [line for line in ended.out.splitlines() if line in TITLES] == TITLES
    assert len(re.findall(r": yes$", ended.out, re.MULTILINE)) == 7
    assert not re.search(r": NO$", ended.out, re.MULTILINE)
    assert "was killed with signal 9." in ended.out
    assert re.search(r"^flowchart TB\nn1\[", ended.out, re.MULTILINE)


def test_the_demonstration_shows_everything_and_every_claim_holds(shell, monkeypatch):
    monkeypatch.setattr(demo, "local_model", lambda: None)
    ended = shell("demo")
    check(ended)
    assert "a scripted one speaks" in ended.out
    assert ended.out.count("100% of them") >= 1
    [folder] = (shell.folder / ".causeline/demo").iterdir()
    assert "epoch" in shell("sessions", "--store", f"sqlite:///{folder}/store.db").out
    assert (folder / "notebook.txt").read_text().splitlines() == ["survey begins", "survey ends", "survey ends"]


@pytest.mark.skipif(demo.local_model() is None, reason="the local model is not installed (make installs it where it can)")
def test_the_demonstration_runs_on_the_local_model(shell):
    ended = shell("demo")
    check(ended)
    assert "local:smollm2" in ended.out


def test_a_claim_that_does_not_hold_is_said_and_counts(shell, capsys):
    stage = Stage(shell.folder, None)
    stage.claim("The sky is blue", True)
    assert not stage.broken
    stage.claim("Pigs fly", False)
    assert stage.broken
    assert capsys.readouterr().out == "The sky is blue: yes\nPigs fly: NO\n"
