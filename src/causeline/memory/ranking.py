"""The best answers out of what a backend found: words and vectors, fused by reciprocal rank, above a floor.

Law: pure. Without vectors the order is that of the scores.
"""

from collections.abc import Sequence
from dataclasses import replace
from heapq import nsmallest

from causeline.memory.backend import Findings, FoundItem, Question
from causeline.memory.items import Item
from causeline.memory.lexical import score, weights
from causeline.memory.vectors import likeness

_FUSION = 60
"""How much less the second place counts than the first; the usual constant of reciprocal rank fusion."""
_LOOKED_AT, _LEAST = 4, 50
"""Of words and of vectors so many times the items that are wanted are fused, and so many at least."""
Place = tuple[tuple[str, ...], str]
Ordered = dict[Place, tuple[Item, float]]


def ranked(question: Question, findings: Findings, k: int, floor: float) -> list[Item]:
    """At most `k` items with a score of `floor` or more, best first. The score is the better one of words and vector."""
    if not question.words and question.vector is None:
        return [row.item for row in findings.lexical[:k]]
    most = max(_LOOKED_AT * k, _LEAST)
    by_words, by_vector = _by_words(question, findings, most), _by_vector(question, findings, most)
    places: dict[Place, float] = {}
    for ordered in (by_words, by_vector):
        for rank, place in enumerate(ordered):
            places[place] = places.get(place, 0.0) + 1 / (_FUSION + 1 + rank)
    scores = {place: max(by_words.get(place, (None, 0.0))[1], by_vector.get(place, (None, 0.0))[1]) for place in places}
    fitting = [place for place in places if scores[place] >= floor and scores[place] > 0]
    best = nsmallest(k, fitting, key=lambda place: (-places[place], -scores[place]))
    return [replace((by_words.get(place) or by_vector[place])[0], score=round(scores[place], 6)) for place in best]


def _by_words(question: Question, findings: Findings, most: int) -> Ordered:
    weight = weights(question.words, findings.frequencies, findings.items)
    usual = findings.words / findings.items if findings.items else 1.0
    scored = [(row, score(weight, row.words, usual)) for row in findings.lexical] if weight else []
    return _ordered(scored, most)


def _by_vector(question: Question, findings: Findings, most: int) -> Ordered:
    wanted = question.vector
    if wanted is None:
        return {}
    return _ordered([(row, likeness(wanted, row.vector or b"")) for row in findings.nearest], most)


def _ordered(scored: Sequence[tuple[FoundItem, float]], most: int) -> Ordered:
    """The best of those that fit at all, by their places. Only these are read."""
    best = nsmallest(most, [pair for pair in scored if pair[1] > 0], key=lambda pair: -pair[1])
    return {(row.item.namespace, row.item.key): (row.item, value) for row, value in best}
