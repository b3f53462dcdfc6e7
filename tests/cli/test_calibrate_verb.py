"""Calibration on the command line: `calibrate`, the flags of `quantize`, `onnxq.toml`, refusals."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest
from command import OF_TWO_LAYERS, TWO_LAYERS, Ran, contents, made, weighted
from PIL import Image
from said import is_said

from onnxq.calib import stats_file
from onnxq.calib.stats_file import read
from onnxq.cli.app import app
from onnxq.cli.screen import in_words
from onnxq.cli.verb import Interrupted

pytestmark = pytest.mark.usefixtures("by_place")

COUNT = 16


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The test's folder with `net.onnx` and samples for it, in `npy` and `jpg`."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    random = np.random.default_rng(0)
    onnx.save(weighted(TWO_LAYERS, **OF_TWO_LAYERS), "net.onnx")
    for kind in ("npy", "jpg"):
        (tmp_path / kind).mkdir()
    for i in range(COUNT):
        np.save(f"npy/{i:02}.npy", random.standard_normal((1, 3, 8, 8)).astype(np.float32))
        Image.fromarray(random.integers(0, 256, (8, 8, 3), np.uint8)).save(f"jpg/{i:02}.jpg")
    return tmp_path


@pytest.fixture
def onnxq(capsys: pytest.CaptureFixture[str]) -> Callable[..., Ran]:
    """Runs `onnxq ARGUMENTS` in this process."""

    def run(*arguments: object) -> Ran:
        capsys.readouterr()
        code = app([str(argument) for argument in arguments], prog_name="onnxq", standalone_mode=False) or 0
        out, err = capsys.readouterr()
        return Ran(made(arguments, code, out), out, err)

    return run


CALIBRATE = ("calibrate", "net.onnx", "--calib", "npy")
QUANTIZE = ("quantize", "net.onnx", "--no-engine", "--repair", "none", "--json")


def calibration(ran: Ran) -> Any:
    assert ran.code == 0, ran.err
    return ran.json()["calibration"]


# -- calibrate -------------------------------------------------------------------------------------


def test_shards_and_their_merger(here: Path, onnxq) -> None:
    whole = onnxq(*CALIBRATE, "--json").json()
    names = [f"net.{i}-of-3.stats.npz" for i in (1, 2, 3)]
    for i in (1, 2, 3):
        ran = onnxq(*CALIBRATE, "--shard", f"{i}/3")
        assert f"{names[i - 1]}" in ran.out
        assert is_said(ran.out, "taken.shard", samples=4 if i == 3 else 5, all=14)
        assert "onnxq calibrate --merge" in ran.out
    merged = onnxq("calibrate", "--merge", *names[::-1], "-o", "all.npz", "--json").json()
    assert Path("all.npz").read_bytes() == Path("net.stats.npz").read_bytes()
    assert merged == {**whole, "file": "all.npz", "doubts": [], "looked_at": 0}  # no data are read
    assert (whole["samples"], whole["of"], whole["counting"]) == (14, 14, "sampled")
    assert {name for name, entry in whole["tensors"].items() if entry["counted"]} == {"x", "b"}
    models = [
        onnxq(*QUANTIZE, "--stats", stats, "--calib", "npy", "-o", f"{stats}.onnx") and
        Path(f"{stats}.onnx").read_bytes() for stats in ("all.npz", "net.stats.npz")
    ]  # fmt: skip
    assert models[0] == models[1]


def test_half_of_the_shards(here: Path, onnxq) -> None:
    for i in (1, 2, 3):
        assert onnxq(*CALIBRATE, "--shard", f"{i}/3", "-o", f"{i}.npz").code == 0
    ran = onnxq("calibrate", "--merge", "1.npz", "3.npz", "-o", "some.npz")
    gone = read(Path("2.npz")).stats.indices.tolist()
    assert ran.code == 0
    assert f"5 samples missing: {', '.join(map(str, gone))}\n" in ran.out
    assert "onnxq calibrate --merge some.npz OTHERS -o ALL.stats.npz" in ran.out
    stats = ("--stats", "some.npz", "--calib", "npy")
    ran = onnxq(*QUANTIZE, *stats)
    assert ran.code == 2
    assert is_said(ran.err, "partial-statistics", held=9, chosen=14)
    assert "partial = true under [calibration]" in ran.err
    Path("part.toml").write_text("[calibration]\npartial = true\n")
    stats = (*stats, "--config", "part.toml")
    assert onnxq(*QUANTIZE, *stats).json()["calibration"]["missing"] == gone
    page = onnxq(*QUANTIZE[:-1], *stats).out
    assert is_said(page, "partial-statistics", held=9, chosen=14)
    merged = onnxq("calibrate", "--merge", "2.npz", "some.npz", "-o", "all.npz", "--json").json()
    assert merged["missing"] == []
    assert onnxq(*QUANTIZE, "--stats", "all.npz", "--calib", "npy").code == 0


def test_a_shard_without_samples(here: Path, onnxq) -> None:
    ran = onnxq(*CALIBRATE, "--shard", "15/15")
    assert (ran.code, is_said(ran.out, "taken.shard", samples=0, all=14)) == (0, True), ran.err
    assert read(Path("net.15-of-15.stats.npz")).stats.samples == 0


def test_what_is_left_out_as_bad_is_told(here: Path, onnxq) -> None:
    spoil(0)
    ran = onnxq(*CALIBRATE, "--skip-bad")
    assert is_said(ran.out, "taken.shard", samples=13, all=14)
    assert is_said(ran.out, "taken.bad", why="npy/00.npy: input 'x' has nan")
    assert "\n  onnxq quantize MODEL --stats net.stats.npz" in ran.out
    assert read(Path("net.stats.npz")).skipped[0][0] == "npy/00.npy"


def test_exact_and_seed(here: Path, onnxq) -> None:
    Path("onnxq.toml").write_text("[calibration]\nexact = true\n")
    first = onnxq(*CALIBRATE, "--samples", 4, "--json").json()
    Path("onnxq.toml").write_text("[calibration]\nseed = 5\n")
    second = onnxq(*CALIBRATE, "--samples", 4, "--json").json()
    assert (first["counting"], first["samples"]) == ("exact", 4)
    assert (second["counting"], second["samples"]) == ("sampled", 4)
    assert first["data_hash"] != second["data_hash"]
    assert first["tensors"]["x"]["counted"] == first["tensors"]["x"]["values"] == 4 * 3 * 8 * 8


def test_the_page(here: Path, onnxq, monkeypatch: pytest.MonkeyPatch) -> None:
    page = onnxq(*CALIBRATE).out
    assert is_said(page, "taken.verify", samples="14 of 16 samples", others="others")
    assert is_said(page, "taken.whole")
    monkeypatch.setattr("onnxq.calib.probes.SAMPLED", 1000)
    page = onnxq(*CALIBRATE).out  # 10,240 values of b are counted in 8 runs of its rows
    least = min(t.histogram.total for t in read(Path("net.stats.npz")).stats.tensors.values() if t.histogram)
    assert 1000 <= least < 1920
    assert is_said(page, "taken.some", number=f"{least:,}")


def test_quiet(here: Path, onnxq) -> None:
    for arguments in ((*CALIBRATE, "-o", "a.npz"), ("calibrate", "--merge", "a.npz", "-o", "b.npz")):
        assert onnxq(*arguments, "-q") == Ran(0, "", "")


@pytest.mark.parametrize("flags", [(), ("--json",)])
def test_an_interruption_and_what_follows(
    here: Path, onnxq, flags: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = stats_file.digest
    run: list[int] = []

    def stop(sample: Any) -> bytes:
        if len(run) == 4:
            raise Interrupted
        run.append(sample.index)
        return plain(sample)

    with monkeypatch.context() as patch:
        patch.setattr(stats_file, "digest", stop)
        ran = onnxq(*CALIBRATE, *flags)
    assert ran.code == 130
    hint = "what was done is kept (4 samples): repeat the command to go on"
    assert ran.err.endswith(f"error: interrupted\nhint: {hint}\n")
    if flags:
        assert ran.json()["error"]["hint"] == hint
    ran = onnxq(*CALIBRATE)
    assert ran.err.splitlines()[-2:] == ["onnxq: going on after 4 samples", f"onnxq: {in_words('calibrate')}"]
    assert (ran.code, read(Path("net.stats.npz")).stats.samples) == (0, 14)


def test_an_interruption_before_the_first_sample(here: Path, onnxq, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(sample: Any) -> bytes:
        raise Interrupted

    monkeypatch.setattr(stats_file, "digest", stop)
    ran = onnxq(*CALIBRATE)
    assert (ran.code, ran.err.splitlines()[-1]) == (130, "error: interrupted")


SCRIPT = """import numpy as np
def load_data():
    for path in sorted(__import__("glob").glob("npy/*.npy")):
        yield {"x": np.load(path)}
