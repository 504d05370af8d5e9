"""A log from outside: everything is checked, the node at fault is named, nothing is taken over."""

import copy
import json
import sys

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from causeline.causal import KINDS, AgentState, Append, Limits, VerifyError, apply, identity, verify, verify_export
from causeline.causal.identity import node_id
from causeline.causal.import_checks import check_frontier
from causeline.causal.json_text import parse
from causeline.errors import Misuse
from tests.causal.logs import NOW, sample, states
from tests.causal.values import any_value


def exported():
    session, head = sample(2)
    return session.states[head].to_json()


def refused(obj, limits=None):
    with pytest.raises(VerifyError) as caught:
        AgentState.from_json(obj, limits or Limits())
    with pytest.raises(VerifyError):
        verify(json.dumps(obj).encode(), limits=limits or Limits())
    return caught.value


FIELDS = ["id", "kind", "parents", "payload", "resourceKey", "sequence"]


@given(st.data())
@settings(max_examples=120, deadline=None)
def test_changing_any_field_of_any_node_is_refused_and_the_node_is_named(data):
    obj = exported()
    index = data.draw(st.integers(0, len(obj["nodes"]) - 1))
    node = obj["nodes"][index]
    field = data.draw(st.sampled_from(FIELDS))
    values = {
        "id": st.sampled_from(["cw_" + "0" * 24, node["id"].upper(), node["id"][:-1], "", None, 5]),
        "kind": st.sampled_from([*KINDS, "note", None]),
        "parents": st.lists(st.sampled_from([one["id"] for one in obj["nodes"]]), max_size=3) | st.none() | st.just(["cw_x"]),
        "payload": any_value,
        "resourceKey": st.sampled_from(["k", "", None, 5, "\ud800"]),
        "sequence": st.sampled_from([0, -1, 100, True, 1.0, 2.0, "1", None, float(index + 1)]),
    }
    changed = data.draw(values[field])
    same = changed == node.get(field) and type(changed) is type(node.get(field)) and field in node
    assume(not same and not (field == "payload" and identity("goal", changed) == identity("goal", node["payload"])))
    node[field] = changed
    fault = refused(obj)
    assert fault.index == index
    well_formed = isinstance(node["id"], str) and len(node["id"]) == 27 and node["id"].islower()
    assert fault.node_id == (node["id"] if well_formed else None)
    assert fault.code == "verify_failed"


@pytest.mark.parametrize("field", [*FIELDS[:4], "createdAt", "sequence"])
def test_a_missing_field_is_refused(field):
    obj = exported()
    del obj["nodes"][3][field]
    fault = refused(obj)
    assert fault.index == 3
    assert field in fault.reason or field == "id"


def with_node(index, **changes):
    obj = exported()
    obj["nodes"][index].update(changes)
    return obj


def with_state(**changes):
    return exported() | changes


@pytest.mark.parametrize(
    "obj, told",
    [
        ([], "object"),
        (None, "object"),
        ({}, "lacks"),
        (with_state(version=2), "version"),
        (with_state(version=True), "version"),
        (with_state(version=1.0), "version"),
        (with_state(extra=1), "unknown key"),
        (with_state(nodes={}), "arrays"),
        (with_state(frontier=None), "arrays"),
        (with_state(nodes=[5]), "object"),
        (with_node(2, extra=None), "unknown key"),
        (with_node(2, createdAt="2026-01-02"), "createdAt"),
        (with_node(2, createdAt="2026-02-30T00:00:00.000Z"), "createdAt"),
        (with_node(2, createdAt=None), "createdAt"),
        (with_node(2, parents=[1]), "parents"),
        (with_node(2, resourceKey=None), "resourceKey"),
    ],
)
def test_wrong_frames_and_types_are_refused(obj, told):
    assert told in refused(obj).reason


def test_parents_must_be_sorted_unique_and_earlier():
    state = AgentState()
    apply(state, [Append("goal", 1, ()), Append("goal", 2, ())], NOW)
    one, two = state.nodes
    state.append("goal", 3, [one.id, two.id], created_at=NOW)
    obj = state.to_json()
    for parents in (obj["nodes"][2]["parents"][::-1], [one.id, one.id], [obj["nodes"][2]["id"]]):
        changed = copy.deepcopy(obj)
        changed["nodes"][2]["parents"] = parents
        assert refused(changed).node_id == obj["nodes"][2]["id"]
    moved = copy.deepcopy(obj)
    moved["nodes"] = [moved["nodes"][index] for index in (2, 0, 1)]
    for index, node in enumerate(moved["nodes"]):
        node["sequence"] = index + 1
    assert "not an earlier node" in refused(moved).reason
    twice = copy.deepcopy(obj)
    twice["nodes"].append(obj["nodes"][0] | {"sequence": 4})
    assert "twice" in refused(twice).reason


