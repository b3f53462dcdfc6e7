import dataclasses

import pytest

from onnxq.base.errors import Fault
from onnxq.run.engine_log import EngineTensor, escape, parse_layers, restore

HOSTILE = [
    "a, b]",
    "x { y",
    "p, LayerType: correlation, Inputs: [",
    "][ONNX Layer: z]",
    "q }, { Name: w, Dimensions: [1",
    "two\nName: lines",
    "a\x1f[ONNX Layer: b",
    "~2c~",
    "é✓ %s",
]


def tensor(name, dtype, dims, extra=""):
    return (
        f"{{ Name: {name}, Dimensions: [{dims}], Strides: [{dims}], StrideOrder: [0], "
        f"Datatype: {dtype}, Format: (Linear) Row major linear format{extra} }}"
    )


def line(
    inputs=(("x", "Int8", "1,8,4,4"),),
    constants=(("w", "Int8", "8,8,3,3"), ("s", "Float", "1,8,1,1")),
    outputs=(("y", "Float", "1,8,4,4"),),
    name="c_myl0_1",
    kind="correlation",
    nodes=("c",),
    tail="TacticName: t, StreamId: 0",
):
    def block(tensors):
        return f"[ {', '.join(tensor(*t) for t in tensors)}]" if tensors else "[]"

    metadata = "\x1f".join(f"[ONNX Layer: {node}]" for node in nodes)
    return (
        f"Name: {name}, LayerType: {kind}, Inputs: {block(inputs)}, Constants: {block(constants)}, "
        f"Outputs: {block(outputs)}, {tail}, Metadata: {metadata}"
    )


def parse(*lines):
    return parse_layers("\n".join(["Layers:", *lines, "", "I/O Tensors:", " Name: x"]))


def one(**changes):
    (layer,) = parse(line(**changes))
    return layer


def test_a_layer_is_read_field_by_field():
    layer = one(nodes=("c", "relu", "c"))
    assert dataclasses.asdict(layer) == {
        "name": "c_myl0_1",
        "kind": "correlation",
        "precision": "int8",
        "inputs": ({"name": "x", "dtype": "int8", "shape": (1, 8, 4, 4)},),
        "constants": (
            {"name": "w", "dtype": "int8", "shape": (8, 8, 3, 3)},
            {"name": "s", "dtype": "fp32", "shape": (1, 8, 1, 1)},
        ),
        "outputs": ({"name": "y", "dtype": "fp32", "shape": (1, 8, 4, 4)},),
        "nodes": ("c", "relu"),
        "tactic": "t",
    }
    assert layer.is_matrix
    assert layer.multiplies("int8")


def test_a_node_that_became_something_else_keeps_its_name():
    text = line(nodes=("conv", "relu")).replace("[ONNX Layer: conv]", "[ONNX Layer: conv]__gemm_from_conv1x1")
    (layer,) = parse(text)
    assert layer.nodes == ("conv", "relu")


@pytest.mark.parametrize(
    ("spelling", "name"),
    [
        ("Float", "fp32"),
        ("Half", "fp16"),
        ("BFloat16", "bf16"),
        ("Int8", "int8"),
        ("UInt8", "uint8"),
        ("Int32", "int32"),
        ("Int64", "int64"),
        ("Bool", "bool"),
        ("FP8", "fp8"),
        ("Int4", "int4"),
        ("FP4", "fp4"),
        ("FP4E2M1", "fp4"),
        ("FP8UE8M0", "e8m0"),
        ("Int2", "unknown: Int2"),
    ],
)
def test_datatypes_have_our_names(spelling, name):
    layer = one(kind="kgen", outputs=(("y", spelling, "-1,4"),))
    assert layer.outputs == (EngineTensor("y", name, (-1, 4)),)
    assert layer.precision == name


INT8, FP32 = ("x", "Int8", "64,128"), ("x", "Float", "64,128")
OUT = (("y", "Float", "64,32"),)


MASK = ("m", "Half", "1,1,1,64")
HEADS = {"q": "4,16,32", "k": "4,32,64", "v": "4,64,32"}


