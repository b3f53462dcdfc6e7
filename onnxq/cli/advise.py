"""`onnxq quantize --budget`: quantizes a model, tries what the advice would try, and keeps the best."""

from __future__ import annotations

import re
import shlex
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from onnxq.base import interrupts
from onnxq.base.errors import UserError, fault_of
from onnxq.base.reason import say
from onnxq.cli.chosen import Chosen, given
from onnxq.cli.screen import Screen
from onnxq.options.settings import Outcome, Papers

if TYPE_CHECKING:
    from onnxq.base.progress import Observer
    from onnxq.documents.advice import Attempt, Untried
    from onnxq.pipeline.result import Result


def advise(
    screen: Screen, chosen: Chosen, model: Path, path: Path, asked: list[list[str]], budget: str
) -> int:
    """Tries what the advice would try, and keeps the best; the exit code.

    It tries nothing that changes what the model is fed. At the end it prints the command that makes the best
    model again.

    Args:
        screen: where that is shown.
        chosen: the flags of the first try.
        model: the model.
        path: where the best is written.
        asked: the command line of the first try.
        budget: how much is tried.

    Raises:
        UserError: the budget is not understood, or the first try cannot be made.
    """
    from onnxq.cli.pages.advised import advised_page
    from onnxq.documents.advice import Advised

    most = _budget(budget)
    with screen.progress() as observe:
        tried = _Tries(path, model, most, observe, chosen.group(Papers))
        tried.all([word for part in asked[1:] for word in part])
    found = Advised("advised", 1, str(path), tried.best, tuple(tried.attempts), tuple(tried.left))
    screen.result(found, lambda: advised_page(found))
    answer = tried.attempts[tried.best].answer
    return chosen.group(Outcome).exit_code("do-not-ship" if answer is None else answer.answer)


def _budget(given: str) -> _Most:
    form = re.fullmatch(r"(\d+(?:\.\d+)?)(m?)", given.strip())
    if form is None or float(form[1]) < 1:
        raise UserError(
            f"--budget {given!r} is not understood", hint="give runs, as in 6, or minutes, as in 20m"
        )
    return _Most(float("inf"), 60 * float(form[1])) if form[2] else _Most(float(form[1]), float("inf"))


@dataclass(frozen=True, slots=True)
class _Most:
    runs: float
    seconds: float


class _Tries:
    """Command lines one after another, the best of which is written.

    Attributes:
        attempts: all that was tried.
        best: the place of the best.
        left: what was not tried.
    """

    def __init__(self, path: Path, model: Path, most: _Most, observe: Observer, papers: Papers) -> None:
        self.attempts: list[Attempt] = []
        self.left: list[Untried] = []
        self.best = 0
        self._path, self._model, self._most, self._observe = path, model, most, observe
        self._since, self._papers = time.monotonic(), papers

    def all(self, first: list[str]) -> None:
        """Tries a command line, and then what is advised of the best so far.

        Raises:
            UserError: the first one cannot be run.
        """
        from onnxq.advice.attempts import next_tries

        better = self._try(first, "as asked")
        while better is not None:
            tries, left = next_tries(better.report, better.advice)
            self.left = [one for one in left if one not in self.left] + self.left
            done = {one.command for one in self.attempts}
            fresh = [one for one in tries if one[0] not in done]
            better = None
            for place, (command, why) in enumerate(fresh):
                if not self._may:
                    self._leave(fresh[place:])
                    return
                better = self._try(shlex.split(command)[2:], why)
                if better is not None:  # the better one has advice of its own
                    break

    @property
    def _may(self) -> bool:
        spent = time.monotonic() - self._since
        return len(self.attempts) < self._most.runs and spent < self._most.seconds

    def _leave(self, rest: list[tuple[str, str]]) -> None:
        from onnxq.documents.advice import Untried

        self.left += [Untried(command, why, say("ended.budget")) for command, why in rest]

    def _try(self, words: list[str], why: str) -> Result | None:
        """What a command line makes, written where it is the best so far; None where it is not."""
        from onnxq.advice.attempts import attempt, rank
        from onnxq.documents.advice import Attempt

        command = shlex.join(["onnxq", "quantize", *words])
        since = time.monotonic()
        try:
            result = self._made(words)
        except Exception as error:  # of a later one, a fault of ours too: the best so far stands
            if not self.attempts:
                raise
            seconds = time.monotonic() - since
            said = str(error) if isinstance(error, UserError) else fault_of(error)
            self.attempts.append(Attempt(command, why, None, None, "dB", None, seconds, said))
            return None
        self.attempts.append(attempt(command, why, result.report, result.advice))
        if len(self.attempts) > 1 and rank(self.attempts[-1]) >= rank(self.attempts[self.best]):
            return None
        self.best = len(self.attempts) - 1
        with interrupts.held_back():
            papers = self._papers
            result.save(self._path, force=True, page=papers.page, deploy=papers.servers or None)
            self.attempts[self.best] = attempt(command, why, result.report, result.advice)
        interrupts.stands(say("ended.best", file=self._path, command=command))
        return result

    def _made(self, words: list[str]) -> Result:
        import onnxq
        from onnxq.cli.lines import read_line

        line = read_line(words)
        chosen = line.chosen
        data, keywords = given(chosen)
        result = onnxq.quantize(self._model, data, **keywords, observe=self._observe)
        asked = chosen.asked(line.model, line.output, force=line.force)
        result.report = replace(result.report, config=chosen.settings_file, asked=tuple(map(tuple, asked)))
        return result
