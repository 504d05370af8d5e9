"""How much of a result a model is shown, and how much the log keeps.

Law: a cut is always visible, and says where the rest is.
"""

KEPT_BYTES = 10 * 1024 * 1024
"""The largest result the log keeps whole, in bytes of its text."""


def shorten(text: str, max_chars: int, node_id: str) -> str:
    """`text` if it has at most `max_chars` characters; else its beginning and a marker naming the node that holds all of it.

    The result has `max_chars` characters, or is the marker alone where that is longer.
    """
    if len(text) <= max_chars:
        return text
    marker = f"\n[cut: the result has {len(text)} characters; node {node_id} holds all of it]"
    return text[: max(0, max_chars - len(marker))] + marker


def bound(text: str, limit: int = KEPT_BYTES) -> str | None:
    """None if `text` has at most `limit` bytes in UTF-8; else its beginning with a marker, within the limit.

    What is cut here is lost, so the marker says how much there was.
    """
    if len(text) * 4 <= limit:
        return None
    data = text.encode()
    if len(data) <= limit:
        return None
    marker = f"\n[cut: the result had {len(data)} bytes; the log keeps {limit}]"
    return data[: limit - len(marker.encode())].decode(errors="ignore") + marker
