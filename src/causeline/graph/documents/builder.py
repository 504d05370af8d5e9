"""`Graph`: writes a document in Python instead of JSON.

Law: it only makes the JSON; `codec.load` reads it, so a built document is one that could have been written by hand.

    Graph("urn:example:dag:greet").node("hello", hello, {"done": "end"}).terminal("end").build()

Names are turned into IRIs (`<document>/node/<name>`); the first placement is the entrypoint `main` unless `entry` says
otherwise. With `edge` the state decides: conditions (see `edges`) are tried in order, an edge without one always
matches, and where nothing matches the run ends `completed`.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, cast

from causeline.errors import Misuse
from causeline.graph.documents.codec import load
from causeline.graph.documents.document import OTHERWISE, DagReference, Document, Reservoir, entrypoint_iri, percent_encode
from causeline.graph.documents.edges import ERROR_EDGE
from causeline.graph.documents.vocabulary import CONTEXT
from causeline.graph.node import Node, NodeFunction, is_absolute, node
from causeline.policy import RetryPolicy

Outputs = Mapping[str, str] | None
"""Port -> name (or IRI) of a placement. None: its edges decide, and without edges the run ends there."""
Runs = str | Node | Callable[..., Any]
"""A node: its IRI, the Node, or a plain function, which becomes a Node with the ports that are routed."""
Child = str | Document | DagReference


class Graph:
    """A document in the making. Every method but `build` returns the graph itself. Raises Misuse for an IRI that is not absolute."""

    def __init__(self, iri: str, *, name: str | None = None, version: str = "1") -> None:
        if not is_absolute(_text("Graph", "the IRI", iri)):
            told = f"Graph: the IRI {iri!r} is not absolute; write something like urn:example:dag:{percent_encode(iri)}"
            raise Misuse(told, code="graph_iri")
        self.iri = iri
        self.name = name or iri.rpartition("/")[2].rpartition(":")[2] or iri
        self.version = version
        self._nodes: dict[str, Node] = {}
        self._entries: dict[str, str] = {}
        self._placements: list[dict[str, Any]] = []
        self._edges: dict[str, list[tuple[str, str | None]]] = {}
        self._deciding: dict[str, bool] = {}  # placements that may have edges; True where they have to

    @property
    def nodes(self) -> tuple[Node, ...]:
        """The Node objects given, for registration."""
        return tuple(self._nodes.values())

    def place(self, name: str) -> str:
        """The IRI of the placement with this name; an absolute IRI stays as it is."""
        return name if is_absolute(_text(self.iri, "the name of a placement", name)) else f"{self.iri}/node/{percent_encode(name)}"

    def entrypoint(self, label: str) -> str:
        """The IRI of an entrypoint, for the sources of a gather."""
        return entrypoint_iri(self.iri, label)

    def node(
        self,
        name: str,
        runs: Runs,
        outputs: Outputs = None,
        *,
        retry: RetryPolicy | None = None,
        timeout: float | None = None,
        role: str | None = None,
    ) -> "Graph":
        """A SingleNode. `timeout` is in seconds; `role` says what it does for readers of a trace, in place of its node's roles."""
        extra = {"retry": _retry(retry), "timeoutMs": None if timeout is None else timeout * 1000, "role": role}
        return self._add("SingleNode", name, outputs, {"node": self._node(name, runs, outputs), **extra}, edges=True)

    def scatter(
        self,
        name: str,
        source: str,
        outputs: Mapping[str, str],
        *,
        node: Runs | None = None,
        dag: Child | None = None,
        item_key: str | None = None,
        concurrency: int | None = None,
        throttle: int | None = None,
        reservoir: Reservoir | None = None,
        reducer: str | None = None,
        state_input: Mapping[str, str] | None = None,
        retry: RetryPolicy | None = None,
        container: str | None = None,
        role: str | None = None,
    ) -> "Graph":
        """A ScatterNode over the items of `source`; its body is either `node` or `dag`."""
        if (node is None) is (dag is None):
            raise Misuse(f"scatter {name!r}: give exactly one of node= and dag=", code="scatter_body")
        body = {"dag": _dag(dag)} if dag is not None else {"node": self._node(name, node or "", BODY_PORTS)}
        tank = None if reservoir is None else _some(keyField=reservoir.key_field, capacity=reservoir.capacity, idleMs=reservoir.idle_ms)
        execution = None
        if concurrency is not None or throttle is not None or tank is not None:
            execution = _some(
                mode="item" if tank is None else "reservoir",
                concurrency=concurrency,
                reservoir=tank,
                throttle=None if throttle is None else {"concurrencyLimit": throttle},
            )
        return self._add(
            "ScatterNode",
            name,
            outputs,
            {
                "body": body,
                "source": source,
                "itemKey": item_key,
                "execution": execution,
                "reducer": reducer,
                "retry": _retry(retry),
                "stateMapping": None if state_input is None else {"input": dict(state_input)},
                "container": container,
                "role": role,
            },
        )

    def gather(
        self,
        name: str,
        sources: Sequence[str] | Mapping[str, str | None],
        strategy: str,
        outputs: Mapping[str, str],
        *,
        target: str | None = None,
        field: str | None = None,
        mapping: Mapping[str, str] | None = None,
        partitions: Mapping[str, str] | None = None,
        custom_node: Runs | None = None,
        result_field: str | None = None,
        policy: Literal["all", "any", "quorum"] | None = None,
        quorum: int | None = None,
        include_errors: bool | None = None,
        role: str | None = None,
    ) -> "Graph":
        """A GatherNode. `sources` are names (or IRIs, see `entrypoint`), with a result field each where it is a mapping."""
        fields = sources if isinstance(sources, Mapping) else dict.fromkeys(sources)
        rule = _some(mode=policy, quorum=quorum, includeErrors=include_errors)
        return self._add(
            "GatherNode",
            name,
            outputs,
            {
                "sources": {self.place(source): _some(resultField=result) for source, result in fields.items()},
                "gather": _some(
                    strategy=strategy,
                    target=target,
                    field=field,
                    resultField=result_field,
                    mapping=None if mapping is None else dict(mapping),
                    partitions=None if partitions is None else dict(partitions),
                    customNode=None if custom_node is None else self._node(name, custom_node, None),
                ),
                "policy": rule or None,
                "role": role,
            },
        )

    def embed(
        self,
        name: str,
        dag: Child,
        outputs: Outputs = None,
        *,
        state_input: Mapping[str, str] | None = None,
        state_output: Mapping[str, str] | None = None,
        result_field: str | None = None,
        container: str | None = None,
        role: str | None = None,
    ) -> "Graph":
        """An EmbeddedDAGNode. `state_input`: child channel -> parent path; `state_output`: parent path -> child path."""
        mapping = _some(
            input=None if state_input is None else dict(state_input), output=None if state_output is None else dict(state_output)
        )
        return self._add(
            "EmbeddedDAGNode",
            name,
            outputs,
            {
                "dag": _dag(dag),
                "stateMapping": mapping or None,
                "container": container,
                "role": role,
                "gatherResult": None if result_field is None else {"resultField": result_field},
            },
            edges=True,
        )

    def terminal(self, name: str, outcome: Literal["completed", "failed"] = "completed") -> "Graph":
        """A TerminalNode."""
        return self._add("TerminalNode", name, None, {"outcome": outcome}, routed=False)

    def phase(self, name: str, runs: Runs, phase: Literal["pre", "post"]) -> "Graph":
        """A PhaseNode: runs before or after everything else."""
        return self._add("PhaseNode", name, None, {"node": self._node(name, runs, None), "phase": phase}, routed=False)

    def entry(self, label: str, name: str) -> "Graph":
        """An entrypoint. The one called `main` gets the given state, the others a copy; each starts a branch."""
        self._entries[label] = self.place(name)
        return self

    def edge(self, source: str, target: str, when: str | None = None) -> "Graph":
        """Where to go from a node or an embedded document, by the state. `when="__error__"` is the port `error`.

        Raises Misuse for an edge that could never be taken; a condition that does not parse is a finding of `check`.
        """
        if when is not None:
            _text(f"edge {source!r} -> {target!r}", "a condition on the state, such as 'total>100',", when)
        for end in (source, target):
            _text("edge", "the name of a placement", end)
        edges = self._edges.setdefault(source, [])
        if when != ERROR_EDGE and any(known is None for _, known in edges):
            raise Misuse(
                f"edge {source!r} -> {target!r} comes after one without a condition and would never be taken; put it before",
                code="dead_edge",
            )
        if any(known == when for _, known in edges):
            raise Misuse(f"edge {source!r} -> {target!r} repeats the condition {when!r} of an earlier edge", code="dead_edge")
        edges.append((target, when))
        return self

    def build(self) -> Document:
        """The document. Its faults are for `check`; raises Misuse for edges from a placement that is not there or has none."""
        for source in self._edges:
            if source not in self._deciding:
                raise Misuse(f"edge from {source!r}: add a node or an embedded document of that name", code="edge_source")
        ending = self._ending()
        placements = [self._with_edges(one, ending["@id"]) for one in self._placements]
        used = any(ending["@id"] in one.get("outputs", {}).values() for one in placements)
        if used and ending["@id"] not in {one["@id"] for one in placements}:
            placements.append(ending)
        first = next((one["@id"] for one in placements if one["@type"] != "PhaseNode"), self.place("main"))
        return load(
            {
                "@context": CONTEXT,
                "@id": self.iri,
                "@type": "DAG",
                "name": self.name,
                "version": self.version,
                "entrypoints": self._entries or {"main": first},
                "nodes": placements,
            }
        )

    def _ending(self) -> dict[str, Any]:
        """Where a run goes that has nowhere to go: the terminal `end`, made if there is none of that name."""
        taken = any(one["name"] == "end" and one.get("outcome") != "completed" for one in self._placements)
        name = "end-of-run" if taken else "end"
        return {"@id": self.place(name), "@type": "TerminalNode", "name": name, "outcome": "completed"}

    def _with_edges(self, placement: dict[str, Any], ending: str) -> dict[str, Any]:
        edges = self._edges.get(placement["name"], [])
        if not edges and not self._deciding.get(placement["name"]):
            return placement
        routes: dict[str, str] = {}
        for target, when in edges:
            routes["error" if when == ERROR_EDGE else OTHERWISE if when is None else when] = self.place(target)
        routes.setdefault(OTHERWISE, ending)
        tests = [when for _, when in edges if when not in (None, ERROR_EDGE)]
        return {**placement, **({"when": tests} if tests else {}), "outputs": {**placement["outputs"], **routes}}

    def _add(self, kind: str, name: str, outputs: Outputs, fields: dict[str, Any], *, routed: bool = True, edges: bool = False) -> "Graph":
        made = {"@id": self.place(name), "@type": kind, "name": name, **{key: value for key, value in fields.items() if value is not None}}
        if routed:
            made["outputs"] = {port: self.place(target) for port, target in (outputs or {}).items()}
        if edges:
            self._deciding[name] = outputs is None
        self._placements.append(made)
        return self

    def _node(self, name: str, runs: Runs, outputs: Iterable[str] | None) -> str:
        if isinstance(runs, str):
            return runs
        if not callable(cast("object", runs)):
            raise Misuse(f"{name!r} runs {runs!r}; give a node's IRI, a Node or a function", code="node_function")
        made = runs if isinstance(runs, Node) else _node_of(f"{self.iri}/code/{percent_encode(name)}", runs, outputs or ("done",))
        self._nodes[made.iri] = made
        return made.iri


