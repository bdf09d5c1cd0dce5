"""The recorded output of lscpu: only where /proc and /sys were not recorded.

Its "Socket(s) x Core(s) per socket" is wrong on big.LITTLE (a ROCK 5B: 3 x 2 for 8 cores) and on hybrid x86, and old
versions print one model name for unlike cores; so it is the last source, and counts are only taken where they add up.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from agent.hardware import cpu_list, figures
from agent.hardware.sysfs import Machine


@dataclass(frozen=True)
class Lscpu:
    """`values` are the keys before the first model (lower case); `models` one dict per "Model name" section."""

    values: dict[str, str] = field(default_factory=dict)
    models: list[dict[str, str]] = field(default_factory=list)

    def value(self, key: str) -> str | None:
        for section in (self.values, *self.models):
            found = section.get(key)
            if found and found != "-":
                return found
        return None

    def number(self, key: str) -> int | None:
        return figures.whole(self.value(key))

    def online(self) -> list[int] | None:
        try:
            return cpu_list.parse(self.value("on-line cpu(s) list") or "") or None
        except ValueError:
            return None

    def max_mhz(self) -> int | None:
        """Of the fastest CPU: lscpu has no figure per cluster."""
        mhz = figures.real(self.value("cpu max mhz"))
        return round(mhz) if mhz is not None else None


def parse(text: str) -> Lscpu:
    values: dict[str, str] = {}
    models: list[dict[str, str]] = []
    for line in text.splitlines():
        name, colon, value = line.partition(":")
        key, value = name.strip().lower(), value.strip()
        if not colon:
            continue
        if key == "model name":
            models.append({key: value})
        else:
            (models[-1] if models else values)[key] = value
    return Lscpu(values, models)


def read(machine: Machine) -> Lscpu:
    return parse(machine.recorded("lscpu") or "")
