"""What changed between two logs, and the versions of one resource."""

from causeline.causal import AgentState, Difference, compare_versions, diff, history, project
from causeline.causal.view.changes import changed_fields

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


def test_two_versions_of_one_thing_say_where_they_differ():
    log = AgentState()
    first, second = (
        written(log, "a", {"n": 1, "list": [1], "same": True}),
        written(log, "a", {"n": 2, "list": [1, 2], "new": "x", "same": True}),
    )
    assert compare_versions(first, second) == Difference(0, [first], [second], {"a": (first, second)})
    assert compare_versions(first, first) == Difference(1, [], [], {})
    assert changed_fields(first.payload, second.payload) == [("value.list", [1], [1, 2]), ("value.n", 1, 2), ("value.new", None, "x")]
    assert changed_fields("a", "b") == [("", "a", "b")]
    assert changed_fields(True, 1) == [("", True, 1)]
    assert changed_fields(1, 1.0) == []


def test_a_note_that_is_taken_back_is_in_no_view_and_its_history_stays():
    log = AgentState()
    log.append("goal", {"text": "where do I live"}, created_at=AT)

    def note(content):
        payload = {"type": "memory", "key": "home", "content": content}
        return log.append("semantic", payload, created_at=AT, resource_key="semantic:memory:home", advance=False)

    kept = note("Lisbon, by the river")
    shown = str(project(log, "where do I live", 4_000).messages)
    assert "Lisbon" in shown
    gone = note(None)
    view = project(log, "where do I live, Lisbon?", 4_000)
    assert "Lisbon" not in str(view.messages)
    assert gone.id not in view.ids
    again = note("Porto")
    assert "Porto" in str(project(log, "where do I live", 4_000).messages)
    assert history(log, "semantic:memory:home") == [kept, gone, again]
