"""Text from outside on a terminal: in pieces, for somebody who has to judge it, and for other programs.

Law: nothing a model, a tool or a file says can move the cursor, colour the screen, hide itself or turn the
reading direction. Escape sequences are taken out whole; what is left of a broken one is plain letters.
"""

import json
import re
import shlex
from typing import Any, cast

from causeline.plain_text import CONTROL, STRING, VISIBLE, clean, one_line, short, shown

__all__ = ["Cleaner", "clean", "command", "exact", "fields", "line", "one_line", "short", "shown"]

_UNFINISHED = re.compile(rf"(?:{STRING}\x1b?|{CONTROL}|\x1b[ -/]*)\Z")
_HELD = 256
"""The most that waits for the rest of a sequence; a longer one is not going to end."""
_ESCAPED = {code: f"\\u{code:04x}" for code in VISIBLE if code != 0x0A}


class Cleaner:
    """`clean` for a text that comes in pieces: a sequence cut in two is still taken out whole."""

    def __init__(self) -> None:
        self._held = ""

    def feed(self, piece: str) -> str:
        """What of the text so far can be shown now."""
        text = self._held + piece
        unfinished = _UNFINISHED.search(text[-_HELD:])
        start = len(text) - len(unfinished[0]) if unfinished else len(text)
        self._held = text[start:]
        return clean(text[:start])

    def rest(self) -> str:
        """The end of the text."""
        text, self._held = self._held, ""
        return clean(text)


def exact(text: str) -> str:
    """The text for somebody who has to judge it: what `clean` would take out is written as an escape instead. Line breaks stay."""
    return text.translate(_ESCAPED)


def fields(value: Any, most: int = 2000) -> list[str]:
    """A JSON value for somebody who has to judge it: a line for each field of an object, further lines of a text set in.

    Nothing is hidden but length, which is said: `most` characters a line, `most` / 20 lines a field.
    """
    if not isinstance(value, dict) or not value:
        return _field("", value, most)
    return [row for key, item in cast("dict[str, Any]", value).items() for row in _field(f"{' '.join(exact(key).split())}: ", item, most)]


def _field(label: str, value: Any, most: int) -> list[str]:
    first, *more = exact(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)).split("\n")
    left_out = len(more) - most // 20
    rows = [label + short(first, most), *(f"  {short(row, most)}" for row in more[: most // 20])]
    return rows if left_out <= 0 else [*rows, f"  ... ({left_out:,} more lines)"]


def line(value: Any) -> str:
    """A value as one line of JSON for another program: ASCII, so that no terminal and no encoding can spoil it."""
    return json.dumps(value, separators=(",", ":"), default=str)


def command(*words: str) -> str:
    """A command line to copy, quoted for the shell."""
    return shlex.join(["causeline", *words])
