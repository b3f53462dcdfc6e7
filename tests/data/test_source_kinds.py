"""Lists, CSV files, test data of the ONNX model zoo and data loader scripts as samples."""

from __future__ import annotations

import csv
from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, numpy_helper
from PIL import Image

from onnxq.base.errors import UserError
from onnxq.data.image_options import ImageOptions
from onnxq.data.samples import InputSpec, Sample, specs_of
from onnxq.data.script import load_script
from onnxq.data.sources import Source, open_source
from onnxq.graph.model import Model

F4, I8, TEXT = np.dtype(np.float32), np.dtype(np.int64), np.dtype(object)
X = InputSpec("x", F4, ("N", 2, 3))
LEFT, RIGHT = InputSpec("left", F4, ("N", 2, 3)), InputSpec("right", F4, ("N", 2, 3))
PIXELS = InputSpec("x", F4, ("N", 3, 4, 4))
DATA = np.arange(30, dtype=np.float32).reshape(5, 2, 3)


def refused(data: object, *inputs: InputSpec) -> tuple[str, str]:
    """The message and the hint."""
    with pytest.raises(UserError) as caught:
        list(open_source(data, inputs))  # type: ignore[arg-type]
    assert caught.value.hint
    return str(caught.value), caught.value.hint


def test_bfloat16_in_a_file_of_numpy_s(tmp_path: Path) -> None:
    """numpy writes the bytes, and not the name of the type."""
    rows = DATA.astype(ml_dtypes.bfloat16)
    np.save(tmp_path / "x.npy", rows)
    spec = InputSpec("x", rows.dtype, ("N", 2, 3))
    samples = list(open_source(str(tmp_path / "x.npy"), [spec]))
    assert [sample.feeds["x"].tobytes() for sample in samples] == [row.tobytes() for row in rows]


def check_five(source: Source) -> None:
    samples = list(source)
    assert [sample.index for sample in samples] == [0, 1, 2, 3, 4]
    check(samples, x=DATA)


def check(samples: list[Sample], **arrays: np.ndarray) -> None:
    for name, array in arrays.items():
        for sample, row in zip(samples, array, strict=True):
            np.testing.assert_array_equal(sample.feeds[name], row[None])


def save_rows(folder: Path, suffix: str = "npy") -> list[str]:
    folder.mkdir()
    names = [f"{index} #{index}.{suffix}" for index in range(5)]
    for name, row in zip(names, DATA, strict=True):
        if suffix == "npy":
            np.save(folder / name, row)
        else:
            np.savez(folder / name, x=row)
    return names


