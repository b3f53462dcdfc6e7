"""The figures of `benchmarks/repair`: SQNR and intervals of rows, answers, the nets and their samples."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from PIL import Image

from benchmarks.repair import answers, cost, intervals, nets, tools
from benchmarks.repair.accuracy import printed
from benchmarks.repair.rows import Rows
from benchmarks.repair.said import printed as said_printed
from benchmarks.repair.scoring import Judge, in_front_of_softmax
from benchmarks.repair.tools import Made
from onnxq.judge.about_mean import AboutMeanMeter
from onnxq.run import ort


def row(random: np.random.Generator, noise: float, samples: int = 60) -> tuple[dict, float]:
    """A row of two outputs by `benchmarks.repair.scoring`'s rules, and what onnxq's own meter says."""
    exact = [random.standard_normal((samples, 5)) + 3, 10 * random.standard_normal((samples, 2))]
    given = [one + noise * random.standard_normal(one.shape) for one in exact]
    meter = AboutMeanMeter(["a", "b"])
    for place in range(samples):
        meter.add([one[place] for one in exact], [[one[place] for one in given]])
    powers = [np.square(one - one.mean(0)).sum(1) for one in exact]
    errors = [np.square(a - b).sum(1) for a, b in zip(given, exact, strict=True)]
    found = {"noise": np.transpose(errors).tolist(), "signal": np.transpose(powers).tolist()}
    return found | {"groups": list(range(samples))}, float(meter.result().sqnr_about_mean_db or 0)


def test_the_level_is_that_of_the_tool() -> None:
    random = np.random.default_rng(0)
    (one, wanted), (other, more) = row(random, 0.1), row(random, 0.01)
    assert intervals.of([one], intervals.sqnr).value == pytest.approx(wanted, abs=1e-9)
    both = intervals.of([one, other], intervals.sqnr)
    assert both.value == pytest.approx((wanted + more) / 2, abs=1e-9)
    assert both.low < both.value < both.high < both.low + 3


def test_a_difference_is_paired() -> None:
    found, _ = row(np.random.default_rng(0), 0.1)
    louder = found | {"noise": (10 * np.array(found["noise"])).tolist()}
    ahead = intervals.difference([found], [louder], intervals.sqnr)
    assert tuple(ahead) == pytest.approx((10, 10, 10), abs=1e-9)
    assert intervals.of([found], intervals.sqnr).high > intervals.of([found], intervals.sqnr).low + 0.3


def test_a_group_is_drawn_together() -> None:
    found, _ = row(np.random.default_rng(0), 0.1)
    alone = intervals.of([found], intervals.sqnr)
    twice = {key: [*found[key], *found[key]] for key in found}
    assert intervals.of([twice], intervals.sqnr) == pytest.approx(alone, abs=1e-9)


def test_answers_are_counted() -> None:
    found = {
        "groups": [0, 1, 2, 3],
        "agree": [1, 1, 1, 0],
        "right": [1, 1, 0, 0],
        "float_right": [1, 1, 1, 1],
    }
    assert intervals.of([found], intervals.agreement).value == 75
    assert intervals.of([found], intervals.top1_change).value == -50


def test_left_out_takes_along_what_needs_it() -> None:
    assert tools.ALONE["gptq"] == "bias,gptq"
    assert "shift" not in tools.LEFT_OUT["bias"]
    assert "gptq" not in tools.LEFT_OUT["bias"]
    assert "bias" in tools.LEFT_OUT["gptq"].split(",")


def test_the_logits_are_found_behind_casts() -> None:
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 4]) for name in "xy"]
    nodes = [
        helper.make_node("Relu", ["x"], ["logits"]),
        helper.make_node("Softmax", ["logits"], ["p"]),
        helper.make_node("Cast", ["p"], ["y"], to=TensorProto.FLOAT),
    ]
    model = helper.make_model(helper.make_graph(nodes, "g", ends[:1], ends[1:]))
    assert in_front_of_softmax(model) == "logits"
    model.graph.node[1].op_type = "Sigmoid"
    assert in_front_of_softmax(model) is None


def test_no_sample_fits_and_judges() -> None:
    (net,) = nets.nets(["digits"])
    split = net.split(0)
    fitting = {feeds["image"].tobytes() for feeds in split.fitting}
    assert fitting.isdisjoint(feeds["image"].tobytes() for feeds in split.judging)
    assert split.labels is not None
    assert len(split.judging) == len(split.labels) == len(split.groups) == 600 - nets.MOST


def test_the_same_samples_judge_however_many_fit() -> None:
    for name in ("digits", "planted channel*"):
        few, more = (net.split(1) for net in nets.nets([name], (16, 64)))
        assert [len(few.fitting), len(more.fitting)] == [16, 64]
        for one, other in ((few.judging, more.judging), (few.fitting, more.fitting)):
            for mine, same in zip(one, other, strict=False):
                assert all(np.array_equal(mine[key], same[key]) for key in mine)


def test_the_concat_is_as_uneven_as_its_name() -> None:
    (net,) = nets.nets(["planted Concat*"])
    given = net.model(0)
    assert isinstance(given, onnx.ModelProto)
    weights = {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in given.graph.initializer}
    assert weights["great.w"].std() / weights["small.w"].std() == pytest.approx(100, rel=0.05)


def test_what_was_measured_is_printed(tmp_path, capsys: pytest.CaptureFixture[str]) -> None:
    (net,) = nets.nets(["digits"])
    rows, random = Rows(tmp_path), np.random.default_rng(0)
    for tool, noise in (("none", 0.1), ("auto@before", 0.01), ("auto", 0.02), ("modelopt-default", 0.2)):
        for seed in range(net.splits):
            path = rows.path(net, seed, tool)
            path.parent.mkdir(parents=True, exist_ok=True)
            engine = {"layers": 9, "int8_layers": 6, "int8": 1.0} if seed == 0 else {}
            path.write_text(json.dumps(row(random, noise)[0] | engine))
    printed([net], rows, "auto@before")
    said = capsys.readouterr().out
    assert "ok     digits: loses at most 0.2 dB: +1" in said
    assert "ok     digits: as many int8 layers as without: +0" in said
    assert "ok     digits: not behind modelopt-default: +" in said
    assert "MISSED digits: at most 0.3 dB behind before: -" in said
    assert "modelopt-max" not in said


def test_the_cost_is_that_of_repair(capsys: pytest.CaptureFixture[str]) -> None:
    found = {"none": [Made(10, 10, 100)], "auto": [Made(15, 15, 120)], "modelopt-default": [Made(5, 5, 600)]}
    cost._claims("resnet18", found)
    said = capsys.readouterr().out
    assert "ok     resnet18: at most 2 times the CPU of no repair: 1.50" in said
    assert "MISSED resnet18: at most 2 times the CPU of Model-Optimizer: 3.00" in said
    assert "ok     resnet18: a third of its memory: 0.20" in said


def test_what_rows_cost_is_compared(tmp_path, capsys: pytest.CaptureFixture[str]) -> None:
    (net,) = nets.nets(["digits"])
    rows = Rows(tmp_path)
    for tool, cpu in (("none", 10.0), ("auto@before", 30.0), ("auto", 16.0)):
        path = rows.path(net, 0, tool)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({"cpu": cpu}))
    cost.spent([net], rows, "auto@before")
    said = capsys.readouterr().out
    assert "MISSED digits: at most 1.5 times no repair: 1.60" in said
    assert "ok     digits: repair at most 0.5 of before's: 0.30" in said


@pytest.mark.parametrize(("apart", "answer"), [(0.5, "yes"), (-0.5, "no")])
def test_an_interval_holds_what_was_judged_or_not(apart, answer, tmp_path, capsys) -> None:
    (net,) = nets.nets(["digits"])
    given, level = row(np.random.default_rng(0), 0.1)
    about = {
        "sqnr_about_mean_db": level + 1,
        "samples": 8,
        "interval": {"low": level - apart, "high": level + 2},
    }
    rows = Rows(tmp_path)
    path = rows.path(net, 0, "auto")
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(given | {"about_mean": about}))
    said_printed([net], rows, "auto@before")
    printed_line = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("| digits"))
    assert "+1.00" in printed_line
    assert printed_line.rstrip(" |").endswith(answer)


def test_anchors_over_the_threshold_are_counted() -> None:
    exact, given = [0.9, 0.3, 0.1, 0.2], [0.8, 0.2, 0.4, 0.1]
    assert answers.kept(exact, given) == (2, 1, 2)
    found = {"groups": [0, 1], "anchors": [answers.kept(exact, given), (2, 2, 2)]}
    assert intervals.of([found], intervals.agreement).value == 75
    scores = answers.scores_of("ultraface_rfb640")
    assert scores is not None
    assert scores({"scores": np.array([[[0.9, 0.1], [0.2, 0.8]]])}).tolist() == [0.1, 0.8]
    assert answers.scores_of("digits") is None


def test_an_image_is_fed_by_its_middle_and_labelled_by_its_wnid(tmp_path) -> None:
    for number, name in enumerate(("n02_b", "n01_a", "n03_c")):
        pixels = np.zeros((512, 600, 3), np.uint8)
        pixels[:, 260:340] = 50 * (number + 1)
        Image.fromarray(pixels).save(tmp_path / f"{name}.JPEG", quality=95)
    shape = {"run_shapes": {"x": [1, 3, 224, 224]}, "inputs": [{"name": "x"}], "name": "CONV_mobilenetv1"}
    images = nets.imagenet(tmp_path, shape)
    middles = [round(127.5 * float(feeds["x"][0, 0, 112, 112]) + 127.5) for feeds in images]
    assert middles == pytest.approx([100, 50, 150], abs=2)
    assert images[0]["x"][0, 0, 112, 50] == pytest.approx(-1, abs=0.05)


def test_the_worst_part_is_told_from_the_mean() -> None:
    found, _ = row(np.random.default_rng(0), 0.1)
    ratios = np.sum(found["noise"], axis=0) / np.sum(found["signal"], axis=0)
    worst = intervals.of([found], intervals.worst).value
    assert worst == pytest.approx(-10 * np.log10(ratios.max()), abs=1e-9)
    assert worst < intervals.of([found], intervals.sqnr).value


def test_a_folder_without_a_checkout_is_refused(tmp_path) -> None:
    with pytest.raises(SystemExit, match="no checkout of onnxq"):
        tools.prepared(tmp_path)


def test_another_checkout_is_run(tmp_path) -> None:
    tree = tmp_path / "before"
    files = {
        "onnxq/__init__.py": "",
        "rules/one.py": "",
        "benchmarks/__init__.py": "",
        "benchmarks/repair/__init__.py": "",
        "benchmarks/repair/tools.py": "import pathlib, sys\n"
        "pathlib.Path(sys.argv[sys.argv.index('-o') + 1]).write_text(' '.join(sys.argv))\n"
        "print('1.5 2.5 3.5')\n",
    }
    for name, text in files.items():
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_text(text)
    output = tmp_path / "int8.onnx"
    done = tools.made("auto@before", tmp_path / "m.onnx", tmp_path, output, tree=tools.prepared(tree))
    assert done == Made(1.5, 2.5, 3.5)
    assert "--repair auto --no-engine" in output.read_text()
    assert not [*tree.rglob("__pycache__")]


def test_a_file_is_scored_as_onnxq_scores_it(tmp_path) -> None:
    (net,) = nets.nets(["digits"], [16])
    source = net.model(0)
    assert isinstance(source, Path)
    split = net.split(0)
    split = replace(split, judging=split.judging[:60], labels=split.labels[:60], groups=split.groups[:60])
    judge = Judge.of(net, split, source)
    model, random = onnx.load(source), np.random.default_rng(0)
    weight = max(model.graph.initializer, key=lambda tensor: len(tensor.raw_data))
    values = onnx.numpy_helper.to_array(weight)
    noisy = values + 0.1 * values.std() * random.standard_normal(values.shape)
    weight.CopyFrom(onnx.numpy_helper.from_array(noisy.astype(values.dtype), weight.name))
    onnx.save(model, tmp_path / "noisy.onnx")
    found = judge.scored(tmp_path / "noisy.onnx") | {"groups": split.groups.tolist()}
    floats, other = ort.load(source), ort.load(tmp_path / "noisy.onnx")
    meter = AboutMeanMeter(judge.parts)
    for feeds in split.judging:
        meter.add(floats.run(feeds), [other.run(feeds)])
    wanted = meter.result().sqnr_about_mean_db
    assert intervals.of([found], intervals.sqnr).value == pytest.approx(wanted, abs=1e-6)
    says = [int(other.run(feeds)[0].argmax()) for feeds in split.judging]
    assert found["right"] == [int(says == label) for says, label in zip(says, split.labels, strict=True)]
    assert not np.any(judge.scored(source)["noise"])
