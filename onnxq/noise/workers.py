"""Processes that work for this one: what each is given, it does, and answers; none is left at the end."""

from __future__ import annotations

import contextlib
import multiprocessing
import queue
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from multiprocessing.connection import Connection
from typing import Any

from onnxq.base import children, interrupts
from onnxq.base.errors import OnnxqError, UserError


class Workers:
    """So many processes, with the `submit` of an executor."""

    def __init__(self, count: int, folder: str) -> None:
        """Nothing is started yet.

        Args:
            count: how many.
            folder: where their temporary files are; it goes with the parent.
        """
        self._count, self._folder = count, folder
        self._idle: queue.Queue[Connection] = queue.Queue()
        self._processes: list[Any] = []
        self._connections: list[Connection] = []
        self._threads = ThreadPoolExecutor(count)
        self._stack = contextlib.ExitStack()

    def __enter__(self) -> Workers:
        for _ in range(self._count):
            with interrupts.held_back():
                ours, theirs = multiprocessing.Pipe()
                process = children.spawned(self._folder, _serve, theirs)
                theirs.close()
                self._processes.append(process)
                self._connections.append(ours)
                self._stack.enter_context(interrupts.child(process))
            self._idle.put(ours)
        return self

    def submit(self, work: Callable[..., Any], /, *args: Any) -> Future[Any]:
        """Has a function of a module run by the next of them that is idle."""
        return self._threads.submit(self._ask, work, args)

    def _ask(self, work: Callable[..., Any], args: tuple[Any, ...]) -> Any:
        connection = self._idle.get()
        try:
            connection.send((work, args))
            done, answer = connection.recv()
        except (EOFError, OSError):
            raise UserError(
                "a worker ended before it was done",
                hint="it may have run out of memory: take fewer workers; what was done is kept. Each worker "
                "imports the script that starts it: what that runs belongs under "
                "`if __name__ == '__main__':`",
            ) from None
        finally:
            self._idle.put(connection)
        if not done:
            raise answer
        return answer

    def __exit__(self, *error: object) -> None:
        with interrupts.held_back(), self._stack:
            self._threads.shutdown(wait=False, cancel_futures=True)
            children.end(self._processes)
            self._threads.shutdown()
            for connection in self._connections:
                connection.close()


def _serve(connection: Connection) -> None:
    """A worker process."""
    with contextlib.suppress(KeyboardInterrupt, EOFError, OSError), connection:
        while True:
            work, args = connection.recv()
            try:
                answer = True, work(*args)
            except OnnxqError as error:
                answer = False, error
            connection.send(answer)
