"""How models are served, as flags of `mindie run` and `mindie serve`, over the table ``serving`` of the file.

None has a default here: a flag that is not given leaves what file and environment say (agent.config).
"""

from __future__ import annotations

import argparse


def add_serving_flags(parser: argparse.ArgumentParser) -> None:
    """Address, batching, limits, and what clients must show."""
    parser.add_argument("--host", help="address to serve on (default 127.0.0.1)")
    parser.add_argument("--port", type=int, help="port to serve on (default 8000; 0: a free one)")
    parser.add_argument("--uds", metavar="FILE", help="serve on this Unix socket as well")
    parser.add_argument("--cpus", metavar="LIST", help="CPUs to use, such as 0,2-3 (default: all this process may)")
    parser.add_argument("--race-budget", type=float, metavar="S", help="seconds for one race of candidates")
    parser.add_argument(
        "--enable-batch-inference", action="store_true", default=None, help="run waiting requests together"
    )
    parser.add_argument("--max-batch", type=int, metavar="N", help="rows that run together (default 8)")
    parser.add_argument("--max-delay-ms", type=float, metavar="MS", help="longest wait for them (default 2)")
    parser.add_argument("--max-body-mb", type=int, metavar="MB", help="largest request body (default 64)")
    parser.add_argument("--max-queue", type=int, metavar="N", help="waiting requests (default 256)")
    parser.add_argument("--request-timeout", type=float, metavar="S", help="longest wait for an answer (default 60)")
    parser.add_argument(
        "--token-file", dest="client_token_file", metavar="FILE", help="ask clients for the bearer token in this file"
    )
    parser.add_argument("--tls-cert", metavar="FILE", help="certificate chain, PEM: serve HTTPS")
    parser.add_argument("--tls-key", metavar="FILE", help="private key of --tls-cert, PEM")
