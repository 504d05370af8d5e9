"""Content-addressed causal log: values in, values out; no clock, disk, network or dice."""

from causeline.causal.append import Append, apply, heads_after
from causeline.causal.bundle import build_export
from causeline.causal.canonical import InvalidValue, canonical
from causeline.causal.causal_node import CausalNode
from causeline.causal.checkpoint import CheckpointRow, checkpoint_id
from causeline.causal.identity import KINDS, Kind, identity
from causeline.causal.import_checks import stored_node
from causeline.causal.limits import Limits, VerifyError
from causeline.causal.state import AgentState, IdentityCollision, UnknownNode, UnknownParent
from causeline.causal.verification import Export, verify, verify_export
from causeline.causal.view.changes import Difference, compare_versions, diff, history
from causeline.causal.view.projection import View, ViewTooLarge, project
from causeline.causal.view.selection import Rank

__all__ = [
    "KINDS",
    "AgentState",
    "Append",
    "CausalNode",
    "CheckpointRow",
    "Difference",
    "Export",
    "IdentityCollision",
    "InvalidValue",
    "Kind",
    "Limits",
    "Rank",
    "UnknownNode",
    "UnknownParent",
    "VerifyError",
    "View",
    "ViewTooLarge",
    "apply",
    "build_export",
    "canonical",
    "checkpoint_id",
    "compare_versions",
    "diff",
    "heads_after",
    "history",
    "identity",
    "project",
    "stored_node",
    "verify",
    "verify_export",
]
