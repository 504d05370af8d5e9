"""Annotations of tool functions as pydantic reads them.

Law: what an annotation says to a reader is not lost on a model, and what Python accepts as a default is accepted as
an argument.
"""

import inspect
import sys
import types
import typing
from collections.abc import Callable, Mapping
from typing import Annotated, Any

from causeline.tools.tool import ToolContext

_UNIONS = (typing.Union, types.UnionType)
_FIELD_WORDS = ("Required", "NotRequired", "ReadOnly")


def resolved_hints(function: Callable[..., Any], signature: inspect.Signature) -> dict[str, Any]:
    """Annotations of the parameters, with names in quotes looked up. Raises NameError and its like where one is not there.

    The return annotation is left alone.
    """
    target = inspect.unwrap(function)
    written = {each.name: each.annotation for each in signature.parameters.values() if each.annotation is not inspect.Parameter.empty}
    holder = types.SimpleNamespace(__annotations__=written)
    return typing.get_type_hints(holder, globalns=getattr(target, "__globals__", {}), include_extras=True)


def takes_context(hint: Any) -> bool:
    """Whether a parameter with this annotation is for the ToolContext."""
    bare = without_extras(hint)
    return bare is ToolContext or (typing.get_origin(bare) in _UNIONS and ToolContext in typing.get_args(bare))


def without_extras(hint: Any) -> Any:
    """`int` of `Annotated[int, ...]`."""
    return typing.get_args(hint)[0] if typing.get_origin(hint) is Annotated else hint


def readable(hint: Any, default: object = inspect.Parameter.empty) -> Any:
    """An annotation that says the same to pydantic: words in `Annotated` describe the field, a default None is a value that may be
    given, and a TypedDict is one that this Python's pydantic can read."""
    found = _readable(hint, {})
    if default is not None or _allows_none(without_extras(found)):
        return found
    if typing.get_origin(found) is Annotated:
        bare, *extras = typing.get_args(found)
        return _annotated(_union((bare, None)), extras)
    return _union((found, None))


def unpacked(hint: Any) -> dict[str, tuple[Any, bool]] | None:
    """Annotation of each keyword, and whether it is required, for `**options: Unpack[SomeTypedDict]`; None for any other."""
    if typing.get_origin(hint) is not typing.Unpack:
        return None
    [typed] = typing.get_args(hint)
    hints = typing.get_type_hints(typed, include_extras=True)
    return {name: (_bare_field(inner), name in typed.__required_keys__) for name, inner in hints.items()}


def _readable(hint: Any, made: dict[Any, Any]) -> Any:
    origin, members = typing.get_origin(hint), typing.get_args(hint)
    if origin is Annotated:
        return _annotated(_readable(members[0], made), [_extra(each) for each in members[1:]])
    if sys.version_info < (3, 12) and typing.is_typeddict(hint) and type(hint).__module__ == "typing":
        return _typed_dict(hint, made)
    if origin is None or not members or origin is typing.Literal or origin is Callable or isinstance(members[0], list):
        return hint
    inner = tuple(_readable(each, made) for each in members)
    if inner == members:
        return hint
    return _union(inner) if origin in _UNIONS else origin[inner]


def _union(members: tuple[Any, ...]) -> Any:
    return typing.Union[members]  # noqa: UP007 - the members are known at run time only


def _annotated(bare: Any, extras: typing.Sequence[Any]) -> Any:
    made: Any = Annotated
    return made[(bare, *extras)]


def _extra(extra: Any) -> Any:
    """A text, or an object with a `documentation`, as the description it is meant for."""
    from pydantic import Field  # noqa: PLC0415 - imported when a schema is first asked for

    words = extra if isinstance(extra, str) else getattr(extra, "documentation", None)
    return Field(description=words) if isinstance(words, str) else extra


def _typed_dict(typed: Any, made: dict[Any, Any]) -> Any:
    """A TypedDict of `typing` once more, of the kind pydantic reads before Python 3.12. Inside itself it is any object."""
    import typing_extensions  # noqa: PLC0415 - pydantic's own, and only here

    if typed not in made:
        made[typed] = dict[str, Any]
        hints = typing.get_type_hints(typed, include_extras=True)
        fields: Mapping[str, Any] = {name: _readable(_bare_field(inner), made) for name, inner in hints.items()}
        keys = {
            name: typing.Required[inner] if name in typed.__required_keys__ else typing.NotRequired[inner] for name, inner in fields.items()
        }
        build: Any = typing_extensions.TypedDict
        made[typed] = build(typed.__name__, keys)
        made[typed].__doc__ = typed.__doc__
    return made[typed]


def _bare_field(hint: Any) -> Any:
    """The annotation of a TypedDict's field without Required and its like."""
    origin = typing.get_origin(hint)
    return typing.get_args(hint)[0] if getattr(origin, "__name__", getattr(origin, "_name", None)) in _FIELD_WORDS else hint


def _allows_none(hint: Any) -> bool:
    if hint in (None, type(None), Any, object):
        return True
    return typing.get_origin(hint) in _UNIONS and any(_allows_none(without_extras(each)) for each in typing.get_args(hint))
