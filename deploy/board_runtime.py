"""Which runtimes to install on a board: what its firmware profile says to try, as far as wheels for it exist.

``install-agent.sh`` runs this with the Python of the new environment, the facts of `mindie probe --json` on stdin; it
prints one extra of the `mindedge` distribution per line, and the reason for each decision on stderr. Exit 2: a runtime
was asked for by name that must not or cannot be installed here.
"""

from __future__ import annotations

import argparse
import os
import platform
import re
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib.metadata import distributions

import msgspec

from edge_contracts.capabilities import Capabilities
from edge_contracts.profiles import Advice, Profile, load_profiles

Version = tuple[int, int]


@dataclass(frozen=True)
class Wheel:
    """One architecture's wheels of a runtime. ``python_below`` None: every newer Python so far."""

    runtime: str
    extra: str
    package: str
    arch: str
    glibc: Version
    python_below: Version | None = None


OLDEST_PYTHON = (3, 10)
WHEELS_SOURCE = "PyPI, lists of files, November 2026"
# The newest release that each Python gets; in the order of preference where one runtime has two packages.
WHEELS = (
    Wheel("onnxruntime", "onnxruntime", "onnxruntime", "x86_64", (2, 28)),
    Wheel("onnxruntime", "onnxruntime", "onnxruntime", "aarch64", (2, 28)),
    Wheel("openvino", "openvino", "openvino", "x86_64", (2, 28)),
    Wheel("openvino", "openvino", "openvino", "aarch64", (2, 35)),
    Wheel("tflite", "litert", "ai-edge-litert", "x86_64", (2, 27)),
    Wheel("tflite", "litert", "ai-edge-litert", "aarch64", (2, 27)),
    Wheel("tflite", "tflite", "tflite-runtime", "x86_64", (2, 17), python_below=(3, 12)),
    Wheel("tflite", "tflite", "tflite-runtime", "aarch64", (2, 34), python_below=(3, 12)),
    Wheel("tflite", "tflite", "tflite-runtime", "armv7l", (2, 34), python_below=(3, 12)),
)
VENDOR_BUILD = re.compile(r"^onnxruntime-(?!extensions|genai)")
"""Distributions that bring the module `onnxruntime` themselves: onnxruntime-gpu, -cann, -openvino, -rocm, ..."""


@dataclass(frozen=True)
class Host:
    """``glibc`` None: not known, then it is not judged. ``installed``: distribution names, lower case, with dashes."""

    arch: str
    python: Version
    glibc: Version | None
    installed: frozenset[str]


@dataclass(frozen=True)
class Verdict:
    """``extra`` None: nothing is installed for that runtime."""

    runtime: str
    extra: str | None
    reason: str


def decide(profile: Profile, host: Host) -> list[Verdict]:
    """One verdict per runtime that the profile names, in its order."""
    names = list(dict.fromkeys(advice.name for advice in profile.runtimes))
    return [_verdict(name, profile, host) for name in names]


def on_request(extra: str, host: Host) -> Verdict:
    """For a runtime that was asked for by its extra's name."""
    known = sorted({wheel.extra for wheel in WHEELS})
    if extra not in known:
        return Verdict(extra, None, f"is none of: {', '.join(known)}")
    vendor = _vendor_build(host) if extra == "onnxruntime" else None
    if vendor is not None:
        return Verdict(extra, None, f"{vendor} is installed, and the plain wheel would overwrite its files")
    return _by_wheel(extra, [wheel for wheel in WHEELS if wheel.extra == extra], host, "asked for")


def _verdict(name: str, profile: Profile, host: Host) -> Verdict:
    advices = [advice for advice in profile.runtimes if advice.name == name]
    tries = [advice for advice in advices if advice.advice is Advice.TRY]
    if not tries:
        return Verdict(name, None, f"to be avoided here: {advices[0].reason} ({advices[0].source})")
    if name == "onnxruntime":
        vendor = _vendor_build(host)
        if vendor is not None:
            return Verdict(name, None, f"{vendor} is installed, and the plain wheel would overwrite its files")
        accelerated = next((advice for advice in tries if advice.target != "cpu"), None)
        if accelerated is not None:
            reason = (
                f"this board's {accelerated.target} wants the vendor's own build ({accelerated.reason}); install that"
            )
            return Verdict(name, None, f"{reason}, or ask for --runtime onnxruntime, which has the CPU alone")
    return _by_wheel(name, [wheel for wheel in WHEELS if wheel.runtime == name], host, tries[0].reason)


