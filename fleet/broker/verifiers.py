"""What the server keeps instead of a device's password: one verifier for each broker that may have to check it.

Verifiers are made once, when the password is issued, since a hash of one kind cannot be turned into the other later.
Passwords are random (the server issues them), so low work factors are right: bcrypt at cost 11 makes a thousand
reconnecting devices wait for minutes, and mosquitto repeats its PBKDF2 for every connected device at each reload.
"""

from __future__ import annotations

import base64
import hashlib
import re

import bcrypt
import msgspec

from fleet.errors import PasswordUnusable, VerifierDamaged

SALT_BYTES = 16
MAX_PASSWORD_BYTES = 72  # all that bcrypt looks at
BCRYPT_COST = 4
PBKDF2_ITERATIONS = 101  # mosquitto_passwd's own default
_MOSQUITTO_SALT_BYTES = 12  # mosquitto 2.0 takes no other length

_BCRYPT = re.compile(r"\$2[aby]\$[0-9]{2}\$[./A-Za-z0-9]{53}")
_MOSQUITTO = re.compile(r"\$7\$[1-9][0-9]{0,6}\$[A-Za-z0-9+/]{16}\$[A-Za-z0-9+/]{86}==")
_TO_BCRYPT_ALPHABET = bytes.maketrans(
    b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/",
    b"./ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789",
)


class Verifiers(msgspec.Struct, frozen=True):
    """Stored as JSON with the device. They stand in configuration files: their form is checked here, on decoding too.

    ``bcrypt``: ``$2a$04$...``, for NATS and the HTTP Basic check. ``mosquitto``: ``$7$iterations$salt$hash``
    (PBKDF2-HMAC-SHA512), a line of its password file without the user name. Raises VerifierDamaged.
    """

    bcrypt: str
    mosquitto: str

    def __post_init__(self) -> None:
        if not _BCRYPT.fullmatch(self.bcrypt):
            raise VerifierDamaged("bcrypt")
        if not _MOSQUITTO.fullmatch(self.mosquitto):
            raise VerifierDamaged("mosquitto")


def make_verifiers(password: str, *, salt: bytes) -> Verifiers:
    """Verifiers of ``password``; the same password and ``salt`` (16 random bytes) give the same verifiers.

    Raises PasswordUnusable unless the password is 1 to 72 printable ASCII characters (what both brokers, HTTP Basic
    and MQTT read alike).
    """
    if len(salt) != SALT_BYTES:
        raise ValueError(f"salt must be {SALT_BYTES} bytes, not {len(salt)}")
    if not 1 <= len(password) <= MAX_PASSWORD_BYTES:
        raise PasswordUnusable(f"it has {len(password)} characters, 1 to {MAX_PASSWORD_BYTES} are allowed")
    if not (password.isascii() and password.isprintable()):
        raise PasswordUnusable("only printable ASCII characters are allowed")
    return Verifiers(bcrypt=_bcrypt(password.encode(), salt), mosquitto=_mosquitto(password.encode(), salt))


def check_password(verifiers: Verifiers, password: str) -> bool:
    """Whether ``password`` is the one the verifiers were made of. Any string may be asked; takes about 1 ms."""
    raw = password.encode(errors="surrogateescape")
    if not 1 <= len(raw) <= MAX_PASSWORD_BYTES or b"\0" in raw:
        return False
    return bcrypt.checkpw(raw, verifiers.bcrypt.encode())


def _bcrypt(password: bytes, salt: bytes) -> str:
    encoded = base64.b64encode(salt)[:22].translate(_TO_BCRYPT_ALPHABET)
    return bcrypt.hashpw(password, b"$2a$%02d$" % BCRYPT_COST + encoded).decode()


def _mosquitto(password: bytes, salt: bytes) -> str:
    salt = salt[:_MOSQUITTO_SALT_BYTES]
    digest = hashlib.pbkdf2_hmac("sha512", password, salt, PBKDF2_ITERATIONS)
    return f"$7${PBKDF2_ITERATIONS}${base64.b64encode(salt).decode()}${base64.b64encode(digest).decode()}"