"""


def test_a_script(here: Path, onnxq) -> None:
    """It can be read once: in one go, by one process."""
    Path("ld.py").write_text(SCRIPT)
    calibrate = ("calibrate", "net.onnx", "--calib", "ld.py")
    ran = onnxq(*calibrate, "-o", "s.npz")
    assert (ran.code, "onnxq quantize MODEL --stats s.npz\n" in ran.out) == (0, True), ran.err
    assert "Samples    14 samples\n" in ran.out
    file = read(Path("s.npz"))
    assert file.stats.indices.tolist() == [i for i in range(COUNT) if i % 8]
    assert (file.origin.samples, file.origin.available) == (14, None)
    x = np.concatenate([np.load(f"npy/{i:02}.npy") for i in range(COUNT) if i % 8])
    entry = file.stats.tensors["x"]
    assert (entry.min, entry.max, entry.size) == (x.min(), x.max(), x.size)
    assert onnxq(*QUANTIZE, "--stats", "s.npz").json()["calibration"]["samples"] == 14
    assert onnxq(*calibrate, "-o", "few.npz", "--samples", 5, "--json").json()["samples"] == 5
    before = contents(here)
    for flag, value in (("--shard", "1/2"), ("--workers", "2")):
        ran = onnxq(*calibrate, flag, value)
        assert (ran.code, f"{flag} {value} cannot" in ran.err) == (2, True)
    assert contents(here) == before


def test_bad_samples_of_a_script(here: Path, onnxq) -> None:
    Path("ld.py").write_text(SCRIPT)
    calibrate = ("calibrate", "net.onnx", "--calib", "ld.py", "--json")
    spoil(5)
    spoil(9, 3e38)  # its convolution is infinite
    assert onnxq(*calibrate).code == 2
    ran = onnxq(*calibrate, "--skip-bad")
    assert (ran.json()["samples"], len(ran.json()["skipped"])) == (12, 2)
    for number in range(COUNT):
        spoil(number)
    assert "no good sample" in onnxq(*calibrate, "--skip-bad").err


# -- onnxq.toml ------------------------------------------------------------------------------------


TOML = """target = "tensorrt-8.6"
[calibration]
data = "npy"
method = "entropy"
samples = 6
[[layer]]
op = "Conv"
match = "c2"
method = "minmax"
because = "it is small"
"""


def test_the_file_of_the_working_directory(here: Path, onnxq) -> None:
    Path("onnxq.toml").write_text(TOML)
    ran = onnxq(*QUANTIZE)
    found = calibration(ran)
    assert (ran.json()["target"], ran.json()["config"]) == ("tensorrt-8.6", "onnxq.toml")
    assert (found["method"], found["samples"]) == ("entropy", 6)
    assert {name: entry["because"] for name, entry in found["thresholds"].items()} == {
        "x": "entropy", "b": "minmax, [[layer]] 1: it is small"
    }  # fmt: skip
    assert onnxq("calibrate", "net.onnx", "--json").json()["samples"] == 6


def test_flags_win(here: Path, onnxq) -> None:
    Path("onnxq.toml").write_text(TOML.replace('"npy"', '"nowhere"'))
    flags = ("--calib", "npy", "--method", "mse", "--samples", 5, "--target", "tensorrt-10")
    ran = onnxq(*QUANTIZE, *flags)
    found = calibration(ran)
    assert (ran.json()["target"], found["method"], found["samples"]) == ("tensorrt-10", "mse", 5)
    assert found["thresholds"]["b"]["because"].startswith("minmax, [[layer]] 1")


@pytest.mark.parametrize(
    ("text", "flags", "method"),
    [
        ("percentile = 90", (), "percentile 90"), ("constant = 0.5", (), "average 0.5"),
        ("percentile = 90", ("--method", "percentile"), "percentile 90"),
        ("percentile = 90", ("--method", "minmax"), "minmax"),
    ],
)  # fmt: skip
def test_a_parameter_says_which_method(
    here: Path, onnxq, text: str, flags: Sequence[Any], method: str
) -> None:
    Path("mine.toml").write_text(f"[calibration]\n{text}\n")
    ran = onnxq(*QUANTIZE, "--calib", "npy", "--config", "mine.toml", *flags)
    assert calibration(ran)["method"] == method
    assert ran.json()["config"] == "mine.toml"


def test_a_parameter_beside_another_method_is_refused_in_a_file_too(here: Path, onnxq) -> None:
    Path("mine.toml").write_text('[calibration]\nmethod = "minmax"\npercentile = 90\n')
    ran = onnxq(*QUANTIZE, "--calib", "npy", "--config", "mine.toml")
    assert ran.code == 2
    assert "'mine.toml' percentile" in ran.out + ran.err


def test_paths_are_relative_to_the_file(here: Path, onnxq) -> None:
    (here / "settings").mkdir()
    (here / "npy").rename(here / "settings/npy")
    Path("settings/a.toml").write_text(TOML)
    assert calibration(onnxq(*QUANTIZE, "--config", "settings/a.toml"))["samples"] == 6


def test_a_preset_of_the_file(here: Path, onnxq) -> None:
    Path("onnxq.toml").write_text('[calibration]\npreset = "tensorflow"\ndata = "jpg"\nskip_bad = true\n')
    cut()
    found = calibration(onnxq(*QUANTIZE))
    assert found["data"]["images"][0]["preset"] == "tensorflow"
    assert found["data"]["skipped"]["count"] == 1
    assert calibration(onnxq(*QUANTIZE, "--preset", "raw"))["data"]["images"][0]["range"] == [0, 255]


def test_a_mistake_in_the_file(here: Path, onnxq) -> None:
    Path("onnxq.toml").write_text("[calibration]\nmethod = 'emtropy'\n")
    for arguments in (QUANTIZE, CALIBRATE):
        ran = onnxq(*arguments)
        assert ran.code == 2
        assert "'onnxq.toml', line 2: " in ran.err
        assert "'entropy'" in ran.err


# -- search and caches -----------------------------------------------------------------------------


def test_search(here: Path, onnxq) -> None:
    Path("onnxq.toml").write_text("[calibration]\nsearch = true\n")
    found = calibration(onnxq(*QUANTIZE, "--calib", "npy"))
    assert found["method"].startswith("search: percentile ")
    assert {trial["method"].split()[0] for trial in found["choice"]["trials"]} == {"percentile"}
    assert calibration(onnxq(*QUANTIZE, "--calib", "npy", "--method", "mse"))["method"] == "mse"
    Path("onnxq.toml").write_text('[calibration]\nsearch = true\nmethod = "mse"\n')
    ran = onnxq(*QUANTIZE, "--calib", "npy")
    assert (ran.code, "mse and search exclude" in ran.err) == (2, True)


def test_a_cache_in_and_out(here: Path, onnxq) -> None:
    ran = onnxq(*QUANTIZE, "--calib", "npy", "--target", "tensorrt-7", "-o", "seven.onnx")
    assert ran.json()["files"] == ["seven.onnx", "seven.cache", "seven.report.json", "seven.report.html"]
    assert not {"QuantizeLinear"} & {node.op_type for node in onnx.load("seven.onnx").graph.node}
    found = calibration(onnxq(*QUANTIZE, "--stats", "seven.cache"))
    assert found["scales"] == ran.json()["calibration"]["scales"]
    Path("onnxq.toml").write_text("[format]\ncache = true\n")
    both = onnxq(*QUANTIZE, "--calib", "npy", "--target", "tensorrt-8.6").json()
    assert both["files"] == [
        "net.int8.onnx",
        "net.int8.cache",
        "net.int8.report.json",
        "net.int8.report.html",
    ]
    assert json.loads(Path("net.int8.report.json").read_text())["calibration"]["cached"] == 4


def test_the_users_cache_stays(here: Path, onnxq) -> None:
    """It is refused before any sample is read, and is in nobody's way where none is written."""
    Path("net.int8.cache").write_text("mine")
    ran = onnxq("quantize", "net.onnx", "--calib", "npy", "--target", "tensorrt-7")
    assert ran.code == 2
    assert "'net.int8.cache' exists" in ran.err
    assert in_words("load") not in ran.err
    assert onnxq(*QUANTIZE, "--calib", "npy").code == 0
    assert Path("net.int8.cache").read_text() == "mine"


