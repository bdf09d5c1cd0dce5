"""``mindfleet device list|show``."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from fleet.cli.command import add_command

if TYPE_CHECKING:
    from fleet.http.api_types import DeviceView, ModelView

MAX_REASON = 70


def register(subparsers: argparse._SubParsersAction[Any], parents: list[argparse.ArgumentParser]) -> None:
    group = add_command(subparsers, "device", "devices: what they are and what they serve", "device list")
    verbs = group.add_subparsers(dest="verb", metavar="VERB", required=True)
    listing = add_command(verbs, "list", "all devices", "device list --data ./fleet", parents)
    listing.set_defaults(run=run_list)
    show = add_command(verbs, "show", "one device: choice, evidence, events", "device show cam-1 --json", parents)
    show.add_argument("device")
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
        "P50 MS",
        "P90 MS",
        "VS ORT",
        "ACCURACY",
        "STATE",
    )
    print_table(header, [row for device in devices for row in _rows(device)])
    return 0


def run_show(args: argparse.Namespace) -> int:
    """One device."""
    from fleet.cli.connection import client
    from fleet.cli.output import print_json

    detail = client(args).device(args.device)
    if args.json:
        print_json(detail)
        return 0
    device = detail.device
    presence = "online" if device.online else "offline"
    print(f"{device.id}  {presence}  site {device.site}  board {device.board or 'unknown'}")
    for model in device.models:
        print(f"  {model.name} {model.version or '(nothing serves)'}: {backend_text(model)}")
        print(f"    last deployment {model.deployment or '-'}: {model.state or '-'}  {model.reason or ''}".rstrip())
        if model.why:
            print(f"    chosen because {model.why}")
    for event in detail.events[:20]:
        print(f"  {event.at_ms}  {event.kind}: {event.text}")
    return 0


def backend_text(model: ModelView) -> str:
    """For example "openvino int8, 2 threads"."""
    if model.backend is None:
        return "-"
    threads = f", {model.backend.threads} thread{'s' * (model.backend.threads != 1)}" if model.backend.threads else ""
    return f"{model.backend.runtime} {model.backend.precision}{threads}"


def _rows(device: DeviceView) -> list[tuple[object, ...]]:
    head = (device.id, "yes" if device.online else "no", device.board, device.budget_cpus)
    if not device.models:
        return [(*head, *[None] * 6, device.state)]
    return [
        (
            *head,
            f"{model.name} {model.version}" if model.version else None,
            backend_text(model),
            model.p50_ms if model.p50_ms is not None else model.race_p50_ms,
            model.p90_ms if model.p90_ms is not None else model.race_p90_ms,
            model.ratio_vs_onnxruntime_default,
            model.accuracy,
            _state(model),
        )
        for model in device.models
    ]


def _state(model: ModelView) -> str:
    """With the reason where something went wrong; all of it is in `device show`."""
    attempted = f" {model.attempted_version}" if model.attempted_version not in (None, model.version) else ""
    reason = model.regressed or (model.reason if model.state != "committed" else None)
    if reason and len(reason) > MAX_REASON:
        reason = reason[: MAX_REASON - 3] + "..."
    return f"{model.state or 'waiting'}{attempted}" + (f": {reason}" if reason else "")
