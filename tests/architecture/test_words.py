"""What must not stand in the project's files: machine paths, registry hosts, catch-all names, asserted times."""

import ast
import re
from pathlib import PurePath

import pytest

from tests.architecture import source

CATCH_ALL = {"utils", "util", "helpers", "helper", "common", "manager", "managers", "base", "impl", "misc"}

# Written in pieces, so that this file passes its own check.
FORBIDDEN = {
    "the host of a package registry": "|".join(["py" + r"pi\.org", "python" + r"hosted\.org", r"registry\.npm" + "js"]),
    "a path of one machine": r"(?:^|[^A-Za-z0-9_.])/(?:wo" + r"rk|fa" + r"rm|ro" + r"ot|ho" + r"me/\w+|Us" + r"ers/\w+)/",
}
SOURCE_FORBIDDEN = {
    "the number of an issue or pull request": r"(?i)\b(?:issue|pull request|PR) ?#?\d+\b|\(#\d+\)",
    "a note to do it later": r"\b(?:TO" + r"DO|FIX" + r"ME|XX" + r"X)\b",
}


def found(text: str, patterns: dict[str, str]):
    for number, line in enumerate(text.splitlines(), 1):
        for what, pattern in patterns.items():
            if hit := re.search(pattern, line):
                yield number, what, hit.group().strip()


def test_no_file_names_a_registry_or_a_path_of_one_machine():
    assert not [(name, *hit) for name in source.files() for hit in found(source.text(name) or "", FORBIDDEN)]


def test_no_source_line_points_at_an_issue_or_puts_work_off():
    assert not [
        (name, *hit) for name in source.python_files("src", "tests", "bench") for hit in found(source.text(name) or "", SOURCE_FORBIDDEN)
    ]


@pytest.mark.parametrize(
    "line, what",
    [
        ("see https://py" + "pi.org/x", "the host of a package registry"),
        ('open("/ro' + 'ot/x")', "a path of one machine"),
        ("cd /ho" + "me/ada/x", "a path of one machine"),
        ("# see issue" + " 12", "the number of an issue or pull request"),
    ],
)
def test_a_forbidden_word_is_found(line, what):
    assert [hit[1] for hit in found(line, FORBIDDEN | SOURCE_FORBIDDEN)] == [what]


def test_the_lookalikes_are_left_alone():
    assert not list(found("GET /v1/runs/ https://example.org/work/ a/root/b ./home/ada/", FORBIDDEN | SOURCE_FORBIDDEN))


REASONED = re.compile(r"# no" + r"qa: [A-Z]+\d+(?:, ?[A-Z]+\d+)*\s+(?:- |\()\S+ \S+")


def unreasoned(text: str) -> list[int]:
    """Lines that silence a rule without saying which and why."""
    return [number for number, line in enumerate(text.splitlines(), 1) if "# no" + "qa" in line and not REASONED.search(line)]


def test_every_silenced_rule_has_its_reason_beside_it():
    found = {name: unreasoned(source.text(name) or "") for name in source.python_files("src", "tests", "bench")}
    assert not {name: lines for name, lines in found.items() if lines}


def test_a_silenced_rule_without_a_reason_is_found():
    mark = "# no" + "qa"
    rows = ["", ": BLE001", ": BLE001 - said at the door", ": A002, A001  (the contract's word)"]
    assert unreasoned("\n".join(f"x  {mark}{row}" for row in rows)) == [1, 2]


def test_no_module_has_a_catch_all_name():
    """A module that can hold anything soon does."""
    names = source.python_files("src", "tests", "bench")
    assert not [name for name in names if CATCH_ALL & {part.strip("_") for part in PurePath(name).with_suffix("").parts}]


CLOCKS = {"time", "monotonic", "perf_counter", "process_time", "time_ns", "monotonic_ns", "perf_counter_ns"}


def reads_clock(node: ast.AST, tainted: set[str]) -> bool:
    """True if the expression holds a time: a call of a clock, or a name that was given one."""
    for part in ast.walk(node):
        if isinstance(part, ast.Name) and part.id in tainted:
            return True
        if isinstance(part, ast.Call):
            called = part.func.attr if isinstance(part.func, ast.Attribute) else getattr(part.func, "id", "")
            if called in CLOCKS:
                return True
    return False


def is_number(node: ast.AST) -> bool:
    return not any(isinstance(part, (ast.Name, ast.Call, ast.Attribute, ast.Subscript)) for part in ast.walk(node))


def timed_assertions(function: ast.AST):
    """Lines that assert a measured time against a fixed number. A ratio of two times is fine."""
    tainted: set[str] = set()
    for node in ast.walk(function):
        if isinstance(node, ast.Assign) and reads_clock(node.value, tainted):
            tainted |= {part.id for target in node.targets for part in ast.walk(target) if isinstance(part, ast.Name)}
    for node in ast.walk(function):
        if isinstance(node, ast.Assert):
            for compare in (part for part in ast.walk(node.test) if isinstance(part, ast.Compare)):
                sides = [compare.left, *compare.comparators]
                if any(reads_clock(side, tainted) for side in sides) and any(is_number(side) for side in sides):
                    yield compare.lineno


def test_no_test_asserts_an_absolute_time():
    """A busy machine must not turn the suite red: inject a clock, compare two measurements, or wait for an event."""
    bad = set()
    for name in source.python_files("tests"):
        for function in ast.walk(source.tree(name)):
            if isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)):
                bad |= {f"{name}:{line}" for line in timed_assertions(function)}
    assert not bad


@pytest.mark.parametrize(
    "body, lines",
    [
        ("start = time.perf_counter(); f(); assert time.perf_counter() - start < 0.5", [1]),
        ("start = loop.time(); f(); spent = loop.time() - start; assert 0.1 <= spent", [1]),
        ("a = timed(f); b = timed(g); assert a < 3 * b", []),
        ("a = monotonic(); b = monotonic(); assert a <= b", []),
        ("assert len(rows) < 5", []),
    ],
)
def test_an_asserted_time_is_found(body, lines):
    assert list(timed_assertions(ast.parse(body))) == lines
