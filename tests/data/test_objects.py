"""What users have in memory: loaders, datasets, arrays, tensors, functions, lists of paths, globs, tables."""

from __future__ import annotations

import gc
import json
from collections import UserDict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command import net
from PIL import Image
from said import is_said

import onnxq
from onnxq.base.errors import UserError
from onnxq.data.image_options import ImageOptions
from onnxq.data.samples import InputSpec
from onnxq.data.sources import OBJECTS, Source, open_source

F4, I8 = np.dtype(np.float32), np.dtype(np.int64)
X = InputSpec("x", F4, ("N", 2, 3))
ONE = InputSpec("x", F4, (1, 2, 3))
IDS = InputSpec("ids", I8, ("N", 4))
PIXELS = InputSpec("x", F4, ("N", 3, 4, 4))
DATA = np.arange(30, dtype=np.float32).reshape(5, 2, 3)
NUMBERS = np.arange(20).reshape(5, 4)


class Tensor:
    """As PyTorch's: with gradients it has to be detached, on a GPU it is no array."""

    def __init__(self, values: np.ndarray, device: str = "cpu", grad: bool = True) -> None:
        self.values, self.device, self.grad = values, device, grad

    def detach(self) -> Tensor:
        return Tensor(self.values, self.device, grad=False)

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        if self.grad:
            raise RuntimeError("Can't call numpy() on Tensor that requires grad.")
        if self.device != "cpu":
            raise TypeError(f"can't convert {self.device} device type tensor to numpy.")
        return self.values


class DLTensor:
    """A tensor that knows DLPack alone."""

    def __init__(self, values: np.ndarray) -> None:
        self.values = values

    def __dlpack__(self, **options: Any) -> Any:
        return self.values.__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return self.values.__dlpack_device__()


class Loader:
    """As PyTorch's DataLoader: batches, of which the last may be smaller, and no indices."""

    def __init__(self, *columns: np.ndarray, size: int = 2, pack: Any = list) -> None:
        self.columns, self.size, self.pack, self.passes = columns, size, pack, 0

    def __len__(self) -> int:
        return -(-len(self.columns[0]) // self.size)

    def __iter__(self) -> Iterator[Any]:
        self.passes += 1
        for at in range(0, len(self.columns[0]), self.size):
            yield self.pack([Tensor(column[at : at + self.size]) for column in self.columns])


class Dataset:
    """As PyTorch's and Hugging Face's: items by number, and no sequence."""

    def __init__(self, items: Any) -> None:
        self.items, self.read = items, list[int]()

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, index: int) -> Any:
        self.read.append(index)
        return self.items[index]


def opened(data: Any, *inputs: InputSpec, **options: Any) -> Source:
    return open_source(data, inputs or (X,), **options)


def check(source: Source, **expected: np.ndarray) -> None:
    samples = list(source)
    for name, array in (expected or {"x": DATA}).items():
        assert [sample.feeds[name].tolist() for sample in samples] == [row[None].tolist() for row in array]
        assert all(sample.feeds[name].dtype == (I8 if name == "ids" else F4) for sample in samples)


def refused(data: Any, *inputs: InputSpec) -> tuple[str, str]:
    with pytest.raises(UserError) as caught:
        list(opened(data, *inputs))
    assert caught.value.hint
    return str(caught.value), caught.value.hint


class TestArrays:
    @pytest.mark.parametrize("kind", [np.asarray, Tensor, DLTensor])
    def test_an_array_or_a_tensor_is_that_of_the_only_input(self, kind: Any) -> None:
        for data in (kind(DATA), [kind(row) for row in DATA], {"x": kind(DATA)}, iter([kind(DATA)])):
            check(opened(data))
        assert opened(kind(DATA)).lines == ["1 item, 5 samples, along axis 0 (N)"]

    def test_a_tensor_on_a_gpu(self) -> None:
        message, hint = refused(Tensor(DATA, "cuda:0"))
        assert "'x' is no array" in message
        assert "tensor.cpu()" in hint

    def test_a_lone_array_for_two_inputs(self) -> None:
        message, hint = refused(DATA, X, IDS)
        assert "2 inputs (x, ids)" in message
        assert "dictionary" in hint

    def test_one_that_does_not_fit(self) -> None:
        assert is_said(refused(np.zeros((5, 2, 4), F4))[0], "other-sizes.one", have=4, want=3)


