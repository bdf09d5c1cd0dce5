"""The HTTP port is taken for good before anything else of the server starts."""

from __future__ import annotations

import contextlib

import pytest

from fleet.errors import AddressInUse
from fleet.http.listener import bind


def test_of_two_servers_that_start_together_the_second_learns_that_the_port_is_taken() -> None:
    with contextlib.closing(bind("127.0.0.1", 0)) as first, pytest.raises(AddressInUse, match="--port"):
        bind("127.0.0.1", first.getsockname()[1]).close()
