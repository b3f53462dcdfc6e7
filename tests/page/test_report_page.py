"""The page of a run: what it holds, in which order, that names do no harm, how large it gets."""

# ruff: noqa: E501

from __future__ import annotations

import itertools
import json
import re
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from as_read import Read
from long_report import analysis_of, synthetic
from said import is_said

import onnxq
from onnxq.analysis.reports import OpenedReport
from onnxq.base.typed import Unlike
from onnxq.cli.pages.accuracy import accuracy_section
from onnxq.cli.screen import Page
from onnxq.documents.analysis import Analysis
from onnxq.documents.reading import read_plain
from onnxq.page.depth import chart
from onnxq.page.making import html_of, page_of
from onnxq.page.surgery import graph_drawing
from onnxq.rewrite.change_sketch import SketchedNode

ROOT = Path(__file__).resolve().parents[2]
EARLY = ROOT / "tests" / "analysis" / "early.report.json"
HOSTILE = (
    "<script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "</script><script>alert(1)//",
    "a'b\"c&amp;", "\x1b[31mred\x1b[0m", "\u202egnp.exe", "{{ 7 * 7 }}{% raw %}", "\u2028\u2029", "n" * 2000,
    "\udc80", "javascript:alert(1)", "<!--<script>",
)  # fmt: skip


def made(report: dict[str, Any], **more: Any) -> str:
    if "analysis" in more:
        more["analysis"] = read_plain(Analysis, more["analysis"])
    return html_of(page_of(OpenedReport.of(report, "net.report.json"), **more))


@pytest.fixture(scope="module")
def page() -> Read:
    report = synthetic(12)
    return Read(made(report, analysis=analysis_of(report)))


def test_sections_stand_in_the_order_of_a_decision(page: Read) -> None:
    assert page.sections == ["verdict", "ledger", "layers", "depth", "surgery", "checks", "reproduce"]


# What somebody asks of a run, what the page says in its text, and where in the report (or in the analysis) that stands.
ANSWERS: dict[str, tuple[str, tuple[str | int, ...]]] = {
    "How accurate is it?": ("29.5 dB on 16 samples kept apart", ("about_mean", "sqnr_about_mean_db")),
    "Which output is worst?": ("Worst output 29.5 dB y", ("about_mean", "outputs", 0, "sqnr_about_mean_db")),
    "Are the decisions the same?": ("Agreement of the argmax 99.0 %", ("accuracy", 0, "top1")),
    "How much of it is int8?": ("In int8, of eligible work 98.0 %", ("plan", "int8_share_of_eligible_macs")),
    "Is it worth it?": (
        "int8 moves 0.50 times the bytes of plain float16 12 kernels for 14, 3 of them only convert; "
        "multiplies int8 98.0 %, fp16 2.0 %; whether that is faster only a GPU tells",
        ("verdict", "merged", "int8", "weights_mb")),
    "How large is the file?": ("4 MB → 1 MB", ("size", "before")),
    "How much memory does it take?": ("401 kB at most", ("engine", "layers", 5, "outputs", 0, "shape", 1)),
    "What does a run move, and as which engine?": (
        "Memory traffic of a run, merged 2 MB 4 MB in plain float16; as built by TensorRT-RTX 5 MB",
        ("verdict", "merged", "int8", "moved_mb")),
    "Why do the kernels move more than the verdict says?": (
        "moved in a run as built by TensorRT-RTX; merged, as TensorRT builds on a GPU, 2 MB",
        ("verdict", "merged", "int8", "moved_mb")),
    "Is the goal met?": ("not met: 29.5 31 asked for", ("goal", "gates", 0, "measured")),
    "What stays in float, and why?": ("depthwise: int8 gains nothing : 1 layer", ("plan", "kept_float", 0, "because")),
    "Is my normalization wrong?": ("pixels are fed from 0 to 255", ("calibration", "data", "doubts", 0, "text")),
    "Did repair help?": ("bias kept 28.0 dB 29.5 dB", ("repair", "steps", 0, "before_db")),
    "Is it the body or int8?": ("y: int8 alone 30.5 dB", ("body", "outputs", 0, "int8_db")),
    "Is it the weights or the activations?": (
        "activations in int8, all of them 30.0 dB predicted, with nothing in float for the goal; 70.0 % of the noise",
        ("goal", "search", "noise", "kinds", 1, "alone_db")),
    "Which tensor makes the noise?": (
        "/stage0/block4/Conv_input /stage0/block4/Conv 31.5 dB 65.0 %",
        ("goal", "search", "noise", "sources", 0, "share")),
    "Was the prediction right?": ("29.9 dB 29.4", ("goal", "search", "trials", 0, "predicted_sqnr_db")),
    "What did surgery change, and is that proved?": (
        "fold_batchnorm fuse : 1 (1 exact)", ("changes", 0, "proof", "verdict")),
    "What nearly matched?": ("its scale is an input (fold_scale)", ("near_misses", 0, "reason")),
    "What does the target not take?": ("(Einsum): TensorRT does not take it", ("unsupported", 0, "reason")),
    "Which layer is suspicious, is it the weights?": (
        "/stage0/block2/Conv: weights are 9 steps from those of A", ("analysis", "rows", 2, "causes", 0, "text")),
    "Which sample is worst?": ("sample 7, calib/7.png : 18.5 dB", ("analysis", "worst", "sample")),
    "What runs in another type than planned?": (
        "Planned in int8, and not run in it /stage0/block6/Conv", ("engine", "not_int8", 0)),
    "What do I do next?": ("trtexec --onnx=net.int8.onnx", ("commands", 0)),
    "Which file is this?": ("SHA-256 of the result 5ed9", ("sha256",)),
}  # fmt: skip


