"""A bounded view of a log for one model call.

Law: the view is a function of the log, the query, the budget and the ranking, and of nothing else. It fits the
budget or it is refused; the latest system text and the latest goal are never cut. Sizes are in tokens,
estimated as a quarter of the characters.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, cast

from causeline.causal.state import AgentState
from causeline.causal.view.catalog import Catalog, catalog_of
from causeline.causal.view.digest import digest_text
from causeline.causal.view.rendering import OVERHEAD, Item, items_of, message, size_of
from causeline.causal.view.selection import Rank, Selection, select
from causeline.errors import Exhausted, Invalid

_LIMITS = (64_000, 12_000, 6_000, 3_000, 1_500, 800, 400)
_FEW = 4


class ViewTooLarge(Exhausted):
    """What a view must show does not fit its budget."""

    code = "context_tokens"


@dataclass(frozen=True, slots=True)
class View:
    """What to show a model.

    `messages` is complete: the latest system text where the log has one, then a system message with the digest,
    then the chosen history in log order, as message objects `{id, role, content, tool_calls, tool_call_id,
    is_error}`; every call shown is followed by its result. `digest` is the text of that second message:
    counts, current resources, and the chosen memories, resources and other entries that are no chat
    messages. `ids` are the ids of all nodes shown, in log order: the read set of the reply.
    """

    messages: tuple[dict[str, Any], ...]
    ids: tuple[str, ...]
    digest: str


def project(state: AgentState, query: str, budget: int, *, rank: Rank | None = None) -> View:
    """The view of `state` for a question, at most `budget` tokens. Raises ViewTooLarge where the mandatory part is larger.

    `rank` replaces the lexical relevance; it is given every candidate node, so it costs the length of the log.
    """
    if not isinstance(cast("object", state), AgentState):
        raise Invalid(f"state: expected an AgentState, got {state!r:.80}")
    if type(budget) is not int or budget < 1:
        raise Invalid(f"budget: expected a number of tokens from 1 on, got {budget!r:.80}")
    catalog = catalog_of(state)
    found = select(state, catalog, query, rank)
    items = items_of(state, catalog, found.chosen, found.required)
    _mark(items, found)
    room = budget * 4
    for item in items:
        item.cap = min(item.cap, max(_LIMITS[-1], budget))  # no text but a whole one takes more than a quarter
    limit = _fit(items, room - len(digest_text(state, catalog, ["-"], budget)) - OVERHEAD)
    view = _view(state, catalog, items, limit, budget)
    if tokens(view.messages) > budget:
        view = _view(state, catalog, items, limit, 0)
    if tokens(view.messages) > budget:
        raise ViewTooLarge(
            f"the latest system text, the latest goal and the heads of the log take {tokens(view.messages)} tokens; "
            f"the budget is {budget}: raise context_tokens, or shorten the system text",
            limit="context_tokens",
        )
    return view


def tokens(messages: Iterable[dict[str, Any]]) -> int:
    """The estimate a view is held to: characters divided by four, rounded up."""
    return -(-sum(map(size_of, messages)) // 4)


def _mark(items: list[Item], found: Selection) -> None:
    """Say which items match the question, best first."""
    for rank, place in enumerate(found.protected):
        for item in items:
            if item.rank is None and place in item.places:
                item.rank = rank


def _fit(items: list[Item], room: int) -> int:
    """Drop and shorten until the items take at most `room` characters, or nothing more can be given up.

    First the earliest items that do not match the question go, then texts get shorter, then the rest of
    those go, and at last what matches the question, the worst match first. Returns the limit of one text.
    """
    limit = _LIMITS[0]
    size = _drop(items, _unmatched(items), room, limit, keep=_FEW)
    for limit in _LIMITS:
        size = sum(item.size(limit) for item in items)
        if size <= room:
            return limit
    size = _drop(items, _unmatched(items), room, limit, keep=0)
    if size > room:
        matched = [item for item in items if not item.fixed and item.rank is not None]
        _drop(items, sorted(matched, key=lambda item: -(item.rank or 0)), room, limit, keep=0)
    return limit


def _unmatched(items: list[Item]) -> list[Item]:
    return [item for item in items if not item.fixed and item.rank is None]


def _drop(items: list[Item], candidates: list[Item], room: int, limit: int, *, keep: int) -> int:
    """Take candidates out of `items` in their order while the items are too large; returns what is left in characters."""
    sizes = {id(item): item.size(limit) for item in items}
    size = sum(sizes.values())
    for item in candidates:
        if size <= room or len(items) <= keep:
            break
        items.remove(item)
        size -= sizes[id(item)]
    return size


def _view(state: AgentState, catalog: Catalog, items: list[Item], limit: int, overview: int) -> View:
    digest = digest_text(state, catalog, [note for item in items if (note := item.note(limit))], overview)
    lead = [one for item in items if item.kind == "system" for one in item.messages(limit)]
    rest = [one for item in items if item.kind != "system" for one in item.messages(limit)]
    places = sorted(place for item in items for place in item.places)
    return View((*lead, message("", "system", digest), *rest), tuple(state.nodes[place].id for place in places), digest)
