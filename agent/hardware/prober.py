"""The seam of the hardware room: one prober finds out one part of the facts."""

from __future__ import annotations

from typing import Protocol, TypeVar

from agent.hardware.sysfs import Machine

Part = TypeVar("Part", covariant=True)


class Prober(Protocol[Part]):
    """Finds out one part of what a machine is.

    Contract:

    - It reads only through `machine`: nothing of the machine it runs on may enter the facts of a recorded one, and
      nothing is executed there (`Machine.output` sees to both).
    - What cannot be known is None (or an empty list), never a guess and never "no". Knowledge about silicon counts as
      known: a BCM2711 has a VideoCore VI whether or not its driver is loaded.
    - A file that is absent costs the fact that it holds. A file that is present and makes no sense costs that fact and
      one `machine.warn(...)` naming the file.
    - It raises nothing. If it does all the same, `probe` turns that into a warning and the part's empty value, and the
      other probers' facts are not touched.
    - It returns within about 100 ms on a small board, a vendor tool's timeout apart; it keeps no state, so one instance
      may be used from any thread.
    """

    @property
    def name(self) -> str:
        """One word for warnings: "memory"."""
        ...

    def probe(self, machine: Machine) -> Part:
        """The part, complete as far as this machine tells."""
        ...
