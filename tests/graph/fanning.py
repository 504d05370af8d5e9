"""`items` through a body into `out`."""

from causeline.graph import Graph, Outcome
from causeline.graph.documents.document import DagReference

ALL = {"all-success": "join", "partial": "join", "all-error": "join", "empty": "join"}


def fan(body=None, *, strategy="append", scatter=None, outputs=None, **gather) -> Graph:
    """`items` through `body` into `out`."""
    if strategy != "discard":
        gather.setdefault("target", "out")
    runs = {} if body is None else {"dag": body} if isinstance(body, str | DagReference) else {"node": body}
    return (
        Graph("urn:t:fan")
        .scatter("fan", "items", outputs or ALL, **runs, **(scatter or {}))
        .gather("join", ["fan"], strategy, {"success": "end", "error": "bad", "empty": "none"}, **gather)
        .terminal("end")
        .terminal("bad", "failed")
        .terminal("none")
    )


def double(ctx):
    return Outcome("success", {"twice": ctx.item * 2})


def item_document(work, name="item") -> Graph:
    return Graph(f"urn:t:{name}").node("work", work, {"success": "end", "error": "bad"}).terminal("end").terminal("bad", "failed")