# -- what is refused -------------------------------------------------------------------------------


def cut() -> None:
    file = Path("jpg/05.jpg")
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


def spoil(number: int = 5, value: float = np.nan) -> None:
    x = np.load(f"npy/{number:02}.npy")
    x[0, 1, 4, 4] = value
    np.save(f"npy/{number:02}.npy", x)


def smaller() -> None:
    np.save("npy/05.npy", np.ones((1, 3, 4, 8), np.float32))


BAD: dict[str, tuple[Callable[[], Any], str, str]] = {
    "corrupt-jpeg": (cut, "jpg", "'jpg/05.jpg' (input 'x') is a corrupt image"),
    "nan": (spoil, "npy", "npy/05.npy: input 'x' has nan at index [0, 1, 4, 4]"),
    "infinite": (lambda: spoil(value=-np.inf), "npy", "npy/05.npy: input 'x' has -inf at index [0, 1, 4, 4]"),
    "another-shape": (smaller, "npy", "npy/05.npy: input 'x' takes Nx3x8x8"),
}


@pytest.mark.parametrize(("prepare", "path", "says"), BAD.values(), ids=BAD)
def test_a_bad_sample(here: Path, onnxq, prepare: Callable[[], Any], path: str, says: str) -> None:
    """It is refused; or left out, by a run that goes on where the refused one was."""
    prepare()
    before = contents(here)
    for verb in ("calibrate", "quantize"):
        ran = onnxq(verb, "net.onnx", "--calib", path, "--samples", 100)
        assert (ran.code, ran.out) == (2, "")
        assert f"error: {says}" in ran.err
        assert "--skip-bad" in ran.err
        assert "Traceback" not in ran.err
    assert {n: h for n, h in contents(here).items() if n != "net.stats.npz.part-1"} == before
    found = calibration(onnxq(*QUANTIZE, "--calib", path, "--skip-bad"))
    assert found["data"]["skipped"]["count"] == 1
    assert found["samples"] == 13
    told = onnxq("calibrate", "net.onnx", "--calib", path, "--skip-bad", "--json").json()
    assert (told["samples"], told["of"], len(told["skipped"])) == (13, 14, 1)
    assert not Path("net.stats.npz.part-1").exists()
    goes_on = Path("net.stats.npz").read_bytes()
    assert onnxq("calibrate", "net.onnx", "--calib", path, "--skip-bad").code == 0
    assert Path("net.stats.npz").read_bytes() == goes_on


