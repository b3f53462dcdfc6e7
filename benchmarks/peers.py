"""Quantizes a model with another tool; run by the Python of an environment that has it.

    python peers.py TOOL MODEL SAMPLES OUTPUT

SAMPLES is a folder of .npz files, one for each sample. Prints the CPU seconds and the seconds that the
tool itself took, without imports, and the peak memory of the process in MiB.
"""

from __future__ import annotations

import contextlib
import importlib
import sys
import time
from pathlib import Path

import numpy as np
import onnx
import onnx.version_converter
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static
from onnxruntime.quantization.shape_inference import quant_pre_process


class _Reader(CalibrationDataReader):
    def __init__(self, folder: Path) -> None:
        self._samples = [dict(np.load(path)) for path in sorted(folder.glob("*.npz"))]
        self.rewind()

    def get_next(self) -> dict[str, np.ndarray] | None:
        return next(self._rest, None)

    def get_first(self) -> dict[str, np.ndarray]:  # asked for by Model-Optimizer
        return self._samples[0]

    def rewind(self) -> None:
        self._rest = iter(self._samples)


def modelopt(model: Path, samples: Path, output: Path) -> None:
    """NVIDIA Model-Optimizer with its own choices, but for a body of float32 as the others have."""
    modelopt_default(model, samples, output, high_precision_dtype="fp32")


def modelopt_default(model: Path, samples: Path, output: Path, **options: str) -> None:
    """NVIDIA Model-Optimizer with its own choices: around int8 it is float16."""
    from modelopt.onnx.quantization import quantize

    quantize(
        str(model),
        calibration_data_reader=_Reader(samples),
        calibration_eps=["cpu"],
        output_path=str(output),
        log_level="ERROR",
        **options,
    )


def modelopt_max(model: Path, samples: Path, output: Path) -> None:
    """NVIDIA Model-Optimizer with its choices, but for its calibrator: the greatest magnitudes."""
    modelopt_default(model, samples, output, calibration_method="max")


def onnxruntime(model: Path, samples: Path, output: Path) -> None:
    """Onnxruntime's quantizer, with the options that its own examples have for TensorRT.

    A model is brought to opset 13, which a scale for each channel needs, and prepared; where either
    fails, it goes on without.
    """
    loaded = onnx.load(model)
    with contextlib.suppress(Exception):
        if _opset(loaded) < 13:
            loaded = onnx.version_converter.convert_version(loaded, 13)
    with contextlib.suppress(Exception):
        quant_pre_process(loaded, output)
        loaded = onnx.load(output)
    quantize_static(
        loaded,
        output,
        _Reader(samples),
        quant_format=QuantFormat.QDQ,
        per_channel=_opset(loaded) >= 13,
        activation_type=QuantType.QInt8,
        weight_type=QuantType.QInt8,
        extra_options={
            "ActivationSymmetric": True,
            "WeightSymmetric": True,
            "AddQDQPairToWeight": True,
            "DedicatedQDQPair": True,
            "QuantizeBias": False,
        },
    )


def onnxruntime_default(model: Path, samples: Path, output: Path) -> None:
    """Onnxruntime's quantizer as it is called without options: uint8 activations, int32 biases."""
    quantize_static(onnx.load(model), output, _Reader(samples))


def nncf(model: Path, samples: Path, output: Path) -> None:
    """NNCF with its own choices, for any device, with its correction of biases."""
    import nncf

    loaded = onnx.load(model)
    if _opset(loaded) < 13:  # it writes scales for each channel, and has no other form
        loaded = onnx.version_converter.convert_version(loaded, 13)
    given = [dict(np.load(path)) for path in sorted(samples.glob("*.npz"))]
    onnx.save(nncf.quantize(loaded, nncf.Dataset(given), subset_size=len(given)), output)


def ppq(model: Path, samples: Path, output: Path) -> None:
    """PPQ's quantizer for TensorRT with its own choices, written as Q/DQ pairs of ONNX."""
    import torch
    from esp_ppq.api import export_ppq_graph, quantize_onnx_model
    from esp_ppq.core import TargetPlatform

    given = [dict(np.load(path)) for path in sorted(samples.glob("*.npz"))]
    batches = [{name: torch.from_numpy(value) for name, value in feeds.items()} for feeds in given]
    graph = quantize_onnx_model(
        str(model),
        [next(iter(feeds.values())) if len(feeds) == 1 else feeds for feeds in batches],
        calib_steps=len(given),
        input_shape=list(next(iter(given[0].values())).shape),
        platform=TargetPlatform.TRT_INT8,
        device="cpu",
        verbose=0,
    )
    export_ppq_graph(graph, TargetPlatform.ONNXRUNTIME, str(output))


