"""``python -m agent.inference.import_probe NAME PARENT``: import one runtime, print its RuntimeFact as one JSON line.

A process of its own, because an import may end it by a signal (illegal instruction) or hang.
"""

from __future__ import annotations

import resource
import sys

import msgspec

from agent.errors import BackendError
from agent.inference.lookup import backend
from agent.parent_death import end_with_parent
from edge_contracts.capabilities import RuntimeFact, RuntimeStatus


def main(argv: list[str]) -> int:
    """``argv``: the runtime and the parent's pid. Exit 0 whenever a fact was printed, also that of a broken runtime."""
    name, parent = argv
    end_with_parent(int(parent))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    try:
        fact = backend(name).fact()
    except BackendError as error:
        fact = RuntimeFact(name=name, status=RuntimeStatus.BROKEN.value, detail=error.reason)
    sys.stdout.write(msgspec.json.encode(fact).decode() + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
