"""The routes under /api/v1. Handlers run in worker threads: they wait for the database."""

from __future__ import annotations

from typing import Any

from litestar import Controller, Request, delete, get, post
from litestar.connection import ASGIConnection
from litestar.di import NamedDependency
from litestar.handlers import BaseRouteHandler
from litestar.params import FromPath, FromQuery, JSONBody

from edge_contracts.bundle import Variant
from edge_contracts.enrolment import EnrolRequest, EnrolResponse
from fleet.domain.catalogue import RegisteredBundle
from fleet.domain.rollout import VERBS
from fleet.errors import NotFound
from fleet.http import api_types as api
from fleet.http.device_views import device_detail, device_view
from fleet.http.rollout_views import draft, rollout_view
from fleet.http.rooms import Rooms
from fleet.services.rollouts import LISTED

OPEN = {"open": True}
"""Handlers with this option need no credential."""


def operator_only(connection: ASGIConnection[Any, Any, Any, Any], handler: BaseRouteHandler) -> None:
    """Guard of every route that is not OPEN. Raises AccessDenied."""
    if not handler.opt.get("open"):
        rooms: Rooms = connection.app.state.rooms
        rooms.access.operator(connection.headers.get("authorization"))


class EnrolmentRoutes(Controller):
    """Tokens, and the one exchange that needs no credential but the token's secret."""

    path = "/api/v1"
    tags = ("enrolment",)

    @post("/enroll", opt=OPEN, status_code=200, sync_to_thread=True, summary="Join the fleet with a one-time token")
    def enrol(self, data: JSONBody[EnrolRequest], rooms: NamedDependency[Rooms]) -> EnrolResponse:
        return rooms.enrolment.enrol(data)

    @get("/enrolment-tokens", sync_to_thread=True, summary="Tokens, newest first")
    def tokens(self, rooms: NamedDependency[Rooms]) -> api.TokenPage:
        return api.TokenPage(
            items=[
                api.TokenView(
                    id=t.id, site=t.site, uses_left=t.uses_left, created_ms=t.created_ms, expires_ms=t.expires_ms
                )
                for t in rooms.enrolment.tokens()
            ]
        )

    @post("/enrolment-tokens", sync_to_thread=True, summary="Make a token")
    def create_token(
        self, data: JSONBody[api.TokenRequest], rooms: NamedDependency[Rooms], request: Request[Any, Any, Any]
    ) -> api.TokenCreated:
        server = data.server or str(request.base_url).rstrip("/")
        stored, line = rooms.enrolment.create_token(
            server, uses=data.uses, expires_s=data.expires_s, site=data.site, labels=data.labels
        )
        return api.TokenCreated(id=stored.id, token=line, expires_ms=stored.expires_ms)

    @delete("/enrolment-tokens/{token:str}", sync_to_thread=True, summary="Withdraw a token")
    def delete_token(self, token: FromPath[str], rooms: NamedDependency[Rooms]) -> None:
        rooms.enrolment.delete_token(token)


class DeviceRoutes(Controller):
    path = "/api/v1/devices"
    tags = ("devices",)

    @get("/", sync_to_thread=True, summary="All devices")
    def devices(self, rooms: NamedDependency[Rooms]) -> api.DevicePage:
        return api.DevicePage(items=[device_view(records) for records in rooms.reading.devices()])

    @get("/{device:str}", sync_to_thread=True, summary="One device with its choices and events")
    def device(self, device: FromPath[str], rooms: NamedDependency[Rooms]) -> api.DeviceDetail:
        return device_detail(*rooms.reading.device(device))


class BundleRoutes(Controller):
    path = "/api/v1/bundles"
    tags = ("bundles",)

    @get("/", sync_to_thread=True, summary="Registered bundles, newest first")
    def bundles(self, rooms: NamedDependency[Rooms]) -> api.BundlePage:
        return api.BundlePage(items=[_bundle_view(bundle) for bundle in rooms.bundles.all()])

    @get("/{name:str}/{version:str}", sync_to_thread=True, summary="One bundle with its variants")
    def bundle(self, name: FromPath[str], version: FromPath[str], rooms: NamedDependency[Rooms]) -> api.BundleDetail:
        record, contents = rooms.bundles.contents(name, version)
        return api.BundleDetail(
            bundle=_bundle_view(record),
            variants=[_variant_view(variant) for variant in contents.variants],
            left_out=contents.spec.left_out,
        )

    @post("/", sync_to_thread=True, summary="Register a bundle that was pushed under /v2")
    def register(self, data: JSONBody[api.BundleRequest], rooms: NamedDependency[Rooms]) -> api.BundleView:
        return _bundle_view(rooms.bundles.register(data.name, data.digest, allow_unsigned=data.allow_unsigned))


class RolloutRoutes(Controller):
    path = "/api/v1/rollouts"
    tags = ("rollouts",)

    @get("/", sync_to_thread=True, summary="Rollouts, newest first, without their devices; of ended ones the newest")
    def rollouts(self, rooms: NamedDependency[Rooms], limit: FromQuery[int] = LISTED) -> api.RolloutPage:
        found = rooms.rollouts.all(limit)
        return api.RolloutPage(items=[rollout_view(rollout, targets, devices=False) for rollout, targets in found])

    @post("/", sync_to_thread=True, summary="Create a rollout, and start it if asked")
    def create(self, data: JSONBody[api.RolloutRequest], rooms: NamedDependency[Rooms]) -> api.RolloutView:
        rollout = rooms.rollouts.create(draft(data))
        if data.start:
            rooms.rollouts.act(rollout.id, VERBS["start"], "started by the operator")
        return _view(rooms, rollout.id)

    @get("/{rollout:str}", sync_to_thread=True, summary="One rollout with its devices")
    def rollout(self, rollout: FromPath[str], rooms: NamedDependency[Rooms]) -> api.RolloutView:
        return _view(rooms, rollout)

    @post(
        "/{rollout:str}/{verb:str}",
        status_code=200,
        sync_to_thread=True,
        summary="start, pause, resume, abort, rollback",
    )
    def act(self, rollout: FromPath[str], verb: FromPath[str], rooms: NamedDependency[Rooms]) -> api.RolloutView:
        if verb not in VERBS:
            raise NotFound("verb", verb)
        rooms.rollouts.act(rollout, VERBS[verb], f"{_PAST[verb]} by the operator")
        return _view(rooms, rollout)


_PAST = {"start": "started", "pause": "paused", "resume": "resumed", "abort": "aborted", "rollback": "rolled back"}


def _view(rooms: NamedDependency[Rooms], rollout: str) -> api.RolloutView:
    return rollout_view(*rooms.rollouts.get(rollout), rooms.reading.online())


def _variant_view(variant: Variant) -> api.VariantView:
    spec = variant.spec
    return api.VariantView(
        name=spec.name, runtime=spec.runtime, precision=spec.precision, target=spec.target,
        size_bytes=sum(file.size for file in variant.files), accuracy=spec.accuracy,
    )  # fmt: skip


def _bundle_view(bundle: RegisteredBundle) -> api.BundleView:
    return api.BundleView(
        name=bundle.name,
        version=bundle.version,
        digest=bundle.digest,
        signed=bundle.signed,
        variants=bundle.variants,
        size_bytes=bundle.size_bytes,
        registered_ms=bundle.registered_ms,
    )
