"""From the texts that name an agent's models to the models.

Law: what an agent says of its server (address, key, headers, settings) is for that server. A fallback gets it only if it is
the same kind of model at the same place; another kind, or a table, gets what it says itself.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, cast

from causeline.adapters.models.anthropic import AnthropicModel
from causeline.adapters.models.chat_servers import SERVERS
from causeline.adapters.models.local import LocalModel
from causeline.adapters.models.openai import OpenAIModel
from causeline.errors import Invalid, Missing
from causeline.models.kinds import check_options, kind_of, open_kind, register_with, takes
from causeline.models.model import Model
from causeline.models.price_table import prices
from causeline.models.scripted_model import ScriptedModel

_SERVER_OPTIONS = frozenset({"base_url", "api_key_env", "chat_path", "auth_header", "auth_prefix", "model_settings", "on_request"})
_CHAT_OPTIONS = _SERVER_OPTIONS | {"client", "timeout", "connect_timeout", "stream"}
_WITHOUT_WORD = frozenset({*SERVERS, "anthropic", "local", "scripted"}) - {"openrouter"}
"""Kinds that do not say themselves what a reply costs."""
_TABLE = ("base_url", "api_key_env", "chat_path", "auth_header", "auth_prefix")


def open_model(spec: str, *, provider: str | None = None, base: Path | None = None, stream: bool = True, **options: Any) -> Model:
    """The model `KIND:NAME`, or `NAME` where `provider` or the table of names says the kind.

    `base` is the folder a script's path is relative to, `stream` whether a server is asked for streams; `options` are those
    of the kind, where None means not given. Raises UnknownModelKind, Invalid for an option the model does not take,
    InvalidScript, and Missing for a key, a file or a package that is not there.
    """
    kind, name = kind_of(spec, provider)
    return open_kind(kind, name, _given(options), always={"base": base, "stream": stream})


@dataclass(frozen=True, slots=True)
class Candidate:
    """A model an agent may ask, before it is opened: the place where it was named, and the Model or its kind, name and options."""

    place: str
    model: Model | None
    kind: str = ""
    name: str = ""
    options: Mapping[str, Any] | None = None

    def takes(self, option: str) -> bool:
        """Whether the kind has a use for an option."""
        return self.model is None and takes(self.kind, option)

    def has_price(self) -> bool:
        """Whether what its replies cost can be known: by the table of prices, or because the model itself may say."""
        if self.model is not None or self.kind not in _WITHOUT_WORD or "base_url" in (self.options or {}):
            return True
        return prices.price(f"{self.kind}:{self.name}") is not None

    def open(self, *, base: Path | None, stream: bool, on_request: Callable[[Any], Any] | None = None) -> Model:
        """The model. Raises as `open_model` does."""
        if self.model is not None:
            return self.model
        always = {"base": base, "stream": stream, **({} if on_request is None else {"on_request": on_request})}
        return open_kind(self.kind, self.name, self.options or {}, always=always)


Entry = str | Model | Mapping[str, Any]
"""How a model is named: a text, a Model, or a table `{model, provider?, base_url?, api_key_env?, ...}`."""


Fault = tuple[str, Invalid]
"""The place where a model was named, and what is wrong with it."""


def candidates(
    model: str | Model, fallbacks: Sequence[Entry], *, provider: str | None = None, **options: Any
) -> tuple[list[Candidate], list[Fault]]:
    """The agent's model, which `options` are for, and its fallbacks; and every kind there is not, and every option that a model
    does not take. Nothing of the environment is looked at."""
    own = _given(options)
    kind = ""
    found: list[Candidate] = []
    faults: list[Fault] = []
    for index, entry in enumerate((model, *fallbacks), -1):
        place = "model" if index < 0 else f"fallbacks[{index}]"
        try:
            if index < 0:
                kind = kind_of(model, provider)[0] if isinstance(model, str) else ""
                found.append(_first(model, provider, own))
            else:
                found.append(_fallback(place, entry, kind, own))
        except Invalid as error:
            faults.append((place, error))
    return found, faults


def _first(model: str | Model, provider: str | None, own: Mapping[str, Any]) -> Candidate:
    return _checked("model", *kind_of(model, provider), own) if isinstance(model, str) else Candidate("model", model)


def _fallback(place: str, entry: Entry, first: str, own: Mapping[str, Any]) -> Candidate:
    """What a fallback is opened with, of a model of the kind `first` ("" for a Model) that goes by `own` options."""
    if isinstance(entry, Mapping):
        said = _given({key: entry.get(key) for key in _TABLE})
        if "base_url" in said:
            said.setdefault("api_key_env", "")  # The key of the kind's own server is none of this one's.
        return _checked(place, *kind_of(entry["model"], entry.get("provider")), said)
    if not isinstance(entry, str):
        return Candidate(place, entry)
    kind, name = (first, entry) if first and ":" not in entry else kind_of(entry)
    return _checked(place, kind, name, own if kind == first else {})


def _checked(place: str, kind: str, name: str, options: Mapping[str, Any]) -> Candidate:
    check_options(kind, options, model=f"{kind}:{name}")
    return Candidate(place, None, kind, name, options)


def _given(options: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in options.items() if value is not None}


def _scripted(name: str, *, base: Path | None = None) -> Model:
    if not name.endswith(".json"):
        return ScriptedModel.named(name)
    path = (base or Path()) / name
    try:
        items: Any = json.loads(path.read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        raise Missing(f"There is no script {path}. A script is a JSON array of replies.", code="script_missing") from None
    except ValueError as error:
        raise Invalid(f"The script {path} is not JSON: {error}") from error
    if not isinstance(items, list):
        raise Invalid(f"The script {path} is not a JSON array of replies.")
    return ScriptedModel(cast(list[Any], items), name=f"scripted:{name}")


def register_built_in() -> None:
    """The kinds that come with causeline."""
    for server in SERVERS:
        register_with(server, partial(OpenAIModel, kind=server), _CHAT_OPTIONS)
    register_with("anthropic", AnthropicModel, _CHAT_OPTIONS)
    register_with("local", LocalModel, frozenset({"context", "max_tokens"}))
    register_with("scripted", _scripted, frozenset({"base"}))


register_built_in()
