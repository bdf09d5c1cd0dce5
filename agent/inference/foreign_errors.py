"""Turning whatever a runtime raises into BackendError, in one line."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from agent.errors import BackendError

MAX_REASON = 400


@contextmanager
def translated(backend: str, doing: str) -> Iterator[None]:
    """Raises BackendError "cannot {doing}: {first line}" for every foreign exception; BackendError passes as it is."""
    try:
        yield
    except BackendError:
        raise
    except MemoryError as error:
        raise BackendError(backend, f"cannot {doing}: out of memory") from error
    except (
        Exception
    ) as error:  # runtimes raise their own trees, plain RuntimeError, ValueError, UnicodeDecodeError, ...
        raise BackendError(backend, f"cannot {doing}: {one_line(error)}") from error


def one_line(error: BaseException) -> str:
    """The message without line breaks and repeated spaces, cut to a length that fits a report."""
    text = " ".join(str(error).split()) or type(error).__name__
    return text if len(text) <= MAX_REASON else text[: MAX_REASON - 3] + "..."
