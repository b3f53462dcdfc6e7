"""The user's own score of a model: a function that is called with a model, and returns numbers."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from onnxq.base.errors import UserError
from onnxq.base.user_code import CodeForm, MisusedError, UserFunction, load_function
from onnxq.data.samples import Sample
from onnxq.judge.paired import SampleScores
from onnxq.options.settings import CallableModel
from onnxq.pipeline.fed import Fed
from onnxq.pipeline.job import Job
from onnxq.run import ort
from onnxq.run.compare import Runner

Part = Literal["choose", "verify"]
"""What a score is for: a function that is told uses other samples for each."""

_FORM = "def top1(model, part): ... model({'input': array})['output'] ...; return a number, or one a sample"
_GIVEN = "it is given the model as a function, no path: model({'input': array})['output']"
_ASKED = CodeForm("scoring script", _FORM, "FILE.py:FUNCTION")


@dataclass(frozen=True, slots=True)
class Score:
    """A function of the user's.

    Attributes:
        name: what it is called.
        told: whether it is told what a score is for; else the same samples choose and judge.
    """

    name: str
    told: bool
    _call: Callable[[CallableModel, Part], Any]
    _function: UserFunction | None

    @staticmethod
    def of(asked: str | os.PathLike[str] | Callable[..., Any]) -> Score:
        """That of a callable, or of `FILE.py:FUNCTION`, whose code is run.

        Raises:
            UserError: there is no such function, its file raises an error, or it takes no model.
        """
        if isinstance(asked, str | os.PathLike):
            function = load_function(asked, _ASKED)
            return Score(str(function), *_taken(function.call, str(function)), function)
        if not callable(asked):
            raise UserError(f"the score is {asked!r}", hint=f"give a function, or {_ASKED.path_form}")
        name = str(getattr(asked, "__name__", type(asked).__name__))
        return Score(name, *_taken(asked, name), None)

    def __call__(self, model: CallableModel, part: Part) -> SampleScores:
        """The score of a model: the mean, where the function gives one a sample.

        Raises:
            UserError: the function raises an error, or returns no numbers, or some that are not finite.
        """
        try:
            with self._running():
                value = self._call(model, part)
        except UserError as error:
            if not isinstance(error.__cause__, MisusedError):
                error.hint += f"; {_GIVEN}"
            raise
        each = _numbers(value)
        if each is None:
            raise UserError(
                f"{self.name} returned {type(value).__name__}, not a number, nor one a sample",
                hint=f"the form is {_FORM}",
            )
        if not np.isfinite(each).all():
            worst = each[~np.isfinite(each)][0]
            raise UserError(
                f"{self.name} returned {worst}: such a score cannot be compared",
                hint="return a finite number, as the worst score that there is for a model that fails",
            )
        return SampleScores.of(each) if len(each) > 1 else SampleScores(float(each[0]))

    def _running(self) -> AbstractContextManager[None]:
        return nullcontext() if self._function is None else self._function.running()


def _numbers(value: Any) -> np.ndarray | None:
    """The number that a function returned, or those of its samples; None where it is something else."""
    if value is None or isinstance(value, str | bytes | bool | np.bool_):
        return None
    try:
        each = np.asarray(value, np.float64)
    except (TypeError, ValueError):
        return None
    return each.reshape(-1) if each.size and each.ndim <= 1 else None


def _taken(function: Callable[..., Any], name: str) -> tuple[bool, Callable[[CallableModel, Part], Any]]:
    """Whether a function is told what a score is for, and how it is called.

    That is what its parameter `part` takes, else its second one, unless that has a default: of what it is,
    nothing is known then.

    Raises:
        UserError: it cannot be called with a model, or with a model and a word.
    """
    if inspect.iscoroutinefunction(function):
        raise UserError(
            f"{name} is an async function, whose result is no number", hint=f'"def" without "async": {_FORM}'
        )
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # one of C's: it is not known
        return False, lambda model, part: function(model)
    by_place = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    parameters = list(signature.parameters.values())
    if not parameters:
        raise UserError(f"{name} takes no parameter, and is to score a model", hint=f"the form is {_FORM}")
    second = next(iter([one for one in parameters if one.kind in by_place][1:]), None)
    by_name = any(
        one.name == "part" and one.kind != inspect.Parameter.POSITIONAL_ONLY for one in parameters[1:]
    )
    told = by_name or (second is not None and (second.default is second.empty or second.name == "part"))
    try:
        if by_name:
            signature.bind(None, part=None)
        else:
            signature.bind(*([None, None] if told else [None]))
    except TypeError as error:
        raise UserError(
            f"{name}{signature} cannot be called with a model: {error}", hint=f"the form is {_FORM}"
        ) from error
    if by_name:
        return True, lambda model, part: function(model, part=part)
    return told, lambda model, part: function(model, part) if told else function(model)


def callable_of(runner: Runner, job: Job | None = None, fed: Fed | None = None) -> CallableModel:
    """A model as a function of the user's calls it.

    Args:
        runner: runs it.
        job: of the float model, which may run in another type than the user's model has; None: it does not.
        fed: looks at what the function gives.
    """

    def run(feeds: Mapping[str, Any]) -> dict[str, Any]:
        for name in runner.inputs:
            if name not in feeds:
                raise MisusedError(
                    f"the function feeds the model {', '.join(map(repr, feeds)) or 'nothing'}, and not its "
                    f"input {name!r}",
                    hint=f"the form is {_FORM}",
                )
        given = {name: np.asarray(feeds[name]) for name in runner.inputs}
        if fed is not None:
            fed.add(given)
        if job is not None:
            (sample,) = job.feeds([Sample(0, "what the function gives", given)])
            given = sample.feeds
        try:
            outputs = runner.run(given, runner.outputs)
        except ort.RunError as error:
            raise MisusedError(f"the model does not run on what the function gives it: {error}") from error
        return dict(zip(runner.outputs, outputs, strict=True))

    return run