REFUSED: dict[str, tuple[tuple[Any, ...], tuple[str, ...]]] = {
    "empty-folder": (("calibrate", "net.onnx", "--calib", "empty"), ("'empty'", "zero samples")),
    "input-name": (("calibrate", "net.onnx", "--calib", "named.npz"), ("named.npz", "'x'", "xx")),
    "method": ((*QUANTIZE, "--calib", "npy", "--method", "emtropy"), ("'emtropy'", "did you mean 'entropy'")),
    "stats-garbage": ((*QUANTIZE, "--stats", "net.onnx"), ("'net.onnx' holds no statistics",)),
    "stats-missing": ((*QUANTIZE, "--stats", "no.npz"), ("cannot read 'no.npz'",)),
    "stats-arrays": ((*QUANTIZE, "--stats", "named.npz"), ("'named.npz' holds no", "it has no 'meta'")),
    "cache-garbage": ((*QUANTIZE, "--stats", "bad.cache"), ("'bad.cache', line 2: 'x: zzz'",)),
    "cache-and-11": ((*QUANTIZE, "--calib", "npy", "--config", "cache.toml"),
                     ("TensorRT 11 reads no calibration caches",)),
    "no-data": ((*QUANTIZE,), ("no data is given", "--calib")),
    "merge-where": (("calibrate", "--merge", "a.npz", "b.npz"), ("is not said", "give -o ALL.stats.npz")),
    "merge-model": (("calibrate", "--merge", "net.onnx", "-o", "o.npz"), ("it is no .npz archive",)),
    "merge-cache": (("calibrate", "--merge", "bad.cache", "-o", "o"), ("'bad.cache' is a calibration",)),
    "merge-itself": (("calibrate", "--merge", "named.npz", "-o", "./named.npz"), ("is one of the files to",)),
    "merge-garbage": (("calibrate", "--merge", "named.npz", "-o", "o.npz"), ("'named.npz' holds no",)),
    "two-models": (("calibrate", "net.onnx", "b.onnx", "--calib", "npy"), ("2 models", "--merge to merge")),
    "shard-5": ((*CALIBRATE, "--shard", "5/4"), ("there is no shard 5/4", "1/4 to 4/4")),
    "shard-0": ((*CALIBRATE, "--shard", "0/4"), ("there is no shard 0/4",)),
    "shard-of-0": ((*CALIBRATE, "--shard", "1/0"), ("there is no shard 1/0", "as in 1/4")),
    "shard-form": ((*CALIBRATE, "--shard", "1of4"), ("--shard '1of4' is not understood", "1/4")),
    "partial-what": ((*QUANTIZE, "--calib", "npy", "--config", "partial.toml"),
                     ("needs statistics", "give --stats FILE")),
    "workers-0": ((*CALIBRATE, "--workers", 0), ("0 workers are too few", "at least 1")),
    "samples-0": ((*CALIBRATE, "--samples", 0), ("0 calibration samples", "at least 1")),
    "output-is-input": ((*CALIBRATE, "-o", "net.onnx"), ("'net.onnx' is the input",)),
    "output-is-input-forced": ((*CALIBRATE, "-o", "net.onnx", "--force"), ("'net.onnx' is the input",)),
    "output-exists": ((*CALIBRATE, "-o", "named.npz"), ("'named.npz' exists", "did not write it", "--force")),
    "output-no-folder": ((*CALIBRATE, "-o", "no/x.npz"), ("no folder 'no'",)),
    "merge-exists": (("calibrate", "--merge", "a.npz", "-o", "named.npz"), ("'named.npz' exists",)),
}  # fmt: skip


