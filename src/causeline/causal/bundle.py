"""Export bundles: a session, or one branch of it, as one file that proves itself.

The file is exactly the RFC 8785 form of

    {causeline: 1, session, owner, head, state, checkpoints, runs, calls, facts, digest}

`head`         id of the checkpoint the file is about; null where nothing was committed yet.
`state`        the AgentState of that branch, its frontier sorted as in the checkpoint.
`checkpoints`  rows as `CheckpointRow`, without facts, ordered by (run, step, id).
`runs`         at least {id}; ordered by id.
`calls`        at least {run_id, step, call_id}; ordered by these three.
`facts`        at least {checkpoint}; ordered as their checkpoints are, at most one for each.
`nodes`        only where the file holds several branches: the nodes that other branches have and `state`
               has not, ordered by id. They carry no `sequence`, since a node has one in each branch.
`digest`       64 hexadecimal characters: SHA-256 of the canonical form of the object without this key.
"""

from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from typing import Any

from causeline.causal.canonical import canonical
from causeline.causal.causal_node import CausalNode
from causeline.causal.checkpoint import CheckpointRow
from causeline.causal.limits import BUNDLE_DEPTH, VerifyError
from causeline.causal.state import AgentState

Row = Mapping[str, Any]


def build_export(
    *,
    session: str,
    owner: str,
    head: str | None,
    nodes: Iterable[CausalNode],
    checkpoints: Iterable[CheckpointRow],
    runs: Iterable[Row] = (),
    calls: Iterable[Row] = (),
    facts: Iterable[Row] = (),
) -> bytes:
    """The bytes of a bundle, without a final newline.

    `checkpoints` holds the branch of `head` from its root, and any other branches that shall go along.
    `nodes` holds at least every node they appended, in any order; others are left out. The other rows are
    plain JSON objects of the shapes above. Raises VerifyError where a parent or a node is missing.
    """
    rows = {row["id"]: row for row in checkpoints}
    pool = {node.id: node for node in nodes}
    state = AgentState.restore(_branch_nodes(head, rows, pool), list(rows[head]["frontier"]) if head is not None else [])
    order = {name: index for index, name in enumerate(sorted(rows, key=lambda name: checkpoint_order(rows[name])))}
    bundle: dict[str, Any] = {
        "causeline": 1,
        "session": session,
        "owner": owner,
        "head": head,
        "state": state.to_json(),
        "checkpoints": [dict(rows[name]) for name in order],
        "runs": [dict(row) for row in sorted(runs, key=run_order)],
        "calls": [dict(row) for row in sorted(calls, key=call_order)],
        "facts": [dict(row) for row in sorted(facts, key=lambda row: order[row["checkpoint"]])],
    }
    others = {name for row in rows.values() for name in row["appended"] if name not in state}
    if others:
        bundle["nodes"] = [_found(pool, name).to_json() for name in sorted(others)]
    before, after = canonical_halves(bundle)
    return b'%b,"digest":"%b",%b' % (before, digest_of(before, after).encode(), after)


def checkpoint_order(row: Row) -> tuple[str, int, str]:
    """Where a checkpoint stands among checkpoints."""
    return row["run"], row["step"], row["id"]


def run_order(row: Row) -> str:
    """Where a run stands among runs."""
    return row["id"]


def call_order(row: Row) -> tuple[str, int, str]:
    """Where a call stands among calls."""
    return row["run_id"], row["step"], row["call_id"]


def canonical_halves(bundle: Row) -> tuple[bytes, bytes]:
    """The canonical form of `bundle` (its digest left out) before and after the place where the digest belongs.

    RFC 8785 sorts the keys, so the halves can be written one by one, and the text is written once for both
    the digest and the file.
    """
    before = canonical({key: value for key, value in bundle.items() if key < "digest"}, depth=BUNDLE_DEPTH)
    after = canonical({key: value for key, value in bundle.items() if key > "digest"}, depth=BUNDLE_DEPTH)
    return before[:-1], after[1:]


def digest_of(before: bytes, after: bytes) -> str:
    """SHA-256 of the canonical form whose halves these are, in hexadecimal."""
    text = sha256(before)
    text.update(b",")
    text.update(after)
    return text.hexdigest()


def branch_of(head: str | None, rows: Mapping[str, Row]) -> list[str]:
    """Checkpoint ids from the root to `head`. Raises VerifyError where one is missing or comes round again."""
    found: list[str] = []
    seen: set[str] = set()
    name = head
    while name is not None:
        if name not in rows:
            raise VerifyError(found[-1] if found else name, None, f"the checkpoint {ascii(name)[:60]} is not in the bundle")
        if name in seen:
            raise VerifyError(name, None, "the checkpoint is its own ancestor")
        seen.add(name)
        found.append(name)
        name = rows[name]["parent"]
    return found[::-1]


def _branch_nodes(head: str | None, rows: Mapping[str, Row], pool: Mapping[str, CausalNode]) -> Sequence[CausalNode]:
    return [_found(pool, name) for checkpoint in branch_of(head, rows) for name in rows[checkpoint]["appended"]]


def _found(pool: Mapping[str, CausalNode], name: str) -> CausalNode:
    if name not in pool:
        raise VerifyError(name, None, "a checkpoint appended this node, and it is missing")
    return pool[name]