def test_parents_listed_twice_are_refused_even_with_a_fitting_id():
    state = AgentState()
    goal = state.append("goal", 1, [], created_at=NOW)
    obj = state.to_json()
    twice = (goal.id, goal.id)
    node = {
        "id": node_id("answer", twice, b"2", None),
        "kind": "answer",
        "parents": list(twice),
        "payload": 2,
        "createdAt": NOW,
        "sequence": 2,
    }
    obj["nodes"].append(node)
    assert "unique" in refused(obj).reason


def test_a_version_must_list_the_version_before():
    state = AgentState()
    first = state.append("resource", 1, [], created_at=NOW, resource_key="k")
    obj = state.to_json()
    name = identity("resource", 2, [], "k")
    obj["nodes"].append({"id": name, "kind": "resource", "parents": [], "payload": 2, "createdAt": NOW, "sequence": 2, "resourceKey": "k"})
    obj["frontier"] = [first.id, name]
    fault = refused(obj)
    assert (fault.node_id, fault.index) == (name, 1)
    assert first.id in fault.reason


# frontier


def naive_frontiers(nodes, before=()):
    """Every frontier that some choice of advance flags leads to."""
    found = {frozenset(before)}
    for node in nodes:
        found |= {(heads - set(node.parents)) | {node.id} for heads in found}
    return found


@given(states(most=6), st.data())
@settings(max_examples=60, deadline=None)
def test_a_frontier_is_accepted_exactly_if_some_series_of_appends_leads_to_it(state, data):
    ids = [node.id for node in state.nodes]
    wanted = data.draw(st.lists(st.sampled_from(ids), unique=True, max_size=4)) if ids else []
    obj = state.to_json() | {"frontier": wanted}
    if frozenset(wanted) in naive_frontiers(state.nodes):
        assert AgentState.from_json(obj).frontier == wanted
    else:
        refused(obj)


@given(states(most=8), st.data())
@settings(max_examples=100, deadline=None)
def test_a_step_of_the_frontier_is_accepted_exactly_if_some_series_of_appends_takes_it(state, data):
    nodes = list(state.nodes)
    at = data.draw(st.integers(0, len(nodes)))
    before = data.draw(st.sampled_from(sorted(naive_frontiers(nodes[:at]), key=sorted)))
    possible = naive_frontiers(nodes[at:], before)
    anything = st.sets(st.sampled_from([node.id for node in nodes]), max_size=4) if nodes else st.just(set())
    wanted = frozenset(data.draw(st.sampled_from(sorted(possible, key=sorted)) | anything))
    if wanted in possible:
        assert check_frontier(before, nodes[at:], sorted(wanted)) == wanted
    else:
        with pytest.raises(VerifyError):
            check_frontier(before, nodes[at:], sorted(wanted))


def test_a_head_cannot_be_replaced_by_a_node_that_cannot_have_advanced():
    state = AgentState()
    apply(state, [Append("goal", "replaced", ()), Append("goal", "kept", ())], NOW)
    old, kept = state.nodes
    middle = state.append("answer", "middle", [old.id, kept.id], created_at=NOW, advance=False)
    last = state.append("answer", "last", [middle.id], created_at=NOW)
    # `kept` is still a head, so its child `middle` did not advance, and nothing else can have replaced `old`.
    with pytest.raises(VerifyError) as caught:
        check_frontier({old.id}, [kept, middle, last], sorted([kept.id, last.id]))
    assert caught.value.node_id == old.id
    assert check_frontier({old.id}, [kept, middle, last], [last.id]) == {last.id}


def test_frontier_ids_are_unique_known_texts():
    head = exported()["frontier"][0]
    for frontier in ([head, head], ["cw_" + "0" * 24], [5], [None]):
        refused(with_state(frontier=frontier))


# limits


def test_limits_stop_an_import():
    obj = exported()
    size = len(obj["nodes"])
    assert AgentState.from_json(obj, Limits(nodes=size))
    assert str(size) in refused(obj, Limits(nodes=size - 1)).reason
    assert "bytes" in refused(obj, Limits(bytes=100)).reason
    deep = with_node(2, payload=[[["x"]]])
    fault = refused(deep, Limits(depth=2))
    assert (fault.index, "$[0][0]" in fault.reason) == (2, True)
    with pytest.raises(Misuse):
        Limits(depth=10_000)


def test_a_limit_is_checked_before_the_work(monkeypatch):
    monkeypatch.setattr("causeline.causal.import_checks.read_node", lambda *_: pytest.fail("read a node of too many"))
    with pytest.raises(VerifyError, match="limit"):
        AgentState.from_json({"version": 1, "nodes": [0] * 11, "frontier": []}, Limits(nodes=10))
    monkeypatch.setattr("causeline.causal.verification.parse", lambda *_, **__: pytest.fail("parsed too large a text"))
    with pytest.raises(VerifyError, match="limit"):
        verify(b" " * 101, limits=Limits(bytes=100))


# text


