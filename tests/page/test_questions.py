"""What somebody asks who decides whether to ship: the page of a real run answers, and the answer is right.

Right is what the model's file, its data and plain numpy say. `docs/page.md` lists the questions with their places.
"""

# ruff: noqa: E501

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.utils
import onnxruntime
import pytest
from as_read import Read
from PIL import Image
from said import is_said

import onnxq
from onnxq.cli.app import app
from onnxq.pipeline import pursuit

pytestmark = pytest.mark.usefixtures("by_place")

ROOT = Path(__file__).resolve().parents[2]
SAMPLE = ROOT / "sample_models" / "digits"
FLOAT = SAMPLE / "digits.onnx"


def levels(a: np.ndarray, b: np.ndarray, mean: Any = 0.0) -> float:
    """SQNR in dB."""
    a, b = a.astype(np.float64), b.astype(np.float64)
    return float(10 * np.log10(np.square(a - mean).sum() / np.square(a - b).sum()))


def pixels() -> np.ndarray:
    """All images of the folder as the float model wants them, float32 [N, 1, 8, 8] from 0 to 1."""
    files = sorted((SAMPLE / "calib").iterdir())
    return np.stack([np.asarray(Image.open(one).convert("L"), np.float32)[None] / 255 for one in files])


@dataclass
class Facts:
    """A run, and what is known of it without the page."""

    path: Path
    page: Read
    wrong: Read
    report: dict[str, Any]
    analysis: dict[str, Any]
    crossed: list[tuple[bytes, list[int]]]  # models as half of the samples fitted them, and what these judge
    _tensors: dict[tuple[str, str], np.ndarray] = field(default_factory=dict)

    @cached_property
    def model(self) -> onnx.ModelProto:
        return onnx.load(self.path)

    @cached_property
    def weights(self) -> dict[str, np.ndarray]:
        return {one.name: onnx.numpy_helper.to_array(one) for one in self.model.graph.initializer}

    @cached_property
    def held(self) -> list[int]:
        found: list[int] = self.report["calibration"]["data"]["place"]["held_out"]
        return found

    def tensor(self, path: Path, name: str) -> np.ndarray:
        """What a tensor of a model is for all images, [N, ...]; node by node, as the file says."""
        if (str(path), name) not in self._tensors:
            model = onnx.load(path)
            if name not in {one.name for one in model.graph.output}:
                model.graph.output.append(onnx.helper.make_empty_tensor_value_info(name))
            options = onnxruntime.SessionOptions()
            options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
            session = onnxruntime.InferenceSession(
                model.SerializeToString(), options, providers=["CPUExecutionProvider"]
            )
            rows = [session.run([name], {"image": image[None]})[0] for image in pixels()]
            self._tensors[str(path), name] = np.concatenate(rows)
        return self._tensors[str(path), name]

    def outputs(self, path: Path) -> np.ndarray:
        """What a model gives for the samples that judge, run as its users run it: others than it was fitted to.

        Those that verify by the file; the others by the same as half of the samples without them fitted it.
        """
        found, given = [], pixels()
        for model, places in [(path.read_bytes(), self.held), *self.crossed]:
            session = onnxruntime.InferenceSession(
                path.read_bytes() if path == FLOAT else model, providers=["CPUExecutionProvider"]
            )
            found += [session.run(None, {"image": one[None]})[0] for one in given[places]]
        return np.concatenate(found)

    @cached_property
    def judging(self) -> list[int]:
        """The samples that judge, each once: those that verify, and of the others so many that they are 64."""
        found = [*self.held, *(place for _, places in self.crossed for place in places)]
        assert len(found) == len({*found}) == min(64, len(pixels()))
        return found

    @cached_property
    def products(self) -> dict[str, tuple[float, bool]]:
        """Each Conv, Gemm and MatMul of the result: its multiply-accumulates, and whether both operands are int8."""
        nodes = self.model.graph.node
        sizes = {
            one.name: [dim.dim_value or 1 for dim in one.type.tensor_type.shape.dim]
            for one in onnx.shape_inference.infer_shapes(self.model).graph.value_info
        } | {one.name: [1, 10] for one in self.model.graph.output}
        made = {name: node for node in nodes for name in node.output}
        found = {}
        for node in nodes:
            if node.op_type in ("Conv", "Gemm", "MatMul"):
                pairs = [
                    made[one].op_type == "DequantizeLinear" if one in made else False
                    for one in node.input[:2]
                ]
                source = made[node.input[1]].input[0] if pairs[1] else node.input[1]
                shape = self.weights[source].shape
                given = int(np.prod(sizes[node.output[0]]))
                each = int(np.prod(shape[1:])) if node.op_type == "Conv" else shape[1]
                found[node.name] = (float(given * each), all(pairs))
        return found

    def layer(self, name: str) -> dict[str, Any]:
        return next(one for one in self.page.data["layers"] if one["name"] == name)

    def scale(self, tensor: str) -> float:
        """The scale of an activation's pair in the file."""
        node = next(
            one for one in self.model.graph.node if one.op_type == "QuantizeLinear" and one.input[0] == tensor
        )
        return float(self.weights[node.input[1]])


