"""Content-addressed causal log: values in, values out; no clock, disk, network or dice."""

from causeline.causal.batch import Append, apply
from causeline.causal.bundle import Export, verify, verify_export
from causeline.causal.checkpoint import CheckpointRow, checkpoint_id
from causeline.causal.checks import stored_node
from causeline.causal.export import build_export
from causeline.causal.ids import KINDS, Kind, identity
from causeline.causal.limits import Limits, VerifyError
from causeline.causal.node import CausalNode
from causeline.causal.projection import View, ViewTooLarge, project
from causeline.causal.selection import Rank
from causeline.causal.state import AgentState, IdentityCollision, UnknownNode, UnknownParent
from causeline.causal.writing import InvalidValue, canonical

__all__ = [
    "KINDS",
    "AgentState",
    "Append",
    "CausalNode",
    "CheckpointRow",
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
    "identity",
    "project",
    "stored_node",
    "verify",
    "verify_export",
]
