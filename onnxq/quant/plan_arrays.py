"""The long lists of a plan, and what is fitted, in .npz files whose names hold the hash of what they say."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Mapping

import numpy as np

from onnxq.base import door


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
        door.check_archive(content)
        with np.load(io.BytesIO(content), allow_pickle=False) as file:
            parts = np.split(file["values"], np.cumsum(file["sizes"])[:-1])
            lists = dict(zip(file["names"].tolist(), parts, strict=True))
    except Exception as error:  # zipfile, zlib and numpy have a dozen classes for damage
        raise ValueError(f"it holds no lists, or is damaged: {error}") from error
    if _digest(lists) not in digest:
        raise ValueError("its lists are not those of which its name has the hash")
    return lists


def pack_arrays(arrays: Mapping[str, np.ndarray]) -> tuple[str, bytes]:
    """As `pack`, for arrays of any type and shape."""
    buffer = io.BytesIO()
    numbered = {f"a{number}": array for number, array in enumerate(arrays.values())}
    np.savez(buffer, names=np.array(list(arrays), np.str_), **numbered)  # type: ignore[arg-type]
    return _digest_arrays(arrays), buffer.getvalue()


def unpack_arrays(content: bytes, digest: str) -> dict[str, np.ndarray]:
    """What `pack_arrays` packed; see `unpack`.

    Raises:
        ValueError: it is none, or holds others.
    """
    try:
        door.check_archive(content)
        with np.load(io.BytesIO(content), allow_pickle=False) as file:
            arrays = {name: file[f"a{number}"] for number, name in enumerate(file["names"].tolist())}
    except Exception as error:  # as above
        raise ValueError(f"it holds no arrays, or is damaged: {error}") from error
    if _digest_arrays(arrays) not in digest:
        raise ValueError("its arrays are not those of which its name has the hash")
    return arrays


def _digest_arrays(arrays: Mapping[str, np.ndarray]) -> str:
    digest = hashlib.sha256()
    for name, array in arrays.items():
        digest.update(f"{name!r} {array.dtype.str} {array.shape} ".encode())
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()[:16]


def _digest(lists: Mapping[str, np.ndarray]) -> str:
    digest = hashlib.sha256()
    for name, values in lists.items():
        digest.update(f"{name!r} {len(values)} ".encode())
        digest.update(np.ascontiguousarray(values, "<f4").tobytes())
    return digest.hexdigest()[:16]
