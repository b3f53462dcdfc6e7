"""Samples: what the user's data becomes, and what is refused with which words."""

from __future__ import annotations

import io
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from said import is_said

from onnxq.base.errors import UserError
from onnxq.data.arrays import open_npy
from onnxq.data.image_options import ImageOptions
from onnxq.data.samples import InputSpec, Sample
from onnxq.data.sources import open_source

F4, I8, U1 = np.dtype(np.float32), np.dtype(np.int64), np.dtype(np.uint8)
X = InputSpec("x", F4, ("N", 2, 3))
IDS = InputSpec("ids", I8, ("N", 4))
DATA = np.arange(30, dtype=np.float32).reshape(5, 2, 3)


def feeds(data, *inputs: InputSpec) -> list[Sample]:
    return list(open_source(data, inputs))


def refused(data, *inputs: InputSpec) -> str:
    with pytest.raises(UserError) as caught:
        feeds(data, *inputs)
    assert caught.value.hint
    return str(caught.value)


def check_five(samples: list[Sample]) -> None:
    assert [sample.index for sample in samples] == [0, 1, 2, 3, 4]
    for sample, row in zip(samples, DATA, strict=True):
        assert sample.feeds["x"].dtype == F4
        np.testing.assert_array_equal(sample.feeds["x"], row[None])


class TestKinds:
    def test_npy(self, tmp_path: Path) -> None:
        np.save(tmp_path / "d.npy", DATA)
        source = open_source(tmp_path / "d.npy", [X])
        assert source.count == 5
        check_five(list(source))
        check_five(list(source))  # again
        assert [s.where for s in source] == [f"{tmp_path / 'd.npy'}[{i}]" for i in range(5)]

    @pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
    def test_npz(self, tmp_path: Path, save) -> None:
        ids = np.arange(20).reshape(5, 4)
        save(tmp_path / "d.npz", labels=np.zeros(7), ids=ids, x=DATA)
        samples = feeds(tmp_path / "d.npz", X, IDS)
        check_five(samples)
        for sample, row in zip(samples, ids, strict=True):
            np.testing.assert_array_equal(sample.feeds["ids"], row[None])

    @pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
    def test_npz_rows_of_choice(self, tmp_path: Path, save) -> None:
        save(tmp_path / "d.npz", x=DATA)
        source = open_source(tmp_path / "d.npz", [X])
        chosen = list(source.read([4, 1]))
        assert [s.index for s in chosen] == [4, 1]
        assert chosen[0].where == f"{tmp_path / 'd.npz'}[4]"
        np.testing.assert_array_equal(chosen[0].feeds["x"], DATA[4:5])
        np.testing.assert_array_equal(chosen[1].feeds["x"], DATA[1:2])

    def test_folder_of_npy(self, tmp_path: Path) -> None:
        np.save(tmp_path / "a.npy", DATA[0])  # without the batch axis
        np.save(tmp_path / "b.NPY.npy", DATA[1:4])  # three samples
        (tmp_path / "sub").mkdir()
        np.save(tmp_path / "sub" / "c.npy", DATA[4:5])
        (tmp_path / ".DS_Store").write_bytes(b"x")
        source = open_source(str(tmp_path), [X])
        check_five(list(source))
        assert source.notes == [f"other files in {str(tmp_path)!r} are left out (1): .DS_Store"]
        assert source.lines == [f"3 .npy files in {tmp_path} (2 folders), 5 samples, along axis 0 (N)"]

    def test_folder_of_npz(self, tmp_path: Path) -> None:
        for index, row in enumerate(DATA):
            np.savez(tmp_path / f"{index}.npz", x=row)
        (tmp_path / "README.md").write_text("what this is")
        source = open_source(tmp_path, [X])
        check_five(list(source))
        assert "README.md" in source.notes[0]

    def test_polygraphy_json(self, tmp_path: Path) -> None:
        from polygraphy.json import save_json

        save_json([{"x": row[None]} for row in DATA], str(tmp_path / "d.json"))
        check_five(feeds(tmp_path / "d.json", X))

    def test_json_of_something_else(self, tmp_path: Path) -> None:
        file = tmp_path / "d.json"
        for text in ("{", '{"x": 1}', '[{"x": "text"}, 3]', ""):
            file.write_text(text)
            assert str(file) in refused(file, X)

    def test_list_and_dictionary(self) -> None:
        check_five(feeds([{"x": row} for row in DATA], X))
        check_five(feeds({"x": DATA}, X))

    def test_generator_is_read_once(self) -> None:
        source = open_source(({"x": row[None]} for row in DATA), [X])
        assert source.count is None
        check_five(list(source))
        with pytest.raises(UserError, match="read already"):
            list(source)

    def test_generator_is_not_read_ahead(self) -> None:
        taken = []

        def items():
            for index, row in enumerate(DATA):
                taken.append(index)
                yield {"x": row}

        next(iter(open_source(items(), [X])))
        assert taken == [0]


