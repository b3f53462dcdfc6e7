"""Executors of the user's: processes or machines that work for a call, and what a task takes there."""

from __future__ import annotations

import contextlib
import hashlib
import queue
import threading
import traceback
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import BrokenExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, TypeVar, runtime_checkable

from onnxq.base import door, interrupts
from onnxq.base.errors import OnnxqError, UserError, in_short

Tag = TypeVar("Tag")
Given = TypeVar("Given")

_TRIES = 3
"""How often a task is given away: what runs it may die."""

SECONDS = "ONNXQ_TASK_SECONDS"
"""The environment variable that states after how many seconds a task counts as lost; else none does."""

_AHEAD = 8
"""Tasks that are given away before the first of them is done, at least."""


class Submitted(Protocol):
    """What an executor answers at once: a future."""

    def result(self) -> Any:
        """What the function gave; raises what it raised, or what became of it."""


class Submit(Protocol):
    """`submit` of an executor."""

    def __call__(self, work: Callable[..., Any], /, *args: Any) -> Submitted:
        """Has a function run somewhere where onnxq can be imported."""


@runtime_checkable
class Executor(Protocol):
    """What runs functions elsewhere: of `concurrent.futures`, Dask's client, or an adapter of your own."""

    def submit(self, work: Callable[..., Any], /, *args: Any) -> Submitted:
        """As `Submit`."""


def submit_of(executor: Executor | Callable[[], Executor] | None, submit: Submit | None) -> Submit | None:
    """What gives tasks away, of the two names that it goes by; None where nothing does.

    Args:
        executor: an executor, or a function that makes one.
        submit: that of an executor.

    Raises:
        UserError: both are given.
    """
    if executor is not None and submit is not None:
        raise UserError("executor and submit are two names of one thing", hint="give one of them")
    if executor is None:
        return submit
    # a class of executors is such a function, too
    is_one = isinstance(executor, Executor) and not isinstance(executor, type)
    return executor.submit if is_one else Renewed(executor)  # type: ignore[union-attr, arg-type]


class Renewed:
    """`submit` of executors that a function makes, one after another: a pool may break."""

    def __init__(self, make: Callable[[], Executor]) -> None:
        """None is made yet."""
        self._make = make
        self._executor: Any = None

    def __call__(self, work: Callable[..., Any], /, *args: Any) -> Submitted:
        """As `Submit`.

        Raises:
            UserError: the function makes no executor.
        """
        if self._executor is not None:
            try:
                given: Submitted = self._executor.submit(work, *args)
                return given
            except OnnxqError:
                raise
            except Exception:  # its own: it takes no more
                self.end(at_once=True)
        try:
            self._executor = self._make()
        except Exception as error:
            raise UserError(f"the function that makes executors fails: {_said(error)}") from error
        if not isinstance(self._executor, Executor):
            made, self._executor = self._executor, None
            raise UserError(f"the function that makes executors makes {in_short(made)}, which has no submit")
        return self._executor.submit(work, *args)

    def end(self, *, at_once: bool) -> None:
        """Ends the executor; `at_once`: with the processes of a pool, one of which may never end."""
        executor, self._executor = self._executor, None
        if at_once:
            for process in list((getattr(executor, "_processes", None) or {}).values()):
                process.kill()
        for name, how in (("shutdown", {"wait": not at_once, "cancel_futures": True}), ("close", {})):
            if hasattr(executor, name):
                with contextlib.suppress(Exception):  # it is of no use any more
                    getattr(executor, name)(**how)
                return


@dataclass(frozen=True, slots=True)
class Answer:
    """What a task gave, or the error that it raised: what else `result` raises is the executor's."""

    value: Any = None
    error: Exception | None = None


def answered(work: Callable[..., Any], *args: Any) -> Answer:
    """A task, where it runs.

    Raises:
        Exception: what says nothing of the task: no memory, a file or a store that is away.
    """
    try:
        return Answer(work(*args))
    except (OSError, MemoryError):
        raise
    except Exception as error:
        if not isinstance(error, OnnxqError) and type(error).__module__ != "builtins":
            raise  # of a package, which may not be at hand where it is told
        error.add_note(traceback.format_exc())  # which does not travel with it
        return Answer(error=error)


