"""A Python signature as a JSON Schema, and JSON arguments as Python ones.

Law: pydantic is imported when a schema is first asked for that `plain_signature` cannot make, not when a function is declared. The
schema decides whether arguments are taken; pydantic then turns them into what the annotations say.
"""

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, cast

from causeline.errors import Invalid
from causeline.models.messages import Json
from causeline.tools.annotations import readable, resolved_hints, takes_context, unpacked, without_extras
from causeline.tools.json_schema import Schema, place, shortened
from causeline.tools.plain_signature import PlainSignature, plain_signature
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
        import pydantic  # noqa: PLC0415 - see the law above

        try:
            return self.model.model_validate(arguments)
        except pydantic.ValidationError as error:
            lines = _lines(error)
            raise InvalidArguments("; ".join(lines), findings=lines) from None


def read_signature(function: Callable[..., Any], name: str, given: "Parameters | None") -> Signature | PlainSignature:
    """The signature of a tool function. `given` stands in for the schema made from it. Raises InvalidTool with every fault."""
    try:
        signature = inspect.signature(function)
        hints = resolved_hints(innermost(function), signature)
    except (TypeError, ValueError, NameError, SyntaxError, AttributeError) as error:
        raise InvalidTool(f"Tool {name!r}: its signature cannot be read: {error}. Use annotations that resolve.") from error
    context = next((each for each, hint in hints.items() if takes_context(hint)), None)
    bound: Mapping[str, Any] = function.keywords if isinstance(function, functools.partial) else {}
    free = [each for each in signature.parameters.values() if each.name != context and each.name not in bound]
    if any(each.kind is inspect.Parameter.VAR_POSITIONAL for each in free):
        raise InvalidTool(f"Tool {name!r}: *args has no names a model could use; give each parameter a name.")
    named, rest = _spread(free, hints)
    if isinstance(given, type):
        return _from_model(name, given, named, hints, context, open_ended=rest is not NO_MORE)
    plain = plain_signature(name, named, hints, context) if given is None and rest is NO_MORE else None
    if plain is not None:
        return plain
    model, parameters = _model(name, named, hints, rest)
    if given is None:
        schema = argument_schema(name, _true_defaults(_json_schema(name, model)))
    else:
        schema = argument_schema(name, given)
        _check_names(name, schema.document, named, open_ended=rest is not NO_MORE)
    return Signature(schema, model, parameters, context)


NO_MORE = object()
"""Stands for the annotation of further keywords where a function takes none."""


def _spread(free: Iterable[inspect.Parameter], hints: dict[str, Any]) -> tuple[list[inspect.Parameter], Any]:
    """The parameters with names, and the annotation of further keywords. `**options: Unpack[SomeTypedDict]` has names too, whose
    annotations are added to `hints`."""
    named: list[inspect.Parameter] = []
    rest: Any = NO_MORE
    for each in free:
        if each.kind is not inspect.Parameter.VAR_KEYWORD:
            named.append(each)
            continue
        keywords = unpacked(hints.get(each.name))
        if keywords is None:
            rest = hints.get(each.name, Any)
            continue
        for keyword, (hint, required) in keywords.items():
            hints[keyword] = hint
            default = inspect.Parameter.empty if required else NO_MORE
            named.append(inspect.Parameter(keyword, inspect.Parameter.KEYWORD_ONLY, default=default))
    return named, rest


def _from_model(
    name: str, model: "type[BaseModel]", named: list[inspect.Parameter], hints: Mapping[str, Any], context: str | None, *, open_ended: bool
) -> Signature:
    if not hasattr(model, "model_json_schema"):
        raise InvalidTool(f"Tool {name!r}: parameters: expected a JSON Schema object or a pydantic model, got {model.__name__}.")
    schema = argument_schema(name, _json_schema(name, model))
    if len(named) == 1 and without_extras(hints.get(named[0].name)) is model:
        return Signature(schema, model, (), context, named[0].name)
    fields = model.model_fields
    accepted = {parameter.name for parameter in named}
    missing = [field for field in fields if field not in accepted]
    if missing and not open_ended:
        raise InvalidTool(f"Tool {name!r}: parameters: the function does not take {', '.join(missing)}.")
    parameters = tuple(Parameter(field, field, positional=False, required=True) for field in fields)
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


