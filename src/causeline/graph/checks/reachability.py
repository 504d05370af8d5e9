"""Where a document can lead: its routes as numbers, what is reachable, its loops.

Law: pure and linear in placements and routes. A route to a placement that does not exist is followed to the one most
likely meant, so that one slip does not look like many.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from functools import cached_property

from causeline.graph.documents.document import Document, Phase, Placement, Terminal, outputs_of

_GUESSES = 20
"""For how many wrong targets a better one is looked for; a document with more has other troubles."""


class RouteMap:
    """`routes[i]` is port -> number; `entries` label -> number; `dangling` missing IRI -> [(number, port)];
    `open_ended` are placements of which not all routes are known."""

    def __init__(self, document: Document) -> None:
        self.document = document
        self.ids = tuple(document.placements)
        self.placements: tuple[Placement, ...] = tuple(document.placements.values())
        self.index: Mapping[str, int] = {iri: number for number, iri in enumerate(self.ids)}
        self.dangling: dict[str, list[tuple[int, str]]] = {}
        self.routes: list[dict[str, int]] = [{} for _ in self.ids]
        self.open_ended: set[int] = set()
        self._guesses: dict[str, str | None] = {}
        self._renamed = {
            one.name: self.index[one.id] for placement in document.shadowed for one in (document.placements[placement.id], placement)
        }
        for placement in (*self.placements, *document.shadowed):
            self._add_routes(self.index[placement.id], outputs_of(placement))
        self.entries = {label: number for label, iri in document.entrypoints.items() if (number := self.number(iri)) is not None}
        for iri in document.entrypoints.values():
            if self.number(iri) is None and (guess := self.meant(iri)) is not None:
                self.entries.setdefault(f"?{iri}", self.index[guess])
        self._note_unreadable()

    def _add_routes(self, number: int, outputs: Mapping[str, str]) -> None:
        for port, iri in outputs.items():
            target = self.number(iri)
            if target is None:
                self.dangling.setdefault(iri, []).append((number, port))
                self.open_ended.add(number)
                guess = self.meant(iri)
                target = None if guess is None else self.index[guess]
            if target is not None:
                self.routes[number].setdefault(port if port not in self.routes[number] else f"{port} of its double", target)

    def _note_unreadable(self) -> None:
        for problem in self.document.problems:
            number = self.index.get(problem.placement or "")
            if number is not None and ".outputs" in problem.path and problem.code in ("missing_field", "wrong_type", "bad_value"):
                self.open_ended.add(number)

    def number(self, iri: str) -> int | None:
        """The placement of an IRI. One whose name is the last part, but whose own IRI another one has, counts with that one."""
        return self.index.get(iri, self._renamed.get(iri[_cut(iri) :]) if self._renamed else None)

    def meant(self, iri: str) -> str | None:
        """The placement an IRI that leads nowhere was most likely meant to be: the same up to a slip in the last part, else the one
        whose name that part is."""
        if iri not in self._guesses and len(self._guesses) >= _GUESSES:
            return None
        if iri not in self._guesses:
            near = [(_likeness(iri, known), known) for known in self.ids]
            best = max(near, default=(0.0, None))
            self._guesses[iri] = best[1] if best[0] >= 0.75 else self._by_name.get(iri[_cut(iri) :])
        return self._guesses[iri]

    @cached_property
    def _by_name(self) -> Mapping[str, str]:
        return {placement.name: placement.id for placement in self.placements}

    @cached_property
    def inbound(self) -> Mapping[int, list[int]]:
        """Who leads to a placement, in declared order."""
        found: dict[int, list[int]] = {}
        for number, routes in enumerate(self.routes):
            for target in dict.fromkeys(routes.values()):
                found.setdefault(target, []).append(number)
        return found

    def reach(self, starts: Iterable[int], without: int | None = None) -> set[int]:
        """Everything that can be reached from `starts`; `without` is reached but not passed."""
        seen = set(starts)
        todo = [number for number in seen if number != without]
        while todo:
            for target in self.routes[todo.pop()].values():
                if target not in seen:
                    seen.add(target)
                    if target != without:
                        todo.append(target)
        return seen

    def components(self, among: set[int]) -> list[list[int]]:
        """Strongly connected components of a part of the document, in declared order (Tarjan 1972, without recursion)."""
        found = list(_tarjan(sorted(among), {number: [one for one in self.routes[number].values() if one in among] for number in among}))
        return sorted(sorted(component) for component in found)

    def is_loop(self, component: Sequence[int]) -> bool:
        return len(component) > 1 or component[0] in self.routes[component[0]].values()

    def unreachable_roots(self) -> list[list[int]]:
        """Groups of placements nothing leads to; those that only follow from such a group are not named again."""
        cut_off = {number for number in range(len(self.ids)) if not isinstance(self.placements[number], Phase)} - self.reach(
            self.entries.values()
        )
        components = self.components(cut_off)
        home = {number: place for place, component in enumerate(components) for number in component}
        entered = {
            home[target] for number in cut_off for target in self.routes[number].values() if target in home and home[target] != home[number]
        }
        return [component for place, component in enumerate(components) if place not in entered]

    def terminals(self) -> set[int]:
        return {number for number, placement in enumerate(self.placements) if isinstance(placement, Terminal)}


def _likeness(iri: str, known: str) -> float:
    """How alike the last parts are, if all before them is equal; 0.0 otherwise."""
    cut = _cut(known)
    if not iri.startswith(known[:cut]) or len(iri) - cut > 100:
        return 0.0
    matcher = SequenceMatcher(None, iri[cut:], known[cut:])
    return matcher.ratio() if matcher.real_quick_ratio() >= 0.75 else 0.0


def _cut(iri: str) -> int:
    """Where the last part begins."""
    return max(iri.rfind("/"), iri.rfind(":"), iri.rfind("#")) + 1


def _tarjan(numbers: Iterable[int], edges: Mapping[int, Sequence[int]]) -> Iterator[list[int]]:
    order: dict[int, int] = {}
    low: dict[int, int] = {}
    stack: list[int] = []
    on_stack: set[int] = set()
    for root in numbers:
        work: list[tuple[int, Iterator[int]]] = [] if root in order else [(root, iter(edges[root]))]
        while work:
            number, targets = work[-1]
            if number not in order:
                order[number] = low[number] = len(order)
                stack.append(number)
                on_stack.add(number)
            target = next(targets, None)
            if target is None:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[number])
                if low[number] == order[number]:
                    component = [stack.pop()]
                    while component[-1] != number:
                        component.append(stack.pop())
                    on_stack.difference_update(component)
                    yield component
            elif target not in order:
                work.append((target, iter(edges[target])))
            elif target in on_stack:
                low[number] = min(low[number], order[target])
