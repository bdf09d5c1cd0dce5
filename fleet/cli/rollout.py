"""``mindfleet rollout create|list|status|start|pause|resume|abort|rollback``."""

from __future__ import annotations

import argparse
from typing import Any

from fleet.cli.command import add_command

VERBS = {
    "start": "begin a draft", "pause": "ask no further devices", "resume": "go on, accepting the failures so far",
    "abort": "end it; devices in the middle go back", "rollback": "send all devices back to what they had",
}  # fmt: skip
CREATE_EXAMPLE = "rollout create --bundle digits --version 1.0.0 --wave 1 --wave 100% --allow-unsigned --start"
STATUS_EXAMPLE = "rollout status\nrollout status --watch r1f0a9c2b3"


def register(subparsers: argparse._SubParsersAction[Any], parents: list[argparse.ArgumentParser]) -> None:
    group_examples = f"{CREATE_EXAMPLE}\n{STATUS_EXAMPLE}\nrollout pause r1f0a9c2b3"
    group = add_command(subparsers, "rollout", "bring a bundle to many devices, in waves", group_examples)
    verbs = group.add_subparsers(dest="verb", metavar="VERB", required=True)
    _register_create(add_command(verbs, "create", "make a rollout (a draft unless --start)", CREATE_EXAMPLE, parents))
    add_command(verbs, "list", "all rollouts, newest first", "rollout list", parents).set_defaults(run=run_list)
    status = add_command(verbs, "status", "waves, counts, devices, why it stopped", STATUS_EXAMPLE, parents)
    status.add_argument("rollout", metavar="ID", nargs="?", help="default: the newest rollout")
    status.add_argument("--watch", action="store_true", help="print changes until it ends or stops")
    status.set_defaults(run=run_status)
    for verb, text in VERBS.items():
        command = add_command(verbs, verb, text, f"rollout {verb} r1f0a9c2b3", parents)
        command.add_argument("rollout", metavar="ID", help="as `mindfleet rollout list` shows it")
        command.set_defaults(run=run_verb)


def _register_create(create: argparse.ArgumentParser) -> None:
    create.add_argument("--bundle", required=True, metavar="NAME", help="a registered bundle (`mindfleet bundle list`)")
    create.add_argument("--version", required=True, metavar="V", help="its version")
    create.add_argument("--name", metavar="N", help="what to call the rollout (default: bundle and version)")
    create.add_argument(
        "--wave", action="append", metavar="SIZE",
        help="a count (1) or share (50%%) of the devices; again for the next wave (default 100%%)",
    )  # fmt: skip
    create.add_argument("--max-in-flight", type=int, default=100, metavar="N", help="devices at once (default 100)")
    create.add_argument("--device", action="append", metavar="ID", help="only these devices, in this order")
    create.add_argument("--label", action="append", default=[], metavar="NAME=VALUE", help="only devices with it")
    create.add_argument("--site", metavar="S", help="only devices of this site")
    create.add_argument("--soak-s", type=float, metavar="S", help="seconds of trial on each device before it commits")
    create.add_argument("--wave-soak-s", type=float, default=0.0, metavar="S", help="seconds between waves")
    create.add_argument("--race-budget-s", type=float, metavar="S", help="seconds a device may race variants")
    create.add_argument(
        "--success-threshold-pct", type=float, default=100.0, metavar="P",
        help="a wave succeeds when at least P %% of its devices committed (default 100)",
    )  # fmt: skip
    create.add_argument(
        "--error-threshold-pct", type=float, default=0.0, metavar="P",
        help="a wave fails when more than P %% of its devices failed (default 0)",
    )  # fmt: skip
    create.add_argument("--min-executed", type=int, default=1, metavar="N", help="results before an early verdict")
    create.add_argument(
        "--denominator", choices=("targeted", "contacted"), default="targeted",
        help="what percentages are taken of: all devices of the wave, or those that answered (default targeted)",
    )  # fmt: skip
    create.add_argument(
        "--success-action", choices=("next", "pause"), default="next", help="after a wave that succeeded (default next)"
    )
    create.add_argument(
        "--error-action", choices=("pause", "abort", "rollback_wave", "rollback_all"), default="pause",
        help="when a wave fails: wait for you, end it, send the wave's devices back, or all (default pause)",
    )  # fmt: skip
    create.add_argument(
        "--straggler-after-s", type=float, default=600.0, metavar="S", help="then a silent device is late"
    )
    create.add_argument("--allow-unsigned", action="store_true", help="take a bundle without a signature")
    when = create.add_mutually_exclusive_group()
    when.add_argument("--start", action="store_true", help="begin at once")
    when.add_argument("--draft", action="store_true", help="do not begin (the default)")
    create.set_defaults(run=run_create)