def attention(*reads):
    inputs = [
        (one, {"8": "Int8", "16": "Half"}[one[1:]], HEADS[one[0]]) if isinstance(one, str) else one
        for one in reads
    ]
    out = [("y", "Int8", "4,16,32")]
    return {"kind": "kgen", "name": "_gemm_mha_v2_myl0_3", "inputs": inputs, "outputs": out}


@pytest.mark.parametrize(
    ("changes", "precision"),
    [
        # gemm by constant weights
        ({"kind": "gemm", "inputs": [INT8], "constants": [("w", "Int8", "128,32")]}, "int8"),
        ({"kind": "gemm", "inputs": [FP32], "constants": [("w", "Int8", "128,32")]}, "fp32"),
        ({"kind": "gemm", "inputs": [INT8], "constants": [("w", "Half", "128,32")]}, "fp16"),
        ({"kind": "gemm", "inputs": [INT8], "constants": [("w", "Int4", "128,32")]}, "int4"),
        ({"kind": "gemm", "inputs": [INT8], "constants": [("w", "UInt8", "128,32")]}, "uint8"),
        # the bias is no weight: these are computed by the layer before, and are the second input
        (
            {"kind": "gemm", "inputs": [INT8, ("w", "Float", "128,32")], "constants": [("b", "Int8", "32")]},
            "fp32",
        ),
        # a float residual beside int8 weights
        (
            {
                "kind": "correlation",
                "inputs": [("x", "Int8", "1,8,4,4"), ("r", "Float", "1,8,4,4")],
                "constants": [("s", "Float", "1,8,1,1"), ("w", "Int8", "8,8,3,3")],
                "outputs": [("y", "Float", "1,8,4,4")],
            },
            "int8",
        ),
        # generated kernels are known by their operations; a Cast before the product converts
        (
            {
                "kind": "runtime_fusion",
                "name": "__myl_FcAdd_myl0_3",
                "inputs": [INT8],
                "constants": [("w", "Int8", "128,32")],
            },
            "int8",
        ),
        (
            {
                "kind": "runtime_fusion",
                "name": "__myl_CastMulOne_CastFc_myl0_3",
                "inputs": [INT8],
                "constants": [("w", "Int8", "128,32")],
            },
            "fp32",
        ),
        # attention multiplies all three of its inputs
        ({"kind": "kgen", "name": "_gemm_mha_v2_myl0_3", "inputs": [INT8] * 3}, "int8"),
        ({"kind": "kgen", "name": "_gemm_mha_v2_myl0_3", "inputs": [INT8, INT8, FP32]}, "fp32"),
        # which are found by their shapes: a mask may stand anywhere
        (attention(MASK, "q8", "k8", "v8"), "int8"),
        (attention("q8", "k8", MASK, "v8"), "int8"),
        (attention(MASK, "q8", "k16", "v8"), "fp16"),
        (attention(("m", "Half", "4,16,64"), "q8", "k8", "v8"), "int8"),
        (attention(("m", "Half", "4,16,32"), "q8", "k8", "v8"), "fp16"),  # it may be the queries
    ],
)
def test_a_product_is_int8_only_where_every_factor_is(changes, precision):
    layer = one(**{"constants": (), "outputs": OUT} | changes)
    assert layer.is_matrix
    assert layer.precision == precision
    assert layer.multiplies("int8") == (precision == "int8")


def test_a_kernel_that_writes_int8_does_not_multiply_int8():
    layer = one(kind="kgen", name="__myl_MulRounCast_myl0_0", outputs=[("y", "Int8", "4")])
    assert layer.precision == "int8"
    assert not layer.is_matrix
    assert not layer.multiplies("int8")


@pytest.mark.parametrize(
    "tail",
    [
        "TacticName: , StreamId: 1, EventId: 15",
        "TacticName: , StreamId: 0, JumpTarget: <EXIT>",
        "TacticName: , StreamId: 0, JumpTargetThen: __myl_A_myl0_3, JumpTargetElse: __myl_B_myl0_7",
    ],
)
def test_layers_that_only_steer_have_no_precision(tail):
    layer = one(kind="jmp", inputs=(), constants=(), outputs=(), nodes=(), tail=tail)
    assert layer.precision is None
    assert layer.nodes == ()


