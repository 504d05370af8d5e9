"""Text that can be written as UTF-8.

Law: pure. `mend` returns the same object for text that is already right, joins the two halves of a
character that arrived apart, and replaces what stays alone by U+FFFD, so that a stored text, its hash
and its wire form agree.
"""

from typing import Any, cast

_HIGH = range(0xD800, 0xDC00)


def is_clean(text: str) -> bool:
    """Whether `text` has no surrogates, so that it has a UTF-8 form."""
    if text.isascii():
        return True
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def mend(text: str) -> str:
    """`text` with paired surrogates joined and lone ones replaced by U+FFFD."""
    if text.isascii() or is_clean(text):
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def mend_value(value: Any) -> Any:
    """The JSON value with every text in it mended, keys too."""
    if isinstance(value, str):
        return mend(value)
    if isinstance(value, dict):
        return {mend(key): mend_value(item) for key, item in cast(dict[str, Any], value).items()}
    if isinstance(value, list | tuple):
        return [mend_value(item) for item in cast(list[Any], value)]
    return value


class Mender:
    """Mends a text that arrives in pieces: a first half at the end of a piece waits for the next one."""

    __slots__ = ("_held",)

    def __init__(self) -> None:
        self._held = ""

    def feed(self, piece: str) -> str:
        """What can be passed on now, perhaps ""."""
        if not self._held and (piece.isascii() or is_clean(piece)):
            return piece
        piece, self._held = self._held + piece, ""
        if piece and ord(piece[-1]) in _HIGH:
            piece, self._held = piece[:-1], piece[-1]
        return mend(piece)

    def end(self) -> str:
        """The half still waiting, mended; nothing follows it."""
        held, self._held = self._held, ""
        return mend(held) if held else ""
