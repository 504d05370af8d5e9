"""The process that answers SPARQL: it holds statements by owner, and can be killed, which a query in a thread cannot.

Law: once it has begun it opens nothing: no file, no connection, whatever a query says. Messages are length-prefixed JSON on its standard
streams; it ends when nobody writes to it any more.
"""

import json
import os
import sys
from collections.abc import Callable, Mapping
from typing import Any

import pyoxigraph as ox

from causeline.adapters.memory.query_process import LENGTH
from causeline.adapters.memory.sparql_results import answer
from causeline.errors import CauselineError, Invalid

ROWS = 100_000
"""The most rows of an answer."""
MEMORY = 4 * 1024**3
"""Bytes of address space."""
FORMATS = {"nquads": ox.RdfFormat.N_QUADS, "trig": ox.RdfFormat.TRIG, "turtle": ox.RdfFormat.TURTLE, "jsonld": ox.RdfFormat.JSON_LD}
PREFIXES = {
    "prov": "http://www.w3.org/ns/prov#", "ns": "urn:causeline:ns:", "rdfs": "http://www.w3.org/2000/01/rdf-schema#",
    "xsd": "http://www.w3.org/2001/XMLSchema#", "rdf": "http://www.w3.org/1999/02/22-rdf-syntax-ns#",
}  # fmt: skip


class Stores:
    """The statements of each owner."""

    def __init__(self) -> None:
        self._stores: dict[str, ox.Store] = {}

    def _of(self, owner: str) -> ox.Store:
        return self._stores.setdefault(owner, ox.Store())

    def add(self, owner: str, statements: str) -> None:
        self._of(owner).extend(ox.parse(statements.encode(), format=ox.RdfFormat.N_QUADS))

    def remove(self, owner: str, graph: str) -> None:
        self._of(owner).remove_graph(ox.NamedNode(graph))

    def forget(self, owner: str) -> None:
        self._stores.pop(owner, None)

    def query(self, owner: str, sparql: str, graphs: list[list[str]] | None) -> tuple[list[str] | None, Any]:
        """`graphs` are the default ones and the named ones; without them a query sees all."""
        where: dict[str, Any] = {"prefixes": PREFIXES}
        if graphs is None:
            where["use_default_graph_as_union"] = True
        else:
            default, named = ([ox.NamedNode(name) for name in names] for names in graphs)
            where |= {"default_graph": default, "named_graphs": named}
        return answer(self._of(owner), sparql, most=ROWS, **where)

    def dump(self, owner: str, graph: str | None, format: str) -> str:
        if format not in FORMATS:
            raise Invalid(f"{format!r} is no format; there are {', '.join(FORMATS)}")
        name = None if graph is None else ox.NamedNode(graph)
        quads = sorted(self._of(owner).quads_for_pattern(None, None, None, name), key=str)
        chosen = FORMATS[format]
        rows: Any = quads if chosen.supports_datasets else (quad.triple for quad in quads)
        data: Any = ox.serialize(rows, format=chosen, prefixes=PREFIXES if format in ("trig", "turtle") else None)
        return data.decode()


def confine() -> None:
    """From here on nothing more can be opened, and memory has a bound."""
    try:
        import resource
    except ImportError:  # a system without it has no such limits; SERVICE is refused by its name there
        return
    lowest = os.dup(0)
    os.close(lowest)
    for limit, value in ((resource.RLIMIT_NOFILE, lowest), (resource.RLIMIT_AS, MEMORY), (resource.RLIMIT_CORE, 0)):
        resource.setrlimit(limit, (value, value))


def serve() -> None:
    """Answer messages until there are no more."""
    stores = Stores()
    verbs: Mapping[str, Callable[..., Any]] = {
        "add": stores.add, "remove": stores.remove, "forget": stores.forget, "query": stores.query, "dump": stores.dump,
    }  # fmt: skip
    source, sink = sys.stdin.buffer, sys.stdout.buffer
    confine()
    while head := source.read(LENGTH.size):
        verb, arguments = json.loads(source.read(LENGTH.unpack(head)[0]))
        try:
            reply: dict[str, Any] = {"value": verbs[verb](*arguments)}
        except CauselineError as error:
            reply = {"error": error.code, "kind": type(error).__name__, "message": error.message}
        except MemoryError:
            reply = {"error": "query_limit", "kind": "Exhausted", "message": "the query needs too much memory"}
        body = json.dumps(reply, ensure_ascii=False).encode("utf-8", "replace")
        sink.write(LENGTH.pack(len(body)) + body)
        sink.flush()


if __name__ == "__main__":
    serve()
