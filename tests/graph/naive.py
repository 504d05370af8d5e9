"""Random documents, and the shortest interpreter of them that could be right.

Nodes decide by arithmetic on their name and the fuel that is left, so that every run of a document does the same.
"""

from dataclasses import dataclass, field
from zlib import crc32

from hypothesis import strategies as st

from causeline.graph import Graph, Outcome, node

ITEM_PORTS = ("all-success", "partial", "all-error", "empty")
GATHER_PORTS = ("success", "error", "empty")
REDUCERS = {"trace": "append"}
SEEDS = {"fuel": "small", "small": "small", "items0": "items0", "items3": "items3", "items5": "items5"}


def dice(*parts: object, sides: int) -> int:
    return crc32(repr(parts).encode()) % sides


def decide(name: str, fuel: int, asks: bool) -> str:
    """What node `name` does with this much fuel: a port, `raise` or `ask`."""
    if fuel <= 1:
        return "stop"
    throw = dice(name, fuel, sides=16)
    return "raise" if throw == 0 else "ask" if throw <= 3 and asks else "a" if throw % 2 else "b"


def judge(item: int) -> str:
    """What the body of a scatter does with an item."""
    return ("success", "error", "raise", "success", "success")[dice("item", item, sides=5)]


@node("urn:t:n:step", ports=("a", "b", "stop"))
def step(ctx):
    return _step(ctx, asks=False)


@node("urn:t:n:asking", ports=("a", "b", "stop"))
async def asking(ctx):
    return _step(ctx, asks=True)


def _step(ctx, *, asks):
    fuel = ctx.state["fuel"]
    what = decide(ctx.placement, fuel, asks)
    if what == "raise":
        raise ValueError(f"{ctx.placement} at {fuel}")
    if what == "ask":
        if ctx.answer is None:
            return Outcome.pause(fuel)
        what = "a"
    return Outcome(what, {"fuel": fuel - 1, "trace": [ctx.placement]})


@node("urn:t:n:item", ports=("success", "error"))
async def item(ctx):
    what = judge(ctx.item)
    if what == "raise":
        raise ValueError(str(ctx.item))
    return Outcome(what, {"value": ctx.item * 10})


NODES = (step, asking, item)


@dataclass(frozen=True)
class Sketch:
    """A document as data: `parts` are ("step", targets) | ("fan", width, concurrency, strategy, child, target) |
    ("inner", child, target)."""

    iri: str
    parts: list[tuple] = field(default_factory=list)
    asks: bool = False

    def graph(self) -> Graph:
        graph = Graph(self.iri)
        for number, part in enumerate(self.parts):
            getattr(self, f"_{part[0]}")(graph, f"p{number}", *part[1:])
        return graph.terminal("good").terminal("bad", "failed")

    def name(self, target: int) -> str:
        return ("good", "bad")[target] if target < 2 else f"p{(target - 2) % len(self.parts)}"

    def _step(self, graph, name, a, b, stop, error):
        runs = "urn:t:n:asking" if self.asks else "urn:t:n:step"
        graph.node(name, runs, {"a": self.name(a), "b": self.name(b), "stop": self.name(stop % 2), "error": self.name(error % 2)})

    def _fan(self, graph, name, width, concurrency, strategy, child, target):
        body = {"node": "urn:t:n:item"} if child is None else {"dag": child.iri}
        options = {
            "append": {"target": "got", "field": "value"},
            "collect": {"target": "got"},
            "map": {"mapping": {"value": "got"}},
            "discard": {},
        }[strategy]
        graph.scatter(
            name,
            f"items{width}",
            dict.fromkeys(ITEM_PORTS, f"{name}-join"),
            concurrency=concurrency,
            state_input=SEEDS if child else {},
            **body,
        )
        graph.gather(f"{name}-join", [name], strategy, dict.fromkeys(GATHER_PORTS, self.name(target)), **options)

    def _inner(self, graph, name, child, target):
        graph.embed(name, child.iri, {"success": self.name(target), "error": "bad"}, state_input=SEEDS, state_output={"got": "trace"})

    def children(self):
        for part in self.parts:
            for value in part:
                if isinstance(value, Sketch):
                    yield value
                    yield from value.children()


def start(fuel: int) -> dict:
    return {"fuel": fuel, "small": 4, "items0": [], "items3": [1, 2, 3], "items5": [10, 11, 12, 13, 14]}


