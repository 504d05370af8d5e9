"""Words of memories and of questions, and how well they fit.

Law: pure. The same text gives the same words on every backend, and a score depends on nothing but what the asker may see.
A word is a run of letters and digits in lower case, without the endings of English plurals and verbs; scripts that put no spaces
between words give their pairs of neighbouring characters.
"""

import math
import re
import unicodedata
from collections.abc import Mapping, Sequence

from causeline.causal.view.words import STOP, UNSPACED

MAX_WORDS = 4_000
"""Words of one memory that are kept for searching."""
MAX_QUERY_WORDS = 32
MAX_LETTERS = 64

_RUN = re.compile(r"[^\W_]+")
_MORE_STOP = (
    "a", "an", "as", "at", "be", "by", "do", "go", "he", "i", "if", "in", "is", "it", "me", "my", "no", "of", "on", "or", "so", "to",
    "up", "us", "we", "am", "oh", "ok", "im", "hi", "s", "t", "d", "m", "re", "ve", "ll", "also", "please", "some", "such", "only", "own",
    "same", "too", "very", "more", "most", "other", "each", "few", "both", "because", "while", "until", "again", "once", "here", "after",
    "before", "during", "between", "like",
)  # fmt: skip
_SATURATION, _LENGTH = 1.2, 0.75


def words(text: str) -> list[str]:
    """The words of a text in their order, at most MAX_WORDS."""
    found: list[str] = []
    for run in _RUN.findall(unicodedata.normalize("NFKC", text).casefold()):
        if len(found) >= MAX_WORDS:
            break
        unspaced = () if run.isascii() else UNSPACED.findall(run)
        for piece in unspaced:
            found.extend(piece[at : at + 2] for at in range(max(len(piece) - 1, 1)))
        if not unspaced:
            found.append(_stem(run[:MAX_LETTERS]))
    return found[:MAX_WORDS]


def query_words(text: str) -> list[str]:
    """The different words of a question without those that say nothing."""
    return [word for word in dict.fromkeys(words(text)) if word not in _SILENT][:MAX_QUERY_WORDS]


def length(found: Sequence[str]) -> int:
    """How long a text is, for its score: words that say nothing do not count."""
    return len(found) - sum(map(_SILENT.__contains__, found))


def _stem(word: str) -> str:
    """A word without its English ending, where enough of it is left."""
    if not word.isascii() or len(word) < 4 or not word.isalpha():
        return word
    for ending, instead, least in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= least:
            stem = word[: -len(ending)] + instead
            doubled = not instead and len(stem) > 3 and stem[-1] == stem[-2] and stem[-1] not in "lsz"
            return _without_e(stem[:-1] if doubled else stem)
    return _without_e(word)


_ENDINGS = (
    ("sses", "ss", 2), ("ies", "y", 2), ("ss", "ss", 0), ("us", "us", 0), ("es", "", 3), ("s", "", 2), ("ing", "", 3), ("ied", "y", 2),
    ("ed", "", 3), ("ly", "", 3),
)  # fmt: skip


def _without_e(stem: str) -> str:
    return stem[:-1] if len(stem) > 3 and stem.endswith("e") else stem


_SILENT = frozenset({*STOP, *_MORE_STOP, *map(_stem, STOP), *map(_stem, _MORE_STOP)})


def weights(query: Sequence[str], frequencies: Mapping[str, int], items: int) -> dict[str, float]:
    """How much each word of a question says: rare words say more. `frequencies` are the numbers of items with a word."""
    return {word: math.log(1 + (max(items, n) - n + 0.5) / (n + 0.5)) for word in query for n in (frequencies.get(word, 0),)}


def score(weight: Mapping[str, float], found: Sequence[str], usual: float) -> float:
    """BM25 of one text, by its words, as a share of the best there can be: 0 where no word fits, below 1. `usual` is the length that a
    text has on average."""
    best = sum(weight.values())
    if not best:
        return 0.0
    room = _SATURATION * (1 - _LENGTH + _LENGTH * length(found) / max(usual, 1.0))
    total = 0.0
    for word, worth in weight.items():
        count = found.count(word)
        if count:
            total += worth * count / (count + room)
    return total / best
