"""The graph engine: documents, what may be done with them, and walking them. It has never heard of a language model."""

from causeline.graph.builder import Graph
from causeline.graph.channel import ChannelClosed, InnerFailed, StreamChannel
from causeline.graph.check import check
from causeline.graph.codec import dump_linked, load
from causeline.graph.dispatcher import Dispatcher, UnknownAnswer
from causeline.graph.document import Document
from causeline.graph.events import Emitted, Event, Failure, Journal, Limits, Progress, Result, Step
from causeline.graph.execution import Execution
from causeline.graph.finding import DocumentError, Finding
from causeline.graph.mermaid import mermaid
from causeline.graph.node import Context, Node, Outcome, node
from causeline.graph.position import Pause, PositionMismatch
from causeline.graph.state import Channels, NotPlain, Reducer, replay

__all__ = [
    "ChannelClosed",
    "Channels",
    "Context",
    "Dispatcher",
    "Document",
    "DocumentError",
    "Emitted",
    "Event",
    "Execution",
    "Failure",
    "Finding",
    "Graph",
    "InnerFailed",
    "Journal",
    "Limits",
    "Node",
    "NotPlain",
    "Outcome",
    "Pause",
    "PositionMismatch",
    "Progress",
    "Reducer",
    "Result",
    "Step",
    "StreamChannel",
    "UnknownAnswer",
    "check",
    "dump_linked",
    "load",
    "mermaid",
    "node",
    "replay",
]
