"""Models that the compiler refuses, cut until each piece compiles, and the chain beside the whole."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest
from command import run, weighted
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import onnxq
from onnxq.base.errors import UserError
from onnxq.documents.pieces import Manifest
from onnxq.graph.cut import Cutter
from onnxq.graph.model import Model
from onnxq.inspection import until_compiles
from onnxq.run import ort, trt

needs_compiler = pytest.mark.skipif(
    trt.installed() is None, reason="tensorrt-rtx is not installed: pip install 'onnxq[trt]'"
)
HEAD = '<ir_version: 8, opset_import: ["" : 17, "com.microsoft" : 1]>\n'
ENGINE, OUTSIDE = "tensorrt", "onnxruntime"


def net(text: str) -> onnx.ModelProto:
    """`w` and `v` are square weights; Far is distances of rows, which the compiler refuses, of any [N, 8]."""
    text = text.replace("Far (", 'com.microsoft.CDist <metric = "euclidean"> (')
    return weighted(HEAD + f"net {text}", w=(8, 8), v=(8, 8))


MIDDLE = """(float[N, 8] x) => (float[N, 8] y) {
    [one] a = MatMul (x, w)  [far] b = Far (a, w)  [two] y = MatMul (b, v) }"""
WHERE: dict[str, tuple[str, list[str], int]] = {
    "middle": (MIDDLE, [ENGINE, OUTSIDE, ENGINE], 1),
    "first": (
        "(float[N, 8] x) => (float[N, 8] y) { [far] a = Far (x, w)  y = MatMul (a, v) }",
        [OUTSIDE, ENGINE], 1,
    ),
    "last": (
        "(float[N, 8] x) => (float[N, 8] y) { a = MatMul (x, v)  [far] y = Far (a, w) }",
        [ENGINE, OUTSIDE], 1,
    ),
    "two branches": (
        """(float[N, 8] x) => (float[N, 8] y) {
            a = MatMul (x, w)  b = Far (a, w)  c = MatMul (a, v)  d = Relu (c)
            e = Far (d, v)  y = Add (b, e) }""",
        [ENGINE, OUTSIDE, ENGINE], 2,
    ),
    "in a residual": (
        """(float[N, 8] x) => (float[N, 8] y) {
            a = MatMul (x, w)  b = Far (a, w)  c = MatMul (b, w)  y = Add (c, a) }""",
        [ENGINE, OUTSIDE, ENGINE], 1,
    ),
    "one behind the other": (
        """(float[N, 8] x) => (float[N, 8] y) {
            a = MatMul (x, w)  b = Far (a, w)  c = Far (b, v)
            y = MatMul (c, v) }""",
        [ENGINE, OUTSIDE, ENGINE], 2,
    ),
    "in a branch": (
        """(float[N, 8] x) => (float[N, 8] y) <float zero = {0}> {
            a = MatMul (x, w)  s = ReduceSum <keepdims = 0> (a)  c = Greater (s, zero)
            [either] b = If (c) <then_branch = then () => (float[N, 8] t) { t = Far (a, w) },
                else_branch = other () => (float[N, 8] f) { f = Relu (a) }>
            y = MatMul (b, v) }""",
        [ENGINE, OUTSIDE, ENGINE], 1,
    ),
    "in a loop": (
        """(float[N, 8] x) => (float[N, 8] y) <int64 three = {3}, bool on = {1}> {
            a = MatMul (x, w)
            [again] b = Loop (three, on, a) <body = body (int64 i, bool k, float[N, 8] p)
                => (bool k2, float[N, 8] q) { k2 = Identity (k)  q = Far (p, w) }>
            y = MatMul (b, v) }""",
        [ENGINE, OUTSIDE, ENGINE], 1,
    ),
}  # fmt: skip


def rows(*sizes: int, shape: tuple[int, ...] = (8,)) -> list[dict[str, np.ndarray]]:
    random = np.random.default_rng(5)
    return [{"x": random.standard_normal((size, *shape)).astype(np.float32)} for size in sizes]


def cut(model: onnx.ModelProto, folder: Path, data: Any = None, **options: Any) -> tuple[Manifest, Path]:
    """The pieces, written."""
    path = folder / "net.onnx"
    onnx.save(model, path)
    pieces = onnxq.split(path, data, until_compiles=True, **{"target": "tensorrt-rtx", **options})
    *_, manifest = pieces.save(folder / "cut", force=True)
    return pieces.manifest, manifest


def check(document: Manifest, manifest: Path, data: Any) -> None:
    """That each written engine compiles, and that the chain gives what the original does."""
    assert document.until is not None
    assert document.until.equal
    for piece in document.pieces:
        assert piece.file is not None
        if piece.runs == ENGINE:
            file = manifest.with_name(piece.file)
            engine = trt.compile_engine(file, profiles=piece.profiles, numbers=piece.numbers)
            assert engine.status == "compiled", engine.reason
            assert piece.refused == ()
        else:
            assert piece.refused
    assert onnxq.run_pieces(manifest, data).within


@needs_compiler
@pytest.mark.parametrize("where", WHERE)
def test_what_is_refused_is_apart(where: str, tmp_path: Path) -> None:
    text, runs, count = WHERE[where]
    document, manifest = cut(net(text), tmp_path)
    assert [piece.runs for piece in document.pieces] == runs
    assert sum(len(piece.refused) for piece in document.pieces) == count
    assert document.until is not None
    assert document.until.whole
    assert document.until.share == 1.0
    check(document, manifest, rows(1, 3))


@needs_compiler
def test_what_compiles_is_one_piece(tmp_path: Path) -> None:
    document, manifest = cut(net("(float[N, 8] x) => (float[N, 8] y) { y = MatMul (x, w) }"), tmp_path)
    assert [(piece.runs, piece.nodes) for piece in document.pieces] == [(ENGINE, 1)]
    assert document.until is not None
    assert (document.until.whole, document.until.compilations, document.until.repairs) == ("", 1, 0)
    check(document, manifest, rows(2))


@needs_compiler
def test_what_the_target_takes_and_the_compiler_here_does_not(tmp_path: Path) -> None:
    model = net("(float[2, 8] x) => (int64[2, K] y) { a = MatMul (x, w)  y = NonZero (a) }")
    for target, notes in (("tensorrt-11", 1), ("tensorrt-rtx", 0)):
        document, _ = cut(model, tmp_path, target=target)
        assert len(document.pieces) == 2
        assert len([one for one in document.notes if "takes NonZero, and needs no cut there" in one]) == notes


@needs_compiler
def test_what_sanitize_repairs_is_not_cut(tmp_path: Path) -> None:
    text = "(float[N, 8] x) => (float[N, 8] y) { y = com.microsoft.FusedMatMul <transB = 1> (x, w) }"
    document, _ = cut(net(text), tmp_path)
    assert [piece.runs for piece in document.pieces] == [ENGINE]
    assert document.until is not None
    assert document.until.whole
    assert document.until.repairs


@needs_compiler
def test_several_dynamic_dimensions_and_sizes_that_depend_on_values(tmp_path: Path) -> None:
    """Two open sizes, a NonZero, and behind it an engine for sizes that the samples have."""
    text = """(float[A, B, 8] x) => (float[K, 8] y) {
        a = MatMul (x, w)  n = NonZero (a)  t = Transpose <perm = [1, 0]> (n)
        f = Cast <to = 1> (t)  p = Pad (f, pads)  y = MatMul (p, v) }"""
    model = net(text)
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.array([0, 0, 0, 5]), "pads"))
    data = rows(1, 2, 4, shape=(3, 8)) + rows(2, shape=(5, 8))
    document, manifest = cut(model, tmp_path, data)
    assert [piece.runs for piece in document.pieces] == [ENGINE, OUTSIDE, ENGINE]
    assert document.pieces[0].profiles["x"] == ((1, 3, 8), (2, 3, 8), (4, 5, 8))
    check(document, manifest, data)


@needs_compiler
def test_profiles_are_those_that_are_stated(tmp_path: Path) -> None:
    profile = {"x": ((1, 8), (4, 8), (16, 8))}
    document, manifest = cut(net(MIDDLE), tmp_path, profiles=profile)
    assert [piece.profiles for piece in document.pieces] == [profile, {}, {"b": profile["x"]}]
    check(document, manifest, rows(16))


@needs_compiler
def test_a_refusal_that_names_nothing_is_located(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first node with which a piece fails is found by halves; if it compiles alone, it is cut there."""
    compiled = trt.compile_engine

    def refusing(alone: bool) -> Any:
        def compile_engine(path: Path, **options: Any) -> trt.Engine:
            nodes = {node.name for node in onnx.load(path).graph.node}
            if "n5" in nodes and (alone or "n4" in nodes):
                return trt.Engine("failed", "it failed", "", 89)
            return compiled(path, **options)

        return compile_engine

    steps = "  ".join(f"[n{i}] t{i + 1} = Sin (t{i})" for i in range(9))
    text = f"(float[N, 8] t0) => (float[N, 8] y) {{ {steps}  [n9] y = MatMul (t9, w) }}"
    for alone, runs in ((True, [ENGINE, OUTSIDE, ENGINE]), (False, [ENGINE, ENGINE])):
        monkeypatch.setattr(trt, "compile_engine", refusing(alone))
        document, _ = cut(net(text), tmp_path)
        assert [piece.runs for piece in document.pieces] == runs
        assert [piece.nodes for piece in document.pieces] == ([5, 1, 4] if alone else [5, 5])
        assert [one.node for piece in document.pieces for one in piece.refused] == ["n5"] * alone
        assert document.until is not None
        assert document.until.equal