def run(*arguments: object) -> str:
    """Runs a verb in this process; what it prints."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()):
        app([str(one) for one in arguments], prog_name="onnxq", standalone_mode=False)
    return out.getvalue()


@pytest.fixture(scope="module")
def facts(tmp_path_factory: pytest.TempPathFactory) -> Facts:
    """Digits, well done and compiled; and with pixels from 0 to 255, which is the run of last week."""
    folder = tmp_path_factory.mktemp("questions")
    path, wrong = folder / "digits.int8.onnx", folder / "wrong.onnx"
    before, verify, crossed = Path.cwd(), pursuit.verify, list[tuple[bytes, list[int]]]()

    def watched(*what: Any, **more: Any) -> Any:
        crossed.extend((one.proto.SerializeToString(), sorted(one.indices)) for one in more["crossed"])
        return verify(*what, **more)

    os.chdir(folder)
    try:
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(pursuit, "verify", watched)
            onnxq.quantize(
                FLOAT, SAMPLE / "calib", samples=48, repair="bias", body="fp32", method="mse"
            ).save(path)
        np.savez("raw.npz", image=255 * pixels()[:40])
        onnxq.quantize(FLOAT, "raw.npz", repair="none", method="minmax", layer_samples=0, compile=False).save(
            wrong
        )
        (folder / "analysis.json").write_text(run("analyze", path, "--json"))
        made = onnxq.report(
            path.with_suffix(".report.json"),
            analysis=folder / "analysis.json",
            compare=wrong.with_suffix(".report.json"),
        )
    finally:
        os.chdir(before)
    return Facts(
        path,
        Read(Path(made.page).read_text("utf-8")),
        Read(wrong.with_suffix(".report.html").read_text("utf-8")),
        json.loads(path.with_suffix(".report.json").read_text("utf-8")),
        json.loads((folder / "analysis.json").read_text("utf-8")),
        crossed,
    )


ASKED: dict[str, tuple[str, Callable[[Facts], None]]] = {}
"""By question: the section that answers, and a function that fails where the answer is wrong."""


def asked(question: str, place: str) -> Callable[[Callable[[Facts], None]], Callable[[Facts], None]]:
    def listed(judge: Callable[[Facts], None]) -> Callable[[Facts], None]:
        ASKED[question] = place, judge
        return judge

    return listed


def number_after(text: str, words: str) -> float:
    """The number that stands behind some words."""
    found = re.search(re.escape(words) + r"\s*(-?[\d.]+)", text)
    assert found is not None, f"{words!r} is not in {text[:300]!r}"
    return float(found[1])


# -- whether to ship -------------------------------------------------------------------------------
@asked("How accurate is it?", "verdict")
def _(facts: Facts) -> None:
    one, other = facts.outputs(FLOAT), facts.outputs(facts.path)
    said = number_after(facts.page.said_in("verdict"), "Accuracy, SQNR about the mean")
    assert said == pytest.approx(levels(one, other, one.mean(0)), abs=0.06)
    crossed = len(facts.judging) - len(facts.held)
    both = f"on {len(facts.held)} other samples, and {crossed} cross-validated"
    assert both in facts.page.said_in("verdict")


@asked("Which output is worst, and by how much?", "verdict")
def _(facts: Facts) -> None:
    one, other = facts.outputs(FLOAT), facts.outputs(facts.path)
    text = facts.page.said_in("verdict")
    ends = r" \([\d.]+ to [\d.]+\)"
    assert re.search(rf"dB{ends} logits", text)
    found = re.search(rf"logits [\d.]+ dB{ends} ([\d.]+) dB{ends} ([\d.]+) ([\d.]+) of ([\d.]+)", text)
    assert found is not None
    sqnr, cosine, worst, most = map(float, found.groups())
    assert sqnr == pytest.approx(levels(one, other), abs=0.06)
    # the mean of the samples' cosines
    cosines = [a @ b / np.linalg.norm(a) / np.linalg.norm(b) for a, b in zip(one, other, strict=True)]
    assert cosine == pytest.approx(np.mean(cosines), abs=2e-5)
    assert worst == pytest.approx(np.abs(one - other).max(), rel=1e-3)
    assert most == pytest.approx(np.abs(one).max(), rel=1e-3)


@asked("Does it decide as before?", "verdict")
def _(facts: Facts) -> None:
    same = np.mean(facts.outputs(FLOAT).argmax(1) == facts.outputs(facts.path).argmax(1))
    assert number_after(facts.page.said_in("verdict"), "Agreement of the argmax") == pytest.approx(
        100 * same, abs=0.06
    )


@asked("How much of the work is int8?", "verdict")
def _(facts: Facts) -> None:
    whole = sum(macs for macs, _ in facts.products.values())
    share = sum(macs for macs, int8 in facts.products.values() if int8) / whole
    assert 0.5 < share < 1
    assert number_after(facts.page.said_in("verdict"), "In int8, of all work") == pytest.approx(
        100 * share, abs=0.06
    )


@asked("Is it worth it?", "verdict")
def _(facts: Facts) -> None:
    found, text = facts.report["verdict"][facts.report["verdict"]["form"]], facts.page.said_in("verdict")
    half, codes = (found[kind]["moved_mb"] + found[kind]["weights_mb"] for kind in ("fp16", "int8"))
    said = re.search(r"int8 moves ([\d.]+) times the bytes of plain float16", text)
    assert (float(said[1]) if said else 1.0) == pytest.approx(codes / half, abs=0.006)
    assert f"{found['int8']['kernels']} kernels for {found['fp16']['kernels']}" in text


@asked("How large is the file?", "verdict")
def _(facts: Facts) -> None:
    before, after = (one.stat().st_size / 1e3 for one in (FLOAT, facts.path))
    assert f"File {before:.3g} kB → {after:.3g} kB" in facts.page.said_in("verdict")


@asked("What stays in float, and why?", "verdict")
def _(facts: Facts) -> None:
    left = [name for name, (_, int8) in facts.products.items() if not int8]
    assert left == ["/head/Gemm"]
    assert ": 1 layer /head/Gemm" in facts.page.said_in("verdict")
    assert facts.layer("/head/Gemm")["planned"] == "float"


@asked("Is my normalization wrong?", "verdict")
def _(facts: Facts) -> None:
    right, wrong = facts.page.said_in("verdict"), facts.wrong.said_in("verdict")
    assert (
        "float32 from 0 to 1: pixel / 255 (assumed; to state it: resize or letterbox, --preset or --scale"
        in right
    )
    assert "Doubts" not in right
    assert is_said(wrong, "preparation", input="image", what="pixel / 255")


@asked("What do I do next?", "verdict")
def _(facts: Facts) -> None:
    text = facts.page.said_in("verdict")
    command = text[text.index("Build the engine") :]
    assert f"trtexec --onnx={facts.path}" in command
    assert Path(command.split("--onnx=")[1].split()[0]).is_file()
    assert "48 samples" not in text.split("Next")[1], "32 and more are enough"
    assert "onnxq analyze" not in text.split("Next")[1], "it is on this page already"
    assert "onnxq analyze" in facts.wrong.said_in("verdict").split("Next")[1], (
        "nothing was measured of its layers"
    )


# -- what adds the error ---------------------------------------------------------------------------
@asked("What did repair gain?", "ledger")
def _(facts: Facts) -> None:
    step = next(one for one in facts.report["repair"]["steps"] if one["step"] == "bias")
    line = f"repair bias {step['verdict']} {step['before_db']:.1f} dB {step['after_db']:.1f} dB"
    assert line in facts.page.said_in("ledger")
    folded = {one.name: onnx.numpy_helper.to_array(one) for one in onnx.load(FLOAT).graph.initializer}
    moved = [
        name
        for name, bias in facts.weights.items()
        if name in folded and not np.array_equal(bias, folded[name])
    ]
    assert step["verdict"] == "kept"
    assert bool(moved) or step["changed"]["biases"] > 0


@asked("Is it int8 or the body's half precision?", "ledger")
def _(facts: Facts) -> None:
    assert "body alone" not in facts.page.said_in("ledger"), "the body is float32"
    text = facts.wrong.said_in("ledger")
    int8, body, both = (
        number_after(text, f"logits: {what}")
        for what in ("int8 alone", "the fp16 body alone", "int8 and body together")
    )
    assert both < min(int8, body) + 0.5  # noise adds up
    expected = -10 * np.log10(10 ** (-int8 / 10) + 10 ** (-body / 10))
    assert both == pytest.approx(expected, abs=1.5)


@asked("Which layer is worst?", "layers")
def _(facts: Facts) -> None:
    known = {row["layer"]: row for row in facts.analysis["rows"]}
    for layer in facts.page.data["layers"]:
        row = known.get(layer["name"])
        if row and isinstance(layer["accumulated"], float):
            one, other = (facts.tensor(path, name)[facts.held] for path, name in
                          ((FLOAT, row["a_tensor"]), (facts.path, row["tensor"])))  # fmt: skip
            assert layer["accumulated"] == pytest.approx(levels(one, other), abs=0.05), layer["name"]
    measured = [layer for layer in facts.page.data["layers"] if isinstance(layer["isolated"], float)]
    worst = min(measured, key=lambda layer: layer["isolated"])["name"]
    assert worst == min(known.values(), key=lambda row: float(row["isolated"]["sqnr_db"]))["layer"]
    # that layer alone, cut out of the file, on what the float model gives it
    made = {name: node for node in facts.model.graph.node for name in node.output}
    reads, todo = list[str](), [known[worst]["tensor"]]
    while todo:  # up to what is quantized, of which a sum reads two
        node = made[todo.pop()]
        if node.op_type == "QuantizeLinear":
            reads += node.input[:1]
        else:
            todo += [name for name in node.input if name in made]
    alone = onnx.utils.Extractor(onnx.shape_inference.infer_shapes(facts.model)).extract_model(
        reads, [known[worst]["tensor"]]
    )
    session = onnxruntime.InferenceSession(alone.SerializeToString(), providers=["CPUExecutionProvider"])
    given = [facts.tensor(FLOAT, name)[facts.held] for name in reads]
    wanted = facts.tensor(FLOAT, known[worst]["a_tensor"])[facts.held]
    found = np.concatenate(
        [
            session.run(None, {name: one[None] for name, one in zip(reads, sample, strict=True)})[0]
            for sample in zip(*given, strict=True)
        ]
    )
    assert facts.layer(worst)["isolated"] == pytest.approx(levels(wanted, found), abs=0.05)


@asked("Where along the network does the error grow?", "depth")
def _(facts: Facts) -> None:
    text = facts.page.said_in("depth")
    drift = facts.analysis["drift"]
    assert is_said(text, "curve.errors")
    assert (is_said(text, "drift.page")) == bool(drift)
    ends = [row["layer"] for row in sorted(facts.analysis["rows"], key=lambda row: row["place"])]
    assert f"{ends[0]} {ends[-1]}" in text


@asked("How wide is each tensor, along the network?", "depth")
def _(facts: Facts) -> None:
    """The least and the greatest value that numpy finds in what the float model gives, in its order."""
    errors = facts.report["layer_errors"]
    samples = facts.held[: errors["samples"]]
    names = [*errors["ranges"]]
    made = ["image", *(name for node in facts.model.graph.node for name in node.output)]
    assert names == sorted(names, key=made.index)
    for name, ends in errors["ranges"].items():
        values = pixels() if name == "image" else facts.tensor(FLOAT, name)
        assert ends == pytest.approx([values[samples].min(), values[samples].max()], rel=1e-5, abs=1e-6)
    assert len(names) > 10
    text = facts.page.said_in("depth")
    assert is_said(text, "curve.ranges", samples=f"{len(samples)} samples")
    most = max(high for _, high in errors["ranges"].values())
    least = min(low for low, _ in errors["ranges"].values())
    told = text[text.index("greatest least") :]
    assert told.startswith(f"greatest least {most:.3g} ")
    assert f"{least:.3g} {names[0]} {names[-1]}" in told


@asked("Is its range that of one channel?", "layers")
def _(facts: Facts) -> None:
    """The octaves of all channels, and of the two with the greatest values, on the samples of the errors by layer."""
    samples, checked = facts.held[: facts.report["layer_errors"]["samples"]], 0
    for tensor in facts.page.data["tensors"]:
        if tensor["octaves"]:
            values = facts.tensor(FLOAT, tensor["name"])[samples]
            lines = np.abs(values.reshape(len(samples), values.shape[1], -1)).astype(np.float64)
            tops = lines.max((0, 2))
            assert [one[0] for one in tensor["octaves"]] == [None, *np.argsort(-tops, kind="stable")[:2]]
            for channel, first, counts in tensor["octaves"]:
                own = lines if channel is None else lines[:, channel]
                found = np.array(counts.split(), int)
                edges = 2.0 ** np.arange(first, first + len(found) + 1)
                assert np.array_equal(found, np.histogram(own, edges)[0])
                assert edges[-2] <= own.max() < edges[-1]
            checked += 1
    assert checked > 3


@asked("What do its weights hold?", "layers")
def _(facts: Facts) -> None:
    """All of them in equal parts from 0 to the greatest, and the channel that has it."""
    checked = 0
    for tensor in facts.page.data["tensors"]:
        if tensor["kind"] == "weight":
            node = next(
                one for one in facts.model.graph.node
                if one.op_type == "DequantizeLinear" and one.output[0].startswith(tensor["name"])
            )  # fmt: skip
            codes, scales = (facts.weights[name] for name in node.input[:2])
            lines = np.abs(np.moveaxis(codes, tensor["axis"], 0).reshape(scales.size, -1) * scales[:, None])
            assert tensor["top"] == pytest.approx(lines.max(), rel=1e-4)
            assert tensor["widest"] == lines.max(1).argmax()
            for counts, values in (
                (tensor["counts"], lines),
                (tensor["widest_counts"], lines[tensor["widest"]]),
            ):
                found = np.array(counts.split(), int)
                assert (len(found), found.sum()) == (32, values.size)
                edges = np.arange(33) * tensor["top"] / 32
                exact = np.histogram(np.minimum(values, tensor["top"]), edges)[0]
                near = (
                    np.abs(values[..., None] - edges).min(-1) < edges[1] * 0.04
                )  # bins of 2^-10 are moved whole
                assert np.abs(np.cumsum(found) - np.cumsum(exact)).max() <= near.sum()
            checked += 1
    assert checked == sum(int8 for _, int8 in facts.products.values())


@asked("Is it the weights?", "layers")
def _(facts: Facts) -> None:
    """The scales of the channels are those of the file, from the least to the greatest."""
    checked = 0
    for tensor in facts.page.data["tensors"]:
        if tensor["kind"] == "weight":
            node = next(
                one for one in facts.model.graph.node
                if one.op_type == "DequantizeLinear" and one.output[0].startswith(tensor["name"])
            )  # fmt: skip
            scales = np.sort(facts.weights[node.input[1]])
            assert tensor["channels"] == scales.size
            said = np.array(tensor["scales"].split(), float)
            assert said[[0, -1]] == pytest.approx(scales[[0, -1]], rel=1e-3)
            checked += 1
    assert checked == sum(int8 for _, int8 in facts.products.values())


@asked("Which range is clipped?", "layers")
def _(facts: Facts) -> None:
    """The threshold over the greatest magnitude, which numpy finds among what was calibrated."""
    clipped = min(facts.page.data["layers"], key=lambda layer: layer["clip"] or 1.0)
    tensor = facts.page.data["tensors"][clipped["tensors"][0]]
    assert clipped["clip"] < 1
    amax = 127 * facts.scale(tensor["name"])
    assert tensor["amax"] == pytest.approx(amax, rel=1e-4)
    everything = np.abs(facts.tensor(FLOAT, tensor["name"]))
    most = max(abs(tensor["low"]), abs(tensor["high"]))
    assert clipped["clip"] == pytest.approx(amax / most, rel=1e-3)
    assert np.isclose(everything, most, rtol=1e-4).any(), "a value that some image gives"
    assert sum(map(int, tensor["counts"].split())) > 0


@asked("What does its range hold?", "layers")
def _(facts: Facts) -> None:
    """The histogram of what the first layer reads: the pixels, whose values are known."""
    tensor = next(one for one in facts.page.data["tensors"] if one["name"] == "image")
    counts = np.array(tensor["counts"].split(), float)
    values = pixels().ravel()
    expected = np.histogram(np.abs(values), counts.size, (0, tensor["top"]))[0]
    assert tensor["top"] == pytest.approx(1.0)
    assert counts / counts.sum() == pytest.approx(expected / expected.sum(), abs=0.02)
    assert tensor["mean"] == pytest.approx(values.mean(), rel=0.05)


@asked("What shares its scale, and why?", "layers")
def _(facts: Facts) -> None:
    shared = facts.page.data["groups"]
    assert shared
    for group in shared:
        assert len({facts.scale(name) for name in group["tensors"]}) == 1
        assert group["reasons"]
    alone = {one["name"] for one in facts.page.data["tensors"] if one["kind"] == "activation"}
    alone -= {name for group in shared for name in group["tensors"]}
    assert len({facts.scale(name) for name in alone}) == len(alone)


# -- what is run -----------------------------------------------------------------------------------
@asked("Which operators were fused?", "surgery")
def _(facts: Facts) -> None:
    count = sum(node.op_type == "BatchNormalization" for node in onnx.load(FLOAT).graph.node)
    assert count > 0
    assert not [node for node in facts.model.graph.node if node.op_type == "BatchNormalization"]
    assert f"fold_batchnorm fuse : {count} ({count} close)" in facts.page.said_in("surgery")


@asked("In which kernel is it run, and in what?", "layers")
def _(facts: Facts) -> None:
    """Each product is in a kernel of its precision; all kernels of the engine are there."""
    kernels = facts.page.data["kernels"]
    assert [one["name"] for one in kernels] == [one["name"] for one in facts.report["engine"]["layers"]]
    for name, (_, int8) in facts.products.items():
        layer = facts.layer(name)
        assert layer["compiled"] == ("int8" if int8 else layer["compiled"])
        assert any(name in kernels[at]["nodes"] for at in layer["kernels"]), name
    assert facts.report["engine"]["int8"] == sum(int8 for _, int8 in facts.products.values())


@asked("How much memory do activations take?", "depth")
def _(facts: Facts) -> None:
    size = {"float32": 4, "float16": 2, "int8": 1, "fp32": 4, "fp16": 2, "int32": 4, "int64": 8, "bool": 1}
    layers = facts.report["engine"]["layers"]
    peak = 0.0
    for now in range(len(layers)):
        alive = {}
        for which, layer in enumerate(layers):
            for tensor in (*layer["inputs"], *layer["outputs"]):
                spans = alive.setdefault(tensor["name"], [which, which, 0.0])
                spans[1] = which
                spans[2] = np.prod([max(1, dim) for dim in tensor["shape"]]) * size[tensor["dtype"]]
        peak = max(peak, sum(b for first, last, b in alive.values() if first <= now <= last))
    assert f"{peak / 1e3:.3g} kB at most" in facts.page.said_in("depth")


@asked("What did the repair of the graph change, and is that proved?", "surgery")
def _(facts: Facts) -> None:
    before = len(onnx.load(FLOAT).graph.node)
    assert f"{before} nodes before, {len(facts.model.graph.node)} after" in facts.page.said_in("surgery")
    assert "checked on" in facts.page.said_in("surgery")


@asked("Which sample is worst, and what comes out?", "checks")
def _(facts: Facts) -> None:
    one, other = (facts.tensor(path, "logits")[facts.held] for path in (FLOAT, facts.path))
    by_sample = [levels(a, b, one.mean(0)) for a, b in zip(one, other, strict=True)]
    worst = facts.held[int(np.argmin(by_sample))]
    text = facts.page.said_in("checks")
    assert f"sample {worst}, {SAMPLE / 'calib' / f'{worst:03}.png'}" in text
    a, b = (facts.tensor(path, "logits")[worst] for path in (FLOAT, facts.path))
    assert f"argmax: {a.argmax()} in float, {b.argmax()} here" in text
    apart = int(np.abs(a - b).argmax())
    assert f"[0, {apart}] {a[apart]:.4g} {b[apart]:.4g}" in text


@asked("What changed since last week?", "beside")
def _(facts: Facts) -> None:
    text = facts.page.said_in("beside")
    reports = [facts.path.with_name("wrong.report.json"), facts.path.with_suffix(".report.json")]
    then, now = (json.loads(one.read_text())["about_mean"]["sqnr_about_mean_db"] for one in reports)
    assert f"{then:.4g} {now:.4g} {now - then:+.4g} dB" in text
    assert "minmax" in text


@asked("Which file is this, and how is it made again?", "reproduce")
def _(facts: Facts) -> None:
    text = facts.page.said_in("reproduce")
    assert f"SHA-256 of the result {hashlib.sha256(facts.path.read_bytes()).hexdigest()}" in text
    assert f"model {FLOAT}" in text
    assert f"opset {facts.model.opset_import[0].version}" in text
    assert "seed 0" in text


@pytest.mark.parametrize("question", ASKED)
def test_the_page_answers(facts: Facts, question: str) -> None:
    ASKED[question][1](facts)


def test_the_questions_are_those_of_the_documentation() -> None:
    text = (ROOT / "docs" / "page.md").read_text("utf-8")
    listed = dict(re.findall(r"^\| (.+?\?) \| `#(\w+)`", text, re.M))
    assert listed == {question: place for question, (place, _) in ASKED.items()}
