"""Files of statistics: what is read is what was written, and whatever is damaged is refused."""

from __future__ import annotations

import contextlib
import io
import itertools
import json
import os
import pickle
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import numpy_helper, parser
from stats_tools import ORIGIN, counted, file_of

from onnxq.base.errors import UserError
from onnxq.calib.histogram import Histogram, HistogramCounter
from onnxq.calib.stats import ChannelStats, Stats, TensorStats
from onnxq.calib.stats_file import (
    Digests,
    StatsFile,
    digest,
    is_statistics,
    merge_files,
    read,
    to_bytes,
    write,
)
from onnxq.data.samples import Sample
from onnxq.graph.fingerprint import fingerprint


def some(*indices: int) -> StatsFile:
    """Statistics of samples, with every part that there may be, of a name that is no ASCII."""
    count = len(indices)
    lows, highs = np.float32([-i - 0.1 for i in indices]), np.float32([i + 0.7 for i in indices])
    counter = HistogramCounter()
    counter.add(np.float32(indices))
    channels = ChannelStats(1, np.float32([-1, -2]), np.float32([3, 4]), (-(10**60), None), 5)
    tensors = {
        "tensör/1": TensorStats(lows, highs, 10 * count, 1 << 400, None, 4, counter.histogram(), channels),
        "empty": TensorStats(highs + np.inf, lows - np.inf, 0, 0, 0, 1, Histogram()),
        "plain": TensorStats(lows, highs, count, -7, 7),
        "two": TensorStats(lows, highs, 20 * count, 1, 2, 2, Histogram(7, 9, np.array([1, 0, 2])), channels),
    }
    skipped = tuple((f"bad/{i}.jpg", "truncated") for i in indices if i % 2)
    lines = (f"{indices[0]} samples",)
    return file_of(Stats(tensors, np.array(indices, np.int64), 3.5), lines=lines, skipped=skipped)


def same(one: StatsFile, other: StatsFile) -> None:
    """Field by field."""
    assert (one.origin, one.lines, one.skipped) == (other.origin, other.lines, other.skipped)
    np.testing.assert_array_equal(one.digests, other.digests, strict=True)
    np.testing.assert_array_equal(one.stats.indices, other.stats.indices, strict=True)
    assert list(one.stats.tensors) == list(other.stats.tensors)
    for a, b in zip(one.stats.tensors.values(), other.stats.tensors.values(), strict=True):
        np.testing.assert_array_equal([a.lows, a.highs], [b.lows, b.highs], strict=True)
        assert (a.size, a.total, a.squares, a.step) == (b.size, b.total, b.squares, b.step)
        assert (a.histogram is None, a.channels is None) == (b.histogram is None, b.channels is None)
        if a.histogram is not None and b.histogram is not None:
            assert counted(a.histogram) == counted(b.histogram)
            assert (a.histogram.first, a.histogram.counts.dtype) == (
                b.histogram.first,
                b.histogram.counts.dtype,
            )
        if a.channels is not None and b.channels is not None:
            np.testing.assert_array_equal(
                [a.channels.low, a.channels.high], [b.channels.low, b.channels.high], strict=True
            )
            assert (a.channels.axis, a.channels.sums, a.channels.count) == (
                b.channels.axis, b.channels.sums, b.channels.count,
            )  # fmt: skip


class TestRoundTrip:
    def test_every_part(self, tmp_path: Path) -> None:
        file = some(3, 4, 9)
        write(file, tmp_path / "a.stats.npz")
        same(read(tmp_path / "a.stats.npz"), file)
        assert os.listdir(tmp_path) == ["a.stats.npz"]
        assert (tmp_path / "a.stats.npz").read_bytes() == to_bytes(file) == to_bytes(some(3, 4, 9))
        assert (tmp_path / "a.stats.npz").stat().st_mode & 0o777 == 0o666 & ~_umask()

    def test_without_tensors(self, tmp_path: Path) -> None:
        file = file_of(Stats({}, np.arange(2)))
        write(file, tmp_path / "a")
        same(read(tmp_path / "a"), file)

    def test_time_is_not_in_it(self) -> None:
        file = some(1)
        assert to_bytes(replace(file, stats=replace(file.stats, seconds=99.0))) == to_bytes(file)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