@pytest.mark.parametrize("question", ANSWERS)
def test_the_page_answers(page: Read, question: str) -> None:
    """And with another value in the report the answer is another one."""
    answer, keys = ANSWERS[question]
    assert answer in page.said
    report = synthetic(12)
    analysis = analysis_of(report)
    at: Any = analysis if keys[0] == "analysis" else report
    *way, last = [key for key in keys if key != "analysis"]
    for key in way:
        at = at[key]
    at[last] = "another" if isinstance(at[last], str) else 3 * at[last] + 1
    assert answer not in Read(made(report, analysis=analysis)).said


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


def test_a_threshold_of_an_edit_is_not_one_of_the_tensor() -> None:
    """Centred pixels need half the threshold: that clips nothing."""
    report = synthetic(12)
    report["repair"]["edits"] = [
        {
            "kind": "lattice",
            "tensor": "/stage0/block4/Conv_input",
            "step": 0.5,
            "centres": [4.0],
            "readers": ["/stage0/block4/Conv"],
        }
    ]
    data = Read(made(report)).data
    layers = {layer["name"]: layer["clip"] for layer in data["layers"]}
    assert (layers["/stage0/block4/Conv"], layers["/stage0/block5/Conv"]) == (None, 7.5 / 8)
    tensor = next(one for one in data["tensors"] if one["name"] == "/stage0/block4/Conv_input")
    assert (tensor["edited"], tensor["amax"]) == ("lattice", 4.0)


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


def test_an_axis_of_magnitudes_is_logarithmic_but_near_zero() -> None:
    """Each factor of ten takes the same room, to both sides; gaps are gaps, and of many points peaks stay."""
    drawn = chart("ranges", [("greatest", [1.0, 10.0, 100.0, 1000.0, None, -1000.0])], ("a", "b"), bend=0.01)
    assert drawn is not None
    points = [tuple(map(float, at.split())) for at in re.split("[ML]", drawn.lines[0].path)[1:]]
    assert [x for x, _ in points] == [0, 200, 400, 600, 1000]
    heights = [y for _, y in points]
    steps = [one - other for one, other in itertools.pairwise(heights[:4])]
    assert steps == pytest.approx([steps[0]] * 3, abs=0.2)
    assert (heights[3], heights[4]) == (10, 210)
    assert [mark.text for mark in drawn.marks][:: len(drawn.marks) - 1] == ["1e+03", "-1e+03"]
    many = [1.0] * 20_000
    many[12_345], many[777] = 50.0, -40.0
    drawn = chart("ranges", [("both", many)], ("a", "b"), bend=1.0)
    assert drawn is not None
    told = [float(at.split()[1]) for at in re.split("[ML]", drawn.lines[0].path)[1:]]
    assert (len(told) <= 1500, min(told), max(told)) == (True, 10, 210)


def test_ranges_are_drawn_of_what_calibrated_where_no_layer_was_measured() -> None:
    report = synthetic(12)
    tensors = [*report["calibration"]["ranges"]]
    text = Read(made(report)).said_in("depth")
    assert is_said(text, "curve.ranges", samples="80 samples that calibrated")
    assert f"{tensors[0]} {tensors[-1]}" in text
    report["layer_errors"] = {"samples": 2, "ranges": {"a": [-3.0, 5.0], "b": [0.0, "inf"], "c": [-1.0, 7.0]}}
    text = Read(made(report)).said_in("depth")
    assert is_said(text, "curve.ranges", samples="2 samples")
    assert re.search(r"greatest least 7 .* -3 a c", text)


def test_five_thousand_layers() -> None:
    report = synthetic(5000)
    began = time.process_time()
    html = made(report, analysis=analysis_of(report))
    assert time.process_time() - began < 10
    assert len(html.encode()) < 15e6
    assert len(Read(html).data["layers"]) == 5000