def test_any_formatting_of_a_bare_state_is_read():
    obj = exported()
    found = verify(json.dumps(obj, indent=3, ensure_ascii=True).encode())
    assert isinstance(found, AgentState)
    assert found.to_json() == obj
    with pytest.raises(Misuse):
        verify(json.dumps(obj).encode(), head="ck_" + "0" * 24)


@pytest.mark.parametrize(
    "text, told",
    [
        ('{"version":1,"version":1,"nodes":[],"frontier":[]}', "repeated"),
        ('{"version":1,"nodes":[{"payload":{"a":1,"b":{"c":1,"c":2}}}],"frontier":[]}', "'c' is repeated"),
        ('{"version":NaN,"nodes":[],"frontier":[]}', "NaN"),
        ('{"version":1,"nodes":[Infinity],"frontier":[]}', "Infinity"),
        ('{"version":1,"nodes":[-Infinity],"frontier":[]}', "Infinity"),
        ('{"version":1,"nodes":[1e999],"frontier":[]}', "inf"),
        ('{"version":1,"nodes":["\\ud800"],"frontier":[]}', "surrogate"),
        ('{"version":1,"nodes":[{"\\udfff":1}],"frontier":[]}', "surrogate"),
        ("[" * 100_000, "nested deeper"),
        ('{"a":' * 300 + "1" + "}" * 300, "nested deeper"),
        ("1" * 200_000, "digits"),
        ("[" + ",".join(["7" * 50_000] * 20) + "]", "digits"),
        ("", "not JSON"),
        ("{", "not JSON"),
        ('{"version":1}x', "not JSON"),
        ("'a'", "not JSON"),
        ("\ufeff{}", "not JSON"),
        ("[1,]", "not JSON"),
        ("[01]", "not JSON"),
    ],
    ids=lambda value: value[:30],
)
def test_hostile_text_is_refused(text, told):
    with pytest.raises(VerifyError, match=told):
        verify(text.encode())


def test_bytes_that_are_not_utf_8_are_refused():
    for data in (b'"\xff"', b'"\xed\xa0\x80"', '"a"'.encode("utf-16"), b"\xef\xbb\xbf{}"):
        with pytest.raises(VerifyError):
            verify(data)


def test_hostile_text_is_refused_under_a_deep_stack():
    def down(levels):
        return down(levels - 1) if levels else refused_text()

    def refused_text():
        with pytest.raises(VerifyError, match="nested deeper"):
            verify(b"[" * 5_000)
        return True

    assert down(sys.getrecursionlimit() // 3)


@pytest.mark.parametrize("number", [2**64, 2**80, -(2**63) - 1, 10**400, 7 * 10**5_000], ids=lambda number: f"{number.bit_length()} bits")
def test_integers_of_any_size_survive_an_import(number):
    state = AgentState()
    state.append("goal", {"n": [number, 1.5]}, created_at=NOW)
    name, payload = state.frontier[0].encode(), state.nodes[0].payload_bytes
    node = b'{"id":"%b","kind":"goal","parents":[],"payload":%b,"createdAt":"%b","sequence":1}' % (name, payload, NOW.encode())
    again = verify(b'{"version":1,"frontier":["%b"],"nodes":[%b]}' % (name, node))
    assert again.nodes[0].payload["n"][0] == number


def test_nul_and_other_odd_text_survives():
    state = AgentState()
    texts = {"a\x00b": "\x00", "\u202ertl": "\x1b[31m", "\U0001f600": "\u2028", "\uffee": "\x7f"}
    state.append("tool_result", texts, created_at=NOW, resource_key="resource:file:\x00 \U0001f600")
    found = verify(json.dumps(state.to_json()).encode())
    assert found.nodes[0].payload == texts
    assert found.head("resource:file:\x00 \U0001f600") is not None


def test_ten_megabytes_of_text_survive():
    state = AgentState()
    state.append("tool_result", {"result": "0.5 \u00e9\x00" * 1_700_000}, created_at=NOW)
    assert AgentState.from_json(parse(json.dumps(state.to_json()))).nodes[0] == state.nodes[0]


@pytest.mark.parametrize("read", [verify, verify_export])
@pytest.mark.parametrize(
    "data, told",
    [
        (b"# notes", "this is no causeline export: it is not JSON"),
        (b"\x89PNG\r\n", "this is no causeline export: it is not JSON"),
        (b"", "this is no causeline export: it is not JSON"),
        (b"[1, 2]", "this is no causeline export: it is JSON of another kind"),
        (b'{"name": "x"}', "this is no causeline export: it is JSON of another kind"),
    ],
)
def test_a_file_that_was_never_an_export_is_called_so(read, data, told):
    with pytest.raises(VerifyError, match=told):
        read(data)


def test_an_export_that_is_damaged_is_not_called_something_else():
    with pytest.raises(VerifyError) as caught:
        verify(b'{"calls":[}')
    assert "no causeline export" not in caught.value.reason
