"""An executor in the place of processes: the same bytes, wherever tasks run, whatever becomes of them."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import time
import zipfile
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import onnx
import pytest

import onnxq
from onnxq.base import executors
from onnxq.base.errors import UserError
from onnxq.base.executors import Parcel
from onnxq.calib import shards

DIGITS = Path(__file__).parents[2] / "sample_models" / "digits"
SAMPLES = 24
ELSEWHERE = """
import pickle, sys
work, args = pickle.load(sys.stdin.buffer)
sys.stdout.buffer.write(pickle.dumps(work(*args)))
"""


class Faulty:
    """Does the work here, and loses some of it: `lost` says which submissions."""

    def __init__(self, *lost: int) -> None:
        self.lost, self.count, self.done = lost, 0, 0

    def submit(self, work: Any, /, *args: Any) -> Future[Any]:
        future: Future[Any] = Future()
        if self.count in self.lost:
            future.set_exception(ConnectionError("the machine is gone"))
        else:
            future.set_result(work(*args))
            self.done += 1
        self.count += 1
        return future


class Elsewhere:
    """Runs each task in a Python of its own, in a folder of its own, which is given nothing but the task."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def submit(self, work: Any, /, *args: Any) -> Future[Any]:
        sent = pickle.dumps((work, args))
        root = str(Path(onnxq.__file__).parents[1])
        assert str(self.folder.parent / "model").encode() not in sent
        command = [sys.executable, "-c", ELSEWHERE]
        ran = subprocess.run(
            command, input=sent, cwd=self.folder, env={"PYTHONPATH": root}, check=True, capture_output=True
        )
        future: Future[Any] = Future()
        future.set_result(pickle.loads(ran.stdout))
        return future


def taken(path: Path, model: Any = DIGITS / "digits.onnx", **options: Any) -> bytes:
    onnxq.calibrate(model, DIGITS / "calib", path, samples=SAMPLES, **options)
    return path.read_bytes()


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    """No parcel of a test before is there."""
    monkeypatch.setattr(executors, "_unpacked", {})


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return taken(tmp_path_factory.mktemp("alone") / "x.stats.npz")


def test_processes_and_threads_give_the_bytes_of_one_run(alone: bytes, tmp_path: Path) -> None:
    with ProcessPoolExecutor(2, multiprocessing.get_context("spawn")) as processes:
        assert taken(tmp_path / "p.stats.npz", executor=processes) == alone
    with ThreadPoolExecutor(3) as threads:
        assert taken(tmp_path / "t.stats.npz", executor=threads) == alone
    assert sorted(path.name for path in tmp_path.iterdir()) == ["p.stats.npz", "t.stats.npz"]


def test_a_task_that_is_lost_is_done_again_and_no_other(alone: bytes, tmp_path: Path) -> None:
    faulty = Faulty(1, 3)
    assert taken(tmp_path / "x.stats.npz", executor=faulty) == alone
    assert (faulty.count, faulty.done) == (5, 3)  # three tasks, two of them twice


def test_what_is_lost_time_and_again_is_told_and_what_is_done_is_kept(alone: bytes, tmp_path: Path) -> None:
    path = tmp_path / "x.stats.npz"
    with pytest.raises(UserError, match="lost a task 3 times: ConnectionError: the machine is gone"):
        taken(path, executor=Faulty(*range(1, 100)))
    assert [one.name for one in tmp_path.iterdir()] == ["x.stats.npz.part-1"]
    rest = Faulty()
    assert taken(path, executor=rest) == alone
    assert rest.count == 2  # of three tasks
    assert [one.name for one in tmp_path.iterdir()] == ["x.stats.npz"]


def test_what_a_task_itself_raises_is_not_the_executors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*args: Any) -> Any:
        raise AttributeError("no such attribute")

    monkeypatch.setattr(shards, "_taken_over", fails)
    executor = Faulty()
    with pytest.raises(AttributeError, match="no such attribute") as caught:
        taken(tmp_path / "x.stats.npz", executor=executor)
    assert executor.count == 3  # of three tasks, none twice
    assert "in _gather_elsewhere" in caught.value.__notes__[0]


class Mortal:
    """A pool of one process, which dies at its first task if `state` says so."""

    made: ClassVar[list[ProcessPoolExecutor]] = []

    def __init__(self, how: str, times: int) -> None:
        self.how, self.left = how, times

    def __call__(self) -> Any:
        pool = ProcessPoolExecutor(1, multiprocessing.get_context("spawn"))
        if self.left:
            self.left -= 1
            pool.submit(ends if self.how == "dies" else hangs)
        self.made.append(pool)
        return pool


def ends() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def hangs() -> None:
    time.sleep(600)