class TestLists:
    @pytest.mark.parametrize("suffix", ["npy", "npz"])
    @pytest.mark.parametrize("name", ["list.txt", "train.LST"])
    def test_paths_beside_the_list(self, tmp_path: Path, suffix: str, name: str) -> None:
        files = save_rows(tmp_path / "rows", suffix)
        text = "\ufeff# rows\r\n\r\n  # more\r\n" + "\r\n".join(f" rows/{file} " for file in files)
        (tmp_path / name).write_text(text, "utf-8", newline="")
        source = open_source(tmp_path / name, [X])
        check_five(source)
        assert source.lines == [f"5 .{suffix} files in {tmp_path / name}, one sample each"]
        assert [s.where for s in source] == [f"{tmp_path / name}:{line}" for line in range(4, 9)]

    def test_order_and_repetition_are_the_lists(self, tmp_path: Path) -> None:
        files = save_rows(tmp_path / "rows")
        (tmp_path / "list.txt").write_text("\n".join(f"rows/{files[i]}" for i in (3, 0, 3)))
        check(list(open_source(tmp_path / "list.txt", [X])), x=DATA[[3, 0, 3]])

    def test_paths_from_the_working_directory(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        files = save_rows(tmp_path / "rows")
        (tmp_path / "lists").mkdir()
        lines = [f"rows/{file}" for file in files[:4]] + [str(tmp_path / "rows" / files[4])]
        (tmp_path / "lists/a.txt").write_text("\n".join(lines))
        monkeypatch.chdir(tmp_path)
        check_five(open_source("lists/a.txt", [X]))
        (tmp_path / "lists/rows").mkdir()
        np.save(tmp_path / "lists/rows" / files[0], DATA[1])  # beside the list comes first
        check(list(open_source("lists/a.txt", [X])), x=DATA[[1, 1, 2, 3, 4]])

    def test_images(self, tmp_path: Path) -> None:
        for value in (10, 20):
            Image.new("RGB", (4, 4), (value,) * 3).save(tmp_path / f"{value}.png")
        (tmp_path / "list.txt").write_text("20.png\n10.png\n")
        source = open_source(tmp_path / "list.txt", [PIXELS], options=ImageOptions(scale=1.0))
        assert [float(s.feeds["x"].max()) for s in source] == [20, 10]
        assert source.lines == [f"2 images in {tmp_path / 'list.txt'}, one sample each"]

    def test_a_list_for_each_input(self, tmp_path: Path) -> None:
        files = save_rows(tmp_path / "rows")
        (tmp_path / "data").mkdir()
        for name, order in (("left", range(5)), ("right", reversed(range(5)))):
            (tmp_path / f"data/{name}.txt").write_text("\n".join(f"../rows/{files[i]}" for i in order))
        source = open_source(tmp_path / "data", [LEFT, RIGHT])
        check(list(source), left=DATA, right=DATA[::-1])
        assert source.notes == []

    @pytest.mark.parametrize("suffix", ["npy", "png"])
    def test_a_missing_file(self, tmp_path: Path, suffix: str) -> None:
        np.save(tmp_path / "a.npy", DATA)
        Image.new("RGB", (4, 4)).save(tmp_path / "a.png")
        (tmp_path / "list.txt").write_text(f"a.{suffix}\n\nb.{suffix}\n")
        with pytest.raises(UserError) as caught:  # before any sample is read
            open_source(tmp_path / "list.txt", [PIXELS if suffix == "png" else X])
        assert str(caught.value).startswith(f"{tmp_path / 'list.txt'}:3: ")
        assert f"'b.{suffix}'" in str(caught.value)
        assert "--skip-bad" in caught.value.hint

    def test_several_kinds(self, tmp_path: Path) -> None:
        (tmp_path / "list.txt").write_text("a.npy\nb.png\n")
        message, _ = refused(tmp_path / "list.txt", X)
        assert "npy (" in message
        assert "list.txt:2: 'b.png'" in message

    @pytest.mark.parametrize("line", ["a.npy 7", "data.csv", "other.txt", "photos/"])
    def test_a_line_that_is_no_data_file(self, tmp_path: Path, line: str) -> None:
        (tmp_path / "list.txt").write_text(f"# 1\n{line}\n")
        message, hint = refused(tmp_path / "list.txt", X)
        assert f"list.txt:2: {line!r}" in message
        assert "nothing else" in hint

    def test_no_lines(self, tmp_path: Path) -> None:
        (tmp_path / "list.txt").write_text("# none\n\n")
        assert "list.txt' has zero samples" in refused(tmp_path / "list.txt", X)[0]

    def test_no_text(self, tmp_path: Path) -> None:
        (tmp_path / "list.txt").write_bytes(b"\xff\xfe\x00 no utf-8")
        assert "no text in UTF-8" in refused(tmp_path / "list.txt", X)[0]

    def test_a_list_in_a_folder_of_data_is_left_out(self, tmp_path: Path) -> None:
        np.save(tmp_path / "d.npy", DATA)
        (tmp_path / "labels.txt").write_text("cat\ndog\n")
        (tmp_path / "labels.csv").write_text("cat,dog\n")
        source = open_source(tmp_path, [X])
        check_five(source)
        assert "left out (2): labels.csv, labels.txt" in source.notes[0]

    def test_one_list_for_two_inputs(self, tmp_path: Path) -> None:
        np.save(tmp_path / "a.npy", DATA)
        (tmp_path / "list.txt").write_text("a.npy\n")
        assert ".csv" in refused(tmp_path / "list.txt", LEFT, RIGHT)[1]


class TestCsv:
    SPECS = (X, InputSpec("k", F4, ()), InputSpec("ids", I8, ("N", 4)))

    def write(self, folder: Path, *lines: str, name: str = "d.csv") -> Path:
        (folder / name).write_text("\n".join(lines) + "\n")
        return folder / name

    def test_files_and_numbers(self, tmp_path: Path) -> None:
        files = save_rows(tmp_path / "rows")
        lines = [f'"rows/{file}",{i} 2 3  -4,{i / 8},label' for i, file in enumerate(files)]
        path = self.write(tmp_path, "x, ids,k,class", lines[0], "", *lines[1:])
        source = open_source(path, self.SPECS)
        samples = list(source)
        check(samples, x=DATA, ids=np.array([[i, 2, 3, -4] for i in range(5)]))
        assert [sample.feeds["k"].tolist() for sample in samples] == [i / 8 for i in range(5)]
        assert [sample.where for sample in samples] == [f"{path}:{line}" for line in (2, 4, 5, 6, 7)]
        assert {a.dtype for s in samples for a in s.feeds.values()} == {F4, I8}
        assert source.lines == [f"{path}, one sample each"]
        assert source.notes == [f"columns of {str(path)!r} that are no inputs are left out: class"]
        check(list(source.read([3])), x=DATA[3:4])

    def test_tabs_and_quotes(self, tmp_path: Path) -> None:
        np.save(tmp_path / "a, b.npy", DATA[0])
        for name, text in (("d.tsv", "x\tk\na, b.npy\t1\n"), ("d.csv", '\ufeffx,k\r\n"a, b.npy","1"\r\n')):
            (tmp_path / name).write_text(text, "utf-8", newline="")
            check(list(open_source(tmp_path / name, self.SPECS[:2])), x=DATA[:1])

    def test_one_input(self, tmp_path: Path) -> None:
        save_rows(tmp_path / "rows")
        check_five(open_source(self.write(tmp_path, "x", *(f"rows/{i} #{i}.npy" for i in range(5))), [X]))

    def test_images(self, tmp_path: Path) -> None:
        for value in (10, 20):
            Image.new("RGB", (9, 5), (value,) * 3).save(tmp_path / f"{value}.png")
        specs = PIXELS, InputSpec("size", I8, (2,))
        path = self.write(tmp_path, "size,x", "5 9,20.png", "5 8,10.png")
        source = open_source(path, specs, options=ImageOptions(scale=1.0))
        samples = list(source)
        assert [float(s.feeds["x"].min()) for s in samples] == [20, 10]
        assert [s.feeds["size"].tolist() for s in samples] == [[5, 9], [5, 8]]
        assert [image.input for image in source.images] == ["x"]

    @pytest.mark.parametrize(
        ("shape", "text", "expected"),
        [
            ((), "3", 3), (("N",), "3", [3]), ((1,), "3", [3]), (("N", 1, 1), "3", [[[3]]]),
            ((1, 2), "3 4", [[3, 4]]), (("N", "length"), "3 4 5", [[3, 4, 5]]),
            (("N", 2, 2), "1 2 3 4", [[[1, 2], [3, 4]]]), (None, "1 2", [1, 2]),
        ],
    )  # fmt: skip
    def test_numbers_take_the_shape_of_the_input(self, tmp_path: Path, shape, text: str, expected) -> None:
        np.save(tmp_path / "a.npy", DATA[0])
        path = self.write(tmp_path, "x,k", f"a.npy,{text}")
        (sample,) = open_source(path, [X, InputSpec("k", I8, shape)])
        assert sample.feeds["k"].tolist() == expected

    def test_text(self, tmp_path: Path) -> None:
        (sample,) = open_source(
            self.write(tmp_path, "question", "why 1 2?"), [InputSpec("question", TEXT, ("N",))]
        )
        assert sample.feeds["question"].tolist() == ["why 1 2?"]

    def test_a_static_batch_of_lines(self, tmp_path: Path) -> None:
        path = self.write(tmp_path, "k", "1 2", "3 4", "5 6")
        samples = list(open_source(path, [InputSpec("k", F4, (2, 1, 2))]))
        (a, b), (c, again) = (s.feeds["k"].tolist() for s in samples)
        assert sorted([a, b, c]) == [[[1, 2]], [[3, 4]], [[5, 6]]]
        assert again == c

    @pytest.mark.parametrize(
        ("lines", "says", "hint"),
        [
            (("lefft,right", "1,2"), ("d.csv:1: ", "column for input 'left'"), "did you mean 'lefft'?"),
            (("left,left,right", "1,2,3"), ("d.csv:1: ", "'left' is there twice"), "keep one"),
            (("a.npy,a.npy",), ("d.csv:1: ", "column for input 'left'"), "names of the inputs: left, right"),
            (("left,right",), ("zero samples",), "line"),
            ((), ("d.csv' is empty",), "names of the inputs"),
            (("left,right", "a.npy"), ("d.csv:2: 1 cells, where the first line has 2",), "quotes"),
            (("left,right", "a.npy,a.npy,7"), ("d.csv:2: 3 cells",), "quotes"),
            (("left,right", "a.npy,"), ("d.csv:2, column 'right' is empty",), "path"),
            (("left,right", "a.npy,b.npy"), ("d.csv:2, column 'right': there is no file 'b.npy'",), "folder"),
            (("left,right", "a.npy,a.npy", "1 2,a.npy"), ("d.csv:3, column 'left': '1 2' is of kind numbers",
              "begins with npy"), "one kind"),
            (("left,right", "a.npy,what?"), ("d.csv:2, column 'right': 'what?' is neither",), "numbers"),
            (("left,right", "a.npy,1 2"), ("d.csv:2: input 'right' takes Nx2x3", "shape 2"), "sample"),
            (("left,right", "a.npy,1 2 3 4 5 nan"), ("d.csv:2: input 'right' has nan at index [0, 1, 2]",),
             "repair"),
            (("left,right", "a.npy,cut.npy"), ("d.csv:2, column 'right': ", "cut.npy", "truncated"), "again"),
            (("left,right", "a.npy,all.npy"), ("d.csv:2: the inputs differ", "'left' has 1, 'right' has 5"),
             "same"),
        ],
    )  # fmt: skip
    def test_refusals_name_line_and_column(self, tmp_path: Path, lines, says, hint: str) -> None:
        np.save(tmp_path / "a.npy", DATA[0])
        np.save(tmp_path / "all.npy", DATA)
        (tmp_path / "cut.npy").write_bytes((tmp_path / "a.npy").read_bytes()[:-4])
        message, given = refused(self.write(tmp_path, *lines) if lines else self.empty(tmp_path), LEFT, RIGHT)
        for part in says:
            assert part in message
        assert hint in given

    def empty(self, folder: Path) -> Path:
        (folder / "d.csv").touch()
        return folder / "d.csv"

    def test_fractions_for_an_integer(self, tmp_path: Path) -> None:
        message, _ = refused(self.write(tmp_path, "ids", "1 2 3 4.5"), self.SPECS[2])
        assert "d.csv:2: input 'ids' is int64" in message

    def test_a_corrupt_image_names_line_and_file(self, tmp_path: Path) -> None:
        Image.new("RGB", (4, 4)).save(tmp_path / "a.png")
        (tmp_path / "b.png").write_bytes(b"no image")
        message, _ = refused(self.write(tmp_path, "x", "a.png", "b.png"), PIXELS)
        assert "d.csv:3, column 'x': " in message
        assert "b.png" in message

    def test_csv_of_something_else(self, tmp_path: Path) -> None:
        (tmp_path / "d.csv").write_bytes(np.random.default_rng(0).bytes(500))
        assert "d.csv" in refused(tmp_path / "d.csv", X)[0]
        (tmp_path / "d.csv").write_text('x\n"' + "a" * 200_000)
        assert "d.csv:" in refused(tmp_path / "d.csv", X)[0]


def save_pb(path: Path, array: np.ndarray, name: str = "") -> None:
    path.parent.mkdir(exist_ok=True, parents=True)
    path.write_bytes(numpy_helper.from_array(array, name).SerializeToString())


class TestTensorFiles:
    def test_sets(self, tmp_path: Path) -> None:
        for number in (0, 2, 10):  # in the order of numbers, not of text
            save_pb(tmp_path / f"test_data_set_{number}/input_0.pb", DATA[number // 5])
            save_pb(tmp_path / f"test_data_set_{number}/input_1.pb", np.array([[number]]))
            save_pb(tmp_path / f"test_data_set_{number}/output_0.pb", DATA)
        (tmp_path / "model.onnx").write_bytes(b"x")
        np.savez(tmp_path / "test_data_0.npz", inputs=DATA)
        source = open_source(tmp_path, [X, InputSpec("k", I8, ("N", 1))])
        check(list(source), x=DATA[[0, 0, 2]], k=np.array([[0], [2], [10]]))
        assert source.lines == [f"3 test data sets in {tmp_path}, one sample each"]
        assert "left out (2): model.onnx, test_data_0.npz" in source.notes[0]
        one = open_source(tmp_path / "test_data_set_10", [X, InputSpec("k", I8, ("N", 1))])
        check(list(one), x=DATA[[2]], k=np.array([[10]]))
        assert one.notes == []

    def test_sets_hold_rows(self, tmp_path: Path) -> None:
        save_pb(tmp_path / "test_data_set_0/input_0.pb", DATA)
        check_five(open_source(tmp_path, [X]))
        check_five(open_source(tmp_path / "test_data_set_0", [X]))

    def test_names_come_before_the_order(self, tmp_path: Path) -> None:
        """The model's order may be another than the file's, where an input was made a constant."""
        save_pb(tmp_path / "test_data_set_0/input_0.pb", DATA[0], "frozen")
        save_pb(tmp_path / "test_data_set_0/input_1.pb", DATA[1], "right")
        save_pb(tmp_path / "test_data_set_0/input_2.pb", DATA[2], "left")
        check(list(open_source(tmp_path, [LEFT, RIGHT])), left=DATA[[2]], right=DATA[[1]])

    def test_a_folder_with_any_name_for_two_inputs(self, tmp_path: Path) -> None:
        save_pb(tmp_path / "set/input_0.pb", DATA[0])
        save_pb(tmp_path / "set/input_1.pb", DATA[1])
        check(list(open_source(tmp_path / "set", [LEFT, RIGHT])), left=DATA[[0]], right=DATA[[1]])

    def test_plain_files(self, tmp_path: Path) -> None:
        for index, row in enumerate(DATA):
            save_pb(tmp_path / f"input_{index}.pb", row)
        save_pb(tmp_path / "output_0.pb", DATA)
        source = open_source(tmp_path, [X])
        check_five(source)
        assert source.notes == []
        check(list(open_source(tmp_path / "input_3.pb", [X])), x=DATA[[3]])

    def test_a_folder_for_each_input(self, tmp_path: Path) -> None:
        for index, row in enumerate(DATA):
            save_pb(tmp_path / f"left/{index}.pb", row)
            save_pb(tmp_path / f"right/{index}.pb", row + 1)
        check(list(open_source(tmp_path, [LEFT, RIGHT])), left=DATA, right=DATA + 1)

    def test_values_that_are_not_raw(self, tmp_path: Path) -> None:
        ids = onnx.helper.make_tensor("", TensorProto.INT64, (1, 4), [1, -2, 3, 4])
        (tmp_path / "a.pb").write_bytes(ids.SerializeToString())
        (sample,) = open_source(tmp_path / "a.pb", [InputSpec("ids", I8, ("N", 4))])
        assert sample.feeds["ids"].tolist() == [[1, -2, 3, 4]]
        text = onnx.helper.make_tensor("", TensorProto.STRING, (1,), ["é 1".encode()])
        (tmp_path / "a.pb").write_bytes(text.SerializeToString())
        (sample,) = open_source(tmp_path / "a.pb", [InputSpec("text", TEXT, ("N",))])
        assert sample.feeds["text"].tolist() == ["é 1"]

    def test_another_number_of_inputs(self, tmp_path: Path) -> None:
        save_pb(tmp_path / "test_data_set_0/input_0.pb", DATA[0], "a")
        message, hint = refused(tmp_path, LEFT, RIGHT)
        assert "test_data_set_0' has input_0.pb; " in message
        assert "input_0.pb to input_1.pb" in hint
        save_pb(tmp_path / "test_data_set_0/input_2.pb", DATA[0], "b")
        assert "has input_0.pb, input_2.pb; " in refused(tmp_path, LEFT, RIGHT)[0]
        assert "1 input (x)" in refused(tmp_path, X)[0]

    @pytest.mark.parametrize("name", ["", "values"])
    def test_sequences(self, tmp_path: Path, name: str) -> None:
        sequence = numpy_helper.from_list([DATA[0], DATA[1]], name)
        (tmp_path / "a.pb").write_bytes(sequence.SerializeToString())
        message, hint = refused(tmp_path / "a.pb", X)
        assert "a.pb' holds a sequence" in message
        assert "tensors only" in hint

    def test_what_is_no_tensor(self, tmp_path: Path) -> None:
        good = numpy_helper.from_array(DATA[0]).SerializeToString()
        for data in (b"", good[:9], good[:-4], b"hello, world", np.random.default_rng(1).bytes(99)):
            (tmp_path / "a.pb").write_bytes(data)
            assert "a.pb" in refused(tmp_path / "a.pb", X)[0]

    def test_values_in_another_file(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)
        (tmp_path / "w.bin").write_bytes(DATA[0].tobytes())
        outside = onnx.TensorProto(data_type=1, dims=[2, 3], data_location=TensorProto.EXTERNAL)
        outside.external_data.add(key="location", value="w.bin")
        (tmp_path / "a.pb").write_bytes(outside.SerializeToString())
        assert "a.pb' keeps its values" in refused(tmp_path / "a.pb", X)[0]


class TestScript:
    GOOD = """
import numpy as np
import beside
print("loading")
calls = []
def load_data():
    print("called")
    calls.append(1)
    for row in beside.rows():
        yield {"x": row}
def as_list():
    return [{"x": row} for row in beside.rows()]
def number():
    return 7
def nothing():
    return []
limit = 5
"""

    @pytest.fixture
    def script(self, tmp_path: Path) -> Path:
        rows = "import numpy as np\ndef rows():\n    return np.arange(30, dtype='f4').reshape(5, 2, 3)\n"
        (tmp_path / "beside.py").write_text(rows)
        (tmp_path / "loader.py").write_text(self.GOOD)
        np.save(tmp_path / "data.npy", DATA)
        return tmp_path / "loader.py"

    @pytest.mark.parametrize("function", ["", ":load_data", ":as_list"])
    def test_each_pass_calls_it_again(self, script: Path, function: str, capsys) -> None:
        source = open_source(load_script(f"{script}{function}"), [X])
        for _ in range(2):
            check_five(source)
            called = function.removeprefix(":") or "load_data"
            assert source.lines == [f"{script}:{called}, 5 items read, one sample each"]
        assert source.count is None
        assert capsys.readouterr().out == ""  # standard output is for the result

    def test_polygraphy_reads_it_the_same(self, script: Path) -> None:
        from polygraphy.mod import import_from_script

        theirs = [feed["x"] for feed in import_from_script(str(script), "load_data")()]
        ours = [feed["x"] for feed in load_script(script)]
        np.testing.assert_array_equal(ours, theirs)

    def test_it_leaves_no_traces(self, script: Path) -> None:
        import sys

        before = list(sys.path)
        list(load_script(script))
        assert sys.path == before
        assert not list((script.parent / "__pycache__").glob("loader*"))

    def test_bad_items_name_the_script(self, script: Path) -> None:
        script.write_text("def load_data():\n    yield {'x': [[1, 2, 3]] * 2}\n    yield None\n")
        message, _ = refused(load_script(script), X)
        assert (
            f"item 1 of {script}:load_data, input 'x' is no array of numbers, but of type NoneType" in message
        )

    @pytest.mark.parametrize(
        ("text", "says"),
        [
            ("def load_data():\n    yield {}['a']", "line 2: KeyError: 'a'"),
            ("import numpy\n\n1 / 0", "line 3: ZeroDivisionError: division by zero"),
            ("def load_data(:\n", "line 1: SyntaxError"),
            ("import no_such_module", "line 1: ModuleNotFoundError: No module named 'no_such_module'"),
            ("import sys\nsys.exit('why')", "line 2: it called sys.exit('why')"),
            ("import beside\ndef load_data():\n    yield beside.rows()['x']", "line 3: IndexError"),
            ("def load_data(path):\n    yield {}", "TypeError: load_data() missing 1 required"),
        ],
    )
    def test_its_errors_name_the_line(self, script: Path, text: str, says: str) -> None:
        script.write_text(text)
        with pytest.raises(UserError) as caught:
            list(load_script(script))
        assert str(caught.value).startswith(f"the data loader script {str(script)!r}")
        assert says in str(caught.value)
        assert "-v" in caught.value.hint

    def test_an_error_after_good_samples_is_no_bad_sample(self, script: Path) -> None:
        script.write_text("import beside\ndef load_data():\n    yield {'x': beside.rows()[0]}\n    1 / 0\n")
        with pytest.raises(UserError, match="line 4: ZeroDivisionError"):
            list(open_source(load_script(script), [X], skip_bad=True))

    @pytest.mark.parametrize(
        ("spec", "says", "hint"),
        [
            ("loder.py", "no data loader script '{}/loder.py'", "loader.py"),
            ("loader.py:load_dota", "named 'load_dota'", "did you mean 'load_data'?"),
            ("loader.py:limit", "'limit' of '{}/loader.py' is of type int", "def load_data()"),
            ("loader.py:number", "{}/loader.py:number returned int", "def load_data()"),
            ("loader.py:nothing", "{}/loader.py:nothing yielded zero samples", "def load_data()"),
            ("data.npy", "data loader script '{}/data.npy' is no Python script", "--calib or --data"),
        ],
    )
    def test_what_is_no_data_loader(self, script: Path, spec: str, says: str, hint: str) -> None:
        with pytest.raises(UserError) as caught:
            list(load_script(script.parent / spec))
        assert says.format(script.parent) in str(caught.value)
        assert hint in caught.value.hint


def test_csv_is_what_the_csv_module_writes(tmp_path: Path) -> None:
    np.save(tmp_path / 'a "b",\nc.npy', DATA[0])
    with (tmp_path / "d.csv").open("w", newline="") as file:
        csv.writer(file).writerows([["x"], ['a "b",\nc.npy']])
    check(list(open_source(tmp_path / "d.csv", [X])), x=DATA[:1])


def _readers(body: str, shape: str = "3, 8, 6", opset: int = 17) -> InputSpec:
    """The input of a model, as data must fit it."""
    text = f"""<ir_version: 8, opset_import: ["" : {opset}]> g (float[{shape}] x) => (float[a, b, c, d] y)
    <float[3, 1, 1] m = {{1, 2, 3}}, int64[1] o = {{0}}, int64[1] c = {{1}}> {{ {body} }}"""
    (spec,) = specs_of(Model.open(onnx.parser.parse_model(text)))
    return spec


def test_a_model_of_one_sample() -> None:
    """An image without a batch axis is one sample, whatever its number of channels."""
    one = _readers("s = Shape (x)  d = Sub (x, m)  y = Unsqueeze (d, o)")
    data = np.arange(144, dtype=np.float32).reshape(3, 8, 6)
    (sample,) = open_source({"x": data}, [one])
    np.testing.assert_array_equal(sample.feeds["x"], data)
    assert _readers("y = Unsqueeze <axes = [0]> (x)", opset=11).alone
    assert not _readers("y = Unsqueeze (x, c)", "1, 8, 6").alone  # a batch of one, without channels
    assert not _readers("d = Unsqueeze (x, o)  e = Unsqueeze (x, c)  y = MatMul (e, d)").alone
