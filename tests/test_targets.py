"""The tables of the targets: they load, add up, and what they lack is what rules and reports know."""

from __future__ import annotations

import itertools
import re
from dataclasses import replace
from pathlib import Path

import onnx
import onnx.parser
import pytest
from onnx import TensorProto, helper

from onnxq import quantize, sanitize
from onnxq.base.errors import UserError
from onnxq.graph.features import FEATURES
from onnxq.graph.model import Model
from onnxq.pipeline.not_taken import unsupported
from onnxq.rule.load import load_rules
from onnxq.run import trt
from onnxq.targets import NAMES, load_target, miscompute_table, taken_from, version_of

TARGETS = {name: load_target(name) for name in NAMES}
OPERATORS = {schema.name for schema in onnx.defs.get_all_schemas_with_history() if schema.domain == ""}
OF_ML = {one.name for one in onnx.defs.get_all_schemas_with_history() if one.domain == "ai.onnx.ml"}
OLDEST_FIRST = NAMES[: NAMES.index("tensorrt-11") + 1]


@pytest.mark.parametrize("name", NAMES)
def test_a_table_names_operators_of_onnx(name: str) -> None:
    target = TARGETS[name]
    assert target.name == name
    assert target.unsupported <= OPERATORS
    assert set(target.advice) <= OPERATORS | OF_ML
    assert not target.unsupported & target.lacks
    assert 11 <= target.max_opset <= 27
    assert target.source


def test_a_newer_target_takes_what_an_older_one_takes() -> None:
    for older, newer in itertools.pairwise(OLDEST_FIRST):
        assert TARGETS[newer].unsupported < TARGETS[older].unsupported
        assert TARGETS[newer].lacks < TARGETS[older].lacks
        assert TARGETS[newer].max_opset >= TARGETS[older].max_opset


@pytest.mark.parametrize(
    ("operator", "first"),
    [
        ("GatherElements", "tensorrt-8.0"),
        ("ScatterND", "tensorrt-8.2"),
        ("GridSample", "tensorrt-8.5"),
        ("HardSwish", "tensorrt-8.5"),
        ("LayerNormalization", "tensorrt-8.6"),
        ("Mish", "tensorrt-10"),
        ("DeformConv", "tensorrt-11"),
        ("Conv", "tensorrt-7"),
    ],
)
def test_the_first_version_with_an_importer(operator: str, first: str) -> None:
    takes = [name for name in OLDEST_FIRST if operator not in TARGETS[name].unsupported]
    assert takes[0] == first


def test_every_feature_that_a_table_lacks_is_one_that_a_rule_or_the_report_knows() -> None:
    repaired = {rule.lacks for rule in load_rules() if rule.lacks is not None}
    lacking = set().union(*(target.lacks for target in TARGETS.values()))
    refused = set().union(*(target.unsupported for target in TARGETS.values()))
    assert lacking <= repaired | FEATURES
    assert repaired | FEATURES <= lacking | refused | set(miscompute_table())
    # a Scatter or a GridSample that its rule must leave is named by the report
    assert repaired & FEATURES == {
        "nine-dimensions",
        "scatter-nd-reduction",
        "scatter-elements-reduction",
        "grid-sample-modes",
        "tensor-scatter-forms",
    }


@pytest.mark.parametrize("name", NAMES)
def test_calibration_caches_are_of_the_target_s_version(name: str) -> None:
    version = name.removeprefix("tensorrt-")
    if version in ("11", "rtx"):  # they take INT8 as Q/DQ pairs only
        assert TARGETS[name].cache is None
        return
    digits, algorithm = re.fullmatch(r"TRT-(\d+)-(\w+)", TARGETS[name].cache or "").groups()
    major, rest = divmod(int(digits), 10000 if version == "10" else 1000)
    assert f"{major}.{rest // 100}".startswith(version)
    assert algorithm == "EntropyCalibration2"


