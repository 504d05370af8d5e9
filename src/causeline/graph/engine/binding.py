"""A bound document: a plan whose placements are bound to the nodes, strategies and reducers registered here.

Law: pure and immutable; binding looks everything up once, so that a visit looks nothing up by name.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from causeline.graph.documents.document import DagBody, DagReference, Embedded, Gather, NodeBody, Phase, Placement, Scatter, Single
from causeline.graph.engine.channels import Reducer
from causeline.graph.engine.gather import STRATEGIES, GatherStrategy
from causeline.graph.engine.plan import Plan
from causeline.graph.engine.scatter import OUTCOMES, Feed, OutcomeReducer
from causeline.graph.node import Node
from causeline.policy import RetryPolicy


@dataclass(frozen=True, slots=True)
class Site:
    """One placement, bound. `node` is what runs here (a gather's custom node, a scatter's body); `dag` the child document or a reference to
    it."""

    number: int
    placement: Placement
    name: str
    routes: Mapping[str, int]
    node: Node | None = None
    dag: str | DagReference | None = None
    timeout: float | None = None
    retry: RetryPolicy | None = None
    strategy: GatherStrategy | None = None
    outcome: OutcomeReducer | None = None
    feeds: tuple[Feed, ...] = ()
    roles: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class BoundDocument:
    """A plan with its sites by number, and the reducers of its channels. `ordered` are the channels that do not override; `entry_feeds`
    are the gathers entrypoints lead straight into; `forks` is True if there are several entrypoints."""

    plan: Plan
    sites: tuple[Site, ...]
    reducers: Mapping[str, Reducer]
    ordered: frozenset[str]
    entry_feeds: Mapping[str, tuple[Feed, ...]]
    forks: bool


def bind(
    plan: Plan,
    nodes: Mapping[str, Node],
    reducers: Mapping[str, Reducer],
    strategies: Mapping[str, GatherStrategy],
    outcomes: Mapping[str, OutcomeReducer],
) -> BoundDocument:
    """Bind a checked plan; every node, strategy and reducer it names is there."""
    known = {**STRATEGIES, **strategies}
    sites = tuple(
        _site(plan, number, placement, nodes, known, {**OUTCOMES, **outcomes}) for number, placement in enumerate(plan.placements)
    )
    return BoundDocument(
        plan,
        sites,
        reducers,
        frozenset(channel for channel, one in reducers.items() if one.name != "override"),
        {label: _feeds(plan, feeds, known) for label, feeds in plan.entry_feeds.items()},
        len(plan.entries) > 1,
    )


def _feeds(plan: Plan, feeds: Mapping[int, int], strategies: Mapping[str, GatherStrategy], own: str | None = None) -> tuple[Feed, ...]:
    """`own` is the result field the producer itself declares."""
    found: list[Feed] = []
    for number, source in feeds.items():
        gather = plan.placements[number]
        assert isinstance(gather, Gather)
        found.append(
            Feed(
                number,
                gather,
                strategies[gather.strategy],
                plan.inputs[number][source] or own or gather.result_field,
                len(plan.sources[number]) == 1,
            )
        )
    return tuple(found)


def _site(
    plan: Plan,
    number: int,
    placement: Placement,
    nodes: Mapping[str, Node],
    strategies: Mapping[str, GatherStrategy],
    outcomes: Mapping[str, OutcomeReducer],
) -> Site:
    rest: dict[str, Any] = {}
    node: Node | None = None
    if isinstance(placement, Single | Phase):
        node = nodes[placement.node]
    if isinstance(placement, Single):
        rest = {"timeout": placement.timeout, "retry": placement.retry}
    elif isinstance(placement, Embedded):
        rest = {"dag": placement.dag}
    elif isinstance(placement, Gather):
        node = nodes[placement.custom_node] if placement.custom_node is not None else None
        rest = {"strategy": strategies[placement.strategy]}
    elif isinstance(placement, Scatter):
        node = nodes[placement.body.node] if isinstance(placement.body, NodeBody) else None
        rest = {
            "dag": placement.body.dag if isinstance(placement.body, DagBody) else None,
            "retry": placement.retry,
            "outcome": outcomes[placement.reducer],
        }
    timeout = rest.pop("timeout", None) or (None if node is None else node.timeout)
    return Site(
        number,
        placement,
        placement.name,
        plan.routes[number],
        node=node,
        timeout=timeout,
        roles=(role,) if (role := getattr(placement, "role", None)) else () if node is None else node.roles,
        feeds=_feeds(plan, plan.feeds[number], strategies, placement.result_field if isinstance(placement, Embedded) else None),
        **rest,
    )
