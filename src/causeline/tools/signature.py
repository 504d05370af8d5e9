"""A Python signature as a JSON Schema, and JSON arguments as Python ones.

Law: pydantic is imported when a schema is first asked for, not when a function is declared. The schema decides
whether arguments are taken; pydantic then turns them into what the annotations say.
"""

import functools
import inspect
import types
import typing
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, cast

from causeline.errors import Invalid
from causeline.models.messages import Json
from causeline.tools.json_schema import Schema, place, shortened
from causeline.tools.tool import InvalidTool, ToolContext, argument_schema

if TYPE_CHECKING:
    from pydantic import BaseModel, ValidationError

Parameters = Mapping[str, Any] | type["BaseModel"]


class InvalidArguments(Invalid):
    """Arguments that fit the schema but not the annotations, such as a date that is none."""

    code = "invalid_arguments"
    retryable = False


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter a caller fills in. `field` is its name in the pydantic model."""

    name: str
    field: str
    positional: bool
    required: bool


@dataclass(frozen=True, slots=True)
class Signature:
    """How one function takes its arguments. `context` names the parameter for the ToolContext."""

    schema: Schema
    model: "type[BaseModel]"
    parameters: tuple[Parameter, ...]
    context: str | None
    whole: str | None = None
    """The one parameter that takes the model itself, where the schema is a model of the user's."""

    def findings(self, arguments: Json) -> list[str]:
        """What is wrong with the arguments, one line each."""
        lines = self.schema.findings(arguments)
        if lines:
            return lines
        try:
            self._validated(arguments)
        except InvalidArguments as error:
            return [str(line) for line in error.findings]
        return []

    def bind(self, arguments: Json, context: ToolContext) -> tuple[list[Any], dict[str, Any]]:
        """Positional and keyword arguments of the call. What was not given is left to the function's own defaults.

        Raises InvalidArguments.
        """
        validated = self._validated(arguments)
        keywords: dict[str, Any] = {} if self.context is None else {self.context: context}
        if self.whole is not None:
            return [], {**keywords, self.whole: validated}
        positional: list[Any] = []
        given = validated.model_fields_set
        for parameter in self.parameters:
            if parameter.field not in given and not self._defaulted(parameter):
                continue
            value = getattr(validated, parameter.field)
            if parameter.positional:
                positional.append(value)
            else:
                keywords[parameter.name] = value
        return positional, {**(validated.model_extra or {}), **keywords}

    def _defaulted(self, parameter: Parameter) -> bool:
        """Whether the default is the model's, because the function's own default only describes the field."""
        return parameter.required or parameter.positional

    def _validated(self, arguments: Json) -> "BaseModel":
        from pydantic import ValidationError  # noqa: PLC0415 - see the law above

        try:
            return self.model.model_validate(arguments)
        except ValidationError as error:
            lines = _lines(error)
            raise InvalidArguments("; ".join(lines), findings=lines) from None


def read_signature(function: Callable[..., Any], name: str, given: "Parameters | None") -> Signature:
    """The signature of a tool function. `given` stands in for the schema made from it. Raises InvalidTool with every fault."""
    try:
        signature = inspect.signature(function)
        hints = _hints(function, signature)
    except (TypeError, ValueError, NameError, SyntaxError, AttributeError) as error:
        raise InvalidTool(f"Tool {name!r}: its signature cannot be read: {error}. Use annotations that resolve.") from error
    context = next((each for each, hint in hints.items() if _bare(hint) is ToolContext), None)
    bound: Mapping[str, Any] = function.keywords if isinstance(function, functools.partial) else {}
    free = [each for each in signature.parameters.values() if each.name != context and each.name not in bound]
    if any(each.kind is inspect.Parameter.VAR_POSITIONAL for each in free):
        raise InvalidTool(f"Tool {name!r}: *args has no names a model could use; give each parameter a name.")
    open_ended = any(each.kind is inspect.Parameter.VAR_KEYWORD for each in free)
    named = [each for each in free if each.kind is not inspect.Parameter.VAR_KEYWORD]
    if isinstance(given, type):
        return _from_model(name, given, named, hints, context, open_ended=open_ended)
    model, parameters = _model(name, named, hints, open_ended=open_ended)
    if given is None:
        schema = argument_schema(name, _json_schema(name, model))
    else:
        schema = argument_schema(name, given)
        _check_names(name, schema.document, named, open_ended=open_ended)
    return Signature(schema, model, parameters, context)