@pytest.mark.parametrize(("arguments", "says"), REFUSED.values(), ids=REFUSED)
def test_is_refused(here: Path, onnxq, arguments: tuple[Any, ...], says: tuple[str, ...]) -> None:
    Path("empty").mkdir()
    Path("bad.cache").write_text("TRT-8601-EntropyCalibration2\nx: zzz\n")
    Path("cache.toml").write_text("[format]\ncache = true\n")
    Path("partial.toml").write_text("[calibration]\npartial = true\n")
    np.savez("named.npz", xx=np.ones((4, 3, 8, 8), np.float32), other=np.ones(4))
    before = contents(here)
    ran = onnxq(*arguments)
    assert ran.code == 2, ran.err
    assert ran.err.splitlines()[-2].startswith("error: ")
    assert ran.err.splitlines()[-1].startswith("hint: ")
    for part in says:
        assert part in ran.err
    assert "Traceback" not in ran.err
    assert "allow_pickle" not in ran.err
    assert contents(here) == before


@pytest.mark.parametrize("flags", [("--shard", "1/0"), ("--shard", "3/2"), ("--workers", 0)])
def test_a_division_is_refused_before_anything_is_read(here: Path, onnxq, flags: tuple[Any, ...]) -> None:
    ran = onnxq("calibrate", "no.onnx", "--calib", "npy", *flags)
    assert ran.code == 2
    assert "no.onnx" not in ran.err


