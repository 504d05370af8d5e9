"""Bundles that hold several branches."""

import copy

from causeline.causal import AgentState, Append, checkpoint_id, verify_export
from tests.causal.forgery import DATA, forged, opened, refused
from tests.causal.logs import Session, turn


def branching():
    session = Session()
    root = session.commit(None, "run_a", [Append("system", "s", (), advance=False), *turn("q", "a", [])])
    resource = Append("resource", {"v": 1}, resource_key="resource:file:f")
    left = session.commit(root, "run_a", [resource])
    left = session.commit(left, "run_a", [Append("goal", "left")])
    right = session.commit(root, "run_b", [resource, Append("goal", "right")])
    right = session.commit(right, "run_b", [Append("resource", {"v": 2}, resource_key="resource:file:f")])
    other = session.commit(None, "run_c", turn("another start", "b", []))
    return session, left, right, other


def test_every_branch_can_go_along():
    session, left, right, other = branching()
    for head in (left, right, other):
        alone = verify_export(session.export(head), head)
        assert [node.id for node in alone.state.nodes] == [node.id for node in session.states[head].nodes]
        assert alone.nodes == ()
        found = verify_export(session.export(head, everything=True), head)
        assert found.state.to_json() == alone.state.to_json()
        assert {node.id for node in found.nodes} == session.nodes.keys() - {node.id for node in found.state.nodes}
        assert [node.id for node in found.nodes] == sorted(node.id for node in found.nodes)
        assert len(found.checkpoints) == 6


def test_nodes_of_other_branches_are_checked_as_well():
    session, left, right, _ = branching()
    bundle = opened(session.export(left, everything=True))
    for index, node in enumerate(bundle["nodes"]):
        changed = copy.deepcopy(bundle)
        changed["nodes"][index]["payload"] = "forged"
        fault = refused(forged(changed))
        assert (fault.node_id, fault.index) == (node["id"], index)
    changed = copy.deepcopy(bundle)
    del changed["nodes"][0]
    assert refused(forged(changed)).node_id == bundle["nodes"][0]["id"]
    changed = copy.deepcopy(bundle)
    changed["nodes"].reverse()
    assert "order" in refused(forged(changed)).reason
    changed = copy.deepcopy(bundle)
    changed["checkpoints"] = [row for row in bundle["checkpoints"] if row["id"] != right]
    changed["facts"] = [fact for fact in bundle["facts"] if fact["checkpoint"] != right]
    assert "no checkpoint appended" in refused(forged(changed)).reason


def test_a_version_chain_is_kept_within_each_branch():
    session, left, right, _ = branching()
    data = session.export(left, everything=True)
    assert verify_export(data).state.head("resource:file:f").payload == {"v": 1}
    assert verify_export(session.export(right, everything=True)).state.head("resource:file:f").payload == {"v": 2}
    # A second version that does not name the first, in a checkpoint whose id is right.
    orphan = Append("resource", {"v": 9}, (), "resource:file:f")
    bad = Session()
    bad.rows, bad.nodes, bad.runs = session.rows, session.nodes, session.runs
    bad.states = {right: AgentState()}
    forked = bad.commit(right, "run_b", [orphan])
    bad.rows[forked]["frontier"] = sorted({*session.rows[right]["frontier"], *bad.rows[forked]["frontier"]})
    row = bad.rows.pop(forked)
    row["id"] = checkpoint_id(**{key: row[key] for key in row.keys() - {"id", "session", "step", "created_at"}})
    bad.rows[row["id"]] = row
    fault = refused(session.export(left, everything=True))
    assert "version" in fault.reason
    assert row["id"] in fault.reason


def test_many_branches_cost_what_they_hold():
    session = Session()
    trunk = None
    for index in range(150):
        trunk = session.commit(trunk, "run_a", [Append("goal", index)])
        session.commit(trunk, f"run_b{index}", [Append("answer", index)])
    found = verify_export(session.export(trunk, everything=True), trunk)
    assert (len(found.state), len(found.nodes), len(found.checkpoints)) == (150, 150, 300)


def test_a_node_of_the_branch_cannot_hide_among_the_others():
    bundle = opened(DATA)
    node = bundle["state"]["nodes"].pop()
    assert node["kind"] == "semantic"
    del node["sequence"]
    bundle["nodes"] = [node]
    fault = refused(forged(bundle))
    assert (fault.node_id, "state lacks it" in fault.reason) == (node["id"], True)
