"""The digest of a file, read in pieces."""

from __future__ import annotations

import hashlib
from pathlib import Path

CHUNK_BYTES = 1024 * 1024


def file_digest(path: Path) -> str:
    """``sha256:<hex>`` of the content."""
    sha = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(CHUNK_BYTES):
            sha.update(chunk)
    return "sha256:" + sha.hexdigest()
