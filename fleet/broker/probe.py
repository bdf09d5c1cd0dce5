"""Asks a broker one thing: does it accept this login right now? One MQTT 3.1.1 CONNECT on a connection of its own.

An accepted login proves more than an open port: the broker is up, its store is loaded, and the accounts in force are
those that were written (each writing has a new probe password).
"""

from __future__ import annotations

import enum
import socket

from fleet.broker.broker import BrokerAddress

_CONNECT = 0x10
_CONNACK = 0x20
_DISCONNECT = b"\xe0\x00"
_USERNAME_PASSWORD_CLEAN = 0xC2
_KEEPALIVE_S = 10


class Answer(enum.Enum):
    ACCEPTED = "accepted"
    REFUSED = "refused"
    SILENT = "silent"
    """No connection, no answer in time, or an answer that is not MQTT."""


def ask(address: BrokerAddress, client_id: str, username: str, password: str, timeout_s: float) -> Answer:
    """Connects, logs in, leaves. Raises nothing: a broker that cannot be reached is SILENT."""
    try:
        with socket.create_connection((address.host, address.port), timeout_s) as connection:
            connection.settimeout(timeout_s)
            connection.sendall(connect_packet(client_id, username, password))
            reply = _receive(connection, 4)
            if len(reply) == 4 and reply[3] == 0:
                connection.sendall(_DISCONNECT)
    except OSError:
        return Answer.SILENT
    if len(reply) != 4 or reply[0] != _CONNACK:
        return Answer.SILENT
    return Answer.ACCEPTED if reply[3] == 0 else Answer.REFUSED


def connect_packet(client_id: str, username: str, password: str) -> bytes:
    """MQTT 3.1.1 section 3.1: protocol MQTT level 4, clean session, the three strings at most 100 bytes in sum."""
    body = _string("MQTT") + bytes([4, _USERNAME_PASSWORD_CLEAN]) + _KEEPALIVE_S.to_bytes(2, "big")
    body += _string(client_id) + _string(username) + _string(password)
    if len(body) > 127:
        raise ValueError(f"probe login of {len(body)} bytes needs a longer length field than one byte")
    return bytes([_CONNECT, len(body)]) + body


def _string(text: str) -> bytes:
    raw = text.encode()
    return len(raw).to_bytes(2, "big") + raw


def _receive(connection: socket.socket, size: int) -> bytes:
    received = b""
    while len(received) < size:
        chunk = connection.recv(size - len(received))
        if not chunk:
            break
        received += chunk
    return received
