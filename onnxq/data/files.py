"""Which files the data of a path are in."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from onnxq.base.errors import UserError, unknown_name
from onnxq.data import images
from onnxq.data.lists import Entry, read_list
from onnxq.data.samples import InputSpec
from onnxq.data.tensor_file import INPUT, OUTPUT

TAKEN = (
    "give a folder of images, of .npy, .npz or .pb files, one such file, a .txt list of them, or "
    "Polygraphy's JSON inputs; for several inputs .npz files, a .csv or test_data_set_0, or a folder or "
    "file for each input, named after it"
)

_KINDS = dict.fromkeys(images.SUFFIXES, "image") | {
    ".npy": "npy",
    ".npz": "npz",
    ".pb": "pb",
    ".json": "json",
    ".csv": "csv",
    ".tsv": "csv",
    ".txt": "list",
    ".lst": "list",
}
_ALONE = frozenset(("json", "csv", "list"))  # such a file holds all samples: not part of a folder
_ONE_INPUT = frozenset(("image", "npy", "pb", "list"))
_SET = re.compile(r"test_data_set_(\d+)")
_CLUTTER = frozenset(("thumbs.db", "desktop.ini", "__macosx"))


@dataclass(frozen=True, slots=True)
class Found:
    """The data files of a path.

    Attributes:
        path: the file or folder.
        kind: `image`, `npy`, `npz`, `pb`, `json`, `csv`, or `set`: folders `test_data_set_0`.
        files: themselves, in order.
        left_out: names in the folder that are no data.
        entries: the lines that name the files, where the path is a list.
    """

    path: Path
    kind: str
    files: Sequence[Path]
    left_out: Sequence[str] = ()
    entries: Sequence[Entry] = ()

    @property
    def holds_one_input(self) -> bool:
        """Whether a file holds data of one input, without its name."""
        return self.kind in _ONE_INPUT

    @property
    def title(self) -> str:
        """The files in words: `data.npz`, `40 .npy files in data (2 folders)`."""
        if self.files[0] == self.path:
            return str(self.path)
        noun = {"image": "image", "set": "test data set"}.get(self.kind, f".{self.kind} file")
        if self.kind == "set":
            return f"{len(self.files)} {noun}{'s' * (len(self.files) > 1)} in {self.path}"
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


def kind_of(path: Path) -> str | None:
    """The kind of a file, by its suffix; `list` besides those of `Found`; None for other files."""
    return _KINDS.get(path.suffix.lower())


def find_files(path: Path) -> Found:
    """The data files of a file or a folder with its subfolders.

    Raises:
        UserError: there is no such path, no data in it, or data of several kinds.
    """
    if os.path.isfile(path):  # unlike Path.is_file, False for a name that is too long
        kind = kind_of(path)
        if kind is None:
            raise UserError(f"{str(path)!r} is not a data file that onnxq reads", hint=TAKEN)
        return _listed(path) if kind == "list" else Found(path, kind, [path])
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


def _listed(path: Path) -> Found:
    """The files of a list."""
    entries = read_list(path)
    if not entries:
        raise UserError(f"the list {str(path)!r} has zero samples", hint="write one path a line")
    kinds: dict[str, Entry] = {}
    for entry in entries:
        kind = kind_of(entry.path)
        if kind is None or kind in _ALONE:
            raise UserError(
                f"{entry.where}: {entry.text!r} is not a data file that onnxq reads from a list",
                hint="a line is the path of an image, or of an .npy, .npz or .pb file, and nothing else",
            )
        kinds.setdefault(kind, entry)
    if len(kinds) > 1:
        text = " and ".join(f"{kind} ({entry.where}: {entry.text!r})" for kind, entry in kinds.items())
        raise UserError(
            f"the list {str(path)!r} names files of several kinds: {text}", hint="keep one kind in a list"
        )
    (kind,) = kinds
    return Found(path, kind, [entry.path for entry in entries], entries=entries)


def find_sets(folder: Path, inputs: int) -> Found | None:
    """The test data sets of the ONNX model zoo: `test_data_set_0/input_0.pb` and so on.

    Args:
        folder: one set, or the folder of several; one that is not named so is a set only for a
            model of several inputs: for one input, its files may be a sample each.
        inputs: how many inputs the model has.

    Returns:
        The folders of the sets; None where there are none.
    """
    if not os.path.isdir(folder):
        return None
    names = _listdir(folder)
    is_set = any(map(INPUT.fullmatch, names))
    if is_set and (inputs > 1 or _SET.fullmatch(folder.resolve().name)):
        return Found(folder, "set", [folder])
    sets = {int(match[1]): name for name in names if (match := _SET.fullmatch(name))}
    if not sets or is_set:
        return None
    others = [name for name in names if name not in sets.values()]
    return Found(folder, "set", [folder / sets[number] for number in sorted(sets)], others)


def find_by_input(folder: Path, inputs: Sequence[InputSpec]) -> dict[str, Found] | None:
    """The data of each input, where the folder keeps them apart: `left/` and `right/`, or `left.npy`.

    Returns:
        The data by input; None where no name in the folder is an input's.

    Raises:
        UserError: an input has none, or it is as in `find`.
    """
    if not os.path.isdir(folder):
        return None
    entries = [entry for entry in _listdir(folder) if not _is_clutter(entry)]
    by_name = {spec.name: _entry_of(folder, spec.key) for spec in inputs}
    if not any(by_name.values()):
        return None
    for spec in inputs:
        if by_name[spec.name] is None:
            name = spec.key
            free = [entry for entry in entries if folder / entry not in by_name.values()]
            error = unknown_name(f"folder or file in {str(folder)!r} for input", name, free)
            raise UserError(
                str(error),
                hint=f"{error.hint} Name it after the input: {name}/ or {name}.npy (a value that all samples "
                f"share is one file), or say its name with --input-name {spec.name}=NAME; or make the input "
                f"constant with --freeze {spec.name}=VALUE".strip(),
            )
    return {name: find_files(path) for name, path in by_name.items() if path is not None}


def _entry_of(folder: Path, name: str) -> Path | None:
    """The subfolder or the file that is named after an input."""
    path = folder / name
    if not name or ".." in path.parts or path.parts[: len(folder.parts)] != folder.parts:
        return None
    files = (path.with_name(path.name + suffix) for suffix, kind in _KINDS.items() if kind in _ONE_INPUT)
    paths = [path] * os.path.isdir(path) + [file for file in files if os.path.isfile(file)]
    if len(paths) > 1:
        raise UserError(
            f"input {name!r} has data in {str(paths[0])!r} and in {str(paths[1])!r}",
            hint="remove one of them",
        )
    return paths[0] if paths else None


def _listdir(folder: Path) -> list[str]:
    """The names in a folder, in order."""
    try:
        return sorted(os.listdir(folder))
    except OSError as error:
        raise _unreadable(error) from error


def _unreadable(error: OSError) -> UserError:
    return UserError(
        f"cannot read the folder {error.filename!r}: {error.strerror}", hint="check its permissions"
    )


def _walk(path: Path) -> tuple[dict[str, list[Path]], list[str]]:
    """The files of a folder by kind, and the names of what is left out."""
    kinds: dict[str, list[Path]] = {}
    others: list[str] = []

    def refuse(error: OSError) -> None:
        raise _unreadable(error) from error

    for root, folders, names in os.walk(path, onerror=refuse):
        others += sorted(f"{name}/" for name in folders if _is_clutter(name))
        folders[:] = sorted(name for name in folders if not _is_clutter(name))
        for name in sorted(names):
            kind = None if _is_clutter(name) else kind_of(Path(name))
            if kind == "pb" and OUTPUT.fullmatch(name):
                continue
            if kind is None or kind in _ALONE:
                others.append(name)
            else:
                kinds.setdefault(kind, []).append(Path(root, name))
    return kinds, others


def _is_clutter(name: str) -> bool:
    return name.startswith(".") or name.lower() in _CLUTTER
