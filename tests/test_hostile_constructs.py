"""Hostile models, data and command lines end with a line that says why, in bounds of time and memory."""

# ruff: noqa: E501

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
import types
import zlib
from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import pytest
from command import environment

import onnxq
from onnxq.base import memory_bound, supervised
from onnxq.base.errors import UserError
from onnxq.graph.fold import evaluate
from onnxq.graph.infer import follows_few
from onnxq.graph.model import Model
from onnxq.graph.view import Node
from onnxq.run import budget, ort
from onnxq.run.opening import SessionSettings
from tests.hostile import data, fuzz, models
from tests.hostile.bounded import Ended, bounded
from tests.hostile.judge import judged, runtime_refuses, warm
from tests.hostile.mutate import changed_model

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="forks, and reads /proc")

ALL = models.models() | data.data()
HEAD = '<ir_version: 8, opset_import: ["" : 17]> net '


@pytest.fixture(scope="module")
def ready() -> None:
    warm()


def wrong(names: list[str]) -> list[str]:
    """What does not end as it should."""
    ran = [verdict for name in names for verdict in judged(ALL[name])]
    return [f"{one.name}: {one.line}: {one.wrong}: {one.said[-300:]}" for one in ran if one.wrong]


def read(name: str) -> str:
    """What reading a model says: the door alone, in this process."""
    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory() as folder:
        patch.chdir(folder)
        ALL[name].write(Path())
        try:
            Model.open(models.FILE)
        except UserError as error:
            return f"{error} {error.hint}" if error.hint else ""
    return ""


AT_THE_DOOR = [
    name
    for name, one in ALL.items()
    if one.codes == models.REFUSED
    and one.verbs == models.Hostile.verbs
    and name.startswith(("external", "sparse", "weight", "input", "function", "not-text", "opset", "cycle", "value", "bodies"))
]  # fmt: skip


@pytest.mark.parametrize("part", range(8))
def test_the_door_refuses_what_is_no_model_before_anything_runs(part: int) -> None:
    assert len(AT_THE_DOOR) > 100
    late = []
    for name in AT_THE_DOOR[part::8]:
        said = read(name)
        if not any(words in said for words in ALL[name].says or (said or "?",)):
            late.append(f"{name}: {said!r}")
    assert not late


@pytest.mark.parametrize("part", range(16))
def test_each_ends_as_it_should(part: int, ready: None) -> None:
    names = [name for name in ALL if zlib.crc32(name.encode()) % 16 == part]
    assert not wrong(names)


@pytest.mark.parametrize("seed", range(4))
def test_mutations_end_as_they_should(seed: int, ready: None) -> None:
    """A bounded part, always the same: `make fuzz` has fresh seeds."""
    assert not fuzz.fuzz(seed, list(fuzz.KINDS), 30, 300.0)


def test_a_judge_sees_what_is_wrong(tmp_path: Path) -> None:
    """A run that hangs, takes memory, dies, or leaves a folder is told apart from one that ends."""

    def ended(body: str, **bounds: float) -> Ended:
        return bounded(lambda: exec(body), tmp_path, **{"seconds": 20.0, "memory": 4 << 30} | bounds)  # type: ignore[arg-type]

    assert ended("raise SystemExit(2)").code == 2
    assert ended("import time; time.sleep(9)", seconds=0.5).fault == "time"
    assert ended("x = bytearray(400_000_000); import time; time.sleep(5)", memory=300 << 20).fault == "memory"
    assert ended("import os; os.abort()").fault == "SIGABRT"
    assert ended("raise SystemExit(3)").fault == "exit 3"
    assert ended("1 / 0").fault == "traceback"
    assert ended("import os; os.mkdir(os.environ['TMPDIR'] + '/.onnxq-x')").fault == "left .onnxq-x"
    assert ended("print('well')").out == "well\n"


def test_a_mutation_is_another_model_and_the_same_for_a_seed() -> None:
    made = [
        changed_model(fuzz.net(), random.Random(seed)).SerializeToString(deterministic=True)
        for seed in range(40)
    ]
    again = [
        changed_model(fuzz.net(), random.Random(seed)).SerializeToString(deterministic=True)
        for seed in range(40)
    ]
    assert made == again
    assert len(set(made)) > 30
    assert sum(one != fuzz.net().SerializeToString(deterministic=True) for one in made) > 35


def test_what_onnxruntime_refuses_is_known(tmp_path: Path) -> None:
    onnx.save(
        onnx.parser.parse_model(HEAD + "(float[4] x, int64[4] z) => (float[4] y) { y = Add (x, z) }"),
        tmp_path / models.FILE,
    )
    assert "bound to different types" in runtime_refuses(tmp_path)
    onnx.save(fuzz.net(), tmp_path / models.FILE)
    assert runtime_refuses(tmp_path) == ""


FOLDED = "(float[4] x) => (float[4] y) {} {{ {}  y = Add (x, m) }}"


