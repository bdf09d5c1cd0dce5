"""How devices join: one-time tokens, and the exchange of a token for a device's own credential."""

from __future__ import annotations

import base64
from collections.abc import Callable

import msgspec

from edge_contracts import names
from edge_contracts.enrolment import EnrolmentToken, EnrolRequest, EnrolResponse, MqttEndpoint, encode_token
from edge_contracts.errors import ContractError, MalformedMessage
from fleet.broker.verifiers import SALT_BYTES, Verifiers, check_password, make_verifiers
from fleet.domain.device import Device, DeviceState
from fleet.domain.identity import Credential, StoredToken, secret_hash, usable
from fleet.errors import DeviceOnline, EnrolmentRefused, InvalidRequest, NotFound
from fleet.services.accounts import AccountKeeper
from fleet.services.clock import NowMs
from fleet.store.unit_of_work import Store, UnitOfWork

SECRET_BYTES = 32
MAX_USES = 1_000_000


class Enrolment:
    """``endpoint()`` tells where the broker is; asked when a device enrols, since the port may be chosen at start."""

    def __init__(
        self,
        store: Store,
        accounts: AccountKeeper,
        endpoint: Callable[[], MqttEndpoint],
        now_ms: NowMs,
        random_bytes: Callable[[int], bytes],
    ) -> None:
        self._store = store
        self._accounts = accounts
        self._endpoint = endpoint
        self._now_ms = now_ms
        self._random_bytes = random_bytes

    def create_token(
        self, server: str, *, uses: int, expires_s: float | None, site: str, labels: dict[str, str]
    ) -> tuple[StoredToken, str]:
        """The token as stored and its one line for the device. Raises InvalidRequest naming the field."""
        if not 1 <= uses <= MAX_USES:
            raise InvalidRequest("uses", f"{uses} is not between 1 and {MAX_USES}")
        if expires_s is not None and not 0 < expires_s < 1e10:
            raise InvalidRequest("expires_s", f"{expires_s:g} is not a number of seconds > 0")
        if not server.startswith(("http://", "https://")):
            raise InvalidRequest("server", f"{server[:80]!r} does not begin with http:// or https://")
        try:
            names.device_name(site, "site")
        except MalformedMessage as error:
            raise InvalidRequest("site", error.reason) from error
        secret, now_ms = self._secret(), self._now_ms()
        token = StoredToken(
            id="t" + self._random_bytes(5).hex(),
            secret_sha256=secret_hash(secret),
            site=site,
            uses_left=uses,
            created_ms=now_ms,
            expires_ms=None if expires_s is None else now_ms + int(1000 * expires_s),
            labels=labels,
        )
        with self._store.write() as work:
            work.tokens.save([token])
            work.commit()
        return token, encode_token(EnrolmentToken(server=server, secret=secret))

    def tokens(self) -> list[StoredToken]:
        with self._store.read() as work:
            return work.tokens.find(newest_by="created_ms")

    def delete_token(self, token: str) -> None:
        """Raises NotFound."""
        with self._store.write() as work:
            if not work.tokens.delete({"id": token}):
                raise NotFound("token", token)
            work.commit()

    def enrol(self, request: EnrolRequest) -> EnrolResponse:
        """Uses the token up once and returns the identity; its account is in force when this returns.

        The token and the new device are one transaction: no use is lost, none is counted twice. A device that
        enrols again under its own name (same fingerprint, or the name was free) gets a new password and starts afresh;
        one that is online only if ``replace`` is set. Raises EnrolmentRefused, DeviceOnline, InvalidRequest.
        """
        password = self._secret()
        verifiers = make_verifiers(password, salt=self._random_bytes(SALT_BYTES))
        with self._store.write() as work:
            token = self._use(work, request.secret)
            device, replaced = self._device(work, request, token)
            work.devices.save([device])
            stored = msgspec.json.encode(verifiers).decode()
            work.credentials.save([Credential(device=device.id, site=device.site, verifiers=stored)])
            work.commit()
        self._accounts.changed()
        return EnrolResponse(
            device=device.id, site=device.site, password=password, mqtt=self._endpoint(), replaced=replaced
        )

    def check(self, device: str, password: str) -> bool:
        """Whether this is an active device's password."""
        with self._store.read() as work:
            credential = work.credentials.get(device)
            known = work.devices.get(device)
        if credential is None or known is None or known.state is not DeviceState.ACTIVE:
            return False
        return check_password(msgspec.json.decode(credential.verifiers, type=Verifiers), password)

    def _use(self, work: UnitOfWork, secret: str) -> StoredToken:
        found = work.tokens.find({"secret_sha256": secret_hash(secret)})
        token = work.tokens.get(found[0].id, lock=True) if found else None
        if token is None:
            raise EnrolmentRefused("the token is unknown: make one with `mindfleet token create`")
        if not usable(token, self._now_ms()):
            raise EnrolmentRefused("the token is used up or has expired: make one with `mindfleet token create`")
        work.tokens.save([msgspec.structs.replace(token, uses_left=token.uses_left - 1)])
        return token

    def _device(self, work: UnitOfWork, request: EnrolRequest, token: StoredToken) -> tuple[Device, bool]:
        """The new record, and whether it takes the place of a known device."""
        name = request.device or "d" + self._random_bytes(6).hex()
        try:
            names.device_name(name)
        except ContractError as error:
            raise InvalidRequest("device", str(error)) from error
        known = work.devices.get(name, lock=True)
        if known is not None:
            same = known.fingerprint is not None and known.fingerprint == request.fingerprint
            if not same or known.state is not DeviceState.ACTIVE:
                raise EnrolmentRefused(f"a device named {name!r} exists already: enrol under another name")
            if known.online and not request.replace:
                raise DeviceOnline(name)
        device = Device(
            id=name,
            site=token.site,
            enrolled_ms=self._now_ms(),
            labels={**request.labels, **token.labels},
            fingerprint=request.fingerprint,
            capabilities=request.capabilities,
            desired_version=known.desired_version + 1 if known is not None else 0,
        )
        return device, known is not None

    def _secret(self) -> str:
        return base64.urlsafe_b64encode(self._random_bytes(SECRET_BYTES)).decode().rstrip("=")
