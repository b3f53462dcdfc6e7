"""Which files the data of a path are in."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

from onnxq.base.errors import UserError, unknown_name
from onnxq.base.reason import noted
from onnxq.data import images, video
from onnxq.data.lists import Entry, read_list
from onnxq.data.samples import InputSpec
from onnxq.data.tensor_file import INPUT, OUTPUT
from onnxq.data.video import Frames

TAKEN = (
    "give a folder of images, .npy, .npz, .pb or .parquet files, one such file, a glob or a .txt list of "
    "them, a video, or Polygraphy's JSON inputs; for several inputs .npz, a .csv or test_data_set_0, or "
    "a folder or file for each input, named after it"
)

_KINDS = (
    dict.fromkeys(images.SUFFIXES, "image")
    | dict.fromkeys(video.SUFFIXES, "video")
    | {
        ".npy": "npy",
        ".npz": "npz",
        ".pb": "pb",
        ".json": "json",
        ".arrow": "arrow",
        ".parquet": "arrow",
        ".csv": "csv",
        ".tsv": "csv",
        ".txt": "list",
        ".lst": "list",
    }
)
_ALONE = frozenset(("json", "csv", "list"))  # such a file holds all samples: not part of a folder
_ONE_INPUT = frozenset(("image", "video", "npy", "pb", "list"))
_LISTED = frozenset(("image", "npy", "npz", "pb"))
_SET = re.compile(r"test_data_set_(\d+)")
_CLUTTER = frozenset(("thumbs.db", "desktop.ini", "__macosx"))
_SAVED = frozenset(("dataset_info.json", "state.json"))  # what `save_to_disk` writes beside .arrow files
_PARTS = "dataset_dict.json"


@dataclass(frozen=True, slots=True)
class Found:
    """The data files of a path.

    Attributes:
        path: the file or folder.
        kind: `image`, `npy`, `npz`, `pb`, `json`, `csv`, `arrow`, or `set`: folders `test_data_set_0`.
        files: themselves, in order.
        left_out: names in the folder that are no data.
        entries: the lines that name the files, where the path is a list; the frames of videos.
        frames: where the files are frames of videos, what keeps them.
    """

    path: Path
    kind: str
    files: Sequence[Path]
    left_out: Sequence[str] = ()
    entries: Sequence[Entry] = ()
    frames: Frames | None = None

    @property
    def holds_one_input(self) -> bool:
        """Whether a file holds data of one input, without its name."""
        return self.kind in _ONE_INPUT

    @property
    def title(self) -> str:
        """The files in words: `data.npz`, `40 .npy files in data (2 folders)`."""
        if self.files[0] == self.path:
            return str(self.path)
        noun = {"image": "image", "set": "test data set"}.get(
            self.kind, f"{self.files[0].suffix.lower()} file"
        )
        if self.frames is not None:
            noun = "frame"
        if self.kind == "set" or self.frames is not None:
            return f"{len(self.files)} {noun}{'s' * (len(self.files) > 1)} in {self.path}"
        folders = len({file.parent for file in self.files})
        spread = f" ({folders} folders)" if folders > 1 else ""
        return f"{len(self.files)} {noun}{'s' * (len(self.files) > 1)} in {self.path}{spread}"

    @property
    def notes(self) -> list[str]:
        """What the user may not expect."""
        frames = [] if self.frames is None else self.frames.notes
        if not self.left_out:
            return frames
        names = ", ".join(self.left_out[:3]) + (", ..." if len(self.left_out) > 3 else "")
        return [
            noted("left-out.files", folder=str(self.path), count=len(self.left_out), names=names),
            *frames,
        ]


def kind_of(path: Path) -> str | None:
    """The kind of a file, by its suffix; `list` besides those of `Found`; None for other files."""
    return _KINDS.get(path.suffix.lower())


def find_files(path: Path) -> Found:
    """The data files of a file, of a folder with its subfolders, or of a glob.

    Raises:
        UserError: there is no such path, no data in it, or data of several kinds.
    """
    if os.path.isfile(path):  # unlike Path.is_file, False for a name that is too long
        kind = kind_of(path)
        if kind is None:
            raise UserError(f"{str(path)!r} is not a data file that onnxq reads", hint=TAKEN)
        return _listed(path) if kind == "list" else _found(path, kind, [path])
    if os.path.isdir(path):
        kinds, others = _walk(path)
        return _of_one_kind(path, kinds, others, f"the data folder {str(path)!r}", "a folder")
    if is_glob(path):
        kinds, others = _matched(path)
        return _of_one_kind(path, kinds, others, f"the glob {str(path)!r}", "a glob")
    there = [str(entry) for entry in sorted(path.parent.glob("*"))]
    near = get_close_matches(str(path), there)
    meant = f"did you mean {', '.join(map(repr, near))}?" if near else "check the path"
    raise UserError(f"there is no data file or folder {str(path)!r}", hint=meant)


def is_glob(path: Path) -> bool:
    """Whether a path is a pattern of paths: `imgs/*.jpg`, or `imgs/**/*.jpg` for all folders below."""
    return glob.has_magic(str(path)) and not os.path.exists(path)


def list_files(paths: Sequence[Path]) -> Found:
    """The data files of a list of paths in memory.

    Raises:
        UserError: one is of no data file, or they are of several kinds.
    """
    entries = [Entry(f"item {number} of the data", str(path), path) for number, path in enumerate(paths)]
    folders = {os.path.dirname(os.path.abspath(path)) for path in paths}
    try:
        folder = Path(os.path.relpath(os.path.commonpath(folders)))
    except ValueError:  # on several drives
        folder = Path(os.path.curdir)
    return _of_entries(folder, entries, "the list of paths")


def _of_one_kind(
    path: Path, kinds: Mapping[str, list[Path]], others: Sequence[str], title: str, place: str
) -> Found:
    if not kinds:
        what = (
            f"only {', '.join(others[:3])}" if others else "empty" if place == "a folder" else "no file is so"
        )
        raise UserError(f"{title} has zero samples: {what}", hint=TAKEN)
    if len(kinds) > 1:
        text = ", ".join(f"{len(f)} {k} ({f[0].name!r}, ...)" for k, f in kinds.items())
        raise UserError(f"{title} holds files of several kinds: {text}", hint=f"keep one kind in {place}")
    ((kind, files),) = kinds.items()
    return _found(path, kind, files, others)


def _found(path: Path, kind: str, files: Sequence[Path], others: Sequence[str] = ()) -> Found:
    """Files of one kind; of videos their frames."""
    if kind != "video":
        return Found(path, kind, files, others)
    frames = Frames(files)
    return Found(path, "image", [one.path for one in frames.entries], others, frames.entries, frames)


def _listed(path: Path) -> Found:
    """The files of a list."""
    entries = read_list(path)
    if not entries:
        raise UserError(f"the list {str(path)!r} has zero samples", hint="write one path a line")
    return _of_entries(path, entries, f"the list {str(path)!r}")


def _of_entries(path: Path, entries: Sequence[Entry], title: str) -> Found:
    kinds: dict[str, Entry] = {}
    for entry in entries:
        kind = kind_of(entry.path)
        if kind not in _LISTED:
            raise UserError(
                f"{entry.where}: {entry.text!r} is not a data file that onnxq reads from a list",
                hint="it has to be the path of an image, or of an .npy, .npz or .pb file, and nothing else",
            )
        kinds.setdefault(kind, entry)
    if len(kinds) > 1:
        text = " and ".join(f"{kind} ({entry.where}: {entry.text!r})" for kind, entry in kinds.items())
        raise UserError(f"{title} names files of several kinds: {text}", hint="keep one kind in a list")
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


_DEEPEST = 200


def _walk(path: Path) -> tuple[dict[str, list[Path]], list[str]]:
    """The files of a folder by kind, and the names of what is left out.

    Raises:
        UserError: a folder cannot be read, or there are several parts of a dataset.
    """
    kinds: dict[str, list[Path]] = {}
    others: list[str] = []

    def refuse(error: OSError) -> None:
        raise _unreadable(error) from error

    for root, folders, names in os.walk(path, onerror=refuse):
        if len(Path(root).relative_to(path).parts) > _DEEPEST:  # Python's walk is recursive
            raise UserError(f"{str(path)!r} holds folders in folders, more than {_DEEPEST}", hint="name one")
        others += sorted(f"{name}/" for name in folders if _is_clutter(name))
        folders[:] = sorted(name for name in folders if not _is_clutter(name))
        if _PARTS in names and len(folders) > 1:
            parts = ", ".join(str(Path(root, name)) for name in folders)
            raise UserError(f"{root!r} holds a dataset in several parts: {parts}", hint="name one of them")
        for name in sorted(names):
            _sort(Path(root, name), kinds, others)
    if "arrow" in kinds:
        others = [name for name in others if name not in (*_SAVED, _PARTS)]
    return kinds, others


def _matched(path: Path) -> tuple[dict[str, list[Path]], list[str]]:
    """The files that a glob matches, and those in folders that it matches, by kind; as `_walk`."""
    kinds: dict[str, list[Path]] = {}
    others: list[str] = []
    found = [Path(name) for name in sorted(glob.glob(str(path), recursive=True))]
    files = [one for one in found if os.path.isfile(one)]
    for one in files:
        _sort(one, kinds, others)
    for folder in found if not files else ():
        inner, left = _walk(folder)
        others += left
        for kind, some in inner.items():
            kinds.setdefault(kind, []).extend(some)
    return kinds, others


def _sort(file: Path, kinds: dict[str, list[Path]], others: list[str]) -> None:
    """Puts a file of a folder to those of its kind, or among what is left out."""
    odd = os.path.exists(file) and not os.path.isfile(file)  # a pipe would be waited for
    kind = None if odd or _is_clutter(file.name) else kind_of(file)
    if kind == "pb" and OUTPUT.fullmatch(file.name):
        return
    if kind is None or kind in _ALONE:
        others.append(file.name)
    else:
        kinds.setdefault(kind, []).append(file)


def _is_clutter(name: str) -> bool:
    return name.startswith(".") or name.lower() in _CLUTTER