def test_a_file_of_the_users_in_the_place_of_a_checkpoint(here: Path, onnxq) -> None:
    Path("net.stats.npz.part-1").write_text("mine")
    Path("net.stats.npz.part-time").write_text("mine, and in nobody's way")
    before = contents(here)
    ran = onnxq(*CALIBRATE)
    assert (ran.code, "'net.stats.npz.part-1'" in ran.err) == (2, True)
    assert in_words("sanitize") not in ran.err
    assert contents(here) == before
    Path("net.stats.npz.part-1").unlink()
    assert onnxq(*CALIBRATE).code == 0
    assert Path("net.stats.npz.part-time").exists()


def test_the_hint_for_what_is_to_be_merged(here: Path, onnxq) -> None:
    Path("x.cache").write_text("TRT-8601-EntropyCalibration2\nx: 3c010a14\n")
    for path in ("x.cache", "net.onnx"):
        ran = onnxq("calibrate", "--merge", path, "-o", "o.npz")
        assert ran.err.splitlines()[-1].startswith("hint: ")


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="needs a folder in which nobody can write")
def test_a_folder_that_cannot_be_written(here: Path, onnxq) -> None:
    for arguments, path in ((CALIBRATE, "/proc/x.npz"), (QUANTIZE, "/proc/x.onnx")):
        ran = onnxq(*arguments, "--calib", "npy", "-o", path)
        assert ran.code == 2
        assert f"cannot write '{path}'" in ran.err
        assert "calibrate" not in ran.err.replace("onnxq calibrate", "")  # before any sample is run