@pytest.mark.parametrize(
    ("constants", "node", "folds"),
    [
        ("<int64[2] n = {1000, 1000}>", "m = ConstantOfShape (n)", True),
        ("<int64[2] n = {60000, 60000}>", "m = ConstantOfShape (n)", False),
        ("<float[1] o = {1}, int64[1] n = {4000000000}>", "m = Tile (o, n)", False),
        ("<float[1] o = {1}, int64[1] n = {4}>", "m = Tile (o, n)", True),
        ("<float[1] o = {1}, int64[2] n = {60000, 60000}>", "m = Expand (o, n)", False),
        ("<int64 a = {0}, int64 b = {3000000000}, int64 c = {1}>", "m = Range (a, b, c)", False),
        ("<int64 a = {0}, int64 b = {30}, int64 c = {1}>", "m = Range (a, b, c)", True),
        ("<float[1] o = {1}, int64[2] n = {0, 4000000000}>", "m = Pad (o, n)", False),
        (
            "<float[1, 1, 2, 2] o = {1, 2, 3, 4}, float[4] n = {1, 1, 30000, 30000}>",
            "m = Resize (o, , n)",
            False,
        ),
        ("<int64[1] o = {1}, int64 n = {4000000000}, float[2] v = {0, 1}>", "m = OneHot (o, n, v)", False),
        ("<int64 n = {4000000000}>", "m = HannWindow (n)", False),
        ("<int64[1] a = {7}, int64[1] b = {0}>", "m = Div (a, b)", False),
        ("<int64[1] a = {7}, int64[1] b = {0}>", "m = Mod (a, b)", False),
        ("<uint8[1] a = {7}, uint8[1] b = {0}>", "m = Div (a, b)", False),
        ("<float[1] a = {7}, float[1] b = {0}>", "m = Div (a, b)", True),
        ("<int64[1] a = {7}, int64[1] b = {2}>", "m = Div (a, b)", True),
    ],
)
def test_folding_has_bounds_for_each_operator(constants: str, node: str, folds: bool) -> None:
    model = Model.open(onnx.parser.parse_model(HEAD + FOLDED.format(constants, node)))
    model.runtime = ort.evaluate
    assert (evaluate(Node(model, model.graph.nodes[0])) is not None) is folds


def test_folding_has_a_budget_of_work() -> None:
    model = Model.open(
        onnx.parser.parse_model(HEAD + FOLDED.format("<float[2, 2] a = {1, 2, 3, 4}>", "m = MatMul (a, a)"))
    )
    model.runtime = ort.evaluate
    assert evaluate(Node(model, model.graph.nodes[0])) is not None
    assert model.folding_work == 8
    model.folding_work = 1 << 60
    assert evaluate(Node(model, model.graph.nodes[0])) is None


def test_inference_does_not_double_vectors_for_ever() -> None:
    def doubling(times: int, source: str) -> onnx.ModelProto:
        names = [source, *(f"v{place}" for place in range(1, times))]
        body = "  ".join(
            f"v{place + 1} = Concat <axis = 0> ({name}, {name})" for place, name in enumerate(names)
        )
        return onnx.parser.parse_model(
            HEAD + f"(float[4] x) => (float[M] v{times}) <float[4] k = {{1, 2, 3, 4}}> {{ {body} }}"
        )

    assert follows_few(doubling(10, "k"))
    assert not follows_few(doubling(40, "k"))
    assert not follows_few(doubling(40, "x"))
    assert follows_few(fuzz.net())
    Model.open(doubling(40, "k"))


def test_a_run_on_made_up_input_has_a_bound_of_memory() -> None:
    text = (
        HEAD
        + """(float[4] x) => (float y) <int64[1] n = {1500000000}> { s = Expand (x, n)  y = ReduceMax <keepdims = 0> (s) }"""
    )
    large = text.replace("float[4] x", "float[1] x")
    session = ort.load(onnx.parser.parse_model(large), optimize=False, threads=1)
    with ort.made_up(), pytest.raises(ort.Bounded, match="more memory than onnxq lets it have"):
        session.run({"x": np.ones(1, np.float32)})
    small = ort.load(onnx.parser.parse_model(large.replace("1500000000", "1500")), optimize=False, threads=1)
    with ort.made_up():
        assert small.run({"x": np.ones(1, np.float32)})[0] == 1


def test_a_bound_of_memory_ends_with_its_block() -> None:
    with memory_bound.memory_bound(1 << 28), pytest.raises(MemoryError):
        np.ones(1 << 27)
    with memory_bound.memory_bound(None):
        assert np.ones(1 << 22).size
    assert np.ones(1 << 22).size


def test_bounds_of_two_threads_leave_none_behind() -> None:
    """The first of them ends before the second: the limit is what it was."""
    resource = pytest.importorskip("resource")
    before = resource.getrlimit(resource.RLIMIT_DATA)
    first, second = contextlib.ExitStack(), contextlib.ExitStack()
    first.enter_context(memory_bound.memory_bound(1 << 33))
    thread = threading.Thread(target=lambda: second.enter_context(memory_bound.memory_bound(1 << 32)))
    thread.start()
    thread.join()
    first.close()
    second.close()
    assert resource.getrlimit(resource.RLIMIT_DATA) == before