def _from_model(
    name: str, model: "type[BaseModel]", named: list[inspect.Parameter], hints: Mapping[str, Any], context: str | None, *, open_ended: bool
) -> Signature:
    if not hasattr(model, "model_json_schema"):
        raise InvalidTool(f"Tool {name!r}: parameters: expected a JSON Schema object or a pydantic model, got {model.__name__}.")
    schema = argument_schema(name, _json_schema(name, model))
    if len(named) == 1 and _bare(hints.get(named[0].name)) is model:
        return Signature(schema, model, (), context, named[0].name)
    fields = model.model_fields
    missing = [each for each in fields if each not in {one.name for one in named}]
    if missing and not open_ended:
        raise InvalidTool(f"Tool {name!r}: parameters: the function does not take {', '.join(missing)}.")
    parameters = tuple(Parameter(each, each, positional=False, required=True) for each in fields)
    return Signature(schema, model, parameters, context)


def _check_names(name: str, document: Json, named: Iterable[inspect.Parameter], *, open_ended: bool) -> None:
    """The names of a given schema must be names the function takes, and the ones it needs must be required."""
    offered: Json = document["properties"]
    accepted = {each.name for each in named}
    needed = {each.name for each in named if each.default is inspect.Parameter.empty}
    lines = [f"parameters: the function has no parameter {each}" for each in offered if each not in accepted and not open_ended]
    optional = sorted(needed - set(document.get("required", ())))
    lines += [f"parameters: {each} must be required, the function has no default for it" for each in optional]
    if lines:
        raise InvalidTool(f"Tool {name!r}: {'; '.join(lines)}.", findings=lines)


def _hints(function: Callable[..., Any], signature: inspect.Signature) -> dict[str, Any]:
    """Resolved annotations of the parameters; the return annotation is left alone."""
    target = inspect.unwrap(innermost(function))
    written = {each.name: each.annotation for each in signature.parameters.values() if each.annotation is not inspect.Parameter.empty}
    holder = types.SimpleNamespace(__annotations__=written)
    return typing.get_type_hints(holder, globalns=getattr(target, "__globals__", {}), include_extras=True)


def innermost(function: Callable[..., Any]) -> Callable[..., Any]:
    """The Python function behind partials and callable objects."""
    while isinstance(function, functools.partial):
        function = cast(Callable[..., Any], function.func)
    if inspect.isroutine(function):
        return function
    return type(function).__call__


def _bare(hint: Any) -> Any:
    return typing.get_args(hint)[0] if typing.get_origin(hint) is Annotated else hint


def _model(
    name: str, named: Iterable[inspect.Parameter], hints: Mapping[str, Any], *, open_ended: bool
) -> "tuple[type[BaseModel], tuple[Parameter, ...]]":
    """A pydantic model with one field a parameter. Fields have names of their own, so that any parameter name will do."""
    import pydantic  # noqa: PLC0415 - see the law above
    from pydantic.fields import FieldInfo  # noqa: PLC0415 - as above

    parameters: list[Parameter] = []
    fields: dict[str, Any] = {}
    for index, each in enumerate(named):
        described = isinstance(each.default, FieldInfo)
        fields[f"p{index}"] = (hints.get(each.name, Any), each.default if described else _field(each.default))
        positional = each.kind is inspect.Parameter.POSITIONAL_ONLY
        parameters.append(Parameter(each.name, f"p{index}", positional, described))
    names = {each.field: each.name for each in parameters}
    config = pydantic.ConfigDict(alias_generator=lambda field: names[field], extra="allow" if open_ended else "forbid")
    try:
        return pydantic.create_model(name, __config__=config, **fields), tuple(parameters)
    except (pydantic.PydanticUserError, pydantic.PydanticUndefinedAnnotation, TypeError) as error:
        raise InvalidTool(f"Tool {name!r}: a parameter's type cannot be described: {shortened(str(error))}") from error


def _field(default: Any) -> Any:
    """A field with this default, shown in the schema where it has a JSON form."""
    from pydantic import Field  # noqa: PLC0415 - see the law above
    from pydantic_core import PydanticSerializationError, to_jsonable_python  # noqa: PLC0415 - as above

    if default is inspect.Parameter.empty:
        return Field()
    try:
        to_jsonable_python(default)
    except (PydanticSerializationError, ValueError):
        return Field(default_factory=lambda: default)
    return Field(default=default)


def _json_schema(name: str, model: "type[BaseModel]") -> Json:
    import pydantic  # noqa: PLC0415 - see the law above
    from pydantic.json_schema import GenerateJsonSchema  # noqa: PLC0415 - as above

    class Untitled(GenerateJsonSchema):
        """Titles repeat the names of the fields; a model pays for them in tokens."""

        def field_title_should_be_set(self, schema: Any) -> bool:
            return False

    try:
        document = model.model_json_schema(schema_generator=Untitled)
    except pydantic.PydanticUserError as error:
        raise InvalidTool(f"Tool {name!r}: a parameter's type has no JSON Schema: {shortened(str(error))}") from error
    document.pop("title", None)
    return document


def _lines(error: "ValidationError") -> list[str]:
    faults = error.errors(include_url=False, include_context=False, include_input=False)
    return [f"{place(each['loc'])}: {shortened(each['msg'])}" for each in faults]
