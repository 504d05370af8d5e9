"""From the text that names a model to the model.

Law: the word before the first colon decides; an unknown word is an error that lists what there is, and an option
the kind of model has no use for is an error too.
"""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, cast

from causeline.adapters.models.local import LocalModel
from causeline.adapters.models.openai import OpenAIModel
from causeline.errors import Invalid, Missing
from causeline.models.model import Model
from causeline.models.scripted import ScriptedModel


class UnknownModelKind(Invalid):
    """The text names no kind of model there is."""

    code = "unknown_model_kind"


def open_model(spec: str, *, base: Path | None = None, stream: bool = True, **options: Any) -> Model:
    """`openai:NAME`, `scripted:FILE.json`, `scripted:loop-N`, `scripted:parallel-K`, `scripted:echo` or `local:smollm2`.

    `base` is the folder a script's path is relative to, `stream` whether a server is asked for streams; `options` are those
    of OpenAIModel or LocalModel, where None means not given. Raises UnknownModelKind, Invalid for an option the model does
    not take, InvalidScript, and Missing for a key, a file or a package that is not there.
    """
    kind, colon, name = spec.partition(":")
    kinds: Mapping[str, Callable[..., Model]] = {
        "openai": lambda **given: OpenAIModel(name, stream=stream, **given),
        "scripted": lambda **given: _scripted(name, base or Path(), **given),
        "local": lambda **given: LocalModel(name, **given),
    }
    opener = kinds.get(kind)
    if opener is None or not colon or not name:
        raise UnknownModelKind(f"There is no model {spec!r}. Write one of: {', '.join(_FORMS)}.")
    try:
        return opener(**{key: value for key, value in options.items() if value is not None})
    except TypeError as error:
        raise Invalid(f"Model {spec!r} does not take this option: {str(error).rpartition('() ')[2]}") from error


def _scripted(name: str, base: Path) -> Model:
    if not name.endswith(".json"):
        return ScriptedModel.named(name)
    path = base / name
    try:
        items: Any = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise Missing(f"There is no script {path}. A script is a JSON array of replies.", code="script_missing") from None
    except ValueError as error:
        raise Invalid(f"The script {path} is not JSON: {error}") from error
    if not isinstance(items, list):
        raise Invalid(f"The script {path} is not a JSON array of replies.")
    return ScriptedModel(cast(list[Any], items), name=f"scripted:{name}")


_FORMS = ("openai:NAME", "scripted:FILE.json", "scripted:loop-N", "scripted:parallel-K", "scripted:echo", "local:smollm2")
