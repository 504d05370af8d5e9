"""Text from outside, made safe and short for a terminal.

Law: nothing a model, a tool or a file says can move the cursor, colour the screen, hide itself or turn the
reading direction. Escape sequences are taken out whole; what is left of a broken one is plain letters.
"""

import json
import re
import shlex
from collections.abc import Mapping
from typing import Any, cast

_STRING = r"(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x90\x98\x9c-\x9f]*"  # a window title, a link
_CONTROL = r"(?:\x1b\[|\x9b)[0-?]*[ -/]*"  # a colour, a move of the cursor
_SEQUENCE = re.compile(rf"{_CONTROL}[@-~]|{_STRING}(?:\x07|\x1b\\|\x9c)|\x1b[ -/]*[0-OQ-WYZ\\`-~]")
_UNFINISHED = re.compile(rf"(?:{_STRING}\x1b?|{_CONTROL}|\x1b[ -/]*)\Z")
_HELD = 256
"""The most that waits for the rest of a sequence; a longer one is not going to end."""

_CONTROLS = (*range(0x20), *range(0x7F, 0xA0))
_UNSEEN = (0x061C, 0x180E, 0x200B, 0x2060, 0xFEFF, *range(0xFFF9, 0xFFFC), *range(0xE0000, 0xE0080))
_TURNING = (0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A))
_VISIBLE: Mapping[int, str | None] = {
    **dict.fromkeys((*_CONTROLS, *_UNSEEN, *_TURNING)),
    0x0A: "\n",
    0x09: "\t",
    0x2028: "\n",
    0x2029: "\n",
    **dict.fromkeys(range(0xD800, 0xE000), "\N{REPLACEMENT CHARACTER}"),
}
_ESCAPED = {code: f"\\u{code:04x}" for code in _VISIBLE if code != 0x0A}


def clean(text: str) -> str:
    """The text without escape sequences, control and invisible characters. Line breaks and tabs stay."""
    return _SEQUENCE.sub("", text).translate(_VISIBLE)


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


def one_line(text: str) -> str:
    """The text on one line."""
    return " ".join(clean(text).split())


def short(text: str, most: int) -> str:
    """At most `most` characters; says how many are left out."""
    if len(text) <= most:
        return text
    return f"{text[:most].rstrip()} ... ({len(text) - most:,} more)"


def shown(value: Any, most: int = 200) -> str:
    """A JSON value on one short line; text as it is, anything else as JSON."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    return short(one_line(text), most)


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
