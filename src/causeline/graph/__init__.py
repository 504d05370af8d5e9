"""The graph engine: documents, what may be done with them, and walking them. It has never heard of a language model."""

from causeline.graph.document import Document
from causeline.graph.finding import DocumentError, Finding
from causeline.graph.node import Context, Node, Outcome, node

__all__ = [
    "Context",
    "Document",
    "DocumentError",
    "Finding",
    "Node",
    "Outcome",
    "node",
]
