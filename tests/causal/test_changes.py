"""What changed between two logs, and the versions of one resource."""

from causeline.causal import AgentState, Difference, diff, history

AT = "2026-01-01T00:00:00.000Z"


def written(log, key, text, parents=None):
    return log.append(
        "resource", {"path": key, "operation": "write", "succeeded": True, "value": text}, parents, created_at=AT, resource_key=key
    )


def fork(log):
    return AgentState.restore(log.nodes, log.frontier)


def test_two_forks_have_what_they_share_and_what_each_has_alone():
    base = AgentState()
    goal = base.append("goal", {"text": "x"}, created_at=AT)
    kept, changed = written(base, "kept", 1, [goal.id]), written(base, "changed", 1)
    left, right = fork(base), fork(base)
    ours, theirs = written(left, "changed", 2), written(right, "changed", 3)
    new = written(right, "new", 1)
    found = diff(left, right)
    assert found == Difference(3, [ours], [theirs, new], {"changed": (ours, theirs), "new": (None, new)})
    assert diff(base, left).resources == {"changed": (changed, ours)}
    assert diff(left, base) == Difference(3, [ours], [], {"changed": (ours, changed)})
    assert diff(left, left) == Difference(4, [], [], {})
    assert history(right, "changed") == [changed, theirs]
    assert history(right, "kept") == [kept]
    assert history(right, "never") == []
