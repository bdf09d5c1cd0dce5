"""Errors of the fleet server. Each room adds its own branch; drivers translate foreign errors with ``raise ... from``.

    FleetError
    ├── BrokerError                    the MQTT broker and the server's link to it
    │   ├── BrokerStartFailed          the broker does not come up
    │   │   ├── BrokerBinaryMissing    its program is not installed
    │   │   └── BrokerPortInUse        something else listens on its port
    │   ├── BrokerNotStarted           asked for what exists only between start() and stop()
    │   ├── AccountRefused             a device account that cannot stand in the broker's files
    │   ├── AccountsNotLoaded          the broker did not take over changed accounts in time
    │   ├── CredentialsRefused         unknown user or wrong password
    │   ├── PasswordUnusable           a password that not every broker can verify
    │   ├── VerifierDamaged            a stored verifier that is not one
    │   └── PublishRefused             a message the broker would not take
    ├── ConfigurationError             a file, variable or flag of the server's configuration is wrong
    ├── StoreError                     the database
    │   ├── StoreUnavailable           locked, full or gone; nothing was changed
    │   ├── RecordRefused              a value that the database cannot hold
    │   ├── SchemaNewer                written by a newer version
    │   └── DataFolderLocked           another server uses this data folder
    ├── InvalidRequest                 a field of a request is wrong
    │   └── InvalidRollout             ... of a rollout
    ├── NotFound                       no such device, bundle, rollout or token
    ├── NotAllowedNow                  a verb that has no place in the present state
    ├── AlreadyThere                   a name or version that is taken
    ├── UnsignedBundle                 refused unless unsigned bundles are allowed
    ├── AccessDenied                   no or wrong credential
    ├── EnrolmentRefused               the token is unknown, used up or too old
    │   └── DeviceOnline               ... or would take the name of a device that is online
    ├── RegistryError                  carries an error code of the OCI distribution specification
    ├── AddressInUse                   the HTTP port is taken
    └── ClientError                    a command cannot get its answer from a server
        ├── ServerUnreachable
        └── ServerRefused              carries HTTP status and the server's line

Messages are one line: what happened, and the way out. Facts are attributes.
"""

from __future__ import annotations


class FleetError(Exception):
    """Root of every error that the fleet server raises by itself."""


# --- broker ----------------------------------------------------------------------------------------------------------


class BrokerError(FleetError):
    """Root of the broker room."""


class BrokerStartFailed(BrokerError):
    """``broker`` is the driver's name, ``reason`` what went wrong, ``way_out`` what to do about it."""

    def __init__(self, broker: str, reason: str, way_out: str) -> None:
        super().__init__(f"{broker} broker did not start: {reason}; {way_out}")
        self.broker = broker
        self.reason = reason
        self.way_out = way_out


class BrokerBinaryMissing(BrokerStartFailed):
    """``binary`` is the program's name."""

    def __init__(self, broker: str, binary: str, way_out: str) -> None:
        super().__init__(broker, f"the program {binary} is not installed", way_out)
        self.binary = binary


class BrokerPortInUse(BrokerStartFailed):
    """``host`` and ``port`` are already listened on."""

    def __init__(self, broker: str, host: str, port: int) -> None:
        super().__init__(
            broker,
            f"port {port} on {host} is in use",
            "stop the program that listens there or choose another with --mqtt-port",
        )
        self.host = host
        self.port = port


class BrokerNotStarted(BrokerError):
    """``wanted`` exists only while the broker is started."""

    def __init__(self, wanted: str) -> None:
        super().__init__(f"the broker is not started, so it has no {wanted}; call start() first")
        self.wanted = wanted


class AccountRefused(BrokerError):
    """``username`` and the ``reason`` it cannot be an account."""

    def __init__(self, username: str, reason: str) -> None:
        super().__init__(f"account {username[:80]!r}: {reason}")
        self.username = username
        self.reason = reason


class AccountsNotLoaded(BrokerError):
    """The files are written and load at the broker's next start; until then the old accounts are in force."""

    def __init__(self, broker: str, waited_s: float) -> None:
        super().__init__(
            f"{broker} broker did not load the changed accounts within {waited_s:g} s; they load at its next start"
        )
        self.broker = broker
        self.waited_s = waited_s


class CredentialsRefused(BrokerError):
    """``username`` is unknown or the password is wrong (which of the two is not told)."""

    def __init__(self, username: str) -> None:
        super().__init__(f"user {username[:80]!r} refused: unknown user or wrong password")
        self.username = username


