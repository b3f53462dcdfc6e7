"""The page of a run: what it holds, in which order, that names do no harm, how large it gets."""

# ruff: noqa: E501

from __future__ import annotations

import copy
import json
import re
import time
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

import onnxq
from onnxq.analysis.reports import OpenedReport
from onnxq.page.graphs import GraphNode, graph_drawing
from onnxq.page.making import html_of, page_of

ROOT = Path(__file__).resolve().parents[2]
EARLY = ROOT / "tests" / "analysis" / "early.report.json"
HOSTILE = (
    "<script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "</script><script>alert(1)//",
    "a'b\"c&amp;", "\x1b[31mred\x1b[0m", "\u202egnp.exe", "{{ 7 * 7 }}{% raw %}", "\u2028\u2029", "n" * 2000,
    "\udc80", "javascript:alert(1)", "<!--<script>",
)  # fmt: skip


class Read(HTMLParser):
    """The page as a browser without scripts has it."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []
        self.scripts: list[str] = []
        self._inside = ""
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag in ("script", "style"):
            self._inside = tag
            self.scripts += [""] * (tag == "script")

    def handle_endtag(self, tag: str) -> None:
        if tag == self._inside:
            self._inside = ""

    def handle_data(self, data: str) -> None:
        if self._inside == "script":
            self.scripts[-1] += data
        elif not self._inside:
            self.text.append(data)

    @property
    def said(self) -> str:
        return " ".join(" ".join(self.text).split())

    @property
    def sections(self) -> list[str | None]:
        return [attrs.get("id") for tag, attrs in self.tags if tag == "section"]

    @property
    def data(self) -> dict[str, list[dict[str, Any]]]:
        packed = json.loads(self.scripts[0])
        return {
            name: [dict(zip(part["fields"], row, strict=True)) for row in part["rows"]]
            for name, part in packed.items()
        }


def synthetic(count: int, names: list[str] | None = None) -> dict[str, Any]:
    """The report of a chain of Convs; the names are those of the first ones."""
    called = [*(names or []), *(f"/stage{i // 50}/block{i}/Conv" for i in range(len(names or []), count))]
    tensors = [f"{name}_input" for name in called]
    return {
        "schema": 1, "onnxq": "0.1.0", "model": "net.onnx", "output": "net.int8.onnx", "target": "tensorrt-11",
        "sha256": "5ed9" * 16, "nodes": 3 * count, "nodes_before": count, "seconds": 12.5,
        "assumptions": [{"flag": "--assume", "name": "N", "value": 1, "why": "stated"}],
        "changes": [
            {"rule": "fold_batchnorm", "stage": "fuse", "node": called[0], "removed": [called[0]],
             "added": [called[1]], "proof": {"verdict": "exact", "inputs": 39, "max_abs": 0.0, "why": ""},
             "sketch": {"before": [
                 {"name": called[0], "op": "Conv", "inputs": [tensors[0]], "outputs": ["c"]},
                 {"name": "bn", "op": "BatchNormalization", "inputs": ["c"], "outputs": [tensors[1]]}],
                 "after": [{"name": called[1], "op": "Conv", "inputs": [tensors[0]], "outputs": [tensors[1]]}]}}
        ],
        "near_misses": [{"node": called[1], "rule": "fold_scale", "reason": "its scale is an input"}],
        "whole_model": [{"stage": "fuse", "verdict": "close", "max_abs": 1e-6, "sqnr_db": 120.0, "why": ""}],
        "unsupported": [{"node": called[2], "op": "Einsum", "reason": "TensorRT does not take it", "advice": "cut"}],
        "size": {"before": 4_000_000, "after": 1_000_000},
        "outline": [
            {"name": name, "op": "Conv", "tensor": f"{name}_out", "dtype": "float32", "shape": "1x64x56x56",
             "weights": "64x64x3x3", "reads": [at - 1] if at else []}
            for at, name in enumerate(called)
        ],
        "plan": {
            "sites": [
                {"tensor": tensor, "kind": "activation", "readers": [{"node": name, "input": 0}], "axis": None,
                 "group": at // 2, "because": "Conv runs in int8"}
                for at, (name, tensor) in enumerate(zip(called, tensors, strict=True))
            ],
            "groups": [
                {"id": at // 2, "tensors": tensors[at : at + 2], "sources": tensors[at : at + 1],
                 "reasons": ["inputs of one Concat (/cat)"]} for at in range(0, count - 1, 2)
            ],
            "kept_float": [{"node": called[3], "op": "Conv", "because": "depthwise: int8 gains nothing", "code": "rule"}],
            "layers": [
                {"node": name, "op": "Conv", "macs": 115_605_504, "weights": True, "eligible": True,
                 "format": "float" if at == 3 else "int8"} for at, name in enumerate(called)
            ],
            "int8_share_of_eligible_macs": 0.98, "int8_share_of_all_macs": 0.95,
        },
        "weight_scales": {},
        "calibration": {
            "method": "auto: mse", "samples": 80,
            "data": {"lines": ["80 images in calib"], "doubts": [
                {"kind": "range", "input": "x", "text": "pixels are fed from 0 to 255", "hint": "--scale"}]},
            "scales": dict.fromkeys(tensors, 0.03),
            "ranges": {tensor: [-1.0, 8.0] for tensor in tensors},
            "thresholds": {t: {"amax": 4.0 if t == tensors[4] else 7.5, "because": "mse", "code": "method"}
                           for t in tensors},
            "statistics": {tensor: {"values": 9, "mean": 0.1, "variance": 1.0} for tensor in tensors},
            "histograms": {t: {"top": 8.0, "counts": " ".join(str(i * 37 % 90_000) for i in range(64))}
                           for t in tensors},
        },
        "accuracy": [{"output": "y", "sqnr_db": 30.2, "cosine": 0.999, "max_abs": 0.1, "max_ref": 4, "top1": 0.99,
                      "nonfinite": 0}],
        "about_mean": {"sqnr_about_mean_db": 29.5, "worst_output": "y", "worst_output_db": 29.5, "samples": 16,
                       "outputs": [{"output": "y", "sqnr_about_mean_db": 29.5}]},
        "goal": {"gates": [{"kind": "sqnr", "what": "SQNR about the mean", "of": "", "goal": 31, "measured": 29.5,
                            "met": False}],
                 "scores": None,
                 "search": {"predicted_sqnr_db": 28.5, "noise": {
                     "kinds": [{"name": "weight", "kind": "", "layers": [], "alone_db": 41.0, "share": 0.3},
                               {"name": "activation", "kind": "", "layers": [], "alone_db": 30.0, "share": 0.7}],
                     "sources": [{"name": tensors[4], "kind": "activation", "layers": [called[4]], "alone_db": 31.5,
                                  "share": 0.65}],
                     "layers": [{"name": called[7], "kind": "", "layers": [called[7]], "alone_db": 55.5, "share": 0.1}]},
                     "float": [{"node": called[5], "gain_db": 1.5, "cost": 1e6}],
                            "trials": [{"float": [called[5]], "cost": 1e6, "predicted_sqnr_db": 29.9,
                                        "measured": 29.4}]}},
        "repair": {"method": "judged on samples", "steps": [
            {"step": "bias", "verdict": "kept", "why": "gains", "before_db": 28.0, "after_db": 29.5, "runs": 9,
             "changed": {"biases": 4}}]},
        "body": {"type": "fp16", "because": "typed", "outputs": [
            {"output": "y", "int8_db": 30.5, "body_db": 62.0, "together_db": 30.2}]},
        "engine": {
            "status": "compiled", "compiler": "tensorrt-rtx 1.7", "sm": 89, "planned": count, "int8": count - 1,
            "not_int8": [called[6]],
            "layers": [
                {"name": f"kernel_{at}", "kind": "correlation", "precision": "fp16" if at == 6 else "int8",
                 "inputs": [{"name": f"t{at}", "dtype": "int8", "shape": [1, 64, 56, 56]}],
                 "constants": [{"name": f"c{at}", "dtype": "int8", "shape": [64, 64, 3, 3]}],
                 "outputs": [{"name": f"t{at + 1}", "dtype": "int8", "shape": [1, 64, 56, 56]}],
                 "nodes": [name, f"{name}_relu"]}
                for at, name in enumerate(called)
            ],
        },
        "verdict": {"form": "merged", "merged": {
            "low": 1.4, "high": 1.6, "says": "faster", "gpus": [{"gpu": "T4", "ratio": 1.5, "says": "faster"}],
            "fp16": {"moved_mb": 4.0}, "int8": {"moved_mb": 2.0}}, "assumptions": ["times are estimates"]},
        "files": ["net.int8.onnx", "net.int8.report.json"], "commands": ["trtexec --onnx=net.int8.onnx"],
        "notes": ["nothing else"], "phases": {"load": 0.1, "calibrate": 9.0},
    }  # fmt: skip


def analysis_of(report: dict[str, Any]) -> dict[str, Any]:
    """What `analyze --json` says of it: the third layer is the worst, and its weights are to blame."""
    rows = [
        {"layer": layer["node"], "op": "Conv", "place": at, "isolated": {"sqnr_db": 12.0 if at == 2 else 40.0},
         "accumulated": {"sqnr_db": 45.0 - 10.0 * at / len(report["plan"]["layers"])}, "predicted_db": 33.0,
         "causes": [{"code": "weights", "text": "weights are 9 steps from those of A"}] if at == 2 else []}
        for at, layer in enumerate(report["plan"]["layers"])
    ]  # fmt: skip
    worst = {"sample": 7, "where": "calib/7.png", "sqnr_db": 18.5, "outputs": [
        {"output": "y", "shape": [1, 10], "argmax": [3, 5], "values": [{"index": [0, 3], "a": 1.25, "b": 0.5}]}]}  # fmt: skip
    return {"kind": "analysis", "schema": 1, "rows": rows, "worst": worst, "drift": "t9", "drift_db": 20.0}


def made(report: dict[str, Any], **more: Any) -> str:
    return html_of(page_of(OpenedReport("net.report.json", report), **more))


@pytest.fixture(scope="module")
def page() -> Read:
    report = synthetic(12)
    return Read(made(report, analysis=analysis_of(report)))


def test_sections_stand_in_the_order_of_a_decision(page: Read) -> None:
    assert page.sections == ["verdict", "ledger", "layers", "depth", "surgery", "checks", "reproduce"]


# What somebody asks of a run, and what the page says: in its text, or in the data of its layers.
ANSWERS = {
    "How accurate is it?": "29.5 dB on 16 samples held out",
    "Which output is worst?": "Worst output 29.5 dB y",
    "Are the decisions the same?": "Agreement of the argmax 99.0 %",
    "How much of it is int8?": "In int8, of eligible work 98.0 %",
    "Is it worth it?": "1.40 to 1.60 times as fast as plain float16",
    "How large is the file?": "4 MB → 1 MB",
    "How much memory does it take?": "401 kB at most",
    "Is the goal met?": "not met: 29.5 31 asked for",
    "What stays in float, and why?": "depthwise: int8 gains nothing : 1 layer",
    "Is my normalization wrong?": "pixels are fed from 0 to 255",
    "Did repair help?": "bias kept 28.0 dB 29.5 dB",
    "Is it the body or int8?": "y: int8 alone 30.5 dB",
    "Is it the weights or the activations?": "activations in int8, all of them 30.0 dB predicted, with nothing in float for the goal; 70.0 % of the noise",
    "Which tensor makes the noise?": "/stage0/block4/Conv_input /stage0/block4/Conv 31.5 dB 65.0 %",
    "Was the prediction right?": "29.9 dB 29.4",
    "What did surgery change, and is that proved?": "fold_batchnorm fuse : 1 (1 exact)",
    "What nearly matched?": "its scale is an input (fold_scale)",
    "What does the target not take?": "(Einsum): TensorRT does not take it",
    "Which layer is suspicious, is it the weights?": "/stage0/block2/Conv: weights are 9 steps from those of A",
    "Which sample is worst?": "sample 7, calib/7.png : 18.5 dB",
    "What runs in another type than planned?": "Planned in int8, and not run in it /stage0/block6/Conv",
    "What do I do next?": "trtexec --onnx=net.int8.onnx",
    "Which file is this?": "SHA-256 of the result 5ed9",
}


@pytest.mark.parametrize("question", ANSWERS)
def test_the_page_answers(page: Read, question: str) -> None:
    assert ANSWERS[question] in page.said


def test_the_layers_answer(page: Read) -> None:
    data = page.data
    layers = {layer["name"]: layer for layer in data["layers"]}
    worst = min(data["layers"], key=lambda layer: layer["isolated"])
    assert (worst["name"], worst["isolated"], worst["noise"]) == ("/stage0/block2/Conv", 12.0, 33.0)
    clipped = min(data["layers"], key=lambda layer: layer["clip"])
    assert (clipped["name"], clipped["clip"]) == ("/stage0/block4/Conv", 0.5)
    tensor = data["tensors"][clipped["tensors"][0]]
    assert (tensor["scale"], tensor["low"], tensor["high"], tensor["top"]) == (0.03, -1.0, 8.0, 8.0)
    assert len(tensor["counts"].split()) == 64
    group = next(group for group in data["groups"] if group["id"] == tensor["group"])
    assert tensor["name"] in group["tensors"]
    assert group["reasons"] == ["inputs of one Concat (/cat)"]
    kernel = data["kernels"][clipped["kernels"][0]]
    assert kernel["nodes"] == ["/stage0/block4/Conv", "/stage0/block4/Conv_relu"]
    assert kernel["moved"] == 2 * 64 * 56 * 56
    assert kernel["weights"] == 64 * 64 * 9
    assert (layers["/stage0/block3/Conv"]["planned"], layers["/stage0/block6/Conv"]["compiled"]) == (
        "float", "fp16",
    )  # fmt: skip
    assert layers["/stage0/block5/Conv"]["gain"] == 1.5
    assert data["graph"][5]["reads"] == [4]
    plain = made(synthetic(12))
    assert {one["name"]: one["noise"] for one in Read(plain).data["layers"]}["/stage0/block7/Conv"] == 55.5


def test_nothing_is_loaded_from_elsewhere(page: Read) -> None:
    for tag, attrs in page.tags:
        assert tag not in ("iframe", "object", "embed", "base", "img"), tag
        for name in ("src", "href", "action", "data"):
            assert (attrs.get(name) or "#").startswith(("#", "data:,")), (tag, attrs)
    csp = next(attrs["content"] for _, attrs in page.tags if "http-equiv" in attrs)
    assert csp is not None
    assert csp.startswith("default-src 'none'")
    assert len(page.scripts) == 2


@pytest.mark.parametrize("name", HOSTILE, ids=range(len(HOSTILE)))
def test_names_do_no_harm(name: str) -> None:
    """Wherever a name stands, the page has the elements and scripts that it has with a plain one."""
    plain = made(_named("plain"))
    hostile = made(_named(name))
    one, other = Read(plain), Read(hostile)
    assert [tag for tag, _ in one.tags] == [tag for tag, _ in other.tags]
    assert [sorted(attrs) for _, attrs in one.tags] == [sorted(attrs) for _, attrs in other.tags]
    assert one.scripts[1] == other.scripts[1]
    assert not re.search("[<>&\u2028\u2029]", other.scripts[0])
    assert other.data["layers"][0]["name"] == name
    assert "\x1b" not in hostile
    assert "\u202e" not in other.said
    hostile.encode("utf-8", "backslashreplace")


def _named(name: str) -> dict[str, Any]:
    report = synthetic(12, [f"{name}"])
    for key in ("model", "output", "target", "sha256"):
        report[key] = f"{name}.onnx"
    report["about_mean"]["worst_output"] = report["accuracy"][0]["output"] = name
    report["plan"]["kept_float"][0].update(node=name, because=name)
    report["changes"][0].update(rule=name, removed=[name], added=[name])
    report["changes"][0]["proof"]["why"] = name
    for node in (*report["changes"][0]["sketch"]["before"], *report["changes"][0]["sketch"]["after"]):
        node.update(name=name, op=name)
    report["engine"]["compiler"] = report["calibration"]["method"] = name
    report["commands"], report["files"], report["notes"] = [name], [name], [name]
    return report


def test_five_thousand_layers() -> None:
    report = synthetic(5000)
    began = time.process_time()
    html = made(report, analysis=analysis_of(report))
    assert time.process_time() - began < 10
    assert len(html.encode()) < 15e6
    assert len(Read(html).data["layers"]) == 5000


def test_what_a_report_lacks_is_left_out() -> None:
    assert Read(made({"schema": 1, "onnxq": "0.1.0"})).sections == ["verdict", "reproduce"]
    early = Read(made(json.loads(EARLY.read_text())))
    assert {"verdict", "layers", "reproduce"} <= set(early.sections)


def test_parts_of_other_types_are_left_out() -> None:
    """A report that somebody edited: no part is what it should be."""
    report = synthetic(12)
    for key, value in report.items():
        for other in (None, 7, "text", [None, 7], {"a": [7]}, [{"a": 7}]):
            if key not in ("schema", "onnxq") and other != value:
                made({**copy.deepcopy(report), key: other})


def test_a_change_is_drawn_before_and_after() -> None:
    page = page_of(OpenedReport("", synthetic(12)))
    assert page.surgery is not None
    drawn = page.surgery.rules[0].changes[0].drawn
    assert drawn is not None
    before, after = drawn
    assert before is not None
    assert after is not None
    assert [box.title for box in before.boxes] == ["", "Conv", "BatchNormalization", ""]
    assert [box.y for box in before.boxes] == sorted({box.y for box in before.boxes})  # one below the other
    assert (len(before.edges), len(after.edges)) == (3, 2)
    html = made(synthetic(12))
    assert html.count('<svg class="graph"') == 2


@pytest.mark.parametrize("inputs", [[["a"], ["b"]], [["b"], ["a"]], [["a", "b", "c"], []]])
def test_what_is_no_graph_is_drawn_all_the_same(inputs: list[list[str]]) -> None:
    """A report that somebody edited: nodes that read themselves, or each other."""
    nodes = [
        GraphNode(str(at), "Add", tuple(read), (give,))
        for at, (read, give) in enumerate(zip(inputs, "ab", strict=True))
    ]
    drawing = graph_drawing(nodes)
    assert drawing is not None
    assert drawing.height < 1000
    assert len([box for box in drawing.boxes if box.title]) == 2


def test_another_run_beside_it() -> None:
    other = synthetic(12)
    other["about_mean"]["sqnr_about_mean_db"] = 35.0
    page = Read(made(synthetic(12), compare=OpenedReport("before.report.json", other)))
    assert page.sections[:2] == ["verdict", "beside"]
    assert "before.report.json" in page.said


def test_the_page_is_made_again(tmp_path: Path) -> None:
    path = tmp_path / "net.report.json"
    path.write_text(json.dumps(synthetic(12)))
    found = onnxq.report(path)
    assert found.page == str(tmp_path / "net.report.html")
    assert found.bytes == Path(found.page).stat().st_size
    onnxq.report(path)  # it is onnxq's own: replaced
    mine = tmp_path / "mine.html"
    mine.write_text("<p>mine</p>")
    with pytest.raises(onnxq.UserError, match="is no page of onnxq"):
        onnxq.report(path, mine)
    with pytest.raises(onnxq.UserError, match="is no analysis"):
        onnxq.report(path, tmp_path / "b.html", analysis=path)
    onnxq.report(path, mine, force=True)
    assert mine.read_text("utf-8").startswith("<!doctype html>")