class TestAxes:
    @pytest.mark.parametrize("lead", ["N", None, 1])
    def test_batch_of_one(self, lead) -> None:
        spec = InputSpec("x", F4, (lead, 2, 3))
        for data in ([{"x": row} for row in DATA], [{"x": DATA}], [{"x": DATA[:, None]}]):
            check_five(feeds(data, spec))

    def test_static_batch_takes_consecutive_samples(self) -> None:
        spec = InputSpec("x", F4, (2, 2, 3))
        source = open_source({"x": DATA}, [spec])
        samples = list(source)
        assert source.count == 3
        np.testing.assert_array_equal(samples[0].feeds["x"], DATA[:2])
        np.testing.assert_array_equal(samples[1].feeds["x"], DATA[2:4])
        np.testing.assert_array_equal(samples[2].feeds["x"], DATA[[4, 4]])
        assert [sample.index for sample in samples] == [0, 1, 2]
        np.testing.assert_array_equal(next(source.read([1])).feeds["x"], DATA[2:4])
        assert source.notes == [
            "the model's batch size is 2: the last batch is completed with 1 of its samples again"
        ]

    def test_static_batch_of_a_generator(self) -> None:
        source = open_source(({"x": row} for row in DATA), [InputSpec("x", F4, (3, 2, 3))])
        first, last = source
        np.testing.assert_array_equal(first.feeds["x"], DATA[:3])
        np.testing.assert_array_equal(last.feeds["x"], DATA[[3, 4, 3]])
        assert is_said(source.notes[0], "decided-by-order.completed", samples=1)
        assert source.lines == ["an iterator, 5 items read, one sample each"]

    def test_static_batch_across_files(self, tmp_path: Path) -> None:
        np.save(tmp_path / "a.npy", DATA[:3])
        np.save(tmp_path / "b.npy", DATA[3])
        source = open_source(tmp_path, [InputSpec("x", F4, (4, 2, 3))])
        (sample,) = source
        np.testing.assert_array_equal(sample.feeds["x"], DATA[:4])
        assert source.notes == []

    @pytest.mark.parametrize("kind", ["npz", "memory"])
    def test_whole_batches_of_a_static_size(self, tmp_path: Path, kind: str) -> None:
        data: object = {"x": DATA[:4].reshape(2, 2, 2, 3)}
        if kind == "npz":
            np.savez(tmp_path / "d.npz", x=DATA[:4].reshape(2, 2, 2, 3))
            data = tmp_path / "d.npz"
        samples = feeds(data, InputSpec("x", F4, (2, 2, 3)))
        np.testing.assert_array_equal([s.feeds["x"] for s in samples], [DATA[:2], DATA[2:4]])

    @pytest.mark.parametrize("kind", ["npz", "memory", "a file each", "a folder each"])
    def test_whole_batches_beside_values_without_a_batch(self, tmp_path: Path, kind: str) -> None:
        """A state of [layers, batch, size] is no batch along its first axis, and neither is a number."""
        arrays = {
            "x": DATA[:4].reshape(2, 2, 2, 3),
            "state": np.arange(24, dtype=F4).reshape(2, 3, 2, 2),
            "gain": np.array([5, 6]),
        }
        data: object = tmp_path / "d.npz" if kind == "npz" else tmp_path if "each" in kind else arrays
        if kind == "npz":
            np.savez(tmp_path / "d.npz", **arrays)
        for name, array in arrays.items() if kind == "a file each" else ():
            np.save(tmp_path / f"{name}.npy", array)
        for name, array in arrays.items() if kind == "a folder each" else ():
            (tmp_path / name).mkdir()
            for index, values in enumerate(array):
                np.save(tmp_path / name / f"{index}.npy", values)
        inputs = InputSpec("x", F4, (2, 2, 3)), InputSpec("state", F4, (3, 2, 2)), InputSpec("gain", I8, ())
        source = open_source(data, inputs)
        for samples in (list(source), list(source.read([0])) + list(source.read([1]))):
            assert len(samples) == 2
            for index, sample in enumerate(samples):
                for name, values in arrays.items():
                    np.testing.assert_array_equal(sample.feeds[name], values[index])

    def test_fewer_than_a_batch(self) -> None:
        (sample,) = feeds({"x": DATA}, InputSpec("x", F4, (8, 2, 3)))
        np.testing.assert_array_equal(sample.feeds["x"], DATA[[0, 1, 2, 3, 4, 0, 1, 2]])

    def test_values_without_a_batch_are_shared(self) -> None:
        specs = X, InputSpec("k", I8, ()), InputSpec("lengths", I8, ("N",))
        samples = feeds({"x": DATA, "k": np.array(7), "lengths": np.arange(5)}, *specs)
        assert [int(s.feeds["k"]) for s in samples] == [7] * 5
        assert [s.feeds["lengths"].tolist() for s in samples] == [[i] for i in range(5)]

    def test_a_matrix_of_another_first_size_is_shared(self) -> None:
        for lead in (1, "N"):
            specs = InputSpec("x", F4, (lead, 2, 3)), InputSpec("anchors", F4, (7, 4))
            anchors = np.arange(28, dtype=np.float32).reshape(7, 4)
            samples = feeds({"x": DATA, "anchors": anchors}, *specs)
            assert len(samples) == 5
            np.testing.assert_array_equal(samples[4].feeds["anchors"], anchors)

    def test_a_lone_vector_is_one_sample(self) -> None:
        samples = feeds([{"x": np.zeros(9)}], InputSpec("x", F4, ("length",)))
        assert [s.feeds["x"].shape for s in samples] == [(9,)]

    def test_unknown_rank_is_taken_as_it_is(self) -> None:
        assert feeds([{"x": DATA}], InputSpec("x", F4, None))[0].feeds["x"].shape == (5, 2, 3)

    def test_inputs_of_different_counts(self) -> None:
        message = refused({"x": DATA, "ids": np.zeros((4, 4), np.int64)}, X, IDS)
        assert "'x' has 5, " in message


