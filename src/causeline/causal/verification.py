"""Verifying an export bundle: its bytes, its digest, every id, then the chain. All or nothing.

A forged file with a fresh digest is caught wherever ids cover it: nodes (but not their times), checkpoints
(but not session, step and time), and through the parent chain the order of nodes, their number and the
frontier at every step. `runs`, `calls` and `facts` are covered by the digest alone, apart from the
references between rows. What one id cannot say is whether the head is the newest one: compare it with a
head you wrote down (`head=`).
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

import orjson

from causeline.causal.bundle import branch_of, call_order, canonical_halves, checkpoint_order, digest_of, run_order
from causeline.causal.canonical import InvalidValue
from causeline.causal.causal_node import CausalNode, check_time
from causeline.causal.checkpoint import HASHED, CheckpointRow, checkpoint_id
from causeline.causal.checkpoint_tree import replay
from causeline.causal.import_checks import check_keys, read_node, read_state
from causeline.causal.json_text import has_rounded, parse
from causeline.causal.limits import BUNDLE_DEPTH, Limits, VerifyError
from causeline.causal.state import AgentState
from causeline.errors import Misuse

_CHECKPOINT = re.compile(r"ck_[0-9a-f]{24}")
_KEYS = frozenset({"causeline", "session", "owner", "head", "state", "checkpoints", "runs", "calls", "facts", "digest"})
_ROW_KEYS = frozenset({*HASHED, "id", "session", "step", "created_at"})
_NO_EXPORT = "this is no causeline export: it is JSON of another kind"
_STARTS = b'{"calls":'
_DEFAULT_LIMITS = Limits()


@dataclass(frozen=True, slots=True)
class Export:
    """A verified bundle. `nodes` are those of other branches, sorted by id; the rows are plain JSON objects."""

    session: str
    owner: str
    head: str | None
    state: AgentState
    nodes: tuple[CausalNode, ...]
    checkpoints: tuple[CheckpointRow, ...]
    runs: tuple[Mapping[str, Any], ...]
    calls: tuple[Mapping[str, Any], ...]
    facts: tuple[Mapping[str, Any], ...]
    digest: str


def verify(data: bytes, head: str | None = None, limits: Limits = _DEFAULT_LIMITS) -> Export | AgentState:
    """Check a file of either sort: a bundle, or the JSON text of a bare AgentState in any formatting.

    Raises VerifyError for the first fault, and Misuse for a `head` with a bare AgentState, which has none.
    """
    if data.startswith(_STARTS):
        return verify_export(data, head, limits)
    value = _parse(data, limits)
    if isinstance(value, dict) and "causeline" in value:
        return verify_export(data, head, limits)
    if not isinstance(value, dict) or not {"version", "nodes", "frontier"} & cast("dict[str, Any]", value).keys():
        raise VerifyError(None, None, _NO_EXPORT)
    if head is not None:
        raise Misuse("a bare AgentState has no head to compare with; verify an export of the session")
    return AgentState.from_json(cast("object", value), limits)


def verify_export(data: bytes, head: str | None = None, limits: Limits = _DEFAULT_LIMITS) -> Export:
    """The content of a bundle, every check passed. `head` is a checkpoint id known from elsewhere. Raises VerifyError."""
    body = data.removesuffix(b"\n")
    bundle, before, after = _read(body, limits)
    digest = bundle["digest"]
    if type(digest) is not str or digest_of(before, after) != digest:
        fault = "the digest does not match the content"
        try:
            _check(bundle, limits)
        except VerifyError as inner:  # the digest only says that something is wrong; say what, where it can be seen
            raise VerifyError(inner.node_id, inner.index, f"{fault}: {inner.reason}") from None
        raise VerifyError(None, None, fault)
    found = _check(bundle, limits)
    if head is not None and found.head != head:
        raise VerifyError(found.head, None, f"the head is not {ascii(head)[:60]}; the file ends elsewhere")
    return found


def _parse(data: bytes, limits: Limits) -> Any:
    if len(data) > limits.bytes:
        raise VerifyError(None, None, f"{len(data)} bytes; the limit is {limits.bytes}")
    try:
        return parse(data, depth=BUNDLE_DEPTH)
    except InvalidValue as fault:
        told = str(fault) if data.startswith(_STARTS) else f"this is no causeline export: it is not JSON ({fault})"
        raise VerifyError(None, None, told) from None


def _read(body: bytes, limits: Limits) -> tuple[dict[str, Any], bytes, bytes]:
    """The object whose exact canonical bytes `body` is, and the halves of its text around the digest."""
    if len(body) > limits.bytes:
        raise VerifyError(None, None, f"{len(body)} bytes; the limit is {limits.bytes}")
    try:
        value = orjson.loads(body)
        if has_rounded(value):
            value = _parse(body, limits)
    except orjson.JSONDecodeError:
        value = _parse(body, limits)
    if type(value) is not dict:
        raise VerifyError(None, None, f"{_NO_EXPORT}; a bundle is a JSON object")
    bundle = cast("dict[str, Any]", value)
    if not _KEYS & bundle.keys():
        raise VerifyError(None, None, _NO_EXPORT)
    check_keys(bundle, _KEYS, None, None, optional=frozenset({"nodes"}))
    try:
        before, after = canonical_halves(bundle)
    except InvalidValue as fault:
        raise VerifyError(None, None, str(fault)) from None
    # The digest is held to its form first, so that the text can be put together around it.
    if not re.fullmatch(r"[0-9a-f]{64}", str(bundle["digest"])):
        raise VerifyError(None, None, "digest is not 64 hexadecimal characters")
    exact = b'%b,"digest":"%b",%b' % (before, str(bundle["digest"]).encode(), after)
    if exact != body:
        _parse(body, limits)  # repeated keys are told from mere formatting
        raise VerifyError(None, None, f"the file is not its own canonical form, from byte {_common(exact, body)} on")
    return bundle, before, after


def _common(one: bytes, other: bytes) -> int:
    """How many bytes both begin with, found by halving."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def _check(bundle: dict[str, Any], limits: Limits) -> Export:
    """Every id, then every link."""
    if type(bundle["causeline"]) is not int or bundle["causeline"] != 1:
        raise VerifyError(None, None, f"causeline is {ascii(bundle['causeline'])[:40]}; this reads version 1")
    if type(bundle["session"]) is not str or type(bundle["owner"]) is not str:
        raise VerifyError(None, None, "session and owner are texts")
    nodes, frontier = read_state(bundle["state"], limits)
    others = _other_nodes(bundle, limits, len(nodes))
    rows = [_checkpoint(row, index, bundle["session"]) for index, row in enumerate(_array(bundle, "checkpoints"))]
    _check_rows(bundle, rows)
    by_id: dict[str, Any] = {row["id"]: row for row in rows}
    head = bundle["head"]
    if (type(head) is not str and head is not None) or (head is None and rows):
        raise VerifyError(None, None, "head is the id of a checkpoint, or null where there is none")
    replay(rows, {node.id: node for node in (*nodes, *others)}, frozenset(node.id for node in others))
    appended = [name for checkpoint in branch_of(head, by_id) for name in by_id[checkpoint]["appended"]]
    _check_same(nodes, appended)
    if frontier != (by_id[head]["frontier"] if head is not None else []):
        raise VerifyError(head, None, "the frontier of state is not that of the head checkpoint")
    return Export(
        bundle["session"],
        bundle["owner"],
        head,
        AgentState.restore(nodes, frontier),
        tuple(others),
        tuple(rows),
        tuple(bundle["runs"]),
        tuple(bundle["calls"]),
        tuple(bundle["facts"]),
        bundle["digest"],
    )


