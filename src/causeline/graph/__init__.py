"""The graph engine: documents, what may be done with them, and walking them. It has never heard of a language model."""

from causeline.graph.builder import Graph
from causeline.graph.check import check
from causeline.graph.codec import dump_linked, load
from causeline.graph.document import Document
from causeline.graph.finding import DocumentError, Finding
from causeline.graph.mermaid import mermaid
from causeline.graph.node import Context, Node, Outcome, node

__all__ = [
    "Context",
    "Document",
    "DocumentError",
    "Finding",
    "Graph",
    "Node",
    "Outcome",
    "check",
    "dump_linked",
    "load",
    "mermaid",
    "node",
]
