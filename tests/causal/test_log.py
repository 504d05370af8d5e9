import copy
import gc
import time
import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from causeline.causal import (
    AgentState,
    Append,
    IdentityCollision,
    InvalidValue,
    UnknownNode,
    UnknownParent,
    VerifyError,
    apply,
    identity,
    stored_node,
)
from causeline.errors import Corrupt, Invalid, Missing
from tests.causal.logs import LATER, NOW, appended, sample, states, turn
from tests.causal.values import any_value


def log_of(*batch):
    state = AgentState()
    apply(state, list(batch), NOW)
    return state


def test_an_empty_log():
    state = AgentState()
    assert (state.version, list(state.nodes), state.frontier, len(state)) == (1, [], [], 0)
    assert state.to_json() == {"version": 1, "nodes": [], "frontier": []}


def test_append_gives_identity_order_and_frontier():
    state = AgentState()
    system = state.append("system", "shared", [], created_at=NOW, advance=False)
    goal = state.append("goal", "build", [system.id], created_at=LATER)
    reply = state.append("inference", {"text": "ok", "calls": [], "finish": "stop"}, created_at=LATER)
    assert goal.id == "cw_7dd74d4edad0427651f64da8"
    assert reply.parents == (goal.id,)
    assert reply.id == identity("inference", reply.payload, [goal.id])
    assert [node.id for node in state.nodes] == [system.id, goal.id, reply.id]
    assert state.frontier == [reply.id]
    assert (state.sequence(system.id), state.node(goal.id), goal.id in state, "cw_0" in state) == (1, goal, True, False)
    assert goal.to_json(2) == {"id": goal.id, "kind": "goal", "parents": [system.id], "payload": "build", "createdAt": LATER, "sequence": 2}


def test_resource_versions_chain_and_equal_values_are_new_versions():
    state = AgentState()
    first = state.append("resource", {"path": "a"}, [], created_at=NOW, resource_key="resource:file:a")
    other = state.append("goal", "x", [], created_at=NOW)
    second = state.append("resource", {"path": "a"}, [other.id], created_at=NOW, resource_key="resource:file:a")
    assert first.id != second.id
    assert second.parents == tuple(sorted([first.id, other.id]))
    assert state.head("resource:file:a") is second
    assert state.versions("resource:file:a") == [first, second]
    assert state.frontier == [second.id]
    assert (state.head("none"), state.versions("none")) == (None, [])
    assert state.resources() == {"resource:file:a": second}
    assert second.to_json()["resourceKey"] == "resource:file:a"


def test_a_duplicate_changes_nothing_and_keeps_the_first_time():
    state = AgentState()
    goal = state.append("goal", "x", [], created_at=NOW)
    state.append("answer", "y", [goal.id], created_at=NOW)
    before = state.to_json()
    assert state.append("goal", "x", [], created_at=LATER) is goal
    assert state.to_json() == before
    assert state.append("goal", "x", [], created_at=LATER, advance=False).created_at == NOW


def test_without_advance_the_frontier_stays():
    state = log_of(Append("goal", 1))
    heads = state.frontier
    state.append("semantic", {"type": "memory", "key": "k", "content": 1}, created_at=NOW, advance=False)
    assert state.frontier == heads


class Model:
    """The rules of the log in the plainest form."""

    def __init__(self):
        self.ids, self.frontier, self.heads = [], [], {}

    def append(self, one, resolved):
        parents = set(self.frontier if one.parents == "frontier" else resolved)
        if one.resource_key in self.heads:
            parents.add(self.heads[one.resource_key])
        name = identity(one.kind, one.payload, parents, one.resource_key)
        if name in self.ids:
            return
        self.ids.append(name)
        if one.advance:
            self.frontier = [head for head in self.frontier if head not in parents] + [name]
        if one.resource_key is not None:
            self.heads[one.resource_key] = name


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_any_series_of_appends_agrees_with_the_plain_rules(data):
    state, model = AgentState(), Model()
    for _ in range(data.draw(st.integers(1, 12))):
        one = data.draw(appended(state))
        apply(state, [one], NOW)
        model.append(one, one.parents)
    assert [node.id for node in state.nodes] == model.ids
    assert state.frontier == model.frontier
    assert {key: node.id for key, node in state.resources().items()} == model.heads
    again = AgentState.from_json(state.to_json())
    assert again.to_json() == state.to_json()
    assert {key: node.id for key, node in again.resources().items()} == model.heads


