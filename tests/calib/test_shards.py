"""A pass in pieces gives the file of one run, byte for byte: shards, workers, interruptions."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import numpy_helper, parser
from said import is_said
from stats_tools import ORIGIN, file_of

import onnxq
from onnxq.base.errors import UserError
from onnxq.calib import shards, stats_file
from onnxq.calib.shards import Checkpoints, shard_of
from onnxq.calib.stats import Stats
from onnxq.calib.stats_file import read, to_bytes, write
from onnxq.data.samples import Sample
from onnxq.data.sources import Order
from onnxq.pipeline.jobs import calibrate

DIGITS = Path(__file__).resolve().parent.parent.parent / "sample_models" / "digits"
COUNT = 12  # of which 3 choose as well, and 1 is kept apart to verify


def net(length: int | str = 16, gain: float = 1.0) -> onnx.ModelProto:
    """Two products; the second one's input is infinite where `x` is above 80."""
    model = parser.parse_model(
        f"""<ir_version: 8, opset_import: ["" : 17]>
        net (float[N, {length}, 32] x) => (float[N, {length}, 32] y) {{
            a = MatMul (x, w)
            e = Exp (x)
            b = MatMul (e, w)
            y = Add (a, b)
        }}"""
    )
    w = np.random.default_rng(0).standard_normal((32, 32)).astype(np.float32) * np.float32(gain)
    model.graph.initializer.append(numpy_helper.from_array(w, "w"))
    return model


def rows(count: int = COUNT, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((count, 16, 32)).astype(np.float32)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A folder of samples."""
    folder = tmp_path / "data"
    folder.mkdir()
    for index, row in enumerate(rows()):
        np.save(folder / f"{index:02}.npy", row)
    return folder


@pytest.fixture
def by_place(monkeypatch: pytest.MonkeyPatch) -> None:
    """Samples are for the same whatever they hold, so that one that is spoiled is where it was."""
    monkeypatch.setattr(
        Order, "of", lambda table: Order([row.to_bytes(9, "big") for row in range(table.count)])
    )


@pytest.fixture
def whole(data: Path, tmp_path: Path) -> bytes:
    """The file of an uninterrupted run."""
    calibrate(net(), data, tmp_path / "whole.npz", exact=True)
    return (tmp_path / "whole.npz").read_bytes()


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The samples that are run, by index."""
    found: list[int] = []
    plain = stats_file.digest

    def recording(sample: Sample) -> bytes:
        found.append(sample.index)
        return plain(sample)

    monkeypatch.setattr(stats_file, "digest", recording)
    return found


def stop_after(count: int) -> Callable[[str, int | None, int | None], None]:
    def observe(step: str, done: int | None, total: int | None) -> None:
        if step == "calibrate" and done == count:
            raise KeyboardInterrupt

    return observe


def interrupted(count: int, model: onnx.ModelProto, data, output: Path, **options) -> None:
    with pytest.raises(KeyboardInterrupt):
        calibrate(model, data, output, observe=stop_after(count), **options)


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()} - {"data", "whole.npz"}


