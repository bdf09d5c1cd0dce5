"""The REST API as a Python object: used by the CLI and the TUI, which may run on another machine than the server."""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec
import requests
from urllib3.exceptions import LocationParseError
from urllib3.util import parse_url

from fleet.errors import ClientError, ServerRefused, ServerUnreachable
from fleet.http import api_types as api

CONNECT_TIMEOUT_S = 5.0
READ_TIMEOUT_S = 30.0
T = TypeVar("T")


class FleetClient:
    """One server, one operator token. Every method raises ServerUnreachable or ServerRefused, each one clear line.

    Not for several threads at once; make one client for each.
    """

    def __init__(self, server: str, token: str | None) -> None:
        self.server = server.rstrip("/")
        self.session = requests.Session()
        self.session.trust_env = False  # else ~/.netrc would win over the token
        if token:
            self.session.headers["Authorization"] = f"Bearer {token}"

    def health(self) -> api.Health:
        return self._call("GET", "/healthz", api.Health)

    def devices(self) -> list[api.DeviceView]:
        return self._call("GET", "/api/v1/devices", api.DevicePage).items

    def device(self, device: str) -> api.DeviceDetail:
        return self._call("GET", f"/api/v1/devices/{device}", api.DeviceDetail)

    def rollouts(self) -> list[api.RolloutView]:
        """Newest first, without their devices."""
        return self._call("GET", "/api/v1/rollouts", api.RolloutPage).items

    def rollout(self, rollout: str) -> api.RolloutView:
        return self._call("GET", f"/api/v1/rollouts/{rollout}", api.RolloutView)

    def create_rollout(self, request: api.RolloutRequest) -> api.RolloutView:
        return self._call("POST", "/api/v1/rollouts", api.RolloutView, request)

    def act(self, rollout: str, verb: str) -> api.RolloutView:
        """``verb``: start, pause, resume, abort or rollback."""
        return self._call("POST", f"/api/v1/rollouts/{rollout}/{verb}", api.RolloutView)

    def bundles(self) -> list[api.BundleView]:
        return self._call("GET", "/api/v1/bundles", api.BundlePage).items

    def bundle(self, name: str, version: str) -> api.BundleDetail:
        return self._call("GET", f"/api/v1/bundles/{name}/{version}", api.BundleDetail)

    def register_bundle(self, request: api.BundleRequest) -> api.BundleView:
        return self._call("POST", "/api/v1/bundles", api.BundleView, request)

    def create_token(self, request: api.TokenRequest) -> api.TokenCreated:
        return self._call("POST", "/api/v1/enrolment-tokens", api.TokenCreated, request)

    def tokens(self) -> list[api.TokenView]:
        return self._call("GET", "/api/v1/enrolment-tokens", api.TokenPage).items

    def delete_token(self, token: str) -> None:
        self.send("DELETE", f"/api/v1/enrolment-tokens/{token}")

    def send(self, method: str, path: str, **arguments: Any) -> requests.Response:
        """One request; ``path`` is below the server's address, or a whole URL of this very server.

        Raises for every status from 400 on, and ClientError for another server: the token is for this one alone.
        """
        url = self.server + path if path.startswith("/") else path
        try:
            if _origin(url) != _origin(self.server):
                raise ClientError(f"{self.server} points to another server ({path[:200]}): it is not followed")
            response = self.session.request(method, url, timeout=(CONNECT_TIMEOUT_S, READ_TIMEOUT_S), **arguments)
        except requests.ConnectionError as error:
            raise ServerUnreachable(self.server, _reason(error)) from error
        except requests.Timeout as error:
            raise ServerUnreachable(self.server, "no answer in time") from error
        except (requests.RequestException, LocationParseError, ValueError) as error:
            raise ClientError(f"{self.server}: {error}") from error
        if response.status_code >= 400:
            raise ServerRefused(response.status_code, _detail(response))
        return response

    def _call(self, method: str, path: str, kind: type[T], body: Any = None) -> T:
        data = None if body is None else msgspec.json.encode(body)
        headers = {"Content-Type": "application/json"} if body is not None else {}
        response = self.send(method, path, data=data, headers=headers)
        try:
            return msgspec.json.decode(response.content, type=kind)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise ClientError(f"{self.server} does not answer as a mindfleet server does: {error}") from error


def _origin(url: str) -> tuple[str | None, str | None, int | None]:
    """Scheme, host and port, parsed as the HTTP library does. Raises LocationParseError."""
    parsed = parse_url(url)
    return parsed.scheme, parsed.host, parsed.port or {"http": 80, "https": 443}.get(parsed.scheme or "")


def _reason(error: requests.ConnectionError) -> str:
    text = str(error)
    for known in ("Connection refused", "Name or service not known", "No route to host", "timed out"):
        if known in text:
            return known.lower()
    return "no connection"


def _detail(response: requests.Response) -> str:
    try:
        return msgspec.json.decode(response.content, type=api.Problem).detail
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return f"HTTP {response.status_code} {response.reason}"
