"""Finding the data files of a path."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from onnxq.calib import images
from onnxq.errors import UserError, unknown_name

TAKEN = (
    "give a folder of images, of .npy or of .npz files, one such file, or Polygraphy's JSON inputs; for "
    "several inputs .npz files, or a folder or file for each input, named after it"
)

_KINDS = {".npy": "npy", ".npz": "npz", ".json": "json"} | dict.fromkeys(images.SUFFIXES, "image")
_CLUTTER = frozenset(("thumbs.db", "desktop.ini", "__macosx"))


@dataclass(frozen=True, slots=True)
class Found:
    """The data files of a path.

    Attributes:
        path: the file or folder.
        kind: `image`, `npy`, `npz` or `json`.
        files: themselves, in order.
        left_out: names in the folder that are no data.
    """

    path: Path
    kind: str
    files: Sequence[Path]
    left_out: Sequence[str] = ()

    @property
    def title(self) -> str:
        """The files in words: `data.npz`, `40 .npy files in data (2 folders)`."""
        if self.files[0] == self.path:
            return str(self.path)
        noun = "image" if self.kind == "image" else f".{self.kind} file"
        folders = len({file.parent for file in self.files})
        spread = f" ({folders} folders)" if folders > 1 else ""
        return f"{len(self.files)} {noun}{'s' * (len(self.files) > 1)} in {self.path}{spread}"

    @property
    def notes(self) -> list[str]:
        """What the user may not expect."""
        if not self.left_out:
            return []
        names = ", ".join(self.left_out[:3]) + (", ..." if len(self.left_out) > 3 else "")
        return [f"other files in {str(self.path)!r} are left out ({len(self.left_out)}): {names}"]


def find(path: Path) -> Found:
    """The data files of a file or a folder with its subfolders.

    Raises:
        UserError: there is no such path, no data in it, or data of several kinds.
    """
    if os.path.isfile(path):  # unlike Path.is_file, False for a name that is too long
        kind = _KINDS.get(path.suffix.lower())
        if kind is None:
            raise UserError(f"{str(path)!r} is not a data file that onnxq reads", hint=TAKEN)
        return Found(path, kind, [path])
    if not os.path.isdir(path):
        near = [str(entry) for entry in sorted(path.parent.glob("*"))]
        error = unknown_name("data file or folder", str(path), near)
        raise UserError(str(error), hint=error.hint or "check the path")
    kinds, others = _walk(path)
    if not kinds:
        what = f"only {', '.join(others[:3])}" if others else "empty"
        raise UserError(f"the data folder {str(path)!r} has zero samples: {what}", hint=TAKEN)
    if len(kinds) > 1:
        text = ", ".join(f"{len(f)} {k} ({f[0].name!r}, ...)" for k, f in kinds.items())
        raise UserError(
            f"the data folder {str(path)!r} holds files of several kinds: {text}",
            hint="keep one kind in a folder",
        )
    ((kind, files),) = kinds.items()
    return Found(path, kind, files, others)


def find_by_input(folder: Path, names: Sequence[str]) -> dict[str, Found] | None:
    """The data of each input, where the folder keeps them apart: `left/` and `right/`, or `left.npy`.

    Returns:
        The data by input; None where no name in the folder is an input's.

    Raises:
        UserError: an input has none, or it is as in `find`.
    """
    if not os.path.isdir(folder):
        return None
    entries = sorted(entry for entry in os.listdir(folder) if not _is_clutter(entry))
    by_name = {name: _entry_of(folder, name) for name in names}
    if not any(by_name.values()):
        return None
    for name, path in by_name.items():
        if path is None:
            free = [entry for entry in entries if folder / entry not in by_name.values()]
            error = unknown_name(f"folder or file in {str(folder)!r} for input", name, free)
            raise UserError(
                str(error),
                hint=f"{error.hint} Name it after the input: {name}/ or {name}.npy (a value that all samples "
                f"share is one file); or make the input constant with --freeze {name}=VALUE".strip(),
            )
    return {name: find(path) for name, path in by_name.items() if path is not None}


def _entry_of(folder: Path, name: str) -> Path | None:
    """The subfolder or the file that is named after an input."""
    path = folder / name
    if not name or ".." in path.parts or path.parts[: len(folder.parts)] != folder.parts:
        return None
    files = (path.with_name(path.name + suffix) for suffix in _KINDS if suffix not in (".npz", ".json"))
    found = [path] * os.path.isdir(path) + [file for file in files if os.path.isfile(file)]
    if len(found) > 1:
        raise UserError(
            f"input {name!r} has data in {str(found[0])!r} and in {str(found[1])!r}",
            hint="remove one of them",
        )
    return found[0] if found else None


def _walk(path: Path) -> tuple[dict[str, list[Path]], list[str]]:
    """The files of a folder by kind, and the names of what is left out."""
    kinds: dict[str, list[Path]] = {}
    others: list[str] = []

    def refuse(error: OSError) -> None:
        raise UserError(
            f"cannot read the folder {error.filename!r}: {error.strerror}", hint="check its permissions"
        ) from error

    for root, folders, names in os.walk(path, onerror=refuse):
        others += sorted(f"{name}/" for name in folders if _is_clutter(name))
        folders[:] = sorted(name for name in folders if not _is_clutter(name))
        for name in sorted(names):
            kind = None if _is_clutter(name) else _KINDS.get(Path(name).suffix.lower())
            if kind is None or kind == "json":  # a JSON file holds all samples: not part of a folder
                others.append(name)
            else:
                kinds.setdefault(kind, []).append(Path(root, name))
    return kinds, others


def _is_clutter(name: str) -> bool:
    return name.startswith(".") or name.lower() in _CLUTTER
