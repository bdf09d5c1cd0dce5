"""The main job from end to end, with real parts: one model in, a small fleet serving it, a bad update undone.

python -m examples.demo [--keep] [--json] [--work DIR]
"""

from __future__ import annotations

import argparse
import contextlib
import json
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from examples.demo.commands import CommandFailed
from examples.demo.fleet_in_small import FleetInSmall
from examples.demo.narration import Narrator
from examples.demo.steps import Demo, NotSeen


def main(argv: list[str] | None = None) -> int:
    """Exit 0 only if every step was seen to do what it must."""
    parser = argparse.ArgumentParser(prog="python -m examples.demo", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--keep", action="store_true", help="leave the fleet running and print how to open the TUI")
    parser.add_argument("--json", action="store_true", help="print the facts as one JSON document on stdout")
    parser.add_argument("--work", type=Path, help="folder for all data (default: a temporary one, removed at the end)")
    args = parser.parse_args(argv)
    signal.signal(signal.SIGTERM, _interrupt)
    work = args.work or Path(tempfile.mkdtemp(prefix="mindedge-demo-"))
    work.mkdir(parents=True, exist_ok=True)
    narrator = Narrator()
    fleet = FleetInSmall(work, narrator)
    demo = Demo(fleet, narrator)
    status, reason = 1, ""
    try:
        demo.run()
        status = 0
        if args.keep:
            _keep(fleet, narrator, lambda: _print_facts(args.json, demo, True, ""))
    except (CommandFailed, NotSeen) as error:
        reason = str(error)
        narrator.warn(f"FAILED: {reason}")
        narrator.say(f"logs are in {work}")
    except KeyboardInterrupt:
        status, reason = 130, "interrupted"
        narrator.say(reason)
    finally:
        left = _shut_down(fleet)
    if left:
        status, reason = 1, f"processes left running: {left}"
        narrator.warn(f"FAILED: {reason}")
    if status == 0:
        narrator.say(f"All seen, nothing left running. {narrator.seconds:.0f} s.")
    if not (args.keep and status == 0):
        _print_facts(args.json, demo, status == 0, reason)
    if status != 1 and args.work is None:
        shutil.rmtree(work, ignore_errors=True)
    return status


def _print_facts(as_json: bool, demo: Demo, passed: bool, reason: str) -> None:
    if as_json:
        outcome = {"passed": passed, "reason": reason, "seconds": round(demo.narrator.seconds, 1)}
        print(json.dumps({**outcome, **demo.facts}, indent=2), flush=True)


def _keep(fleet: FleetInSmall, narrator: Narrator, print_facts: Callable[[], None]) -> None:
    """Wait for Ctrl-C; a program that asked for the facts gets them while the fleet is up."""
    token = fleet.server_data / "operator.token"
    narrator.say("The fleet stays up. In another terminal:")
    narrator.say(f"   .venv/bin/mindfleet tui --server {fleet.url} --token-file {token}")
    narrator.say("Ctrl-C here ends it.")
    print_facts()
    with contextlib.suppress(KeyboardInterrupt):
        signal.pause()


def _shut_down(fleet: FleetInSmall) -> list[int]:
    """Stop all; a second Ctrl-C must not leave half of it running."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        return fleet.stop()
    finally:
        signal.signal(signal.SIGINT, before)


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
