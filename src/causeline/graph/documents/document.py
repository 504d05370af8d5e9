"""A graph document as frozen records: six kinds of placement and the document that holds them.

Law: a Document is made by `codec.load` or `builder.Graph`, never changes, and keeps all it was told in `plain`;
the records are a typed reading of that. Field names and defaults are those of the Dagonizer document schema 2.0.
"""

import hashlib
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass
from dataclasses import field as make
from typing import Any, Literal, cast

from causeline.causal import canonical
from causeline.graph.documents.finding import Finding
from causeline.policy import RetryPolicy

Outputs = Mapping[str, str]
"""Port -> IRI of the placement it leads to, in declared order."""


@dataclass(frozen=True, slots=True)
class DagReference:
    """A child document chosen while running: the dotted `path` is read from the state or from the scatter item,
    and its value must be one of `candidates`."""

    source: Literal["state", "item"]
    path: str
    candidates: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Single:
    """Runs one registered node. `retry` None means exactly one attempt; `timeout` is in seconds.

    `when` holds edge conditions (see `edges`) in the order they are tried; each is also a port in `outputs`.
    They decide only for ports without a route of their own, and never for `error` and `parked`;
    if none holds, the port `otherwise` is taken.
    """

    id: str
    name: str
    node: str
    outputs: Outputs
    retry: RetryPolicy | None = None
    timeout: float | None = None
    when: tuple[str, ...] = ()
    role: str | None = None


@dataclass(frozen=True, slots=True)
class NodeBody:
    """Scatter body: one registered node per item."""

    node: str


@dataclass(frozen=True, slots=True)
class DagBody:
    """Scatter body: one run of a child document per item."""

    dag: str | DagReference


@dataclass(frozen=True, slots=True)
class Reservoir:
    """Items are collected per value of `key_field` and released as a batch at `capacity`, after `idle_ms` idle, and at the end."""

    key_field: str
    capacity: int
    idle_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Scatter:
    """Runs its body once per item of `source` (dotted state path or a name given to `execute(sources=...)`).

    `throttle` is a second bound on concurrency. `adaptive` is kept as written; the bound stays static.
    `state_input` maps child channel -> path in the parent state.
    """

    id: str
    name: str
    body: NodeBody | DagBody
    source: str
    outputs: Outputs
    item_key: str = "currentItem"
    mode: Literal["item", "reservoir"] = "item"
    concurrency: int = 1
    throttle: int | None = None
    adaptive: Mapping[str, Any] | None = None
    reservoir: Reservoir | None = None
    reducer: str = "aggregate"
    state_input: Mapping[str, str] = make(default_factory=dict[str, str])
    retry: RetryPolicy | None = None
    container: str | None = None
    role: str | None = None


@dataclass(frozen=True, slots=True)
class Gather:
    """Barrier over `sources`: producer (placement or entrypoint IRI) -> result field or None, in declared order.

    `mapping` is child path -> parent path (strategy `map`), `partitions` is output token -> parent path.
    """

    id: str
    name: str
    sources: Mapping[str, str | None]
    strategy: str
    outputs: Outputs
    target: str | None = None
    field: str | None = None
    mapping: Mapping[str, str] = make(default_factory=dict[str, str])
    partitions: Mapping[str, str] = make(default_factory=dict[str, str])
    custom_node: str | None = None
    result_field: str | None = None
    policy: Literal["all", "any", "quorum"] = "all"
    quorum: int | None = None
    include_errors: bool = True
    role: str | None = None

    @property
    def needed(self) -> int:
        """How many distinct sources must have arrived before the gather fires."""
        if self.policy == "any":
            return 1
        return len(self.sources) if self.policy == "all" else self.quorum or len(self.sources)