def test_windows_of_pooling_count_as_work() -> None:
    """A small file of one constant would take minutes to fold."""
    model = onnx.parser.parse_model(HEAD + """(float[4] x) => (float[1, 1, 751, 751] y, float[4] z) {
        c = ConstantOfShape <value = float[1] {1}> (s)  z = Relu (x)
        y = AveragePool <kernel_shape = [750, 750]> (c) }""")  # fmt: skip
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.array([1, 1, 1500, 1500]), "s"))
    began = time.monotonic()
    onnxq.sanitize(model, prove="never")
    assert time.monotonic() - began < 20


ENDLESS = (
    HEAD
    + """(float[4] x) => (float[4] y) <bool go = {1}> { y = Loop (, go, x) <body =
    b (int64 i, bool c, float[4] s) => (bool d, float[4] t) { d = Identity (c)  t = Neg (s) }> }"""
)


def test_a_loop_has_a_limit_for_each_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    session = ort.load(onnx.parser.parse_model(ENDLESS))
    x = {"x": np.ones(4, np.float32)}
    monkeypatch.setenv(budget.SECONDS, "1")
    with pytest.raises(UserError, match="did not end in 1 s: the model has a Loop, 'y'") as caught:
        session.run(x)
    assert budget.SECONDS in caught.value.hint
    with pytest.raises(UserError, match="did not end in 1 s"):
        session.run_values({name: ort.as_value(value) for name, value in x.items()}, ["y"])
    monkeypatch.setenv(budget.SECONDS, "1.5")
    with pytest.raises(UserError, match=r"ONNXQ_RUN_SECONDS is '1\.5'"):
        session.run(x)


def test_what_is_bounded_has_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """onnxruntime's other threads do not live through memory that they do not get."""
    threads: list[int] = []
    opened = ort.open_session

    def noted(source: bytes | str, settings: SessionSettings, risky: bool) -> object:
        threads.append(settings.threads)
        return opened(source, settings, risky)

    monkeypatch.setattr(ort, "open_session", noted)
    plain = onnx.parser.parse_model(HEAD + "(float[4] x) => (float[4] y) { y = Neg (x) }")
    ort.load(plain)
    with ort.made_up():
        ort.load(plain)
    ort.load(onnx.parser.parse_model(ENDLESS))
    assert threads == [0, 1, 1]


def line(folder: Path, body: str) -> Ended:
    """Runs a function under supervision."""

    def main() -> None:
        supervised.supervised(lambda: exec(body), lambda name: (print(f"died of {name}"), 2)[1])

    return bounded(main, folder, seconds=20.0, memory=4 << 30)


@pytest.mark.parametrize("name", ["SIGFPE", "SIGSEGV", "SIGBUS", "SIGILL", "SIGABRT"])
def test_a_death_of_native_code_is_a_line(name: str, tmp_path: Path) -> None:
    ended = line(tmp_path, f"import os, signal; os.kill(os.getpid(), signal.{name})")
    assert (ended.code, ended.out, ended.err) == (2, f"died of {name}\n", "")


def test_a_supervised_run_ends_as_it_does_alone(tmp_path: Path) -> None:
    assert line(tmp_path, "raise SystemExit(1)").code == 1
    assert line(tmp_path, "print('well')").out == "well\n"
    kill = "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"
    assert line(tmp_path, kill).code == -signal.SIGKILL

    def first() -> None:
        """As the first process of a container, which does not hear its own signals."""

        def once(process: int, number: int) -> None:
            assert (process, number) == (os.getpid(), signal.SIGKILL)

        supervised.os = types.SimpleNamespace(**{**vars(os), "kill": once})  # type: ignore[assignment]
        supervised.supervised(lambda: os._exit(os.kill(os.getpid(), signal.SIGKILL)), lambda name: 2)

    assert bounded(first, tmp_path, seconds=20.0, memory=4 << 30).code == 128 + signal.SIGKILL


def test_an_interrupt_while_it_starts_is_no_traceback(tmp_path: Path) -> None:
    program = (
        "import os, signal; from onnxq import __main__ as m\n"
        "m._run = lambda: os.kill(os.getpid(), signal.SIGINT)\nm.main()"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (-signal.SIGINT, "")


def test_the_command_says_that_native_code_ended_it(tmp_path: Path) -> None:
    program = "import os, sys; from onnxq import __main__ as m; m._run = os.abort; m.main()"
    for more in ([], ["--json"]):
        ended = subprocess.run(
            [sys.executable, "-c", program, "sanitize", *more],
            capture_output=True,
            text=True,
            check=False,
            env=environment(tmp_path),
        )
        assert ended.returncode == 2
        assert ended.stderr.startswith("error: native code")
        assert "(SIGABRT)" in ended.stderr
        assert ("SIGABRT" in ended.stdout) is bool(more)
    assert "Traceback" not in ended.stderr