class TestShards:
    @pytest.mark.parametrize(("count", "exact"), [(2, True), (3, False), (8, True)])
    def test_merged_in_any_order(self, count: int, exact: bool, data: Path, tmp_path: Path) -> None:
        calibrate(net(), data, tmp_path / "whole.npz", exact=exact)
        paths = [tmp_path / f"{n}.npz" for n in range(count)]
        for number, path in enumerate(paths, 1):
            calibrate(net(), data, path, exact=exact, shard=(number, count))
        for order in (paths, paths[::-1], paths[1:] + paths[:1]):
            merged = onnxq.merge_stats(order, tmp_path / "merged.npz")
            assert (tmp_path / "merged.npz").read_bytes() == (tmp_path / "whole.npz").read_bytes()
            assert to_bytes(merged) == (tmp_path / "whole.npz").read_bytes()

    def test_of_several_sizes(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """The first sample of all decides which rows are counted, and how many samples all shards have."""
        monkeypatch.setattr("onnxq.calib.probes.SAMPLED", 1000)
        random = np.random.default_rng(0)
        sizes = [(1, 16 if index % 5 else 200, 32) for index in range(COUNT)]
        data = [{"x": random.random(size, np.float32)} for size in sizes]
        whole = calibrate(net("T"), data, tmp_path / "whole.npz")
        paths = [tmp_path / f"{number}.npz" for number in (1, 2, 3)]
        parts = [calibrate(net("T"), data, path, shard=(n, 3)) for n, path in enumerate(paths, 1)]
        firsts = [data[int(part.stats.indices[0])]["x"].shape for part in parts]
        assert len(set(firsts)) == 2
        assert {part.stats.tensors["e"].step for part in parts} == {whole.stats.tensors["e"].step}
        assert to_bytes(onnxq.merge_stats(paths, tmp_path / "merged.npz")) == to_bytes(whole)

    @pytest.mark.usefixtures("by_place")
    def test_bad_samples(self, data: Path, tmp_path: Path) -> None:
        """One that cannot be read, one that the model fails on; the first of all is among them."""
        first = int(calibrate(net(), data, tmp_path / "all.npz").stats.indices[0])
        others = [index for index in range(COUNT) if index != first]
        np.save(data / f"{first:02}.npy", np.full((16, 32), np.nan, np.float32))
        bad = next(i for i in read(tmp_path / "all.npz").stats.indices if i in others)
        np.save(data / f"{bad:02}.npy", np.full((16, 32), 100, np.float32))
        done = calibrate(net(), data, tmp_path / "whole.npz", skip_bad=True)
        assert not {first, bad} & set(done.stats.indices.tolist())
        assert [Path(where).name for where, _ in done.skipped] == sorted([f"{first:02}.npy", f"{bad:02}.npy"])
        for number in (1, 2):
            calibrate(net(), data, tmp_path / f"{number}.npz", skip_bad=True, shard=(number, 2))
        onnxq.merge_stats([tmp_path / "2.npz", tmp_path / "1.npz"], tmp_path / "merged.npz")
        assert (tmp_path / "merged.npz").read_bytes() == (tmp_path / "whole.npz").read_bytes()

    @settings(max_examples=50, deadline=None)
    @given(indices=st.lists(st.integers(0, 99), min_size=1, unique=True), count=st.integers(1, 9))
    def test_each_sample_is_in_one(self, indices: list[int], count: int) -> None:
        indices.sort()
        count = min(count, len(indices))
        shards = [shard_of(indices, number, count) for number in range(1, count + 1)]
        assert sorted(index for shard in shards for index in shard) == indices
        assert max(map(len, shards)) - min(map(len, shards)) <= 1
        assert all(shard == sorted(shard) for shard in shards)

    @pytest.mark.parametrize(
        ("number", "count", "says"), [(0, 2, "no shard 0/2"), (3, 2, "no shard 3/2"), (1, 0, "no shard 1/0")]
    )
    def test_that_are_not_there(self, number: int, count: int, says: str, data: Path, tmp_path: Path) -> None:
        with pytest.raises(UserError, match=says):
            calibrate(net(), data, tmp_path / "a.npz", samples=4, shard=(number, count))
        assert names(tmp_path) == set()

    def test_more_of_them_than_samples(self, data: Path, tmp_path: Path) -> None:
        """What a job array of a fixed size does: each one ends well, and they merge to one run's file."""
        calibrate(net(), data, tmp_path / "whole.npz", exact=True)
        paths = [tmp_path / f"{n}.npz" for n in range(1, COUNT + 3)]
        for number, path in enumerate(paths, 1):
            calibrate(net(), data, path, exact=True, shard=(number, len(paths)))
        assert [read(path).stats.samples for path in paths] == [1] * (COUNT - 1) + [0] * 3
        for order in (paths, paths[::-1]):
            merged = onnxq.merge_stats(order, tmp_path / "merged.npz")
            assert to_bytes(merged) == (tmp_path / "whole.npz").read_bytes()
        assert onnxq.merge_stats(paths[-2:], tmp_path / "none.npz").stats.samples == 0
        with pytest.raises(UserError, match=r"none\.npz' holds statistics of no samples"):
            onnxq.quantize(net(), stats=tmp_path / "none.npz", compile=False, partial=True)

    @pytest.mark.usefixtures("by_place")
    def test_what_is_missing(self, data: Path, tmp_path: Path) -> None:
        """Merging in stages says so until all are there; a sample that is bad is not missing."""
        chosen = calibrate(net(), data, tmp_path / "whole.npz").stats.indices.tolist()
        np.save(data / f"{chosen[1]:02}.npy", np.full((16, 32), np.nan, np.float32))
        paths = [tmp_path / f"{n}.npz" for n in (1, 2, 3, 4)]
        for number, path in enumerate(paths, 1):
            calibrate(net(), data, path, skip_bad=True, shard=(number, 4))
        some, all_ = tmp_path / "some.npz", tmp_path / "all.npz"
        merged = onnxq.merge_stats(paths[:2], some)
        assert merged.missing == read(some).missing == sorted(chosen[2::4] + chosen[3::4])
        assert onnxq.merge_stats([some, paths[3], paths[2]], all_).missing == []
        assert onnxq.quantize(net(), stats=all_, compile=False).report["calibration"]["missing"] == []
        with pytest.raises(
            UserError, match=r"holds statistics of 5 of the 11 samples .*; missing: "
        ) as caught:
            onnxq.quantize(net(), stats=some, compile=False)
        assert "partial = true" in caught.value.hint
        found = onnxq.quantize(net(), stats=some, compile=False, partial=True).report["calibration"]
        assert (found["samples"], found["missing"]) == (5, merged.missing)
        assert is_said(found["notes"], "partial-statistics", held=5, chosen=11)

    @pytest.mark.parametrize(
        ("held", "text"),
        [((), "1-25"), ((1, 9, 25), "3-8, 11-19"), (range(3, 9), "1, 9-25"), ((3, 11), "1, 8-9, 14-25")],
    )
    def test_they_are_named_by_ranges_of_what_was_chosen(self, held, text: str) -> None:
        chosen = (1, 3, 8, 9, 11, 14, 19, 25)
        file = file_of(Stats({}, np.array([i for i in held if i in chosen])), replace(ORIGIN, chosen=chosen))
        assert file.missing_text() == text

    @pytest.mark.usefixtures("by_place")
    def test_of_bad_samples_only(self, data: Path, tmp_path: Path) -> None:
        """A command that has no sample at all says so, and leaves nothing."""
        done = calibrate(net(), data, tmp_path / "a.npz", shard=(2, 4))
        (tmp_path / "a.npz").unlink()
        for index in done.stats.indices:
            np.save(data / f"{index:02}.npy", np.full((16, 32), 100, np.float32))
        with pytest.raises(UserError, match=r"no good sample; the first bad one: .*is infinite for"):
            calibrate(net(), data, tmp_path / "a.npz", shard=(2, 4), skip_bad=True)
        assert names(tmp_path) == set()


def spoil(path: Path, value: float) -> None:
    np.save(path, np.full_like(np.load(path), value))


def test_workers(tmp_path: Path) -> None:
    """Of a shard, so that the first sample of all is another's; of images, so that options reach them."""
    files = []
    for workers in (1, 2):
        output = tmp_path / f"{workers}.npz"
        options = {"images": {"scale": 1 / 255, "mean": 0.5}, "shard": (2, 2), "samples": 16}
        calibrate(DIGITS / "digits.onnx", DIGITS / "calib", output, workers=workers, **options)
        files.append(output.read_bytes())
    assert files[0] == files[1]
    assert names(tmp_path) == {"1.npz", "2.npz"}


@pytest.mark.usefixtures("by_place")
@pytest.mark.parametrize("value", [np.nan, 100], ids=["unreadable", "fails"])
def test_a_worker_with_bad_samples_only(value: float, data: Path, tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    onnx.save(net(), path)
    indices = calibrate(path, data, tmp_path / "whole.npz").stats.indices
    for index in indices[1::2]:
        spoil(data / f"{index:02}.npy", value)
    whole = calibrate(path, data, tmp_path / "whole.npz", skip_bad=True)
    found = calibrate(path, data, tmp_path / "a.npz", skip_bad=True, workers=2)
    assert found.stats.indices.tolist() == indices[::2].tolist()
    assert to_bytes(found) == to_bytes(whole) == (tmp_path / "a.npz").read_bytes()
    assert len(found.skipped) == len(indices) // 2
    assert names(tmp_path) == {"net.onnx", "a.npz"}


GUARDLESS = f"""import onnxq
onnxq.calibrate({str(DIGITS / "digits.onnx")!r}, {str(DIGITS / "calib")!r}, "a.npz", workers=2)
"""


def test_workers_of_a_script_without_a_guard(tmp_path: Path) -> None:
    """Each worker runs the script anew, and is gone before it has read what it was handed."""
    (tmp_path / "script.py").write_text(GUARDLESS)
    environ = os.environ | {"PYTHONPATH": str(DIGITS.parents[1])}
    ran = subprocess.run(
        [sys.executable, "script.py"], cwd=tmp_path, env=environ, capture_output=True, text=True,
        timeout=60, check=False,
    )  # fmt: skip
    assert ran.returncode == 1
    last = ran.stderr.strip().splitlines()[-1]
    assert "(exit code 1)" in last
    assert "if __name__ == '__main__':" in last
    assert os.listdir(tmp_path) == ["script.py"]


@pytest.mark.skipif(sys.platform == "win32", reason="sends signals")
def test_a_worker_that_is_killed(tmp_path: Path) -> None:
    images = sorted((DIGITS / "calib").iterdir())
    (tmp_path / "many.txt").write_text("".join(f"{path}\n" for path in images * 50))

    def observe(step: str, done: int | None, total: int | None) -> None:
        if done:
            os.kill(multiprocessing.active_children()[0].pid or 0, signal.SIGKILL)

    with pytest.raises(UserError, match="a calibration worker was killed") as caught:
        calibrate(
            DIGITS / "digits.onnx", tmp_path / "many.txt", tmp_path / "a.npz", samples=10_000, workers=2,
            observe=observe,
        )  # fmt: skip
    assert "fewer workers" in caught.value.hint
    assert not multiprocessing.active_children()


def test_workers_of_a_large_model(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its weights go into a file of their own."""
    monkeypatch.setattr(shards, "_INLINE", 1 << 10)
    files = []
    for workers in (1, 2):
        calibrate(net(), data, tmp_path / f"{workers}.npz", workers=workers)
        files.append((tmp_path / f"{workers}.npz").read_bytes())
    assert files[0] == files[1]


@pytest.mark.skipif(sys.platform == "win32", reason="sends signals")
def test_interrupted_workers_keep_what_they_did(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """A terminal's signal goes to all processes, and the parent ends its own, more than once."""
    images = sorted((DIGITS / "calib").iterdir())
    (tmp_path / "many.txt").write_text("".join(f"{path}\n" for path in images * 50))
    arguments = (DIGITS / "digits.onnx", tmp_path / "many.txt", tmp_path / "a.npz")

    def observe(step: str, done: int | None, total: int | None) -> None:
        if done:
            for child in multiprocessing.active_children():
                for number in (signal.SIGINT, signal.SIGTERM, signal.SIGINT, signal.SIGTERM):
                    os.kill(child.pid or 0, number)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        calibrate(*arguments, samples=10_000, workers=2, observe=observe)
    parts = [read(path) for path in tmp_path.glob("a.npz.part-*")]
    assert 1 <= Checkpoints(tmp_path / "a.npz").samples() == sum(part.stats.samples for part in parts)
    assert names(tmp_path) - {"many.txt"} <= {"a.npz.part-1", "a.npz.part-2"}
    assert "Traceback" not in capfd.readouterr().err


class TestInterrupted:
    @pytest.mark.parametrize("after", [1, 5, COUNT - 1])
    def test_goes_on(self, after: int, data: Path, whole: bytes, run: list[int], tmp_path: Path) -> None:
        output = tmp_path / "a.npz"
        interrupted(after, net(), data, output, exact=True)
        assert names(tmp_path) == {"a.npz.part-1"}
        first = run.copy()
        run.clear()
        told: list[tuple[int | None, int | None]] = []
        calibrate(net(), data, output, exact=True, observe=lambda step, *done: told.append(done))
        assert len(first) == after
        assert len(run) == COUNT - 1 - after
        assert not set(first) & set(run)
        assert output.read_bytes() == whole
        assert names(tmp_path) == {"a.npz"}
        done = [entry for entry in told if entry != (None, None)]
        assert done == [(n, COUNT - 1) for n in range(after + 1, COUNT)]

    def test_again_and_again(self, data: Path, whole: bytes, run: list[int], tmp_path: Path) -> None:
        output = tmp_path / "a.npz"
        for after in (2, 3, 6):
            interrupted(after, net(), data, output, exact=True)
        calibrate(net(), data, output, exact=True)
        assert sorted(run) == sorted(set(run))
        assert output.read_bytes() == whole
        assert names(tmp_path) == {"a.npz"}

    def test_of_images(self, run: list[int], tmp_path: Path) -> None:
        """What is said of them survives the file."""
        options = {"images": {"mean": (0.25,), "std": 0.5}, "samples": 6}
        arguments = (DIGITS / "digits.onnx", DIGITS / "calib")
        calibrate(*arguments, tmp_path / "whole.npz", **options)
        run.clear()
        interrupted(4, *arguments, tmp_path / "a.npz", **options)
        calibrate(*arguments, tmp_path / "a.npz", **options)
        assert len(run) == 6
        assert (tmp_path / "a.npz").read_bytes() == (tmp_path / "whole.npz").read_bytes()

    @pytest.mark.usefixtures("by_place")
    def test_a_bad_sample_is_repaired(self, data: Path, whole: bytes, run: list[int], tmp_path: Path) -> None:
        index = int(read(tmp_path / "whole.npz").stats.indices[4])
        good = np.load(data / f"{index:02}.npy")
        np.save(data / f"{index:02}.npy", good + 100)
        with pytest.raises(UserError, match=rf"is infinite for .*{index:02}\.npy"):
            calibrate(net(), data, tmp_path / "a.npz", exact=True)
        assert len(run) == 5
        np.save(data / f"{index:02}.npy", good)
        calibrate(net(), data, tmp_path / "a.npz", exact=True)
        assert len(run) == COUNT - 1 + 1
        assert (tmp_path / "a.npz").read_bytes() == whole

    @pytest.mark.usefixtures("by_place")
    @pytest.mark.parametrize("value", [np.nan, 100], ids=["unreadable", "fails"])
    def test_only_bad_samples_are_left(self, value: float, data: Path, whole: bytes, tmp_path: Path) -> None:
        last = int(read(tmp_path / "whole.npz").stats.indices[-1])
        spoil(data / f"{last:02}.npy", value)
        expected = calibrate(net(), data, tmp_path / "b.npz", exact=True, skip_bad=True)
        interrupted(COUNT - 5, net(), data, tmp_path / "a.npz", exact=True, skip_bad=True)
        found = calibrate(net(), data, tmp_path / "a.npz", exact=True, skip_bad=True)
        assert to_bytes(found) == to_bytes(expected)
        assert [Path(where).name for where, _ in found.skipped] == [f"{last:02}.npy"]

    def test_it_says_so(self, data: Path, whole: bytes, tmp_path: Path) -> None:
        interrupted(5, net(), data, tmp_path / "a.npz", exact=True)
        steps: list[str] = []
        calibrate(net(), data, tmp_path / "a.npz", exact=True, observe=lambda step, *_: steps.append(step))
        at = steps.index("going on after 5 samples")
        assert steps[at + 1] == "calibrate"
        assert "calibrate" not in steps[:at]

    @pytest.mark.parametrize(
        ("model", "options"),
        [
            (net(gain=2), {}),
            (net(), {"exact": False}),
            (net(), {"seed": 1}),
            (net(), {"samples": 7}),
            (net(), {"assume": {"N": 1}}),
        ],
        ids=["model", "counting", "seed", "samples", "statement"],
    )
    def test_what_is_of_another_run_is_not_used(
        self, model: onnx.ModelProto, options, data: Path, run: list[int], tmp_path: Path
    ) -> None:
        options = {"exact": True, **options}
        interrupted(5, net(), data, tmp_path / "a.npz", exact=True)
        run.clear()
        calibrate(model, data, tmp_path / "a.npz", **options)
        assert len(run) == options.get("samples", COUNT - 1)
        calibrate(model, data, tmp_path / "whole.npz", **options)
        assert (tmp_path / "a.npz").read_bytes() == (tmp_path / "whole.npz").read_bytes()
        assert names(tmp_path) == {"a.npz"}

    def test_what_is_of_other_data_is_not_used(self, data: Path, run: list[int], tmp_path: Path) -> None:
        interrupted(5, net(), data, tmp_path / "a.npz")
        for index, row in enumerate(rows(seed=1)):
            np.save(data / f"{index:02}.npy", row)
        run.clear()
        calibrate(net(), data, tmp_path / "a.npz")
        assert len(run) == COUNT - 1
        assert names(tmp_path) == {"a.npz"}

    def test_what_is_of_another_shard_is_not_used(self, data: Path, run: list[int], tmp_path: Path) -> None:
        interrupted(2, net(), data, tmp_path / "a.npz", shard=(1, 2))
        interrupted(2, net(), data, tmp_path / "a.npz", shard=(2, 2))
        run.clear()
        calibrate(net(), data, tmp_path / "a.npz", shard=(2, 2))
        assert len(run) == 3
        calibrate(net(), data, tmp_path / "b.npz", shard=(2, 2))
        assert (tmp_path / "a.npz").read_bytes() == (tmp_path / "b.npz").read_bytes()


class TestCheckpoints:
    def part(self, *indices: int, **origin):
        return file_of(Stats({}, np.array(indices)), replace(ORIGIN, **origin))

    def test_parts_are_merged(self, tmp_path: Path) -> None:
        checkpoints = Checkpoints(tmp_path / "a.npz")
        assert checkpoints.resume(ORIGIN, range(9)) is None
        for worker, part in enumerate(
            (self.part(1, 4), self.part(2), self.part(0, 8), self.part(3, seed=1), self.part(12))
        ):
            write(part, checkpoints.path(worker))
        mine = ("another.npz.part-1", "a.npz.part-x", "a.npz.part-1.bak")
        for name in mine:
            (tmp_path / name).write_bytes(b"")
        checkpoints.check()
        assert checkpoints.samples() == 7
        found = checkpoints.resume(ORIGIN, range(9))
        assert found is not None
        assert found.stats.indices.tolist() == [0, 1, 2, 4, 8]
        assert names(tmp_path) == {"a.npz.part-0", *mine}
        assert to_bytes(read(checkpoints.path(0))) == to_bytes(found)
        checkpoints.clear()
        assert names(tmp_path) == {*mine}

    @pytest.mark.parametrize("number", [0, 1, 7])
    @pytest.mark.parametrize("kind", ["text", "folder", "arrays"])
    def test_what_is_the_users_stays(self, number: int, kind: str, data: Path, tmp_path: Path) -> None:
        path = tmp_path / f"a.npz.part-{number}"
        if kind == "folder":
            path.mkdir()
        elif kind == "text":
            path.write_text("mine")
        else:
            with path.open("wb") as stream:
                np.savez(stream, x=np.ones(3))
        steps: list[str] = []
        with pytest.raises(UserError, match=rf"part-{number}' is in the way"):
            calibrate(net(), data, tmp_path / "a.npz", observe=lambda step, *_: steps.append(step))
        assert steps == ["load"]
        assert names(tmp_path) == {path.name}
        with pytest.raises(UserError):
            Checkpoints(tmp_path / "a.npz").resume(ORIGIN, range(9))
        assert path.exists()

    def test_ended_while_they_were_merged(self, tmp_path: Path) -> None:
        """What is in the merged file already is not taken twice."""
        checkpoints = Checkpoints(tmp_path / "a.npz")
        for worker, part in enumerate((self.part(0, 1, 2, 4), self.part(1, 4), self.part(2))):
            write(part, checkpoints.path(worker))
        found = checkpoints.resume(ORIGIN, range(9))
        assert found is not None
        assert found.stats.indices.tolist() == [0, 1, 2, 4]
        assert os.listdir(tmp_path) == ["a.npz.part-0"]


class TestRefusals:
    @pytest.mark.parametrize("options", [{"shard": (1, 2)}, {"workers": 2}])
    def test_data_that_can_be_read_once(self, options, tmp_path: Path) -> None:
        flag = f"--{next(iter(options))}"
        with pytest.raises(UserError, match=f"^{flag} .* cannot divide the data") as caught:
            calibrate(net(), iter([{"x": row[None]} for row in rows()]), tmp_path / "a.npz", **options)
        assert flag in caught.value.hint

    def test_nothing_to_calibrate(self, data: Path, tmp_path: Path) -> None:
        model = parser.parse_model(
            """<ir_version: 8, opset_import: ["" : 17]> g (float[N, 16, 32] x) => (y) { y = Exp (x) }"""
        )
        with pytest.raises(UserError, match="there is nothing to calibrate"):
            calibrate(model, data, tmp_path / "a.npz")

    @pytest.mark.parametrize("workers", [0, -1])
    def test_too_few_workers(self, workers: int, data: Path, tmp_path: Path) -> None:
        with pytest.raises(UserError, match="workers are too few"):
            calibrate(net(), data, tmp_path / "a.npz", workers=workers)

    def test_data_that_workers_cannot_open(self, tmp_path: Path) -> None:
        with pytest.raises(UserError, match="2 workers cannot read the data"):
            calibrate(net(), [{"x": row[None]} for row in rows()], tmp_path / "a.npz", workers=2)

    def test_merging(self, data: Path, tmp_path: Path) -> None:
        one, two, mine = tmp_path / "1.npz", tmp_path / "2.npz", tmp_path / "mine"
        for number, path in enumerate((one, two), 1):
            calibrate(net(gain=number), data, path, shard=(number, 2))
        with pytest.raises(UserError, match=r"differ in their model"):
            onnxq.merge_stats([one, two], tmp_path / "a.npz")
        calibrate(net(), data, two)
        with pytest.raises(UserError, match=r"sample \d+ is in two of the statistics \(6 samples are\)"):
            onnxq.merge_stats([one, two], tmp_path / "a.npz")
        for part in (one, tmp_path / "data" / ".." / "1.npz"):
            before = one.read_bytes()
            with pytest.raises(UserError, match=r"1\.npz' is one of the files to merge"):
                onnxq.merge_stats([two, part], one, force=True)
            assert one.read_bytes() == before
        mine.write_text("mine")
        with pytest.raises(UserError, match="mine' exists"):
            onnxq.merge_stats([one], mine)
        assert mine.read_text() == "mine"
        assert names(tmp_path) == {"1.npz", "2.npz", "mine"}


def test_data_that_can_be_read_once(tmp_path: Path) -> None:
    """The same as of a list of the samples that calibrate; nothing is kept on the way."""
    data = [{"x": row[None]} for row in rows(COUNT)]
    with pytest.raises(KeyboardInterrupt):
        calibrate(net(), iter(data), tmp_path / "a.npz", exact=True, observe=stop_after(3))
    assert names(tmp_path) == set()
    found = calibrate(net(), iter(data), tmp_path / "a.npz", exact=True)
    assert found.stats.indices.tolist() == [1, 2, 3, 4, 5, 6, 7, 9, 10, 11]
    assert (found.origin.samples, found.origin.available) == (10, None)
    assert to_bytes(read(tmp_path / "a.npz")) == to_bytes(found)
    x = rows(COUNT)[found.stats.indices]
    entry = found.stats.tensors["x"]
    assert entry.lows.tolist() == x.min((1, 2)).tolist()
    assert entry.histogram is not None
    assert entry.histogram.total == x.size


def test_a_tensor_without_values_in_some_shards(tmp_path: Path) -> None:
    """What a model detects, say: a shard may see none of it."""
    model = parser.parse_model(
        """<ir_version: 8, opset_import: ["" : 17]> g (float[1, 64] m, float[1, 64, 32] x) => (y) {
            p = NonZero (m)  t = Transpose (p)  some = GatherND (x, t)  y = MatMul (some, w) }"""
    )
    random = np.random.default_rng(0)
    w = random.standard_normal((32, 32)).astype(np.float32)
    model.graph.initializer.append(numpy_helper.from_array(w, "w"))
    data = [
        {"m": np.full((1, 64), i < 2, np.float32), "x": random.random((1, 64, 32), np.float32)}
        for i in range(12)
    ]
    whole = calibrate(model, data, tmp_path / "whole.npz")
    assert whole.stats.tensors["some"].size
    parts = [tmp_path / f"{number}.npz" for number in range(1, whole.stats.samples + 1)]
    for number, path in enumerate(parts, 1):
        calibrate(model, data, path, shard=(number, len(parts)))
    empty = next(part for part in parts if not read(part).stats.tensors["some"].size)
    assert (
        to_bytes(onnxq.merge_stats(parts, tmp_path / "merged.npz")) == (tmp_path / "whole.npz").read_bytes()
    )
    for source in ({"data": data[2:]}, {"stats": empty}):
        with pytest.raises(UserError, match="tensor 'some' has no values in any of the"):
            onnxq.quantize(model, method="minmax", compile=False, partial="stats" in source, **source)