def _other_nodes(bundle: dict[str, Any], limits: Limits, held: int) -> list[CausalNode]:
    if "nodes" not in bundle:
        return []
    rows = _array(bundle, "nodes")
    if not rows or held + len(rows) > limits.nodes:
        raise VerifyError(None, None, f"{len(rows)} nodes of other branches; leave an empty array out, the limit is {limits.nodes} in all")
    nodes = [read_node(row, index, limits, sequence=False) for index, row in enumerate(rows)]
    for index in range(1, len(nodes)):
        if nodes[index - 1].id >= nodes[index].id:
            raise VerifyError(nodes[index].id, index, "the nodes of other branches are not ordered by id")
    return nodes


def _array(bundle: dict[str, Any], key: str) -> list[Any]:
    value = bundle[key]
    if type(value) is not list:
        raise VerifyError(None, None, f"{key} is an array")
    return cast("list[Any]", value)


def _checkpoint(row: Any, index: int, session: str) -> CheckpointRow:
    """A checkpoint row with its id recomputed."""
    if type(row) is not dict:
        raise VerifyError(None, index, "a checkpoint is a JSON object")
    found = cast("CheckpointRow", row)
    name = found.get("id")
    if type(name) is not str or not _CHECKPOINT.fullmatch(name):
        raise VerifyError(None, index, f"id is {ascii(name)[:60]}; it is ck_ and 24 hexadecimal characters")
    check_keys(found, _ROW_KEYS, name, index)
    reason = _wrong_field(found, session)
    if reason:
        raise VerifyError(name, index, reason)
    hashed: dict[str, Any] = {key: found[key] for key in HASHED}
    try:
        again = checkpoint_id(**hashed)
    except InvalidValue as fault:  # deeper than a checkpoint may be, though not too deep for a bundle
        raise VerifyError(name, index, str(fault)) from None
    if again != name:
        raise VerifyError(name, index, f"the content has the id {again}; one of {', '.join(HASHED)} was changed")
    return found


