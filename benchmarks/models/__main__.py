"""Make models and bundles of the benchmarks: ``python -m benchmarks.models [NAME ...]`` (all without a name)."""

from __future__ import annotations

import argparse

from benchmarks.models.bundles import files_of
from benchmarks.models.catalogue import MODELS


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(MODELS))
    names = parser.parse_args().names or list(MODELS)
    if unknown := [name for name in names if name not in MODELS]:
        parser.error(f"no model {unknown[0]!r}; there is {', '.join(MODELS)}")
    for name in names:
        print(files_of(name).bundle)


if __name__ == "__main__":
    main()