@given(states())
@settings(max_examples=40, deadline=None)
def test_ancestors_are_everything_below(state):
    below = {}
    for node in state.nodes:
        below[node.id] = set(node.parents).union(*(below[parent] for parent in node.parents))
        assert state.ancestors([node.id]) == state.ancestors(node.id) == below[node.id]
    assert state.ancestors([]) == set()


def test_what_the_caller_changes_afterwards_does_not_reach_the_log():
    state = AgentState()
    payload = {"list": [1, {"deep": "a"}]}
    node = state.append("goal", payload, created_at=NOW)
    payload["list"][1]["deep"] = "changed"
    payload["new"] = 1
    seen = node.payload
    seen["list"].append("more")
    assert node.payload == {"list": [1, {"deep": "a"}]}
    assert AgentState.from_json(state.to_json()).to_json() == state.to_json()
    parents = state.frontier
    parents.append("cw_x")
    assert state.frontier == [node.id]
    with pytest.raises(AttributeError):
        node.kind = "answer"
    with pytest.raises((AttributeError, TypeError)):
        state.nodes.append(node)


@given(any_value)
@settings(max_examples=60, deadline=None)
def test_payloads_survive_a_round_trip(value):
    state = log_of(Append("goal", value))
    again = AgentState.from_json(state.to_json())
    assert again.nodes[0] == state.nodes[0]
    assert again.nodes[0].payload == state.nodes[0].payload


def test_nodes_read_as_a_sequence_without_a_copy():
    state = log_of(Append("goal", 1), Append("goal", 2), Append("goal", 3))
    nodes = state.nodes
    assert [node.payload for node in nodes[1:]] == [2, 3]
    assert nodes[-1].payload == 3
    assert nodes == state.nodes == list(nodes)
    assert nodes != list(nodes)[1:]
    state.append("goal", 4, created_at=NOW)
    assert len(nodes) == 4


@pytest.mark.parametrize(
    "call, error, told",
    [
        (lambda s: s.append("note", 1, created_at=NOW), InvalidValue, "kind"),
        (lambda s: s.append("goal", float("nan"), created_at=NOW), InvalidValue, r"\$"),
        (lambda s: s.append("goal", 1, created_at=NOW, resource_key=""), InvalidValue, "resource_key"),
        (lambda s: s.append("goal", 1, ["cw_000000000000000000000000"], created_at=NOW), UnknownParent, "cw_0000"),
        (lambda s: s.append("goal", 1, [None], created_at=NOW), UnknownParent, "None"),
        (lambda s: s.append("goal", 1, "cw_0", created_at=NOW), InvalidValue, "parents"),
        (lambda s: s.append("goal", 1, created_at="2026-01-01"), InvalidValue, "created_at"),
        (lambda s: s.ancestors(["cw_0"]), UnknownNode, "cw_0"),
        (lambda s: s.why("cw_0"), UnknownNode, "cw_0"),
        (lambda s: s.node("cw_0"), UnknownNode, "cw_0"),
        (lambda s: s.sequence("cw_0"), UnknownNode, "cw_0"),
    ],
)
def test_refusals_name_the_place_and_change_nothing(call, error, told):
    state = log_of(Append("goal", "x"))
    before = copy.deepcopy(state.to_json())
    with pytest.raises(error, match=told):
        call(state)
    assert state.to_json() == before


