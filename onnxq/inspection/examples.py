"""Running rules' examples: the built-in rules' in the tests, a user's with `onnxq rules test`."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import FrameType

from onnxq.base.errors import OnnxqError, unknown_name
from onnxq.quant.grid import check_placement
from onnxq.rewrite.examples import check_rewrite
from onnxq.rule.api import Example, Fires, Rule, Skips
from onnxq.rule.examples import ExampleError
from onnxq.rule.told import told
from onnxq.targets import stated_limits

SECONDS = 300.0
"""How long an example may take."""


def check_rule(rule: Rule, rules: Sequence[Rule]) -> int:
    """Runs all examples of a rule.

    Args:
        rule: the rule.
        rules: all rules; an example may name some that run with it.

    Returns:
        How many examples it has.

    Raises:
        ExampleError: an example fails, or there is not at least one of each kind.
    """
    kinds = {type(example) for example in rule.examples}
    if kinds != {Fires, Skips}:
        raise ExampleError(f"rule {rule.id!r} needs at least one Fires and one Skips example")
    for number, example in enumerate(rule.examples):
        where = f"rule {rule.id!r}, example {number + 1}"
        try:
            with _in_time():
                check_example(rule, example, rules)
        except OnnxqError as error:
            raise ExampleError(f"{where}: {error}{f'; {error.hint}' if error.hint else ''}") from error
        except Exception as error:  # a text that is no model, a function that fails
            raise ExampleError(f"{where}: {told(error, rule.path)}") from error
        except _Late as error:
            raise ExampleError(f"{where}: {told(error, rule.path).removeprefix('_Late: ')}") from error
    return len(rule.examples)


class _Late(BaseException):
    """An example does not end; nothing on the way takes it for an error of the rule."""


@contextmanager
def _in_time() -> Iterator[None]:
    """Ends what takes too long, where the system has alarms and nobody else has set one."""
    alarms = hasattr(signal, "setitimer") and threading.current_thread() is threading.main_thread()
    if not alarms or signal.getitimer(signal.ITIMER_REAL)[0]:
        yield
        return

    def late(number: int, frame: FrameType | None) -> None:
        raise _Late(f"it does not end in {SECONDS:g} s")

    previous = signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)


def check_example(rule: Rule, example: Example, rules: Sequence[Rule]) -> None:
    """Runs one example of a rule, by its stage.

    Raises:
        ExampleError: the rule does not do what the example says.
    """
    _check_names(example, rules)
    (check_placement if rule.stage == "place" else check_rewrite)(rule, example, rules)


def _check_names(example: Example, rules: Sequence[Rule]) -> None:
    """Refuses names in an example that nobody has: it would not be what it seems.

    Raises:
        OnnxqError: there is one.
    """
    if not isinstance(example.limits, Mapping):
        raise ExampleError(f"limits is a dict, as in {{'topk-k': 4}}, not {type(example.limits).__name__}")
    for name in example.limits:
        if name not in stated_limits():
            raise unknown_name("limit", name, stated_limits())
    for name in example.after if isinstance(example, Fires) else ():
        if all(name != rule.id for rule in rules):
            raise unknown_name("rule", name, [rule.id for rule in rules])
