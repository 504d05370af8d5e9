"""Drawings equal the reference's, and no name can break out of its label."""

import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from causeline.graph import load, mermaid
from causeline.graph.documents.builder import Graph
from tests.graph.random_documents import documents
from tests.graph.sample_documents import orders, place, placement

GOLDEN = Path("tests/golden/documents")
ID = r"[A-Za-z0-9_/.][A-Za-z0-9_/.-]*"
LABEL = r'"[^"\n<>&`%\\]*"'
LINE = re.compile(
    rf"{ID}(?:\[{LABEL}\]|\[/{LABEL}/\]|\[\[{LABEL}\]\]|\{{{LABEL}\}}|\(\(\({LABEL}\)\)\)|>{LABEL}\]|\(\[{LABEL}\]\))"
    rf"|{ID} -->(?:\|(?:[A-Za-z0-9_-]+|{LABEL})\|)? {ID}"
    rf"|classDef [A-Za-z0-9_-]+ stroke-dasharray: 4 2|class {ID}(?:,{ID})* [A-Za-z0-9_-]+"
)


def body(text: str) -> list[str]:
    lines = text.splitlines()
    assert lines[0] == '%%{init: {"flowchart":{"nodeSpacing":92,"rankSpacing":104,"padding":28}}}%%'
    assert lines[1] == "flowchart TB"
    assert lines[2].startswith("%% ")
    return lines[3:]


@pytest.mark.parametrize("name", ["react-agent", "react-agent-memory-trace"])
def test_seed_documents_are_drawn_byte_for_byte(name: str) -> None:
    assert mermaid(load(GOLDEN / f"{name}.jsonld")).encode() == (GOLDEN / f"{name}.mmd").read_bytes()


def test_every_kind_has_its_shape() -> None:
    document = orders()
    document["nodes"][6]["container"] = "big worker"
    drawn = mermaid(load(document))
    node = "urn_example_dag_orders/node/"
    for line in [
        'entry_audit(["audit"])',
        f"entry_audit --> {node}inspect",
        f'{node}open(["open (pre)"])',
        f'{node}prepare["prepare"]',
        f'{node}price[/"price"/]',
        f'{node}thanks[/"thanks (town x 5)"/]',
        f'{node}collect{{"collect"}}',
        f'{node}ship[["ship"]]',
        f'{node}shipped((("shipped")))',
        f'{node}failed>"failed"]',
        f"{node}price -->|all-success| {node}collect",
        "classDef contained-big_worker stroke-dasharray: 4 2",
        f"class {node}ship contained-big_worker",
        f"class {node}thanks reservoir",
    ]:
        assert line in body(drawn), line
    assert drawn.endswith("reservoir\n")
    assert not drawn.endswith("\n\n")


HOSTILE = [
    'a"]; click a "javascript:x"',
    "%%{init: {}}%%",
    "end",
    "graph",
    "a\nb",
    "a\r\nsubgraph x",
    "<img src=x>",
    "a & b",
    "#quot;",
    "`code`",
    "a\\nb",
    "[x]",
    "{x}",
    "((x))",
    "|x|",
    "--> b",
    "x -.-> y",
    "日本",
    "\u2028",
    "\u0000",
    "o--o",
    "@{ shape: x }",
    ":::cls",
    ";",
    "style",
    "1",
    "-",
    "--",
    ".",
]


@pytest.mark.parametrize("text", HOSTILE)
def test_no_name_port_or_iri_breaks_its_line(text: str) -> None:
    document: Any = {
        "@context": {},
        "@id": "urn:x:" + text,
        "@type": "DAG",
        "name": text,
        "version": text,
        "entrypoints": {text: text},
        "nodes": [
            {"@id": text, "@type": "SingleNode", "name": text, "node": "urn:n:x", "outputs": {text: text, "on": text + "2"}},
            {"@id": text + "2", "@type": "TerminalNode", "name": text + "2", "outcome": "completed"},
        ],
    }
    drawn = mermaid(load(document))
    lines = body(drawn)
    assert len(lines) == 6
    assert all(LINE.fullmatch(line) for line in lines), drawn
    assert drawn.count("%%{") == 1
    first_words = {re.match(r"\w*", line)[0].lower() for line in lines}  # type: ignore[index]
    assert not first_words & {"end", "graph", "style", "subgraph", "class", "click", ""}


def test_ids_that_look_alike_stay_apart() -> None:
    names = ["a:b", "a_b", "a b", "a\tb", "a_b_2"]
    document: Any = {
        "@context": {},
        "@id": "urn:x:d",
        "@type": "DAG",
        "name": "d",
        "version": "1",
        "entrypoints": {"a": "a:b"},
        "nodes": [{"@id": name, "@type": "TerminalNode", "name": str(index), "outcome": "failed"} for index, name in enumerate(names)],
    }
    ids = [line.partition(">")[0] for line in body(mermaid(load(document))) if line.endswith("]") and ">" in line]
    assert ids == ["a_b", "a_b_2", "a_b_3", "a_b_4", "a_b_2_2"]


def test_an_entrypoint_never_shares_the_id_of_a_placement() -> None:
    graph = Graph("urn:x:dag:d").entry("main", "entry_main")
    document = graph.terminal("entry_main").build()
    renamed = load(
        {
            **document.to_json(),
            "entrypoints": {"main": "entry_main"},
            "nodes": [placement("TerminalNode", "x", outcome="failed") | {"@id": "entry_main"}],
        }
    )
    assert body(mermaid(renamed)) == ['entry_main(["main"])', "entry_main --> entry_main_2", 'entry_main_2>"x"]']


def test_missing_targets_are_drawn_as_far_as_they_go() -> None:
    document = orders()
    document["nodes"] = document["nodes"][1:2]
    assert f"urn_example_dag_orders/node/prepare -->|ready| {place('price').replace(':', '_')}" in body(mermaid(load(document)))


@settings(max_examples=60, deadline=None)
@given(documents())
def test_every_line_of_a_random_drawing_is_well_formed(plain: dict[str, Any]) -> None:
    document = load(plain)
    lines = body(mermaid(document))
    assert all(LINE.fullmatch(line) for line in lines)
    targets = {line.rpartition(" ")[2] for line in lines if " -->" in line}
    assert len(targets) <= len(
        {*document.entrypoints.values()}
        | {target for one in document.placements.values() for target in getattr(one, "outputs", {}).values()}
    )


@settings(max_examples=100, deadline=None)
@given(st.lists(st.text(max_size=6), min_size=1, max_size=8, unique=True))
def test_different_iris_get_different_ids(iris: list[str]) -> None:
    from causeline.graph.documents.mermaid import _Ids

    ids = _Ids()
    assert len({ids.of(iri) for iri in iris}) == len(iris)
    assert [ids.of(iri) for iri in iris] == [ids.of(iri) for iri in iris]
