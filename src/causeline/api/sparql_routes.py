"""/v1/sparql: the SPARQL 1.1 protocol over the caller's own provenance. Reading only."""

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import JSONResponse, PlainTextResponse

from causeline.api.doors import Doors
from causeline.api.problems import Problem

RESULTS = "application/sparql-results+json"
MAX_QUERY = 100_000


def sparql_routes(doors: Doors) -> APIRouter:
    """Query by GET, by a form, or by a body of type application/sparql-query."""
    routes = APIRouter(tags=["provenance"])
    session_named = Annotated[str | None, Query(max_length=128, description="Only this session's graph.")]

    @routes.get("/v1/sparql", response_class=Response)
    async def query_by_address(
        request: Request, query: Annotated[str, Query(min_length=1, max_length=MAX_QUERY)], session: session_named = None
    ) -> Response:
        """Ask with the query in the address."""
        return await _answer(doors, request, query, session)

    @routes.post("/v1/sparql", response_class=Response)
    async def query_by_body(request: Request, session: session_named = None) -> Response:
        """Ask with the query in the body."""
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind == "application/sparql-query":
            query = (await request.body()).decode("utf-8", "replace")
        elif kind == "application/x-www-form-urlencoded":
            fields = await request.form(max_fields=10, max_part_size=MAX_QUERY)
            query = str(fields.get("query") or "")
            if fields.get("update"):
                raise Problem(422, "invalid", "provenance is read from the log and cannot be updated")
        else:
            raise Problem(415, "invalid", "send application/sparql-query, or a form with the field query")
        return await _answer(doors, request, query, session)

    return routes


async def _answer(doors: Doors, request: Request, query: str, session: str | None) -> Response:
    if not query.strip() or len(query) > MAX_QUERY:
        raise Problem(422, "invalid", f"a query has 1 to {MAX_QUERY:,} characters", findings=["query"])
    runtime = await doors.runtime_of(request)
    answer: Any = await runtime.query(query, session=session)
    if isinstance(answer, str):
        return PlainTextResponse(answer, media_type="application/n-triples")
    if isinstance(answer, bool):
        return JSONResponse({"head": {}, "boolean": answer}, media_type=RESULTS)
    names = list(dict.fromkeys(name for row in answer for name in row))
    bindings = [{name: _term(value) for name, value in row.items()} for row in answer]
    return JSONResponse({"head": {"vars": names}, "results": {"bindings": bindings}}, media_type=RESULTS)


def _term(value: dict[str, Any]) -> dict[str, Any]:
    return {"xml:lang" if name == "lang" else name: part for name, part in value.items() if part is not None}