class PasswordUnusable(BrokerError):
    """``reason`` says why no verifier can be made; the password itself is never in the message."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"password cannot be used: {reason}")
        self.reason = reason


class VerifierDamaged(BrokerError):
    """``kind`` names the verifier (bcrypt or mosquitto)."""

    def __init__(self, kind: str) -> None:
        super().__init__(f"the stored {kind} verifier is damaged; enrol the device again")
        self.kind = kind


class PublishRefused(BrokerError):
    """``topic`` and the ``reason`` the message was not taken; it was not sent and will not be."""

    def __init__(self, topic: str, reason: str) -> None:
        super().__init__(f"message for {topic[:200]}: {reason}")
        self.topic = topic
        self.reason = reason


class ConfigurationError(FleetError):
    """``where`` names the file, variable or flag."""

    def __init__(self, where: str, reason: str) -> None:
        super().__init__(f"{where}: {reason}")
        self.where = where
        self.reason = reason


# --- store -----------------------------------------------------------------------------------------------------------


class StoreError(FleetError):
    """Root of the store."""


class StoreUnavailable(StoreError):
    """The transaction was rolled back; it may be tried again. ``reason`` is the database's own word."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"the database did not take the change ({reason}); nothing was changed")
        self.reason = reason


class RecordRefused(StoreError):
    """A value no database takes (a number beyond 64 bits, a NUL in a text); trying again does not help."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"the database cannot hold the value ({reason}); nothing was changed")
        self.reason = reason


class SchemaNewer(StoreError):
    """``found`` is the database's schema version, ``known`` the newest that this program knows."""

    def __init__(self, found: str, known: str) -> None:
        super().__init__(f"the database has schema {found}, this version knows up to {known}: update mindedge")
        self.found = found
        self.known = known


class DataFolderLocked(StoreError):
    """``folder`` is in use by another server."""

    def __init__(self, folder: str) -> None:
        super().__init__(f"{folder} is in use by another mindfleet serve: stop it or choose another --data")
        self.folder = folder


# --- requests --------------------------------------------------------------------------------------------------------


class InvalidRequest(FleetError):
    """``where`` names the field of the request, ``reason`` what is wrong with it."""

    def __init__(self, where: str, reason: str) -> None:
        super().__init__(f"{where}: {reason}")
        self.where = where
        self.reason = reason


class InvalidRollout(InvalidRequest):
    """A rollout that cannot be."""


class NotFound(FleetError):
    """``kind`` ("device", "rollout", ...) and the ``name`` that is not there."""

    def __init__(self, kind: str, name: str) -> None:
        super().__init__(f"no {kind} {name[:100]!r}")
        self.kind = kind
        self.name = name


class NotAllowedNow(FleetError):
    """``verb`` cannot be done to ``what`` in its present ``state``."""

    def __init__(self, verb: str, what: str, state: str) -> None:
        super().__init__(f"cannot {verb} {what}: it is {state}")
        self.verb = verb
        self.what = what
        self.state = state


class AlreadyThere(FleetError):
    """``what`` exists with other content."""

    def __init__(self, what: str, reason: str) -> None:
        super().__init__(f"{what}: {reason}")
        self.what = what
        self.reason = reason


class UnsignedBundle(FleetError):
    """``bundle`` names it."""

    def __init__(self, bundle: str) -> None:
        super().__init__(f"unsigned bundle: {bundle} has no signature; pass --allow-unsigned to use it all the same")
        self.bundle = bundle


class AccessDenied(FleetError):
    """``known`` False: no usable credential came (401); True: it came and does not permit this (403)."""

    def __init__(self, reason: str, *, known: bool = False) -> None:
        super().__init__(reason)
        self.reason = reason
        self.known = known


class EnrolmentRefused(FleetError):
    """``reason`` is for the device's operator. It never tells whether a secret was nearly right."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"enrolment refused: {reason}")
        self.reason = reason


class DeviceOnline(EnrolmentRefused):
    """``device`` is online under its present identity, which a new one would end."""

    def __init__(self, device: str) -> None:
        super().__init__(
            f"a device named {device!r} is online and would lose its identity: enrol under another name, stop it first,"
            " or replace it (mindie enroll --force)"
        )
        self.device = device


class RegistryError(FleetError):
    """``code`` is of the OCI distribution specification ("BLOB_UNKNOWN", "DIGEST_INVALID", ...)."""

    def __init__(self, code: str, reason: str) -> None:
        super().__init__(reason)
        self.code = code
        self.reason = reason


class AddressInUse(FleetError):
    """``host`` and ``port`` are already listened on."""

    def __init__(self, host: str, port: int) -> None:
        super().__init__(f"port {port} on {host} is in use: stop what listens there or choose another with --port")
        self.host = host
        self.port = port


# --- commands --------------------------------------------------------------------------------------------------------


class ClientError(FleetError):
    """A command cannot get its answer."""


class ServerUnreachable(ClientError):
    """``server`` is the address that was tried."""

    def __init__(self, server: str, reason: str) -> None:
        super().__init__(f"{server} is not reachable ({reason}): start mindfleet serve or choose another --server")
        self.server = server
        self.reason = reason


class ServerRefused(ClientError):
    """The server answered with ``status`` and a line saying why."""

    def __init__(self, status: int, detail: str) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail
