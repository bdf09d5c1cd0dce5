"""Firmware profiles: what is known beforehand about a kind of board. Data files, parsed strictly.

A profile is a prior: it says what to race first, which accelerators to expect and how the agent gets onto the board.
It never decides a choice; measurements do. Its figures carry a source or are left out: wherever a figure is possible
`source` is a field without a default, so that a file without one does not load.
"""

from __future__ import annotations

import enum
import re
import sys
from importlib import resources

import msgspec

from edge_contracts.capabilities import AcceleratorKind
from edge_contracts.errors import MalformedMessage

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

PROFILES_PACKAGE = "firmware_profiles"


class Advice(str, enum.Enum):
    TRY = "try"
    AVOID = "avoid"


class InstallMethod(str, enum.Enum):
    """How the agent gets onto the board."""

    SYSTEM_PYTHON = "system-python"
    STANDALONE_CPYTHON = "standalone-cpython"
    PIWHEELS = "piwheels"
    CONTAINER = "container"


class _Strict(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Configuration: a key that is not known here is an error."""


class DmiRule(_Strict, frozen=True, kw_only=True):
    """Regular expressions, searched without case in what the board facts call vendor and model; both must be found."""

    vendor: str = ""
    model: str


class AcceleratorRule(_Strict, frozen=True, kw_only=True):
    """An accelerator of this vendor whose name fits. `on_die`: it must not sit on a bus (a card in a server)."""

    vendor: str
    name: str
    on_die: bool = False


class MatchRules(_Strict, frozen=True, kw_only=True):
    """Any one rule is enough, the most specific one counts; `arch` is a condition on all of them.

    `compatible`: device-tree strings. `model`: regular expressions on the board's model. `cpu_model`: on the maker's
    CPU name. `cpu_parts`: all of these ARM parts are there. `cpu_layout`: the online CPUs of a part are exactly these
    (a board that shows nothing but /proc/cpuinfo). `any_board`: the fallback for its `arch`.
    """

    arch: list[str] = msgspec.field(default_factory=list)
    compatible: list[str] = msgspec.field(default_factory=list)
    model: list[str] = msgspec.field(default_factory=list)
    dmi: list[DmiRule] = msgspec.field(default_factory=list)
    accelerators: list[AcceleratorRule] = msgspec.field(default_factory=list)
    cpu_model: list[str] = msgspec.field(default_factory=list)
    cpu_parts: list[str] = msgspec.field(default_factory=list)
    cpu_layout: dict[str, str] = msgspec.field(default_factory=dict)
    any_board: bool = False


class ExpectedCluster(_Strict, frozen=True, kw_only=True):
    """`cpus` only where the numbering is the same on every unit."""

    core: str
    cores: int
    cpus: str | None = None
    part: str | None = None
    threads_per_core: int = 1
    max_mhz: int | None = None


class ExpectedCpu(_Strict, frozen=True, kw_only=True):
    """`big_cores` is the set that latency-bound work belongs on; None where all cores are alike.

    `features` are those of the silicon; they count only where no cpuinfo is to be had.
    """

    big_cores: str | None = None
    clusters: list[ExpectedCluster] = msgspec.field(default_factory=list)
    features: dict[str, bool] = msgspec.field(default_factory=dict)


class ExpectedAccelerator(_Strict, frozen=True, kw_only=True):
    """`integrated`: soldered on, so it is present on every unit even where nothing shows it."""

    kind: AcceleratorKind
    vendor: str
    name: str
    integrated: bool = False
    driver: str | None = None
    bus_id: str | None = None
    note: str | None = None
    source: str


class RuntimeAdvice(_Strict, frozen=True, kw_only=True):
    """`name` is a backend's name, `target` cpu, gpu or vpu, `precision` a variant's, all of them when None."""

    name: str
    advice: Advice
    target: str = "cpu"
    precision: str | None = None
    reason: str
    source: str


class ThermalLimits(_Strict, frozen=True, kw_only=True):
    soft_limit_c: float | None = None
    throttle_c: float | None = None
    limit_c: float | None = None
    source: str


class PowerMode(_Strict, frozen=True, kw_only=True):
    name: str
    id: int | None = None
    watts: float | None = None
    note: str | None = None
    source: str


class Minimum(_Strict, frozen=True, kw_only=True):
    """`what` needs at least `version` (of a kernel, driver, firmware or JetPack)."""

    what: str
    version: str
    reason: str
    source: str


class Install(_Strict, frozen=True, kw_only=True):
    """One way onto the board, the first of a profile is the recommended one; `runtimes` exist on that way."""

    method: InstallMethod
    python: str
    how: str
    runtimes: list[str]
    source: str


class Profile(_Strict, frozen=True, kw_only=True):
    name: str
    title: str
    soc: str | None = None
    arch: str
    match: MatchRules
    cpu: ExpectedCpu = msgspec.field(default_factory=ExpectedCpu)
    accelerators: list[ExpectedAccelerator] = msgspec.field(default_factory=list)
    runtimes: list[RuntimeAdvice]
    thermal: ThermalLimits | None = None
    power_modes: list[PowerMode] = msgspec.field(default_factory=list)
    minimum: list[Minimum] = msgspec.field(default_factory=list)
    install: list[Install]


def parse_profile(text: str, file_name: str) -> Profile:
    """Raises MalformedMessage naming file and key: no TOML, an unknown key, a missing source, a broken expression."""
    try:
        profile = msgspec.convert(tomllib.loads(text), Profile)
    except tomllib.TOMLDecodeError as error:
        raise MalformedMessage(file_name, f"not TOML: {error}") from error
    except msgspec.ValidationError as error:
        raise MalformedMessage(file_name, str(error)) from error
    for pattern in _patterns(profile.match):
        try:
            re.compile(pattern)
        except re.error as error:
            raise MalformedMessage(file_name, f"match: {pattern!r} is no regular expression: {error}") from error
    return profile


def load_profiles(package: str = PROFILES_PACKAGE) -> list[Profile]:
    """All profiles that the product brings, by file name. Raises MalformedMessage for the first that is wrong."""
    texts: dict[str, str] = {}
    for entry in resources.files(package).iterdir():
        if entry.name.endswith(".toml"):
            try:
                texts[entry.name] = entry.read_text(encoding="utf-8")
            except (OSError, UnicodeDecodeError) as error:
                raise MalformedMessage(entry.name, str(error)) from error
    return [parse_profile(texts[name], name) for name in sorted(texts)]


def _patterns(rules: MatchRules) -> list[str]:
    patterns = [*rules.model, *rules.cpu_model]
    patterns += [pattern for rule in rules.dmi for pattern in (rule.vendor, rule.model)]
    return patterns + [rule.name for rule in rules.accelerators]
