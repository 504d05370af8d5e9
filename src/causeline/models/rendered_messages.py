"""What each message was rendered to, kept for as long as the message lives.

Law: a Message never changes, so a rendering found under its identity is right; it goes away with the
message, so a reused address never finds an old one. A call on a history of a thousand messages renders
only the new ones.
"""

import weakref
from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

from causeline.models.messages import Message

T = TypeVar("T")


class Rendered(Generic[T]):
    """Applies `render` to messages, once each."""

    def __init__(self, render: Callable[[Message], T]) -> None:
        self._render = render
        self._kept: dict[int, tuple[weakref.ref[Message], T]] = {}

    def __call__(self, messages: Iterable[Message]) -> list[T]:
        kept = self._kept
        out: list[T] = []
        for message in messages:
            entry = kept.get(id(message))
            out.append(self._add(message) if entry is None else entry[1])
        return out

    def __len__(self) -> int:
        return len(self._kept)

    def _add(self, message: Message) -> T:
        key, kept = id(message), self._kept
        value = self._render(message)
        kept[key] = (weakref.ref(message, lambda _: kept.pop(key, None)), value)
        return value
