"""The HTTP side as one ASGI application: the registry under /v2, everything else by the web framework."""

from __future__ import annotations

from typing import Any

from litestar import Litestar, Response, get
from litestar.datastructures import State
from litestar.di import NamedDependency, Provide
from litestar.enums import ScopeType
from litestar.exceptions import HTTPException
from litestar.openapi import OpenAPIConfig
from litestar.openapi.plugins import JsonRenderPlugin
from litestar.types import ASGIApp, Receive, Scope, Send

from edge_contracts._version import __version__
from fleet.errors import FleetError
from fleet.http.api_types import Health
from fleet.http.problems import fleet_problem, http_problem, nested_problem, unexpected_problem
from fleet.http.rooms import Rooms
from fleet.http.routes import OPEN, BundleRoutes, DeviceRoutes, EnrolmentRoutes, RolloutRoutes, operator_only

LANDING = (
    "<!doctype html><title>MindEdge fleet</title><p>A MindEdge fleet server. Operators use <code>mindfleet tui</code> "
    'and the <code>mindfleet</code> commands. <a href="/healthz">/healthz</a> <a href="/metrics">/metrics</a> '
    "/api/v1/openapi.json (with a token) /v2/ (bundles)\n"
)
MAX_BODY_BYTES = 4 * 1024 * 1024


@get("/healthz", opt=OPEN, sync_to_thread=True, summary="Whether the server serves, and what is degraded")
def healthz(rooms: NamedDependency[Rooms]) -> Health:
    return rooms.health()


@get("/metrics", opt=OPEN, sync_to_thread=True, media_type="text/plain", summary="Prometheus metrics")
def metrics(rooms: NamedDependency[Rooms]) -> Response[str]:
    return Response(rooms.metrics(), media_type="text/plain; version=0.0.4")


@get("/", opt=OPEN, media_type="text/html", include_in_schema=False, sync_to_thread=False)
def landing() -> str:
    return LANDING


def make_app(rooms: Rooms, registry: Any) -> ASGIApp:
    """``registry`` is the ASGI application for /v2: it streams bodies, which the framework would gather."""
    api = Litestar(
        [EnrolmentRoutes, DeviceRoutes, BundleRoutes, RolloutRoutes, landing, healthz, metrics],
        guards=[operator_only],
        dependencies={"rooms": Provide(lambda: rooms, sync_to_thread=False)},
        state=State({"rooms": rooms}),
        exception_handlers={
            FleetError: fleet_problem, HTTPException: http_problem, RecursionError: nested_problem,
            Exception: unexpected_problem,
        },
        request_max_body_size=MAX_BODY_BYTES,
        openapi_config=OpenAPIConfig(
            title="MindEdge fleet", version=__version__, path="/api/v1",
            render_plugins=[JsonRenderPlugin(path="/openapi.json")],
        ),
        logging_config=None,
    )  # fmt: skip

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        path = scope["path"]
        is_registry = scope["type"] == ScopeType.HTTP and (path == "/v2" or path.startswith("/v2/"))
        await (registry if is_registry else api)(scope, receive, send)

    return app
