"""How a device joins a fleet: the one-time token an operator hands out, and the one HTTP exchange that uses it up.

    POST {server}/api/v1/enroll      EnrolRequest -> EnrolResponse

The token is ``mindedge1.`` and base64url of JSON: the server's address, a secret, and the SHA-256 of the TUF root and
of the server's CA where there are any, so that a device needs nothing else to trust the right server.
"""

from __future__ import annotations

import base64
import binascii
import re

import msgspec

from edge_contracts.capabilities import Capabilities
from edge_contracts.errors import MalformedMessage

TOKEN_PREFIX = "mindedge1."  # noqa: S105 - a format mark, not a secret
_URL = re.compile(r"https?://[^\s/?#]+(/[^\s?#]*)?")


class EnrolmentToken(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a token carries. ``root_sha256`` and ``ca_sha256``: lower-case hex."""

    server: str
    secret: str
    root_sha256: str | None = None
    ca_sha256: str | None = None


class EnrolRequest(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """``device``: the id it would like; None lets the server choose. ``fingerprint``: stable hash of hardware ids.

    replace: take the name even from a device that is online (the same hardware all the same); without it the server
    answers 409.
    """

    secret: str
    device: str | None = None
    fingerprint: str | None = None
    capabilities: Capabilities | None = None
    labels: dict[str, str] = {}
    replace: bool = False


class MqttEndpoint(msgspec.Struct, frozen=True, kw_only=True):
    """Where the broker is. ``host`` None: the host of the server's URL."""

    port: int
    host: str | None = None
    tls: bool = False


class EnrolResponse(msgspec.Struct, frozen=True, kw_only=True):
    """The device's identity. ``password`` is told once; it serves MQTT and, as HTTP Basic with ``device``, ``/v2``.

    replaced: a device of this name was known; its former password opens nothing any more.
    """

    device: str
    site: str
    password: str
    mqtt: MqttEndpoint
    replaced: bool = False


def encode_token(token: EnrolmentToken) -> str:
    """One line of ASCII without spaces."""
    return TOKEN_PREFIX + base64.urlsafe_b64encode(msgspec.json.encode(token)).decode().rstrip("=")


def parse_token(text: str) -> EnrolmentToken:
    """The inverse of encode_token, surrounding white space ignored. Raises MalformedMessage."""
    text = text.strip()
    if not text.startswith(TOKEN_PREFIX):
        raise MalformedMessage("enrolment token", f"does not start with {TOKEN_PREFIX}: make one with "
                               "`mindfleet token create`")  # fmt: skip
    body = text[len(TOKEN_PREFIX) :]
    try:
        raw = base64.b64decode(body + "=" * (-len(body) % 4), altchars=b"-_", validate=True)
        token = msgspec.json.decode(raw, type=EnrolmentToken)
    except (binascii.Error, msgspec.MsgspecError, UnicodeDecodeError, ValueError) as error:
        raise MalformedMessage("enrolment token", "is cut short or changed: copy the whole line") from error
    if not _URL.fullmatch(token.server) or not token.secret:
        raise MalformedMessage("enrolment token", "carries no usable server address or secret")
    return token