def test_sizes_are_told_by_deployment() -> None:
    report = synthetic(12)
    tokens = {"name": "T", "smallest": 1, "usual": 1, "largest": 1, "origin": "stated", "batch": False}
    worth = {"at": "the usual sizes", "share": 0.2, "weights": 0.93, "reads_weights": True}
    report["deployments"] = [
        {"name": "decode", "weight": 0.8, "is_weight_assumed": False, "samples": 5, "dimensions": [tokens],
         "profiles": {"ids": [[1, 1], [1, 1], [1, 1]]}, "worth": [worth], "activation_mb": 8.194,
         "verdict": None},
        {"name": "prefill<b>", "weight": 0.2, "is_weight_assumed": True, "samples": 0,
         "dimensions": [tokens | {"smallest": 8, "usual": 64, "largest": 512, "origin": "data"}],
         "profiles": {"ids": [[1, 8], [1, 64], [1, 512]]}, "worth": [], "activation_mb": None,
         "verdict": None},
    ]  # fmt: skip
    page = Read(made(report))
    assert page.sections.index("sizes") == page.sections.index("surgery") - 1
    for said in (
        "decode: 80 % of the work, 5 samples", "T 1 (stated)", "limited by reading weights: they are 93 %",
        "the engine takes 8.194 MB for activations", "prefill<b>: 20 % of the work (assumed",
        "no sample is of it", "T 8 to 512, usually 64, as in the samples: the engine takes no others (assumed",
        "prefill<b>: ids 1 × 8 : 1 × 64 : 1 × 512",
    ):  # fmt: skip
        assert any(said in one for one in page.text), said


def test_what_a_report_lacks_is_left_out() -> None:
    assert Read(made({"schema": 1, "onnxq": "0.1.0"})).sections == ["verdict", "reproduce"]
    early = Read(made(json.loads(EARLY.read_text())))
    assert {"verdict", "layers", "reproduce"} <= set(early.sections)


def test_a_part_of_another_type_is_said_by_its_name() -> None:
    """A report that somebody edited: what is null is left out."""
    report = synthetic(12)
    for key in report.keys() - {"schema", "onnxq"}:
        made({**report, key: None})
        with pytest.raises(Unlike) as caught:
            made({**report, key: [None, 7]})
        assert caught.value.at.startswith(f".{key}")


def test_a_change_is_drawn_before_and_after() -> None:
    page = page_of(OpenedReport.of(synthetic(12)))
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
        SketchedNode(str(at), "Add", tuple(read), (give,))
        for at, (read, give) in enumerate(zip(inputs, "ab", strict=True))
    ]
    drawing = graph_drawing(nodes)
    assert drawing is not None
    assert drawing.height < 1000
    assert len([box for box in drawing.boxes if box.title]) == 2


def test_another_run_beside_it() -> None:
    other = synthetic(12)
    other["about_mean"]["sqnr_about_mean_db"] = 35.0
    page = Read(made(synthetic(12), compare=OpenedReport.of(other, "before.report.json")))
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


def test_a_source_that_makes_no_noise() -> None:
    report = synthetic(12)
    report["goal"]["search"]["noise"]["sources"][0]["alone_db"] = 200.0
    assert "no noise 65.0 %" in Read(made(report)).said


@pytest.mark.parametrize(
    ("shape", "told"), [([1, 10], True), ([10], True), ([1, 4, 10], False), ([], True), (None, False)]
)
def test_the_argmax_is_that_of_one_vector(shape: list[int] | None, told: bool) -> None:
    report = synthetic(12)
    analysis = analysis_of(report)
    analysis["worst"]["outputs"][0]["shape"] = shape
    assert ("argmax: 3 in float, 5 here" in Read(made(report, analysis=analysis)).said) == told


# -- accuracy that is lost -------------------------------------------------------------------------
def accuracy_of(measured: dict[str, Any], about: float) -> dict[str, Any]:
    """A report of one output that is as near as that, dB about the mean `about`."""
    report = synthetic(12)
    report["goal"]["gates"] = []
    report["asked"] = [["quantize"], ["net.onnx"], ["--calib", "data"]]
    report["accuracy"][0].update({"samples": 16, "equal": 0.0, "mismatched": 0} | measured)
    levels = [{"output": one["output"], "sqnr_about_mean_db": about} for one in report["accuracy"]]
    report["about_mean"] |= {"sqnr_about_mean_db": about, "worst_output_db": about, "outputs": levels}
    return report