def run_create(args: argparse.Namespace) -> int:
    """Creates, and starts if asked."""
    from edge_contracts.messages import Policy
    from fleet.cli.connection import client
    from fleet.cli.output import red, say
    from fleet.cli.token import parse_labels
    from fleet.domain.targeting import Selector
    from fleet.domain.wave import Denominator, ErrorAction, SuccessAction, WavePolicy
    from fleet.http.api_types import RolloutRequest

    def wave(size: str) -> WavePolicy:
        return WavePolicy(
            size=size, success_threshold_pct=args.success_threshold_pct, error_threshold_pct=args.error_threshold_pct,
            min_executed=args.min_executed, denominator=Denominator(args.denominator), soak_s=args.wave_soak_s,
            success_action=SuccessAction(args.success_action), error_action=ErrorAction(args.error_action),
            straggler_after_s=args.straggler_after_s,
        )  # fmt: skip

    if args.allow_unsigned:
        say(red(f"unsigned bundle: {args.bundle} {args.version} may be rolled out without a signature"))
    request = RolloutRequest(
        bundle=args.bundle, version=args.version, name=args.name, waves=[wave(size) for size in args.wave or ["100%"]],
        selector=Selector(devices=args.device, site=args.site, labels=parse_labels(args.label)),
        max_in_flight=args.max_in_flight, start=args.start,
        policy=Policy(soak_s=args.soak_s, race_budget_s=args.race_budget_s, allow_unsigned=args.allow_unsigned),
    )  # fmt: skip
    return _show(args, client(args).create_rollout(request))


def run_list(args: argparse.Namespace) -> int:
    """All rollouts."""
    from fleet.cli.connection import client
    from fleet.cli.output import print_json, print_table
    from fleet.domain.plain_words import state_text
    from fleet.http.row_words import done_text

    rollouts = client(args).rollouts()
    if args.json:
        print_json(rollouts)
        return 0
    rows = [
        (
            r.id,
            r.name,
            f"{r.bundle} {r.version}",
            state_text(r.state),
            done_text(r.counts),
            r.counts.failed,
            r.why,
        )
        for r in rollouts
    ]
    print_table(("ROLLOUT", "NAME", "BUNDLE", "STATE", "DONE", "FAILED", "WHY"), rows)
    return 0


def run_verb(args: argparse.Namespace) -> int:
    """start, pause, resume, abort, rollback."""
    from fleet.cli.connection import client

    return _show(args, client(args).act(args.rollout, args.verb))


def run_status(args: argparse.Namespace) -> int:
    """Once, or until the rollout is no longer moving. Without an id: the newest."""
    from fleet.cli.connection import client

    fleet = client(args)
    rollout = args.rollout or _newest(fleet)
    if args.watch:
        from fleet.cli.output import say
        from fleet.cli.watch import watch

        if args.json:
            return _show(args, watch(fleet, rollout, say))
        watch(fleet, rollout, lambda line: print(line, flush=True))
        return 0
    return _show(args, fleet.rollout(rollout))


def _newest(fleet: Any) -> str:
    """Raises ClientError when there is none."""
    from fleet.errors import ClientError

    rollouts = fleet.rollouts()
    if not rollouts:
        raise ClientError("no rollout yet: make one with `mindfleet rollout create`")
    return str(rollouts[0].id)


def _show(args: argparse.Namespace, view: Any) -> int:
    from fleet.cli.output import print_json
    from fleet.cli.rollout_text import lines

    if args.json:
        print_json(view)
    else:
        print("\n".join(lines(view)))
    return 0
