"""`mindie serve BUNDLE`: bundles served on this device, without a fleet and without the daemon.

A bundle goes through the same verification, choice and proof as an update; then server and engine run until Ctrl-C.
"""

from __future__ import annotations

import argparse
import os
import signal
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent.cli.serving_flags import add_serving_flags

if TYPE_CHECKING:
    from agent.config import AgentConfig
    from agent.serving.control import EngineEvent, Loaded, ServedModel
    from agent.update.install_once import InstalledBundle

_EXAMPLES = """examples:
  mindie serve digits-1.0.0.mindie --allow-unsigned
  mindie serve digits-1.0.0.mindie --allow-unsigned --port 9000 --num-threads 2 --enable-batch-inference
  mindie serve detector-2.1.0.mindie --fixed-shape image=1,3,224,224 --uds /run/mindie.sock
  mindie serve digits-1.0.0.mindie --host 0.0.0.0 --token-file token.txt --tls-cert cert.pem --tls-key key.pem

  curl http://127.0.0.1:8000/v2/models/digits
"""


def register(subparsers: Any, common: argparse.ArgumentParser) -> None:
    """Add the command."""
    parser = subparsers.add_parser(
        "serve", parents=[common], help="serve bundle files by the Open Inference Protocol, without a fleet",
        description=__doc__, epilog=_EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("bundles", metavar="BUNDLE", nargs="+", help="a .mindie file, or several")
    parser.add_argument("--allow-unsigned", action="store_true", help="take a bundle that nobody has signed")
    add_serving_flags(parser)
    parser.add_argument("--objective", choices=("latency", "throughput", "memory"), help="what to choose for")
    parser.add_argument("--num-threads", type=_count, metavar="N", help="threads of the runtime, instead of the choice")
    parser.add_argument(
        "--fixed-shape", action="append", default=[], metavar="NAME=D,D,...",
        help="accept only this shape of an input; repeat for several inputs",
    )  # fmt: skip
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Bind, install, load, serve until SIGINT or SIGTERM; a second one ends at once."""
    from agent.cli.terminal import print_json, say, warn_unsigned
    from agent.composition import bind_of, serving_options
    from agent.config import load_config
    from agent.data_lock import data_lock
    from agent.device_facts import affinity_of
    from agent.serving.process import ServerProcess
    from agent.update.install_once import check_file

    config = load_config(args, os.environ)
    options = serving_options(config)
    archives = [Path(text).absolute() for text in args.bundles]
    specs = [check_file(archive).spec for archive in archives]
    fixed = fixed_shapes(args.fixed_shape)
    interrupts = _Interrupts()
    interrupts.install()
    for spec in specs if args.allow_unsigned or config.update.allow_unsigned else []:
        warn_unsigned(f"{spec.name} {spec.version}")
    with data_lock(config.data_dir):
        server = ServerProcess(options, on_event=_say_event)
        names = [spec.name for spec in specs]
        port = server.start(bind_of(config), affinity=affinity_of(config), expected=names)
        try:
            url = f"{'https' if options.tls_cert else 'http'}://{_shown(config.host)}:{port}"
            models = [_served(_install(config, archive, args), args.num_threads, fixed) for archive in archives]
            ready = [(model, server.load(model)) for model in models]
            for model, loaded in ready:
                say(f"{model.name} {model.version} is ready: {model.variant} on {loaded.provider}, "
                    f"{loaded.warm_ms:.2f} ms warm, at {url}/v2/models/{model.name}")  # fmt: skip
            if args.json:
                print_json({"url": url, "models": [_about(model, loaded) for model, loaded in ready]})
            interrupts.wait()
            say("answering what is in flight")
        finally:
            server.stop(config.drain_s)
    return 0


def fixed_shapes(texts: list[str]) -> dict[str, list[int]]:
    """``["image=1,3,224,224"]`` as a mapping. Raises ConfigurationError."""
    from agent.errors import ConfigurationError

    shapes: dict[str, list[int]] = {}
    for text in texts:
        name, equals, dims = text.rpartition("=")
        parts = dims.split(",")
        if not equals or not name or not all(part.strip().isdigit() for part in parts):
            raise ConfigurationError("--fixed-shape", f"{text!r} is not NAME=SIZE,SIZE,... such as image=1,3,224,224")
        shapes[name] = [int(part) for part in parts]
    return shapes


def _install(config: AgentConfig, archive: Path, args: argparse.Namespace) -> InstalledBundle:
    from agent.cli.terminal import say
    from agent.composition import install_bundle
    from edge_contracts.messages import Policy

    policy = Policy(allow_unsigned=args.allow_unsigned or config.update.allow_unsigned, objective=args.objective)
    return install_bundle(config, archive, policy, say, locked=True)


def _served(bundle: InstalledBundle, threads: int | None, fixed: dict[str, list[int]]) -> ServedModel:
    from agent.serving.control import ServedModel

    installed = bundle.installed
    options = dict(installed.options)
    if threads is not None:
        options["threads"] = threads
    return ServedModel(
        name=bundle.name, version=installed.version, digest=installed.digest, folder=str(bundle.folder.folder),
        variant=installed.variant, options=options, signed=installed.signed, evidence=bundle.evidence,
        fixed_shapes=fixed,
    )  # fmt: skip


class _Interrupts:
    """SIGINT and SIGTERM interrupt the installation, end serving in order, and end at once the second time."""

    def __init__(self) -> None:
        self._stop = threading.Event()
        self._is_serving = False

    def install(self) -> None:
        """Take over the signals of this process."""
        signal.signal(signal.SIGINT, self._on_signal)
        signal.signal(signal.SIGTERM, self._on_signal)

    def wait(self) -> None:
        """Until a signal comes."""
        self._is_serving = True
        self._stop.wait()

    def _on_signal(self, number: int, frame: object) -> None:
        del frame
        signal.signal(number, signal.SIG_DFL)
        self._stop.set()
        if not self._is_serving:
            raise KeyboardInterrupt


def _say_event(event: EngineEvent) -> None:
    from agent.cli.terminal import say

    say(f"{event.kind}: {event.text}")


def _about(model: ServedModel, loaded: Loaded) -> dict[str, Any]:
    return {
        "name": model.name, "version": model.version, "digest": model.digest, "variant": model.variant,
        "options": model.options, "provider": loaded.provider, "warm_ms": round(loaded.warm_ms, 4),
        "signed": model.signed,
    }  # fmt: skip


def _shown(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _count(text: str) -> int:
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of 1 or more")
    return int(text)
