"""The one door: what loads, what comes out again, and what is refused."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from causeline.causal import canonical
from causeline.graph import DocumentError, check, load
from causeline.graph.documents.codec import dump_linked
from causeline.graph.documents.document import (
    DagBody,
    DagReference,
    Document,
    Embedded,
    Gather,
    Phase,
    Reservoir,
    Scatter,
    Single,
    Terminal,
)
from causeline.graph.documents.plain_json import MAX_BYTES
from causeline.policy import RetryPolicy
from tests.graph.random_documents import documents
from tests.graph.sample_documents import DOCUMENT, find, orders, place

GOLDEN = Path("tests/golden/documents")
SEEDS = ["react-agent", "react-agent-memory-trace"]


@pytest.mark.parametrize("name", SEEDS)
def test_seed_documents_load_verbatim_and_come_out_as_they_went_in(name: str) -> None:
    raw = (GOLDEN / f"{name}.jsonld").read_bytes()
    document = load(raw)
    assert document.problems == ()
    assert document.to_json() == json.loads(raw)


def test_every_way_in_gives_the_same_document() -> None:
    path = GOLDEN / "react-agent.jsonld"
    raw = path.read_bytes()
    forms = [
        load(raw),
        load(raw.decode()),
        load("\ufeff " + raw.decode()),
        load(b"\xef\xbb\xbf" + raw),
        load(str(path)),
        load(path),
        load(json.loads(raw)),
    ]
    assert len({document.hash for document in forms}) == 1
    assert all(document == forms[0] for document in forms)


def test_records_hold_what_the_document_says() -> None:
    document = load(orders())
    assert (document.id, document.name, document.version) == (DOCUMENT, "orders", "1")
    assert list(document.entrypoints) == ["main", "audit"]
    assert document.primary == "main"
    kinds = [type(one) for one in document.placements.values()]
    assert kinds == [Phase, Single, Scatter, Gather, Single, Gather, Embedded, Single, Scatter, Terminal, Terminal]
    thanks = document.placements[place("thanks")]
    assert isinstance(thanks, Scatter)
    assert thanks.body == DagBody(DagReference("item", "channel", ("urn:example:dag:mail",)))
    assert (thanks.mode, thanks.reservoir, thanks.concurrency, thanks.reducer) == (
        "reservoir",
        Reservoir("town", 5, None),
        1,
        "any-success",
    )
    ship = document.placements[place("ship")]
    assert isinstance(ship, Embedded)
    assert (ship.state_input, ship.state_output) == ({"rows": "prices"}, {"parcels": "parcels"})
    meet = document.placements[place("meet")]
    assert isinstance(meet, Gather)
    assert meet.sources == {place("collect"): None, place("inspect"): "note"}
    assert (meet.policy, meet.needed, meet.include_errors) == ("all", 2, True)


def test_retry_fields_become_a_policy_in_seconds() -> None:
    document = orders()
    prepare = find(document, "prepare")
    prepare["timeoutMs"] = 2500
    prepare["retry"] = {
        "maxAttempts": 4, "strategy": "decorrelated-jitter", "baseDelay": 250, "maxDelay": 9000, "multiplier": 3, "jitterFactor": 0.5,
        "on": ["Unavailable", "TIMEOUT"], "retryOn": ["TIMEOUT", "Busy"], "abortOn": ["Refused"],
    }  # fmt: skip
    single = load(document).placements[place("prepare")]
    assert isinstance(single, Single)
    assert single.timeout == 2.5
    assert single.retry == RetryPolicy(
        max_attempts=4, strategy="decorrelated-jitter", base_delay=0.25, max_delay=9.0, multiplier=3.0, jitter_factor=0.5,
        retry_on=("Unavailable", "TIMEOUT", "Busy"), abort_on=("Refused",),
    )  # fmt: skip
    inspect = load(document).placements[place("inspect")]
    assert isinstance(inspect, Single)
    assert inspect.retry is None


def test_adaptive_throttle_is_kept_and_its_limit_read() -> None:
    document = orders()
    adaptive = {"enabled": True, "minConcurrency": 1, "maxConcurrency": 8, "scaleUpThreshold": 0.5}
    find(document, "price")["execution"]["throttle"] = {"concurrencyLimit": 3, "adaptive": adaptive}
    loaded = load(document)
    price = loaded.placements[place("price")]
    assert isinstance(price, Scatter)
    assert (price.throttle, price.adaptive, loaded.problems) == (3, adaptive, ())


# Contexts and names.


def test_prefixes_are_expanded_everywhere_an_iri_stands() -> None:
    text = json.dumps(orders()).replace("urn:example:dag:", "d:").replace("urn:example:node:", "n:")
    document = json.loads(text)
    document["@context"] = {"d": "urn:example:dag:", "n": {"@id": "urn:example:node:", "@prefix": True}}
    loaded = load(document)
    assert loaded.hash == load(orders()).hash
    assert loaded.to_json() == {**orders(), "@context": document["@context"]}


def test_terms_keywords_and_types_may_be_renamed_by_the_context() -> None:
    namespace = "https://noocodec.dev/ontology/dag/"
    renames = {"id": "@id", "kind": "@type", "title": namespace + "name", "steps": {"@id": namespace + "nodes"}, "ns": namespace}
    document = orders()
    document = {{"@id": "id", "@type": "kind", "name": "title", "nodes": "steps"}.get(key, key): value for key, value in document.items()}
    document["steps"] = [{("title" if key == "name" else key): value for key, value in one.items()} for one in document["steps"]]
    find_confirm = next(one for one in document["steps"] if one["title"] == "confirm")
    find_confirm["@type"] = "ns:SingleNode"
    find_confirm[namespace + "outputs"] = find_confirm.pop("outputs")
    loaded = load({**document, "@context": renames})
    assert loaded.problems == ()
    assert loaded.hash == load(orders()).hash


def test_annotations_of_other_vocabularies_are_kept_and_never_a_fault() -> None:
    document = orders()
    document["@context"] = {"rdfs": "http://www.w3.org/2000/01/rdf-schema#", "note": "urn:example:note"}
    find(document, "price")["rdfs:comment"] = "the slow one"
    document["note"] = {"by": "hand"}
    loaded = load(document)
    assert loaded.problems == ()
    assert find(loaded.to_json(), "price")["http://www.w3.org/2000/01/rdf-schema#comment"] == "the slow one"
    assert loaded.to_json()["urn:example:note"] == {"by": "hand"}


@pytest.mark.parametrize("context", [{}, [{}, {"d": "urn:example:dag:"}], None])
def test_an_empty_a_composed_and_a_missing_context_will_do(context: Any) -> None:
    document = orders()
    document["@context"] = context
    assert load(document).problems == ()
    document.pop("@context")
    assert load(document).problems == ()


# Identity.


def test_the_hash_is_that_of_the_plain_document_with_its_ordered_maps_as_pairs() -> None:
    import hashlib

    plain = orders()
    plain.pop("@context")
    plain["entrypoints"] = [[label, iri] for label, iri in plain["entrypoints"].items()]
    for one in plain["nodes"]:
        if "sources" in one:
            one["sources"] = [[producer, fields] for producer, fields in one["sources"].items()]
    assert load(orders()).hash == hashlib.sha256(canonical(plain)).hexdigest()


def test_the_hash_ignores_spelling_and_sees_every_change_of_meaning() -> None:
    base = load(orders()).hash
    spelled = json.dumps(orders(), indent=3, sort_keys=False).replace("1", "1")
    assert load(spelled).hash == base
    swapped = orders()
    swapped["entrypoints"] = dict(reversed(swapped["entrypoints"].items()))
    crossed = orders()
    find(crossed, "meet")["sources"] = dict(reversed(find(crossed, "meet")["sources"].items()))
    moved = orders()
    moved["nodes"].reverse()
    renamed = orders()
    renamed["version"] = "2"
    assert len({base, *(load(one).hash for one in (swapped, crossed, moved, renamed))}) == 5


def test_a_document_is_not_changed_by_what_is_done_to_its_json() -> None:
    given = orders()
    document = load(given)
    before = document.hash
    given["nodes"].clear()
    document.to_json()["nodes"].clear()
    assert len(document.to_json()["nodes"]) == 11
    assert load(document.to_json()).hash == before


# Refusals.


@pytest.mark.parametrize(
    "source, code",
    [
        (b"", "not_json"),
        (b"{", "not_json"),
        (b"\xff\xfe{}", "not_json"),
        (b'{"a": NaN}', "not_json"),
        (b'{"a": 1e999}', "not_json"),
        (b'{"a": ' + b"9" * 5000 + b"}", "not_json"),
        (b'{"a": "\\ud800"}', "not_json"),
        (b'{"\\ud800": 1}', "not_json"),
        (b"[" * 100_000, "too_deep"),
        (b'{"@type": "DAG", "x": ' + b"[" * 500 + b"]" * 500 + b"}", "too_deep"),
        (b" " * (MAX_BYTES + 1), "too_large"),
        (b"null", "no_document"),
        (b'"text"', "no_document"),
        (b"{}", "no_document"),
        (b"[]", "no_document"),
        (b'{"name": "x"}', "no_document"),
        (b'{"@type": "DAG", "nodes": "all"}', "no_document"),
        (b'[{"@type": ["https://noocodec.dev/ontology/dag/DAG"]}, {"@type": ["https://noocodec.dev/ontology/dag/DAG"]}]', "many_documents"),
        ("no/such/file.jsonld", "unreadable"),
        ("", "unreadable"),
        ("a\0b", "unreadable"),
        (Path("tests"), "unreadable"),
        (12, "not_json"),
        ({"nodes": [], "x": {1, 2}}, "not_json"),
        ({"nodes": [], 5: "x"}, "not_json"),
        ({"nodes": [], "x": float("inf")}, "not_json"),
    ],
)  # fmt: skip
def test_what_is_no_document_is_refused_with_a_finding(source: Any, code: str) -> None:
    with pytest.raises(DocumentError) as caught:
        load(source)
    assert [one.code for one in caught.value.findings] == [code]
    assert code in str(caught.value)


def test_a_repeated_key_is_a_finding_with_its_path() -> None:
    text = json.dumps(orders()).replace('"clean":', '"clean": "urn:x:other", "clean":')
    assert [(one.code, one.path) for one in load(text).problems] == [("repeated_key", "nodes[4].outputs.clean")]


def test_two_keys_of_one_meaning_are_a_finding() -> None:
    document = orders()
    find(document, "price")["https://noocodec.dev/ontology/dag/source"] = "other"
    assert [(one.code, one.path) for one in load(document).problems] == [
        ("repeated_key", 'nodes[2]["https://noocodec.dev/ontology/dag/source"]')
    ]


def _spots(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(spot for key, one in inner for spot in _spots(one, (*path, key)))]


ODD_VALUES = [None, -1.5, 10**30, "", [], {"": ""}, [{}], {"@id": 5}, {"@list": 3}]


@pytest.mark.parametrize("odd", ODD_VALUES, ids=repr)
def test_any_value_anywhere_gives_findings_or_a_refusal_never_a_traceback(odd: Any) -> None:
    """Every single value of a sound document, replaced by something odd."""
    for base in (orders(), dump_linked(load(orders()))):
        for spot in _spots({key: value for key, value in base.items() if key != "@context"}):
            document = json.loads(json.dumps(base))
            holder: Any = {"": document}
            for key in ("", *spot)[:-1]:
                holder = holder[key]
            holder[("", *spot)[-1]] = odd
            try:
                loaded = load(holder[""] if not spot and isinstance(odd, dict) else document if spot else json.dumps(odd))
            except DocumentError:
                continue
            found = check(loaded)
            assert all(one.message and isinstance(one.path, str) for one in found), spot
            assert isinstance(loaded.hash, str)


SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8)
WORDS = "@id @type @context @graph @list @value nodes entrypoints outputs sources name node dag body gather retry x"
KEYS = st.sampled_from(WORDS.split(" "))
JSON = st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=5), max_leaves=30)


@settings(max_examples=80, deadline=None)
@given(JSON)
def test_random_json_gives_a_document_or_a_refusal(value: Any) -> None:
    try:
        loaded = load(json.dumps(value, ensure_ascii=True))
    except DocumentError:
        return
    assert isinstance(loaded, Document)
    assert load(loaded.to_json()).hash == loaded.hash
    check(loaded)


# Random documents.


@settings(max_examples=60, deadline=None)
@given(documents())
def test_random_documents_come_through_bytes_and_through_the_rdf_shape(plain: dict[str, Any]) -> None:
    loaded = load(json.dumps(plain).encode())
    assert loaded.problems == ()
    assert loaded.to_json() == plain
    linked = load(json.dumps(dump_linked(loaded)))
    assert (linked.plain, linked.hash) == (loaded.plain, loaded.hash)
    assert linked.placements == loaded.placements


def test_a_document_in_an_array_or_alone_in_a_graph_is_that_document():
    plain = orders()
    alone = load(json.dumps(plain))
    context = {"@context": {"x": "urn:other:"}}
    for wrapped in ([plain], [[plain]], {"@graph": [plain]}, {**context, "@graph": [plain]}, [{"@graph": plain}]):
        document = load(json.dumps(wrapped))
        assert document.hash == alone.hash
        assert [list(one.sources) for one in document.placements.values() if isinstance(one, Gather)] == [
            list(one.sources) for one in alone.placements.values() if isinstance(one, Gather)
        ]