class TestLengths:
    """A first axis that is a sequence's, not the batch's."""

    RUN = np.arange(48, dtype=np.float32).reshape(8, 2, 3)

    def check_whole(self, data, lead, rest=(2, 3)) -> list[str]:
        source = open_source(data, [InputSpec("x", F4, (lead, *rest))])
        shapes = [sample.feeds["x"].shape for sample in source]
        assert shapes == [(8, 2, 3), (5, 2, 3)][: len(shapes)]
        return source.lines

    @pytest.mark.parametrize("lead", ["T", "sequence_length", "num_frames", "time_steps"])
    def test_its_name_tells(self, lead: str, tmp_path: Path) -> None:
        np.save(tmp_path / "a.npy", self.RUN)
        lines = [f"{tmp_path / 'a.npy'}, one sample, axis 0 ({lead}) not split"]
        assert self.check_whole(tmp_path / "a.npy", lead) == lines
        np.save(tmp_path / "b.npy", DATA)
        lines = [f"2 .npy files in {tmp_path}, one sample each, axis 0 ({lead}) not split"]
        assert self.check_whole(tmp_path, lead) == lines

    def test_a_batch_further_on_tells(self) -> None:
        self.check_whole({"x": self.RUN}, "unk__6", ("batch_size", 3))

    @pytest.mark.parametrize("lead", ["unk__6", None, "s0"])
    def test_each_of_several_is_one_sample(self, lead, tmp_path: Path) -> None:
        """The safe way: a batch gives the same ranges in one piece, a sequence does not in pieces."""
        np.save(tmp_path / "a.npy", self.RUN)
        np.save(tmp_path / "b.npy", DATA)
        assert "one sample each" in self.check_whole(tmp_path, lead)[0]
        self.check_whole([{"x": self.RUN}, {"x": DATA}], lead)
        self.check_whole(({"x": x} for x in (self.RUN, DATA)), lead)

    def test_a_lone_array_is_divided_and_that_is_said(self, tmp_path: Path) -> None:
        source = open_source({"x": self.RUN}, [InputSpec("x", F4, ("unk__6", 2, 3))])
        assert [sample.feeds["x"].shape for sample in source] == [(1, 2, 3)] * 8
        assert source.lines == ["1 item, 8 samples, along axis 0 (unk__6)"]
        assert source.notes == [
            "axis 0 (unk__6) of input 'x' is read as the batch (assumed; if it is not, add an axis "
            "in front of one sample: 1x8x2x3)"
        ]

    @pytest.mark.parametrize("lead", ["T", "unk__6", "N"])
    def test_an_axis_in_front_is_always_that_of_samples(self, lead) -> None:
        source = open_source({"x": np.stack([self.RUN, -self.RUN])}, [InputSpec("x", F4, (lead, 2, 3))])
        values = [sample.feeds["x"] for sample in source]
        np.testing.assert_array_equal(values, [self.RUN, -self.RUN])
        assert source.lines == ["1 item, 2 samples, along an axis in front of the input's"]
        assert source.notes == []

    def test_a_length_beside_a_batch(self) -> None:
        specs = InputSpec("memory", F4, ("T", 3)), X
        samples = feeds({"memory": np.ones((4, 3)), "x": DATA}, *specs)
        assert [s.feeds["memory"].shape for s in samples] == [(4, 3)] * 5