def aimet(model: Path, samples: Path, output: Path) -> None:
    """AIMET's simulation with its own ranges, symmetric, normalizations folded as its guide says."""
    from aimet_onnx.batch_norm_fold import fold_all_batch_norms_to_weight
    from aimet_onnx.quantsim import QuantizationSimModel

    loaded = onnx.load(model)
    if _opset(loaded) < 13:
        loaded = onnx.version_converter.convert_version(loaded, 13)
    fold_all_batch_norms_to_weight(loaded)
    simulated = QuantizationSimModel(
        loaded, param_type="int8", activation_type="int8", providers=["CPUExecutionProvider"]
    )
    for quantizer in simulated.qc_quantize_op_dict.values():
        quantizer.use_symmetric_encodings = True  # TensorRT takes no other
    simulated.compute_encodings([dict(np.load(path)) for path in sorted(samples.glob("*.npz"))])
    made = simulated.to_onnx_qdq()
    pairs = (node for node in made.graph.node if node.op_type in ("QuantizeLinear", "DequantizeLinear"))
    zero_points = {name for node in pairs for name in node.input[2:]}
    for tensor in made.graph.initializer:  # uint8 around 128 is int8 around 0
        values = onnx.numpy_helper.to_array(tensor)
        if tensor.name in zero_points and values.dtype == np.uint8 and np.all(values == 128):
            tensor.CopyFrom(onnx.numpy_helper.from_array(np.zeros_like(values, np.int8), tensor.name))
    onnx.save(made, output)


def aimet_default(model: Path, samples: Path, output: Path) -> None:
    """AIMET's simulation as its guide writes it, exported as Q/DQ pairs."""
    from aimet_onnx.quantsim import QuantizationSimModel

    simulated = QuantizationSimModel(onnx.load(model), providers=["CPUExecutionProvider"])
    simulated.compute_encodings([dict(np.load(path)) for path in sorted(samples.glob("*.npz"))])
    onnx.save(simulated.to_onnx_qdq(), output)


def quark(model: Path, samples: Path, output: Path) -> None:
    """Quark's configuration of 8 bits for activations and weights, with its own choices."""
    from quark.onnx import A8W8_QCONFIG, ModelQuantizer

    ModelQuantizer(A8W8_QCONFIG).quantize_model(str(model), str(output), _Reader(samples))


def neural_compressor(model: Path, samples: Path, output: Path) -> None:
    """The ONNX part of Neural Compressor, with its own choices, as Q/DQ pairs."""
    from onnx_neural_compressor.quantization import config, quantize
    from onnxruntime.quantization import QuantFormat as Form

    quantize(str(model), str(output), config.StaticQuantConfig(_Reader(samples), quant_format=Form.QDQ))


def _opset(model: onnx.ModelProto) -> int:
    return max((entry.version for entry in model.opset_import if not entry.domain), default=1)


def main() -> None:
    tool, model, samples, output = sys.argv[1:]
    loaded = {
        "modelopt": "modelopt.onnx.quantization",
        "nncf": "nncf",
        "ppq": "esp_ppq.api",
        "aimet": "aimet_onnx.quantsim",
        "quark": "quark.onnx",
        "neural": "onnx_neural_compressor.quantization",
    }.get(tool.split("-")[0])
    if loaded is not None:
        importlib.import_module(loaded)  # loading is not its work
    tools = {
        "modelopt": modelopt, "modelopt-default": modelopt_default, "modelopt-max": modelopt_max,
        "onnxruntime": onnxruntime, "onnxruntime-default": onnxruntime_default, "nncf": nncf,
        "ppq": ppq, "aimet": aimet, "aimet-default": aimet_default, "quark": quark,
        "neural-compressor": neural_compressor,
    }  # fmt: skip
    start, spent = time.perf_counter(), time.process_time()
    tools[tool](Path(model), Path(samples), Path(output))
    seconds, spent = time.perf_counter() - start, time.process_time() - spent
    peak = Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0]
    print(f"\n{spent:.3f} {seconds:.3f} {int(peak) / 1024:.1f}")


if __name__ == "__main__":
    main()
