"""The id of a causal node: a hash of what it says and what caused it, never of when or where it was written.

An id is `cw_` and the first 24 hexadecimal characters (96 bits) of the SHA-256 of the RFC 8785 form of
`{kind, parents, payload, resourceKey?}`, with parents deduplicated and sorted, and no `resourceKey` where
there is none.
"""

from collections.abc import Iterable
from hashlib import sha256
from typing import Literal, cast, get_args

import orjson

from causeline.causal.canonical import InvalidValue, canonical

Kind = Literal[
    "system", "goal", "inference", "semantic", "tool_call", "tool_result", "resource", "verification", "answer", "protocol_error"
]
KINDS: frozenset[str] = frozenset(cast("tuple[str, ...]", get_args(Kind)))


def identity(kind: str, payload: object, parents: Iterable[str] = (), resource_key: str | None = None) -> str:
    """The id of the node with this content. Raises InvalidValue for what cannot be written."""
    check_kind(kind)
    check_key(resource_key)
    if isinstance(parents, str) or not isinstance(cast("object", parents), Iterable):
        raise InvalidValue("parents", f"is a {type(parents).__name__}; give a list of node ids")
    ordered: tuple[str, ...] = tuple(sorted(set(parents)))
    for parent in ordered:
        if type(parent) is not str:
            raise InvalidValue("parents", "a parent is not a str; give node ids")
    return node_id(kind, ordered, canonical(payload), resource_key)


def node_id(kind: str, parents: tuple[str, ...], payload_bytes: bytes, resource_key: str | None) -> str:
    """The id from parts that are already checked: parents sorted and unique, payload in canonical bytes.

    The four keys are in RFC 8785 order, so the hashed text is put together without writing the payload again.
    """
    text = sha256(b'{"kind":"%b","parents":%b,"payload":' % (kind.encode(), orjson.dumps(parents)))
    text.update(payload_bytes)
    text.update(b"}" if resource_key is None else b',"resourceKey":%b}' % orjson.dumps(resource_key))
    return "cw_" + text.hexdigest()[:24]


def check_kind(kind: object) -> None:
    """Raise InvalidValue unless `kind` is one of the ten words."""
    if type(kind) is not str or kind not in KINDS:
        raise InvalidValue("kind", f"{ascii(kind)[:60]} is none of: {', '.join(sorted(KINDS))}")


def check_key(resource_key: object) -> None:
    """Raise InvalidValue unless `resource_key` is None or a non-empty str that UTF-8 can hold."""
    if resource_key is None:
        return
    if type(resource_key) is not str or not resource_key:
        raise InvalidValue("resource_key", "must be a non-empty str or None")
    try:
        resource_key.encode()
    except UnicodeEncodeError:
        raise InvalidValue("resource_key", "holds a lone surrogate") from None
