"""What went wrong, as RFC 9457 problem details.

Law: a reply says what a caller may know and what to do next; a traceback, a secret or a path of the machine is never in it.
"""

import logging
from collections.abc import Mapping
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from causeline.errors import CauselineError, Conflict, Corrupt, Exhausted, Invalid, Missing, Misuse, Refused, Unavailable

LOG = logging.getLogger("causeline.api")
MEDIA_TYPE = "application/problem+json"
TITLES: Mapping[str, str] = {
    "session_busy": "The session has an active run",
    "run_conflict": "This id belongs to another request",
    "not_found": "Not found",
    "unauthorized": "Unauthorized",
    "invalid": "The request cannot be carried out as it stands",
    "interrupt_closed": "The question is closed",
    "too_large": "Too large",
    "too_many": "Too many requests",
    "unavailable": "Unavailable",
    "internal": "Internal error",
}
"""Every code a reply can have, with its title."""
_STATUS: Mapping[type[CauselineError], tuple[int, str]] = {
    Invalid: (422, "invalid"),
    Misuse: (422, "invalid"),
    Missing: (404, "not_found"),
    Conflict: (409, "run_conflict"),
    Unavailable: (503, "unavailable"),
    Refused: (422, "invalid"),
    Exhausted: (413, "too_large"),
    Corrupt: (500, "internal"),
}


class Problem(Exception):
    """An answer that is no success. `code` is one of TITLES."""

    def __init__(
        self, status: int, code: str, detail: str, *, findings: list[Any] | None = None, headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(detail)
        self.status, self.code, self.detail, self.findings, self.headers = status, code, detail, findings or [], dict(headers or {})


def problem(
    request: Request, status: int, code: str, detail: str, findings: list[Any] | None = None, headers: Mapping[str, str] | None = None
) -> JSONResponse:
    """The reply for one problem."""
    body: dict[str, Any] = {"type": "about:blank", "title": TITLES[code], "status": status, "detail": detail, "code": code}
    if findings:
        body["findings"] = findings
    body["request_id"] = getattr(request.state, "request_id", None)
    return JSONResponse(body, status, headers=dict(headers or {}), media_type=MEDIA_TYPE)


def described(error: CauselineError) -> Problem:
    """One of causeline's errors as a problem."""
    status, code = next(found for kind in type(error).__mro__ if (found := _STATUS.get(kind)) is not None)
    if isinstance(error, Conflict) and error.code in TITLES:
        code = error.code
    headers = {"Retry-After": str(max(1, round(error.retry_after)))} if isinstance(error, Unavailable) and error.retry_after else {}
    findings = [str(finding) for finding in error.findings] if isinstance(error, Invalid) else []
    return Problem(
        status,
        code,
        error.message if status < 500 or status == 503 else "stored data is damaged; see the server's log",
        findings=findings,
        headers=headers,
    )


def install(app: FastAPI) -> None:
    """Answer every error of this application with problem details."""

    async def ours(request: Request, error: Exception) -> JSONResponse:
        if not isinstance(error, CauselineError):
            return await unforeseen(request, error)
        if isinstance(error, Corrupt):
            LOG.error("request %s met damaged data: %s", getattr(request.state, "request_id", "-"), error)
        return await asked(request, described(error))

    async def asked(request: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, Problem)
        return problem(request, error.status, error.code, error.detail, error.findings, error.headers)

    async def malformed(request: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, RequestValidationError)
        findings = [f"{'.'.join(str(part) for part in fault['loc'])}: {fault['msg']}" for fault in error.errors()]
        return problem(request, 422, "invalid", "; ".join(findings[:5]) or "the request does not fit", findings)

    async def by_status(request: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, HTTPException)
        code = {401: "unauthorized", 403: "unauthorized", 404: "not_found", 413: "too_large", 429: "too_many"}.get(
            error.status_code, "invalid"
        )
        return problem(request, error.status_code, code, str(error.detail), headers=error.headers)

    async def unforeseen(request: Request, error: Exception) -> JSONResponse:
        LOG.error("request %s failed", getattr(request.state, "request_id", "-"), exc_info=error)
        return problem(request, 500, "internal", "the server failed to carry this out; its log has the request id")

    app.add_exception_handler(CauselineError, ours)
    app.add_exception_handler(Problem, asked)
    app.add_exception_handler(RequestValidationError, malformed)
    app.add_exception_handler(HTTPException, by_status)
    app.add_exception_handler(Exception, unforeseen)
