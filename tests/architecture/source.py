"""The project's own files, read once for all the checks of this folder."""

import ast
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]


@cache
def files() -> tuple[str, ...]:
    """Every file that is, or is about to be, under version control; relative to the root."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return tuple(sorted(name for name in listed.stdout.split("\0") if name and (ROOT / name).is_file()))


@cache
def text(name: str) -> str | None:
    """The file's text, None if it is not text."""
    try:
        return (ROOT / name).read_text("utf-8")
    except UnicodeDecodeError:
        return None


@cache
def tree(name: str) -> ast.Module:
    return ast.parse(text(name) or "", name)


def python_files(*folders: str) -> Iterator[str]:
    for name in files():
        if name.endswith(".py") and name.startswith(tuple(f"{folder}/" for folder in folders)):
            yield name


def modules() -> tuple[str, ...]:
    """The importable name of every module under src."""
    names = []
    for name in python_files("src"):
        parts = Path(name).with_suffix("").parts[1:]
        names.append(".".join(parts[:-1] if parts[-1] == "__init__" else parts))
    return tuple(names)