@pytest.mark.parametrize("how", ["dies", "hangs"])
def test_in_the_place_of_a_broken_executor_another_one_is_made(
    alone: bytes, tmp_path: Path, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if how == "hangs":
        monkeypatch.setenv(executors.SECONDS, "12")
    make = Mortal(how, 1)
    make.made.clear()
    begun = time.monotonic()
    assert taken(tmp_path / "x.stats.npz", executor=make) == alone
    assert time.monotonic() - begun < 100
    assert len(make.made) == 2
    for pool in make.made:  # none is left
        with pytest.raises(RuntimeError, match=r"shutdown|terminated"):
            pool.submit(ends)


def test_a_pool_that_is_broken_says_what_to_do(tmp_path: Path) -> None:
    with Mortal("dies", 1)() as pool, pytest.raises(UserError, match="lost a task 3 times: Broken") as caught:
        taken(tmp_path / "x.stats.npz", executor=pool)
    assert "executor= may be a function" in caught.value.hint


class Raising:
    """An executor with faults of its own."""

    def __init__(self, *, at_once: bool) -> None:
        self.at_once = at_once

    def submit(self, work: Any, /, *args: Any) -> Future[Any]:
        future: Future[Any] = Future()
        future.set_exception(RuntimeError("it was shut down"))
        if self.at_once:
            raise TypeError("submit takes no samples")
        return future


class Answering:
    """An executor that answers with something else."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer

    def submit(self, work: Any, /, *args: Any) -> Future[Any]:
        future: Future[Any] = Future()
        future.set_result(self.answer(work(*args)) if callable(self.answer) else self.answer)
        return future


@pytest.mark.parametrize(
    ("executor", "said"),
    [
        (Raising(at_once=True), "lost a task 3 times: TypeError: submit takes no samples"),
        (Raising(at_once=False), "lost a task 3 times: RuntimeError: it was shut down"),
        (Answering(None), r"answers with None, not with what the task gave \(StatsFile\)"),
        (Answering(b"pickled"), "answers with b'pickled', not with what the task gave"),
        (Answering(executors.Answer(3)), "not with what the task gave"),
        (lambda: 3, "makes 3, which has no submit"),
        (lambda: 1 / 0, "the function that makes executors fails: ZeroDivisionError: division by zero"),
    ],
)
def test_faults_of_an_executor_are_told_in_a_line(tmp_path: Path, executor: Any, said: str) -> None:
    with pytest.raises(UserError, match=said):
        taken(tmp_path / "x.stats.npz", executor=executor)


def test_a_class_of_executors_makes_them(alone: bytes, tmp_path: Path) -> None:
    assert taken(tmp_path / "x.stats.npz", executor=ThreadPoolExecutor) == alone


def test_what_can_be_read_only_once_has_no_tasks(tmp_path: Path) -> None:
    data = ({input_name(): np.zeros(input_shape(), np.float32)} for _ in range(9))
    with pytest.raises(UserError, match="an executor cannot take data that can be read only once"):
        onnxq.calibrate(DIGITS / "digits.onnx", data, tmp_path / "x.stats.npz", executor=Faulty())


def test_a_task_brings_all_that_it_needs(alone: bytes, tmp_path: Path) -> None:
    """Weights beside the model included: nothing of this machine's is read."""
    inside, elsewhere = tmp_path / "model", tmp_path / "elsewhere"
    inside.mkdir()
    elsewhere.mkdir()
    model = onnx.load(DIGITS / "digits.onnx")
    onnx.save(model, inside / "m.onnx", save_as_external_data=True, location="m.data", size_threshold=0)
    assert taken(tmp_path / "here.stats.npz", inside / "m.onnx") == taken(
        tmp_path / "there.stats.npz", inside / "m.onnx", executor=Elsewhere(elsewhere)
    )


def test_bad_samples_are_left_out_as_by_one_run(tmp_path: Path) -> None:
    good = np.random.default_rng(0).random((18, *input_shape()), np.float32)
    bad = good.copy()
    bad[7] = np.nan
    data = [{input_name(): sample} for sample in bad]
    found = []
    for name, options in (("a", {}), ("b", {"executor": Faulty(0)})):
        path = tmp_path / f"{name}.stats.npz"
        onnxq.calibrate(DIGITS / "digits.onnx", data, path, skip_bad=True, **options)
        found.append(path.read_bytes())
    assert found[0] == found[1]


def input_name() -> str:
    return onnx.load(DIGITS / "digits.onnx").graph.input[0].name


def input_shape() -> tuple[int, ...]:
    dims = onnx.load(DIGITS / "digits.onnx").graph.input[0].type.tensor_type.shape.dim
    return tuple(dim.dim_value or 1 for dim in dims)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"executor": 3}, "executor is 3, not an Executor"),
        ({"executor": Faulty(), "submit": Faulty().submit}, "two names of one thing"),
    ],
)
def test_what_is_no_executor(options: dict[str, Any], said: str) -> None:
    with pytest.raises(UserError, match=said):
        onnxq.quantize(DIGITS / "digits.onnx", DIGITS / "calib", min_sqnr=20, **options)