@needs_compiler
def test_the_search_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where nothing compiles all runs in onnxruntime, and after so many compilations nothing is sought."""
    failed = trt.Engine("failed", "it failed", "", 89)
    monkeypatch.setattr(trt, "compile_engine", lambda path, **options: failed)
    for most in (256, 1):
        monkeypatch.setattr(until_compiles, "MOST", most)
        document, _ = cut(net(MIDDLE), tmp_path)
        assert [piece.runs for piece in document.pieces] == [OUTSIDE]
        assert not document.compiles
        reasons = {one.reason for piece in document.pieces for one in piece.refused}
        assert any("not sought" in reason for reason in reasons) == (most == 1)


@st.composite
def nets(draw: st.DrawFn) -> str:
    """A random graph over tensors [N, 8], some of whose nodes the compiler refuses."""
    tensors, lines = ["x"], []
    for number in range(draw(st.integers(2, 7))):
        kind = draw(st.sampled_from(["MatMul ({a}, w)", "Relu ({a})", "Add ({a}, {b})", "Far"]))
        kind = "Far ({a}, v)" if kind == "Far" else kind
        one, other = (draw(st.sampled_from(tensors)) for _ in range(2))
        tensors.append(f"t{number}")
        lines.append(f"[n{number}] t{number} = {kind.format(a=one, b=other)}")
    outputs = draw(st.lists(st.sampled_from(tensors[1:]), min_size=1, max_size=2, unique=True))
    types = ", ".join(f"float[N, 8] {name}" for name in outputs)
    return f"(float[N, 8] x) => ({types}) {{ {' '.join(lines)} }}"


@needs_compiler
@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=nets())
def test_any_graph(text: str, tmp_path: Path) -> None:
    document, manifest = cut(net(text), tmp_path)
    assert document.until is not None
    refused = {one.node for piece in document.pieces for one in piece.refused}
    assert all(one.op == "CDist" for piece in document.pieces for one in piece.refused)
    assert bool(refused) == bool(document.until.whole)
    check(document, manifest, rows(1, 2))


@needs_compiler
def test_check_and_quantize_print_the_command(tmp_path: Path) -> None:
    """It runs as it stands, and its screen begins with the answer."""
    onnx.save(net(MIDDLE), tmp_path / "net.onnx")
    np.savez(tmp_path / "data.npz", x=np.concatenate([one["x"] for one in rows(8, 8)]))
    checked = run(tmp_path, "check", "net.onnx", "--json")
    (found,) = {one["command"] for one in checked.json()["findings"] if one["severity"] == "error"}
    assert found == "onnxq pieces split net.onnx --until-compiles"
    made = run(tmp_path, "quantize", "net.onnx", "--calib", "data.npz", "-o", "q.onnx")
    printed = next(line for line in made.out.splitlines() if "--until-compiles" in line).strip()
    assert printed.endswith("onnxq pieces split net.onnx --until-compiles --data data.npz")
    ran = run(tmp_path, *shlex.split(printed[printed.index("pieces split") :]), "-o", "cut")
    assert ran.code == 0, ran.err
    head = "3 pieces: 2 compile, with 100.0 % of the multiply-accumulates; "
    head += "1 runs in onnxruntime: CDist ('far')"
    assert " ".join(ran.out.split()).startswith(f"net.onnx -> {head} Compiler ")
    for line in ran.out.partition("Next")[2].splitlines():
        if words := shlex.split(line.replace("DATA", "data.npz")):
            assert run(tmp_path, *words[1:]).code in (0, 1), line


def test_no_compiler_and_no_place(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UserError, match="said twice where to cut"):
        onnxq.split(net(MIDDLE), at=["a"], until_compiles=True)
    with pytest.raises(UserError, match="data are for --until-compiles"):
        onnxq.split(net(MIDDLE), rows(1), at=["a"])
    if trt.installed() is not None:
        with pytest.raises(UserError, match="nothing here compiles for"):
            onnxq.split(net(MIDDLE), until_compiles=True, target="tensorrt-8.6")
    monkeypatch.setattr(trt, "_version", lambda: None)
    with pytest.raises(UserError) as caught:
        onnxq.split(net(MIDDLE), until_compiles=True)
    assert "onnxq[trt]" in str(caught.value.hint)


def test_sizes_go_with_who_reads_them() -> None:
    """What tells sizes to refused nodes alone is apart with them; what an engine reads is computed there."""
    text = """(float[N, 8] x) => (float[N, 8] y) {
        [a] a = MatMul (x, w)  [s] s = Shape (x)  [b] b = Far (a, w)  [t] t = Transpose (b)
        [c] c = Far (b, t)  [d] d = Add (c, a)  [y] y = Reshape (d, s) }"""
    pieces = Cutter(Model.open(net(text)), ort.output_types).around(["b", "c"])
    assert [piece.nodes for piece in pieces] == [("a",), ("b", "t", "c"), ("s", "d", "y")]
    assert [piece.isolated for piece in pieces] == [False, True, False]
