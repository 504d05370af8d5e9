"""The graph engine: documents, what may be done with them, and walking them. It has never heard of a language model."""

from causeline.graph.checks.document_checks import check
from causeline.graph.dispatcher import Dispatcher, UnknownAnswer
from causeline.graph.documents.builder import Graph
from causeline.graph.documents.codec import dump_linked, load
from causeline.graph.documents.document import DagReference, Document, Reservoir
from causeline.graph.documents.finding import DocumentError, Finding
from causeline.graph.documents.mermaid import mermaid
from causeline.graph.engine.apply import is_whole
from causeline.graph.engine.channels import Channels, Combine, Reducer, as_reducer, replay
from causeline.graph.engine.execution import Execution
from causeline.graph.engine.plain_values import NotPlain
from causeline.graph.engine.position import Pause
from causeline.graph.engine.position_json import PositionMismatch
from causeline.graph.engine.step_events import Emitted, Event, Failure, Journal, Limits, Progress, Result, Retry, Step, Tally
from causeline.graph.engine.stream_channel import ChannelClosed, InnerFailed, StreamChannel
from causeline.graph.node import Context, HandBack, Node, Outcome, node
from causeline.policy import RetryPolicy

__all__ = [
    "ChannelClosed",
    "Channels",
    "Combine",
    "Context",
    "DagReference",
    "Dispatcher",
    "Document",
    "DocumentError",
    "Emitted",
    "Event",
    "Execution",
    "Failure",
    "Finding",
    "Graph",
    "HandBack",
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
    "Reservoir",
    "Result",
    "Retry",
    "RetryPolicy",
    "Step",
    "StreamChannel",
    "Tally",
    "UnknownAnswer",
    "as_reducer",
    "check",
    "dump_linked",
    "is_whole",
    "load",
    "mermaid",
    "node",
    "replay",
]