def test_an_unknown_target() -> None:
    with pytest.raises(UserError, match="no target 'tensorrt-9'"):
        load_target("tensorrt-9")


CASES = {
    "pad-mode": ("int64[8] a = {0,0,1,1,0,0,1,1}", 'Pad <mode = "reflect"> (x, a)', 7, 8.2, "mode=reflect"),
    "pad-value": ("float c = {1}, int64[8] a = {0,0,1,1,0,0,1,1}", "Pad (x, a, c)", 7, 8.2, "constant 1.0"),
    "pad-leading": ("int64[8] a = {0,1,0,1,0,0,0,1}", "Pad (x, a)", 7, 8.0, "dimension 1,"),
    "pad-three": ("int64[8] a = {0,1,1,1,0,0,0,0}", "Pad (x, a)", 8.0, 8.2, "3 dimensions"),
    "pad-runtime": ("int64 n = {0}", "Pad (x, p)", 7, 8.2, "pads computed"),
    "clip": ("float n = {0}", "Clip (x, n, v)", 7, 8.0, "bounds computed"),
    "resize-half-pixel": (
        "float[4] s = {1,1,2,2}", 'Resize <mode = "linear"> (x, , s)', 7, 8.0, "=half_pixel"),
    "resize-round": (
        "float[4] s = {1,1,2,2}",
        'Resize <coordinate_transformation_mode = "asymmetric"> (x, , s)', 7, 8.0, "round_prefer_floor"),
    "resize-cubic": ("float[4] s = {1,1,2,2}", 'Resize <mode = "cubic"> (x, , s)', 8.2, 8.5, "cubic"),
    "resize-scales": (
        "float[3] s = {1,1,2}", "Resize (x, , q)", 8.2, 8.5, "scales computed at run time"),
    "topk": ("float n = {0}", "TopK (x, k)", 8.5, 8.6, "K computed"),
    "grid-sample": ("float n = {0}", "GridSample (volume, grid)", 10, 11, "5 dimensions"),
    "deconv": ("float n = {0}", "ConvTranspose (x, w)", 7, 8.0, "weights computed"),
    "dilated": (
        "float[3,1,2,2] k = {1,1,1,1,1,1,1,1,1,1,1,1}",
        "ConvTranspose <dilations = [2, 2]> (x, k)", 7, 8.0, "dilations=[2, 2]"),
    "top-k-of-integers": ("int64[1] one = {1}", "TopK (j, one)", 8.5, 8.6, "tensors of int32"),
    "trilu": ("float n = {0}", "Trilu (x)", 8.5, 8.6, "4 dimensions"),
    "lengths": ("float n = {0}", "ReverseSequence (t, l)", 8.5, 8.6, "a time axis of any size"),
    "scatter": (
        "int64[1,1,1,1] i = {0}", 'ScatterElements <reduction = "add"> (x, i, e)', 8.6, 10, "reduction=add"),
}  # fmt: skip
INPUTS = """float[2, 3, 4, 5] x, float v, int64[8] p, float[4] r, int64[1] k, float[1, 1, 2, 2, 2] volume,
    float[1, 2, 2, 2, 3] grid, int32[2, 4] j, float[T, 2, 3] t, int64[2] l,
    float[3, 1, 2, 2] w, float[1, 3, 4, 5] u, float[1, 1, 1, 1] e"""


@pytest.mark.parametrize("case", CASES)
def test_what_a_node_asks_of_the_target(case: str) -> None:
    constants, node, last, first, says = CASES[case]
    outputs = "y, i" if "TopK" in node else "y"
    model = onnx.parser.parse_model(
        f"""<ir_version: 8, opset_import: ["" : 17]>
        g ({INPUTS}) => (y) <{constants}> {{ q = Abs (r)  [it] {outputs} = {node} }}"""
    )
    found = {}
    for name in (f"tensorrt-{last}", f"tensorrt-{first}"):
        skip = ("scatter_elements_reduction", "grid_sample_gathers")
        entries = sanitize(model, target=name, prove="never", skip=skip).report["unsupported"]
        found[name] = [entry for entry in entries if entry["node"] == "it" and says in entry["reason"]]
    refused, taken = found.values()
    assert len(refused) == 1
    assert refused[0]["reason"].startswith(f"TensorRT {last} does not take")
    assert "before the export" in refused[0]["advice"]
    assert taken == []