LOST = [
    ({"sqnr_db": 9.9}, 9.0, ""),
    ({"cosine": 0.89}, 12.0, ""),
    ({}, -4.1, " (SQNR about the mean -4.1 dB)"),  # 30 dB, nearly all of them of what samples have in common
    ({"top1": 0.49}, 29.5, " (the same argmax in 49.0 %)"),
    ({"sqnr_db": 9.9, "max_abs": 0.2, "span": 1.0}, -4.1, ""),
]
"""What was measured of the output, its level about the mean, and which figure is named, if any."""


@pytest.mark.parametrize(("measured", "about", "named"), LOST)
def test_what_is_lost_stands_first(measured: dict[str, Any], about: float, named: str) -> None:
    """In red, in the words of the end screen; and nobody is told to build it."""
    report = accuracy_of(measured, about)
    view = page_of(OpenedReport.of(report))
    tones = {card.label: card.tone for card in view.verdict.cards}
    assert (view.verdict.cards[0].tone, tones["Worst output"], tones["Compiles"]) == ("bad", "bad", "open")
    said = f"y has little to do with the float model's{named}"
    assert view.advice.answer == "do-not-ship"
    assert view.advice.because.startswith(said)
    assert any(one.command.endswith(" --min-sqnr 20") for one in view.next)
    screen = Page()
    document = OpenedReport.of(report).document
    calibration: Any = SimpleNamespace(held_out="", held_out_code="apart", not_verified="")
    body: Any = SimpleNamespace(type="fp32", outputs=())
    accuracy_section(screen, document.accuracy, calibration, body, document.about_mean, "int8")
    assert [line.text for line in screen.lines if line.text.startswith(f"{said}: look at the data")]
    html = made(report)
    assert html.index('role="alert"') < html.index('class="fact')
    assert '<div class="fact bad"><dt>Accuracy' in html
    assert '<tr class="bad"><td class="name"><bdi>y<' in html


@pytest.mark.parametrize(
    ("measured", "about", "tone"),
    [
        ({"sqnr_db": 10.0, "cosine": 0.9, "top1": 0.5}, 10.0, ""), ({}, 9.9, "open"), ({}, 0.0, "open"),
        ({"sqnr_db": 3.0, "max_abs": 0.05, "span": 1.0}, -4.1, "open"),  # a probability that is hardly off
        ({"sqnr_db": "inf"}, 100.0, ""),
    ],
)  # fmt: skip
def test_what_is_not_lost_is_not_red(measured: dict[str, Any], about: float, tone: str) -> None:
    view = page_of(OpenedReport.of(accuracy_of(measured, about)))
    assert view.verdict.cards[0].tone == tone
    assert "lost" not in [one.code for one in view.advice.findings]
    assert any(one.text.startswith("Build the engine") for one in view.next)


def test_what_compiles_is_not_green_where_it_is_lost() -> None:
    for about, tone in ((-4.1, ""), (29.5, "good")):
        report = accuracy_of({}, about)
        report["engine"] |= {"int8": 12, "not_int8": []}
        cards = page_of(OpenedReport.of(report)).verdict.cards
        assert next(card.tone for card in cards if card.label == "Compiles") == tone


def test_a_part_of_an_output_is_the_worst() -> None:
    """Whatever it is called: it is on the card, and first in the table."""
    report = synthetic(12)
    report["accuracy"].append(report["accuracy"][0] | {"output": "y[4:22]", "sqnr_db": 2.0, "top1": None})
    page = page_of(OpenedReport.of(report))
    view = page.verdict
    worst = next(card for card in view.cards if card.label == "Worst output")
    assert (worst.value, worst.note, worst.tone) == ("2.0 dB", "y[4:22]", "bad")
    assert [one.output for one in view.outputs] == ["y[4:22]", "y"]
    assert "y[4:22]" in page.advice.because


def test_a_level_of_all_outputs_that_is_of_none() -> None:
    """An early report has it alone."""
    report = synthetic(12)
    report["about_mean"] = {"sqnr_about_mean_db": -4.1}
    page = page_of(OpenedReport.of(report))
    assert page.verdict.cards[0].tone == "bad"
    assert is_said(page.advice.because, "outputs-lost", who="the outputs together", have="have")


def test_names_that_begin_alike_are_cut_at_their_front() -> None:
    names = [f"/model.22/{'detect/' * 20}cv3.{i}/conv/Conv" for i in range(12)]
    report = synthetic(12, names)
    read = Read(made(report, analysis=analysis_of(report)))
    cut = {"verdict": names[3], "ledger": names[4], "depth": names[0], "surgery": names[1]}
    for section, name in cut.items():
        end = re.escape("/".join(name.split("/")[-3:]))
        assert re.search(rf"(?<!\S)\.\.\.\S*{end}( |,|$)", read.said_in(section)), section
