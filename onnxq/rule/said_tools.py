"""What tools beside TensorRT say, that simplify, convert, serve or compile, and what to do: an entry each."""

from __future__ import annotations

from collections.abc import Mapping

from onnxq.rule.known_message import KnownMessage

TOOLS: Mapping[str, KnownMessage] = {
    "simplifier": KnownMessage(
        "ONNX: simplifier failure: FLOAT8E4M3FN",
        "the simplifier failed, not TensorRT: onnxq sanitize MODEL, of the file as it was exported, "
        "simplifies it and proves each change; onnxq check MODEL says whether the file is at fault",
        "nothing",
        r"simplifier failure|onnx-?_?sim(plifier)?\b|onnxslim",
    ),
    "half-precision-tool": KnownMessage(
        "onnxconverter_common/float16.py, in convert_float_to_float16",
        "the tool for half precision failed: onnxq sanitize FLOAT --body fp16 --calib DATA writes half "
        "precision, and keeps in float32 what it does not hold",
        "some layers in float32",
        r"keep_io_types|onnxconverter_common|convert_float_to_float16|convert_mixed_precision|onnxmltools",
        general=1,
    ),
    "converter-of-a-framework": KnownMessage(
        "torch_tensorrt: Lowering failed for node: No converter found for aten.foo.default",
        "Torch-TensorRT, torch2trt and TF-TRT convert the program itself, not an ONNX file: leave the "
        "operator to the framework (torch_executed_ops), or export to ONNX (torch.onnx.export, tf2onnx), "
        "and onnxq check MODEL says what TensorRT does not take",
        "another export",
        r"torch[_-]tensorrt|torch2trt|no converter found for|"
        r"Target aten\.\S+ does not support|unsupported data type as an input data type|_trt'|TF-TRT|"
        r"TrtGraphConverter|TRTEngineOp",
        general=1,
    ),
    "exporter-of-a-framework": KnownMessage(
        "tf2onnx: Tensorflow op [x: Foo] is not supported",
        "the exporter to ONNX lacks the operator or fails, not TensorRT: take a newer release of it, or "
        "another opset; onnxq check MODEL looks at a file that was written",
        "another export",
        r"tf2onnx|keras2onnx|paddle2onnx|skl2onnx|Tensorflow op \[",
        general=1,
    ),
    "language-models": KnownMessage(
        "tensorrt_llm/builder.py: AssertionError",
        "TensorRT-LLM builds engines of its own checkpoints, not of ONNX files, and quantizes by itself: its "
        "release has to be the one that the script is for",
        "nothing",
        r"tensorrt[-_]llm|trtllm",
        general=1,
    ),
    "compiling-a-program": KnownMessage(
        "fatal error: NvInfer.h: No such file or directory",
        "a program is compiled, and headers or libraries are not there: install those of the same release "
        "(libnvinfer-dev, libnvonnxparsers-dev), fetch its submodules, and give "
        "CMake -DTENSORRT_ROOT=FOLDER or -DTRT_LIB_DIR=FOLDER",
        "nothing",
        r"fatal error: (Nv\w+|onnx/[\w/]+|cudnn\w*|cuda_runtime\w*)\.h|cannot find -l(nvinfer|nvonnxparser)|"
        r"could not find .{0,20}(TENSORRT|NVINFER|nvonnxparser)|(TENSORRT|NVINFER)\w*(LIBRARY|INCLUDE)\w*",
    ),
    "server-configuration": KnownMessage(
        "Invalid argument: model 'x', tensor 'y': the model expects 4 dimensions (shape [-1,3,8,8]) but the "
        "model configuration specifies 3 dimensions",
        "the server's configuration and the engine differ in names, types or sizes: onnxq quantize MODEL "
        "--calib DATA --deploy triton (or deepstream) writes the configuration; onnxq inspect MODEL lists "
        "inputs and outputs",
        "nothing",
        r"model configuration specifies|config\.pbtxt|autofill|input-dims is not correct|unexpected (shape|"
        r"inference|datatype|"
        r"data-type)|InferenceServerException|(parse-bbox|nms|output-blob|num-detected)[\w-]*|"
        r"could not find (output|bbox|NMS)\b.{0,60}layer",
        general=1,
    ),
    "image-of-a-server": KnownMessage(
        "Infer Context default input_layer is not a image[CHW]",
        "Gst-nvinfer feeds its pictures to the first input, which is not one: make constants of the other "
        "inputs, onnxq sanitize MODEL --freeze scale_factor=1,1; a picture is a batch of 3 dimensions",
        "the engine is for those values",
        r"is not an? image ?\[",
    ),
    "model-repository": KnownMessage(
        "Triton: failed to create repo server, err_msg:failed to stat file /tmp/models",
        "Triton finds no folder of models at that path, mostly since it was not mounted into the container: "
        "it holds NAME/config.pbtxt and NAME/1/model.plan; onnxq quantize MODEL --calib DATA --deploy triton "
        "writes such a folder",
        "nothing",
        r"failed to stat file|failed to create repo server|failed to poll (from )?model repositor",
    ),
    "converter-of-opsets": KnownMessage(
        "version_converter/BaseConverter.h: adapter_lookup: Assertion `false` failed: No Adapter From "
        "Version $20 for GridSample",
        "ONNX's converter of opsets lacks the step for this operator, mostly downwards: export the model "
        "again with that opset_version; onnxq check MODEL --target NAME says which opset a TensorRT "
        "documents",
        "another export",
        r"version_converter[/\\]|adapter_lookup|no (adapter|previous version)\b.{0,40}version",
    ),
    "large-file": KnownMessage(
        "Reading dangerously large protocol message.",
        "a remark of protobuf on a large file: nothing is to be done below 2 GB; onnxq sanitize MODEL writes "
        "larger ones as X.onnx and X.onnx.data",
        "nothing",
        r"dangerously large protocol message|total number of bytes read was",
        general=1,
    ),
    "package": KnownMessage(
        "site-packages/onnx_graphsurgeon/importers/onnx_importer.py: KeyError",
        "a Python package fails, not TensorRT: onnxq check MODEL says whether the file is at fault; else "
        "another release of the package, the one that the script is for, may help",
        "nothing",
        r"(site|dist)-packages[/\\](onnx\w*|tensorrt\w*|polygraphy|modelopt|optimum|nncf|neural_compressor|"
        r"ultralytics|mmdeploy)\b|\bonnx\b.{0,60}(error|exception|fail\w*)\b|(error|exception|fail\w*)\b"
        r".{0,60}\bonnx\b",
        general=2,
    ),
}
"""By a name."""
