"""Reading a driver's options: every key is known and has its type, or the candidate is refused by name."""

from __future__ import annotations

from collections.abc import Mapping

from agent.errors import BackendError
from agent.inference.backend import Options


def check_options(backend: str, options: Options, known: Mapping[str, type]) -> None:
    """Raises BackendError naming an option that ``known`` lacks or that has another type than it says."""
    for key, value in options.items():
        wanted = known.get(key)
        if wanted is None:
            raise BackendError(backend, f"unknown option {key!r} (known: {', '.join(sorted(known))})")
        if not isinstance(value, wanted) or (wanted is int and isinstance(value, bool)):
            raise BackendError(backend, f"option {key!r} is {value!r}, {wanted.__name__} expected")
    threads = options.get("threads")
    if isinstance(threads, int) and threads < 1:
        raise BackendError(backend, f"option 'threads' is {threads}, at least 1 expected")
