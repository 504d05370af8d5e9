"""The best answers out of what a backend found: words and vectors, fused by reciprocal rank, above a floor.

Law: pure. Without vectors the order is that of the scores.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from causeline.memory.backend import Findings, Question
from causeline.memory.items import Item, StoredItem
from causeline.memory.lexical import length, score, weights
from causeline.memory.vectors import likeness

_FUSION = 60
"""How much less the second place counts than the first; the usual constant of reciprocal rank fusion."""
Place = tuple[tuple[str, ...], str]


def ranked(question: Question, findings: Findings, k: int, floor: float) -> list[Item]:
    """At most `k` items with a score of `floor` or more, best first. The score is the better one of words and vector."""
    if not question.words and question.vector is None:
        return [row.item for row in findings.lexical[:k]]
    by_words = _by_words(question, findings)
    by_vector = _by_vector(question, findings)
    places: dict[Place, float] = {}
    for ordered in (by_words, by_vector):
        for rank, place in enumerate(ordered):
            places[place] = places.get(place, 0.0) + 1 / (_FUSION + 1 + rank)
    scores = {place: max(by_words.get(place, (None, 0.0))[1], by_vector.get(place, (None, 0.0))[1]) for place in places}
    found = [
        replace((by_words.get(place) or by_vector[place])[0], score=round(scores[place], 6))
        for place in sorted(places, key=lambda place: (-places[place], -scores[place]))
        if scores[place] >= floor and scores[place] > 0
    ]
    return found[:k]


def _by_words(question: Question, findings: Findings) -> dict[Place, tuple[Item, float]]:
    weight = weights(question.words, findings.frequencies, findings.items)
    usual = findings.words / findings.items if findings.items else 1.0
    scored = [(row.item, score(weight, Counter(row.words), length(row.words), usual)) for row in findings.lexical] if weight else []
    return _ordered([pair for pair in scored if pair[1] > 0])


def _by_vector(question: Question, findings: Findings) -> dict[Place, tuple[Item, float]]:
    wanted = question.vector
    if wanted is None:
        return {}
    return _ordered([(row.item, near) for row in findings.nearest if (near := likeness(wanted, _vector(row))) > 0])


def _vector(row: StoredItem) -> bytes:
    return row.vector or b""


def _ordered(scored: Sequence[tuple[Item, float]]) -> dict[Place, tuple[Item, float]]:
    best = sorted(scored, key=lambda pair: -pair[1])
    return {(item.namespace, item.key): (item, value) for item, value in best}