RARE = ("FLOAT8E4M3FNUZ", "FLOAT8E5M2", "FLOAT8E5M2FNUZ", "FLOAT8E8M0", "UINT4", "UINT2", "INT2")
COMMON = (
    "FLOAT",
    "FLOAT16",
    "BFLOAT16",
    "DOUBLE",
    "BOOL",
    "INT4",
    "INT8",
    "INT32",
    "INT64",
    "FLOAT8E4M3FN",
    "FLOAT4E2M1",
)


def with_type(kind: str) -> onnx.ModelProto:
    """What becomes an element type, and float again."""
    code = TensorProto.DataType.Value(kind)
    nodes = [helper.make_node("Cast", ["x"], ["a"], to=code), helper.make_node("Cast", ["a"], ["y"], to=1)]
    x, y = (helper.make_tensor_value_info(name, 1, [4]) for name in "xy")
    opsets = [helper.make_opsetid("", 25)]
    return helper.make_model(helper.make_graph(nodes, "g", [x], [y]), ir_version=13, opset_imports=opsets)


def with_window(op: str, kind: str) -> onnx.ModelProto:
    code = TensorProto.DataType.Value(kind.upper())
    return onnx.parser.parse_model(f"""<ir_version: 8, opset_import: ["" : 17]>
        g (int64 n, {kind}[M] x) => ({kind}[M] y) {{
            w = {op} <output_datatype = {code}> (n)  y = Mul (w, x) }}""")


TYPED = {kind: (with_type(kind), kind in COMMON) for kind in (*RARE, *COMMON)}
TYPED |= {
    f"{op} {kind}": (with_window(op, kind), kind == "float")
    for op in ("BlackmanWindow", "HammingWindow", "HannWindow")
    for kind in ("float", "double", "float16")
}


@pytest.mark.parametrize("case", TYPED)
def test_the_table_knows_the_types_that_nvidia_s_parser_takes(case: str, tmp_path: Path) -> None:
    model, taken = TYPED[case]
    reasons = [one.reason for one in unsupported(Model.open(model), load_target("tensorrt-11"))]
    assert (reasons == []) is taken
    if trt.installed() is not None:
        onnx.save(model, tmp_path / "m.onnx")
        assert (not trt.check_parse(tmp_path / "m.onnx")) is taken


def test_a_constant_of_a_rare_type_is_folded_and_no_finding() -> None:
    nodes = [helper.make_node("Cast", ["c"], ["f"], to=1), helper.make_node("Add", ["x", "f"], ["y"])]
    x, y = (helper.make_tensor_value_info(name, 1, [2]) for name in "xy")
    graph = helper.make_graph(
        nodes, "g", [x], [y], [helper.make_tensor("c", TensorProto.UINT4, [2], [3, 15])]
    )
    model = helper.make_model(graph, ir_version=10, opset_imports=[helper.make_opsetid("", 21)])
    assert not unsupported(Model.open(model), load_target("tensorrt-11"))
    assert [node.op_type for node in sanitize(model).model.graph.node] == ["Add"]


@pytest.mark.parametrize("pads", ["0,1,0,1,0,0,0,0,0", "0,1"])
def test_a_pad_whose_amounts_are_not_those_of_its_dimensions_asks_nothing(pads: str) -> None:
    """What runs the model says that it is damaged."""
    count = pads.count(",") + 1
    model = Model.open(onnx.parser.parse_model(
        f"""<ir_version: 8, opset_import: ["" : 17]> g (float[2, 3, 4, 5] x) => (float[2, 3, 4, 5] y)
        <int64[{count}] a = {{{pads}}}> {{ [it] y = Pad (x, a) }}"""
    ))  # fmt: skip
    assert not [one for one in unsupported(model, load_target("tensorrt-7")) if one.node == "it"]


