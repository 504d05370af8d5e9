import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from causeline.causal import KINDS, InvalidValue, checkpoint_id, identity
from tests.causal.values import any_value

SYSTEM = "cw_1cae223c00da12b09e844d75"
GOAL = "cw_7dd74d4edad0427651f64da8"
MEMORY = "cw_84c2eb0d9b316038cb1d113a"


def test_golden_vectors():
    content = {"type": "preference", "key": "hotel-style", "content": "The user prefers quiet hotels."}
    found = [identity("system", "shared"), identity("goal", "build", [SYSTEM])]
    found.append(identity("semantic", content, [GOAL], "semantic:preference:hotel-style"))
    assert found == [SYSTEM, GOAL, MEMORY]


def test_ten_kinds():
    assert {
        "system",
        "goal",
        "inference",
        "semantic",
        "tool_call",
        "tool_result",
        "resource",
        "verification",
        "answer",
        "protocol_error",
    } == KINDS


def test_parents_are_a_set():
    assert identity("goal", "x", [SYSTEM, GOAL]) == identity("goal", "x", (GOAL, SYSTEM, GOAL))


@given(any_value, any_value)
@settings(max_examples=100, deadline=None)
def test_id_depends_on_every_part(payload, other):
    plain = identity("goal", payload)
    parts = {plain, identity("answer", payload), identity("goal", payload, [GOAL]), identity("goal", payload, resource_key="k")}
    assert len(parts) == 4
    assert identity("goal", [payload, 0]) != plain
    if repr(payload) == repr(other):
        assert identity("goal", other) == plain


@pytest.mark.parametrize(
    "arguments, path",
    [
        (("note", 1), "kind"),
        ((None, 1), "kind"),
        (("goal", 1.5, [], ""), "resource_key"),
        (("goal", 1, [], 3), "resource_key"),
        (("goal", 1, [], "\ud800"), "resource_key"),
        (("goal", 1, [3]), "parents"),
        (("goal", 1, GOAL), "parents"),
        (("goal", float("nan")), "$"),
        (("goal", [(1,)]), "$[0]"),
    ],
)
def test_wrong_arguments_are_named(arguments, path):
    with pytest.raises(InvalidValue) as caught:
        identity(*arguments)
    assert caught.value.path == path


def fields(**changes):
    plain = {
        "parent": None,
        "run": "run_1",
        "path": [],
        "node": "entrypoint",
        "port": "ready",
        "next": "call_model",
        "appended": [SYSTEM, GOAL],
        "frontier": [GOAL],
        "delta": {"document": "00"},
        "position": {"at": 1},
    }
    return plain | changes


def test_checkpoint_golden_vector():
    assert checkpoint_id(**fields()) == "ck_e6ce0a36fb55f354f150e079"


@pytest.mark.parametrize(
    "change",
    [
        {"parent": "ck_0"},
        {"run": "run_2"},
        {"path": ["a"]},
        {"node": "x"},
        {"port": None},
        {"next": None},
        {"appended": [GOAL, SYSTEM]},
        {"frontier": []},
        {"delta": {}},
        {"position": {"at": 2}},
    ],
    ids=lambda change: next(iter(change)),
)
def test_checkpoint_id_covers_every_field(change):
    assert checkpoint_id(**fields(**change)) != checkpoint_id(**fields())


def test_checkpoint_frontier_is_a_set():
    assert checkpoint_id(**fields(frontier=[SYSTEM, GOAL])) == checkpoint_id(**fields(frontier=iter([GOAL, SYSTEM])))


@given(st.recursive(st.integers(), lambda inner: st.lists(inner, max_size=2), max_leaves=3))
@settings(max_examples=20, deadline=None)
def test_checkpoint_position_may_nest_payloads(position):
    deep = position
    for _ in range(200):
        deep = [deep]
    assert checkpoint_id(**fields(position=deep)).startswith("ck_")
