"""Words of a text for lexical ranking, in any script.

Law: the same text gives the same terms. A term is a run of at least three word characters, dots, slashes
and hyphens, case folded, without punctuation at its ends. Scripts that put no spaces between words give
their pairs of neighbouring characters instead.
"""

import re
from typing import Any, cast

MAX_TEXT = 64_000
"""Characters of one payload that are looked at."""
MAX_TERMS = 1_000
"""Different terms kept of one payload."""

_RUN = re.compile(r"[\w./-]+")
UNSPACED = re.compile("[\u0e00-\u0eff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]+")
STOP = frozenset(
    {
        "about",
        "all",
        "and",
        "any",
        "are",
        "been",
        "being",
        "but",
        "can",
        "could",
        "did",
        "does",
        "for",
        "from",
        "had",
        "has",
        "have",
        "her",
        "his",
        "how",
        "into",
        "its",
        "just",
        "not",
        "our",
        "out",
        "please",
        "she",
        "should",
        "tell",
        "than",
        "that",
        "the",
        "their",
        "them",
        "then",
        "there",
        "these",
        "they",
        "this",
        "those",
        "was",
        "were",
        "what",
        "when",
        "where",
        "which",
        "who",
        "why",
        "will",
        "with",
        "would",
        "you",
        "your",
    }
)


def terms(text: str, limit: int = MAX_TERMS) -> set[str]:
    """The terms of `text`, at most `limit` of them, the first ones first."""
    found: dict[str, None] = {}
    for run in _RUN.findall(text.casefold()):
        if len(found) >= limit:
            break
        for unspaced in () if run.isascii() else UNSPACED.findall(run):
            found.update(dict.fromkeys(unspaced[at : at + 2] for at in range(len(unspaced) - 1)))
        word = run.strip("./-")
        if len(word) >= 3:
            found[word] = None
    return set(list(found)[:limit])


def query_terms(*texts: str) -> frozenset[str]:
    """The terms of what is asked, without words that say nothing."""
    return frozenset[str]().union(*(terms(text) for text in texts)) - STOP


def text_of(value: Any) -> str:
    """The words of a JSON value: its strings and numbers in reading order, at most MAX_TEXT characters. Keys are left out."""
    found: list[str] = []
    room = MAX_TEXT
    todo: list[Any] = [value]
    while todo and room > 0:
        member = todo.pop()
        if isinstance(member, dict | list):
            inner = cast("dict[str, Any] | list[Any]", member)
            todo.extend(reversed(list(inner.values() if isinstance(inner, dict) else inner)))
        elif isinstance(member, str):
            found.append(member[:room])
            room -= len(member)
        elif isinstance(member, float) or (isinstance(member, int) and abs(member) < 10**18):
            found.append(str(member))
            room -= len(found[-1])
    return "\n".join(found)