def _wrong_field(row: CheckpointRow, session: str) -> str | None:
    """What is wrong with the form of a checkpoint row, or None."""
    wanted: dict[str, bool] = {
        "session": row["session"] == session,
        "run": type(row["run"]) is str,
        "step": type(row["step"]) is int and row["step"] >= 0,
        "parent": row["parent"] is None or type(row["parent"]) is str,
        "path": type(row["path"]) is list,
        "node": type(row["node"]) is str,
        "port": row["port"] is None or type(row["port"]) is str,
        "appended": _are_ids(row["appended"]),
        "frontier": _are_ids(row["frontier"]) and row["frontier"] == sorted(set(row["frontier"])),
        "delta": type(row["delta"]) is dict,
    }
    for field, good in wanted.items():
        if not good:
            return f"{field} is not what a checkpoint of this session has there"
    try:
        check_time(row["created_at"])
    except InvalidValue as fault:
        return str(fault)
    return None


def _are_ids(value: Any) -> bool:
    return type(value) is list and all(type(name) is str for name in cast("list[Any]", value))


def _check_rows(bundle: dict[str, Any], checkpoints: list[CheckpointRow]) -> None:
    """Order of all rows, and that the ids they refer to are there."""
    _ordered("checkpoints", [checkpoint_order(row) for row in checkpoints])
    runs = _fields(bundle, "runs", {"id": str})
    _ordered("runs", [run_order(row) for row in runs])
    calls = _fields(bundle, "calls", {"run_id": str, "step": int, "call_id": str})
    _ordered("calls", [call_order(row) for row in calls])
    facts = _fields(bundle, "facts", {"checkpoint": str})
    known = {row["id"] for row in runs}
    for index, row in enumerate(checkpoints):
        if row["run"] not in known:
            raise VerifyError(row["id"], index, f"its run {ascii(row['run'])[:60]} is not among the runs")
    for index, row in enumerate(calls):
        if row["run_id"] not in known:
            raise VerifyError(row["call_id"], index, f"the run {ascii(row['run_id'])[:60]} of this call is not among the runs")
    order = {row["id"]: index for index, row in enumerate(checkpoints)}
    for index, row in enumerate(facts):
        if row["checkpoint"] not in order:
            raise VerifyError(row["checkpoint"], index, "these facts are of a checkpoint that is not there")
    _ordered("facts", [order[row["checkpoint"]] for row in facts])


def _fields(bundle: dict[str, Any], key: str, fields: Mapping[str, type]) -> list[dict[str, Any]]:
    rows = _array(bundle, key)
    for index, row in enumerate(rows):
        if type(row) is not dict or any(type(cast("dict[str, Any]", row).get(field)) is not kind for field, kind in fields.items()):
            raise VerifyError(None, index, f"a row of {key} has at least {', '.join(fields)}")
    return rows


def _ordered(key: str, order: list[Any]) -> None:
    for index in range(1, len(order)):
        if not order[index - 1] < order[index]:
            raise VerifyError(None, index, f"the rows of {key} are not in order, or one is there twice")


def _check_same(nodes: list[CausalNode], appended: list[str]) -> None:
    for index, node in enumerate(nodes):
        if index >= len(appended) or appended[index] != node.id:
            raise VerifyError(node.id, index, "the checkpoints of the branch did not append this node here")
    if len(appended) > len(nodes):
        raise VerifyError(appended[len(nodes)], len(nodes), "the branch appended this node, and state lacks it")