@pytest.mark.parametrize(
    "text",
    [
        "2026-01-02T03:04:05Z",
        "2026-01-02T03:04:05.67Z",
        "2026-01-02T03:04:05.678",
        "2026-01-02T03:04:05.678+00:00",
        "2026-02-30T03:04:05.678Z",
        "2026-01-02T24:00:00.000Z",
        "2026-01-02T03:60:05.678Z",
        "2026-01-02T03:04:60.000Z",
        "0000-01-02T03:04:05.678Z",
        "2026-01-02 03:04:05.678Z",
        "2026-01-02T03:04:05.678Z\n",
        "٢026-01-02T03:04:05.678Z",
        "",
        None,
        5,
    ],
)
def test_times_are_real_and_of_one_form(text):
    with pytest.raises(InvalidValue, match="created_at"):
        AgentState().append("goal", 1, created_at=text)


def test_errors_are_of_the_kind_that_says_who_must_act():
    assert issubclass(InvalidValue, Invalid)
    assert issubclass(UnknownParent, Missing)
    assert issubclass(VerifyError, Corrupt)
    assert issubclass(IdentityCollision, Corrupt)


# why


def test_why_is_the_inference_and_what_it_had_read():
    state = AgentState()
    apply(state, [Append("system", "s", (), advance=False)], NOW)
    batch = turn("q", "a", [("read", {}, 1), ("read", {}, 2)])
    apply(state, batch, NOW)
    system, goal, reply1, call1, result1, reply2, call2, result2, reply3, answer = state.nodes
    memory = state.append("semantic", {"type": "m"}, [answer.id], created_at=NOW, resource_key="semantic:m:k", advance=False)
    assert state.why(answer.id) == state.why(reply3.id) == state.why(memory.id) == [result2, reply3]
    assert state.why(call1.id) == state.why(result1.id) == state.why(reply1.id) == [goal, reply1]
    assert state.why(result2.id) == [result1, reply2]
    assert state.why(goal.id) == state.why(system.id) == []
    assert call2.id in state.ancestors([answer.id])


def test_why_does_not_take_the_version_before_for_a_cause():
    state = AgentState()
    apply(state, turn("q1", "a1", [("write", {}, 1)]), NOW)
    first = state.append("resource", {"v": 1}, [state.nodes[3].id], created_at=NOW, resource_key="resource:file:a")
    apply(state, turn("q2", "a2", [("write", {}, 2)], prefix="d"), NOW)
    result = next(node for node in state.nodes if node.kind == "tool_result" and node.payload["call_id"] == "d0")
    second = state.append("resource", {"v": 2}, [result.id], created_at=NOW, resource_key="resource:file:a")
    assert first.id in second.parents
    assert {node.payload["calls"][0]["id"] for node in state.why(second.id) if node.kind == "inference"} == {"d0"}
    assert {node.payload["calls"][0]["id"] for node in state.why(first.id) if node.kind == "inference"} == {"c0"}


# batches


def test_a_batch_refers_to_its_own_records():
    state = log_of(Append("goal", "q"))
    goal = state.nodes[0]
    reply = Append("inference", "r")
    calls = [Append("tool_call", {"call_id": f"c{index}"}, (reply,)) for index in range(2)]
    joined = Append("answer", "a", (calls[0], goal.id, calls[1]))
    new = apply(state, [reply, *calls, joined], LATER)
    assert [node.kind for node in new] == ["inference", "tool_call", "tool_call", "answer"]
    assert new[3].parents == tuple(sorted([new[1].id, new[2].id, goal.id]))
    assert {node.created_at for node in new} == {LATER}
    assert state.frontier == [new[3].id]


def test_a_batch_returns_only_what_is_new():
    state = AgentState()
    system = Append("system", "s", (), advance=False)
    assert len(apply(state, [system], NOW)) == 1
    assert apply(state, [system, Append("system", "s", (), advance=False)], LATER) == []
    goal = Append("goal", "g", (system,))
    assert [node.parents for node in apply(state, [system, goal], NOW)] == [(state.nodes[0].id,)]


