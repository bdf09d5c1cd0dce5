"""``mindpack toolchain install|list``: the environments of converters that cannot share ours."""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path
from typing import Any

import msgspec

from packager.toolchain import (
    Toolchain,
    environment_folder,
    installed,
    load_toolchain,
    running_python,
    toolchain_names,
    toolchains_root,
)


def register(subparsers: Any, common: argparse.ArgumentParser) -> None:
    toolchain = subparsers.add_parser(
        "toolchain", help="install a converter's environment",
        epilog="examples:\n  mindpack toolchain install tflite\n  mindpack toolchain list --json",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    toolchain.set_defaults(shown=toolchain)
    verbs = toolchain.add_subparsers(dest="verb", metavar="VERB")
    install = verbs.add_parser(
        "install",
        parents=[common],
        help="make it in the cache folder, if it is not there",
        epilog="example:\n  mindpack toolchain install tflite\n\nMINDEDGE_TOOLCHAINS chooses another folder.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    install.add_argument("name", choices=toolchain_names(), help="which one")
    install.set_defaults(run=_install)
    listing = verbs.add_parser(
        "list",
        parents=[common],
        help="what there is, and what is installed",
        epilog="example:\n  mindpack toolchain list --json",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    listing.set_defaults(run=_list)


def _install(args: argparse.Namespace) -> int:
    from packager.toolchain_install import install

    toolchain = load_toolchain(args.name)
    environment = install(toolchain, toolchains_root(os.environ), os.environ, _say, time.sleep)
    if args.json:
        print(msgspec.json.encode(_state(toolchain, toolchains_root(os.environ))).decode())
    else:
        print(f"{toolchain.name}: installed in {environment.folder}")
    return 0


def _list(args: argparse.Namespace) -> int:
    root = toolchains_root(os.environ)
    states = [_state(load_toolchain(name), root) for name in toolchain_names()]
    if args.json:
        print(msgspec.json.encode({"toolchains": states}).decode())
        return 0
    for state in states:
        status = f"installed in {state['folder']}" if state["installed"] else f"not installed ({state['size_mb']} MB)"
        print(f"{state['name']}: {state['summary']}; Python {state['python']}; {status}")
    return 0


def _state(toolchain: Toolchain, root: Path) -> dict[str, Any]:
    supported = toolchain.min_python <= running_python() <= toolchain.max_python
    return {
        "name": toolchain.name,
        "summary": toolchain.summary,
        "python": toolchain.python,
        "supported": supported,
        "installed": installed(toolchain, root) is not None,
        "folder": str(environment_folder(toolchain, root)),
        "size_mb": toolchain.installed_mb,
    }


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
