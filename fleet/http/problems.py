"""Every error as a problem document (RFC 9457) with one clear line; the core's errors know nothing of HTTP."""

from __future__ import annotations

import logging
from http import HTTPStatus
from typing import Any

from litestar import Request, Response
from litestar.exceptions import HTTPException

from fleet import errors
from fleet.http.api_types import Problem

_log = logging.getLogger(__name__)
_STATUS: dict[type[errors.FleetError], int] = {
    errors.InvalidRequest: 400,
    errors.UnsignedBundle: 400,
    errors.NotFound: 404,
    errors.NotAllowedNow: 409,
    errors.AlreadyThere: 409,
    errors.DeviceOnline: 409,
    errors.EnrolmentRefused: 403,
    errors.StoreUnavailable: 503,
    errors.RecordRefused: 400,
    errors.BrokerError: 503,
}


def status_of(error: errors.FleetError) -> int:
    """The HTTP status of an error of the core."""
    if isinstance(error, errors.AccessDenied):
        return 403 if error.known else 401
    return next((status for kind, status in _STATUS.items() if isinstance(error, kind)), 500)


def fleet_problem(_: Request[Any, Any, Any], error: errors.FleetError) -> Response[Problem]:
    """An error of the core."""
    status = status_of(error)
    headers = {"WWW-Authenticate": 'Bearer realm="mindedge"'} if status == 401 else {}
    return _problem(status, str(error), headers)


def http_problem(_: Request[Any, Any, Any], error: HTTPException) -> Response[Problem]:
    """What the framework refuses: unknown paths, methods, bodies that do not fit their type."""
    return _problem(error.status_code, _line(error), dict(error.headers or {}))


def nested_problem(_: Request[Any, Any, Any], __: RecursionError) -> Response[Problem]:
    """A body made to exhaust the parser."""
    return _problem(400, "the body is nested too deeply", {})


def unexpected_problem(request: Request[Any, Any, Any], error: Exception) -> Response[Problem]:
    """A fault of ours: the trace goes to the log, the client gets one line."""
    _log.error("%s %s failed", request.method, request.url.path, exc_info=error)
    return _problem(500, "the server failed on this request; its log says why", {})


def _problem(status: int, detail: str, headers: dict[str, str]) -> Response[Problem]:
    try:
        title = HTTPStatus(status).phrase
    except ValueError:
        title = "Error"
    problem = Problem(title=title, status=status, detail=detail)
    return Response(problem, status_code=status, media_type="application/problem+json", headers=headers)


def _line(error: HTTPException) -> str:
    extra = error.extra
    if isinstance(extra, list) and extra and isinstance(extra[0], dict):
        first = extra[0]
        where = str(first.get("key") or first.get("source") or "request")
        if first.get("message") == repr(where):  # how the framework says that there was nothing to decode
            return "the request has no body: send a JSON object"
        return f"{where}: {first.get('message', error.detail)}"
    return " ".join(str(error.detail).split())
