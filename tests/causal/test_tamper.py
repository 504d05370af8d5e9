"""What a forger with a fresh digest can and cannot change."""

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from causeline.causal import Append, VerifyError, build_export, canonical, identity, verify_export
from tests.causal.forgery import HEAD, cut, forged, opened, rechained, refused, renamed
from tests.causal.logs import NOW, Session, sample
from tests.causal.values import any_value


def test_a_stale_digest_is_refused_and_the_node_is_named():
    bundle = opened()
    bundle["state"]["nodes"][3]["payload"] = "changed"
    fault = refused(canonical(bundle, depth=240))
    assert "digest" in fault.reason
    assert (fault.node_id, fault.index) == (bundle["state"]["nodes"][3]["id"], 3)
    bundle = opened()
    bundle["facts"][0]["usage"] = {}
    assert refused(canonical(bundle, depth=240)).reason == "the digest does not match the content"


@given(st.data())
@settings(max_examples=150, deadline=None)
def test_a_forged_node_is_refused_and_named(data):
    bundle = opened()
    nodes = bundle["state"]["nodes"]
    index = data.draw(st.integers(0, len(nodes) - 1))
    node = nodes[index]
    field = data.draw(st.sampled_from(["id", "kind", "parents", "payload", "resourceKey", "sequence"]))
    ids = [one["id"] for one in nodes]
    values = {
        "id": st.just("cw_" + "0" * 24),
        "kind": st.sampled_from(["system", "goal", "answer", "semantic"]),
        "parents": st.lists(st.sampled_from(ids), max_size=3),
        "payload": any_value,
        "resourceKey": st.sampled_from(["k", "resource:file:a.txt"]),
        "sequence": st.integers(0, 20),
    }
    changed = data.draw(values[field])
    assume(canonical([changed]) != canonical([node.get(field)]))
    node[field] = changed
    fault = refused(forged(bundle))
    assert (fault.node_id, fault.index) == (node["id"], index)


def test_a_node_renamed_throughout_breaks_the_checkpoint_that_appended_it():
    for index in range(len(opened()["state"]["nodes"])):
        bundle, _ = renamed(opened(), index, payload={"text": "forged", "calls": [], "type": "t", "key": "k"})
        fault = refused(forged(bundle))
        assert fault.node_id
        assert fault.node_id.startswith(("cw_", "ck_"))


@pytest.mark.parametrize(
    "field", ["parent", "run", "path", "node", "port", "next", "appended", "frontier", "delta", "position", "id", "step", "session"]
)
def test_a_forged_checkpoint_is_refused_and_named(field):
    for index, row in enumerate(opened()["checkpoints"]):
        for value in (None, "x", 7, [], ["x"], {"x": 1}, True, row["appended"][::-1], row["frontier"] * 2):
            bundle = opened()
            if canonical([bundle["checkpoints"][index][field]]) == canonical([value]):
                continue
            bundle["checkpoints"][index][field] = value
            fault = refused(forged(bundle))
            assert fault.node_id in (row["id"], None, "x") or fault.node_id.startswith("ck_")


def test_a_truncated_bundle_holds_together_but_not_against_a_pinned_head():
    data = forged(cut(opened(), 1))
    assert verify_export(data).head != HEAD
    assert refused(data, HEAD).node_id == verify_export(data).head


def test_a_consistent_rewrite_of_history_moves_the_head():
    def swap(row, index):
        if index == 4:
            row["position"] = {"step": 1, "forged": True}

    data = forged(rechained(opened(), swap))
    assert verify_export(data).head != HEAD
    refused(data, HEAD)


def test_reordered_nodes_are_refused():
    bundle = opened()
    nodes = bundle["state"]["nodes"]
    place = next(index for index, node in enumerate(nodes) if node["kind"] == "semantic")
    nodes[place], nodes[place - 1] = nodes[place - 1], nodes[place]
    for index, node in enumerate(nodes):
        node["sequence"] = index + 1
    refused(forged(bundle))
    session, head = Session(), None
    for word in ("a", "b"):
        head = session.commit(head, "run_0", [Append("goal", word, ()), Append("goal", word * 2, ())])
    bundle = opened(session.export(head))
    nodes = bundle["state"]["nodes"]
    nodes[0], nodes[1] = nodes[1] | {"sequence": 1}, nodes[0] | {"sequence": 2}
    assert "append this node here" in refused(forged(bundle)).reason

    def turned(row, index):
        if index == 0:
            row["appended"] = row["appended"][::-1]

    data = forged(rechained(bundle, turned))
    assert verify_export(data).head != head  # in itself it is another history, with another head
    refused(data, head)


def test_another_frontier_is_refused():
    ids = [node["id"] for node in opened()["state"]["nodes"]]
    for name in ids:
        bundle = opened()
        if bundle["state"]["frontier"] == [name]:
            continue
        bundle["state"]["frontier"] = [name]
        refused(forged(bundle))

        def swapped(row, index, name=name):
            if index == 5:
                row["frontier"] = [name]

        bundle = rechained(bundle, swapped)
        assert any(name in row["frontier"] for row in bundle["checkpoints"])
        refused(forged(bundle), HEAD)