class TestLoader:
    """Batches, of a model with a dynamic batch, of 1 and of 4."""

    def test_labels_are_left_out_and_that_is_said_once(self) -> None:
        for pack in (list, tuple):
            source = opened(Loader(DATA, np.arange(5), pack=pack))
            check(source)
            assert source.lines == ["Loader, 3 items read, 5 samples, along axis 0 (N)"]
            assert source.notes == [
                "what stands behind the inputs in an item is left out, as labels: 1 value",
                "Loader is read once: which samples calibrate is decided by their order",
            ]

    def test_a_model_of_batch_1_and_one_of_batch_4(self) -> None:
        check(opened(Loader(DATA, np.arange(5)), ONE))
        first, last = opened(Loader(DATA), InputSpec("x", F4, (4, 2, 3)))
        np.testing.assert_array_equal(first.feeds["x"], DATA[:4])
        np.testing.assert_array_equal(last.feeds["x"], DATA[[4, 4, 4, 4]])

    def test_dictionaries(self) -> None:
        def pack(values: list[Tensor]) -> Any:
            return UserDict(zip(("ids", "x", "label"), values, strict=False))

        source = opened(Loader(NUMBERS, DATA, np.arange(5), pack=pack), X, IDS)
        check(source, x=DATA, ids=NUMBERS)
        assert is_said(source.notes, "left-out.of-items", names="label")

    @pytest.mark.parametrize(
        "pack", [list, lambda v: (v[:2], v[2]), lambda v: ({"x": v[0], "ids": v[1]}, v[2])]
    )
    def test_several_inputs(self, pack: Any) -> None:
        """In their order, in a tuple of their own, or by name, with labels behind."""
        source = opened(Loader(DATA, NUMBERS, np.arange(5), pack=pack), X, IDS)
        check(source, x=DATA, ids=NUMBERS)
        assert is_said(source.notes, "left-out.behind", values="1 value")

    def test_too_few_values(self) -> None:
        message, _ = refused(Loader(DATA), X, IDS)
        assert "2 inputs (x, ids)" in message

    def test_a_pass_goes_on_where_the_look_ended(self) -> None:
        loader = Loader(DATA)
        source = opened(loader)
        check(source)
        assert loader.passes == 1
        check(source)
        assert loader.passes == 2

    def test_a_loader_that_does_not_know_its_length(self) -> None:
        """As one of an iterable dataset: it has a length, and asking for it is an error."""

        class Endless(Loader):
            def __len__(self) -> int:
                raise TypeError("object of type 'Stream' has no len()")

        check(opened(Endless(DATA)))

    def test_doubles_are_rounded_and_that_is_said(self) -> None:
        source = opened(Loader(DATA.astype(np.float64)))
        check(source)
        assert is_said(source.notes, "read-as.rounded", input="x", want="float32", have="float64")

    def test_a_run(self) -> None:
        x = np.random.default_rng(1).standard_normal((24, 32, 8)).astype(np.float32)
        result = onnxq.quantize(net(), Loader(x, np.arange(24), size=5), compile=False)
        calibration = result.report.calibration
        assert "5 items read, 24 samples" in calibration.data.lines[0]
        assert "as labels: 1 value" in " ".join(calibration.data.notes)
        assert result.report.accuracy[0].sqnr_db > 20


