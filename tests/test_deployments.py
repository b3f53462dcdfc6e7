"""A run decides for the sizes of the deployment, not for those of the sample that is read first."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from said import is_said

import onnxq
from benchmarks.nets.mobile import mobilenet_v2, mobilenet_v3
from benchmarks.nets.transformer import bert
from onnxq.base.errors import UserError
from onnxq.options.config import load_config
from onnxq.options.settings import Inputs
from onnxq.run import trt

COUNT = 40
QUICK: dict[str, Any] = {"compile": False, "repair": "none", "prove": "never", "layer_samples": 0}


@pytest.fixture(scope="module")
def encoder() -> onnx.ModelProto:
    """Three layers; texts of any length up to 32 tokens."""
    return bert(small=True)


@pytest.fixture(scope="module")
def texts() -> list[dict[str, np.ndarray]]:
    random = np.random.default_rng(0)
    lengths = random.integers(3, 33, COUNT)
    return [
        {"input_ids": random.integers(0, 1000, (1, n)), "attention_mask": np.ones((1, n), np.int64)}
        for n in lengths
    ]


def written(folder: Path, samples: list[dict[str, np.ndarray]], seed: int) -> Path:
    """A folder of the samples under names in a random order."""
    folder.mkdir()
    for name, index in enumerate(np.random.default_rng(seed).permutation(len(samples))):
        np.savez(folder / f"{name:02}.npz", **samples[index])  # type: ignore[arg-type]
    return folder


def made(model: onnx.ModelProto, data: Any, **options: Any) -> bytes:
    result = onnxq.quantize(model, data, **{**QUICK, **options})
    return result.model.SerializeToString(deterministic=True) + repr(result.profiles).encode()


@pytest.mark.parametrize("repair", ["none", "auto"])
def test_the_order_of_the_samples_changes_no_byte(
    encoder: onnx.ModelProto, texts: list[dict[str, np.ndarray]], tmp_path: Path, repair: str
) -> None:
    """In two orders here; in twenty: `test_twenty_orders`."""
    one, other = (
        made(encoder, written(tmp_path / f"{seed}", texts, seed), repair=repair, samples=24)
        for seed in (1, 2)
    )
    assert one == other


def test_twenty_orders(texts: list[dict[str, np.ndarray]], encoder: onnx.ModelProto, tmp_path: Path) -> None:
    found = {made(encoder, written(tmp_path / f"{seed}", texts, seed)) for seed in range(20)}
    assert len(found) == 1


def test_samples_of_an_iterator_are_in_the_order_given_and_that_is_said(
    encoder: onnx.ModelProto, texts: list[dict[str, np.ndarray]]
) -> None:
    report = onnxq.quantize(encoder, iter(texts), **QUICK).report
    assert is_said(report["calibration"]["data"]["notes"], "decided-by-order.once")


def test_sizes_of_an_iterator_are_those_of_all_its_samples(
    encoder: onnx.ModelProto, texts: list[dict[str, np.ndarray]]
) -> None:
    """The first one that calibrates tells what is usual. The range in the report is that of the profile."""
    result = onnxq.quantize(encoder, iter(texts), **QUICK)
    lengths = {sample["input_ids"].shape[1] for sample in texts}
    (length,) = [one for one in result.report["deployment"]["dimensions"] if not one["batch"]]
    assert (length["smallest"], length["largest"]) == (min(lengths), max(lengths))
    assert length["usual"] == texts[1]["input_ids"].shape[1]  # the very first one verifies
    low, _, high = result.profiles["input_ids"]
    assert (low[1], high[1]) == (min(lengths), max(lengths))


def share(model: onnx.ModelProto, data: Any, **options: Any) -> float | None:
    plan = onnxq.quantize(model, data, **{**QUICK, **options}).report["plan"]
    found: float | None = plan["int8_share_of_all_macs"]
    return found


@pytest.mark.parametrize("net", [mobilenet_v2, mobilenet_v3])
def test_what_is_in_int8_is_decided_for_the_batch(net: Callable[..., onnx.ModelProto]) -> None:
    """And by a profile as by a shape."""
    model = net(small=True, size=64)
    images = [{"x": np.random.default_rng(n).random((1, 3, 64, 64), np.float32)} for n in range(8)]
    assumed = onnxq.quantize(model, images, **QUICK)
    plan, deployment = assumed.report["plan"], assumed.report["deployment"]
    (batch,) = deployment["dimensions"]
    assert batch == {
        "name": "N", "smallest": 1, "usual": 1, "largest": 1, "origin": "assumed", "batch": True,
    }  # fmt: skip
    profile = ((1, 3, 64, 64), (16, 3, 64, 64), (32, 3, 64, 64))
    by_batch = share(model, images, batch=(1, 16, 32))
    assert by_batch == share(model, images, profiles={"x": profile})
    assert by_batch == share(model, images, shapes={"x": (16, 3, 64, 64)})
    stated = onnxq.quantize(model, images, batch=(8, 8, 8), **QUICK)
    assert stated.profiles == {"x": ((8, 3, 64, 64),) * 3}  # not the 1 of the samples
    assert by_batch is not None
    assert by_batch > plan["int8_share_of_all_macs"] + 0.05
    usual, at_16 = deployment["worth"]
    assert (usual["at"], at_16["at"]) == ("the usual sizes", "a batch of 16")
    assert usual["share"] == pytest.approx(plan["int8_share_of_all_macs"], abs=0.02)
    assert at_16["share"] == pytest.approx(by_batch, abs=0.02)


def test_sizes_that_nobody_stated_and_at_which_the_model_does_not_run_are_left_out() -> None:
    """Those of one input do not go with those of the other."""
    model = onnx.parser.parse_model(
        """<ir_version: 8, opset_import: ["" : 17]>
        g (float[a, 32] x, float[b, 32] y) => (float[c, 32] z) { s = Add (x, y)  z = MatMul (s, w) }"""
    )
    weights = np.random.default_rng(0).standard_normal((32, 32)).astype(np.float32)
    model.graph.initializer.append(onnx.numpy_helper.from_array(weights, "w"))
    random = np.random.default_rng(1)
    data = [
        {"x": random.random((a, 32), np.float32), "y": random.random((b, 32), np.float32)}
        for a, b in [(1, 9), (9, 1), (9, 9), (5, 5), (5, 1)]
    ]
    result = onnxq.quantize(model, data, **QUICK)
    assert result.profiles["x"][0] == (1, 32)  # 1 and 1 run
    stated = {"x": ((1, 32), (1, 32), (4, 32)), "y": ((1, 32), (1, 32), (3, 32))}
    with pytest.raises(UserError, match="the model does not run at the largest sizes, x=4x32, y=3x32"):
        onnxq.quantize(model, data, profiles=stated, **QUICK)


@pytest.mark.parametrize(
    ("options", "says", "hint"),
    [
        ({"batch": (1, 2, 3), "shapes": {"input_ids": (1, "S"), "attention_mask": (1, "S")}},
         "--batch 1:2:3: no input has a dynamic batch", "with a dynamic batch"),
        ({"profiles": {"input_ids": ((1, 4), (1, 8), (1, 2))}}, "is not min <= opt <= max", "MIN:OPT:MAX"),
        ({"profiles": {"ids": ((1, 4),) * 3}}, "no input 'ids'", "did you mean 'input_ids'"),
        ({"batch": "many"}, "batch", ""),
    ],
)  # fmt: skip
def test_sizes_that_make_no_sense_are_refused_before_the_data_are_read(
    encoder: onnx.ModelProto, options: dict[str, Any], says: str, hint: str
) -> None:
    def data() -> Any:
        raise AssertionError
        yield {}

    with pytest.raises(UserError, match=says) as caught:
        onnxq.quantize(encoder, data(), **QUICK, **options)
    assert hint in (caught.value.hint or "")


# -- several ---------------------------------------------------------------------------------------

WIDE = 64
DECODE, PREFILL = ((1, 1, WIDE),) * 3, ((1, 32, WIDE), (1, 48, WIDE), (1, 64, WIDE))
PHASES = {"decode/x": DECODE, "prefill/x": PREFILL}


def two_layers(*, places: bool = False) -> onnx.ModelProto:
    """Two products of rows, as many as a text has tokens; with `places`, which are added, no more than 64."""
    before = """shape = Shape (x)  rows = Slice (shape, one, two)  last = Squeeze (rows)
            at = Range (nil, last, step)  places = Gather (table, at)  p = Add (x, places)"""
    model = onnx.parser.parse_model(
        f"""<ir_version: 8, opset_import: ["" : 17]>
        g (float[N, S, 64] x) => (float[N, S, 64] y) <int64[1] one = {{1}}, int64[1] two = {{2}}> {{
            {before if places else "p = Relu (x)"}
            [first] h = MatMul (p, w)  r = Relu (h)  [second] y = MatMul (r, v) }}"""
    )
    random = np.random.default_rng(0)
    constants = {
        "w": random.standard_normal((WIDE, 256)) / 8, "v": random.standard_normal((256, WIDE)) / 16,
        "table": random.standard_normal((64, WIDE)),
    }  # fmt: skip
    made = {name: value.astype(np.float32) for name, value in constants.items()}
    made |= {"nil": np.array(0), "step": np.array(1)}
    model.graph.initializer.extend(onnx.numpy_helper.from_array(value, name) for name, value in made.items())
    onnx.checker.check_model(model)
    return model


def rows_of(*lengths: int) -> list[dict[str, np.ndarray]]:
    random = np.random.default_rng(1)
    return [{"x": random.standard_normal((1, n, WIDE)).astype(np.float32)} for n in lengths]


LENGTHS = (*[1] * 8, 40, 60, 50, 64, 33, 35, 47, 52)


def test_weights_change_the_plan() -> None:
    """A product of one row gains nothing from int8: where most of the work is of such, it stays float."""

    def plan(**weights: float) -> dict[str, Any]:
        found = onnxq.quantize(
            two_layers(), rows_of(*LENGTHS), profiles=PHASES, profile_weights=weights or None, **QUICK
        )
        return found.report

    equal, rows = plan(), plan(decode=0.9)
    assert [layer["format"] for layer in equal["plan"]["layers"]] == ["int8", "int8"]
    assert [layer["format"] for layer in rows["plan"]["layers"]] == ["float", "float"]
    why = [entry["because"] for entry in rows["plan"]["kept_float"] if entry["op"] == "MatMul"]
    assert why[0].startswith("rows: 1 in decode, 48")
    told = [(one["name"], one["is_weight_assumed"], one["samples"]) for one in equal["deployments"]]
    assert told == [("decode", True, 8), ("prefill", True, 8)]
    assert [one["weight"] for one in rows["deployments"]] == pytest.approx([0.9, 0.1])
    shares = [[one["share"] for one in deployment["worth"]] for deployment in equal["deployments"]]
    assert shares == [[0.0], [1.0, 1.0, 1.0]]


def test_multiply_accumulates_are_those_of_all_deployments_by_their_shares() -> None:
    """Those of one inference of each, 1 and 48 rows: their mean by the shares, whatever the sizes are."""
    report = onnxq.quantize(
        two_layers(), rows_of(*LENGTHS), profiles=PHASES, profile_weights={"decode": 0.25}, **QUICK
    ).report
    one = WIDE * 256
    assert [layer["macs"] for layer in report["plan"]["layers"]] == [round((0.25 + 0.75 * 48) * one)] * 2


def test_sizes_that_inference_leaves_open_are_those_of_a_sample_of_each() -> None:
    """Of one row and of many: what is added to one row may have more."""
    report = onnxq.quantize(
        two_layers(places=True), rows_of(*LENGTHS), profiles=PHASES, profile_weights={"decode": 0.25}, **QUICK
    ).report
    macs = [layer["macs"] for layer in report["plan"]["layers"]]
    assert macs == [round((0.25 + 0.75 * 48) * WIDE * 256)] * 2


def test_one_deployment_with_a_name_is_as_one_without() -> None:
    data = rows_of(*LENGTHS[8:])
    bare = onnxq.quantize(two_layers(), data, profiles={"x": PREFILL}, **QUICK)
    named = onnxq.quantize(two_layers(), data, profiles={"prefill/x": PREFILL}, **QUICK)
    assert bare.model.SerializeToString() == named.model.SerializeToString()
    assert bare.report["deployments"] == []
    assert bare.report["deployment"] == named.report["deployment"]
    assert (bare.profiles, bare.deployments) == (named.profiles, {})
    assert named.deployments == {"prefill": {"x": PREFILL}}


@pytest.mark.skipif(trt.installed() is None, reason="NVIDIA's compiler is not installed")
def test_the_engine_has_a_profile_for_each_deployment(tmp_path: Path) -> None:
    result = onnxq.quantize(
        two_layers(), rows_of(*LENGTHS), profiles=PHASES, **{**QUICK, "compile": True}
    )  # fmt: skip
    report = result.report
    assert report["engine"]["status"] == "compiled"
    assert (report["engine"]["int8"], report["engine"]["planned"]) == (2, 2)
    for one in report["deployments"]:
        assert one["activation_mb"] > 0
        assert one["verdict"]["reason"] == ""
    (decode, prefill) = (one["verdict"]["built"]["int8"]["moved_mb"] for one in report["deployments"])
    assert prefill > 10 * decode
    result.save(tmp_path / "q.onnx")
    first, second = result.report["commands"][:1], onnxq.engine(tmp_path / "q.onnx").engine
    assert "--profile=0 --minShapes=x:1x1x64" in first[0]
    assert "--profile=1 --minShapes=x:1x32x64 --optShapes=x:1x48x64 --maxShapes=x:1x64x64" in first[0]
    assert second is not None
    assert (second.profiles, second.more) == ({"x": DECODE}, ({"x": PREFILL},))
    assert len(second.activation_bytes) == 2


@pytest.mark.parametrize(
    ("options", "says", "hint"),
    [
        ({"profiles": PHASES, "profile_weights": {"decoder": 1}}, "no deployment 'decoder'", "'decode'"),
        ({"profiles": PHASES, "profile_weights": {"decode": 0}}, "above 0", "profile_weight decode=1"),
        ({"profiles": {"decode/y": DECODE}}, "no input 'y'", "x"),
        ({"profiles": {"a/x": ((1, 1, 32),) * 3}}, "which the model fixes to 64", "MIN:OPT:MAX"),
        ({"profiles": {"a/x": (PREFILL[1], PREFILL[0], PREFILL[2])}}, "'a': .*not min <= opt <= max", "MIN"),
        ({"profiles": {"a/x": DECODE}, "batch": {"b": (1, 1, 1)}}, "'b' leaves S open", "b/x=1x1x64"),
        ({"profiles": {**PHASES, "huge/x": ((1, 100, 64), (1, 128, 64), (1, 256, 64))}},
         "no sample fits deployment 'huge'", "--profile huge/x=1x1x64:"),
    ],
)  # fmt: skip
def test_deployments_that_make_no_sense(options: dict[str, Any], says: str, hint: str) -> None:
    with pytest.raises(UserError, match=says) as caught:
        onnxq.quantize(two_layers(), rows_of(*LENGTHS), **QUICK, **options)
    assert hint in (caught.value.hint or "")


def test_deployments_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "onnxq.toml"
    text = """[[deployment]]
