"""Writing a ``.mindie`` file: the same blobs give the same bytes (GNU tar, fixed order, no owner, no time)."""

from __future__ import annotations

import io
import os
import tarfile
from collections.abc import Mapping
from pathlib import Path

from edge_contracts import oci
from edge_contracts.archive import layout_index


def write_bundle(path: Path, index_bytes: bytes, blobs: Mapping[str, bytes | Path]) -> None:
    """Write the archive through a temporary file in the same folder and a rename.

    ``blobs`` maps digests to bytes or to a file holding them; the index is added by itself. Small JSON members come
    first, so that a reader finds all metadata in the first pages of a large file. Raises OSError; then nothing is left.
    """
    everything: dict[str, bytes | Path] = {**blobs, oci.sha256_digest(index_bytes): index_bytes}
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("wb") as file, tarfile.open(fileobj=file, mode="w", format=tarfile.GNU_FORMAT) as tar:
            _add(tar, "oci-layout", oci.LAYOUT_FILE)
            _add(tar, "index.json", layout_index(index_bytes))
            for digest in sorted(everything, key=lambda key: (_size(everything[key]), key)):
                _add(tar, "blobs/sha256/" + digest.removeprefix("sha256:"), everything[digest])
            tar.close()
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def _size(content: bytes | Path) -> int:
    return content.stat().st_size if isinstance(content, Path) else len(content)


def _add(tar: tarfile.TarFile, name: str, content: bytes | Path) -> None:
    info = tarfile.TarInfo(name)
    info.size = _size(content)
    info.mode = 0o644
    if isinstance(content, Path):
        with content.open("rb") as file:
            tar.addfile(info, file)
    else:
        tar.addfile(info, io.BytesIO(content))