class TestDamaged:
    @settings(max_examples=100, deadline=None)
    @given(data=st.data())
    def test_in_any_way(self, data: st.DataObject, tmp_path_factory: pytest.TempPathFactory) -> None:
        """Bytes that are changed, cut off or inserted: refused, or without effect."""
        content = bytearray(to_bytes(some(3, 4, 9)))
        place = data.draw(st.integers(0, len(content) - 1))
        kind = data.draw(st.sampled_from(["change", "cut", "insert", "lose"]))
        if kind == "change":
            content[place] ^= data.draw(st.integers(1, 255))
        elif kind == "cut":
            del content[place:]
        elif kind == "lose":
            del content[place : place + data.draw(st.integers(1, 40))]
        else:
            content[place:place] = data.draw(st.binary(min_size=1, max_size=9))
        path = tmp_path_factory.getbasetemp() / "damaged.npz"
        path.write_bytes(content)
        with contextlib.suppress(UserError):
            same(read(path), some(3, 4, 9))

    @pytest.mark.parametrize(
        "content",
        [
            b"",
            b"PK\x03\x04",
            b"nonsense" * 99,
            b"\x80\x04.",
            pickle.dumps({"meta": 1}),
            b"PK\x05\x06" + bytes(18),
        ],
        ids=["empty", "zip", "text", "pickle", "pickled", "no files"],
    )
    def test_another_file(self, content: bytes, tmp_path: Path) -> None:
        (tmp_path / "a.npz").write_bytes(content)
        says = "has no 'meta'" if content.startswith(b"PK\x05") else "it is no .npz archive|not a zip file"
        with pytest.raises(UserError, match=f"holds no statistics, or is damaged: .*({says})") as caught:
            read(tmp_path / "a.npz")
        assert "onnxq calibrate" in caught.value.hint

    def test_no_file(self, tmp_path: Path) -> None:
        for path in (tmp_path / "none.npz", tmp_path):
            with pytest.raises(UserError, match=r"cannot read .*(No such file|Is a directory)"):
                read(path)

    def arrays(self, tmp_path: Path) -> dict[str, np.ndarray]:
        with np.load(io.BytesIO(to_bytes(some(3, 4)))) as archive:
            return dict(archive)

    def refused(self, tmp_path: Path, says: str, **arrays: object) -> None:
        np.savez(tmp_path / "a.npz", **arrays)
        with pytest.raises(UserError, match=says):
            read(tmp_path / "a.npz")

    def test_pickled_arrays(self, tmp_path: Path) -> None:
        arrays = self.arrays(tmp_path)

        class Evil:
            def __reduce__(self):
                return os.mkdir, (str(tmp_path / "evil"),)

        for name in arrays:
            self.refused(
                tmp_path,
                f"its '{name}' is no array of numbers$",
                **{**arrays, name: np.array([Evil()], object)},
            )
        assert not (tmp_path / "evil").exists()

    def test_a_plain_array(self, tmp_path: Path) -> None:
        with (tmp_path / "a.npz").open("wb") as stream:
            np.save(stream, np.ones(3))
        with pytest.raises(UserError, match="holds no statistics"):
            read(tmp_path / "a.npz")

    def test_parts_that_lack(self, tmp_path: Path) -> None:
        arrays = self.arrays(tmp_path)
        for name in arrays:
            self.refused(tmp_path, f"it has no '{name}'", **{n: a for n, a in arrays.items() if n != name})

    @pytest.mark.parametrize("name", ["counts", "channel_lows", "channel_highs"])
    def test_parts_that_are_too_short(self, name: str, tmp_path: Path) -> None:
        arrays = self.arrays(tmp_path)
        self.refused(tmp_path, f"{name} has", **{**arrays, name: arrays[name][:-1]})

    @pytest.mark.parametrize("name", ["indices", "digests", "lows", "highs", "counts", "channel_lows"])
    def test_arrays_of_another_form(self, name: str, tmp_path: Path) -> None:
        """Shards of which one has them would not merge."""
        arrays = self.arrays(tmp_path)
        for other in (arrays[name][..., None], arrays[name].astype(np.float64), arrays[name].astype(str)):
            self.refused(tmp_path, f"its '{name}' is", **{**arrays, name: other})

    @pytest.mark.parametrize(("name", "value"), [("lows", np.nan), ("highs", -99), ("channel_highs", np.inf)])
    def test_ends_that_are_none(self, name: str, value: float, tmp_path: Path) -> None:
        arrays = self.arrays(tmp_path)
        arrays[name].flat[0] = value
        self.refused(tmp_path, f"{name}.* are no least and greatest values|no least and greatest", **arrays)

    def test_a_maximum_that_its_histogram_contradicts(self, tmp_path: Path) -> None:
        """Of values that were all counted it is in the last bin; else in no bin below."""
        counter = HistogramCounter()
        counter.add(np.float32([0.5, 3, -2]))
        for size, ends in ((3, (2.9, 3.1)), (4, (2.9,))):
            for highest in (3.0, *ends):
                tensor = TensorStats(
                    np.float32([-2]), np.float32([highest]), size, 0, 0, 1, counter.histogram()
                )
                path = tmp_path / "a.npz"
                write(file_of(Stats({"t": tensor}, np.arange(1))), path)
                if highest == 3:
                    read(path)
                    continue
                with pytest.raises(
                    UserError, match=f"magnitude of tensor 't' is {highest}, and its histogram"
                ):
                    read(path)

    @pytest.mark.parametrize("name", ["indices", "digests"])
    def test_other_samples(self, name: str, tmp_path: Path) -> None:
        arrays = self.arrays(tmp_path)
        self.refused(tmp_path, "hash", **{**arrays, name: arrays[name] + arrays[name].dtype.type(1)})

    @pytest.mark.parametrize(
        ("change", "says"),
        [
            ({"onnxq_stats": 2}, "schema 2, this onnxq reads 1"),
            ({"tensors": []}, "holds no statistics"),
            ({"origin": 3}, "holds no statistics"),
            ({"skipped": [3]}, "holds no statistics"),
        ],
    )
    def test_another_document(self, change, says: str, tmp_path: Path) -> None:
        arrays = self.arrays(tmp_path)
        meta = {**json.loads(arrays["meta"].tobytes()), **change}
        arrays["meta"] = np.frombuffer(json.dumps(meta).encode(), np.uint8)
        self.refused(tmp_path, says, **arrays)

    @pytest.mark.parametrize("text", [b"[]", b"3", b"{", b"\xff\xfe"])
    def test_no_document(self, text: bytes, tmp_path: Path) -> None:
        self.refused(
            tmp_path,
            "holds no statistics",
            **{**self.arrays(tmp_path), "meta": np.frombuffer(text, np.uint8)},
        )

    def test_an_encrypted_archive(self, tmp_path: Path) -> None:
        content = bytearray(to_bytes(some(1)))
        for place in range(len(content) - 4):
            if content[place : place + 4] == b"PK\x01\x02":
                content[place + 8] |= 1
        (tmp_path / "a.npz").write_bytes(content)
        with pytest.raises(UserError, match="holds no statistics"):
            read(tmp_path / "a.npz")


