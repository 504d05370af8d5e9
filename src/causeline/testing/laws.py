"""Every shipped law in one place: classes of tests that run on a backend somebody writes."""

from causeline.testing.memory_laws import MemoryLaws
from causeline.testing.model_laws import ModelLaws
from causeline.testing.node_laws import NodeLaws
from causeline.testing.store_laws import StoreLaws

__all__ = ["MemoryLaws", "ModelLaws", "NodeLaws", "StoreLaws"]
