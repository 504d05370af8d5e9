"""From the text that names a model to the model.

Law: the word before the first colon decides; an unknown word is an error that lists what there is, and an option
the kind of model has no use for is an error too.
"""

import json
from pathlib import Path
from typing import Any, cast

from causeline.adapters.models.local import LocalModel
from causeline.adapters.models.openai import OpenAIModel
from causeline.errors import Invalid, Missing
from causeline.models.model import Model
from causeline.models.scripted_model import ScriptedModel


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
    if kind not in _OPTIONS or not colon or not name:
        raise UnknownModelKind(f"There is no model {spec!r}. Write one of: {', '.join(_FORMS)}.")
    given = {key: value for key, value in options.items() if value is not None}
    useless = sorted(given.keys() - _OPTIONS[kind])
    if useless:
        known = ", ".join(sorted(_OPTIONS[kind])) or "none"
        raise Invalid(f"Model {spec!r} has no use for {', '.join(useless)}; its options: {known}.", findings=useless)
    if kind == "openai":
        return OpenAIModel(name, stream=stream, **given)
    if kind == "local":
        return LocalModel(name, **given)
    return _scripted(name, base or Path())


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


_OPTIONS = {
    "openai": frozenset({"base_url", "api_key_env", "client", "chat_path", "auth_header", "auth_prefix", "timeout", "connect_timeout"}),
    "local": frozenset({"context", "max_tokens"}),
    "scripted": frozenset[str](),
}
_FORMS = ("openai:NAME", "scripted:FILE.json", "scripted:loop-N", "scripted:parallel-K", "scripted:echo", "local:smollm2")
