"""sd_notify: tells systemd that the daemon is ready or stopping. Does nothing where NOTIFY_SOCKET is not set.

Source: sd_notify(3), one datagram of KEY=VALUE lines; an address that begins with @ is in the abstract name space.
"""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Mapping


def notify(environ: Mapping[str, str], state: str) -> None:
    """``state`` is "READY=1", "STOPPING=1" or "STATUS=...". Never raises: nobody may be listening."""
    address = environ.get("NOTIFY_SOCKET", "")
    if not address:
        return
    if address.startswith("@"):
        address = "\0" + address[1:]
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel:
        channel.sendto(state.encode(), address)