class TestByInput:
    """A folder with a subfolder or a file for each input."""

    LEFT, RIGHT = InputSpec("left", F4, ("N", 2, 3)), InputSpec("right", F4, ("N", 2, 3))

    def save(self, folder: Path, name: str, count: int = 5) -> None:
        (folder / name).mkdir()
        for index, row in enumerate(DATA[:count]):
            np.save(folder / name / f"{index:02}.npy", row + 100 * (name == "right"))

    def check(self, source) -> None:
        assert source.count == 5
        samples = list(source)
        for sample, row in zip(samples, DATA, strict=True):
            np.testing.assert_array_equal(sample.feeds["left"], row[None])
            np.testing.assert_array_equal(sample.feeds["right"], row[None] + 100)
        (third,) = source.read([3])
        np.testing.assert_array_equal(third.feeds["right"], DATA[3:4] + 100)

    def test_folders(self, tmp_path: Path) -> None:
        self.save(tmp_path, "left")
        self.save(tmp_path, "right")
        source = open_source(tmp_path, [self.LEFT, self.RIGHT])
        self.check(source)
        first = next(iter(source))
        assert first.where == f"{tmp_path / 'left/00.npy'}, {tmp_path / 'right/00.npy'}"
        assert source.lines[0] == f"left: 5 .npy files in {tmp_path / 'left'}, one sample each"
        assert source.notes == []

    def test_files(self, tmp_path: Path) -> None:
        np.save(tmp_path / "left.npy", DATA)
        np.save(tmp_path / "right.npy", DATA + 100)
        self.check(open_source(tmp_path, [self.LEFT, self.RIGHT]))

    def test_a_folder_and_a_file(self, tmp_path: Path) -> None:
        self.save(tmp_path, "left")
        np.save(tmp_path / "right.npy", DATA + 100)
        self.check(open_source(tmp_path, [self.LEFT, self.RIGHT]))

    def test_names_with_slashes_and_colons(self, tmp_path: Path) -> None:
        (tmp_path / "a").mkdir()
        np.save(tmp_path / "a" / "left:0.npy", DATA)
        np.save(tmp_path / "b:0.npy", DATA)
        specs = [InputSpec("a/left:0", F4, ("N", 2, 3)), InputSpec("b:0", F4, ("N", 2, 3))]
        assert open_source(tmp_path, specs).count == 5

    def test_a_value_that_all_share(self, tmp_path: Path) -> None:
        self.save(tmp_path, "left")
        np.save(tmp_path / "size.npy", np.array([480, 640]))
        source = open_source(tmp_path, [self.LEFT, InputSpec("size", I8, (2,))])
        assert source.count == 5
        assert all(sample.feeds["size"].tolist() == [480, 640] for sample in source)

    def test_images_and_arrays(self, tmp_path: Path) -> None:
        for name in ("left", "right"):
            (tmp_path / name).mkdir()
            for index in range(3):
                pixels = np.full((4, 4, 3), 50 * index + (name == "right"), np.uint8)
                Image.fromarray(pixels).save(tmp_path / name / f"{index}.png")
        np.save(tmp_path / "k.npy", np.arange(3, dtype=np.float32)[:, None, None])
        specs = [InputSpec(name, F4, ("N", 3, 4, 4)) for name in ("left", "right")]
        specs.append(InputSpec("k", F4, ("N", 1, 1)))
        source = open_source(tmp_path, specs, options=ImageOptions(scale=1.0))
        for index, sample in enumerate(source):
            assert np.unique(sample.feeds["left"]).tolist() == [50 * index]
            assert np.unique(sample.feeds["right"]).tolist() == [50 * index + 1]
            assert sample.feeds["k"].tolist() == [[[index]]]
        assert [image.input for image in source.images] == ["left", "right"]

    def test_a_batch_of_both(self, tmp_path: Path) -> None:
        self.save(tmp_path, "left")
        self.save(tmp_path, "right")
        source = open_source(tmp_path, [InputSpec(name, F4, (4, 2, 3)) for name in ("left", "right")])
        first, last = source
        np.testing.assert_array_equal(first.feeds["right"], first.feeds["left"] + 100)
        rows = [*first.feeds["left"], last.feeds["left"][0]]
        assert sorted(row.tolist() for row in rows) == DATA.tolist()
        np.testing.assert_array_equal(last.feeds["right"], last.feeds["left"][[0, 0, 0, 0]] + 100)

    def test_a_missing_input_names_the_nearest(self, tmp_path: Path) -> None:
        self.save(tmp_path, "left")
        self.save(tmp_path, "rihgt")
        with pytest.raises(UserError, match="for input 'right'") as caught:
            open_source(tmp_path, [self.LEFT, self.RIGHT])
        assert "'rihgt'" in caught.value.hint
        assert "right/ or right.npy" in caught.value.hint
        assert "--freeze right=VALUE" in caught.value.hint

    def test_images_for_a_model_of_two_inputs(self, tmp_path: Path) -> None:
        Image.new("RGB", (4, 4)).save(tmp_path / "a.png")
        with pytest.raises(UserError, match=r"2 inputs \(left, right\), 1 image in .* only one") as caught:
            open_source(tmp_path, [InputSpec(n, F4, ("N", 3, 4, 4)) for n in ("left", "right")])
        for part in ("left/", "right.npy", ".npz", "--freeze right=VALUE"):
            assert part in caught.value.hint

    def test_different_counts_name_the_file(self, tmp_path: Path) -> None:
        self.save(tmp_path, "left")
        self.save(tmp_path, "right", 4)
        message = refused(tmp_path, self.LEFT, self.RIGHT)
        assert is_said(message, "read-as.no-like", stem="04", has="left", lacks="right")

    def test_different_names_are_noted(self, tmp_path: Path) -> None:
        self.save(tmp_path, "left")
        self.save(tmp_path, "right")
        (tmp_path / "right/02.npy").rename(tmp_path / "right/2.npy")
        source = open_source(tmp_path, [self.LEFT, self.RIGHT])
        assert is_said(source.notes[0], "read-as.in-order")

    def test_two_places_for_an_input(self, tmp_path: Path) -> None:
        self.save(tmp_path, "left")
        np.save(tmp_path / "left.npy", DATA)
        assert "'left' has data" in refused(tmp_path, self.LEFT, self.RIGHT)


