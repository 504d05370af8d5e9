"""A bundle, and ways to change it."""

import json
from hashlib import sha256

import pytest

from causeline.causal import VerifyError, canonical, checkpoint_id, identity, verify_export
from tests.causal.logs import sample

SESSION, HEAD = sample(2)
DATA = SESSION.export(HEAD)
HASHED = ("parent", "run", "path", "node", "port", "next", "appended", "frontier", "delta", "position")


def forged(bundle):
    """The bytes of a changed bundle, with a fresh digest."""
    rest = {key: value for key, value in bundle.items() if key != "digest"}
    return canonical(rest | {"digest": sha256(canonical(rest, depth=250)).hexdigest()}, depth=250)


def refused(data, head=None, **options):
    with pytest.raises(VerifyError) as caught:
        verify_export(data, head, **options)
    return caught.value


def opened(data=DATA):
    return json.loads(data)


def rechained(bundle, change):
    """Checkpoints changed by `change(row, index)`, their ids recomputed along the chain, and the head moved along."""
    names = {}
    rows = sorted(bundle["checkpoints"], key=lambda row: (row["run"], row["step"]))
    for index, row in enumerate(rows):
        change(row, index)
        row["parent"] = names.get(row["parent"], row["parent"])
        hashed = {key: row[key] for key in HASHED}
        names[row["id"]] = row["id"] = checkpoint_id(**hashed)
    bundle["checkpoints"] = rows
    bundle["head"] = names.get(bundle["head"], bundle["head"])
    for fact in bundle["facts"]:
        fact["checkpoint"] = names.get(fact["checkpoint"], fact["checkpoint"])
    return bundle


def cut(bundle, count):
    """A bundle without its newest checkpoints, in itself consistent."""
    row_ids = {row["id"]: row for row in bundle["checkpoints"]}
    for _ in range(count):
        row = row_ids[bundle["head"]]
        bundle["checkpoints"].remove(row)
        bundle["state"]["nodes"] = [node for node in bundle["state"]["nodes"] if node["id"] not in row["appended"]]
        bundle["facts"] = [fact for fact in bundle["facts"] if fact["checkpoint"] != row["id"]]
        bundle["head"] = row["parent"]
        bundle["state"]["frontier"] = row_ids[row["parent"]]["frontier"]
    return bundle


def renamed(bundle, index, **changes):
    """A node changed together with its id, and everything that named it."""
    node = bundle["state"]["nodes"][index]
    node.update(changes)
    new = identity(node["kind"], node["payload"], node["parents"], node.get("resourceKey"))
    return json.loads(json.dumps(bundle).replace(node["id"], new)), new