def test_statistics_of_other_data_or_another_model(here: Path, onnxq) -> None:
    assert onnxq(*CALIBRATE).code == 0
    ran = onnxq(*QUANTIZE, "--stats", "net.stats.npz", "--calib", "jpg")
    assert (ran.code, "sample 0 (jpg/00.jpg)" in ran.err) == (2, True)
    spoil(0, 7.0)
    ran = onnxq(*QUANTIZE, "--stats", "net.stats.npz", "--calib", "npy")
    assert (ran.code, "sample 0 (npy/00.npy)" in ran.err) == (2, True)
    model = onnx.load("net.onnx")
    model.graph.node[0].doc_string = "new"
    onnx.save(model, "net.onnx")
    ran = onnxq(*QUANTIZE, "--stats", "net.stats.npz")
    assert (ran.code, "statistics of another model" in ran.err) == (2, True)


def test_an_earlier_file_is_replaced_and_other_shards_are_not(here: Path, onnxq) -> None:
    assert onnxq(*CALIBRATE).code == 0
    shutil.copy("net.stats.npz", "before.npz")
    assert onnxq(*CALIBRATE, "--samples", 5).code == 0
    assert Path("net.stats.npz").read_bytes() != Path("before.npz").read_bytes()
    assert not [name for name in os.listdir() if "part-" in name]
    ran = onnxq("calibrate", "--merge", "net.stats.npz", "before.npz", "-o", "all.npz")
    assert ran.code == 2
    assert "(5 and 14)" in ran.err
