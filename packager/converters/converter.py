"""The seam between the build and the tools that convert: one converter, one file in this folder.

A converter turns the source model into the file or files of one variant. It decides nothing: what is asked for comes
from `packager.recipe`, whether the result is right is found out afterwards by running it.

Contract, for every converter:
- `convert` reads `job.model` and writes only below `job.out`, whose files have plain names and fixed ones: no path,
  clock or machine in their content; the same job gives the same bytes.
- It runs in a process of its own (`packager.converters.child`), except with `spawns_own_process`, where it starts a
  tool's process itself and runs on a thread of the build. It may print; its stdout is nobody's.
- It raises ConverterError (or ToolchainError) with one line; whatever else it raises is taken for the tool's failure.
- It imports its tool inside `convert`: naming a converter imports nothing.
- Memory and files are the caller's to free, after it ended.

`packager.converters.stub` is one without tools; `tests/packager/converters/test_every_converter.py` is passed by all.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import msgspec

Progress = Callable[[str], None]


class Needs(msgspec.Struct, frozen=True, kw_only=True):
    """``modules``: what must be importable, ``pip_line`` installs it. ``toolchain``: an environment of its own."""

    modules: tuple[str, ...] = ()
    pip_line: str = "pip install 'mindedge[packager]'"
    toolchain: str | None = None
    calibration: bool = False


class ConversionJob(msgspec.Struct, frozen=True, kw_only=True):
    """One conversion. Paths are absolute. ``source_format``: as packager.sources.content names it.

    ``calibration``: a file of packager.samples.write_rows, "" when there is none. ``fixed_shapes``: dimensions to
    freeze, by input. ``options``: the converter's own, from the recipe.
    """

    converter: str
    model: str
    source_format: str
    out: str
    calibration: str = ""
    fixed_shapes: dict[str, list[int]] = {}
    options: dict[str, str] = {}
    environ: dict[str, str] = {}


class Converted(msgspec.Struct, frozen=True, kw_only=True):
    """``entry`` is the file in ``job.out`` that the runtime opens. ``tools``: versions of what made it.

    ``ranking``: layers that lost most to quantisation first, where the option ``rank`` asked for it.
    """

    entry: str
    tools: dict[str, str] = {}
    notes: list[str] = []
    ranking: list[str] = []


class Converter(Protocol):
    """See the module."""

    name: str
    needs: Needs
    spawns_own_process: bool

    def convert(self, job: ConversionJob, progress: Progress) -> Converted:
        """Make the files. Raises ConverterError, ToolchainError."""
