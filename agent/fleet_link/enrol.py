"""Joining a fleet: one HTTP exchange that uses up a one-time token (edge_contracts.enrolment)."""

from __future__ import annotations

from dataclasses import dataclass
from http import HTTPStatus

import msgspec
import requests

from agent.config import DownloadConfig
from agent.errors import LinkError
from agent.fleet_link.identity import Identity
from edge_contracts.enrolment import EnrolmentToken, EnrolRequest, EnrolResponse
from edge_contracts.errors import MalformedMessage
from edge_contracts.names import device_name

TIMEOUT_S = 30.0
MAX_ANSWER_BYTES = 64 * 1024


@dataclass(frozen=True)
class Enrolled:
    """``replaced``: a device of this name was known; its former password opens nothing any more."""

    identity: Identity
    replaced: bool


class _Problem(msgspec.Struct):
    detail: str = ""


def enrol(
    token: EnrolmentToken, request: EnrolRequest, session: requests.Session, config: DownloadConfig, server: str
) -> Enrolled:
    """Use the token up at ``server``. Raises LinkError with the server's own words."""
    url = f"{server.rstrip('/')}/api/v1/enroll"
    try:
        with session.post(
            url, data=msgspec.json.encode(request), headers={"Content-Type": "application/json"},
            timeout=(config.connect_timeout_s, TIMEOUT_S), allow_redirects=False, stream=True,
        ) as response:  # fmt: skip
            body = response.raw.read(MAX_ANSWER_BYTES, decode_content=True)
            status = response.status_code
    except (requests.RequestException, OSError) as error:
        raise LinkError(f"{server} cannot be reached ({type(error).__name__}): is `mindfleet serve` running there, and "
                        "is its address right (--server)?") from error  # fmt: skip
    if status not in (HTTPStatus.OK, HTTPStatus.CREATED):
        raise LinkError(f"{server} refuses the enrolment ({status}): {_detail(body)}")
    return _enrolled(body, server, token)


def _enrolled(body: bytes, server: str, token: EnrolmentToken) -> Enrolled:
    del token  # its pins (root, CA) are checked here once signing and TLS exist
    try:
        answer = msgspec.json.decode(body, type=EnrolResponse)
        device_name(answer.device), device_name(answer.site, "site")
    except (msgspec.MsgspecError, UnicodeDecodeError, MalformedMessage) as error:
        raise LinkError(f"{server} answered the enrolment with something else ({error}): is it a mindfleet?") from error
    identity = Identity(
        device=answer.device, site=answer.site, password=answer.password, server=server.rstrip("/"), mqtt=answer.mqtt
    )
    return Enrolled(identity, answer.replaced)


def _detail(body: bytes) -> str:
    try:
        return msgspec.json.decode(body, type=_Problem).detail or "no reason given"
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return "no reason given"