def _by_wheel(name: str, wheels: Sequence[Wheel], host: Host, reason: str) -> Verdict:
    missing = f"no wheel for {host.arch}"
    for wheel in wheels:
        if wheel.arch != host.arch:
            continue
        if wheel.python_below is not None and host.python >= wheel.python_below:
            missing = f"{wheel.package} has no wheel for Python {_dotted(host.python)}"
        elif host.glibc is not None and host.glibc < wheel.glibc:
            missing = f"{wheel.package} needs glibc {_dotted(wheel.glibc)}, here is {_dotted(host.glibc)}"
        else:
            return Verdict(name, wheel.extra, reason)
    return Verdict(name, None, missing)


def _vendor_build(host: Host) -> str | None:
    return next((name for name in sorted(host.installed) if VENDOR_BUILD.match(name)), None)


def _dotted(version: Version) -> str:
    return f"{version[0]}.{version[1]}"


def _version(text: str) -> Version:
    numbers = re.findall(r"\d+", text)
    if len(numbers) < 2:
        raise argparse.ArgumentTypeError(f"{text!r} is no version such as 3.11")
    return int(numbers[0]), int(numbers[1])


def _installed(folders: Sequence[str] | None) -> frozenset[str]:
    found: Iterable[str | None]
    if folders:
        found = (entry.metadata["Name"] for entry in distributions(path=list(folders)))
    else:
        found = (entry.metadata["Name"] for entry in distributions())
    return frozenset(re.sub(r"[-_.]+", "-", name).lower() for name in found if name)


def _own_glibc() -> Version | None:
    name, version = platform.libc_ver()
    return _version(version) if name == "glibc" else None


def main(argv: Sequence[str], facts_json: bytes) -> int:
    """See the top of this file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runtime", action="append", default=[], metavar="EXTRA", help="instead of the profile's")
    parser.add_argument("--python", type=_version, default=sys.version_info[:2], metavar="X.Y")
    parser.add_argument("--glibc", type=_version, metavar="X.Y", help="default: this machine's")
    parser.add_argument("--site", action="append", metavar="DIR", help="where to look for what is installed")
    parser.add_argument("--recorded", action="store_true", help="the facts are those of another machine")
    args = parser.parse_args(argv)
    try:
        facts = msgspec.json.decode(facts_json, type=Capabilities)
    except msgspec.MsgspecError as error:
        sys.stderr.write(f"board_runtime: the facts on stdin are not those of mindie probe --json: {error}\n")
        return 2
    arch = facts.os.userland_arch or facts.os.kernel_arch or os.uname().machine
    glibc = args.glibc or (None if args.recorded else _own_glibc())
    host = Host(arch, args.python, glibc, _installed(args.site) if args.site or not args.recorded else frozenset())
    if args.runtime:
        verdicts = [on_request(extra, host) for extra in args.runtime]
    else:
        verdicts = decide(_profile(facts, arch), host)
    for verdict in verdicts:
        sys.stderr.write(f"  {verdict.runtime}: {verdict.extra or 'not installed'}: {verdict.reason}\n")
    sys.stdout.write("".join(f"{verdict.extra}\n" for verdict in verdicts if verdict.extra))
    return 2 if args.runtime and any(verdict.extra is None for verdict in verdicts) else 0


def _profile(facts: Capabilities, arch: str) -> Profile:
    profiles = {profile.name: profile for profile in load_profiles()}
    generic = {"armv7l": "generic-armv7l", "aarch64": "generic-aarch64"}.get(arch, "generic-x86-64")
    return profiles.get(facts.board.profile or "", profiles[generic])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], sys.stdin.buffer.read()))
