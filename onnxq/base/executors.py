"""Executors of the user's: processes or machines that work for a call, and what a task takes there."""

from __future__ import annotations

import contextlib
import hashlib
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, TypeVar, runtime_checkable

from onnxq.base import interrupts
from onnxq.base.errors import OnnxqError, UserError

Tag = TypeVar("Tag")

_TRIES = 3
"""How often a task is given away: what runs it may die."""

_AHEAD = 8
"""Tasks that are given away before the first of them is done, at least."""


class Submitted(Protocol):
    """What an executor answers at once: a future."""

    def result(self) -> Any:
        """What the function gave; raises what it raised, or what became of it."""
        ...


class Submit(Protocol):
    """`submit` of an executor."""

    def __call__(self, work: Callable[..., Any], /, *args: Any) -> Submitted:
        """Has a function run somewhere where onnxq can be imported."""
        ...


@runtime_checkable
class Executor(Protocol):
    """What runs functions elsewhere: of `concurrent.futures`, Dask's client, or an adapter of your own."""

    def submit(self, work: Callable[..., Any], /, *args: Any) -> Submitted:
        """As `Submit`."""
        ...


def submit_of(executor: Executor | None, submit: Submit | None) -> Submit | None:
    """What gives tasks away, of the two names that it goes by; None where nothing does.

    Raises:
        UserError: both are given.
    """
    if executor is not None and submit is not None:
        raise UserError("executor and submit are two names of one thing", hint="give one of them")
    return submit if executor is None else executor.submit


def submitted(
    submit: Submit,
    work: Callable[..., Any],
    tasks: Iterable[tuple[Tag, tuple[Any, ...]]],
    ahead: int = _AHEAD,
) -> Iterator[tuple[Tag, Any]]:
    """Gives tasks away, some at a time, and what each gives, in their order.

    A task that is lost, as what ran it has died, is given away again; the others are not done again.

    Args:
        submit: gives one away.
        work: a function of a module.
        tasks: what each is called, and the arguments; read as far ahead as that goes.
        ahead: how many are given away at once.

    Raises:
        OnnxqError: one of them raises it; or what else it raises, time and again.
        UserError: one was lost time and again.
    """
    waiting: deque[tuple[Tag, tuple[Any, ...], Submitted | Exception]] = deque()

    def given(args: tuple[Any, ...]) -> Submitted | Exception:
        try:
            return submit(work, *args)
        except OnnxqError:
            raise
        except Exception as error:  # the executor's own: it is told where it is the last try
            return error

    def first() -> tuple[Tag, Any]:
        tag, args, answer = waiting.popleft()
        for last in (False,) * (_TRIES - 1) + (True,):
            try:
                if isinstance(answer, Exception):
                    raise answer
                return tag, answer.result()
            except OnnxqError:
                raise
            except Exception as error:
                if last and type(error).__module__ == "builtins" and not isinstance(error, OSError):
                    raise  # the function's own
                if last:
                    raise _lost(error) from error
                answer = given(args)
        raise AssertionError

    try:
        for tag, args in tasks:
            waiting.append((tag, args, given(args)))
            if len(waiting) >= ahead:
                yield first()
        while waiting:
            yield first()
    finally:
        for _, _, answer in waiting:
            with contextlib.suppress(Exception):
                answer.cancel()  # type: ignore[union-attr]


def _lost(error: Exception) -> UserError:
    said = str(error) or "it said nothing"
    return UserError(
        f"the executor lost a task {_TRIES} times: {type(error).__name__}: {said}",
        hint="what runs it may have run out of memory, or cannot import onnxq; what was done is kept",
    )


class RayExecutor:
    """Runs tasks on a cluster of Ray, which the caller has begun (`ray.init`)."""

    def __init__(self, **options: Any) -> None:
        """Of tasks with some options of `ray.remote`, as `num_cpus=2`; Ray's own without any.

        Raises:
            UserError: Ray is not installed.
        """
        try:
            import ray
        except ImportError as error:
            raise UserError("ray is not installed", hint="pip install ray") from error
        self._ray, self._options, self._remote = ray, options, dict[Callable[..., Any], Any]()

    def submit(self, work: Callable[..., Any], /, *args: Any) -> Submitted:
        """As `Submit`."""
        if work not in self._remote:
            self._remote[work] = (
                self._ray.remote(**self._options)(work) if self._options else self._ray.remote(work)
            )
        return _RayAnswer(self._ray, self._remote[work].remote(*args))


@dataclass(frozen=True, slots=True)
class _RayAnswer:
    ray: Any
    reference: Any

    def result(self) -> Any:
        return self.ray.get(self.reference)

    def cancel(self) -> None:
        self.ray.cancel(self.reference)


@dataclass(frozen=True, slots=True)
class Parcel:
    """The files of a folder by their content, which a task takes along: elsewhere this machine's are not.

    Attributes:
        digest: of their names and contents, as hexadecimal digits.
        files: the content of each, by its path in the folder.
    """

    digest: str
    files: Mapping[str, bytes] = field(repr=False)

    @staticmethod
    def of(folder: Path) -> Parcel:
        """That of a folder, subfolders included."""
        names = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())
        files = {name: (folder / name).read_bytes() for name in names}
        return Parcel(digest_of(files), files)

    def contents(self) -> Mapping[str, bytes]:
        """The content of each file, by its path in the folder."""
        return self.files

    @contextlib.contextmanager
    def opened(self) -> Iterator[Path]:
        """The folder, where the task runs: one thread at a time; the last one is kept for the next task."""
        with _one_at_a_time:
            if self.digest not in _unpacked:
                _unpacked.clear()
                folder = interrupts.Folder()
                for name, content in self.contents().items():
                    path = Path(folder.name, name)
                    path.parent.mkdir(parents=True, exist_ok=True)
                    path.write_bytes(content)
                _unpacked[self.digest] = folder
            yield Path(_unpacked[self.digest].name)


def digest_of(files: Mapping[str, bytes]) -> str:
    """That of names and contents: SHA-256, as hexadecimal digits."""
    hashing = hashlib.sha256()
    for name, content in files.items():
        hashing.update(f"{name} {len(content)} ".encode("utf-8", "surrogateescape"))
        hashing.update(content)
    return hashing.hexdigest()


_one_at_a_time = threading.Lock()
_unpacked: dict[str, interrupts.Folder] = {}
