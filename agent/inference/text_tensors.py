"""BYTES tensors between the product (arrays of bytes objects) and runtimes that take Python text."""

from __future__ import annotations

from typing import Any


def to_text(array: Any) -> Any:
    """An object array of str. Raises UnicodeDecodeError: these runtimes carry UTF-8 only."""
    import numpy as np

    decoded = [item.decode() if isinstance(item, bytes) else str(item) for item in array.ravel().tolist()]
    result = np.empty(len(decoded), dtype=object)
    result[:] = decoded
    return result.reshape(array.shape)


def to_bytes(array: Any) -> Any:
    """The inverse of to_text."""
    import numpy as np

    encoded = [item if isinstance(item, bytes) else str(item).encode() for item in array.ravel().tolist()]
    result = np.empty(len(encoded), dtype=object)
    result[:] = encoded
    return result.reshape(array.shape)
