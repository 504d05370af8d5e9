"""From a plain document (canonical field names, prefixes expanded) to records.

Law: one wrong value is one finding and gets its default, so that a Document comes out wherever there is one to see.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal, cast

from causeline.graph.documents.document import (
    DagBody,
    DagReference,
    Document,
    Embedded,
    Gather,
    NodeBody,
    Phase,
    Placement,
    Reservoir,
    Scatter,
    Single,
    Terminal,
)
from causeline.graph.documents.field_reader import FieldReader, misfit
from causeline.graph.documents.finding import Finding
from causeline.graph.documents.plain_json import join, refuse
from causeline.graph.documents.vocabulary import (
    ADAPTIVE,
    COMMON,
    GATHER,
    GATHER_NEEDS,
    KINDS,
    OPTIONAL,
    REQUIRED,
    RETRY,
    RETRY_STRATEGIES,
    TOP,
)
from causeline.policy import RetryPolicy, Strategy

UNNAMED = "urn:causeline:document:unnamed"


def read_document(plain: dict[str, Any], context: Mapping[str, Any], problems: list[Finding]) -> Document:
    """Build the Document of a plain object. Raises DocumentError if it has no array of placements."""
    top = FieldReader(plain, "", None, problems)
    if plain.get("@type") != "DAG" and not isinstance(plain.get("nodes"), list):
        raise refuse("no_document", 'this JSON is not a graph document: it has neither "@type": "DAG" nor an array of "nodes"')
    top.settle_keys(("@id", "@type", "name", "version", "entrypoints", "nodes"), TOP)
    if "@type" in top.data and top.text("@type", "DAG") != "DAG":
        top.complain("bad_value", f'must be "DAG", not {top.data["@type"]!r}', "@type")
    iri = top.text("@id", UNNAMED)
    entrypoints = top.text_map("entrypoints")
    if not entrypoints and top.data.get("entrypoints") == {}:
        top.complain("bad_value", 'must name at least one entrypoint, such as "main"', "entrypoints")
    nodes = top.data.get("nodes", [])
    if not isinstance(nodes, list):
        raise refuse("no_document", '"nodes" must be an array of placements', "nodes")
    if not nodes and "nodes" in top.data:
        top.complain("bad_value", "must hold at least one placement", "nodes")
    placements, shadowed = _read_placements(cast("list[Any]", nodes), iri, problems)
    return Document(
        iri,
        top.text("name", iri),
        top.text("version", "0"),
        entrypoints,
        placements,
        context,
        plain={key: value for key, value in top.data.items() if key != "@context"},
        problems=tuple(problems),
        shadowed=tuple(shadowed),
    )


def _read_placements(nodes: list[Any], document: str, problems: list[Finding]) -> tuple[dict[str, Placement], list[Placement]]:
    placements: dict[str, Placement] = {}
    shadowed: list[Placement] = []
    names: dict[str, str] = {}
    for index, data in enumerate(nodes):
        path = join("nodes", index)
        if not isinstance(data, dict):
            problems.append(Finding("wrong_type", None, "a placement must be an object", path))
            continue
        own: list[Finding] = []
        placement = _read_placement(cast("dict[str, Any]", data), path, document, own)
        if placement.id in placements:  # its other faults are mostly those of the first
            problems.append(
                Finding("duplicate_id", placement.id, "another placement has this @id already; give each its own", f"{path}.@id")
            )
            shadowed.append(placement)
            continue
        problems.extend(own)
        placements[placement.id] = placement
        if names.setdefault(placement.name, placement.id) != placement.id:
            problems.append(
                Finding(
                    "duplicate_name",
                    placement.id,
                    f"the name {placement.name!r} belongs to {names[placement.name]} already; give each its own",
                    f"{path}.name",
                )
            )
    return placements, shadowed


def _read_placement(data: dict[str, Any], path: str, document: str, problems: list[Finding]) -> Placement:
    name = data.get("name")
    given = data.get("@id")
    iri = given if isinstance(given, str) and given else f"{document}/node/{name if isinstance(name, str) and name else path}"
    fields = FieldReader(data, path, iri, problems)
    kind, sure = _kind_of(fields)
    if not sure:  # its other keys cannot be judged by a kind that is a guess
        fields.problems = []
    fields.settle_keys((*COMMON, *REQUIRED[kind]), OPTIONAL[kind])
    fields.text("@id")
    placement = _READERS[kind](fields, iri, fields.text("name", iri.rpartition("/")[2]))
    if not isinstance(placement, Terminal) and (role := fields.optional_text("role")) is not None:
        placement = replace(placement, role=role)
    if not sure and not isinstance(given, str):
        problems.append(Finding("missing_field", iri, "the field '@id' is required", f"{path}.@id"))
    return placement


def _kind_of(fields: FieldReader) -> tuple[str, bool]:
    """The kind to read a placement as, and whether it is what the placement says of itself."""
    stated = fields.data.get("@type")
    known = isinstance(stated, str) and stated in KINDS
    if isinstance(stated, str) and known and _misfit(fields, stated) < 2:
        return stated, True
    guess = min(KINDS, key=lambda kind: _misfit(fields, kind))
    if "@type" not in fields.data:
        fields.complain("missing_field", f"the field '@type' is required; it looks like a {guess}", "@type")
    elif not known:
        fields.complain("unknown_type", f"{stated!r} is not one of {', '.join(KINDS)}; it looks like a {guess}", "@type")
    elif _misfit(fields, guess) == 0:
        fields.complain("unknown_type", f"says {stated} but has the fields of a {guess}", "@type")
    else:
        return str(stated), True
    return guess, False


def _misfit(fields: FieldReader, kind: str) -> int:
    return misfit(fields.data, (*COMMON, *REQUIRED[kind]), OPTIONAL[kind])


def _single(fields: FieldReader, iri: str, name: str) -> Single:
    timeout = fields.number("timeoutMs", 1)
    return Single(
        iri,
        name,
        fields.text("node"),
        fields.text_map("outputs"),
        retry=_retry(fields),
        timeout=None if timeout is None else timeout / 1000,
        when=fields.texts("when"),
    )


def _terminal(fields: FieldReader, iri: str, name: str) -> Terminal:
    return Terminal(iri, name, cast('Literal["completed", "failed"]', fields.choice("outcome", ("completed", "failed"), "completed")))


def _phase(fields: FieldReader, iri: str, name: str) -> Phase:
    return Phase(iri, name, fields.text("node"), cast('Literal["pre", "post"]', fields.choice("phase", ("pre", "post"), "pre")))


def _embedded(fields: FieldReader, iri: str, name: str) -> Embedded:
    into, out = _state_mapping(fields, ("input", "output"))
    return Embedded(
        iri,
        name,
        _dag(fields, "state"),
        fields.text_map("outputs"),
        state_input=into,
        state_output=out,
        result_field=_inner_text(fields, "gatherResult", "resultField"),
        container=fields.optional_text("container"),
        when=fields.texts("when"),
    )


def _inner_text(fields: FieldReader, key: str, inner: str) -> str | None:
    child = fields.child(key)
    if child is None:
        return None
    child.settle_keys((), (inner,))
    return child.optional_text(inner)


def _state_mapping(fields: FieldReader, allowed: tuple[str, ...]) -> tuple[dict[str, str], dict[str, str]]:
    child = fields.child("stateMapping")
    if child is None:
        return {}, {}
    child.settle_keys((), allowed)
    return child.text_map("input"), child.text_map("output") if "output" in allowed else {}


def _dag(fields: FieldReader, source: Literal["state", "item"]) -> str | DagReference:
    """The field `dag`: an IRI, or a reference that must read from `source`."""
    if not isinstance(fields.data.get("dag"), dict):
        return fields.text("dag")
    reference = fields.child("dag")
    assert reference is not None
    reference.settle_keys(("@type", "from", "path", "candidates"), ())
    if "@type" in reference.data and reference.data["@type"] != "DagReference":
        reference.complain("bad_value", f'must be "DagReference", not {reference.data["@type"]!r}', "@type")
    stated = reference.choice("from", ("state", "item"), source)
    if stated != source:
        reference.complain(
            "bad_reference",
            f"must be {source!r} here, not {stated!r}: "
            + ("a scatter chooses per item" if source == "item" else "an embedded document is chosen from the state"),
            "from",
        )
    candidates = reference.texts("candidates")
    if reference.data.get("candidates") == []:
        reference.complain("bad_value", "must name at least one document", "candidates")
    return DagReference(source, reference.text("path"), candidates)


def _scatter(fields: FieldReader, iri: str, name: str) -> Scatter:
    body = _body(fields)
    into, _ = _state_mapping(fields, ("input",))
    container = fields.optional_text("container")
    if container is not None and isinstance(body, NodeBody):
        fields.complain("container_on_node", "a container runs documents; give the scatter a `dag` body or remove it", "container")
    mode, concurrency, throttle, adaptive, reservoir = _execution(fields)
    return Scatter(
        iri,
        name,
        body,
        fields.text("source"),
        fields.text_map("outputs"),
        item_key=fields.text("itemKey", "currentItem"),
        mode=mode,
        concurrency=concurrency,
        throttle=throttle,
        adaptive=adaptive,
        reservoir=reservoir,
        reducer=fields.text("reducer", "aggregate"),
        state_input=into,
        retry=_retry(fields),
        container=container,
    )


def _body(fields: FieldReader) -> NodeBody | DagBody:
    body = fields.child("body")
    if body is None:
        return NodeBody("")
    body.settle_keys((), ("node", "dag"))
    if ("node" in body.data) is ("dag" in body.data):
        body.complain("bad_value", "must have exactly one of `node` and `dag`")
    return DagBody(_dag(body, "item")) if "dag" in body.data else NodeBody(body.text("node"))


Execution = tuple[Literal["item", "reservoir"], int, int | None, Mapping[str, Any] | None, Reservoir | None]


def _execution(fields: FieldReader) -> Execution:
    execution = fields.child("execution")
    if execution is None:
        return "item", 1, None, None, None
    execution.settle_keys(("mode",), ("concurrency", "throttle", "reservoir"))
    guess = "reservoir" if "reservoir" in execution.data and "mode" not in execution.data else "item"
    mode = cast('Literal["item", "reservoir"]', execution.choice("mode", ("item", "reservoir"), guess))
    concurrency = execution.whole("concurrency", 1, 1) or 1
    throttle, adaptive = _throttle(execution)
    reservoir = _reservoir(execution)
    if mode == "item" and reservoir is not None:
        execution.complain("bad_reservoir", 'only mode "reservoir" collects batches; change the mode or remove it', "reservoir")
    if mode == "reservoir" and "reservoir" not in execution.data:
        execution.complain("bad_reservoir", 'mode "reservoir" needs {keyField, capacity}', "reservoir")
    if mode == "reservoir" and "throttle" in execution.data:
        execution.complain("bad_reservoir", 'a throttle bounds single items; in mode "reservoir" use concurrency', "throttle")
    return mode, concurrency, throttle, adaptive, reservoir


def _throttle(execution: FieldReader) -> tuple[int | None, Mapping[str, Any] | None]:
    throttle = execution.child("throttle")
    if throttle is None:
        return None, None
    throttle.settle_keys(("concurrencyLimit",), ("adaptive",))
    adaptive = throttle.child("adaptive")
    if adaptive is not None:
        adaptive.settle_keys(("enabled",), ADAPTIVE)
        adaptive.flag("enabled", False)
        for key in ADAPTIVE[1:]:
            adaptive.number(key, 0)
    return throttle.whole("concurrencyLimit", 1), None if adaptive is None else adaptive.data


def _reservoir(execution: FieldReader) -> Reservoir | None:
    reservoir = execution.child("reservoir")
    if reservoir is None:
        return None
    reservoir.settle_keys(("keyField", "capacity"), ("idleMs",))
    return Reservoir(reservoir.text("keyField"), reservoir.whole("capacity", 1, 1) or 1, reservoir.whole("idleMs", 1))


def _gather(fields: FieldReader, iri: str, name: str) -> Gather:
    gather = fields.child("gather") or FieldReader({}, join(fields.path, "gather"), iri, [])
    gather.settle_keys(("strategy",), GATHER)
    strategy = gather.text("strategy")
    needed = GATHER_NEEDS.get(strategy)
    if needed and needed not in gather.data:
        gather.complain("missing_field", f"the strategy {strategy!r} needs the field {needed!r}", needed)
    policy, quorum, include_errors = _policy(fields)
    return Gather(
        iri,
        name,
        _sources(fields),
        strategy,
        fields.text_map("outputs"),
        target=gather.optional_text("target"),
        field=gather.optional_text("field"),
        mapping=gather.text_map("mapping"),
        partitions=gather.text_map("partitions"),
        custom_node=gather.optional_text("customNode"),
        result_field=gather.optional_text("resultField"),
        policy=policy,
        quorum=quorum,
        include_errors=include_errors,
    )


def _sources(fields: FieldReader) -> dict[str, str | None]:
    sources = fields.child("sources")
    if sources is None:
        return {}
    if not sources.data:
        fields.complain("bad_value", "must name at least one producer", "sources")
    return {producer: _inner_text(sources, producer, "resultField") for producer in sources.data}


def _policy(fields: FieldReader) -> tuple[Literal["all", "any", "quorum"], int | None, bool]:
    policy = fields.child("policy")
    if policy is None:
        return "all", None, True
    policy.settle_keys((), ("mode", "quorum", "includeErrors"))
    mode = cast('Literal["all", "any", "quorum"]', policy.choice("mode", ("all", "any", "quorum"), "all"))
    quorum = policy.whole("quorum", 1)
    sources = fields.data.get("sources")
    count = len(cast("dict[str, Any]", sources)) if isinstance(sources, dict) else 0
    if mode != "quorum" and "quorum" in policy.data:
        policy.complain("bad_quorum", f'only mode "quorum" counts; mode is {mode!r}', "quorum")
    elif mode == "quorum" and "quorum" not in policy.data:
        policy.complain("bad_quorum", 'mode "quorum" needs the number of sources to wait for', "quorum")
    elif quorum is not None and quorum > count > 0:
        policy.complain("bad_quorum", f"waits for {quorum} sources but there are {count}", "quorum")
    return mode, quorum, policy.flag("includeErrors", True)


def _retry(fields: FieldReader) -> RetryPolicy | None:
    """Delays are milliseconds in documents and seconds in the policy; `on` and `retryOn` mean the same."""
    retry = fields.child("retry")
    if retry is None:
        return None
    retry.settle_keys((), RETRY)
    default = RetryPolicy()
    base, most = retry.number("baseDelay", 0), retry.number("maxDelay", 0)
    multiplier, jitter = retry.number("multiplier", 0), retry.number("jitterFactor", 0, 1)
    return RetryPolicy(
        max_attempts=retry.whole("maxAttempts", 1, default.max_attempts) or default.max_attempts,
        strategy=cast("Strategy", retry.choice("strategy", RETRY_STRATEGIES, default.strategy)),
        base_delay=default.base_delay if base is None else base / 1000,
        max_delay=default.max_delay if most is None else most / 1000,
        multiplier=default.multiplier if multiplier is None else float(multiplier),
        jitter_factor=default.jitter_factor if jitter is None else float(jitter),
        retry_on=tuple(dict.fromkeys((*retry.texts("on"), *retry.texts("retryOn")))),
        abort_on=retry.texts("abortOn"),
    )


_READERS = {
    "SingleNode": _single,
    "ScatterNode": _scatter,
    "GatherNode": _gather,
    "EmbeddedDAGNode": _embedded,
    "TerminalNode": _terminal,
    "PhaseNode": _phase,
}