def test_pads_and_scales_of_old_opsets() -> None:
    model = onnx.parser.parse_model("""<ir_version: 7, opset_import: ["" : 10]>
        g (float[2, 3, 4, 5] x, float[4] s) => (y, z) {
            [one] y = Pad <pads = [0, 1, 0, 0, 0, 0, 0, 0], mode = "edge"> (x)
            [two] z = Resize (x, s) }""")
    found = sanitize(model, target="tensorrt-7", prove="never").report["unsupported"]
    assert [(entry["node"], entry["reason"]) for entry in found] == [
        ("one", "TensorRT 7 does not take Pad with mode=edge"),
        ("one", "TensorRT 7 does not take Pad with padding of dimension 1, not the last two"),
        ("two", "TensorRT 7 does not take Resize with scales computed at run time"),
    ]


@pytest.mark.parametrize(
    ("target", "trtexec", "polygraphy"),
    [
        ("tensorrt-8.0", "--int8 --fp16", "--int8 --fp16"),
        ("tensorrt-8.6", "--int8 --fp16", "--int8 --fp16"),
        ("tensorrt-10", "--int8 --fp16", "--int8 --fp16"),
        ("tensorrt-11", "", ""),
        ("tensorrt-rtx", "", ""),
    ],
)
def test_commands_let_tensorrt_run_int8(target: str, trtexec: str, polygraphy: str, tmp_path: Path) -> None:
    digits = Path(__file__).parents[1] / "sample_models" / "digits"
    result = quantize(
        digits / "digits.onnx", digits / "calib", target=target, method="minmax", repair="none", compile=False
    )
    result.save(tmp_path / "x.onnx")
    build, run = (line.split() for line in result.report["commands"])
    flags = {"--int8", "--fp16", "--bf16", "--stronglyTyped", "--strongly-typed"}
    assert flags & set(build) == set(trtexec.split())
    assert flags & set(run) == set(polygraphy.split())


def test_a_body_of_bfloat16_wants_its_flag(tmp_path: Path) -> None:
    digits = Path(__file__).parents[1] / "sample_models" / "digits"
    options = {
        "target": "tensorrt-10",
        "body": "bf16",
        "method": "minmax",
        "repair": "none",
        "compile": False,
    }
    result = quantize(digits / "digits.onnx", digits / "calib", **options)  # type: ignore[arg-type]
    result.save(tmp_path / "x.onnx")
    for line in result.report["commands"]:
        assert {"--int8", "--bf16"} <= set(line.split())
        assert "--fp16" not in line


@pytest.mark.parametrize(
    ("what", "before", "from_it"),
    [
        ("DeformConv", "10.0", "10.1"),
        ("HannWindow", "10.3", "10.4"),
        ("STFT", "10.3", "10.5"),
        ("group-normalization-21", "10.8", "10.9"),
        ("Attention", "10.13", "10.14"),
        ("TensorScatter", "10.14", "10.15"),
        ("grid-sample-3d", "11.1", "11.2"),
        ("HardSwish", "8.2", "8.4"),
        ("deconv3d-asymmetric", "8.3", "8.4"),
        ("CumSum", "7.1", "7.2"),
        ("GridSample", "8.4", "8.5"),
    ],
)
def test_a_release_has_what_came_with_it(what: str, before: str, from_it: str) -> None:
    older, newer = load_target(before), load_target(f"trt-{from_it}.1")
    assert (older.title, older.name) == (f"TensorRT {before}", f"tensorrt-{before}")
    assert older.lacks_feature(what)
    assert not newer.lacks_feature(what)
    assert taken_from(what, older) == from_it