def innermost(function: Callable[..., Any]) -> Callable[..., Any]:
    """The Python function behind partials and callable objects."""
    while isinstance(function, functools.partial):
        function = cast(Callable[..., Any], function.func)
    if inspect.isroutine(function):
        return function
    return type(function).__call__


def _model(
    name: str, named: Iterable[inspect.Parameter], hints: Mapping[str, Any], rest: Any
) -> "tuple[type[BaseModel], tuple[Parameter, ...]]":
    """A pydantic model with one field a parameter. Fields have names of their own, so that any parameter name will do; the alias,
    which is this field's alone, is the parameter's. `rest` is the annotation of further keywords."""
    import pydantic  # noqa: PLC0415 - see the law above
    from pydantic.fields import FieldInfo  # noqa: PLC0415 - as above

    parameters: list[Parameter] = []
    fields: dict[str, Any] = {}
    for index, each in enumerate(named):
        described = isinstance(each.default, FieldInfo)
        hint = Annotated[readable(hints.get(each.name, Any), each.default), pydantic.Field(alias=each.name)]
        fields[f"p{index}"] = (hint, each.default if described else _field(each.default))
        positional = each.kind is inspect.Parameter.POSITIONAL_ONLY
        parameters.append(Parameter(each.name, f"p{index}", positional, described))
    try:
        return pydantic.create_model(name, __base__=_base(rest), **fields), tuple(parameters)
    except (pydantic.PydanticUserError, pydantic.PydanticUndefinedAnnotation, TypeError) as error:
        raise InvalidTool(f"Tool {name!r}: a parameter's type cannot be described: {shortened(str(error))}") from error


def _base(rest: Any) -> "type[BaseModel]":
    """What a model of arguments is made of: it knows whether there may be further ones, and of which type."""
    import pydantic  # noqa: PLC0415 - see the law above

    members: dict[str, Any] = {"__module__": __name__, "model_config": pydantic.ConfigDict(extra="forbid" if rest is NO_MORE else "allow")}
    if rest is not NO_MORE:
        members["__annotations__"] = {"__pydantic_extra__": dict[str, readable(rest)]}
    return type("Arguments", (pydantic.BaseModel,), members)


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

        def named_tuple_schema(self, schema: Any) -> Json:
            """A named tuple is an object here, as results are written; a list is taken, too."""
            listed = super().named_tuple_schema(schema)
            names = [each["name"] for each in schema["fields"]]
            properties = dict(zip(names, listed.get("prefixItems", ()), strict=True))
            required = names[: listed.get("minItems", 0)]
            return {"anyOf": [{"type": "object", "properties": properties, "required": required, "additionalProperties": False}, listed]}

    try:
        document = model.model_json_schema(schema_generator=Untitled)
    except pydantic.PydanticUserError as error:
        raise InvalidTool(f"Tool {name!r}: a parameter's type has no JSON Schema: {shortened(str(error))}") from error
    document.pop("title", None)
    return document


def _true_defaults(document: Json) -> Json:
    """The schema without defaults that it would not accept itself, such as `limit: int = "all"`."""
    for field in document["properties"].values():
        if "default" in field and Schema({"$defs": document.get("$defs", {}), **field}).findings(field["default"]):
            del field["default"]
    return document


def _lines(error: "ValidationError") -> list[str]:
    faults = error.errors(include_url=False, include_context=False, include_input=False)
    return [f"{place(each['loc'])}: {shortened(each['msg'])}" for each in faults]
