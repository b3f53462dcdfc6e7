"""Bad samples: left out, counted and reported, while the others keep their indices."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from PIL import Image
from said import is_said

from onnxq.base.errors import UserError
from onnxq.data.samples import InputSpec
from onnxq.data.sources import Source, open_source
from onnxq.data.split import split

F4 = np.dtype(np.float32)
X = InputSpec("x", F4, ("N", 2, 3))
LEFT, RIGHT = InputSpec("left", F4, ("N", 2, 3)), InputSpec("right", F4, ("N", 2, 3))
DATA = np.arange(30, dtype=np.float32).reshape(5, 2, 3)


def with_bad(*bad: int, count: int = 5) -> np.ndarray:
    """Rows of their numbers; of some, a value is NaN."""
    rows = np.repeat(np.arange(count, dtype=np.float32), 6).reshape(count, 2, 3)
    rows[list(bad), 1, 1] = np.nan
    return rows


def numbers(source: Source) -> dict[int, list[float]]:
    """What the samples hold, by index."""
    return {sample.index: sample.feeds["x"][:, 0, 0].tolist() for sample in source}


def opened(data: object, *inputs: InputSpec) -> Source:
    return open_source(data, inputs or (X,), skip_bad=True)  # type: ignore[arg-type]


def ways(rows: np.ndarray, folder: Path) -> dict[str, object]:
    """The same rows in every form."""
    (folder / "npy").mkdir()
    (folder / "npz").mkdir()
    for index, row in enumerate(rows):
        np.save(folder / f"npy/{index}.npy", row)
        np.savez(folder / f"npz/{index}.npz", x=row)
    np.save(folder / "all.npy", rows)
    np.savez_compressed(folder / "all.npz", x=rows)
    (folder / "list.txt").write_text("".join(f"npy/{i}.npy\n" for i in range(len(rows))))
    (folder / "d.csv").write_text("x\n" + "".join(" ".join(map(str, row.ravel())) + "\n" for row in rows))
    paths = {name: folder / name for name in ("npy", "npz", "all.npy", "all.npz", "list.txt", "d.csv")}
    return {**paths, "array": {"x": rows}, "items": [{"x": row} for row in rows]}


def test_the_others_are_read_and_keep_their_indices(tmp_path: Path) -> None:
    for name, data in ways(with_bad(0, 3), tmp_path).items():
        source = opened(data)
        for _ in range(2):  # each is counted once
            assert numbers(source) == {1: [1], 2: [2], 4: [4]}, name
        assert source.count == 5
        assert [s.index for s in source.read([0, 2, 3])] == [2]
        told = source.told().to_dict()
        assert told["skipped"]["count"] == 2
        for (where, why), entry in zip(source.skipped, told["skipped"]["first"], strict=True):
            assert entry == {"where": where, "why": why}
            assert "[0, 1, 1]" in why
        assert is_said(told["notes"][-1], "left-out.samples", count=2)
        assert source.skipped[0][0] in told["notes"][-1]


def test_a_stream_of_them() -> None:
    source = opened({"x": row} for row in with_bad(1, 2))
    assert numbers(source) == {0: [0], 3: [3], 4: [4]}
    assert [where[:6] for where, _ in source.skipped] == ["item 1", "item 2"]


def test_without_it_the_first_one_ends_the_run(tmp_path: Path) -> None:
    for data in ways(with_bad(3), tmp_path).values():
        with pytest.raises(UserError, match="has nan") as caught:
            list(open_source(data, [X]))  # type: ignore[arg-type]
        assert caught.value.hint.endswith(" --skip-bad")


@pytest.mark.parametrize("good", [0, 1])
@pytest.mark.parametrize("kind", ["files", "items", "stream"])
def test_a_name_that_no_sample_has_is_no_bad_sample(tmp_path: Path, kind: str, good: int) -> None:
    """Leaving samples out helps only where others have the name."""
    items = [{"x" if index < good else "xx": DATA[index], "label": DATA[0]} for index in range(3)]
    for index, item in enumerate(items):
        np.savez(tmp_path / f"{index}.npz", **item)
    data = {"files": tmp_path, "items": items, "stream": iter(items)}[kind]
    with pytest.raises(UserError, match="there is no array named 'x'") as caught:
        list(open_source(data, [X]))  # type: ignore[arg-type]
    assert "did you mean 'xx'" in caught.value.hint
    assert ("--skip-bad" in caught.value.hint) == bool(good)


@settings(max_examples=60, deadline=None)
@given(
    count=st.integers(1, 12), batch=st.integers(1, 4), bad=st.sets(st.integers(0, 11)), stream=st.booleans()
)
def test_batches_are_made_of_good_rows(count: int, batch: int, bad: set[int], stream: bool) -> None:
    bad = {index for index in bad if index < count}
    rows = with_bad(*bad, count=count)
    spec = InputSpec("x", F4, (batch, 2, 3))
    source = opened(({"x": row} for row in rows) if stream else {"x": rows}, spec)
    expected = {}
    for index in range(-(-count // batch)):
        good = [n for n in range(index * batch, min(count, (index + 1) * batch)) if n not in bad]
        if good:
            expected[index] = [float(good[n % len(good)]) for n in range(batch)]
    if expected:
        assert numbers(source) == expected
    else:
        with pytest.raises(UserError, match=r"there is no good sample: .* left out"):
            list(source)
    assert source.told().skipped.count == len(bad)


def test_a_batch_of_rows_that_differ_in_shape() -> None:
    spec = InputSpec("x", F4, (2, None, 3))
    items = ({"x": np.ones((1, size, 3))} for size in (4, 4, 4, 5, 5))
    source = opened(items, spec)
    assert [sample.index for sample in source] == [0, 2]
    assert re.findall(r"item \d", source.skipped[0][0]) == ["item 2", "item 3"]
    assert "differ in shape" in source.skipped[0][1]


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    for index, row in enumerate(with_bad()):
        np.save(tmp_path / f"{index}.npy", row)
    (tmp_path / "1.npy").write_bytes(b"")
    np.save(tmp_path / "2.npy", np.zeros((2, 4), np.float32))
    source = opened(tmp_path)
    assert [Path(where).name for where, _ in source.skipped] == ["1.npy", "2.npy"]  # known when it is opened
    assert numbers(source) == {0: [0], 3: [3], 4: [4]}
    assert source.told().skipped.count == 2
    assert "truncated" in source.skipped[0][1]
    assert is_said(source.skipped[1][1], "other-sizes.one", have=4, want=3)


def test_images_that_cannot_be_read(tmp_path: Path) -> None:
    for index in range(4):
        Image.new("RGB", (8, 8), (index,) * 3).save(tmp_path / f"{index}.jpg", quality=100)
    (tmp_path / "0.jpg").write_bytes((tmp_path / "0.jpg").read_bytes()[:300])
    (tmp_path / "2.jpg").write_bytes(b"\xff\xd8\xff")
    spec = InputSpec("x", np.dtype(np.uint8), (1, 8, 8, 3))
    source = opened(tmp_path, spec)
    assert {sample.index: int(sample.feeds["x"].max()) for sample in source} == {1: 1, 3: 3}
    assert [Path(where).name for where, _ in source.skipped] == ["0.jpg", "2.jpg"]
    with pytest.raises(UserError, match=r"0\.jpg"):
        list(open_source(tmp_path, [spec]))


@pytest.mark.parametrize("suffix", ["npy", "png"])
def test_files_that_a_list_names_and_that_are_not_there(tmp_path: Path, suffix: str) -> None:
    np.save(tmp_path / "a.npy", DATA[0])
    Image.new("RGB", (3, 2)).save(tmp_path / "a.png")
    (tmp_path / "d.txt").write_text(f"b.{suffix}\na.{suffix}\n")
    (tmp_path / "d.csv").write_text(f"x\nb.{suffix}\na.{suffix}\n\na,b\n")
    spec = X if suffix == "npy" else InputSpec("x", F4, ("N", 3, 2, 3))
    for name, bad in (("d.txt", [":1"]), ("d.csv", [":2", ":5"])):
        source = opened(tmp_path / name, spec)
        assert [where for where, _ in source.skipped] == [f"{tmp_path / name}{line}" for line in bad]
        assert [sample.index for sample in source] == [1]
        assert source.told().skipped.count == len(bad)


def test_a_stream_of_bytes_that_breaks(tmp_path: Path) -> None:
    """What follows a break in a compressed file cannot be read; what comes before it can."""
    rows = np.random.default_rng(0).random((400, 2, 3), np.float32)
    np.savez_compressed(tmp_path / "d.npz", x=rows)
    content = bytearray((tmp_path / "d.npz").read_bytes())
    content[6000:6400] = bytes(400)
    (tmp_path / "d.npz").write_bytes(content)
    source = opened(tmp_path / "d.npz")
    good = list(source)
    assert 50 < len(good) < 400
    for sample in good[:50]:
        np.testing.assert_array_equal(sample.feeds["x"][0], rows[sample.index])
    assert source.told().skipped.count == 400 - len(good)
    assert len(source.skipped) == 20
    assert source.skipped[0][0].startswith(f"{tmp_path / 'd.npz'}[")


def test_of_several_inputs_one_is_bad(tmp_path: Path) -> None:
    for name, rows in (("left", with_bad(1)), ("right", with_bad(3))):
        (tmp_path / name).mkdir()
        for index, row in enumerate(rows):
            np.save(tmp_path / f"{name}/{index}.npy", row)
    (tmp_path / "right/4.npy").write_bytes(b"")
    source = opened(tmp_path, LEFT, RIGHT)
    for _ in range(2):
        assert [sample.index for sample in source] == [0, 2]
    assert sorted(where for where, _ in source.skipped) == [
        str(tmp_path / name) for name in ("left/1.npy", "right/3.npy", "right/4.npy")
    ]


def test_items_that_are_no_feeds() -> None:
    items = [{"x": DATA[0]}, [1], {"y": DATA[0]}, {"x": [[1], [1, 2]]}, {"x": DATA[4]}]
    source = opened(items)
    assert [sample.index for sample in source] == [0, 4]
    reasons = [why for _, why in source.skipped]
    for reason, says in zip(
        reasons, ("wrong rank", "no array named 'x'", "no array of numbers"), strict=True
    ):
        assert says in reason


@pytest.mark.parametrize("shape", [(4,), (4, 2, 3), ()])
def test_text_is_told_as_such(tmp_path: Path, shape: tuple[int, ...]) -> None:
    """Whatever its shape: it may be an array of paths."""
    text = np.full(shape, "a.png")
    np.savez(tmp_path / "d.npz", x=text)
    for data in ({"x": text}, tmp_path / "d.npz"):
        with pytest.raises(UserError, match=r"input 'x' is float32, the data is text \(<U5\)") as caught:
            list(open_source(data, [X]))  # type: ignore[arg-type]
        assert ".txt list" in caught.value.hint


class TestNothingLeft:
    def check(self, source: Source, says: str, hint: str) -> None:
        with pytest.raises(UserError, match="there is no good sample: 3 bad samples are left out") as caught:
            list(source)
        assert says in str(caught.value)
        assert hint in caught.value.hint

    def test_the_first_reason_is_given(self, tmp_path: Path) -> None:
        """A wrong name in all files is a mistake about the data, not about samples."""
        for index in range(3):
            np.savez(tmp_path / f"{index}.npz", xx=DATA[index], label=DATA[0])
        self.check(opened(tmp_path), "0.npz': there is no array named 'x'", "did you mean 'xx'")
        items = [{"xx": row} for row in DATA[:3]]
        self.check(opened(items), "item 0 of the data: there is no array named 'x'", "did you mean 'xx'?")
        self.check(opened(iter(items)), "item 0 of the data: there is no array", "did you mean 'xx'?")
        self.check(
            opened({"x": with_bad(0, 1, 2, count=3)}), "item 0 of the data[0]: input 'x' has nan", "remove"
        )

    def test_a_lone_file_says_what_is_wrong(self, tmp_path: Path) -> None:
        np.savez(tmp_path / "d.npz", xx=DATA, label=DATA)
        for skip_bad in (False, True):
            with pytest.raises(UserError, match="there is no array named 'x'") as caught:
                open_source(tmp_path / "d.npz", [X], skip_bad=skip_bad)
            assert "--skip-bad" not in caught.value.hint

    def test_no_data_at_all(self, tmp_path: Path) -> None:
        for data in ([], iter([]), tmp_path):
            with pytest.raises(UserError, match="zero samples"):
                list(opened(data))


def test_what_the_model_fails_on_is_counted_with_the_rest() -> None:
    source = opened({"x": with_bad(2)})
    list(source)
    for _ in range(2):
        source.skip("item 0 of the data[4]", "tensor 'y' is infinite")
    assert (source.skipped[1][0][-3:], "'y' is infinite" in source.skipped[1][1]) == ("[4]", True)
    assert source.told().skipped.count == 2
    assert is_said(source.notes[-1], "left-out.samples", count=2, first="item 0 of the data[2]")


def test_many_are_counted_and_few_are_kept() -> None:
    source = opened({"x": with_bad(*range(1, 60), count=60)})
    assert numbers(source) == {0: [0]}
    assert source.told().skipped.count == 59
    assert [where for where, _ in source.skipped] == [f"item 0 of the data[{i}]" for i in range(1, 21)]


class TestSplit:
    @settings(max_examples=100, deadline=None)
    @given(
        count=st.integers(2, 40),
        bad=st.sets(st.integers(0, 39)),
        seed=st.integers(0, 3),
        stream=st.booleans(),
    )
    @example(count=2, bad={0}, seed=0, stream=True)
    @example(count=2, bad={0}, seed=0, stream=False)
    @example(count=2, bad={1}, seed=0, stream=False)
    def test_one_good_sample_does(self, count: int, bad: set[int], seed: int, stream: bool) -> None:
        bad = {index for index in bad if index < count}
        good = set(range(count)) - bad
        rows = with_bad(*bad, count=count)
        source = opened(({"x": row} for row in rows) if stream else {"x": rows})
        halves = split(source, count, seed)
        if not good:
            with pytest.raises(UserError, match="no good sample"):
                list(halves.calibration())
            return
        calibration = [sample.index for sample in halves.calibration()]
        held_out = [sample.index for sample in halves.held_out()]
        assert calibration
        assert held_out
        assert set(calibration) | set(held_out) <= good
        assert halves.shared == bool(set(calibration) & set(held_out))

    def test_no_bad_ones_no_other_parts(self) -> None:
        rows = with_bad(count=40)
        for seed in range(5):
            plain = split(open_source({"x": rows}, [X]), 20, seed)
            skipping = split(opened({"x": rows}), 20, seed)
            for part in ("calibration", "held_out"):
                ours, theirs = ([s.index for s in getattr(half, part)()] for half in (skipping, plain))
                assert ours == theirs