def test_a_release_differs_from_its_table_in_nothing_else() -> None:
    table, release = load_target("tensorrt-10"), load_target("10.13")
    since = {what for what, first in table.since.items() if version_of(first) <= (10, 13)}
    assert release.lacks == table.lacks - since
    assert release.unsupported == table.unsupported - since
    assert {*release.since} == {*table.since} - since
    same = {"name": table.name, "title": table.title, "lacks": table.lacks, "since": table.since,
            "miscomputes": table.miscomputes}  # fmt: skip
    assert replace(release, **same, unsupported=table.unsupported) == table
    assert load_target("11.5").since == {}


@pytest.mark.parametrize("name", ["9.2", "8", "6.0", "12", "tensorrt-", "tensorrt-10.x"])
def test_releases_without_a_table(name: str) -> None:
    with pytest.raises(UserError, match="no target"):
        load_target(name)


TILED = """<ir_version: 8, opset_import: ["" : 17]> net (float[B, 7] x, float[1, 4] e) => (float[M, N] y)
    <int64[1] z = {0}, int64[1] one = {1}, int64[1] two = {2}, int64[2] ones = {1, 1}, int64 zero = {0},
     int64[1, 1] at = {0}, int64 count = {2}, bool true = {1}> {
        s = Shape (x)  b = Slice (s, z, one, z)  [MADE]  y = Tile (e, r) }"""
SIZES = {
    "OneHot": "v = Concat <axis = 0> (one, b)  [made] r = OneHot (zero, count, v)",
    "ScatterND": "[made] r = ScatterND (ones, at, b)",
    "TopK": "c = Concat <axis = 0> (b, one)  [made] r, i = TopK <axis = 0> (c, two)",
    "CumSum": "c = Concat <axis = 0> (b, z)  [made] r = CumSum (c, zero)",
    "Round": "f = Cast <to = 1> (b) [made] g = Round (f) h = Cast <to = 7> (g) r=Concat <axis = 0> (h, one)",
    "Not": "g = Greater (b, one)  [made] n = Not (g)  k = Where (n, one, b)  r = Concat <axis = 0> (k, one)",
    "ArgMax": "c = Concat <axis = 0> (b, z) [made] m = ArgMax <axis = 0> (c)  r = Concat <axis = 0> (m, one)",
    "Loop": """n = Squeeze (b, z)  [made] l = Loop (n, true, one)
        <body = g (int64 i, bool c, int64[1] a) => (bool d, int64[1] e) { d = Identity (c) e = Add (a, one) }>
        r = Concat <axis = 0> (l, one)""",
    "Scan": """c = Concat <axis = 0> (b, one)  [made] m = Scan <num_scan_inputs = 1,
        body = g (int64[1] a, int64 i) => (int64[1] e) { e = Add (a, i) }> (one, c)
        r = Concat <axis = 0> (m, one)""",
    "none": "m = Mul (b, two)  r = Concat <axis = 0> (m, one)",
    "its shape": "g = Greater (b, z)  n = NonZero (g)  r = Shape (n)",
}
REFUSED_FROM = {"Round": "8.5", "Not": "8.5", "none": "", "its shape": ""}


@pytest.mark.parametrize("op", SIZES)
@pytest.mark.parametrize("release", ["8.5", "8.6", "10.3", "11"])
def test_sizes_that_no_shape_tensor_can_be(op: str, release: str) -> None:
    """TensorRT 8.6: an IIOneHotLayer cannot be used to compute a shape tensor."""
    model = Model.open(onnx.parser.parse_model(TILED.replace("[MADE]", SIZES[op])))
    told = [one.reason for one in unsupported(model, load_target(release)) if "sizes that" in one.reason]
    last = REFUSED_FROM.get(op, "8.6")
    refuses = bool(last) and version_of(release) <= version_of(last)
    title = load_target(release).title
    assert told == ([f"{title} does not take Tile with sizes that {op} 'made' computes"] if refuses else [])
