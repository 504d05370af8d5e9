"""SPARQL over HTTP, by the SPARQL 1.1 protocol: GET and POST /v1/sparql.

Law: a caller asks about its own sessions alone. `default-graph-uri` or `session` picks one of them; there are no updates.
"""

from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qs

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse, PlainTextResponse

from causeline.api.doors import Doors
from causeline.api.problems import Problem
from causeline.errors import Invalid
from causeline.memory.provenance import Answer

RESULTS, TRIPLES = "application/sparql-results+json", "application/n-triples"
FORM, QUERY = "application/x-www-form-urlencoded", "application/sparql-query"
GRAPH = "urn:causeline:session:"
Parameters = Mapping[str, list[str]]


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
        session = _session(given)
        try:
            answer = await runtime.sparql(query, session=session)
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


def _session(given: Parameters) -> str | None:
    named = [*_one(given, "session"), *_one(given, "default-graph-uri")]
    if len(named) > 1:
        raise Problem(400, "invalid", "give session or default-graph-uri, not both")
    return named[0].removeprefix(GRAPH) if named else None


def _reply(request: Request, answer: Answer) -> Response:
    kind = TRIPLES if isinstance(answer.value, str) else RESULTS
    accepted = [part.partition(";")[0].strip().lower() for part in request.headers.get("accept", "*/*").split(",")]
    if not {kind, "*/*", f"{kind.partition('/')[0]}/*", "text/plain" if kind == TRIPLES else "application/json"} & set(accepted):
        raise Problem(406, "invalid", f"an answer of this form is {kind}")
    if isinstance(answer.value, str):
        return PlainTextResponse(answer.value, media_type=kind)
    if answer.variables is None:
        return JSONResponse({"head": {}, "boolean": answer.value}, media_type=kind)
    rows = [{name: _term(term) for name, term in row.items()} for row in answer.value]
    return JSONResponse({"head": {"vars": list(answer.variables)}, "results": {"bindings": rows}}, media_type=kind)


def _term(term: Mapping[str, Any]) -> Mapping[str, Any]:
    """A term as the results format has it."""
    return {"xml:lang" if key == "lang" else key: value for key, value in term.items()}


def sparql_routes(doors: Doors) -> APIRouter:
    """GET and POST /v1/sparql."""
    door = SparqlDoor(doors)
    routes = APIRouter(prefix="/v1", tags=["log"])
    answers: dict[int | str, dict[str, Any]] = {200: {"content": {RESULTS: {}, TRIPLES: {}}}}
    query = {"name": "query", "in": "query", "required": True, "schema": {"type": "string"}}
    optional = [{"name": name, "in": "query", "schema": {"type": "string"}} for name in ("session", "default-graph-uri")]
    routes.get("/sparql", responses=answers, response_class=Response, openapi_extra={"parameters": [query, *optional]})(door.ask)
    text = {"schema": {"type": "string"}}
    form = {"schema": {"type": "object", "properties": {"query": {"type": "string"}}, "required": ["query"]}}
    body = {"requestBody": {"required": True, "content": {QUERY: text, FORM: form}}, "parameters": optional}
    routes.post("/sparql", responses=answers, response_class=Response, openapi_extra=body)(door.ask_in_body)
    return routes