def submitted(
    submit: Submit,
    work: Callable[..., Given],
    tasks: Iterable[tuple[Tag, tuple[Any, ...]]],
    kind: type[Given],
    ahead: int = _AHEAD,
) -> Iterator[tuple[Tag, Given]]:
    """Gives tasks away, some at a time, and what each gives, in their order.

    A task that is lost, as what ran it has died, is given away again; the others are not done again.

    Args:
        submit: gives one away.
        work: a function of a module.
        tasks: what each is called, and the arguments; read as far ahead as that goes.
        kind: what each gives.
        ahead: how many are given away at once.

    Raises:
        Exception: one of them raises it.
        UserError: one was lost time and again, or the executor answers with something else.
    """
    waiting: deque[tuple[Tag, tuple[Any, ...], Submitted | Exception]] = deque()

    def given(args: tuple[Any, ...]) -> Submitted | Exception:
        try:
            return submit(answered, work, *args)
        except OnnxqError:
            raise
        except Exception as error:  # the executor's own: it is told where it is the last try
            return error

    def first() -> tuple[Tag, Given]:
        tag, args, answer = waiting.popleft()
        for last in (False,) * (_TRIES - 1) + (True,):
            try:
                if isinstance(answer, Exception):
                    raise answer
                found = _in_time(answer, seconds)
            except OnnxqError:
                raise
            except Exception as error:
                if isinstance(error, _Late) and isinstance(submit, Renewed):
                    submit.end(at_once=True)
                if last:
                    raise _lost(error) from error
                answer = given(args)
            else:
                return tag, _value(found, kind)
        raise AssertionError

    done, seconds = False, door.stated(SECONDS)
    try:
        for tag, args in tasks:
            waiting.append((tag, args, given(args)))
            if len(waiting) >= ahead:
                yield first()
        while waiting:
            yield first()
        done = True
    finally:
        for _, _, answer in waiting:
            with contextlib.suppress(Exception):
                answer.cancel()  # type: ignore[union-attr]
        if isinstance(submit, Renewed):
            submit.end(at_once=not done)


def _value(found: Any, kind: type[Given]) -> Given:
    """What a task gave; raises what it raised."""
    if not isinstance(found, Answer) or (found.error is None and not isinstance(found.value, kind)):
        raise UserError(
            f"the executor answers with {in_short(found)}, not with what the task gave ({kind.__name__})",
            hint="the `result()` of what `submit(function, *arguments)` answers is what the function gives",
        )
    if found.error is not None:
        raise found.error
    given: Given = found.value
    return given


class _Late(TimeoutError):
    """A task took too long."""


def _in_time(answer: Submitted, seconds: float) -> Any:
    """What a task gave; 0 seconds: however long that takes."""
    if not seconds:
        return answer.result()
    given: queue.SimpleQueue[tuple[Any, BaseException | None]] = queue.SimpleQueue()

    def wait() -> None:
        try:
            given.put((answer.result(), None))
        except BaseException as error:
            given.put((None, error))

    threading.Thread(target=wait, daemon=True).start()
    try:
        found, error = given.get(timeout=seconds)
    except queue.Empty:
        raise _Late(f"it was not done in {seconds:g} s ({SECONDS})") from None
    if error is not None:
        raise error
    return found


def _lost(error: Exception) -> UserError:
    hint = "what runs it may have run out of memory, or cannot import onnxq; what was done is kept"
    if isinstance(error, BrokenExecutor):
        hint = (
            "a worker died, perhaps for lack of memory, and such an executor does no more: executor= may be "
            "a function that makes one, as `lambda: ProcessPoolExecutor(4)`; what was done is kept"
        )
    return UserError(f"the executor lost a task {_TRIES} times: {_said(error)}", hint=hint)


def _said(error: Exception) -> str:
    name = "TimeoutError" if isinstance(error, _Late) else type(error).__name__
    return f"{name}: {str(error) or 'it said nothing'}"


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
