"""Models that nobody means: each with the exit codes that are right for it, and what has to be said.

A model that ONNX does not allow ends in exit 2 with a sentence that names what is wrong. One that it allows, however
odd, is looked at, or refused with the bound that it is over.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import onnx
import onnx.parser
from onnx import TensorProto, helper, numpy_helper

REFUSED = (2,)
TAKEN = (0, 1)
EITHER = (0, 1, 2)
FILE = "net.onnx"


@dataclass(frozen=True)
class Hostile:
    """One of them.

    Attributes:
        name: what it is called.
        write: writes `net.onnx`, and what it needs beside it, into a folder.
        codes: the exit codes of which one is right.
        says: words of which one stands on the screen where it is refused; none: any words do.
        verbs: the command lines; `sanitize` and `inspect` by default.
    """

    name: str
    write: Callable[[Path], object]
    codes: tuple[int, ...] = REFUSED
    says: tuple[str, ...] = ()
    verbs: tuple[str, ...] = ("sanitize net.onnx", "inspect net.onnx")


def saved(model: onnx.ModelProto) -> Callable[[Path], object]:
    return lambda folder: (folder / FILE).write_bytes(model.SerializeToString())


def parsed(body: str, opset: int = 17, ir: int = 8) -> onnx.ModelProto:
    return onnx.parser.parse_model(f'<ir_version: {ir}, opset_import: ["" : {opset}]> net {body}')


def text(body: str, opset: int = 17) -> Callable[[Path], object]:
    return saved(parsed(body, opset))


def layer() -> onnx.ModelProto:
    """A product with a weight of 16 by 16."""
    model = parsed("(float[N, 16] x) => (float[N, 16] y) { [p] a = MatMul (x, w)  [r] y = Relu (a) }")
    weight = np.random.default_rng(0).standard_normal((16, 16)).astype(np.float32)
    model.graph.initializer.append(numpy_helper.from_array(weight, "w"))
    return model


def changed(change: Callable[[onnx.ModelProto], object]) -> Callable[[Path], object]:
    """The layer, after a change."""

    def write(folder: Path) -> None:
        model = layer()
        change(model)
        (folder / FILE).write_bytes(model.SerializeToString())

    return write


def weight(change: Callable[[onnx.TensorProto], object]) -> Callable[[Path], object]:
    return changed(lambda model: change(model.graph.initializer[0]))


def _outside(tensor: onnx.TensorProto, **entries: str) -> None:
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in entries.items():
        tensor.external_data.add(key=key, value=value)


def external(data: bytes | None = bytes(1024), **entries: str) -> Callable[[Path], object]:
    """The layer with its weight elsewhere."""

    def write(folder: Path) -> None:
        model = layer()
        _outside(model.graph.initializer[0], **{"location": "w.bin"} | entries)
        (folder / FILE).write_bytes(model.SerializeToString())
        if data is not None:
            (folder / "w.bin").write_bytes(data)

    return write


def externals() -> Iterator[Hostile]:
    for key in ("offset", "length"):
        for name, value in {
            "word": "many", "float": "1.5", "digits": "9" * 5000, "negative": "-1", "blank": " ", "hex": "0x10",
            "nul": "1\0", "underscores": "1_0", "arabic": "\u0661\u0660", "exponent": "1e3", "huge": str(1 << 63),
            "plus": "+8", "newline": "8\n",
        }.items():  # fmt: skip
            yield Hostile(f"external-{key}-{name}", external(**{key: value}), says=("external data", key))
    for name, location in {
        "nul": "w\0.bin", "long": "w" * 300, "absolute": "/etc/passwd", "above": "../w.bin", "none": "",
        "dot": ".", "windows": "C:\\w.bin", "unc": "\\\\host\\w.bin", "deep-above": "a/../../w.bin",
        "slashes": "////etc/passwd", "missing": "no.bin", "newline": "w\n.bin", "long-path": "w/" * 4000 + "w",
    }.items():  # fmt: skip
        yield Hostile(f"external-location-{name}", external(location=location), says=("external data",))
    yield Hostile("external-short", external(bytes(1000)), says=("too short",))
    yield Hostile("external-empty", external(b""), says=("too short",))
    yield Hostile("external-gone", external(None), says=("missing",))

    def beside(make: Callable[[Path], object]) -> Callable[[Path], object]:
        def write(folder: Path) -> None:
            external(None)(folder)
            make(folder / "w.bin")

        return write

    yield Hostile("external-folder", beside(lambda path: path.mkdir()), says=("no file",))
    yield Hostile("external-link", beside(lambda path: path.symlink_to("/etc/passwd")), says=("link",))
    yield Hostile("external-link-loop", beside(lambda path: path.symlink_to("w.bin")), says=("no file",))
    yield Hostile("external-pipe", beside(os.mkfifo), says=("no file",))
    yield Hostile("external-device", beside(lambda path: path.symlink_to("/dev/zero")), says=("link",))

    def twice(folder: Path) -> None:
        external()(folder)
        model = onnx.load(folder / FILE, load_external_data=False)
        model.graph.initializer[0].external_data.add(key="location", value="/etc/passwd")
        (folder / FILE).write_bytes(model.SerializeToString())

    yield Hostile("external-location-twice", twice, says=("external data",))
    yield Hostile("external-and-raw", _with_raw, codes=EITHER)

    def in_attribute(folder: Path) -> None:
        model = parsed(
            "(float[N, 16] x) => (float[N, 16] y) { c = Constant <value = float {1}> ()  y = Add (x, c) }"
        )
        _outside(model.graph.node[0].attribute[0].t, location="../w.bin")
        saved(model)(folder)

    yield Hostile("external-in-constant", in_attribute, says=("external data",))

    def in_function(folder: Path, location: str, offset: str = "0") -> None:
        model = _calls(["f"], {"f": "{ c = Constant <value = float {1}> ()  o = Add (i, c) }"})
        _outside(model.functions[0].node[0].attribute[0].t, location=location, offset=offset)
        (folder / "w.bin").write_bytes(bytes(1024))
        saved(model)(folder)

    yield Hostile("external-in-function", lambda folder: in_function(folder, "w.bin"), codes=EITHER)
    yield Hostile(
        "external-in-function-above", lambda folder: in_function(folder, "../w.bin"), says=("external data",)
    )
    yield Hostile(
        "external-in-function-word", lambda folder: in_function(folder, "w.bin", "x"), says=("external data",)
    )

    def in_body(folder: Path) -> None:
        model = parsed("""(float[4] x, bool c) => (float[4] y) { y = If (c) <
            then_branch = t () => (float[4] a) <float[4] k = {1, 2, 3, 4}> { a = Add (x, k) },
            else_branch = e () => (float[4] b) { b = Relu (x) }> }""")
        body = next(
            a.g for a in model.graph.node[0].attribute if a.g.initializer or a.g.node[0].op_type == "Add"
        )
        _outside(body.initializer[0], location="../w.bin")
        saved(model)(folder)

    yield Hostile("external-in-body", in_body, says=("external data",))
    for part in ("values", "indices"):

        def in_sparse(folder: Path, part: str = part) -> None:
            model = _sparse([1, 5], [1.0, 2.0])
            tensor = getattr(model.graph.sparse_initializer[0], part)
            _outside(tensor, location="../w.bin")
            saved(model)(folder)

        yield Hostile(f"external-in-sparse-{part}", in_sparse, says=("external data",))


def _with_raw(folder: Path) -> None:
    external()(folder)
    model = onnx.load(folder / FILE, load_external_data=False)
    model.graph.initializer[0].raw_data = bytes(1024)
    (folder / FILE).write_bytes(model.SerializeToString())


def _sparse(
    indices: list[int], values: list[float], dims: tuple[int, ...] = (16, 16), kind: type = np.int64
) -> onnx.ModelProto:
    model = layer()
    del model.graph.initializer[:]
    model.graph.sparse_initializer.append(
        onnx.SparseTensorProto(
            values=numpy_helper.from_array(np.array(values, np.float32), "w"),
            indices=numpy_helper.from_array(np.array(indices, kind), "w_at"),
            dims=dims,
        )
    )
    return model


def sparse() -> Iterator[Hostile]:
    yield Hostile("sparse-good", saved(_sparse([1, 5], [1, 2])), codes=TAKEN)
    yield Hostile("sparse-beyond", saved(_sparse([1, 256], [1, 2])), says=("sparse",))
    yield Hostile("sparse-far-beyond", saved(_sparse([1, 1 << 62], [1, 2])), says=("sparse",))
    yield Hostile("sparse-negative", saved(_sparse([-1, 5], [1, 2])), says=("sparse",))
    yield Hostile("sparse-twice", saved(_sparse([5, 5], [1, 2])), says=("sparse",))
    yield Hostile("sparse-unsorted", saved(_sparse([9, 5], [1, 2])), says=("sparse",))
    yield Hostile("sparse-too-many", saved(_sparse([1, 5, 6], [1, 2])), says=("sparse",))
    yield Hostile("sparse-huge", saved(_sparse([1, 5], [1, 2], (1 << 31, 1 << 31))), says=("sparse", "bytes"))
    yield Hostile(
        "sparse-negative-dims", saved(_sparse([1, 5], [1, 2], (-16, -16))), says=("sparse", "negative")
    )
    yield Hostile("sparse-no-dims", saved(_sparse([1, 5], [1, 2], ())), says=("sparse",))
    yield Hostile("sparse-float-indices", saved(_sparse([1, 5], [1, 2], kind=np.float32)), says=("sparse",))
    model = _sparse([1, 5], [1, 2])
    model.graph.sparse_initializer[0].indices.dims[:] = [2, 2]
    model.graph.sparse_initializer[0].indices.raw_data = np.array([[0, 1], [0, 99]], np.int64).tobytes()
    yield Hostile("sparse-pair-beyond", saved(model), says=("sparse",))
    model = _sparse([1, 5], [1, 2])
    model.graph.sparse_initializer[0].indices.dims[:] = [2, 3]
    model.graph.sparse_initializer[0].indices.raw_data = bytes(48)
    yield Hostile("sparse-triples", saved(model), says=("sparse",))
    model = _sparse([1, 5], [1, 2])
    model.graph.sparse_initializer[0].values.raw_data = bytes(3)
    yield Hostile("sparse-short-values", saved(model), says=("sparse", "weight"))
    model = _sparse([1, 5], [1, 2])
    model.graph.sparse_initializer[0].values.name = ""
    yield Hostile("sparse-nameless", saved(model))
    model = _sparse([1, 5], [1, 2])
    model.graph.sparse_initializer[0].ClearField("indices")
    yield Hostile("sparse-no-indices", saved(model), says=("sparse",))
    model = _sparse([1, 5], [1, 2])
    model.graph.sparse_initializer[0].values.data_type = 99
    yield Hostile("sparse-type-99", saved(model), says=("type",))
    constant = onnx.NodeProto(op_type="Constant", output=["w"])
    constant.attribute.add(
        name="sparse_value",
        type=onnx.AttributeProto.SPARSE_TENSOR,
        sparse_tensor=_sparse([999], [1]).graph.sparse_initializer[0],
    )
    model = layer()
    del model.graph.initializer[:]
    model.graph.node.insert(0, constant)
    yield Hostile("sparse-constant-beyond", saved(model), says=("sparse",))


def tensors() -> Iterator[Hostile]:
    for kind in (99, 0, 1 << 30, -1, 17 + 20):
        yield Hostile(
            f"weight-type-{kind}",
            weight(lambda tensor, kind=kind: setattr(tensor, "data_type", kind)),
            says=("type",),
        )

    def dims(*sizes: int) -> Callable[[Path], object]:
        def change(tensor: onnx.TensorProto) -> None:
            del tensor.dims[:]
            tensor.dims.extend(sizes)

        return weight(change)

    yield Hostile("weight-rank-100", dims(*[1] * 98, 16, 16), says=("dimensions",))
    yield Hostile("weight-rank-100000", dims(*[1] * 100_000, 16, 16), says=("dimensions",))
    yield Hostile("weight-negative", dims(-16, 16), says=("negative",))
    yield Hostile("weight-both-negative", dims(-16, -16), says=("negative",))
    yield Hostile("weight-too-large", dims(16, 17), says=("weight 'w'",))
    yield Hostile("weight-terabytes", dims(1 << 40, 16), says=("weight 'w'",))
    yield Hostile("weight-overflow", dims(1 << 62, 1 << 62, 1 << 62), says=("weight 'w'",))
    yield Hostile("weight-overflow-zero", dims(1 << 32, 1 << 32), says=("weight 'w'",))
    yield Hostile("weight-zero-by-huge", dims(0, 1 << 62), says=("weight 'w'",))
    yield Hostile("weight-no-bytes", weight(lambda tensor: tensor.ClearField("raw_data")), says=("weight 'w'",),
                  verbs=("check net.onnx --no-engine", "sanitize net.onnx"))  # fmt: skip
    yield Hostile(
        "weight-two-fields", weight(lambda tensor: tensor.float_data.extend([1.0] * 9)), codes=EITHER
    )
    yield Hostile(
        "weight-segment", weight(lambda tensor: setattr(tensor.segment, "begin", 3)), says=("segment",)
    )

    def strings(tensor: onnx.TensorProto) -> None:
        tensor.data_type = TensorProto.STRING

    yield Hostile("weight-raw-strings", weight(strings), says=("string",))

    def text_values(tensor: onnx.TensorProto) -> None:
        strings(tensor)
        tensor.ClearField("raw_data")
        tensor.string_data.extend([b"\xff\xfe"] * 256)

    yield Hostile("weight-of-strings", weight(text_values), codes=EITHER)

    def wrong_field(tensor: onnx.TensorProto) -> None:
        tensor.ClearField("raw_data")
        tensor.int64_data.extend([1] * 256)

    yield Hostile("weight-in-wrong-field", weight(wrong_field), says=("weight 'w'",))

    def beyond_field(tensor: onnx.TensorProto) -> None:
        tensor.ClearField("raw_data")
        tensor.data_type = TensorProto.INT8
        tensor.int32_data.extend([1 << 30] * 256)

    yield Hostile("weight-beyond-its-type", weight(beyond_field))
    for kind in (
        "FLOAT4E2M1",
        "INT4",
        "UINT2",
        "FLOAT8E4M3FN",
        "COMPLEX64",
        "COMPLEX128",
        "BOOL",
        "DOUBLE",
        "BFLOAT16",
    ):

        def retyped(tensor: onnx.TensorProto, kind: str = kind) -> None:
            tensor.data_type = getattr(TensorProto, kind)
            tensor.raw_data = tensor.raw_data[: {"INT4": 128, "FLOAT4E2M1": 128, "UINT2": 64, "FLOAT8E4M3FN": 256, "BOOL": 256,
                                                 "BFLOAT16": 512}.get(kind, 1024)] * {"COMPLEX64": 2, "COMPLEX128": 4, "DOUBLE": 2}.get(kind, 1)  # fmt: skip

        yield Hostile(f"weight-as-{kind.lower()}", weight(retyped), codes=EITHER)
    yield Hostile("weight-nameless", weight(lambda tensor: setattr(tensor, "name", "")))
    yield Hostile(
        "weight-twice",
        changed(lambda model: model.graph.initializer.append(model.graph.initializer[0])),
        codes=EITHER,
    )

    def constant(sizes: list[int]) -> Callable[[Path], object]:
        model = parsed(
            "(float[N, 16] x) => (float[N, 16] y) { c = Constant <value = float {1}> ()  y = Add (x, c) }"
        )
        del model.graph.node[0].attribute[0].t.dims[:]
        model.graph.node[0].attribute[0].t.dims.extend(sizes)
        return saved(model)

    yield Hostile("constant-rank-100", constant([1] * 100), says=("dimensions",))
    yield Hostile("constant-terabytes", constant([1 << 42]), says=("constant",))
    yield Hostile("constant-no-attribute", changed(
        lambda model: model.graph.node.insert(0, helper.make_node("Constant", [], ["k"]))), codes=EITHER)  # fmt: skip
    for name, node in {
        "constant-two-attributes": helper.make_node("Constant", [], ["w"], value_int=1, value_float=2.0),
        "constant-two-outputs": helper.make_node("Constant", [], ["w", "v"], value_int=1),
        "constant-no-outputs": helper.make_node("Constant", [], [], value_int=1),
        "constant-with-input": helper.make_node("Constant", ["x"], ["w"], value_float=1.0),
    }.items():

        def write(model: onnx.ModelProto, node: onnx.NodeProto = node) -> None:
            if "w" in node.output:
                del model.graph.initializer[:]
            model.graph.node.insert(0, node)

        yield Hostile(name, changed(write), codes=EITHER)
    wrong = helper.make_node("Constant", [], ["w"])
    wrong.attribute.add(name="value", type=onnx.AttributeProto.TENSOR)
    yield Hostile("constant-empty-tensor", changed(
        lambda model: (model.graph.initializer.pop(), model.graph.node.insert(0, wrong))), codes=EITHER)  # fmt: skip
    words = helper.make_node("Constant", [], ["w"])
    words.attribute.add(name="value_float", type=onnx.AttributeProto.STRING, s=b"one")
    yield Hostile("constant-of-a-word", changed(
        lambda model: (model.graph.initializer.pop(), model.graph.node.insert(0, words))), codes=EITHER)  # fmt: skip


def inputs() -> Iterator[Hostile]:
    def sizes(*given: int | str) -> Callable[[Path], object]:
        model = helper.make_model(
            helper.make_graph(
                [helper.make_node("Relu", ["x"], ["y"])], "net",
                [helper.make_tensor_value_info("x", TensorProto.FLOAT, given)],
                [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
            ), opset_imports=[helper.make_opsetid("", 17)], ir_version=8,
        )  # fmt: skip
        return saved(model)

    yield Hostile("input-rank-1000", sizes(*[1] * 1000), says=("dimensions",))
    yield Hostile("input-rank-1000-dynamic", sizes(*(f"d{i}" for i in range(1000))), says=("dimensions",))
    yield Hostile("input-rank-64", sizes(*[1] * 64), codes=EITHER)
    yield Hostile("input-rank-65", sizes(*[1] * 65), says=("dimensions",))
    yield Hostile("input-terabytes", sizes(1 << 40, 4), says=("values",),
                  verbs=("check net.onnx --no-engine", "sanitize net.onnx"))  # fmt: skip
    yield Hostile("input-beyond-int64", sizes(*[1 << 62] * 4), says=("values",),
                  verbs=("check net.onnx --no-engine", "sanitize net.onnx"))  # fmt: skip
    yield Hostile("input-negative", sizes(-5, 4), codes=EITHER)
    yield Hostile("input-zero", sizes(0, 4), codes=EITHER)
    yield Hostile("input-huge-symbol", sizes("N" * 1_000_000, 4), codes=EITHER)
    yield Hostile("input-large-dynamic", sizes("N", 1 << 30), codes=EITHER)
    for name, elem in {"99": 99, "undefined": 0, "string": 8, "complex": 14, "negative": -3}.items():

        def retype(model: onnx.ModelProto, elem: int = elem) -> None:
            model.graph.input[0].type.tensor_type.elem_type = elem

        yield Hostile(
            f"input-type-{name}",
            changed(retype),
            codes=REFUSED if elem in (99, -3) else EITHER,
            says=("type",),
        )
    yield Hostile(
        "input-no-type", changed(lambda model: model.graph.input[0].ClearField("type")), codes=EITHER
    )
    yield Hostile("input-sequence", changed(
        lambda model: model.graph.input[0].type.sequence_type.elem_type.tensor_type.SetInParent()), codes=EITHER)  # fmt: skip
    yield Hostile("output-type-99", changed(
        lambda model: setattr(model.graph.output[0].type.tensor_type, "elem_type", 99)), says=("type",))  # fmt: skip
    yield Hostile("value-type-99", changed(lambda model: model.graph.value_info.append(
        helper.make_tensor_value_info("a", 99, [1]))), says=("type",))  # fmt: skip
    yield Hostile("value-rank-1000", changed(lambda model: model.graph.value_info.append(
        helper.make_tensor_value_info("a", 1, [1] * 1000))), says=("dimensions",))  # fmt: skip
    yield Hostile("value-wrong", changed(lambda model: model.graph.value_info.append(
        helper.make_tensor_value_info("a", 7, [3]))), codes=EITHER)  # fmt: skip
    yield Hostile("output-wrong-shape", changed(
        lambda model: setattr(model.graph.output[0].type.tensor_type.shape.dim[1], "dim_value", 7)), codes=EITHER)  # fmt: skip
    yield Hostile("inputs-10000", changed(lambda model: model.graph.input.extend(
        helper.make_tensor_value_info(f"x{i}", 1, [4]) for i in range(10_000))), codes=EITHER)  # fmt: skip
    nested = onnx.TypeProto()
    for _ in range(90):
        outer = onnx.TypeProto()
        outer.sequence_type.elem_type.CopyFrom(nested)
        nested = outer
    yield Hostile(
        "input-nested-type", changed(lambda model: model.graph.input[0].type.CopyFrom(nested)), codes=EITHER
    )


def _function(name: str, body: str) -> onnx.FunctionProto:
    return onnx.parser.parse_function(
        f'<opset_import: ["" : 17, "own" : 1], domain: "own"> {name} (i) => (o) {body}'
    )


def _calls(nodes: list[str], functions: dict[str, str]) -> onnx.ModelProto:
    model = parsed("(float[N, 16] x) => (float[N, 16] y) { y = Relu (x) }")
    del model.graph.node[:]
    last = "x"
    for place, name in enumerate(nodes):
        out = "y" if place == len(nodes) - 1 else f"v{place}"
        model.graph.node.append(helper.make_node(name, [last], [out], domain="own"))
        last = out
    model.opset_import.append(helper.make_opsetid("own", 1))
    model.functions.extend(_function(name, body) for name, body in functions.items())
    return model


def functions() -> Iterator[Hostile]:
    said = ("function",)
    yield Hostile("function-recursive", saved(_calls(["f"], {"f": "{ o = own.f (i) }"})), says=said)
    yield Hostile(
        "function-recursive-unused",
        saved(_calls(["g"], {"f": "{ o = own.f (i) }", "g": "{ o = Relu (i) }"})),
        says=said,
    )
    yield Hostile(
        "functions-in-a-circle",
        saved(_calls(["f"], {"f": "{ o = own.g (i) }", "g": "{ o = own.f (i) }"})),
        says=said,
    )
    ring = {f"f{i}": f"{{ o = own.f{(i + 1) % 50} (i) }}" for i in range(50)}
    yield Hostile("functions-in-a-long-circle", saved(_calls(["f0"], ring)), says=said)
    twice = {f"f{i}": f"{{ a = own.f{i + 1} (i)  o = own.f{i + 1} (a) }}" for i in range(30)} | {
        "f30": "{ o = Relu (i) }"
    }
    yield Hostile("functions-double-30-times", saved(_calls(["f0"], twice)), says=said)
    small = {f"f{i}": f"{{ a = own.f{i + 1} (i)  o = own.f{i + 1} (a) }}" for i in range(4)} | {
        "f4": "{ o = Relu (i) }"
    }
    yield Hostile("functions-double-4-times", saved(_calls(["f0"], small)), codes=TAKEN)
    many = {f"f{i}": f"{{ o = own.f{i + 1} (i) }}" for i in range(3000)} | {"f3000": "{ o = Relu (i) }"}
    yield Hostile("functions-3000-deep", saved(_calls(["f0"], many)), says=said)
    yield Hostile("function-twice", saved(_twice()), says=said)
    yield Hostile("function-reads-nothing", saved(_calls(["f"], {"f": "{ o = Add (i, q) }"})), codes=EITHER)
    yield Hostile("function-gives-nothing", saved(_calls(["f"], {"f": "{ p = Relu (i) }"})), says=said)
    cyclic = _calls(["f"], {"f": "{ a = Add (i, b)  b = Relu (a)  o = Relu (b) }"})
    yield Hostile("function-cyclic", saved(cyclic), says=("cycle", "function"))
    unnamed = _calls(["f"], {"f": "{ o = Relu (i) }"})
    unnamed.functions[0].name = ""
    yield Hostile("function-nameless", saved(unnamed))
    more = _calls(["f"], {"f": "{ o = Relu (i) }"})
    more.graph.node[0].input.extend(["x"] * 50)
    yield Hostile("function-too-many-inputs", saved(more))
    through = _calls(
        ["f"],
        {
            "f": "{ o = If (i) <then_branch = t () => (a) { a = own.f (i) }, else_branch = e () => (b) { b = Relu (i) }> }"
        },
    )
    yield Hostile("function-recursive-in-a-body", saved(through), says=said)
    blind = _calls(["f"], {"f": "{ o = Relu (i) }"})
    blind.functions[0].opset_import[0].version = 99
    yield Hostile("function-opset-99", saved(blind), codes=EITHER)
    blind = _calls(["f"], {"f": "{ o = Relu (i) }"})
    del blind.functions[0].opset_import[:]
    yield Hostile("function-no-opset", saved(blind), codes=EITHER)
    bad = _calls(["f"], {"f": "{ c = Constant <value = float {1}> ()  o = Add (i, c) }"})
    bad.functions[0].node[0].attribute[0].t.data_type = 99
    yield Hostile("function-type-99", saved(bad), says=("type",))
    bad = _calls(["f"], {"f": "{ c = Constant <value = float {1}> ()  o = Add (i, c) }"})
    bad.functions[0].node[0].attribute[0].t.dims.extend([1] * 100)
    yield Hostile("function-rank-100", saved(bad), says=("dimensions",))


def _twice() -> onnx.ModelProto:
    model = _calls(["f"], {"f": "{ o = Relu (i) }"})
    model.functions.append(_function("f", "{ o = Neg (i) }"))
    return model


def loops() -> Iterator[Hostile]:
    ways = {
        "never-ends": """(float[4] x) => (float[4] y) <bool go = {1}> { y = Loop (, go, x) <body =
            b (int64 i, bool c, float[4] s) => (bool d, float[4] t) { d = Identity (c)  t = Neg (s) }> }""",
        "empty-never-ends": """(float[4] x) => (float[4] y) <bool go = {1}> { y = Loop (, go, x) <body =
            b (int64 i, bool c, float[4] s) => (bool c, float[4] s) { }> }""",
        "counts-to-the-end": """(float[4] x) => (float[4] y) <bool go = {1}, int64 most = {9223372036854775807}> {
            y = Loop (most, go, x) <body = b (int64 i, bool c, float[4] s) => (bool d, float[4] t) {
            d = Identity (c)  t = Neg (s) }> }""",
        "grows": """(float[4] x) => (float[M] y) <bool go = {1}, int64 most = {60}> { y = Loop (most, go, x) <body =
            b (int64 i, bool c, float[K] s) => (bool d, float[L] t) { d = Identity (c)  t = Concat <axis = 0> (s, s) }> }""",
        "collects": """(float[4] x) => (float[4] y, float[K, 4] z) <bool go = {1}, int64 most = {1000000000}> {
            y, z = Loop (most, go, x) <body = b (int64 i, bool c, float[4] s) => (bool d, float[4] t, float[4] u) {
            d = Identity (c)  t = Neg (s)  u = Relu (s) }> }""",
        "without-input": """(float[4] x) => (float[4] y) <bool go = {1}, float[4] k = {1, 2, 3, 4}> { r = Loop (, go, k)
            <body = b (int64 i, bool c, float[4] s) => (bool d, float[4] t) { d = Identity (c)  t = Neg (s) }>  y = Add (x, r) }""",
        "grows-without-input": """(float[4] x) => (float[M] y) <bool go = {1}, int64 most = {60}, float[4] k = {1, 2, 3, 4}> {
            r = Loop (most, go, k) <body = b (int64 i, bool c, float[K] s) => (bool d, float[L] t) {
            d = Identity (c)  t = Concat <axis = 0> (s, s) }>  m = ReduceMax <keepdims = 0> (r)  y = Add (x, m) }""",
        "behind-a-condition": """(float[4] x) => (float[4] y) <float zero = {0}> { m = ReduceSum <keepdims = 0> (x)
            go = Greater (m, zero)  y = Loop (, go, x) <body = b (int64 i, bool c, float[4] s) => (bool d, float[4] t) {
            d = Identity (c)  t = Neg (s) }> }""",
        "in-an-if": """(float[4] x, bool p) => (float[4] y) <bool go = {1}> { y = If (p) <then_branch = t () => (float[4] a) {
            a = Loop (, go, x) <body = b (int64 i, bool c, float[4] s) => (bool d, float[4] t) { d = Identity (c)  t = Neg (s) }> },
            else_branch = e () => (float[4] b) { b = Relu (x) }> }""",
    }  # fmt: skip
    for name, body in ways.items():
        yield Hostile(f"loop-{name}", text(body), codes=EITHER)
    for name in ("never-ends", "grows", "behind-a-condition"):

        def with_data(folder: Path, body: str = ways[name]) -> None:
            text(body)(folder)
            np.savez(folder / "data.npz", x=np.ones((8, 4), np.float32))

        lines = ("quantize net.onnx --calib data.npz --no-engine", "calibrate net.onnx --calib data.npz")
        yield Hostile(f"loop-{name}-on-data", with_data, codes=EITHER, verbs=lines)
    scan = """(float[4] x) => (float[4] y, float[K] z) <int64[1] n = {2000000000}> { k = ConstantOfShape (n)
        y, z = Scan (x, k) <num_scan_inputs = 1, body = b (float[4] s, float e) => (float[4] t, float f) {
        t = Neg (s)  f = Identity (e) }> }"""
    yield Hostile("scan-of-gigabytes", text(scan), codes=EITHER)
    mapped = """(float[4, 4] x) => (float y) { a = SequenceConstruct (x, x, x)  b = SequenceMap (a) <body =
        t (float[4, 4] v) => (float[D, E] w) { k = Constant <value_ints = [5000, 2000]> ()  w = Tile (v, k) }>
        c = ConcatFromSequence <axis = 0> (b)  y = ReduceMax <keepdims = 0> (c) }"""
    yield Hostile("sequence-of-gigabytes", text(mapped), codes=EITHER,
                  verbs=("check net.onnx --no-engine", "sanitize net.onnx"))  # fmt: skip
    for pads in ("{0, 0, 0, 0, 0, 0, 0, 0, 0}", "{0, 1}"):  # of four dimensions: eight
        count = pads.count(",") + 1
        body = (
            f"(float[1, 1, 4, 4] x) => (float[1, 1, 4, 4] y) <int64[{count}] n = {pads}> {{ y = Pad (x, n) }}"
        )
        yield Hostile(f"pad-of-{count}", text(body), codes=EITHER,
                      verbs=("check net.onnx --no-engine", "sanitize net.onnx"))  # fmt: skip
    missing = parsed("(float[4] x) => (float[4] y) { y = Relu (x) }")
    missing.graph.node[0].op_type = "Loop"
    yield Hostile("loop-without-body", saved(missing), codes=(1, 2))
    missing = parsed("(float[4] x) => (float[4] y) { y = Relu (x) }")
    missing.graph.node[0].op_type = "If"
    yield Hostile("if-without-branches", saved(missing), codes=(1, 2))


def constants() -> Iterator[Hostile]:
    """What folding would compute."""
    big = 60_000
    for name, body in {
        "eye": f"<int64[2] n = {{{big}, {big}}}> {{ s = ConstantOfShape (n)  e = EyeLike (s)  m = ReduceMax <keepdims = 0> (e)  y = Add (x, m) }}",
        "constant-of-shape": "<int64[2] n = {60000, 60000}> { s = ConstantOfShape (n)  m = ReduceMax <keepdims = 0> (s)  y = Add (x, m) }",
        "constant-of-overflow": "<int64[3] n = {4294967296, 4294967296, 4}> { s = ConstantOfShape (n)  m = ReduceMax <keepdims = 0> (s)  y = Add (x, m) }",
        "constant-of-negative": "<int64[1] n = {-5}> { s = ConstantOfShape (n)  m = ReduceMax <keepdims = 0> (s)  y = Add (x, m) }",
        "constant-of-rank": f"<int64[1000] n = {{{', '.join('1' * 1000)}}}> {{ s = ConstantOfShape (n)  m = ReduceMax <keepdims = 0> (s)  y = Add (x, m) }}",
        "tile": "<float[1] o = {1}, int64[1] n = {4000000000}> { s = Tile (o, n)  m = ReduceMax <keepdims = 0> (s)  y = Add (x, m) }",
        "expand": "<float[1] o = {1}, int64[2] n = {60000, 60000}> { s = Expand (o, n)  m = ReduceMax <keepdims = 0> (s)  y = Add (x, m) }",
        "range": "<int64 a = {0}, int64 b = {3000000000}, int64 c = {1}> { s = Range (a, b, c)  f = Cast <to = 1> (s)  m = ReduceMax <keepdims = 0> (f)  y = Add (x, m) }",
        "range-zero": "<int64 a = {0}, int64 b = {3}, int64 c = {0}> { s = Range (a, b, c)  f = Cast <to = 1> (s)  m = ReduceMax <keepdims = 0> (f)  y = Add (x, m) }",
        "range-nan": "<float a = {0}, float b = {3}, float c = {0.0000000001}> { s = Range (a, b, c)  m = ReduceMax <keepdims = 0> (s)  y = Add (x, m) }",
        "pad": "<float[1] o = {1}, int64[2] n = {0, 4000000000}> { s = Pad (o, n)  m = ReduceMax <keepdims = 0> (s)  y = Add (x, m) }",
        "pad-negative": "<float[1] o = {1}, int64[2] n = {-5, -5}> { s = Pad (o, n)  m = ReduceMax <keepdims = 0> (s)  y = Add (x, m) }",
        "resize": "<float[1, 1, 2, 2] o = {1, 2, 3, 4}, float[4] n = {1, 1, 30000, 30000}> { s = Resize (o, , n)  m = ReduceMax <keepdims = 0> (s)  y = Add (x, m) }",
        "resize-sizes": "<float[1, 1, 2, 2] o = {1, 2, 3, 4}, int64[4] n = {1, 1, 60000, 60000}> { s = Resize (o, , , n)  m = ReduceMax <keepdims = 0> (s)  y = Add (x, m) }",
        "one-hot": "<int64[1] o = {1}, int64 n = {4000000000}, float[2] v = {0, 1}> { s = OneHot (o, n, v)  m = ReduceMax <keepdims = 0> (s)  y = Add (x, m) }",
        "outer-product": "<int64[2] n = {60000, 1}, int64[2] k = {1, 60000}> { a = ConstantOfShape (n)  b = ConstantOfShape (k)  s = MatMul (a, b)  m = ReduceMax <keepdims = 0> (s)  y = Add (x, m) }",
        "outer-sum": "<int64[2] n = {60000, 1}, int64[2] k = {1, 60000}> { a = ConstantOfShape (n)  b = ConstantOfShape (k)  s = Add (a, b)  m = ReduceMax <keepdims = 0> (s)  y = Add (x, m) }",
        "long-product": "<int64[2] n = {2000, 2000}> { a = ConstantOfShape (n)  b = MatMul (a, a)  c = MatMul (b, b)  d = MatMul (c, c)  e = MatMul (d, d)  m = ReduceMax <keepdims = 0> (e)  y = Add (x, m) }",
        "doubling": "<float[1] o = {1}> { " + "  ".join(f"v{i + 1} = Concat <axis = 0> ({'o' if i == 0 else f'v{i}'}, {'o' if i == 0 else f'v{i}'})" for i in range(34)) + "  m = ReduceMax <keepdims = 0> (v34)  y = Add (x, m) }",
        "big-conv": "<int64[4] n = {1, 64, 512, 512}, int64[4] k = {64, 64, 7, 7}> { a = ConstantOfShape (n)  b = ConstantOfShape (k)  s = Conv (a, b)  m = ReduceMax <keepdims = 0> (s)  y = Add (x, m) }",
        "gather-many": "<int64[1] n = {3000000000}, float[1] o = {1}> { i = ConstantOfShape <value = int64[1] {0}> (n)  s = Gather (o, i)  m = ReduceMax <keepdims = 0> (s)  y = Add (x, m) }",
        "hann": "<int64 n = {4000000000}> { s = HannWindow (n)  m = ReduceMax <keepdims = 0> (s)  y = Add (x, m) }",
        "random": "{ s = RandomNormal <shape = [60000, 60000]> ()  m = ReduceMax <keepdims = 0> (s)  y = Add (x, m) }",
        "cumsum": "<int64[2] n = {60000, 60000}, int64 a = {0}> { s = ConstantOfShape (n)  c = CumSum (s, a)  m = ReduceMax <keepdims = 0> (c)  y = Add (x, m) }",
        "unsqueeze-far": "<int64[1] a = {4611686018427387904}> { s = Unsqueeze (x, a)  m = ReduceMax <keepdims = 0> (s)  y = Add (x, m) }",
        "split-many": "<float[4] o = {1, 2, 3, 4}> { a, b, c, d, e, f, g = Split (o)  y = Add (x, a) }",
        "top-k": "<float[4] o = {1, 2, 3, 4}, int64[1] k = {4000000000}> { a, b = TopK (o, k)  m = ReduceMax <keepdims = 0> (a)  y = Add (x, m) }",
        "upsample-fraction": "<float[1, 1, 2, 2] o = {1, 2, 3, 4}, float[4] n = {1, 1, 1e30, 1e30}> { s = Resize (o, , n)  m = ReduceMax <keepdims = 0> (s)  y = Add (x, m) }",
        "eye-of-input": "{ n = Shape (x)  k = Concat <axis = 0> (n, n)  h = Mul (k, k)  g = Mul (h, h)  f = Mul (g, g)  s = ConstantOfShape (f)  m = ReduceMax <keepdims = 0> (s)  y = Add (x, m) }",
    }.items():  # fmt: skip
        yield Hostile(f"fold-{name}", text(f"(float[4] x) => (float[4] y) {body}"), codes=EITHER)
    for kind in ("int32", "int64", "int8", "uint8"):
        for op in ("Div", "Mod"):
            body = f"(float[4] x) => (float[4] y) <{kind}[1] a = {{7}}, {kind}[1] b = {{0}}> {{ c = {op} (a, b)  f = Cast <to = 1> (c)  y = Add (x, f) }}"
            yield Hostile(f"fold-{op.lower()}-{kind}-by-zero", text(body), codes=EITHER)
            made = f"(float[4] x) => (float[4] y) <{kind}[1] a = {{7}}, int64[1] n = {{1}}> {{ b = ConstantOfShape <value = {kind}[1] {{0}}> (n)  c = {op} (a, b)  f = Cast <to = 1> (c)  y = Add (x, f) }}"
            yield Hostile(f"fold-{op.lower()}-{kind}-by-computed-zero", text(made), codes=EITHER)
            fed = f"(float[4] x, {kind}[4] b) => (float[4] y) <{kind}[1] a = {{7}}> {{ c = {op} (a, b)  f = Cast <to = 1> (c)  y = Add (x, f) }}"
            yield Hostile(f"{op.lower()}-{kind}-by-an-input", text(fed), codes=EITHER)
            cast = f"(float[4] x) => (float[4] y) <{kind}[1] a = {{7}}> {{ b = Cast <to = {getattr(TensorProto, kind.upper())}> (x)  c = {op} (a, b)  f = Cast <to = 1> (c)  y = Add (x, f) }}"
            yield Hostile(f"{op.lower()}-{kind}-by-a-cast", text(cast), codes=EITHER)
    least = "(float[4] x) => (float[4] y) <int64[1] a = {-9223372036854775808}, int64[1] b = {-1}> { c = Div (a, b)  f = Cast <to = 1> (c)  y = Add (x, f) }"
    yield Hostile("fold-div-overflow", text(least), codes=EITHER)


def shapes() -> Iterator[Hostile]:
    """Sizes of a graph: long, deep, wide."""

    def chain(count: int, op: str = "Relu") -> Callable[[Path], object]:
        nodes = [
            helper.make_node(op, ["x" if i == 0 else f"v{i}"], ["y" if i == count - 1 else f"v{i + 1}"])
            for i in range(count)
        ]
        model = layer()
        del model.graph.node[:], model.graph.initializer[:]
        model.graph.node.extend(nodes)
        return saved(model)

    yield Hostile("chain-2000", chain(2000), codes=TAKEN)
    yield Hostile("chain-20000", chain(20_000), codes=EITHER)
    yield Hostile("chain-20000-identity", chain(20_000, "Identity"), codes=EITHER)
    yield Hostile("chain-20000-neg", chain(20_000, "Neg"), codes=EITHER)
    yield Hostile("chain-20000-exp", chain(20_000, "Exp"), codes=EITHER)

    def reverse(folder: Path) -> None:
        chain(5000)(folder)
        model = onnx.load(folder / FILE)
        nodes = list(model.graph.node)[::-1]
        del model.graph.node[:]
        model.graph.node.extend(nodes)
        saved(model)(folder)

    yield Hostile("chain-backwards", reverse, codes=TAKEN)

    def circle(count: int) -> Callable[[Path], object]:
        model = layer()
        del model.graph.node[:], model.graph.initializer[:]
        model.graph.node.extend(
            helper.make_node("Add", [f"v{(i - 1) % count}", "x"], [f"v{i}"]) for i in range(count)
        )
        model.graph.node.append(helper.make_node("Relu", ["v0"], ["y"]))
        return saved(model)

    yield Hostile("cycle-of-1", circle(1), says=("reads its own output",))
    yield Hostile("cycle-of-2", circle(2), says=("cycle",))
    yield Hostile("cycle-of-20000", circle(20_000), says=("cycle",))
    yield Hostile("cycle-in-a-body", text("""(float[4] x, bool c) => (float[4] y) { y = If (c) <
        then_branch = t () => (float[4] a) { a = Add (x, b)  b = Relu (a) },
        else_branch = e () => (float[4] b2) { b2 = Relu (x) }> }"""), says=("cycle",))  # fmt: skip
    yield Hostile("cycle-through-a-body", text("""(float[4] x, bool c) => (float[4] y) { y = If (c) <
        then_branch = t () => (float[4] a) { a = Relu (y) },
        else_branch = e () => (float[4] b2) { b2 = Relu (x) }> }"""), says=("reads its own output", "cycle"))  # fmt: skip
    wide = layer()
    wide.graph.node.insert(0, helper.make_node("Concat", ["x"] * 20_000, ["wide"], axis=0))
    yield Hostile("concat-of-20000", saved(wide), codes=EITHER)
    wide = layer()
    wide.graph.node.insert(0, helper.make_node("Split", ["x"], [f"part{i}" for i in range(20_000)], axis=0))
    yield Hostile("split-in-20000", saved(wide), codes=EITHER)
    wide = layer()
    wide.graph.output.extend(helper.make_tensor_value_info("a", 1, None) for _ in range(3))
    yield Hostile("output-listed-often", saved(wide), codes=EITHER)
    shared = layer()
    shared.graph.node.extend(helper.make_node("Relu", ["x"], [f"leaf{i}"]) for i in range(20_000))
    yield Hostile("leaves-20000", saved(shared), codes=EITHER)
    for depth in (10, 45, 200, 2000):
        yield Hostile(f"bodies-{depth}-deep", lambda folder, depth=depth: _deep(folder, depth),
                      codes=TAKEN if depth == 10 else EITHER if depth == 45 else REFUSED,
                      says=("deep", "not an ONNX model", "within"))  # fmt: skip
    diamond = layer()
    del diamond.graph.node[:], diamond.graph.initializer[:]
    diamond.graph.node.extend(
        helper.make_node("Add", [f"v{i}" if i else "x"] * 2, [f"v{i + 1}" if i < 199 else "y"])
        for i in range(200)
    )
    yield Hostile("diamonds-200", saved(diamond), codes=TAKEN)


def _deep(folder: Path, depth: int) -> None:
    """Branches in branches; written from the inside, as no parser of text goes so deep."""
    from onnx import AttributeProto, GraphProto, NodeProto

    inner = helper.make_graph(
        [helper.make_node("Relu", ["x"], ["o"])], "b", [], [helper.make_tensor_value_info("o", 1, [4])]
    )
    body = inner.SerializeToString()
    plain = body

    def field(number: int, data: bytes) -> bytes:
        size, out = len(data), bytearray([number << 3 | 2])
        while size > 127:
            out.append(size & 127 | 128)
            size >>= 7
        out.append(size)
        return bytes(out) + data

    node_field = GraphProto.NODE_FIELD_NUMBER
    for _ in range(depth):
        attributes = b"".join(
            field(NodeProto.ATTRIBUTE_FIELD_NUMBER,
                  AttributeProto(name=name, type=AttributeProto.GRAPH).SerializeToString()
                  + field(AttributeProto.G_FIELD_NUMBER, graph))
            for name, graph in (("then_branch", body), ("else_branch", plain))
        )  # fmt: skip
        node = NodeProto(op_type="If", input=["c"], output=["o"]).SerializeToString() + attributes
        body = (
            field(node_field, node)
            + helper.make_graph([], "b", [], [helper.make_tensor_value_info("o", 1, [4])]).SerializeToString()
        )
    model = parsed("(float[4] x, bool c) => (float[4] o) { z = Relu (x) }")
    data = model.SerializeToString() + field(onnx.ModelProto.GRAPH_FIELD_NUMBER, body)
    (folder / FILE).write_bytes(data)


def names() -> Iterator[Hostile]:
    def spoil(old: bytes, new: bytes = b"\xff\xfe") -> Callable[[Path], object]:
        def write(folder: Path) -> None:
            model = layer()
            model.graph.node[0].name = "MARKNODE"
            model.graph.node[0].doc_string = "MARKDOC1"
            model.graph.input[0].doc_string = "MARKDOC2"
            model.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "MARKDIM1"
            model.graph.name = "MARKGRPH"
            model.producer_name = "MARKPROD"
            model.metadata_props.add(key="MARKKEY1", value="MARKVAL1")
            model.graph.metadata_props.add(key="MARKKEY2", value="MARKVAL2")
            model.graph.node[0].metadata_props.add(key="MARKKEY3", value="MARKVAL3")
            model.graph.initializer[0].doc_string = "MARKDOC3"
            model.graph.node[0].attribute.add(name="MARKATTR", type=onnx.AttributeProto.INT, i=1)
            if old == b"MARKATST":
                model.graph.node[0].attribute.add(name="q", type=onnx.AttributeProto.STRING, s=b"MARKATST")
            model.graph.quantization_annotation.add(tensor_name="MARKQUAN")
            model.opset_import.add(domain="MARKDOMA", version=1)
            data = model.SerializeToString()
            (folder / FILE).write_bytes(data.replace(old, new.ljust(8, b"z")))

        return write

    for mark in ("NODE", "DOC1", "DOC2", "DOC3", "DIM1", "GRPH", "PROD", "KEY1", "VAL1", "KEY2", "VAL2", "KEY3", "VAL3",
                 "ATTR", "QUAN", "DOMA"):  # fmt: skip
        yield Hostile(f"not-text-{mark.lower()}", spoil(f"MARK{mark}".encode()), says=("UTF-8",))
    yield Hostile("not-text-attribute-value", spoil(b"MARKATST"), codes=EITHER)
    yield Hostile("nul-in-a-name", spoil(b"MARKNODE", b"a\0b"), codes=EITHER)
    yield Hostile("surrogate-in-a-name", spoil(b"MARKNODE", b"\xed\xa0\x80"), says=("UTF-8",))
    duplicated = layer()
    duplicated.graph.input.append(duplicated.graph.input[0])
    yield Hostile("two-inputs", saved(duplicated), says=("two inputs",))
    duplicated = layer()
    duplicated.graph.output.append(duplicated.graph.output[0])
    yield Hostile("two-outputs", saved(duplicated), codes=EITHER)
    duplicated = layer()
    duplicated.graph.node.append(duplicated.graph.node[0])
    yield Hostile("node-twice", saved(duplicated), says=("more than once",))
    duplicated = layer()
    duplicated.graph.node[0].output.append("a")
    yield Hostile("output-twice-in-a-node", saved(duplicated), says=("more than once",))
    duplicated = layer()
    duplicated.graph.node[1].output[0] = "w"
    duplicated.graph.output[0].name = "w"
    yield Hostile("node-writes-a-weight", saved(duplicated), says=("more than once",))
    duplicated = layer()
    duplicated.graph.node[1].output[0] = "x"
    duplicated.graph.output[0].name = "x"
    yield Hostile("node-writes-an-input", saved(duplicated), says=("more than once",))
    missing = layer()
    missing.graph.output[0].name = "nobody"
    yield Hostile("output-of-nobody", saved(missing), says=("nothing makes",))
    missing = layer()
    missing.graph.node[0].input[1] = "nobody"
    yield Hostile("input-of-nobody", saved(missing), says=("nothing produces",))
    missing = layer()
    del missing.graph.node[0].input[:]
    yield Hostile("node-without-inputs", saved(missing), codes=EITHER)
    missing = layer()
    del missing.graph.node[1].output[:]
    yield Hostile("node-without-outputs", saved(missing), says=("nothing makes",))
    missing = layer()
    missing.graph.node[0].input[1] = ""
    yield Hostile("product-of-nothing", saved(missing), codes=EITHER)
    missing = layer()
    missing.graph.node[0].op_type = ""
    yield Hostile("node-of-no-type", saved(missing))
    missing = layer()
    missing.graph.node[0].op_type = "N" * 100_000
    yield Hostile("node-of-long-type", saved(missing), codes=EITHER)
    missing = layer()
    missing.graph.node[0].domain = "d" * 100_000
    yield Hostile("node-of-long-domain", saved(missing), codes=EITHER)
    missing = layer()
    missing.graph.node[0].name = "n" * 1_000_000
    yield Hostile("node-of-long-name", saved(missing), codes=EITHER)
    through = parsed("(float[4] x) => (float[4] x) { }")
    yield Hostile("output-is-input", saved(through), codes=EITHER)
    body_output = text("""(float[4] x, bool c) => (float[4] y) { y = If (c) <
        then_branch = t () => (float[4] a) { b = Relu (x) },
        else_branch = e () => (float[4] b2) { b2 = Relu (x) }> }""")
    yield Hostile("body-output-of-nobody", body_output, says=("nothing",))
    later = text("""(float[4] x, bool c) => (float[4] y) { y = If (c) <
        then_branch = t () => (float[4] a) { a = Relu (z) },
        else_branch = e () => (float[4] b2) { b2 = Relu (x) }>  z = Neg (y) }""")
    yield Hostile("body-reads-what-comes-later", later, says=("cycle",))
    shadow = text("""(float[4] x, bool c) => (float[4] y) { q = Neg (x)  y = If (c) <
        then_branch = t () => (float[4] q) { q = Relu (x) },
        else_branch = e () => (float[4] b2) { b2 = Relu (q) }> }""")
    yield Hostile("body-shadows", shadow, codes=EITHER)
    escape = layer()
    escape.graph.node[0].name = "\x1b]0;title\x07\x1b[2J\u202e"
    yield Hostile("terminal-codes", saved(escape), codes=TAKEN)


def wholes() -> Iterator[Hostile]:
    def bytes_of(data: bytes) -> Callable[[Path], object]:
        return lambda folder: (folder / FILE).write_bytes(data)

    whole = layer().SerializeToString()
    for part in (1, 7, 50, len(whole) // 2, len(whole) - 1):
        yield Hostile(f"cut-at-{part}", bytes_of(whole[:part]))
    yield Hostile("with-a-tail", bytes_of(whole + b"\xff" * 9))
    yield Hostile("twice", bytes_of(whole + whole))
    yield Hostile("unknown-fields", bytes_of(whole + b"\xfa\x01\x03abc"), codes=EITHER)
    empty = parsed("(float[4] x) => (float[4] y) { y = Relu (x) }")
    empty.graph.Clear()
    yield Hostile("empty-graph", saved(empty), says=("outputs",))
    nodeless = layer()
    del nodeless.graph.node[:]
    yield Hostile("no-nodes", saved(nodeless), says=("nothing makes",))
    constant = parsed("() => (float[4] y) <float[4] y = {1, 2, 3, 4}> { }")
    yield Hostile("constant-model", saved(constant), codes=EITHER)
    for name, change in {
        "missing": lambda model: model.ClearField("opset_import"),
        "twice": lambda model: model.opset_import.add(domain="", version=17),
        "two-versions": lambda model: model.opset_import.add(domain="", version=12),
        "two-names": lambda model: model.opset_import.add(domain="ai.onnx", version=12),
        "huge": lambda model: setattr(model.opset_import[0], "version", 1 << 40),
        "negative": lambda model: setattr(model.opset_import[0], "version", -1),
        "zero": lambda model: setattr(model.opset_import[0], "version", 0),
        "other-domain-only": lambda model: setattr(model.opset_import[0], "domain", "com.microsoft"),
        "10000": lambda model: [model.opset_import.add(domain=f"d{i}", version=1) for i in range(10_000)],
    }.items():
        yield Hostile(
            f"opset-{name}",
            changed(change),
            codes=EITHER if name in ("twice", "10000") else REFUSED,
            says=("opset",),
        )
    yield Hostile("opset-2", text("(float[N, 3] x) => (float[N, 3] y) { y = Relu (x) }", opset=2), codes=(0,))
    symbolic = parsed(
        """(float[1, 3, 8, 8] x) => (float[N, 4] w, float[1, 4, 8, 8] y) <int8[4, 3, 1, 1] codes = {1,2,3,4,5,6,7,8,9,10,11,12}, float s = {0.1},
        int8 z = {0}> { w = DequantizeLinear (codes, s, z)  q = QuantizeLinear (x, s, z)  a = DequantizeLinear (q, s, z)  y = Conv (a, w) }"""
    )
    yield Hostile("weights-of-a-symbolic-size", saved(symbolic), codes=EITHER,
                  verbs=("check net.onnx --no-engine", "sanitize net.onnx"))  # fmt: skip
    referring = parsed(
        "(float[4] x) => (float[4] y) { k = Constant <value_ints = [4]> ()  y = Reshape (x, k) }"
    )
    referring.graph.node[0].attribute[0].ref_attr_name = "/dev/zero"
    yield Hostile("attribute-of-a-function", saved(referring), says=("in no function",))
    for version in (0, -1, 1 << 40, 99):
        yield Hostile(f"ir-{version}", changed(lambda model, version=version: setattr(model, "ir_version", version)),
                      codes=EITHER if version < 1 else REFUSED, says=("IR version",), verbs=("sanitize net.onnx",))  # fmt: skip

    def training(model: onnx.ModelProto) -> None:
        info = model.training_info.add()
        info.algorithm.name = "a"
        info.algorithm.node.append(helper.make_node("Nope", ["q"], ["r"]))
        info.algorithm.initializer.add(name="w", data_type=99, dims=[1 << 60])

    yield Hostile("training-info", changed(training), codes=EITHER)
    yield Hostile("annotation-of-nothing", changed(lambda model: model.graph.quantization_annotation.add(
        tensor_name="none")), codes=EITHER)  # fmt: skip

    def attribute(**given: object) -> Callable[[Path], object]:
        def change(model: onnx.ModelProto) -> None:
            model.graph.node[1].CopyFrom(helper.make_node("Relu", ["a"], ["y"]))
            model.graph.node[1].attribute.add(**given)

        return changed(change)

    yield Hostile("attribute-unknown", attribute(name="q", type=2, i=1), codes=EITHER)
    yield Hostile("attribute-no-type", attribute(name="q"), codes=EITHER)
    yield Hostile("attribute-reference", attribute(name="q", type=2, ref_attr_name="z"), codes=EITHER)
    twice = layer()
    twice.graph.node[1].CopyFrom(helper.make_node("Concat", ["a"], ["y"], axis=0))
    twice.graph.node[1].attribute.append(twice.graph.node[1].attribute[0])
    yield Hostile("attribute-twice", saved(twice), codes=EITHER)
    for op, given in {
        "Concat": {"axis": 1 << 62}, "Softmax": {"axis": -99}, "Flatten": {"axis": 99}, "Transpose": {"perm": [9, 9]},
        "Cast": {"to": 99}, "LeakyRelu": {"alpha": "word"}, "ReduceSum": {"keepdims": 1 << 40}, "Gemm": {"alpha": 1},
        "MaxPool": {"kernel_shape": [1 << 40, 1 << 40]}, "AveragePool": {"kernel_shape": [0, 0]}, "Split": {"axis": 5},
        "Conv": {"group": 0}, "DepthToSpace": {"blocksize": 0}, "Unsqueeze": {"axes": [99]}, "Hardmax": {"axis": "x"},
        "CumSum": {"exclusive": -9}, "EyeLike": {"k": 1 << 62, "dtype": 99}, "RandomNormalLike": {"dtype": 77},
        "LRN": {"size": 1 << 50}, "SpaceToDepth": {"blocksize": -1}, "Shrink": {"lambd": [1, 2]}, "TopK": {"axis": 7},
        "LSTM": {"hidden_size": 1 << 40}, "Einsum": {"equation": "ij" * 5000}, "Constant": {"value_ints": [1] * 10},
        "BitShift": {"direction": "UP"}, "Identity": {"axis": 3}, "Upsample": {"mode": "x"}, "GridSample": {"mode": "??"},
    }.items():  # fmt: skip
        for opset in (9, 17):
            model = layer()
            model.opset_import[0].version = opset
            model.graph.node[1].CopyFrom(helper.make_node(op, ["a"], ["y"], "odd", **given))
            yield Hostile(f"odd-{op.lower()}-{opset}", saved(model), codes=EITHER)


def flags() -> Iterator[Hostile]:
    """Statements about inputs that are far too large."""
    dynamic = text("(float[N, M] x, int64 k) => (float[N, M] y) { f = Cast <to = 1> (k)  y = Add (x, f) }")
    for line in (
        "--assume N=99999999999999999999", "--assume N=9223372036854775807", "--assume N=" + "9" * 5000,
        "--assume N=4294967296", "--shape x=99999999999x99999999999", "--shape x=" + "9" * 5000 + "x1",
        "--shape x=" + "x".join("1" * 1000), "--shape x=-1x4", "--freeze k=" + "9" * 5000, "--freeze k=1e400",
        "--freeze k=99999999999999999999", "--freeze k=nan", "--freeze x=1", "--freeze k=" + ",".join("1" * 100_000),
        "--freeze k=-9223372036854775809", "--assume N=1e3", "--assume N=0x10", "--assume N=-1",
    ):  # fmt: skip
        verbs = [f"{verb} {line}" for verb in ("sanitize net.onnx", "check net.onnx --no-engine")
                 if "freeze" not in line or verb.startswith("sanitize")]  # fmt: skip
        yield Hostile(f"flag {line[:40]}", dynamic, says=("--", "input", "dimension"), verbs=tuple(verbs),
                      codes=EITHER if line == "--freeze x=1" else REFUSED)  # fmt: skip
    for line in ("-o ''", "-o /dev/null", "-o /dev/full", "-o /proc/x.onnx", "-o " + "a/" * 3000 + "x.onnx"):
        yield Hostile(f"flag {line[:40]}", dynamic, verbs=(f"sanitize net.onnx {line}",))


def models() -> dict[str, Hostile]:
    """All of them, by name."""
    makers = (externals, sparse, tensors, inputs, functions, shapes, names, wholes, flags)
    found = [one for maker in makers for one in maker()]
    run = ("check net.onnx --no-engine", "sanitize net.onnx")
    for one in (*loops(), *constants()):  # what is wrong is found by running them
        found.append(
            replace(one, verbs=run) if len(one.verbs) == 2 and "--calib" not in one.verbs[0] else one
        )
    assert len({one.name for one in found}) == len(found)
    return {one.name: one for one in found}
