"""From the text that names a model to the model.

Law: the word before the first colon decides; an unknown word is an error that lists what there is.
"""

import json
from collections.abc import Callable
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


def open_model(spec: str, **options: Any) -> Model:
    """`openai:NAME`, `scripted:FILE.json`, `scripted:loop-N`, `scripted:parallel-K`, `scripted:echo` or `local:smollm2`.

    `options` are those of OpenAIModel or LocalModel; None means not given, others are errors. Raises UnknownModelKind,
    InvalidScript, Missing (key, file or package).
    """
    kind, colon, name = spec.partition(":")
    opener = _KINDS.get(kind)
    if opener is None or not colon or not name:
        raise UnknownModelKind(f"There is no model {spec!r}. Write one of: {', '.join(_FORMS)}.")
    given = {key: value for key, value in options.items() if value is not None}
    try:
        return opener(name, **given)
    except TypeError as error:
        raise Invalid(f"Model {spec!r} does not take these options: {error}") from error


def _scripted(name: str) -> Model:
    if not name.endswith(".json"):
        return ScriptedModel.named(name)
    path = Path(name)
    try:
        items: Any = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise Missing(f"There is no script {path}. A script is a JSON array of replies.", code="script_missing") from None
    except ValueError as error:
        raise Invalid(f"The script {path} is not JSON: {error}") from error
    if not isinstance(items, list):
        raise Invalid(f"The script {path} is not a JSON array of replies.")
    return ScriptedModel(cast(list[Any], items), name=f"scripted:{name}")


_KINDS: dict[str, Callable[..., Model]] = {"openai": OpenAIModel, "scripted": _scripted, "local": LocalModel}
_FORMS = ("openai:NAME", "scripted:FILE.json", "scripted:loop-N", "scripted:parallel-K", "scripted:echo", "local:smollm2")
