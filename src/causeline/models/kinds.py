"""The kinds of models there are, by the word before the colon, and which kind a name without one is.

Law: a name says one kind or is refused; nothing is guessed beyond the table here, which is documented. Opening a model is
the business of its kind, and so is refusing an option.
"""

import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, cast

from causeline.errors import Invalid, check_argument
from causeline.models.model import Model
from causeline.shapes import FUNCTION

OpenModel = Callable[..., Model]
BY_NAME: tuple[tuple[str, str], ...] = (("gpt-*", "openai"), ("o[1-9]*", "openai"), ("chatgpt-*", "openai"), ("claude-*", "anthropic"))
"""Patterns of names that need no kind before them."""
_WORD = re.compile(r"[a-z][a-z0-9_.-]{0,47}")
_EVERY = inspect.Parameter.VAR_KEYWORD


class UnknownModelKind(Invalid):
    """The text names no kind of model there is."""

    code = "unknown_model_kind"


@dataclass(frozen=True, slots=True)
class _Kind:
    """How a kind is opened, and the options that takes; None: any."""

    open: OpenModel
    options: frozenset[str] | None


_kinds: dict[str, _Kind] = {}


def register(kind: str, open: OpenModel) -> None:
    """From now on `KIND:NAME` is the Model that `open(NAME, **options)` returns, in agents, manifests and on the command line.

    The options are those of an agent that its signature names (`base_url`, `api_key_env`, `model_settings`, `stream` ...), and
    only what was given; one it does not name is refused. A kind that is registered again is replaced. Raises Invalid for a
    word that can be no kind.
    """
    if not isinstance(cast("object", kind), str) or not _WORD.fullmatch(kind):
        raise Invalid(f"{kind!r} can be no kind of model; write a word of lower-case letters, digits, dots, _ and -.")
    check_argument("open", FUNCTION(open))
    parameters = [*inspect.signature(open).parameters.values()][1:]
    every = any(parameter.kind is _EVERY for parameter in parameters)
    register_with(kind, open, None if every else frozenset(parameter.name for parameter in parameters))


def register_with(kind: str, open: OpenModel, options: frozenset[str] | None) -> None:
    """`register` for a kind whose signature does not tell its options."""
    _kinds[kind] = _Kind(open, options)


def kind_of(model: str, provider: str | None = None) -> tuple[str, str]:
    """`(kind, name)` of a model's text. `provider` is the kind of one that names none. Raises UnknownModelKind."""
    kind, colon, name = model.partition(":")
    if provider is not None:
        kind, name = provider, name if colon and kind == provider else model
    elif not colon:
        kind, name = next((known for pattern, known in BY_NAME if fnmatchcase(model, pattern)), ""), model
    if kind in _kinds and name:
        return kind, name
    there = f"There is: {', '.join(sorted(_kinds))}."
    if kind in _kinds:
        raise UnknownModelKind(f"{model!r} lacks the name of the model; write {kind}:NAME.")
    if not kind:
        raise UnknownModelKind(f"{model!r} does not say what kind of model it is; write KIND:{model}. {there}")
    raise UnknownModelKind(f"There is no kind of model {kind!r}. {there}")


def is_kind(word: str) -> bool:
    """Whether a word before a colon is a kind, and not a part of the model's name (`llama3:8b`)."""
    return word in _kinds


def takes(kind: str, option: str) -> bool:
    """Whether a kind has a use for an option."""
    known = _kinds[kind].options
    return known is None or option in known


def check_options(kind: str, options: Mapping[str, Any], *, model: str) -> None:
    """Raises Invalid for options that a kind has no use for."""
    known = _kinds[kind].options
    useless = [] if known is None else sorted(options.keys() - known)
    if useless:
        there = ", ".join(sorted(known or ())) or "none"
        raise Invalid(f"Model {model!r} has no use for {', '.join(useless)}; its options: {there}.", findings=useless)


def open_kind(kind: str, name: str, options: Mapping[str, Any], *, always: Mapping[str, Any]) -> Model:
    """The model. `options` are checked, of `always` it gets what it takes. Raises what the kind raises."""
    check_options(kind, options, model=f"{kind}:{name}")
    return _kinds[kind].open(name, **{key: value for key, value in always.items() if takes(kind, key)}, **options)
