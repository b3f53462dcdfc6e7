"""Writing files: whole or not at all, and never over the user's."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shlex
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import onnx

from onnxq.base import door, interrupts
from onnxq.base.errors import UserError
from onnxq.base.escapes import escaped
from onnxq.graph.constants import external_range, tensor_bytes
from onnxq.graph.external import externalize
from onnxq.graph.load import tensors
from onnxq.graph.rooted import is_external, read_beside

# Protobuf's limit is 2 GiB; beyond this the weights go into a file of their own.
_INLINE_LIMIT = 1_800_000_000

_PAGE = b'<meta name="generator" content="onnxq">'


def report_path(output: Path) -> Path:
    """The report beside a model: `X.report.json` for `X.onnx`."""
    return output.with_suffix("").with_name(output.with_suffix("").name + ".report.json")


def page_path(report: Path) -> Path:
    """The page beside a report: `X.report.html` for `X.report.json`."""
    return report.with_suffix(".html")


def cache_path(output: Path) -> Path:
    """The calibration cache beside a model: `X.cache` for `X.onnx`."""
    return output.with_suffix(".cache")


def check_output(
    output: Path,
    source: Path | None,
    *,
    force: bool = False,
    record: Path | None = None,
    cache: bool = False,
    page: bool = False,
    beside: Sequence[Path] = (),
) -> None:
    """Refuses an output path before any work is done.

    Args:
        output: the path of a model.
        source: the input, or None.
        force: whether files that onnxq did not write may be replaced.
        record: the document that tells that onnxq wrote it; the model's report by default.
        cache: whether a calibration cache is written beside it.
        page: whether a page is written beside the record.
        beside: what else is written.

    Raises:
        UserError: it is a model and named otherwise than `X.onnx`, the input or holds its weights, a folder,
            in a folder that does not exist or cannot be written, or an existing file that onnxq did not
            write.
    """
    if not output.name:  # as of -o ''
        raise UserError(f"the output {str(output)!r} is a folder", hint="give a file name with -o")
    if record is None and output.suffix.lower() not in ("", ".onnx"):  # others build X.engine of X.onnx
        raise UserError(
            f"the output {str(output)!r} is an ONNX model, and its name ends in {output.suffix!r}",
            hint=f"give -o {shlex.quote(str(output.with_suffix('.onnx')))}",
        )
    try:
        _check_output(output, source, force, record or report_path(output), cache, page, beside)
    except OSError as error:  # a name that is too long, a folder that must not be searched
        raise UserError(
            f"cannot write {str(output)!r}: {error.strerror}", hint="give another path with -o"
        ) from error


def _check_output(
    output: Path, source: Path | None, force: bool, record: Path, cache: bool, page: bool,
    beside: Sequence[Path],
) -> None:  # fmt: skip
    if source is not None and output.exists() and source.exists() and output.samefile(source):
        raise UserError(f"the output {str(output)!r} is the input", hint="give another path with -o")
    if output.is_dir():
        raise UserError(f"the output {str(output)!r} is a folder", hint="give a file name with -o")
    if output.exists() and not output.is_file():  # a rename would replace /dev/null itself
        raise UserError(f"the output {str(output)!r} is not a file", hint="give a file name with -o")
    folder = output.parent
    if not folder.is_dir():
        raise UserError(f"there is no folder {str(folder)!r} to write to", hint="create it first")
    try:  # os.access is not to be trusted (root, read-only mounts): write something
        with tempfile.NamedTemporaryFile(dir=folder, prefix=f".{output.name[:40]}."):
            pass
    except OSError as error:
        raise UserError(
            f"cannot write {str(output)!r}: {error.strerror}", hint="choose another folder with -o"
        ) from error
    caches = [cache_path(output)] if cache else []
    pages = [page_path(record)] if page else []
    places = (output, output.with_name(output.name + ".data"), *caches, *pages, *beside, record)
    there = [path for path in places if path.exists()]
    held = _weights_of(source) if there and source is not None else set()
    for path in there:
        if any(path.samefile(one) for one in held):
            raise UserError(
                f"{str(path)!r} holds weights of the input {str(source)!r}", hint="give another path with -o"
            )
        if not force and not _is_ours(path, record, listed=path in beside):
            raise UserError(
                f"{str(path)!r} exists, and onnxq did not write it",
                hint="give another path with -o, or --force to replace it",
            )


def save_model(
    model: onnx.ModelProto,
    output: Path,
    data_dir: Path | None,
    report: dict[str, Any] | None = None,
) -> list[Path]:
    """Writes a model, its external data where it needs any, and its report; see `save_models`."""
    documents = {} if report is None else {report_path(output).name: report}
    return save_models(output.parent, {output.name: model}, data_dir, documents)


def save_models(
    folder: Path,
    models: Mapping[str, onnx.ModelProto],
    data_dir: Path | None,
    documents: Mapping[str, Any],
) -> list[Path]:
    """Writes models, their external data where they need any, and JSON documents.

    Everything is written under other names first and renamed at the end, so that an interruption
    leaves no half-written file.

    Args:
        folder: where to.
        models: the models by file name; they are not modified.
        data_dir: the folder of the external data that the models refer to.
        documents: the documents by file name; what is text already is written as it is, what is a
            function is called with the SHA-256 of each model by file name. None: there is none, and one of
            an earlier run is removed.

    Returns:
        The files written.

    Raises:
        UserError: the disk is full or a file cannot be written.
    """
    names, hashes = [], {}
    gone = [folder / name for name, document in documents.items() if document is None]
    with _staged(folder) as stage:
        for name, model in models.items():
            if needs_data_file(model):
                names.append(f"{name}.data")
                model = externalize(model, stage / names[-1], data_dir)
            names.append(name)
            (stage / name).write_bytes(model.SerializeToString(deterministic=True))
            hashes[name] = sha256(stage / name)
        for name, document in documents.items():
            if document is None:
                continue
            names.append(name)
            if callable(document):
                document = document(hashes)
            if not isinstance(document, str):
                plain = json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False)
                document = escaped(plain) + "\n"
            # a file name that is no text is escaped, as JSON has it
            (stage / name).write_bytes(document.encode("utf-8", "backslashreplace"))
        with interrupts.held_back():  # files that belong together are renamed together
            for name in names:
                os.replace(stage / name, folder / name)
            for path in gone:
                path.unlink(missing_ok=True)
    return [folder / name for name in sorted(names)]


def sha256(path: Path) -> str:
    """The SHA-256 of a file, in hexadecimal."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while piece := file.read(1 << 20):
            digest.update(piece)
    return digest.hexdigest()


