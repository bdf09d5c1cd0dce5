"""``mindfleet device list|show``."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from fleet.cli.command import add_command
from fleet.domain.plain_words import count, significant, state_text

if TYPE_CHECKING:
    from fleet.http.api_types import DeviceView, ModelView

MAX_REASON, MAX_LINE = 70, 300
"""Characters of a reason in a list, and on the page of one device."""


def register(subparsers: argparse._SubParsersAction[Any], parents: list[argparse.ArgumentParser]) -> None:
    group = add_command(subparsers, "device", "devices: what they are and what they serve", "device list")
    verbs = group.add_subparsers(dest="verb", metavar="VERB", required=True)
    listing = add_command(verbs, "list", "all devices", "device list --data ./fleet", parents)
    listing.set_defaults(run=run_list)
    show = add_command(verbs, "show", "one device: choice, evidence, events", "device show cam-1 --json", parents)
    show.add_argument("device", metavar="DEVICE", help="its id, as `mindfleet device list` shows it")
    show.set_defaults(run=run_show)


def run_list(args: argparse.Namespace) -> int:
    """All devices."""
    from fleet.cli.connection import client
    from fleet.cli.output import print_json, print_table

    devices = client(args).devices()
    if args.json:
        print_json(devices)
        return 0
    header = (
        "DEVICE",
        "ONLINE",
        "BOARD",
        "CPUS",
        "BUNDLE",
        "BACKEND",
        "RACE P90",
        "SERVED P90",
        "REQUESTS",
        "VS ORT",
        "ACCURACY",
        "STATE",
    )
    print_table(header, [row for device in devices for row in _rows(device)])
    return 0


def run_show(args: argparse.Namespace) -> int:
    """One device."""
    from fleet.cli.connection import client
    from fleet.cli.output import moment, print_json

    detail = client(args).device(args.device)
    if args.json:
        print_json(detail)
        return 0
    device = detail.device
    presence = "online" if device.online else "offline"
    print(f"{device.id}  {presence}  site {device.site}  board {device.board or 'unknown'}")
    for model in device.models:
        print(f"  {model.name} {model.version or '(nothing serves)'}: {backend_text(model)}")
        print(f"    last deployment {model.deployment or '-'}: {_state(model, MAX_LINE)}")
        if model.why:
            print(f"    chosen because {model.why}")
    for event in detail.events[:20]:
        print(f"  {moment(event.at_ms)}  {event.kind}: {event.text}")
    return 0


def backend_text(model: ModelView) -> str:
    """For example "openvino int8, 2 threads"."""
    if model.backend is None:
        return "-"
    threads = f", {count(model.backend.threads, 'thread')}" if model.backend.threads else ""
    return f"{model.backend.runtime} {model.backend.precision}{threads}"


def milliseconds(value: float | None) -> str | None:
    """Three significant digits, with the unit."""
    return None if value is None else f"{significant(value)} ms"


def _rows(device: DeviceView) -> list[tuple[object, ...]]:
    head = (device.id, "yes" if device.online else "no", device.board, device.budget_cpus)
    if not device.models:
        return [(*head, *[None] * 7, device.state)]
    return [
        (
            *head,
            f"{model.name} {model.version}" if model.version else None,
            backend_text(model),
            milliseconds(model.race_p90_ms),
            milliseconds(model.p90_ms),
            model.requests,
            model.ratio_vs_onnxruntime_default,
            model.accuracy,
            _state(model),
        )
        for model in device.models
    ]


def _state(model: ModelView, most: int = MAX_REASON) -> str:
    """With the reason where something went wrong, in at most ``most`` characters."""
    attempted = f" {model.attempted_version}" if model.attempted_version not in (None, model.version) else ""
    reason = model.regressed or (model.reason if model.state != "committed" else None)
    if reason and len(reason) > most:
        reason = reason[: most - 3] + "..."
    return f"{state_text(model.state or 'waiting')}{attempted}" + (f": {reason}" if reason else "")