class TestDtypes:
    @pytest.mark.parametrize("dtype", [np.float16, ">f4"])
    def test_floats_are_cast_silently(self, dtype) -> None:
        source = open_source({"x": DATA.astype(dtype)}, [X])
        check_five(list(source))
        assert source.notes == []

    def test_floats_that_are_rounded_are_noted(self) -> None:
        source = open_source({"x": DATA.astype(np.float64)}, [X])
        check_five(list(source))
        assert source.notes == ["input 'x' is float32, the data is float64: its values are rounded"]
        plain = open_source([{"x": row.tolist()} for row in DATA], [X])  # Python's numbers have no such type
        check_five(list(plain))
        assert plain.notes == []

    def test_integers_for_a_float_are_noted(self) -> None:
        source = open_source({"x": DATA.astype(np.uint8)}, [X])
        check_five(list(source))
        assert source.notes == [
            "input 'x' is float32, the data is uint8: converted without scaling its values "
            "(assumed; to state it: data of float32)"
        ]

    def test_integer_widths_that_lose_nothing(self) -> None:
        sample = feeds({"ids": np.full((1, 4), 3, np.int32)}, IDS)[0]
        assert sample.feeds["ids"].dtype == I8
        small = InputSpec("ids", U1, ("N", 4))
        assert feeds({"ids": np.full((1, 4), 255)}, small)[0].feeds["ids"].dtype == U1
        assert "-1 to -1" in refused({"ids": np.full((1, 4), -1)}, small)

    def test_floats_for_an_integer(self) -> None:
        assert "'ids' is int64, " in refused({"ids": np.zeros((1, 4), "f4")}, IDS)

    def test_text_for_a_float(self) -> None:
        assert "<U1" in refused({"x": np.full((1, 2, 3), "a")}, X)

    def test_overflow_of_the_input_dtype(self) -> None:
        assert "does not fit float32" in refused({"x": np.full((1, 2, 3), 1e300)}, X)


