"""Text from outside, made safe and short for a line that somebody reads.

Law: nothing a model, a tool or a file says can move the cursor, colour the screen, hide itself or turn the
reading direction. Escape sequences are taken out whole; what is left of a broken one is plain letters.
"""

import json
import re
from collections.abc import Mapping
from typing import Any

STRING = r"(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x90\x98\x9c-\x9f]*"  # a window title, a link
CONTROL = r"(?:\x1b\[|\x9b)[0-?]*[ -/]*"  # a colour, a move of the cursor
_SEQUENCE = re.compile(rf"{CONTROL}[@-~]|{STRING}(?:\x07|\x1b\\|\x9c)|\x1b[ -/]*[0-OQ-WYZ\\`-~]")

_CONTROLS = (*range(0x20), *range(0x7F, 0xA0))
_UNSEEN = (0x061C, 0x180E, 0x200B, 0x2060, 0xFEFF, *range(0xFFF9, 0xFFFC), 0xFFFE, 0xFFFF, *range(0xE0000, 0xE0080))
_TURNING = (0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A))
VISIBLE: Mapping[int, str | None] = {
    **dict.fromkeys((*_CONTROLS, *_UNSEEN, *_TURNING)),
    0x0A: "\n",
    0x09: "\t",
    0x2028: "\n",
    0x2029: "\n",
    **dict.fromkeys(range(0xD800, 0xE000), "\N{REPLACEMENT CHARACTER}"),
}


def clean(text: str) -> str:
    """The text without escape sequences, control and invisible characters. Line breaks and tabs stay."""
    return _SEQUENCE.sub("", text).translate(VISIBLE)


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


def counted(number: int, noun: str) -> str:
    """`1 piece`, `2 pieces`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
