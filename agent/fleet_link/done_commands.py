"""Which commands have been begun: at most once each, also over restarts. Noted before the act."""

from __future__ import annotations

import msgspec

from agent.checked_file import CheckedFile

MAX_REMEMBERED = 1000


class DoneCommands:
    """Ids with their expiry; one that has expired need not be remembered, since it is refused for that."""

    def __init__(self, file: CheckedFile) -> None:
        self._file = file
        self._done: dict[str, int] | None = None

    def begin(self, command_id: str, expires_at_ms: int, now_ms: int) -> bool:
        """True exactly once per id: then do it. Raises OSError when that cannot be noted; then do not."""
        done = self._loaded()
        if command_id in done:
            return False
        kept = {key: expiry for key, expiry in done.items() if expiry >= now_ms}
        while len(kept) >= MAX_REMEMBERED:
            kept.pop(next(iter(kept)))
        kept[command_id] = expires_at_ms
        self._file.write(msgspec.json.encode(kept))
        self._done = kept
        return True

    def _loaded(self) -> dict[str, int]:
        if self._done is None:
            try:
                self._done = msgspec.json.decode(self._file.read() or b"{}", type=dict[str, int])
            except (msgspec.MsgspecError, UnicodeDecodeError):
                self._done = {}
        return self._done