def sketches(depth: int = 2, iri: str = "urn:t:doc", *, asks: bool = False):
    """Every placement can be reached: part n leads to part n + 1 by its last target."""
    targets = st.integers(2, 9)
    child = st.none() if depth == 0 else sketches(depth - 1, f"{iri}:c", asks=asks)
    kinds = [st.tuples(st.just("step"), targets, targets, targets, targets)]
    fans = st.tuples(
        st.just("fan"),
        st.sampled_from([0, 3, 5]),
        st.sampled_from([1, 3]),
        st.sampled_from(["append", "collect", "map", "discard"]),
        st.one_of(st.none(), child),
        targets,
    )
    if depth:
        kinds += [fans, st.tuples(st.just("inner"), child, targets)]

    def tidy(parts):
        """Lead every part to the next, name the children apart, and end in a step, so that fuel runs out."""
        parts = [("step", 2, 3, 0, 1), *parts, ("step", 1, 0, 0, 1)]
        made = []
        for number, part in enumerate(parts):
            following = number + 3
            if part[0] == "step":
                made.append((*part[:2], following if number + 1 < len(parts) else part[2], *part[3:]))
            else:
                made.append((*part[:-1], following))
        return Sketch(iri, made, asks)

    return st.lists(st.one_of(kinds), min_size=1, max_size=4).map(tidy).map(renamed)


def renamed(sketch: Sketch) -> Sketch:
    """Give every child an IRI that says where it is."""
    parts = [
        tuple(renamed(Sketch(f"{sketch.iri}:{number}", value.parts, value.asks)) if isinstance(value, Sketch) else value for value in part)
        for number, part in enumerate(sketch.parts)
    ]
    return Sketch(sketch.iri, parts, sketch.asks)


# -- the interpreter


def interpret(sketch: Sketch, state: dict, budget: int = 3000) -> str:
    """Walk a sketch, changing `state`; `completed` or `failed`."""
    at = "p0"
    while at not in ("good", "bad"):
        part = sketch.parts[int(at[1:])]
        budget -= 1
        if budget < 0:
            return "endless"
        at = {"step": _walk_step, "fan": _walk_fan, "inner": _walk_inner}[part[0]](sketch, at, part, state)
    return "completed" if at == "good" else "failed"


def _walk_step(sketch, at, part, state):
    _, a, b, stop, error = part
    what = decide(at, state["fuel"], sketch.asks)
    if what == "raise":
        state["error"] = {"code": "ValueError", "message": f"{at} at {state['fuel']}", "placement": at}
        return sketch.name(error % 2)
    state["trace"] = [*state.get("trace", []), at]
    state["fuel"] -= 1
    return sketch.name({"a": a, "ask": a, "b": b, "stop": stop % 2}[what])


def _walk_fan(sketch, at, part, state):
    _, width, _, strategy, child, target = part
    records, failures = [], []
    for number in state[f"items{width}"]:
        if child is None:
            what = judge(number)
            own, port = ({}, "error") if what == "raise" else ({"value": number * 10}, what)
            failures += [{"code": "ValueError", "message": str(number), "placement": at}] if what == "raise" else []
        else:
            own = {key: state[path] for key, path in SEEDS.items()}
            port = "success" if interpret(child, own) == "completed" else "error"
            failures += [_reason(child, own)] if port == "error" else []
        records.append((own, port))
    if strategy == "map":
        state["got"] = [own.get("value") for own, _ in records]
    elif strategy == "append":
        state["got"] = [*state.get("got", []), *(own.get("value") for own, port in records if port != "error")]
    elif strategy == "collect":
        state["got"] = [*state.get("got", []), *(port for _, port in records)]
    if failures:
        state["error"] = failures[0]
    return sketch.name(target)


def _walk_inner(sketch, at, part, state):
    _, child, target = part
    own = {key: state[path] for key, path in SEEDS.items()}
    ended = interpret(child, own)
    if "trace" in own:
        state["got"] = own["trace"]
    if ended == "completed":
        return sketch.name(target)
    state["error"] = _reason(child, own)
    return "bad"


def _reason(sketch, own):
    name = sketch.iri.rpartition("/")[2].rpartition(":")[2]
    return own.get("error") or {"code": "failed_terminal", "message": f"{name} ended at bad", "placement": "bad"}