class TestDataset:
    def test_items_by_number(self) -> None:
        data = Dataset([(row, label) for label, row in enumerate(DATA)])
        source = opened(data)
        check(source)
        check_third = next(source.read([3]))
        np.testing.assert_array_equal(check_third.feeds["x"], DATA[3:4])
        assert source.count == 5
        assert source.lines == ["Dataset, 5 items, one sample each"]
        assert source.notes == [
            "which items of Dataset calibrate is decided by their numbers, not by what they hold",
            "what stands behind the inputs in an item is left out, as labels: 1 value",
        ]

    def test_only_what_is_used_is_read(self) -> None:
        data = Dataset([DATA[0] + i for i in range(1000)])
        source = opened(data)
        assert len(source.order.keys) == 1000
        list(source.read([7, 900]))
        assert set(data.read) == {0, 7, 900}

    def test_dictionaries_of_lists_and_texts(self) -> None:
        """As Hugging Face's datasets have them."""
        rows = [{"ids": ids.tolist(), "text": f"no {n}", "x": x.tolist()} for n, (ids, x) in
                enumerate(zip(NUMBERS, DATA, strict=True))]  # fmt: skip
        source = opened(Dataset(rows), X, IDS)
        check(source, x=DATA, ids=NUMBERS)
        assert is_said(source.notes, "left-out.of-items", names="text")
        assert not any("rounded" in note for note in source.notes)

    def test_images(self) -> None:
        pictures = [Image.new("RGB", (9, 5), (value,) * 3) for value in (10, 20)]
        for data in (Dataset([(one, 7) for one in pictures]), pictures, iter(pictures), tuple(pictures)):
            source = opened(data, PIXELS, options=ImageOptions(scale=1.0))
            assert [float(sample.feeds["x"].max()) for sample in source] == [10, 20]
            assert [image.input for image in source.images] == ["x"]

    def test_an_image_where_the_first_is_none(self) -> None:
        data = [np.zeros((3, 4, 4), F4), Image.new("RGB", (4, 4))]
        assert "it is an image" in refused(data, PIXELS)[0]

    def test_image_options_for_arrays(self) -> None:
        with pytest.raises(UserError, match="scale: for images, but the data are arrays"):
            opened(Dataset(DATA), options=ImageOptions(scale=1.0))

    def test_what_raises_is_named(self) -> None:
        class Broken(Dataset):
            def __getitem__(self, index: int) -> Any:
                if index == 2:
                    raise KeyError("path")
                return super().__getitem__(index)

        message, _ = refused(Broken(DATA))
        assert message.startswith("item 2 of Broken")
        assert "KeyError: 'path'" in message
        check(opened(Broken(DATA), skip_bad=True), x=DATA[[0, 1, 3, 4]])

    def test_random_items_are_noted(self) -> None:
        class Random(Dataset):
            def __getitem__(self, index: int) -> Any:
                return DATA[index] + np.random.default_rng().random(dtype=F4)

        assert is_said(opened(Random(DATA)).notes, "decided-by-order.random")

    def test_items_of_several_samples(self) -> None:
        check(opened(Dataset([DATA[:2], DATA[2:]])))
        assert "item 1 of Dataset" in refused(Dataset([DATA[0], DATA[1:3]]))[0]

    def test_zero_items(self) -> None:
        assert "zero samples" in refused(Dataset([]))[0]


class TestFunctions:
    def test_a_function_gives_a_fresh_iterator(self) -> None:
        def samples() -> Iterator[Any]:
            yield from DATA

        source = opened(samples)
        check(source)
        check(source)

    def test_a_function_that_takes_arguments_or_gives_no_samples(self) -> None:
        assert "cannot be called" in refused(lambda path: DATA)[0]
        assert "returned int" in refused(lambda: 3)[0]

    def test_an_error_in_the_function_is_its_own(self) -> None:
        def samples() -> Any:
            raise TypeError("mine")

        with pytest.raises(TypeError, match="mine"):
            list(opened(samples))

    @pytest.mark.parametrize("data", [7, Dataset, object()])
    def test_objects_of_an_unknown_kind(self, data: Any) -> None:
        message, hint = refused(data)
        assert "cannot be read" in message
        assert hint == OBJECTS
        with pytest.raises(
            UserError, match=r"cannot be read|not a path or an Iterable or a Dataset or a func"
        ):
            onnxq.quantize(net(), data)


def save_pictures(folder: Path) -> list[Path]:
    paths = []
    for place, value in (("a/1.png", 10), ("a/b/2.png", 20), ("3.png", 30), ("4.bmp", 40)):
        path = folder / place
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (4, 4), (value,) * 3).save(path)
        paths.append(path)
    return paths


