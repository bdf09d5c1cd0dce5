"""The server process. Arguments are inherited descriptors; agent.serving.process starts it, not a person."""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import socket

from agent.parent_death import end_with_parent
from agent.serving.server import serve


def main() -> None:
    """Entry point."""
    parser = argparse.ArgumentParser(prog="agent.serving", description="Started by mindie, not by hand.")
    parser.add_argument("--control", type=int, required=True)
    parser.add_argument("--listen", type=int, action="append", default=[])
    parser.add_argument("--parent", type=int, required=True)
    args = parser.parse_args()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)  # the parent decides when to stop, so that nothing in flight is lost
    end_with_parent(args.parent)
    _use_uvloop()
    listeners = [socket.socket(fileno=descriptor) for descriptor in args.listen]
    asyncio.run(serve(socket.socket(fileno=args.control), listeners))
    os._exit(0)  # connections that did not drain in time end here


def _use_uvloop() -> None:
    try:
        import uvloop
    except ImportError:
        return  # asyncio's own loop serves as well, more slowly
    asyncio.set_event_loop_policy(uvloop.EventLoopPolicy())


if __name__ == "__main__":
    main()