@pytest.mark.parametrize(
    "bad, error",
    [
        (Append("note", 1), InvalidValue),
        (Append("goal", float("inf")), InvalidValue),
        (Append("goal", 1, resource_key=""), InvalidValue),
        (Append("goal", 1, ("cw_unknown",)), UnknownParent),
        (Append("goal", 1, (Append("goal", 2),)), InvalidValue),
        (Append("goal", 1, "cw_0"), InvalidValue),
        (Append("goal", 1, (None,)), UnknownParent),
    ],
)
def test_a_batch_is_added_whole_or_not_at_all(bad, error):
    state = log_of(Append("goal", "x"))
    before = state.to_json()
    with pytest.raises(error):
        apply(state, [Append("inference", 1), bad, Append("answer", 2)], NOW)
    with pytest.raises(InvalidValue):
        apply(state, [Append("inference", 1)], "yesterday")
    assert state.to_json() == before


# cost


def test_an_append_does_not_cost_more_in_a_long_log():
    def seconds(count):
        state = AgentState()
        for index in range(count):
            state.append("tool_result", {"call_id": str(index), "result": "x" * 50}, created_at=NOW, resource_key=f"k{index % 50}")
        gc.collect()
        best = float("inf")
        for sample_index in range(5):
            start = time.process_time()
            for index in range(200):
                state.append("tool_result", {"call_id": f"{sample_index}.{index}"}, created_at=NOW)
            best = min(best, time.process_time() - start)
        return best

    short, long = seconds(100), seconds(10_000)
    assert long < 20 * short, f"200 appends: {short:.4f} s after 100 nodes, {long:.4f} s after 10,000"


def test_an_append_does_not_hold_more_memory_in_a_long_log():
    def held(count):
        state = AgentState()
        for index in range(count):
            state.append("goal", index, created_at=NOW)
        tracemalloc.start()
        for index in range(1_000):
            state.append("goal", f"x{index}", created_at=NOW)
        size = tracemalloc.get_traced_memory()[0]
        tracemalloc.stop()
        return size

    # A dict or list that happens to grow meanwhile doubles: the bound leaves room for one such doubling.
    assert held(20_000) < held(1_000) + 3_000_000


# stored nodes


def test_a_stored_node_is_checked_against_its_id():
    node = log_of(Append("goal", {"a": 1})).nodes[0]
    row = {"id": node.id, "kind": node.kind, "parents": node.parents, "payload_bytes": node.payload_bytes, "created_at": node.created_at}
    assert stored_node(**row) == node
    for change in (
        {"kind": "answer"},
        {"parents": (node.id,)},
        {"payload_bytes": b'{"a":2}'},
        {"resource_key": "k"},
        {"id": "cw_" + "0" * 24},
    ):
        with pytest.raises(VerifyError) as caught:
            stored_node(**{**row, **change})
        assert caught.value.node_id == change.get("id", node.id)


def test_restore_refuses_what_is_not_linked():
    session, head = sample(1)
    state = session.states[head]
    nodes = list(state.nodes)
    assert AgentState.restore(nodes, state.frontier).to_json() == state.to_json()
    with pytest.raises(VerifyError) as caught:
        AgentState.restore([nodes[0], *nodes[2:]], state.frontier)
    assert caught.value.node_id
    with pytest.raises(VerifyError):
        AgentState.restore(nodes, ["cw_" + "0" * 24])


def test_two_contents_with_one_id_are_never_mixed_up():
    state = log_of(Append("goal", "x"))
    node = state.nodes[0]
    state._nodes[0] = type(node)(node.id, node.kind, node.parents, b'"y"', node.created_at)
    with pytest.raises(IdentityCollision, match=node.id):
        state.append("goal", "x", [], created_at=NOW)