name = "decode"
weight = 0.9
batch = 1
profile = {x = "1x1x64:1x1x64:1x1x64"}
[[deployment]]
name = "prefill"
profile = {x = "1x32x64:1x48x64:1x64x64"}
"""
    path.write_text(text)
    inputs = load_config(path).of(Inputs)
    assert inputs == {"profiles": PHASES, "profile_weights": {"decode": 0.9}, "batch": {"decode": (1, 1, 1)}}
    for wrong, says in [
        (text.replace('name = "prefill"', 'name = "decode"'), "line 7: deployment 'decode' is given twice"),
        (text.replace('name = "prefill"\n', ""), r"line 6: \[\[deployment\]\] 2 has no name"),
        (text.replace("0.9", "0"), "line 3: .*above 0"),
        (text.replace("weight", "wieght"), "line 3: .*wieght"),
    ]:
        path.write_text(wrong)
        with pytest.raises(UserError, match=says):
            load_config(path)


# -- what keeps sizes ------------------------------------------------------------------------------


def test_statistics_decide_the_sizes_that_data_do(tmp_path: Path) -> None:
    data, model = rows_of(*LENGTHS), tmp_path / "m.onnx"
    onnx.save(two_layers(), model)
    np.save(tmp_path / "ignored.npy", np.zeros(1))
    folder = written(tmp_path / "data", data, 0)
    for options in ({}, {"profiles": PHASES}):
        onnxq.calibrate(model, folder, tmp_path / "s.npz", inputs=options, force=True)
        alone = onnxq.quantize(model, None, stats=tmp_path / "s.npz", **QUICK, **options).report
        both = onnxq.quantize(model, folder, **QUICK, **options).report
        for part in ("deployment", "deployments"):
            assert alone[part] == both[part]
        assert alone["plan"]["layers"] == both["plan"]["layers"]
    assert [one["samples"] for one in both["deployments"]] == [8, 8]


def test_a_plan_states_its_sizes(tmp_path: Path) -> None:
    """And the shares of deployments; a run that obeys it without data decides for them."""
    data, path = rows_of(*LENGTHS), tmp_path / "plan.toml"
    for options in ({}, {"profiles": PHASES, "profile_weights": {"decode": 0.25}}):
        made = onnxq.plan(two_layers(), data, repair="none", prove="never", **options)
        made.save(path, force=True)
        text = path.read_text()
        again = onnxq.quantize(two_layers(), None, plan=path, **QUICK)
        sizes = made.report["deployments"] or [made.report["deployment"]]
        found = again.report["deployments"] or [again.report["deployment"]]
        for one, other in zip(sizes, found, strict=True):
            for before, after in zip(one["dimensions"], other["dimensions"], strict=True):
                assert {**before, "origin": ""} == {**after, "origin": ""}
        assert again.report["plan"]["layers"] == made.report["plan"]["layers"]
    assert '"decode/x" = "1x1x64"' in text
    assert '"prefill/x" = "1x32x64:1x48x64:1x64x64"' in text
    path.write_text(text.replace('"prefill/x" = "1x32x64', '"prefill/x" = "32x64'))
    with pytest.raises(UserError, match=r"line .*profile of 'x': min 32x64 has rank 2, the input has rank 3"):
        onnxq.quantize(two_layers(), None, plan=path, **QUICK)


def test_a_plan_with_the_sizes_of_one_sample_is_still_read(tmp_path: Path) -> None:
    path = tmp_path / "plan.toml"
    onnxq.plan(two_layers(), rows_of(40, 44, 50), repair="none", prove="never").save(path)
    text = path.read_text()
    assert 'x = "1x40x64:1x44x64:1x50x64"' in text
    path.write_text(text.replace("1x40x64:1x44x64:1x50x64", "1x44x64"))
    result = onnxq.quantize(two_layers(), None, plan=path, **QUICK)
    assert result.profiles == {"x": ((1, 44, 64),) * 3}


def test_a_bad_sample_that_is_skipped_does_not_widen_the_range() -> None:
    """The model takes 64 rows: a sample of 90 does not run."""
    data = rows_of(*[20, 30, 40, 50] * 4, 90)
    result = onnxq.quantize(two_layers(places=True), data, skip_bad=True, **QUICK)
    assert result.report["calibration"]["data"]["skipped"]["count"] == 1
    assert result.profiles == {"x": ((1, 20, 64), result.profiles["x"][1], (1, 50, 64))}
    assert not any("does not run" in note for note in result.report["calibration"]["notes"])


@pytest.mark.skipif(trt.installed() is None, reason="NVIDIA's compiler is not installed")
def test_an_end_at_which_the_model_does_not_run_stays_narrowed_and_builds() -> None:
    model = onnx.parser.parse_model(
        """<ir_version: 8, opset_import: ["" : 17]>
        g (float[1, a, 32] x, float[1, b, 32] y) => (float[1, c, 32] z) {
            s = Add (x, y)  z = MatMul (s, w) }"""
    )
    weights = np.random.default_rng(0).standard_normal((32, 32)).astype(np.float32)
    model.graph.initializer.append(onnx.numpy_helper.from_array(weights, "w"))
    random = np.random.default_rng(1)
    data = [
        {"x": random.random((1, a, 32), np.float32), "y": random.random((1, b, 32), np.float32)}
        for a, b in [(20, 20), (20, 20), (20, 1), (1, 24)]
    ]
    result = onnxq.quantize(model, data, **{**QUICK, "compile": True})
    assert is_said(result.report["calibration"]["notes"], "sizes-do-not-run", end="largest")
    assert result.profiles == dict.fromkeys("xy", ((1, 1, 32), (1, 20, 32), (1, 20, 32)))
    assert result.report["engine"]["status"] == "compiled"


def test_what_is_deployed_for_and_was_never_calibrated_is_said(
    encoder: onnx.ModelProto, texts: list[dict[str, np.ndarray]]
) -> None:
    """Of stated sizes: what nobody stated is that of the samples."""
    short = [text for text in texts if text["input_ids"].shape[1] <= 20]
    lengths = [text["input_ids"].shape[1] for text in short]

    def said(most: int) -> list[str]:
        shapes = ((1, min(lengths)), (1, 16), (1, most))
        profiles = {"input_ids": shapes, "attention_mask": shapes}
        report = onnxq.quantize(encoder, short, profiles=profiles, samples=COUNT, **QUICK).report
        return [note for note in report["calibration"]["notes"] if "never calibrated" in note]

    (note,) = said(32)
    low, high = min(lengths), max(lengths)
    assert is_said(note, "deployed-beyond", span=f"{low} to 32, usually 16", has=f"{low} to {high}")
    assert said(high) == []


@pytest.mark.parametrize(
    ("axis", "stated"), [("unk__655", None), ("DynamicDimension.0", None), ("rows", (1, 16, 32))]
)
def test_a_batch_without_its_name(axis: str, stated: tuple[int, int, int] | None) -> None:
    """As converters call it; or any first axis, where a batch is stated."""
    model = onnx.parser.parse_model(
        """<ir_version: 8, opset_import: ["" : 17]>
        g (float[B, 32] x) => (float[B, 32] z) { z = MatMul (x, w) }"""
    )
    for info in (*model.graph.input, *model.graph.output):
        info.type.tensor_type.shape.dim[0].dim_param = axis
    weights = np.random.default_rng(0).standard_normal((32, 32)).astype(np.float32)
    model.graph.initializer.append(onnx.numpy_helper.from_array(weights, "w"))
    data = {"x": np.random.default_rng(1).random((24, 32), np.float32)}
    options = {} if stated is None else {"batch": stated}
    result = onnxq.quantize(model, data, **QUICK, **options)
    (found,) = result.report["deployment"]["dimensions"]
    sizes = [found[name] for name in ("smallest", "usual", "largest")]
    assert (found["batch"], found["origin"], sizes) == (
        (True, "assumed", [1, 1, 1]) if stated is None else (True, "stated", [1, 16, 32])
    )


def test_a_first_axis_of_any_name_along_which_samples_are_single_is_the_batch() -> None:
    """Nobody said what it is; a table of samples is divided along it, so that `--batch` is about it."""
    model = onnx.parser.parse_model("""<ir_version: 8, opset_import: ["" : 17]>
        g (float[rows, 16] x) => (float[rows, 8] y) <float[16, 8] w> { y = MatMul (x, w) }""")
    weights = np.random.default_rng(0).standard_normal((16, 8)).astype(np.float32)
    model.graph.initializer.append(onnx.numpy_helper.from_array(weights, "w"))
    samples = np.random.default_rng(1).standard_normal((40, 16)).astype(np.float32)
    (rows,) = onnxq.quantize(model, samples, **QUICK).report["deployment"]["dimensions"]
    assert (rows["batch"], rows["origin"], rows["usual"]) == (True, "assumed", 1)
    for least in (1, 5):  # one sample of size 1 is not all of them
        whole = [{"x": samples[:size]} for size in (least, 10, 20, 10)]
        (rows,) = onnxq.quantize(model, whole, **QUICK).report["deployment"]["dimensions"]
        assert (rows["batch"], rows["smallest"], rows["largest"]) == (False, least, 20)