class TestLackingAxes:
    """Grey pictures of shape [N, 28, 28] for an input [1, 1, 28, 28], say."""

    @pytest.mark.parametrize(
        ("shape", "full"),
        [((1, 1, 2, 3), (1, 1, 2, 3)), (("N", 1, 2, 3), (1, 1, 2, 3)), (("N", 2, 3, 1), (1, 2, 3, 1)),
         (("N", 1, None, "W"), (1, 1, 2, 3))],
    )  # fmt: skip
    def test_the_one_reading_is_taken_and_said(self, tmp_path: Path, shape, full) -> None:
        np.savez(tmp_path / "d.npz", x=DATA)
        for data in (tmp_path / "d.npz", {"x": DATA}):
            source = open_source(data, [InputSpec("x", F4, shape)])
            samples = list(source)
            assert source.count == len(samples) == 5
            for sample, row in zip(samples, DATA, strict=True):
                np.testing.assert_array_equal(sample.feeds["x"], row.reshape(full))
            (line,) = source.lines
            stated = "x".join(map(str, ("N", *full[1:])))
            assert is_said(line, "read-as.lacking-axis", assumed=f"(assumed; to state it: data of {stated})")
            assert source.notes == []

    @pytest.mark.parametrize("shape", [("N", 3, 2, 3), ("N", 1, 2, 4), ("N", 1, 1, 2, 3)])
    def test_others_are_refused(self, shape) -> None:
        assert refused({"x": DATA}, InputSpec("x", F4, shape))

    def test_what_is_one_sample_stays_one(self) -> None:
        source = open_source({"x": DATA[:1]}, [InputSpec("x", F4, ("N", 1, 2, 3))])
        assert [sample.feeds["x"].shape for sample in source] == [(1, 1, 2, 3)]
        assert "lack" not in source.lines[0]


