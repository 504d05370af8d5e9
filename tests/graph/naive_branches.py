"""Random documents with one to three branches that write the same channels, and the shortest interpreter that could be right.

What a branch reads is its own, so each branch alone does the same whatever the others do; what the shared channels come to is said by
`expected`.
"""

import asyncio
from dataclasses import dataclass, field

from hypothesis import strategies as st

from causeline.graph import Context, Graph, Outcome, node

FOUR = dict.fromkeys(("all-success", "partial", "all-error", "empty"))
THREE = ("success", "error", "empty")
GIVEN = {"list": [0], "deep": {"z": 0}}


class World:
    """What a test decides (how long things take, what asks) and sees (what ran)."""

    def __init__(self, delays=None, asks=frozenset()) -> None:
        self.delays = delays or {}
        self.asks = asks
        self.ran: list[str] = []

    async def visit(self, ctx: Context, key: str) -> bool:
        """False if it asks first."""
        for _ in range(self.delays.get(key, 0)):
            await asyncio.sleep(0)
        if key in self.asks and ctx.answer is None:
            return False
        self.ran.append(key)
        return True


@node("urn:t:n:write", ports=("done",))
async def write(ctx):
    if not await ctx.use(World).visit(ctx, ctx.placement):
        return Outcome.pause(ctx.placement, {f"{ctx.placement}-asked": True})
    return Outcome("done", ctx.use(dict)[ctx.placement])


@node("urn:t:n:inner", ports=("done",))
async def inner(ctx):
    key = ctx.path[-2]
    if not await ctx.use(World).visit(ctx, f"{key}.{ctx.placement}"):
        return Outcome.pause(key)
    return Outcome("done", {"value": [*ctx.state.get("value", []), f"{ctx.state['seed']}-{ctx.placement}"]})


@node("urn:t:n:each", ports=("success", "error"))
async def each(ctx):
    if not await ctx.use(World).visit(ctx, f"{ctx.path[-2]}.{ctx.index}"):
        return Outcome.pause(ctx.item, {"asked": True})
    return Outcome("success", {"value": f"{ctx.state['seed']}-{ctx.item}"})


NODES = (write, inner, each)
CHILD = (
    Graph("urn:t:child").node("one", "urn:t:n:inner", {"done": "two"}).node("two", "urn:t:n:inner", {"done": "end"}).terminal("end").build()
)


@dataclass
class Part:
    """One placement: it writes `value` to `channel`, is an embedded child that writes to the path, or a scatter whose gather adds to it."""

    kind: str
    channel: str
    width: int = 2


@dataclass
class Meeting:
    """Branches of parts, the declared order of all placements, and whether the branches meet in the end."""

    branches: list[list[Part]]
    order: list[tuple[int, int]] = field(default_factory=list)
    meets: bool = True

    def name(self, branch: int, number: int) -> str:
        return f"{'abc'[branch]}{number}"

    def graph(self) -> Graph:
        graph = Graph("urn:t:branches")
        for branch, number in self.order:
            part, name = self.branches[branch][number], self.name(branch, number)
            last = number + 1 == len(self.branches[branch])
            target = ("meet" if self.meets else "end") if last else self.name(branch, number + 1)
            seeds = {"seed": f"seed{branch}"}
            if part.kind == "write":
                graph.node(name, "urn:t:n:write", {"done": target})
            elif part.kind == "embed":
                graph.embed(name, CHILD, {"success": target, "error": "bad"}, state_input=seeds, state_output={part.channel: "value"})
            else:
                joins = dict.fromkeys(FOUR, f"{name}-join")
                graph.scatter(name, f"items{branch}.{part.width}", joins, node="urn:t:n:each", concurrency=2, state_input=seeds)
                graph.gather(f"{name}-join", [name], "append", dict.fromkeys(THREE, target), target=part.channel, field="value")
        for branch in range(len(self.branches)):
            graph.entry(f"e{branch}", self.name(branch, 0))
        if self.meets:
            lasts = [self.last(branch) for branch in range(len(self.branches))]
            graph.gather("meet", lasts, "discard", dict.fromkeys(THREE, "end"))
        graph.terminal("end")
        embeds = any(part.kind == "embed" for parts in self.branches for part in parts)
        return graph.terminal("bad", "failed") if embeds else graph

    def last(self, branch: int) -> str:
        number = len(self.branches[branch]) - 1
        return self.name(branch, number) + ("-join" if self.branches[branch][number].kind == "scatter" else "")

    def writes(self) -> dict[str, dict]:
        """What the `write` placements write."""
        return {
            self.name(branch, number): {
                part.channel: {"whole": self.name(branch, number)} if part.channel == "deep" else [f"{branch}{number}"]
            }
            for branch, number in self.order
            if (part := self.branches[branch][number]).kind == "write"
        }

    def state(self) -> dict:
        state: dict = {"list": [0], "deep": {"z": 0}}
        for branch in range(len(self.branches)):
            state[f"seed{branch}"] = f"s{branch}"
            state[f"items{branch}"] = {str(width): [f"i{number}" for number in range(width)] for width in range(4)}
        return state


def expected(meeting: Meeting, asks=frozenset()) -> dict:
    """Branch by branch, in the declared order of their last writes to the channel; what comes before an override does not count."""
    state = meeting.state()
    for name in asks:
        if "." not in name:
            state[f"{name}-asked"] = True
    for channel in ("list", "deep"):
        writers = []
        for branch, parts in enumerate(meeting.branches):
            own = [(number, part) for number, part in enumerate(parts) if part.channel.split(".")[0] == channel]
            if own:
                writers.append((meeting.order.index((branch, own[-1][0])), branch, own))
        for _, branch, own in sorted(writers):
            for number, part in own:
                _write(state, meeting, branch, number, part)
    return state


def _write(state, meeting, branch, number, part):
    name = meeting.name(branch, number)
    if part.kind == "write":
        state.update(meeting.writes()[name])
        return
    if part.kind == "embed":
        value = [f"s{branch}-one", f"s{branch}-two"]
    else:
        value = [f"s{branch}-i{number}" for number in range(part.width)]
    holder, key = (state, part.channel) if "." not in part.channel else (state["deep"], part.channel.split(".")[1])
    holder[key] = [*holder.get(key, []), *value] if part.kind == "scatter" else value


@st.composite
def meetings(draw):
    channels = {
        "write": st.sampled_from(["list", "deep"]),
        "embed": st.sampled_from(["list", "deep.a", "deep.b"]),
        "scatter": st.sampled_from(["list", "deep.a", "deep.b"]),
    }
    part = st.sampled_from(["write", "embed", "scatter"]).flatmap(
        lambda kind: st.builds(Part, st.just(kind), channels[kind], st.integers(0, 3))
    )
    branches = draw(st.lists(st.lists(part, min_size=1, max_size=3), min_size=1, max_size=3))
    places = [(branch, number) for branch, parts in enumerate(branches) for number in range(len(parts))]
    return Meeting(branches, draw(st.permutations(places)), draw(st.booleans()))


def keys(meeting: Meeting) -> list[str]:
    """Everything that runs, by the key its World knows it under."""
    found = []
    for branch, number in meeting.order:
        part, name = meeting.branches[branch][number], meeting.name(branch, number)
        if part.kind == "write":
            found.append(name)
        elif part.kind == "embed":
            found += [f"{name}.one", f"{name}.two"]
        else:
            found += [f"{name}.{index}" for index in range(part.width)]
    return found