def test_a_goal_is_measured_by_an_executor_to_the_same_bits() -> None:
    options: dict[str, Any] = {
        "samples": 48, "repair": "none", "method": "minmax", "min_sqnr": 45, "compile": False,
        "layer_samples": 0, "prove": "never",
    }  # fmt: skip
    here = Faulty(1)
    made = [
        onnxq.quantize(DIGITS / "digits.onnx", DIGITS / "calib", **options, **more).model.SerializeToString(
            deterministic=True
        )
        for more in ({}, {"executor": here})
    ]
    assert made[0] == made[1]
    assert here.done > 1


def test_a_parcel_is_known_by_its_content(tmp_path: Path) -> None:
    for name, text in (("a", "1"), ("b", "1"), ("c", "2")):
        (tmp_path / name / "sub").mkdir(parents=True)
        (tmp_path / name / "sub/x").write_text(text, "utf-8")
    a, b, c = (Parcel.of(tmp_path / name) for name in "abc")
    assert a.digest == b.digest != c.digest
    with c.opened() as folder:
        assert (folder / "sub/x").read_text("utf-8") == "2"


def test_a_store_is_written_once_and_read_elsewhere(alone: bytes, tmp_path: Path) -> None:
    store, elsewhere = tmp_path / "store", tmp_path / "elsewhere"
    elsewhere.mkdir()
    sizes: list[int] = []
    written: set[tuple[str, int]] = set()

    class Weighing(Elsewhere):
        def submit(self, work: Any, /, *args: Any) -> Future[Any]:
            sizes.append(len(pickle.dumps(args[1])))
            written.update((file.name, file.stat().st_mtime_ns) for file in store.iterdir())
            return super().submit(work, *args)

    other = onnxq.StoredExecutor(Faulty(), f"file://{store}")
    with onnxq.StoredExecutor(Weighing(elsewhere), f"file://{store}") as executor:
        assert taken(tmp_path / "x.stats.npz", executor=executor) == alone
    assert len(sizes) == 3
    assert max(sizes) < 1000  # bytes: no model
    assert len(written) == 1
    assert not list(store.iterdir())
    with other, onnxq.StoredExecutor(Faulty(), f"file://{store}") as executor:  # of the same model
        taken(tmp_path / "y.stats.npz", executor=other)
        taken(tmp_path / "z.stats.npz", executor=executor)
        assert len(list(store.iterdir())) == 2


def test_a_store_that_is_away_costs_the_task(alone: bytes, tmp_path: Path) -> None:
    class Away(Faulty):
        def submit(self, work: Any, /, *args: Any) -> Future[Any]:
            (file,) = (tmp_path / "store").iterdir()
            future: Future[Any] = Future()
            if not self.count:
                held = file.read_bytes()
                file.unlink()
                try:
                    future.set_result(work(*args))
                except OSError as error:
                    future.set_exception(error)
                file.write_bytes(held)
                self.count += 1
                return future
            return super().submit(work, *args)

    with onnxq.StoredExecutor(Away(), f"file://{tmp_path / 'store'}") as executor:
        assert taken(tmp_path / "x.stats.npz", executor=executor) == alone
    with onnxq.StoredExecutor(Faulty(), f"file://{tmp_path / 'gone'}") as executor:
        taken(tmp_path / "x2.stats.npz", executor=executor)
        next((tmp_path / "gone").iterdir()).unlink()  # that it is gone already ends nothing


def test_another_file_in_the_store_is_not_taken(tmp_path: Path) -> None:
    class Replacing(Faulty):
        def submit(self, work: Any, /, *args: Any) -> Future[Any]:
            (file,) = (tmp_path / "store").iterdir()
            with zipfile.ZipFile(file, "w") as packed:
                packed.writestr("model.onnx", b"another")
            return super().submit(work, *args)

    with (
        onnxq.StoredExecutor(Replacing(), f"file://{tmp_path / 'store'}") as executor,
        pytest.raises(UserError, match=r"onnxq-[0-9a-f]{32}-[0-9a-f]{64}.zip is not what was written there"),
    ):
        taken(tmp_path / "x.stats.npz", executor=executor)
    with pytest.raises(UserError, match="is no store"):
        onnxq.StoredExecutor(Faulty(), "nothing://here")


def test_ray(alone: bytes, tmp_path: Path) -> None:
    ray = pytest.importorskip("ray")
    ray.init(num_cpus=2, include_dashboard=False)
    try:
        assert taken(tmp_path / "x.stats.npz", executor=onnxq.RayExecutor(num_cpus=1)) == alone
    finally:
        ray.shutdown()
