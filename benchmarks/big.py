"""Peak memory of `onnxq sanitize` and `quantize` on large models, as a part of the model's size.

One model has 3 GB of weights in external data, the other just under 2 GiB inside the file, more
than which protobuf does not hold.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
from onnx import TensorProto, helper

from benchmarks.common import print_row
from benchmarks.memory import peak_mib

WIDTH, ROWS, SAMPLES = 4096, 16, 4
MIB = 1 << 20
PER_LAYER = WIDTH * WIDTH * 4
EXTERNAL, INLINE = 3 * 10**9 // PER_LAYER + 1, ((2 << 30) - MIB) // PER_LAYER
GOAL = 1.3


def main() -> None:
    print(f"big: MatMul layers of {WIDTH} x {WIDTH}, {PER_LAYER // MIB} MiB of weights each; fresh processes")
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        data = root / "samples.npy"
        np.save(data, np.random.default_rng(0).standard_normal((SAMPLES * ROWS, WIDTH), np.float32))
        verbs: dict[str, list[str | Path]] = {"sanitize": [], "quantize": ["--calib", data, "--no-engine"]}
        for title, layers, external in (("external data", EXTERNAL, True), ("in the file", INLINE, False)):
            model = root / "model.onnx"
            _write(model, layers, external=external)
            size = layers * PER_LAYER / MIB
            for verb, flags in verbs.items():
                peak = peak_mib([verb, model, "-o", root / "out.onnx", *flags])
                what = f"  {verb}, {size / 1024:.2f} GiB {title}: peak / weights"
                print_row(what, peak / size, GOAL, f"{peak:.0f} / {size:.0f} MiB")
                for path in root.glob("out.*"):
                    path.unlink()


def _write(path: Path, layers: int, *, external: bool) -> None:
    """A chain of matrix products that keep the variance, behind them ReLU and Identity in turn.

    Sanitizing drops each Identity, so that the model is compared before and after.

    One layer's weights are in memory at a time where they go to another file.
    """
    random = np.random.default_rng(0)
    nodes, weights = [], []
    data = path.with_name("model.onnx.data")
    data.unlink(missing_ok=True)
    x = "x"
    for index in range(layers):
        values = random.standard_normal((WIDTH, WIDTH), np.float32) * np.float32(WIDTH**-0.5)
        weight = TensorProto(name=f"w{index}", data_type=TensorProto.FLOAT, dims=values.shape)
        if external:
            _append(data, weight, values)
        else:
            weight.raw_data = values.tobytes()
        weights.append(weight)
        product, y = f"product{index}", f"y{index}"
        nodes.append(helper.make_node("MatMul", [x, weight.name], [product], f"layer{index}"))
        nodes.append(helper.make_node("Relu" if index % 2 else "Identity", [product], [y], f"after{index}"))
        x = y
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes,
        "big",
        [value("x", TensorProto.FLOAT, [ROWS, WIDTH])],
        [value(x, TensorProto.FLOAT, [ROWS, WIDTH])],
        weights,
    )
    model = helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)])
    path.write_bytes(model.SerializeToString())


def _append(data: Path, weight: TensorProto, values: np.ndarray) -> None:
    """Puts a weight at the end of the external data."""
    with data.open("ab") as stream:
        start = stream.tell()
        stream.write(values.tobytes())
    weight.data_location = TensorProto.EXTERNAL
    for key, entry in (("location", data.name), ("offset", start), ("length", values.nbytes)):
        weight.external_data.add(key=key, value=str(entry))


if __name__ == "__main__":
    main()
