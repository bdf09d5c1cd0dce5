"""`mindie doctor`: what is wrong on this device, or could be better, and how to fix it."""

from __future__ import annotations

import argparse
import os
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from agent.doctor.finding import Finding

EXAMPLES = """examples:
  mindie doctor           findings in words, each with its fix; exit status 1 when something needs fixing
  mindie doctor --json    the same as one JSON document
"""


def register(subparsers: Any, common: argparse.ArgumentParser) -> None:
    """Add the command."""
    parser = subparsers.add_parser(
        "doctor", parents=[common], help="find what is wrong on this device, with the fix for each",
        description="Looks at the installation, the device, its clock and disk and, where a daemon runs, at how it "
        "serves. Changes nothing. Exit status 0: nothing is wrong; 1: something needs fixing.",
        epilog=EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """0 when nothing is wrong (there may be hints), 1 when something needs fixing."""
    from agent.clock import SystemClock
    from agent.config import load_config
    from agent.doctor.diagnose import diagnose, has_fault
    from agent.doctor.gather import gather

    facts = gather(load_config(args, os.environ), os.environ, SystemClock().now_ms)
    findings = diagnose(facts)
    if args.json:
        from agent.cli.terminal import print_json

        print_json({"ok": not has_fault(findings), "daemon": facts.has_daemon, "findings": findings})
    else:
        sys.stdout.write(render(findings, has_daemon=facts.has_daemon))
    return 1 if has_fault(findings) else 0


def render(findings: list[Finding], *, has_daemon: bool) -> str:
    """One paragraph for each finding. Pure."""
    lines = []
    for finding in findings:
        lines += [f"{finding.severity.value.upper()} {finding.code}: {finding.text}", f"      fix: {finding.fix}"]
    if not findings:
        lines.append("nothing is wrong")
    if not has_daemon:
        lines.append("(no daemon runs: how models are served was not looked at)")
    return "\n".join(lines) + "\n"
