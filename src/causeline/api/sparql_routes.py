"""SPARQL over HTTP, by the SPARQL 1.1 protocol: GET and POST /v1/sparql.

Law: a caller asks about its own sessions alone. `default-graph-uri`, `named-graph-uri` or `session` pick some of them; there are no
updates.
"""

from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qs, unquote

from fastapi import APIRouter, Request, Response

from causeline.api.doors import Doors
from causeline.api.problems import Problem
from causeline.api.sparql_forms import BOOLEAN_FORMS, GRAPH_FORMS, RESULTS, TABLE_FORMS, TRIPLES, XML, Form
from causeline.errors import Invalid
from causeline.memory.provenance import Answer

FORM, QUERY = "application/x-www-form-urlencoded", "application/sparql-query"
GRAPH = "urn:causeline:session:"
DATASET = ("default-graph-uri", "named-graph-uri")
Parameters = Mapping[str, list[str]]
_OTHER_NAMES = {"application/json": RESULTS, "application/xml": XML, "text/xml": XML, "text/plain": TRIPLES}


class SparqlDoor:
    """Questions about what led to what."""

    def __init__(self, doors: Doors) -> None:
        self._doors = doors

    async def ask(self, request: Request) -> Response:
        """A query in the parameter `query`."""
        return await self._answer(request, _parameters(request.url.query))

    async def ask_in_body(self, request: Request) -> Response:
        """A query in the body, as a form or as it is."""
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        body = await request.body()
        try:
            text = body.decode()
        except UnicodeDecodeError as error:
            raise Problem(400, "invalid", f"the body is not UTF-8: {error}") from error
        given = _parameters(request.url.query)
        if kind == FORM:
            return await self._answer(request, {**given, **_parameters(text)})
        if kind == QUERY:
            return await self._answer(request, {**given, "query": [text]})
        raise Problem(415, "invalid", f"send a query as {FORM} or as {QUERY}")

    async def _answer(self, request: Request, given: Parameters) -> Response:
        runtime = await self._doors.runtime_of(request)
        if "update" in given:
            raise Problem(400, "invalid", "there are no updates: the log is the truth, and this is a view of it")
        (query,) = _one(given, "query", needed=True)
        sessions, named = _dataset(given)
        try:
            answer = await runtime.sparql(query, sessions=sessions, named=named)
        except Invalid as error:
            raise Problem(400, "invalid", error.message) from error
        return _reply(request, answer)


def _parameters(text: str) -> dict[str, list[str]]:
    try:
        return parse_qs(text, keep_blank_values=True, errors="strict", max_num_fields=100)
    except ValueError as error:
        raise Problem(400, "invalid", f"the parameters cannot be read: {error}") from error


def _one(given: Parameters, name: str, *, needed: bool = False) -> list[str]:
    values = given.get(name, [])
    if len(values) > 1 or (needed and not values):
        raise Problem(400, "invalid", f"give one {name}, not {len(values)}")
    return values


def _dataset(given: Parameters) -> tuple[list[str] | None, list[str]]:
    """The sessions whose graphs are the default graph, None for all, and those that can be named."""
    default, named = ([unquote(uri.removeprefix(GRAPH)) for uri in given.get(name, ())] for name in DATASET)
    session = _one(given, "session")
    if session and (default or named):
        raise Problem(400, "invalid", f"give session or {' and '.join(DATASET)}, not both")
    if session:
        return session, session
    return (default, named) if default or named else (None, [])


def _reply(request: Request, answer: Answer) -> Response:
    forms = GRAPH_FORMS if isinstance(answer.value, str) else TABLE_FORMS if answer.variables is not None else BOOLEAN_FORMS
    kind = _accepted(request.headers.get("accept", "*/*"), forms)
    return Response(forms[kind](answer), media_type=kind)


def _accepted(header: str, forms: Mapping[str, Form]) -> str:
    """The form that the caller likes best; of those it likes alike the first."""
    likes: list[tuple[float, str]] = []
    for part in header.split(","):
        name, *parameters = (piece.strip().lower() for piece in part.split(";"))
        weight = next((piece[2:] for piece in parameters if piece.startswith("q=")), "1")
        likes += [(float(weight) if weight.replace(".", "", 1).isdigit() else 0.0, name)]
    for weight, name in sorted(likes, key=lambda like: -like[0]):
        for kind in forms:
            if weight > 0 and (name in (kind, "*/*", f"{kind.partition('/')[0]}/*") or _OTHER_NAMES.get(name) == kind):
                return kind
    raise Problem(406, "invalid", f"an answer of this form is {', '.join(forms)}")


def sparql_routes(doors: Doors) -> APIRouter:
    """GET and POST /v1/sparql."""
    door = SparqlDoor(doors)
    routes = APIRouter(prefix="/v1", tags=["log"])
    answers: dict[int | str, dict[str, Any]] = {200: {"content": {kind: {} for kind in (*TABLE_FORMS, *GRAPH_FORMS)}}}
    query = {"name": "query", "in": "query", "required": True, "schema": {"type": "string"}}
    optional = [{"name": name, "in": "query", "schema": {"type": "string"}} for name in ("session", *DATASET)]
    routes.get("/sparql", responses=answers, response_class=Response, openapi_extra={"parameters": [query, *optional]})(door.ask)
    text = {"schema": {"type": "string"}}
    form = {"schema": {"type": "object", "properties": {"query": {"type": "string"}}, "required": ["query"]}}
    body = {"requestBody": {"required": True, "content": {QUERY: text, FORM: form}}, "parameters": optional}
    routes.post("/sparql", responses=answers, response_class=Response, openapi_extra=body)(door.ask_in_body)
    return routes