def test_the_copy_of_a_shape_to_the_gpu_has_its_own_fields():
    (layer,) = parse(
        "Name: [ShapeHostToDeviceCopy 0], LayerType: ShapeHostToDevice, Inputs: [], Outputs: [ { "
        "Name: s, Location: Device, Dimensions: [4], Datatype: Int64, Format: Format not available "
        "due to dynamic shapes }], ParameterType: ShapeH2D, shapeValues0: [1, 32, -1, 1], "
        "TacticValue: 0x0000000000000000, StreamId: 0, Metadata: "
    )
    assert layer.name == "[ShapeHostToDeviceCopy 0]"
    assert layer.outputs == (EngineTensor("s", "int64", (4,)),)


def test_the_node_of_a_subgraph_or_function_goes_by_its_own_name():
    layer = one(nodes=("conv | tb (then_branch) | if (If)", "in | call (f)", "a | b", "c (d)"))
    assert layer.nodes == ("conv", "in", "a | b", "c (d)")


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_name_passes_through_escaped(name):
    layer = one(
        name=escape(name) + "_myl0_1",
        nodes=("before", escape(name), "after"),
        inputs=((escape(name), "Int8", "1,8,4,4"),),
    )
    assert layer.name == name + "_myl0_1"
    assert layer.nodes == ("before", name, "after")
    assert layer.inputs[0].name == name
    assert layer.precision == "int8"


def test_escape_is_reversible_and_leaves_usual_names_alone():
    usual = "/layer1/0/Conv_output_0:1 (x)^$$|a+b"
    assert escape(usual) == usual
    assert [restore(escape(name)) for name in HOSTILE] == HOSTILE
    assert len({escape(name) for name in [*HOSTILE, ",", "2c"]}) == len(HOSTILE) + 2


GOOD = line()


@pytest.mark.parametrize(
    ("bad", "quoted"),
    [
        (GOOD.replace("Datatype: Int8", "Datatype: Int 2"), "Int 2"),
        (GOOD.replace("StreamId: 0", "StreamId: 0, Sparsity: 2"), "Sparsity"),
        (GOOD.replace("Strides:", "Tiles:"), "Tiles"),
        (GOOD.replace("StreamId: 0", "StreamId: zero"), "StreamId"),
        (GOOD.replace("[ONNX Layer: c]", "[ONNX Layer: c][ONNX Layer: d]"), "[ONNX Layer: d]"),
        (GOOD.replace("[ONNX Layer: c]", "[Torch Layer: c]"), "Torch"),
        (GOOD.replace(", Metadata: [ONNX Layer: c]", ""), "StreamId: 0"),
        (GOOD.replace("Name: c_myl0_1, ", ""), "LayerType"),
        (GOOD.replace("StreamId: 0", "StreamId: 0, StreamId: 1"), "a second StreamId"),
        (GOOD.replace("Name: w, ", "Name: w, Name: v, "), "a second Name"),
        (GOOD.replace("Dimensions: [8,8,3,3], ", ""), "Dimensions"),
        (GOOD.replace("[8,8,3,3]", "[8,8,3,?]"), "[8,8,3,?]"),
        (GOOD.replace("c_myl0_1", "a, b]"), "b]"),
        (GOOD + " and more", "and more"),
        ("something else", "something else"),
        (GOOD[: len(GOOD) // 2], "Constants"),
    ],
)
def test_text_that_is_not_understood_is_a_fault_that_quotes_it(bad, quoted):
    assert parse(GOOD)
    with pytest.raises(Fault) as caught:
        parse(GOOD, bad)
    assert quoted in str(caught.value)
    assert repr(bad) in str(caught.value)


@pytest.mark.parametrize("text", ["", "Layers:", f"Layers:\n{GOOD}", f"Strata:\n{GOOD}\n\n"])
def test_a_message_that_is_no_complete_list_is_a_fault(text):
    with pytest.raises(Fault, match="list of layers"):
        parse_layers(text)


def test_an_engine_may_have_no_layers():
    assert parse() == ()
