"""What onnxruntime, quantizers and ONNX's own tools say, and what to do: an entry each."""

from __future__ import annotations

from collections.abc import Mapping

from onnxq.rule.known_message import KnownMessage

ONNXRUNTIME: Mapping[str, KnownMessage] = {
    "onnxruntime-quantizer": KnownMessage(
        "WARNING:root:Please consider to run pre-processing before quantization.",
        "the quantizer of onnxruntime, not TensorRT, and its defaults are for CPUs: onnxq quantize FLOAT "
        "--calib DATA quantizes the float model for TensorRT, and needs no pre-processing; what onnxruntime "
        "itself cannot run, onnxq check FLOAT names",
        "the time of calibrating",
        r"pre-?processing before quantization|_Reduce(Min|Max)|onnxruntime[./\\]quantization|"
        r"\bquantize_(static|dynamic|qat)\b|quant_pre_process|onnx_quantizer|CalibrationDataReader|"
        r"(quant_utils|qdq_quantizer|calibrate)\.py|(QDQ|ONNX)Quantizer|quantization parameters are not "
        r"specified|does not support quantization|hist_edges|static "
        r"quantization that requires|augmented_model|TensorsData",
    ),
    "shape-inference": KnownMessage(
        "symbolic_shape_infer.py: Exception: Incomplete symbolic shape inference",
        "onnxruntime's inference of shapes gives up, not TensorRT: onnxq sanitize MODEL writes the shapes "
        "that follow, with --shape x=1x3x224x224 also those of dynamic inputs; what it warns of is no fault",
        "nothing",
        r"symbolic_shape_infer\b(?!.{0,60}could not be loaded)|incomplete symbolic shape inference|"
        r"unsafe merge between symbolic",
    ),
    "quantizer-of-torch": KnownMessage(
        "ONNX export failed: Couldn't export Python operator FakeTensorQuantFunction",
        "PyTorch's exporter does not write these quantizers: export the float model, and onnxq quantize "
        "FLOAT --calib DATA quantizes it; of pytorch-quantization set "
        "quant_nn.TensorQuantizer.use_fb_fake_quant = True and opset_version=13 or more",
        "the time of calibrating",
        r"FakeTensorQuant|fake_quantize|zero-?point must be|"
        r"(export|ONNX function found).{0,200}(quantized::|quantized_decomposed|quantize_per_)|"
        r"quantized::\w+.{0,200}export|(fakequant|QuantStub|convert_fx|prepare_(qat|fx)).{0,200}onnx",
    ),
    "quantizer-warning": KnownMessage(
        "UserWarning: Using slower INT4 ONNX quantization using numpy.",
        "a warning of a quantizer, which goes on: nothing is to be done while a file is written; onnxq check "
        "MODEL says whether its Q/DQ pairs are for TensorRT",
        "nothing",
        r"\[modelopt\].{0,20} (WARNING|INFO)\b|(modelopt|onnx).{0,300}(User|Future|Deprecation|Runtime|"
        r"Tracer)Warning|using slower INT4",
        general=1,
    ),
    "other-shape-than-stated": KnownMessage(
        "Expected shape from model of {} does not match actual shape of {1,1,1} for output y",
        "a warning of onnxruntime: a tensor has another shape than the file states, often another batch, or "
        "sizes of one name that differ: onnxq inspect MODEL lists what is stated, and onnxq sanitize MODEL "
        "--shape x=Nx3x224x224 makes a size dynamic",
        "nothing",
        r"VerifyOutputSizes|expected shape from model of|attempting to re-use buffer|"
        r"MergeShapeInfo|merging (output )?shape|falling back to lenient merging",
        general=1,
    ),
    "other-input-than-stated": KnownMessage(
        "INVALID_ARGUMENT : Got invalid dimensions for input: x for the following indices",
        "what is fed has not the name, type or sizes that the model states: onnxq inspect MODEL lists them; "
        "onnxq sanitize MODEL --shape x=Nx3x224x224 makes a size dynamic",
        "nothing",
        r"got invalid dimensions for input|invalid rank for input|unexpected input data type|"
        r"invalid feed input name|input feed.{0,60}missing|expected: \(tensor\(",
    ),
    "onnxruntime-node": KnownMessage(
        "Non-zero status code returned while running Reshape node. Name:'/Reshape'",
        "onnxruntime fails in a node, not TensorRT, mostly over a size that is written into the file: feed "
        "the sizes that it was exported with, or onnxq sanitize MODEL --shape x=Nx3x224x224 computes such "
        "sizes; onnxq check MODEL names a batch that is written in",
        "nothing",
        r"non-zero status code returned while running (?!TRTKernel)\w+ node",
        general=1,
    ),
    "attribute-of-another-opset": KnownMessage(
        "Unrecognized attribute: axis for operator QuantizeLinear",
        "the node is written as another opset than the file states has it (scales by channel are of opset 13 "
        "on): export with a later opset_version; onnxq check MODEL says where, and onnxq quantize FLOAT "
        "--calib DATA writes pairs in the opset that they need",
        "another export",
        r"unrecognized attribute|bad node spec|no opset import for domain|no schema registered|"
        r"no op registered for|is deprecated in (domain_version|opset)|is not in opset",
    ),
    "exported-in-training": KnownMessage(
        "is_train_ was false. Training mode is not supported in this build.",
        "the model was exported as it trains: model.eval() before the export; where an input says so, onnxq "
        "sanitize MODEL --freeze TRAINING_MODE=false",
        "another export",
        r"training mode is not supported|is_train_ was",
    ),
    "onnxruntime": KnownMessage(
        "[ONNXRuntimeError] : 1 : FAIL",
        "onnxruntime stops, not TensorRT: onnxq check MODEL runs the model in it and names the node; what "
        "TensorRT takes it may still take",
        "nothing",
        r"ONNXRuntimeError|onnxruntime_pybind11_state|\[[EF]:onnxruntime",
        general=2,
    ),
    "onnxruntime-warning": KnownMessage(
        "[W:onnxruntime:, graph.cc:1283 Graph] Initializer x appears in graph inputs",
        "a warning of onnxruntime, which goes on: nothing is to be done while it runs; onnxq sanitize MODEL "
        "removes what nobody reads and makes constants of weights that are listed as inputs",
        "nothing",
        r"\[W:onnxruntime",
        general=2,
    ),
    "rtx-provider": KnownMessage(
        "Failed to download or register the following EPs: NvTensorRTRTXExecutionProvider.",
        "onnxruntime has no provider for TensorRT-RTX here, and runs on the CPU: Windows ML fetches it "
        "through Windows Update, for an RTX GPU with a recent driver; elsewhere it is built with "
        "onnxruntime; onnxq check MODEL --target tensorrt-rtx says what the model lacks for it",
        "nothing",
        r"(download|regist|load|find|available|create)\w*\b.{0,80}NvTensorRT_?RTX|"
        r"NvTensorRT_?RTX\w*.{0,80}(\bnot\b|fail|violation|error)",
        general=1,
    ),
    "onnx-of-another-version": KnownMessage(
        "module 'onnx.helper' has no attribute 'float32_to_bfloat16'",
        "a package beside onnx is older than it: onnx 1.20 has no such helpers: pip install --upgrade "
        "onnx-graphsurgeon (or whatever package the line before names), or pip install 'onnx<1.20'",
        "nothing",
        r"onnx\.helper'? has no attribute|onnx\.mapping|module '?onnx'? has no attribute '?mapping",
    ),
    "package-of-onnx": KnownMessage(
        "module 'onnx' has no attribute 'shape_inference'",
        "the Python package is not there, is of another release than the script asks for, or a file of that "
        "name beside the script hides it: python -c 'import onnx; print(onnx.__file__)' says which; pip "
        "install --upgrade installs it anew",
        "nothing",
        r"module '?(onnx\w*|polygraphy|modelopt|pycuda|cuda)\b(?!\.onnx)[\w.]*'? has no attribute|"
        r"no module named '?(onnx\w*|polygraphy|pycuda|cuda)\b|"
        r"cannot import name .{1,60} from (partially initialized module )?'?(onnx\w*|polygraphy|cuda)\b",
    ),
}
"""By a name."""
