"""A store that all machines read: tasks of an executor fetch the model from there, and need not bring it."""

from __future__ import annotations

import contextlib
import io
import uuid
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any

from onnxq.base.errors import UserError
from onnxq.base.executors import Executor, Parcel, Submitted, digest_of


@dataclass(frozen=True, slots=True)
class StoredParcel(Parcel):
    """One whose files are in a store.

    Attributes:
        url: of the file there, as fsspec has it: a zip of what `files` would have.
    """

    url: str = ""

    def contents(self) -> Mapping[str, bytes]:
        """The content of each file, by its path in the folder.

        Raises:
            OSError: the store cannot be read just now: the task is lost.
            UserError: there is no such store here, or it has something else.
        """
        try:
            opened = _fsspec().open(self.url, "rb")
        except (ValueError, ImportError) as error:
            raise UserError(f"{self.url} is in no store that this machine knows: {error}") from error
        with opened as stored, zipfile.ZipFile(io.BytesIO(stored.read())) as packed:
            files = {name: packed.read(name) for name in packed.namelist()}
        if digest_of(files) != self.digest:
            raise UserError(
                f"{self.url} is not what was written there", hint="give this run a folder of its own"
            )
        return files


class StoredExecutor:
    """An executor whose tasks fetch the model from a store, written once; it is removed at the end.

    with onnxq.StoredExecutor(client, "s3://bucket/folder") as executor:
        onnxq.calibrate("model.onnx", "images/", "model.stats.npz", executor=executor)
    """

    def __init__(self, executor: Executor, store: str) -> None:
        """Around another one.

        Args:
            executor: what runs the tasks.
            store: a folder, as fsspec has it: `s3://bucket/folder`, `gs://...`, `file:///mnt/shared`.

        Raises:
            UserError: fsspec is not installed, or does not know such a store.
        """
        try:
            self._files, folder = _fsspec().core.url_to_fs(store)
        except (ValueError, ImportError) as error:
            raise UserError(
                f"{store!r} is no store: {error}", hint="as s3://bucket/folder, or file:///mnt/shared"
            ) from error
        name = f"onnxq-{uuid.uuid4().hex}"  # of this run: others may have the same model there
        self._url, self._place = (f"{one.rstrip('/')}/{name}" for one in (store, folder))
        self._folder = folder
        self._executor, self._kept = executor, dict[str, StoredParcel]()

    def submit(self, work: Callable[..., Any], /, *args: Any) -> Submitted:
        """As `onnxq.base.executors.Submit`; what a task would bring is written to the store.

        Raises:
            UserError: the store cannot be written.
        """
        return self._executor.submit(
            work, *(self._stored(one) if isinstance(one, Parcel) else one for one in args)
        )

    def __enter__(self) -> StoredExecutor:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        for digest in list(self._kept):
            with contextlib.suppress(OSError):  # what ends the run comes first
                self._files.rm(f"{self._place}-{self._kept.pop(digest).digest}.zip")

    def _stored(self, parcel: Parcel) -> StoredParcel:
        if parcel.digest not in self._kept:
            path = f"{self._place}-{parcel.digest}.zip"
            try:
                self._files.makedirs(self._folder, exist_ok=True)
                with self._files.open(path, "wb") as stored, zipfile.ZipFile(stored, "w") as packed:
                    for name, content in parcel.contents().items():
                        packed.writestr(name, content)
            except OSError as error:
                raise UserError(f"the store cannot be written: {error}") from error
            self._kept[parcel.digest] = StoredParcel(parcel.digest, {}, f"{self._url}-{parcel.digest}.zip")
        return self._kept[parcel.digest]


def _fsspec() -> Any:
    try:
        import fsspec
    except ImportError as error:
        raise UserError("fsspec is not installed", hint="pip install 'onnxq[stores]'") from error
    return fsspec
