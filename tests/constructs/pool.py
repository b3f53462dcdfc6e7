"""Judges constructs in processes of their own: one that crashes is a result, and another one goes on."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from typing import Any

SECONDS = 400.0  # that one construct may take

Task = tuple[str, Any]
Work = Callable[[str, Any], dict[str, Any]]


def judged(tasks: Sequence[Task], work: Work, processes: int) -> Iterator[tuple[str, dict[str, Any]]]:
    """What `work`, a function of a module, gives for each task, as they end.

    A process that dies or takes too long gives `{"died": why}`.

    Args:
        tasks: a name and what else the work takes, for each.
        work: what is done.
        processes: how many at a time.
    """
    waiting = list(reversed(tasks))
    workers = [_Worker(work) for _ in range(min(processes, len(tasks)))]
    try:
        for worker in workers:
            worker.give(waiting.pop())
        while busy := [worker for worker in workers if worker.task is not None]:
            wait([worker.pipe for worker in busy], timeout=1.0)
            for number, worker in enumerate(workers):
                row = worker.answer()
                if row is None or worker.task is None:
                    continue
                yield worker.task[0], row
                if not worker.process.is_alive():
                    workers[number] = worker = _Worker(work)
                worker.task = None
                if waiting:
                    worker.give(waiting.pop())
    finally:
        for worker in workers:
            worker.end()


@dataclass
class _Worker:
    """A process and the task that it has."""

    work: Work
    task: Task | None = None
    since: float = 0.0

    def __post_init__(self) -> None:
        context = multiprocessing.get_context("spawn")
        self.pipe, other = context.Pipe()
        self.process = context.Process(target=_serve, args=(self.work, other), daemon=True)
        self.process.start()
        other.close()

    def give(self, task: Task) -> None:
        self.task, self.since = task, time.monotonic()
        self.pipe.send(task)

    def answer(self) -> dict[str, Any] | None:
        """What it found; None while it works."""
        if self.task is None:
            return None
        try:
            if self.pipe.poll():
                row: dict[str, Any] = self.pipe.recv()
                return row
        except (EOFError, OSError):
            self.process.join()
            return {"died": f"the process ended with {self.process.exitcode}"}
        if time.monotonic() - self.since > SECONDS:
            self.end()
            return {"died": f"it took more than {SECONDS:g} s"}
        return None

    def end(self) -> None:
        self.process.kill()
        self.process.join()
        self.pipe.close()


def _serve(work: Work, pipe: Connection) -> None:
    while True:
        try:
            name, more = pipe.recv()
        except EOFError:
            return
        pipe.send(work(name, more))
