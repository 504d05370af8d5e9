"""Checks of a log that comes from outside: all or nothing, the first fault is named, nothing is repaired.

Two halves. `read_node` checks a node by itself: exact keys and types, a real time, and the id recomputed
from its content. `check_chain` and `check_frontier` check a node and a frontier against what came before.

What no check here can see, because it leaves no trace in a single log: another `createdAt` (times are not
hashed), the newest nodes cut off together with a frontier that fits the rest, independent siblings in
another order with renumbered `sequence`, and a frontier exchanged for other nodes none of which is the
parent of another (whether an append advanced the frontier is not stored). A pinned checkpoint id covers
all of these but the times.
"""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any, cast

from causeline.causal.canonical import InvalidValue, canonical
from causeline.causal.causal_node import CausalNode, check_time
from causeline.causal.identity import check_key, check_kind, node_id
from causeline.causal.limits import Limits, VerifyError

_ID = re.compile(r"cw_[0-9a-f]{24}")
_NODE_KEYS = frozenset({"id", "kind", "parents", "payload", "createdAt"})
_OPTIONAL_KEYS = frozenset({"resourceKey"})
_STATE_KEYS = frozenset({"version", "nodes", "frontier"})


def read_state(obj: object, limits: Limits) -> tuple[list[CausalNode], list[str]]:
    """Nodes and frontier of the JSON form of an AgentState, every node and link checked. Raises VerifyError."""
    if type(obj) is not dict:
        raise VerifyError(None, None, "an AgentState is a JSON object")
    state = cast("dict[str, Any]", obj)
    check_keys(state, _STATE_KEYS, None, None)
    if type(state["version"]) is not int or state["version"] != 1:
        raise VerifyError(None, None, f"version is {ascii(state['version'])[:40]}; this reads version 1")
    rows, frontier = state["nodes"], state["frontier"]
    if type(rows) is not list or type(frontier) is not list:
        raise VerifyError(None, None, "nodes and frontier are arrays")
    if len(cast("list[Any]", rows)) > limits.nodes:
        raise VerifyError(None, None, f"{len(cast('list[Any]', rows))} nodes; the limit is {limits.nodes}")
    nodes: list[CausalNode] = []
    size = 0
    for index, row in enumerate(cast("list[Any]", rows)):
        node = read_node(row, index, limits)
        size += len(node.payload_bytes)
        if size > limits.bytes:
            raise VerifyError(node.id, index, f"the payloads exceed the limit of {limits.bytes} bytes")
        nodes.append(node)
    return nodes, cast("list[str]", frontier)


def read_node(row: object, index: int, limits: Limits, *, sequence: bool = True) -> CausalNode:
    """The node of one JSON row at `index`, its id recomputed. With `sequence`, the row carries it and it is index + 1."""
    if type(row) is not dict:
        raise VerifyError(None, index, "a node is a JSON object")
    node = cast("dict[str, Any]", row)
    name = node.get("id")
    if type(name) is not str or not _ID.fullmatch(name):
        raise VerifyError(None, index, f"id is {ascii(name)[:60]}; it is cw_ and 24 hexadecimal characters")
    check_keys(node, _NODE_KEYS | {"sequence"} if sequence else _NODE_KEYS, name, index, optional=_OPTIONAL_KEYS)
    if sequence and (type(node["sequence"]) is not int or node["sequence"] != index + 1):
        raise VerifyError(name, index, f"sequence is {ascii(node['sequence'])[:40]}; at this place it is {index + 1}")
    parents = _read_parents(node["parents"], name, index)
    key = node.get("resourceKey")
    if "resourceKey" in node and key is None:
        raise VerifyError(name, index, "resourceKey is null; leave it out where there is none")
    try:
        check_kind(node["kind"])
        check_key(key)
        check_time(node["createdAt"])
        payload_bytes = canonical(node["payload"], depth=limits.depth)
    except InvalidValue as fault:
        raise VerifyError(name, index, _in_json_words(fault)) from None
    return stored_node(
        id=name,
        kind=node["kind"],
        parents=parents,
        payload_bytes=payload_bytes,
        created_at=node["createdAt"],
        resource_key=key,
        index=index,
    )


