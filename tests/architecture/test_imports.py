"""Importing causeline is cheap, needs no extra, and does nothing."""

import json
import os
import re
import subprocess
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

import causeline
from tests.architecture import source

PROBE = Path(__file__).with_name("probe.py")
HEAVY = {"anyio", "asyncpg", "httpx2", "openai", "pydantic", "pyoxigraph", "rich", "sqlite3", "typer", "xllamacpp"}
IMPORT_SECONDS = 0.1  # of processor time


OPTIONAL = ("causeline.testing", "causeline.api", "causeline.inspector")
"""Parts of the package that are an extra of their own."""


def optional_packages() -> set[str]:
    """Import names that only an extra or a development group brings."""
    project = tomllib.loads(source.text("pyproject.toml") or "")
    core = {name(row) for row in project["project"]["dependencies"]}
    extras = {name(row) for rows in project["project"]["optional-dependencies"].values() for row in rows}
    groups = {name(row) for rows in project["dependency-groups"].values() for row in rows}
    optional = (extras | groups) - core
    return {package for package, owners in packages_distributions().items() if any(name(owner) in optional for owner in owners)}


def name(requirement: str) -> str:
    return re.split(r"[\[<>=~! ]", requirement)[0].lower().replace("_", "-")


def probe(modules, folder, hide=()) -> dict[str, list[str]]:
    """What importing each module did, each in its own process whose home and working folder are `folder`."""
    job = json.dumps({"modules": list(modules), "hide": sorted(hide)})
    environment = {"PATH": os.environ["PATH"], "HOME": str(folder), "TMPDIR": str(folder), "PYTHONPATH": str(folder)}
    done = subprocess.run(
        [sys.executable, "-B", "-W", "error", str(PROBE)],
        input=job, capture_output=True, text=True, check=False, cwd=folder, env=environment,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert [row["module"] for row in rows] == list(modules)
    return {row["module"]: row["faults"] for row in rows if row["faults"]}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the probe forks")
def test_every_module_can_be_imported_and_does_nothing_else(tmp_path):
    """In a fresh process, with none of the optional packages installed."""
    modules = [name for name in source.modules() if not name.startswith(OPTIONAL)]
    assert not probe(modules, tmp_path, hide=optional_packages())
    assert not list(tmp_path.iterdir())


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the probe forks")
def test_optional_parts_can_be_imported_and_do_nothing_else(tmp_path):
    """With what they are made of: laws are for people who write backends, who have pytest and Hypothesis, a server has its extra."""
    modules = [name for name in source.modules() if name.startswith(OPTIONAL)]
    assert not probe(modules, tmp_path)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the probe forks")
@pytest.mark.parametrize(
    "code, said",
    [
        ("open('f', 'w')", "opened f for writing"),
        ("import os; os.environ['X'] = '1'", "changed the environment"),
        ("import threading; threading.Thread(target=threading.Event().wait).start()", "left a thread running"),
        ("import socket; socket.socket()", "made a socket"),
        ("print('hello')", "printed b'hello"),
        ("import warnings; warnings.warn('old', DeprecationWarning)", "DeprecationWarning: old"),
        ("import logging; logging.basicConfig()", "configured logging"),
        ("import asyncpg", "import of asyncpg halted"),
    ],
)
def test_an_effect_is_found(tmp_path, code, said):
    (tmp_path / "guilty.py").write_text(code)
    [faults] = probe(["guilty"], tmp_path, hide=["asyncpg"]).values()
    assert any(said in fault for fault in faults), faults


def fresh(code: str) -> str:
    return subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True, check=True).stdout


def test_importing_the_root_brings_in_nothing_heavy():
    loaded = fresh("import sys, causeline; print(*sys.modules)").split()
    assert "causeline" in loaded
    assert not HEAVY & set(loaded)


def test_importing_the_root_is_cheap():
    """Processor time of the process, not time on the wall, and the least of several: load on the machine does not count."""

    def cost(code: str) -> float:
        return min(float(fresh(f"import time; {code}; print(time.process_time())")) for _ in range(5))

    assert cost("import causeline") - cost("pass") <= IMPORT_SECONDS


def documented() -> list[str]:
    """The names in the first column of the table in docs/reference/python.md. No page, no public names."""
    page = "docs/reference/python.md"
    return re.findall(r"^\| `(\w+)", source.text(page) or "", re.MULTILINE) if page in source.files() else []


def test_the_root_exports_exactly_the_documented_names():
    exported = getattr(causeline, "__all__", [])
    assert sorted(exported) == sorted(documented())
    assert not [name for name in exported if not hasattr(causeline, name)]