class TestPaths:
    RAW = ImageOptions(scale=1.0)

    def values(self, data: Any) -> list[float]:
        return [float(sample.feeds["x"].max()) for sample in opened(data, PIXELS, options=self.RAW)]

    def test_a_list_of_paths(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        paths = save_pictures(tmp_path)
        assert self.values([paths[2], str(paths[0])]) == [30, 10]
        monkeypatch.chdir(tmp_path)
        source = opened(tuple(paths[:2]), PIXELS)
        assert source.lines == ["2 images in a (2 folders), one sample each"]
        assert next(iter(source)).where.startswith("item 0")

    def test_a_list_of_arrays_in_files(self, tmp_path: Path) -> None:
        np.save(tmp_path / "a.npy", DATA[:2])
        np.save(tmp_path / "b.npy", DATA[2:])
        check(opened([tmp_path / "a.npy", tmp_path / "b.npy"]))

    def test_a_missing_path_and_one_of_another_kind(self, tmp_path: Path) -> None:
        paths = save_pictures(tmp_path)
        message, _ = refused([paths[0], tmp_path / "no.png"], PIXELS)
        assert message.startswith("item 1 ")
        assert str(tmp_path / "no.png") in message
        np.save(tmp_path / "a.npy", DATA)
        assert "several kinds" in refused([paths[0], tmp_path / "a.npy"], PIXELS)[0]
        assert "'x.txt' is not" in refused(["x.txt"], PIXELS)[0]

    def test_globs(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        save_pictures(tmp_path)
        assert self.values(tmp_path / "*.png") == [30]
        assert self.values(str(tmp_path / "**/*.png")) == [30, 10, 20]
        assert self.values(tmp_path / "**") == [30, 40, 10, 20]
        assert self.values(tmp_path / "[ab]") == [10, 20]  # a folder
        monkeypatch.chdir(tmp_path)
        source = opened("*.[pb]??", PIXELS)
        list(source)
        assert source.lines == ["2 images in *.[pb]??, one sample each"]

    def test_a_glob_that_matches_nothing(self, tmp_path: Path) -> None:
        (tmp_path / "notes.md").touch()
        assert "no file" in refused(tmp_path / "*.jpg", PIXELS)[0]
        assert "only notes.md" in refused(tmp_path / "*.md", PIXELS)[0]

    def test_a_folder_whose_name_is_a_pattern(self, tmp_path: Path) -> None:
        save_pictures(tmp_path / "set[1]")
        assert self.values(tmp_path / "set[1]") == [30, 40, 10, 20]

    def test_a_report_of_a_glob_is_read_again(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """The report names the glob, and what looks at the model later finds the data by it."""
        import onnx

        monkeypatch.chdir(tmp_path)
        onnx.save(net(), "net.onnx")
        (tmp_path / "rows").mkdir()
        for number, row in enumerate(np.random.default_rng(1).standard_normal((24, 32, 8)).astype(F4)):
            np.save(tmp_path / f"rows/{number}.npy", row)
        onnxq.quantize("net.onnx", "rows/*.npy", compile=False).save("q.onnx")
        assert onnxq.analyze("q.onnx").samples > 0


class TestFeatures:
    """A table whose columns are the values of one input."""

    ROW = InputSpec("x", F4, ("N", 3))

    def write(self, folder: Path, *lines: str) -> Path:
        (folder / "d.csv").write_text("\n".join(lines) + "\n")
        return folder / "d.csv"

    @pytest.mark.parametrize("head", [["a,b,c"], []])
    def test_columns(self, tmp_path: Path, head: list[str]) -> None:
        path = self.write(tmp_path, *head, "1,2,3", "4,5,-6e1")
        source = opened(path, self.ROW)
        check(source, x=np.array([[1, 2, 3], [4, 5, -60]]))
        assert source.notes == [
            f"{path}: 3 columns are the values of input 'x', in their order (assumed; to state it: one "
            "column 'x' with all of them)"
        ]

    def test_columns_without_numbers_are_left_out(self, tmp_path: Path) -> None:
        path = self.write(tmp_path, "name,a,b,c,class", "u,1,2,3,cat", "v,4,5,6,dog")
        source = opened(path, self.ROW)
        check(source, x=np.array([[1, 2, 3], [4, 5, 6]]))
        assert is_said(source.notes[1], "left-out.no-numbers", file=str(path), names="name, class")

    def test_a_dynamic_size_takes_all(self, tmp_path: Path) -> None:
        check(
            opened(self.write(tmp_path, "1,2", "3,4"), InputSpec("x", F4, ("N", "F"))),
            x=np.array([[1, 2], [3, 4]]),
        )

    def test_other_numbers_of_columns(self, tmp_path: Path) -> None:
        path = self.write(tmp_path, "a,b,c,label", "1,2,3,0")
        message, hint = refused(path, self.ROW)
        assert message.startswith(f"{path}: 4 columns")
        assert message.endswith("Nx3")
        assert "label" in hint

    def test_bad_cells_name_the_line(self, tmp_path: Path) -> None:
        assert (
            "d.csv:3: column 2 is empty"
            in refused(self.write(tmp_path, "a,b,c", "1,2,3", "4,,6"), self.ROW)[0]
        )
        message, _ = refused(self.write(tmp_path, "a,b,c", "1,2,3", "4,what,6"), self.ROW)
        assert "d.csv:3, input 'x': '4 what 6'" in message


class TestTables:
    """Parquet files, and datasets of Hugging Face that were saved."""

    def table(self, start: int = 0, end: int = 5) -> Any:
        arrow = pytest.importorskip("pyarrow")
        rows = slice(start, end)
        return arrow.table(
            {"x": DATA[rows].tolist(), "ids": NUMBERS[rows].tolist(), "label": list(range(start, end))}
        )

    def save(self, folder: Path, *names: str, **more: Any) -> None:
        """As `datasets.Dataset.save_to_disk` does."""
        import pyarrow

        folder.mkdir(parents=True, exist_ok=True)
        for number, name in enumerate(names):
            table = self.table(*((0, 2), (2, 5))[number]) if len(names) > 1 else self.table()
            with (
                pyarrow.OSFile(str(folder / name), "wb") as sink,
                pyarrow.ipc.new_stream(sink, table.schema) as out,
            ):
                out.write_table(table)
        state = {"_data_files": [{"filename": name} for name in names], **more}
        (folder / "state.json").write_text(json.dumps(state))
        (folder / "dataset_info.json").write_text("{}")

    def test_parquet(self, tmp_path: Path) -> None:
        parquet = pytest.importorskip("pyarrow.parquet")
        parquet.write_table(self.table(0, 2), tmp_path / "0.parquet")
        parquet.write_table(self.table(2), tmp_path / "1.parquet", row_group_size=1)
        source = opened(tmp_path, X, IDS)
        check(source, x=DATA, ids=NUMBERS)
        assert source.lines == [f"2 .parquet files in {tmp_path}, 5 items, one sample each"]
        assert is_said(source.notes, "left-out.of-items", names="label")
        check(opened(tmp_path / "1.parquet", IDS), ids=NUMBERS[2:])

    def test_a_saved_dataset(self, tmp_path: Path) -> None:
        self.save_two(tmp_path / "saved")
        source = opened(tmp_path / "saved", X, IDS)
        check(source, x=DATA, ids=NUMBERS)
        assert not any("left out (" in note for note in source.notes)

    def save_two(self, folder: Path) -> None:
        pytest.importorskip("pyarrow")
        self.save(folder, "data-00000-of-00002.arrow", "data-00001-of-00002.arrow")

    def test_parts_are_named(self, tmp_path: Path) -> None:
        for part in ("train", "test"):
            self.save_two(tmp_path / part)
        (tmp_path / "dataset_dict.json").write_text('{"splits": ["train", "test"]}')
        message, hint = refused(tmp_path, X)
        assert "several parts" in message
        assert str(tmp_path / "train") in message
        assert is_said(hint, "several-outputs/do")

    def test_images_in_a_table(self, tmp_path: Path) -> None:
        import io

        parquet = pytest.importorskip("pyarrow.parquet")
        arrow = pytest.importorskip("pyarrow")
        rows = []
        for value in (10, 20):
            file = io.BytesIO()
            Image.new("RGB", (9, 5), (value,) * 3).save(file, "png")
            rows.append({"bytes": file.getvalue(), "path": None})
        parquet.write_table(arrow.table({"image": rows, "label": [0, 1]}), tmp_path / "d.parquet")
        inputs = InputSpec("x", F4, ("N", 3, 4, 4), data_name="image")
        source = opened(tmp_path / "d.parquet", inputs, options=ImageOptions(scale=1.0))
        assert [float(sample.feeds["x"].max()) for sample in source] == [10, 20]

    def test_other_columns_and_broken_files(self, tmp_path: Path) -> None:
        parquet = pytest.importorskip("pyarrow.parquet")
        parquet.write_table(self.table(), tmp_path / "0.parquet")
        message, hint = refused(tmp_path / "0.parquet", InputSpec("y", F4, ("N", 2, 3)))
        assert "named 'y'" in message
        assert "--input-name y=NAME" in hint
        (tmp_path / "0.parquet").write_bytes(b"PAR1 and no more")
        assert "0.parquet' as a table" in refused(tmp_path)[0]

    def test_without_pyarrow(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
        (tmp_path / "d.parquet").touch()
        message, hint = refused(tmp_path)
        assert "pyarrow, which is not" in message
        assert hint == "pip install pyarrow"


class TestVideos:
    def save(self, path: Path, frames: int) -> None:
        """Frames that brighten; a codec without loss."""
        av = pytest.importorskip("av")
        with av.open(str(path), "w") as container:
            stream = container.add_stream("ffv1", rate=10)
            stream.width, stream.height, stream.pix_fmt = 16, 8, "bgr0"
            for number in range(frames):
                picture = np.full((8, 16, 3), number, np.uint8)
                container.mux(stream.encode(av.VideoFrame.from_ndarray(picture, format="rgb24")))
            container.mux(stream.encode())

    def values(self, path: Path) -> tuple[list[float], Source]:
        source = opened(path, PIXELS, options=ImageOptions(scale=1.0))
        return [float(sample.feeds["x"].max()) for sample in source], source

    def test_all_frames_of_a_short_one(self, tmp_path: Path) -> None:
        self.save(tmp_path / "a.mkv", 7)
        found, source = self.values(tmp_path / "a.mkv")
        assert found == list(range(7))
        assert source.lines == [f"7 frames in {tmp_path / 'a.mkv'}, one sample each"]
        assert source.notes == []
        assert next(source.read([3])).where == f"{tmp_path / 'a.mkv'} frame 3"

    def test_frames_are_evenly_spaced(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("onnxq.data.video.FRAMES", 10)
        for name in "ab":
            self.save(tmp_path / f"{name}.mkv", 50)
        found, source = self.values(tmp_path)
        assert found == [5, 15, 25, 35, 45] * 2
        assert source.notes == [
            f"of the 50 frames of {str(tmp_path / f'{name}.mkv')!r} 5 are taken, evenly spaced"
            for name in "ab"
        ]

    def test_the_frames_go_with_the_source(self, tmp_path: Path) -> None:
        self.save(tmp_path / "a.mkv", 3)
        source = opened(tmp_path / "a.mkv", PIXELS)
        gc.collect()
        assert len(list(source)) == 3

    def test_no_video(self, tmp_path: Path) -> None:
        pytest.importorskip("av")
        (tmp_path / "a.mp4").write_bytes(b"nothing of it")
        message, _ = refused(tmp_path / "a.mp4", PIXELS)
        assert "a.mp4' is no video" in message

    def test_without_pyav(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(__import__("sys").modules, "av", None)
        (tmp_path / "a.mp4").touch()
        message, hint = refused(tmp_path / "a.mp4", PIXELS)
        assert "av, which is not" in message
        assert "folder of images" in hint