def test_a_frontier_that_no_append_explains_is_refused_even_without_a_pinned_head():
    def dropped(row, index):
        if index == 1:
            row["frontier"] = []

    bundle = rechained(opened(), dropped)
    fault = refused(forged(bundle))
    assert "left the frontier" in fault.reason

    def kept(row, index):
        if index == 1:
            row["frontier"] = sorted([*row["frontier"], opened()["checkpoints"][0]["frontier"][0]])

    # The kept head is replaced by nothing later on, and the next checkpoint does not have it.
    assert "left the frontier" in refused(forged(rechained(opened(), kept))).reason

    def unknown(row, index):
        if index == 1:
            row["frontier"] = ["cw_" + "0" * 24]

    assert "neither new nor a head" in refused(forged(rechained(opened(), unknown))).reason


def test_a_frontier_in_another_order_is_refused():
    session = Session()
    head = session.commit(None, "run_0", [Append("goal", "a", ()), Append("goal", "b", ())])
    bundle = opened(session.export(head))
    bundle["checkpoints"][0]["frontier"].reverse()
    assert refused(forged(bundle)).node_id == head
    bundle["state"]["frontier"].reverse()
    assert refused(forged(bundle)).node_id == head


def test_a_missing_checkpoint_breaks_the_chain():
    for index, row in enumerate(opened()["checkpoints"]):
        bundle = opened()
        del bundle["checkpoints"][index]
        bundle["facts"] = [fact for fact in bundle["facts"] if fact["checkpoint"] != row["id"]]
        assert refused(forged(bundle)).node_id


def test_nodes_must_be_what_the_branch_appended():
    bundle = opened()
    name = identity("goal", "extra", [])
    bundle["state"]["nodes"].append({"id": name, "kind": "goal", "parents": [], "payload": "extra", "createdAt": NOW, "sequence": 15})
    assert refused(forged(bundle)).node_id == name
    session, head = sample(1)
    rows = [session.rows[one] for one in session.rows]
    with pytest.raises(VerifyError):
        build_export(session="s", owner="o", head=head, nodes=list(session.nodes.values())[:-1], checkpoints=rows)
    with pytest.raises(VerifyError):
        build_export(session="s", owner="o", head=head, nodes=session.nodes.values(), checkpoints=rows[1:])


@pytest.mark.parametrize(
    "change, told",
    [
        (lambda b: b.update(causeline=2), "causeline"),
        (lambda b: b.update(causeline=True), "causeline"),
        (lambda b: b.update(session=None), "session"),
        (lambda b: b.update(owner=1), "owner"),
        (lambda b: b.update(extra=1), "unknown key"),
        (lambda b: b.pop("runs"), "lacks"),
        (lambda b: b.update(runs={}), "array"),
        (lambda b: b.update(head=None), "head"),
        (lambda b: b.update(head="ck_" + "0" * 24), "not in the bundle"),
        (lambda b: b["runs"].pop(), "not among the runs"),
        (lambda b: b["runs"].append({"id": "a"}), "order"),
        (lambda b: b["runs"].append(b["runs"][-1]), "order"),
        (lambda b: b["runs"].append({}), "at least id"),
        (lambda b: b["runs"].append({"id": 1}), "at least id"),
        (lambda b: b["calls"].append({"run_id": "z", "step": 0, "call_id": "c"}), "run 'z' of this call"),
        (lambda b: b["calls"].append({"run_id": "run_1", "step": True, "call_id": "c"}), "at least run_id"),
        (lambda b: b["calls"].reverse(), "order"),
        (lambda b: b["facts"].reverse(), "order"),
        (lambda b: b["facts"].append({"checkpoint": "ck_" + "0" * 24}), "not there"),
        (lambda b: b["facts"].append(b["facts"][-1]), "order"),
        (lambda b: b["checkpoints"].reverse(), "order"),
        (lambda b: b.update(nodes=[]), "empty"),
        (lambda b: b["checkpoints"].append(5), "object"),
        (lambda b: b["checkpoints"][0].update(created_at="x"), "created_at"),
        (lambda b: b["checkpoints"][0].update(facts={}), "unknown key"),
        (lambda b: b["checkpoints"][0].update(step=True), "step"),
        (lambda b: b["checkpoints"][3].update(step=1), "order|step"),
        (lambda b: b["checkpoints"][2].update(step=5), "step is 5"),
        (lambda b: b["state"].update(version=2), "version"),
    ],
)
def test_wrong_frames_and_references_are_refused(change, told):
    bundle = opened()
    change(bundle)
    with pytest.raises(VerifyError, match=told):
        verify_export(forged(bundle))


@pytest.mark.parametrize("field", ["delta", "position", "path", "next"])
def test_a_checkpoint_too_deep_for_an_id_is_refused_by_name(field):
    """Deep enough for no checkpoint, and not too deep for a bundle."""
    bundle = opened()
    deep: list = []
    for _ in range(241):
        deep = [deep]
    bundle["checkpoints"][0][field] = {"a": deep} if field == "delta" else deep
    fault = refused(forged(bundle))
    assert (fault.node_id, fault.index) == (bundle["checkpoints"][0]["id"], 0)
