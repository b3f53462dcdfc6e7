"""Two tiers of tests: the deep ones cost more processor time than `DEEP`, and `deep.txt` names them.

    pytest --tier quick                 all but those: `make test`
    pytest --tier deep --shard 1/4      a quarter of those
    pytest --measure                    measures what each test costs, and writes `deep.txt`: `make deep`

A test that nobody has measured yet is a quick one.
"""

from __future__ import annotations

import resource
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

DEEP = 0.4
"""Processor seconds, of the test and of the processes that it starts, from which on a test is deep."""
_USUAL = 0.05  # what a test costs that is not listed
_HEAD = (
    "# Deep tests, with the processor seconds that each takes. Written by `make deep`, which measures them.\n"
)
LIST = Path(__file__).with_name("deep.txt")


def function_of(test: str) -> str:
    """The function of a test, without the case."""
    return test.partition("[")[0]


def read(text: str) -> dict[str, float]:
    """The seconds that deep tests take; a function that is listed stands for all of its cases."""
    lines = [line.split(maxsplit=1) for line in text.splitlines() if not line.startswith("#")]
    return {test: float(seconds) for seconds, test in lines}


def written(measured: Mapping[str, float], known: Mapping[str, float]) -> str:
    """The list, anew for the functions that were measured; one all of whose cases are deep is one line."""
    cases = Counter(map(function_of, measured))
    found = {test: cost for test, cost in known.items() if function_of(test) not in cases}
    by_function: dict[str, dict[str, float]] = defaultdict(dict)
    for test, cost in measured.items():
        if cost >= DEEP:
            by_function[function_of(test)][test] = cost
    for function, deep in by_function.items():
        found |= {function: sum(deep.values())} if len(deep) == cases[function] else deep
    return _HEAD + "".join(f"{cost:5.0f} {test}\n" for test, cost in sorted(found.items()))


def costs(tests: Iterable[str], listed: Mapping[str, float]) -> dict[str, float]:
    """What each of these tests costs, as far as it is listed."""
    tests = list(tests)
    cases = Counter(map(function_of, tests))
    whole = {test: listed.get(function_of(test), _USUAL) / cases[function_of(test)] for test in tests}
    return {test: listed.get(test, max(_USUAL, whole[test])) for test in tests}


def shard(costs: Mapping[str, float], part: int, parts: int) -> set[str]:
    """One of `parts` parts of tests, from 1 on. All cost about the same, and every test is in one."""
    loads, mine = [0.0] * parts, set()
    for test in sorted(costs, key=lambda test: (-costs[test], test)):
        least = loads.index(min(loads))
        loads[least] += costs[test]
        if least == part - 1:
            mine.add(test)
    return mine


def of_shard(text: str) -> tuple[int, int]:
    """Reads `1/3`."""
    part, _, parts = text.partition("/")
    if not (part.isdigit() and parts.isdigit() and 1 <= int(part) <= int(parts)):
        raise pytest.UsageError(f"--shard {text}: give one like 1/3, 2/3 or 3/3")
    return int(part), int(parts)


# -- measuring ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Spent:
    """What a test has taken.

    Attributes:
        seconds: of the processor, in all.
        made: those of fixtures for several tests that it was the first to ask for.
        used: all such fixtures that it asks for.
    """

    seconds: float
    made: dict[str, float]
    used: list[str]


def shared_out(spent: Mapping[str, Spent]) -> dict[str, float]:
    """The seconds of each test, where all that use a fixture share its cost."""
    users = Counter(name for one in spent.values() for name in one.used)
    made = {name: seconds for one in spent.values() for name, seconds in one.made.items() if users[name]}
    return {
        test: one.seconds
        - sum(seconds for name, seconds in one.made.items() if users[name])
        + sum(made.get(name, 0.0) / users[name] for name in one.used)
        for test, one in spent.items()
    }


def _processor() -> float:
    """Seconds of this process and of its children that have ended."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


class Meter:
    """Measures each test, in whichever process it runs; where they are reported, it writes the list."""

    def __init__(self) -> None:
        self._start, self._made = 0.0, {}
        self._spent: dict[str, Spent] = {}

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self) -> Iterator[None]:
        self._start, self._made = _processor(), {}
        return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: Any, request: Any) -> Iterator[None]:
        start = _processor()
        try:
            return (yield)
        finally:
            if fixturedef.scope != "function":
                self._made[_name(fixturedef, request.param_index)] = _processor() - start

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_makereport(self, item: Any, call: Any) -> None:
        if call.when == "teardown":
            definitions = [found[-1] for found in item._fixtureinfo.name2fixturedefs.values()]
            cases = item.callspec.indices if hasattr(item, "callspec") else {}
            used = [_name(d, cases.get(d.argname, 0)) for d in definitions if d.scope != "function"]
            item.user_properties.append(("spent", (_processor() - self._start, self._made, used)))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        for name, value in report.user_properties:
            if name == "spent" and report.when == "teardown":
                self._spent[report.nodeid] = Spent(*value)

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        measured = shared_out(self._spent)
        LIST.write_text(written(measured, read(LIST.read_text("utf-8"))), "utf-8")
        for name, deep in (("quick", False), ("deep", True)):
            found = [cost for cost in measured.values() if (cost >= DEEP) == deep]
            terminalreporter.line(f"{name}: {len(found)} tests, {sum(found):.0f} s of the processor")


def _name(definition: Any, case: int) -> str:
    return f"{definition.baseid}::{definition.argname}[{case}]"


# -- choosing -------------------------------------------------------------------------------------


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("tiers")
    group.addoption("--tier", choices=("quick", "deep", "all"), default="all", help="which tests")
    group.addoption("--shard", default="1/1", metavar="N/M", help="one of M parts that cost about the same")
    group.addoption("--measure", action="store_true", help="measure what tests cost; write deep.txt")


def pytest_configure(config: pytest.Config) -> None:
    of_shard(config.getoption("--shard"))
    if config.getoption("--measure"):
        if config.getoption("--tier") != "all":
            raise pytest.UsageError("--measure measures both tiers: leave --tier out")
        config.pluginmanager.register(Meter())


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    listed, tier = read(LIST.read_text("utf-8")), config.getoption("--tier")
    of_tier = {
        item.nodeid
        for item in items
        if tier == "all" or (tier == "deep") == (item.nodeid in listed or function_of(item.nodeid) in listed)
    }
    mine = shard(costs(of_tier, listed), *of_shard(config.getoption("--shard")))
    config.hook.pytest_deselected(items=[item for item in items if item.nodeid not in mine])
    items[:] = [item for item in items if item.nodeid in mine]


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """A part in which there is no test has passed."""
    if exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED and session.config.getoption("--shard") != "1/1":
        session.exitstatus = pytest.ExitCode.OK