BODY_PORTS = ("success", "error")
"""The ports of a plain function that is the body of a scatter."""


def _text(place: str, what: str, value: object) -> str:
    if not isinstance(value, str):
        raise Misuse(f"{place}: {what} must be text, not {value!r}", code="graph_text")
    return value


def _node_of(iri: str, function: NodeFunction, ports: Iterable[str]) -> Node:
    return node(iri, tuple(ports))(function)


def _some(**fields: Any) -> dict[str, Any]:
    return {key: value for key, value in fields.items() if value is not None}


def _dag(child: Child) -> Any:
    if isinstance(child, DagReference):
        return {"@type": "DagReference", "from": child.source, "path": child.path, "candidates": list(child.candidates)}
    return child.id if isinstance(child, Document) else child


def _retry(policy: RetryPolicy | None) -> dict[str, Any] | None:
    """A policy as documents write it: milliseconds."""
    if policy is None:
        return None
    return {
        "maxAttempts": policy.max_attempts,
        "strategy": policy.strategy,
        "baseDelay": policy.base_delay * 1000,
        "maxDelay": policy.max_delay * 1000,
        "multiplier": policy.multiplier,
        "jitterFactor": policy.jitter_factor,
        "retryOn": list(policy.retry_on),
        "abortOn": list(policy.abort_on),
    }