def save_file(output: Path, content: bytes) -> None:
    """Writes a file, whole or not at all.

    Raises:
        UserError: the disk is full or the file cannot be written.
    """
    with _staged(output.parent) as stage:
        (stage / output.name).write_bytes(content)
        os.replace(stage / output.name, output)


@contextlib.contextmanager
def _staged(folder: Path) -> Iterator[Path]:
    try:
        stage = interrupts.Folder(folder)
    except OSError as error:
        raise UserError(f"cannot write in {str(folder)!r}: {error.strerror}") from error
    with stage as name:
        try:
            yield Path(name)
        except OSError as error:
            raise UserError(
                f"cannot write in {str(folder)!r}: {error.strerror}", hint="is the disk full?"
            ) from error


def _weights_of(model: Path) -> set[Path]:
    """The files that hold the external data of a model, which would be lost with them."""
    proto, folder = read_beside(model)
    return {external_range(tensor, folder)[0] for tensor in filter(is_external, tensors(proto.graph))}


def _is_ours(path: Path, record: Path, *, listed: bool = False) -> bool:
    """Whether onnxq wrote it: the record is one; of what only some runs write it also has the name."""
    if path.stat().st_size == 0 or is_page(path):
        return True
    try:
        document = json.loads(door.content(record))
        names = {Path(file).name for file in document["files"]} if listed else {path.name}
        return "onnxq" in document and path.name in names
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        return False


def is_page(path: Path) -> bool:
    """Whether a file is a page that onnxq wrote."""
    try:
        with path.open("rb") as file:
            return _PAGE in file.read(500)
    except OSError:
        return False


def needs_data_file(model: onnx.ModelProto) -> bool:
    """Whether a model's weights go into a file of their own: they did before, or they are too large."""
    listed = list(tensors(model.graph))
    return (
        any(tensor.data_location == onnx.TensorProto.EXTERNAL for tensor in listed)
        or sum(map(tensor_bytes, listed)) > _INLINE_LIMIT
    )
