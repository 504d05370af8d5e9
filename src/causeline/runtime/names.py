"""Names of sessions and runs: made at random, or chosen by the client and checked."""

import base64
import re
import secrets

from causeline.errors import Invalid

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,127}")


def new_name(prefix: str, now: float) -> str:
    """`prefix` and 24 base32 characters that sort by time: 48 bits of milliseconds, 72 random ones."""
    raw = int(now * 1000).to_bytes(6, "big") + secrets.token_bytes(9)
    return prefix + base64.b32hexencode(raw).decode().lower()


def checked_name(what: str, name: object) -> str:
    """The name if it may be one. Raises Invalid before anything is written."""
    if not isinstance(name, str) or not _NAME.fullmatch(name) or ".." in name:
        raise Invalid(f"{what} {name!r}: use 1 to 128 letters, digits and . _ : - , beginning with a letter or digit, without '..'")
    return name
