"""Names of sessions and runs: made at random, or chosen by the client and checked."""

import base64
import re
import secrets

from causeline.errors import Invalid

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,127}")


def new_name(prefix: str, now: float) -> str:
    """`prefix` and 24 base32 characters that sort by time: 48 bits of milliseconds, 72 random ones."""
    milliseconds = min(max(int(now * 1000), 0), 2**48 - 1)  # a clock may stand before 1970
    raw = milliseconds.to_bytes(6, "big") + secrets.token_bytes(9)
    return prefix + base64.b32hexencode(raw).decode().lower()


def checked_name(what: str, name: object) -> str:
    """The name if it may be one. Raises Invalid before anything is written."""
    if not isinstance(name, str):
        raise Invalid(f"{what} is of type {type(name).__name__}; it is a text")
    if not _NAME.fullmatch(name) or ".." in name:
        seen = ascii(name)[:150]
        raise Invalid(f"{what} {seen}: use 1 to 128 letters, digits and . _ : - , beginning with a letter or digit, without '..'")
    return str.__str__(name)  # what is hashed and stored has the exact type, also where the caller's is an enum of texts


def checked_owner(owner: object) -> str:
    """An owner: any text of 1 to 256 characters. Raises Invalid."""
    if not isinstance(owner, str) or not 0 < len(owner) <= 256:
        raise Invalid(f"an owner is a text of 1 to 256 characters, not {ascii(owner)[:80]}")
    return owner


def given_name(given: object) -> str:
    """A name that a caller asks for something by. A store takes none at all for "any"; that is never what a caller means."""
    return given if isinstance(given, str) else ""