@dataclass(frozen=True, slots=True)
class Embedded:
    """Runs a child document once. `state_input`: child channel -> parent path; `state_output`: parent path -> child path.
    `when` as in `Single`."""

    id: str
    name: str
    dag: str | DagReference
    outputs: Outputs
    state_input: Mapping[str, str] = make(default_factory=dict[str, str])
    state_output: Mapping[str, str] = make(default_factory=dict[str, str])
    result_field: str | None = None
    container: str | None = None
    when: tuple[str, ...] = ()
    role: str | None = None


@dataclass(frozen=True, slots=True)
class Terminal:
    """Ends a branch with an outcome."""

    id: str
    name: str
    outcome: Literal["completed", "failed"]


@dataclass(frozen=True, slots=True)
class Phase:
    """Runs a node before (`pre`) or after (`post`) the document, on every way out."""

    id: str
    name: str
    node: str
    phase: Literal["pre", "post"]
    role: str | None = None


Placement = Single | Scatter | Gather | Embedded | Terminal | Phase
Routed = Single | Scatter | Gather | Embedded
"""The placements that have `outputs`."""


@dataclass(frozen=True, slots=True)
class Document:
    """A graph document. `entrypoints` is label -> placement IRI and `placements` IRI -> record, both in declared order.

    `plain` is the document as JSON with prefixes expanded and without `@context`; do not change it.
    `problems` are the faults seen while reading (`check` reports them with its own); a faulty field holds its default.
    `shadowed` are placements whose IRI was already taken.
    """

    id: str
    name: str
    version: str
    entrypoints: Mapping[str, str]
    placements: Mapping[str, Placement]
    context: Mapping[str, Any]
    plain: Mapping[str, Any] = make(repr=False)
    problems: tuple[Finding, ...] = ()
    shadowed: tuple[Placement, ...] = ()
    _hash: list[str] = make(default_factory=list[str], init=False, repr=False, compare=False)

    @property
    def hash(self) -> str:
        """64 hex characters: SHA-256 over the canonical form of `plain`, with the two maps whose order means
        something (`entrypoints`, and `sources` of a gather) written as lists of pairs. The context, key order
        elsewhere, white space and the choice of prefixes do not count."""
        if not self._hash:
            self._hash.append(hashlib.sha256(canonical(_ordered(self.plain))).hexdigest())
        return self._hash[0]

    @property
    def primary(self) -> str | None:
        """Label of the entrypoint that gets the given state: `main`, else the first declared."""
        return "main" if "main" in self.entrypoints else next(iter(self.entrypoints), None)

    def to_json(self) -> dict[str, Any]:
        """The document as JSON, context first, prefixes expanded."""
        return {"@context": deepcopy(dict(self.context)), **deepcopy(dict(self.plain))}


def _ordered(plain: Mapping[str, Any]) -> dict[str, Any]:
    return {**plain, "entrypoints": _pairs(plain.get("entrypoints")), "nodes": [_order_sources(one) for one in plain.get("nodes", ())]}


def _order_sources(placement: Any) -> Any:
    if not isinstance(placement, dict) or "sources" not in placement:
        return cast("object", placement)
    fields = cast("dict[str, Any]", placement)
    return {**fields, "sources": _pairs(fields["sources"])}


def _pairs(value: Any) -> Any:
    return [[key, item] for key, item in cast("dict[str, Any]", value).items()] if isinstance(value, dict) else value


OTHERWISE = "otherwise"
"""The port taken when the returned port has no route of its own and no condition holds."""
_UNRESERVED = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.!~*'()")


def entrypoint_iri(document_iri: str, label: str) -> str:
    """The IRI under which an entrypoint is a gather source: `<document>/entrypoint/<label, percent-encoded>`."""
    return f"{document_iri}/entrypoint/{percent_encode(label)}"


def percent_encode(text: str) -> str:
    """What encodeURIComponent does (ECMA-262): letters, digits and `-_.!~*'()` stay."""
    return "".join(one if one in _UNRESERVED else "".join(f"%{byte:02X}" for byte in one.encode()) for one in text)


def outputs_of(placement: Placement) -> Mapping[str, str]:
    """Port -> target IRI; empty for terminals and phases."""
    return getattr(placement, "outputs", {})
