"""Random documents that are well formed field by field; whether they make sense as a whole is left open."""

from typing import Any

from hypothesis import strategies as st

TEXT = st.text(st.characters(exclude_categories=("C", "Z")), min_size=1, max_size=12)
IRIS = st.integers(0, 30).map(lambda number: f"urn:example:{number}")
PORTS = st.sampled_from(["success", "error", "empty", "partial", "done", "ready"]) | TEXT
PATHS = st.sampled_from(["rows", "a.b", "state.x.0", "note"]) | TEXT
COUNT = st.integers(1, 10**6)
NUMBER = st.integers(0, 10**6) | st.floats(0, 1e6, allow_nan=False)


def some(**optional: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({}, optional=optional)


def all_of(required: dict[str, Any], **optional: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries(required, optional=optional)


def maps(keys: st.SearchStrategy[str], values: st.SearchStrategy[Any], least: int = 0) -> st.SearchStrategy[dict[str, Any]]:
    return st.dictionaries(keys, values, min_size=least, max_size=4)


WORDS = st.lists(TEXT, max_size=3, unique=True)
RETRY = some(
    maxAttempts=COUNT,
    strategy=st.sampled_from(["constant", "linear", "exponential", "decorrelated-jitter"]),
    baseDelay=NUMBER,
    maxDelay=NUMBER,
    multiplier=NUMBER,
    jitterFactor=st.floats(0, 1),
    on=WORDS,
    retryOn=WORDS,
    abortOn=WORDS,
)


def reference(source: str) -> st.SearchStrategy[Any]:
    return st.fixed_dictionaries(
        {
            "@type": st.just("DagReference"),
            "from": st.just(source),
            "path": PATHS,
            "candidates": st.lists(IRIS, min_size=1, max_size=3, unique=True),
        }
    )


ADAPTIVE = all_of({"enabled": st.booleans()}, targetLatencyMs=NUMBER, stepSize=NUMBER, minConcurrency=NUMBER)
ITEMS = all_of({"mode": st.just("item")}, concurrency=COUNT, throttle=all_of({"concurrencyLimit": COUNT}, adaptive=ADAPTIVE))
RESERVOIR = all_of(
    {"mode": st.just("reservoir"), "reservoir": all_of({"keyField": PATHS, "capacity": COUNT}, idleMs=COUNT)}, concurrency=COUNT
)
OUTPUTS = maps(PORTS, IRIS)
SOURCES = maps(IRIS, some(resultField=PATHS), least=1)
GATHERS = (
    st.fixed_dictionaries({"strategy": st.just("map"), "mapping": maps(PATHS, PATHS)})
    | all_of({"strategy": st.sampled_from(["append", "collect"]), "target": PATHS}, field=PATHS, resultField=PATHS)
    | st.fixed_dictionaries({"strategy": st.just("partition"), "partitions": maps(PORTS, PATHS)})
    | st.fixed_dictionaries({"strategy": st.just("custom"), "customNode": IRIS})
    | st.just({"strategy": "discard"})
)
KINDS: dict[str, st.SearchStrategy[dict[str, Any]]] = {
    "SingleNode": all_of({"node": IRIS, "outputs": OUTPUTS}, retry=RETRY, timeoutMs=COUNT, when=WORDS),
    "ScatterNode": all_of(
        {"body": st.fixed_dictionaries({"dag": IRIS | reference("item")}), "source": PATHS, "outputs": OUTPUTS},
        itemKey=PATHS,
        stateMapping=some(input=maps(PATHS, PATHS)),
        reducer=TEXT,
        container=TEXT,
        execution=ITEMS | RESERVOIR,
        retry=RETRY,
    ),
    "GatherNode": all_of(
        {"sources": SOURCES, "gather": GATHERS, "outputs": OUTPUTS},
        policy=some(mode=st.sampled_from(["all", "any"]), includeErrors=st.booleans()),
    ),
    "EmbeddedDAGNode": all_of(
        {"dag": IRIS | reference("state"), "outputs": OUTPUTS},
        stateMapping=some(input=maps(PATHS, PATHS), output=maps(PATHS, PATHS)),
        gatherResult=some(resultField=PATHS),
        container=TEXT,
        when=WORDS,
    ),
    "TerminalNode": st.fixed_dictionaries({"outcome": st.sampled_from(["completed", "failed"])}),
    "PhaseNode": st.fixed_dictionaries({"node": IRIS, "phase": st.sampled_from(["pre", "post"])}),
}


@st.composite
def documents(draw: st.DrawFn) -> dict[str, Any]:
    """A document under an empty context; route targets are any IRIs."""
    kinds = draw(st.lists(st.sampled_from(sorted(KINDS)), min_size=1, max_size=6))
    nodes = [
        {"@id": f"urn:example:{number}", "@type": kind, "name": f"{draw(TEXT)} {number}", **draw(KINDS[kind])}
        for number, kind in enumerate(kinds)
    ]
    return {
        "@context": {},
        "@id": "urn:example:dag:random",
        "@type": "DAG",
        "name": draw(TEXT),
        "version": draw(TEXT),
        "entrypoints": draw(maps(TEXT, IRIS, least=1)),
        "nodes": nodes,
    }
