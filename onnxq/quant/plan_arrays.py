"""The long lists of a plan, in an .npz file whose name holds the hash of what it says."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Mapping

import numpy as np


def pack(lists: Mapping[str, np.ndarray]) -> tuple[str, bytes]:
    """The hash of lists, and the archive that holds them.

    Args:
        lists: float32 [any length], by name.
    """
    names, sizes = np.array(list(lists), np.str_), np.array([len(one) for one in lists.values()], np.int64)
    values = np.concatenate([np.zeros(0, np.float32), *lists.values()])
    buffer = io.BytesIO()
    np.savez(buffer, names=names, sizes=sizes, values=values)
    return _digest(lists), buffer.getvalue()


def unpack(content: bytes, digest: str) -> dict[str, np.ndarray]:
    """The lists that an archive holds.

    Args:
        content: the archive.
        digest: a text that is to contain their hash.

    Raises:
        ValueError: it is none, or holds others.
    """
    try:
        with np.load(io.BytesIO(content), allow_pickle=False) as found:
            parts = np.split(found["values"], np.cumsum(found["sizes"])[:-1])
            lists = dict(zip(found["names"].tolist(), parts, strict=True))
    except Exception as error:  # zipfile, zlib and numpy have a dozen classes for damage
        raise ValueError(f"it holds no lists, or is damaged: {error}") from error
    if _digest(lists) not in digest:
        raise ValueError("its lists are not those of which its name has the hash")
    return lists


def _digest(lists: Mapping[str, np.ndarray]) -> str:
    found = hashlib.sha256()
    for name, values in lists.items():
        found.update(f"{name!r} {len(values)} ".encode())
        found.update(np.ascontiguousarray(values, "<f4").tobytes())
    return found.hexdigest()[:16]
