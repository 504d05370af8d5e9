"""Writing to dotted paths: into objects and lists, never over something of another kind."""

# An error that is not there fails a test just as well as a wrong one.
# pyright: reportOptionalMemberAccess=false

import pytest

from causeline.graph import Graph, Outcome
from causeline.graph.engine.state_paths import BadPath, put, read
from tests.graph.walking import Recording, dispatcher, through_json


def embedding(path, error=True):
    child = Graph("urn:t:child").node("leaf", lambda ctx: Outcome("done", {"v": 5}), {"done": "end"}).terminal("end")
    top = Graph("urn:t:top").embed("sub", child.iri, {"success": "end", "error": "bad"}, state_output={path: "v"})
    return dispatcher(top.terminal("end").terminal("bad", "failed"), child)


@pytest.mark.parametrize(
    "state, path, expected",
    [
        ({}, "a.b.c", {"a": {"b": {"c": 5}}}),
        ({"a": None}, "a.b", {"a": {"b": 5}}),
        ({"rows": [{"id": 1}, {"id": 2}]}, "rows.1.total", {"rows": [{"id": 1}, {"id": 2, "total": 5}]}),
        ({"rows": [1, 2]}, "rows.0", {"rows": [5, 2]}),
        ({"a.b": 1, "a": {}}, "a.b", {"a.b": 5, "a": {}}),
    ],
)
async def test_a_path_leads_through_objects_and_lists(state, path, expected):
    given = through_json(state)
    result = await embedding(path).execute("urn:t:top", given)
    assert (result.status, result.state) == ("completed", expected)
    assert given == state, "what the caller gave must not change"
    assert read(result.state, path) == 5


@pytest.mark.parametrize(
    "state, path, hint",
    [
        ({"order": "text"}, "order.total", "inside a str"),
        ({"order": {"n": 3}}, "order.n.total", "inside a int"),
        ({"rows": [1]}, "rows.1", "no position '1'"),
        ({"rows": [1]}, "rows.first", "no position 'first'"),
    ],
)
async def test_a_path_that_leads_nowhere_fails_by_name_and_changes_nothing(state, path, hint):
    result = await embedding(path).execute("urn:t:top", state)
    assert (result.status, result.error.code, result.error.placement) == ("failed", "bad_path", "sub")
    assert hint in result.error.message
    assert path in result.error.message
    assert {key: result.state[key] for key in state} == state


async def test_a_step_stores_what_it_puts_at_a_path_and_no_more():
    journal = Recording()
    await embedding("deep.x").execute("urn:t:top", {"deep": {"old": list(range(1000))}}, journal=journal)
    assert journal.steps[-1].delta == {"deep": {"op": "place", "value": [["x", "override", 5]]}}


def test_put_copies_what_it_changes_and_shares_the_rest():
    old = {"a": {"b": 1}, "c": [1]}
    new = put(old, ["a", "b"], "override", 2, "a.b")
    assert (old["a"], new) == ({"b": 1}, {"a": {"b": 2}, "c": [1]})
    assert new["c"] is old["c"]
    with pytest.raises(BadPath):
        put(3, ["x"], "override", 1, "n.x")