class TestWrite:
    def test_whole_or_not_at_all(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        path = tmp_path / "a.stats.npz"
        write(some(1), path)

        def full(*args) -> None:
            raise OSError(28, "No space left on device")

        for name in ("replace", "rename"):
            monkeypatch.setattr(os, name, full)
        with pytest.raises(UserError, match=r"cannot write .*a\.stats\.npz': No space left"):
            write(some(2), path)
        assert os.listdir(tmp_path) == ["a.stats.npz"]
        same(read(path), some(1))

    def test_no_folder(self, tmp_path: Path) -> None:
        with pytest.raises(UserError, match="cannot write"):
            write(some(1), tmp_path / "none" / "a")

    def test_what_may_be_written_over(self, tmp_path: Path) -> None:
        (tmp_path / "mine.npz").write_text("mine")
        write(some(1), tmp_path / "ours.npz")
        names = ("ours.npz", "mine.npz", "none.npz", ".")
        assert [is_statistics(tmp_path / name) for name in names] == [True, False, False, False]


class TestMerge:
    @settings(max_examples=30, deadline=None)
    @given(order=st.permutations(range(6)), cuts=st.sets(st.integers(1, 5)))
    def test_any_shards(self, order: list[int], cuts: set[int]) -> None:
        whole = merge_files([some(i) for i in range(6)])
        ends = [0, *sorted(cuts), 6]
        shards = [merge_files([some(i) for i in order[a:b]]) for a, b in itertools.pairwise(ends)]
        assert to_bytes(merge_files(shards)) == to_bytes(whole)
        assert whole.lines == ("0 samples",)
        assert [where for where, _ in whole.skipped] == [f"bad/{i}.jpg" for i in (1, 3, 5)]
        assert whole.digests[:, 0].tolist() == list(range(6))

    def test_parts_without_samples(self) -> None:
        """Of bad samples only: they say which, and have no tensors."""
        bad = file_of(Stats({}, np.zeros(0, np.int64)), skipped=(("bad/0.jpg", "truncated"),))
        merged = merge_files([bad, some(3, 4), bad])
        same(merged, replace(some(3, 4), skipped=(("bad/0.jpg", "truncated"), ("bad/3.jpg", "truncated"))))
        assert merge_files([bad, bad]).stats.samples == 0

    def test_a_sample_twice(self) -> None:
        with pytest.raises(UserError, match=r"sample 4 is in two of the statistics"):
            merge_files([some(3, 4), some(4, 5)])

    @pytest.mark.parametrize(
        ("change", "says"),
        [
            ({"model": "cd" * 32}, r"their model \(hash abab.* and cdcd"),
            ({"counting": "sampled"}, r"what was counted \(exact and sampled\)"),
            ({"samples": 8}, r"the number of samples of all shards \(9 and 8\)"),
            ({"available": 13}, r"the number of samples in the data \(12 and 13\)"),
            ({"seed": 1}, r"the seed \(0 and 1\)"),
            ({"shapes": {"x": (2, 3)}}, "the shapes of the first sample"),
            ({"images": ({"scale": 1.0},)}, "how images became input values"),
        ],
    )
    def test_of_something_else(self, change, says: str) -> None:
        with pytest.raises(UserError, match=f"differ in {says}"):
            merge_files([some(1), replace(some(2), origin=replace(ORIGIN, **change))])


class TestDigest:
    def test_what_it_depends_on(self) -> None:
        x = np.arange(6, dtype=np.float32)
        feeds = [
            {"x": x}, {"y": x}, {"x": x.reshape(2, 3)}, {"x": x.view(np.int32)}, {"x": x[::-1]},
            {"x": x, "y": x}, {"x": x.reshape(2, 3).T}, {"x": x[:0]}, {"x": np.float32(3).reshape(())},
        ]  # fmt: skip
        found = {digest(Sample(0, "a", entry)) for entry in feeds}
        assert len(found) == len(feeds)
        assert {len(entry) for entry in found} == {16}

    def test_what_it_does_not_depend_on(self) -> None:
        x, y = np.arange(6, dtype=np.float32).reshape(2, 3), np.ones(2, np.bool_)
        one = Sample(0, "a", {"x": x, "y": y})
        other = Sample(3, "b", {"y": y, "x": np.asfortranarray(x)})
        assert digest(one) == digest(other)

    def test_by_index(self) -> None:
        given = [Sample(i, "a", {"x": np.full(2, i, np.float32)}) for i in (5, 2, 9)]
        digests = Digests()
        assert list(digests.watch(given)) == given
        found = digests.of(np.array([2, 9]))
        assert [entry.tobytes() for entry in found] == [digest(given[1]), digest(given[2])]
        assert digests.of(np.zeros(0, np.int64)).shape == (0, 16)

    def test_of_data(self) -> None:
        file = some(3, 4)
        assert file.data_hash != some(3, 5).data_hash != some(3).data_hash
        assert file.data_hash != replace(file, digests=file.digests[::-1]).data_hash


class TestFingerprint:
    def saved(self, folder: Path) -> Path:
        model = parser.parse_model(
            """<ir_version: 8, opset_import: ["" : 17]> g (float[2, 2] x) => (float[2, 2] y) {
                h = MatMul (x, v)
                y = MatMul (h, w)
            }"""
        )
        for name in ("v", "w"):
            model.graph.initializer.append(numpy_helper.from_array(np.eye(2, dtype=np.float32), name))
        options = {"save_as_external_data": True, "location": "w.data", "size_threshold": 0}
        onnx.save(model, folder / "m.onnx", **options)
        return folder / "m.onnx"

    def test_external_weights(self, tmp_path: Path) -> None:
        path = self.saved(tmp_path)
        before = fingerprint(path)
        data = bytearray((tmp_path / "w.data").read_bytes())
        (tmp_path / "w.data").write_bytes(data + b"what no tensor refers to")
        assert fingerprint(path) == before
        found = {before}
        for place in (0, len(data) - 1):
            data[place] ^= 1
            (tmp_path / "w.data").write_bytes(data)
            found.add(fingerprint(path))
        assert len(found) == 3
        (tmp_path / "w.data").unlink()
        with pytest.raises(UserError, match=r"w\.data"):
            fingerprint(path)

    def test_model_and_statements(self, tmp_path: Path) -> None:
        path = self.saved(tmp_path)
        found = {fingerprint(path), fingerprint(path, ["N", 1]), fingerprint(path, ["N", 2])}
        model = onnx.load(path)
        found |= {fingerprint(model), fingerprint(model, ["N", 1])}
        model.graph.node[0].name = "named"
        found.add(fingerprint(model))
        assert len(found) == 6
        assert fingerprint(onnx.load(path)) == fingerprint(onnx.load(path)) in found
        assert fingerprint(str(path)) == fingerprint(path)

    def test_no_file(self, tmp_path: Path) -> None:
        with pytest.raises(UserError, match=r"cannot read .*none\.onnx"):
            fingerprint(tmp_path / "none.onnx")
