"""Who is asking: the operator by a bearer token, a device by its id and password."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from collections.abc import Callable
from dataclasses import dataclass

from fleet.errors import AccessDenied

_HOW = "send the operator's token as `Authorization: Bearer ...`"


@dataclass(frozen=True)
class Caller:
    """``operator`` True: the operator; else ``name`` is the device."""

    name: str
    operator: bool


class Access:
    """``check_device(device, password)`` is asked for Basic credentials. Tokens are compared in constant time."""

    def __init__(self, operator_token: str, check_device: Callable[[str, str], bool]) -> None:
        self._operator_sha256 = _sha256(operator_token)
        self._check_device = check_device

    def caller(self, authorization: str | None) -> Caller:
        """Raises AccessDenied."""
        scheme, _, value = (authorization or "").partition(" ")
        if scheme.lower() == "bearer" and hmac.compare_digest(_sha256(value.strip()), self._operator_sha256):
            return Caller("operator", operator=True)
        if scheme.lower() == "basic":
            device, password = _basic(value)
            if self._check_device(device, password):
                return Caller(device, operator=False)
        if not authorization:
            raise AccessDenied(f"no credential came with the request: {_HOW}")
        raise AccessDenied(f"the credential is not known here: {_HOW}")

    def operator(self, authorization: str | None) -> Caller:
        """Raises AccessDenied, also for a device."""
        caller = self.caller(authorization)
        if not caller.operator:
            raise AccessDenied("a device may not do this: the operator's token is needed", known=True)
        return caller


def _sha256(text: str) -> bytes:
    return hashlib.sha256(text.encode(errors="surrogateescape")).digest()


def _basic(value: str) -> tuple[str, str]:
    try:
        device, _, password = base64.b64decode(value.strip(), validate=True).decode().partition(":")
    except (binascii.Error, ValueError) as error:
        raise AccessDenied("the Basic credential is not readable") from error
    return device, password