class TestRefusals:
    @pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
    def test_not_finite(self, tmp_path: Path, value: float) -> None:
        data = DATA.copy()
        data[3, 1, 2] = value
        np.savez(tmp_path / "d.npz", x=data)
        message = refused(tmp_path / "d.npz", X)
        assert f"d.npz[3]: input 'x' has {value} at index [0, 1, 2]" in message

    def test_missing_path_names_the_nearest(self, tmp_path: Path) -> None:
        np.save(tmp_path / "images.npy", DATA)
        with pytest.raises(UserError, match=r"image\.npy") as caught:
            open_source(tmp_path / "image.npy", [X])
        assert "images.npy" in caught.value.hint
        assert "where" in refused(tmp_path / "no" / "where", X)

    def test_empty(self, tmp_path: Path) -> None:
        assert "zero samples" in refused(tmp_path, X)
        np.save(tmp_path / "d.npy", DATA[:0])
        assert "zero samples" in refused(tmp_path, X)
        assert "zero samples" in refused([], X)
        assert "zero samples" in refused(iter([]), X)

    def test_only_other_files(self, tmp_path: Path) -> None:
        (tmp_path / "notes.txt").write_text("x")
        assert "notes.txt" in refused(tmp_path, X)
        assert "notes.txt" in refused(tmp_path / "notes.txt", X)

    def test_wrong_name(self, tmp_path: Path) -> None:
        np.savez(tmp_path / "d.npz", xx=DATA, other=DATA)
        for data in (tmp_path / "d.npz", {"xx": DATA}):
            with pytest.raises(UserError, match="'x'") as caught:
                feeds(data, X)
            assert "did you mean 'xx'" in caught.value.hint
            assert "--input-name x=NAME" in caught.value.hint

    @pytest.mark.parametrize(
        ("shape", "words"),
        [((5, 2, 4), "size 4 where 3"), ((3,), "wrong rank"), ((1, 5, 9, 2, 3), "wrong rank")],
    )
    def test_wrong_shape(self, tmp_path: Path, shape, words: str) -> None:
        np.save(tmp_path / "d.npy", np.zeros(shape, np.float32))
        message = refused(tmp_path / "d.npy", X)
        assert words in message
        assert "d.npy" in message
        assert "'x' takes Nx2x3" in message

    def test_several_inputs_and_an_npy(self, tmp_path: Path) -> None:
        np.save(tmp_path / "d.npy", DATA)
        assert "2 inputs (x, ids)" in refused(tmp_path, X, IDS)

    def test_several_kinds(self, tmp_path: Path) -> None:
        np.save(tmp_path / "a.npy", DATA)
        np.savez(tmp_path / "b.npz", x=DATA)
        message = refused(tmp_path, X)
        assert "'a.npy'" in message
        assert "'b.npz'" in message

    def test_items_that_are_no_samples(self) -> None:
        assert "wrong rank" in refused([[1]], X)
        assert "of type object" in refused([object()], X)
        assert "type int" in refused(7, X)

    def test_pickles_are_never_loaded(self, tmp_path: Path) -> None:
        witness = tmp_path / "ran"

        class Bomb:
            def __reduce__(self):
                return (Path.touch, (witness,))

        pickled = np.array([Bomb()], dtype=object)
        np.save(tmp_path / "d.npy", pickled, allow_pickle=True)
        np.savez(tmp_path / "d.npz", x=pickled)
        assert "pickled" in refused(tmp_path / "d.npy", X)
        assert "pickled" in refused(tmp_path / "d.npz", X)
        assert "no array" in refused([{"x": np.array([object()])}], X)
        assert not witness.exists()

    def test_fortran_order(self, tmp_path: Path) -> None:
        np.save(tmp_path / "d.npy", np.asfortranarray(DATA))
        assert "Fortran" in refused(tmp_path / "d.npy", X)

    @pytest.mark.parametrize("size", [0, 5, 60, 140, 170, -1])
    def test_truncated_npy(self, tmp_path: Path, size: int) -> None:
        file = tmp_path / "d.npy"
        np.save(file, DATA)
        file.write_bytes(file.read_bytes()[:size])
        message = refused(file, X)
        assert "d.npy" in message
        assert "'x'" in message
        assert "truncated" in message

    @pytest.mark.parametrize("size", [0, 10, 200, -1])
    def test_truncated_npz(self, tmp_path: Path, size: int) -> None:
        file = tmp_path / "d.npz"
        np.savez(file, x=DATA)
        file.write_bytes(file.read_bytes()[:size])
        assert "d.npz" in refused(file, X)

    def test_corrupt_compressed_member(self, tmp_path: Path) -> None:
        file = tmp_path / "d.npz"
        noise = np.random.default_rng(0).random((400, 2, 3), np.float32)
        np.savez_compressed(file, x=noise)
        content = bytearray(file.read_bytes())
        content[3000:3400] = bytes(400)
        file.write_bytes(content)
        message = refused(file, X)
        assert "corrupt" in message
        assert "'x'" in message

    def test_member_shorter_than_its_header_says(self, tmp_path: Path) -> None:
        file, buffer = tmp_path / "d.npz", io.BytesIO()
        np.save(buffer, DATA)
        with zipfile.ZipFile(file, "w") as archive:
            archive.writestr("x.npy", buffer.getvalue()[:-4])
        assert "truncated: 120 bytes" in refused(file, X)

    def test_file_that_shrinks_while_it_is_read(self, tmp_path: Path) -> None:
        file = tmp_path / "d.npy"
        np.save(file, DATA)
        array = open_npy(file, "x")
        file.write_bytes(file.read_bytes()[:-4])
        for read in (lambda: list(array.rows(range(5))), array.read):
            with pytest.raises(UserError, match=r"d\.npy.*ends before its last value"):
                read()

    def test_unreadable_file(self, tmp_path: Path) -> None:
        (tmp_path / "d.npy").mkdir()
        (tmp_path / "a.npy").symlink_to(tmp_path / "gone.npy")
        assert "a.npy" in refused(tmp_path, X)


# VmHWM, not ru_maxrss: the latter counts the parent that forked the process.
_PEAK = """
import sys
import numpy as np
from onnxq.data.samples import InputSpec
from onnxq.data.sources import open_source
spec = InputSpec("x", np.dtype("f4"), ("N", 64, 1024))
assert sum(1 for _ in open_source(sys.argv[1], [spec])) == int(sys.argv[2])
print(next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM")))
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads Linux's peak memory")
@pytest.mark.parametrize("kind", ["npy", "npz", "compressed"])
def test_memory_does_not_grow_with_the_samples(tmp_path: Path, kind: str) -> None:
    peaks = []
    for count in (16, 256):  # 4 MB, 64 MB
        data = np.ones((count, 64, 1024), np.float32)
        file = tmp_path / f"{count}.{'npy' if kind == 'npy' else 'npz'}"
        if kind == "npy":
            np.save(file, data)
        else:
            (np.savez if kind == "npz" else np.savez_compressed)(file, x=data)
        command = [sys.executable, "-c", _PEAK, str(file), str(count)]
        peaks.append(int(subprocess.run(command, capture_output=True, check=True).stdout))
    assert peaks[1] <= 1.03 * peaks[0]