def stored_node(
    *,
    id: str,
    kind: str,
    parents: tuple[str, ...],
    payload_bytes: bytes,
    created_at: str,
    resource_key: str | None = None,
    index: int | None = None,
) -> CausalNode:
    """A node from stored columns, its id recomputed from the bytes. Raises VerifyError where they do not match.

    `parents` must be as stored: sorted and unique. `index` is only for the error.
    """
    found = node_id(kind, parents, payload_bytes, resource_key)
    if found != id:
        raise VerifyError(id, index, f"the content has the id {found}; kind, parents, payload or resourceKey was changed")
    return CausalNode(id, kind, parents, payload_bytes, created_at, resource_key)


def _read_parents(parents: object, name: str, index: int) -> tuple[str, ...]:
    if type(parents) is not list or not all(type(parent) is str for parent in cast("list[Any]", parents)):
        raise VerifyError(name, index, "parents is an array of ids")
    found = tuple(cast("list[str]", parents))
    if any(earlier >= later for earlier, later in pairwise(found)):
        raise VerifyError(name, index, "parents are sorted and unique")
    return found


def check_keys(
    row: Mapping[str, Any], required: frozenset[str], name: str | None, index: int | None, *, optional: frozenset[str] = frozenset()
) -> None:
    """Raise VerifyError unless `row` has exactly the required keys and perhaps optional ones."""
    missing = sorted(required - row.keys())
    if missing:
        raise VerifyError(name, index, f"lacks the key {missing[0]}")
    unknown = sorted(row.keys() - required - optional)
    if unknown:
        raise VerifyError(name, index, f"has the unknown key {ascii(unknown[0])[:60]}")


def check_chain(node: CausalNode, index: int, known: Collection[str], heads: Mapping[str, str]) -> None:
    """A node is new, its parents came before it, and a version lists the version before it."""
    if node.id in known:
        raise VerifyError(node.id, index, "the node is listed twice")
    for parent in node.parents:
        if parent not in known:
            raise VerifyError(node.id, index, f"its parent {ascii(parent)[:60]} is not an earlier node")
    if node.resource_key is not None:
        head = heads.get(node.resource_key)
        if head is not None and head not in node.parents:
            raise VerifyError(node.id, index, f"its resource has the version {head}, which is not among its parents")


def check_frontier(before: Collection[str], added: Sequence[CausalNode], frontier: object) -> frozenset[str]:
    """Whether `frontier` can follow from the frontier `before` by appending `added` in order; returns it as a set.

    Whether an append advanced the frontier is not stored, so the question is if any choice explains the
    result. A head must be old or added; a child of a head cannot have advanced (it would have replaced the
    head), so it is no head itself; and what left the frontier was replaced by a child that advanced, which
    is a head now or was replaced in turn by a later one. This decides exactly, in the number of edges.
    """
    after = _read_frontier(frontier)
    names = {node.id for node in added}
    for place, name in enumerate(cast("list[str]", frontier)):
        if name not in before and name not in names:
            raise VerifyError(name, place, "the frontier names a node that is neither new nor a head before")
    replacing: set[str] = set()
    replaced: set[str] = set()
    for place in range(len(added) - 1, -1, -1):
        node = added[place]
        covered = after.intersection(node.parents)
        if covered and node.id in after:
            raise VerifyError(node.id, place, f"the frontier holds this node and its parent {min(covered)}")
        if not covered and (node.id in after or node.id in replaced):
            replacing.add(node.id)
            replaced.update(node.parents)
    for name in before:
        if name not in after and name not in replaced:
            raise VerifyError(name, None, "the node left the frontier and nothing that was appended replaces it")
    return after


def _read_frontier(frontier: object) -> frozenset[str]:
    if type(frontier) is not list or not all(type(name) is str for name in cast("list[Any]", frontier)):
        raise VerifyError(None, None, "frontier is an array of ids")
    names = frozenset(cast("list[str]", frontier))
    if len(names) != len(cast("list[str]", frontier)):
        raise VerifyError(None, None, "frontier ids are unique")
    return names


def check_log(nodes: Iterable[CausalNode], frontier: Sequence[str]) -> None:
    """Every link of a whole log. Raises VerifyError for the first fault."""
    known: set[str] = set()
    heads: dict[str, str] = {}
    added = list(nodes)
    for index, node in enumerate(added):
        check_chain(node, index, known, heads)
        known.add(node.id)
        if node.resource_key is not None:
            heads[node.resource_key] = node.id
    check_frontier((), added, frontier)


def _in_json_words(fault: InvalidValue) -> str:
    if fault.path.startswith("$"):
        return f"payload {fault.path}: {fault.reason}"
    return f"{ {'created_at': 'createdAt', 'resource_key': 'resourceKey'}.get(fault.path, fault.path) }: {fault.reason}"
