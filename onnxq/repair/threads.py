"""Work that threads do side by side, with results in the order in which it was given."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

from onnxq.base.process import cores

Given = TypeVar("Given")
Found = TypeVar("Found")

_MOST = 4


class Threads:
    """So many threads; with one, the caller does the work."""

    def __init__(self, count: int | None = None) -> None:
        """Threads start with the first work.

        Args:
            count: how many; None: one a core, four at most.
        """
        self.count = count or min(_MOST, cores())
        self._pool = ThreadPoolExecutor(self.count) if self.count > 1 else None

    def map(self, work: Callable[[Given], Found], items: Iterable[Given]) -> Iterator[Found]:
        """What each item gives, in order; few of them are waiting at a time."""
        if self._pool is None:
            yield from map(work, items)
            return
        waiting: deque[Future[Found]] = deque()
        try:
            for item in items:
                waiting.append(self._pool.submit(work, item))
                if len(waiting) > self.count:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()

    def close(self) -> None:
        """Ends them."""
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)
