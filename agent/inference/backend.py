"""The seam to inference runtimes: one driver per runtime in ``backends/``, outsiders through the entry point group
``mindedge.backends``.

Contract:

- Nothing of a driver's module level imports its runtime: ``option_sets`` and ``pip_line`` work where it is missing.
- ``fact``, ``open`` and everything of a session run only in an engine, a trial or an import-probe process, never in the
  daemon, since a runtime may die by a signal at import.
- A session is used by one thread at a time. Arrays given to ``run`` are read only and stay the caller's; arrays
  returned are the caller's and stay valid after the next ``run``.
- Drivers translate every foreign exception to BackendError (RuntimeMissing, ProviderFellBack).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from edge_contracts.bundle import VariantSpec
from edge_contracts.capabilities import Capabilities, RuntimeFact
from edge_contracts.evidence import OptionValue

Options = Mapping[str, OptionValue]
BATCH_OPTION = "batch"
"""Samples that the server should put into one inference. Not a driver's option: open_session takes it out."""
Array = Any
"""A numpy.ndarray; not imported here so that the daemon can import the seam."""


class BackendSession(Protocol):
    """A model opened in a runtime."""

    @property
    def provider(self) -> str:
        """The provider or device in effect, as the runtime itself tells after load and after the first run."""

    def run(self, feeds: Mapping[str, Array]) -> dict[str, Array]:
        """One inference in the file's own names, layouts and dtypes. Raises BackendError."""

    def close(self) -> None:
        """Free what the session holds; no other call follows."""


class Backend(Protocol):
    """A runtime."""

    @property
    def name(self) -> str:
        """As in VariantSpec.runtime, for example "onnxruntime"."""

    @property
    def pip_line(self) -> str:
        """The command that installs it, for example ``pip install 'mindedge[onnxruntime]'``."""

    def fact(self) -> RuntimeFact:
        """Version, targets and state, found by importing the runtime here. Never raises for a missing runtime."""

    def option_sets(self, variant: VariantSpec, device: Capabilities, threads: int) -> list[dict[str, OptionValue]]:
        """Settings worth racing within a budget of ``threads``, the most promising first; pure, imports nothing.

        Common keys: "threads" (int, always present), "spinning" (bool), "execution" ("sequential"|"parallel"),
        "provider" (str). At least one set; the empty list means this variant cannot run on this device.
        """

    def default_options(self) -> dict[str, OptionValue]:
        """What a user gets who sets nothing: the baseline. No "threads" key: the runtime's own default."""

    def open(self, folder: Path, variant: VariantSpec, options: Options) -> BackendSession:
        """Open ``folder / variant.entry``. Raises BackendError."""
