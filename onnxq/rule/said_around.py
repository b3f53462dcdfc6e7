"""What exporters, onnxruntime, CUDA and Python say around TensorRT, and what to do: an entry each."""

from __future__ import annotations

from collections.abc import Mapping

from onnxq.rule.known_message import KnownMessage

AROUND: Mapping[str, KnownMessage] = {
    "exporter": KnownMessage(
        "Exporting the operator 'aten::fft_fft2' to ONNX opset version 17 is not supported.",
        "PyTorch's exporter lacks the operator, not TensorRT: give a higher opset_version or "
        "dynamo=True, take "
        "a newer PyTorch, or write the operator of others before the export",
        "another export",
        r"exporting the operator|UnsupportedOperatorError|ONNX export (of operator|failed)|"
        r"no ONNX function found|exporter\._errors\.\w+|torch\.onnx\.errors|dynamo_export only implements",
        general=1,
    ),
    "exporter-ended": KnownMessage(
        'File "torch/onnx/_internal/exporter/_core.py", line 599: AttributeError',
        "PyTorch's exporter stops, not TensorRT: the last line says over what; a newer PyTorch and "
        "onnxscript "
        "(pip install --upgrade torch onnxscript) often helps, else dynamo=False, which takes the other "
        "exporter, or dynamo=True",
        "another export",
        r"\btorch[./\\]onnx\b|\bonnxscript\b",
        general=2,
    ),
    "exporter-dynamo": KnownMessage(
        "Failed to export the model with torch.export. This is step 1/3 of exporting the model to ONNX.",
        "PyTorch's exporter of torch.export cannot follow the program, mostly where Python decides by values "
        "of tensors: torch.onnx.export(..., dynamo=False) takes the older exporter; else write that part "
        "otherwise",
        "another export",
        r"TorchExportError|failed to export the model (with torch|to ONNX)|OnnxExporterError|"
        r"torch\._dynamo\.exc\b.{0,400}onnx|onnx.{0,400}torch\._dynamo\.exc\b|"
        r"failed to (decompose|convert) the (FX|exported) .{0,40}ONNX",
    ),
    "exporter-sizes": KnownMessage(
        "torch._dynamo.exc.UserError: Constraints violated (batch)!",
        "torch.export finds that the program fixes a size that was to be dynamic, or treats 1 otherwise than "
        "more: export with samples of 2 or more in that dimension and Dim.AUTO, or leave the dimension out; "
        "torch.onnx.export(..., dynamo=False, dynamic_axes=...) asks nothing of the kind",
        "another export",
        r"constraints violated \(|ConstraintViolationError|satisfy the generated guard",
    ),
    "tracer": KnownMessage(
        "TracerWarning: Converting a tensor to a Python boolean might cause the trace to be incorrect.",
        "PyTorch writes what it computes of the sample's sizes into the file, as a number: "
        "export with the sizes "
        "that you use, or with dynamo=True; onnxq check MODEL names a batch that is written into it",
        "another export",
        r"TracerWarning|cause the trace to be incorrect|exporting a model to ONNX with a batch_?size",
    ),
    "model-optimizer": KnownMessage(
        "modelopt/onnx/quantization/qdq_utils.py: AssertionError",
        "the quantizer failed, not TensorRT: onnxq quantize FLOAT --calib DATA quantizes the float model; "
        "another release of the tool, the one that the script is for, may help as well",
        "the time of calibrating",
        r"block ?quant does not support|modelopt\b.{0,300}(error|assert|fail|no quantizable|no attribute)|"
        r"(\b(nncf|neural_compressor|aimet\w*|brevitas|ppq|mqbench)[./\\]|ORTQuantizer|optimum.{0,40}quant|"
        r"optimum-cli).{0,300}(error|assert|fail|exception)|pytorch_quantization|no module named '?modelopt",
    ),
    "provider-shapes": KnownMessage(
        "TensorRT input: 504 has no shape specified. Please run shape inference on the onnx model first.",
        "onnxruntime wants the shape of each tensor that TensorRT is given: onnxq sanitize MODEL "
        "writes them, "
        "with --shape x=1x3x224x224 for dynamic inputs; trt_profile_min_shapes, opt and max name all inputs, "
        "or none",
        "nothing",
        r"has no shape specified|provide all the dynamic shape inputs|no associated shape profiles",
    ),
    "providers-not-given": KnownMessage(
        "Since ORT 1.9, you are required to explicitly set the providers parameter",
        "the program names no execution provider: onnxruntime.InferenceSession(path, providers=["
        "'TensorrtExecutionProvider', 'CUDAExecutionProvider', 'CPUExecutionProvider'])",
        "nothing",
        r"required to explicitly set the providers",
    ),
    "onnxruntime-operator": KnownMessage(
        "NOT_IMPLEMENTED : Could not find an implementation for Conv(11) node",
        "onnxruntime lacks the operator, or this type of it: onnxq check MODEL says which node; "
        "--ort-ops LIB "
        "brings custom operators; what TensorRT takes it may still take",
        "nothing",
        r"NOT_IMPLEMENTED ?: (could not find an implementation|failed to find kernel)|"
        r"is not a registered function/op",
    ),
    "backend-of-a-server": KnownMessage(
        "unable to find 'libtriton_tensorrt_plan.so' for model 'net', searched: ...",
        "config.pbtxt names a backend that this Triton lacks (an image of it has not all): backend: "
        '"tensorrt", or platform: "tensorrt_plan" '
        "without a backend; onnxq quantize MODEL --calib DATA --deploy triton writes that file",
        "nothing",
        r"unable to find (backend library|'?libtriton_)",
    ),
    "library-of-a-server": KnownMessage(
        "Yolo::createEngine(nvinfer1::IBuilder*, nvinfer1::IBuilderConfig*): Assertion `network' failed.",
        "DeepStream's library for the model was built for another release: build "
        "libnvdsinfer_custom_impl_... again with this DeepStream and TensorRT; the line before says more",
        "nothing",
        r"Yolo::createEngine|libnvdsinfer_custom_impl\w*.{0,80}(undefined symbol|cannot open|fail)",
    ),
    "server": KnownMessage(
        "Deserialize engine failed because file path: model_b1_gpu0_fp32.engine open error",
        "DeepStream, Triton or another server has no engine that it can read: it is not at that path, or was "
        "built by another TensorRT or for another GPU: build it with the TensorRT of the server's container; "
        "onnxq quantize MODEL --calib DATA --deploy triton (or deepstream) writes the configuration",
        "the time of building",
        r"unable to load plan file|deserialize (engine|backend context) .{0,40}fail|unable to (create|load) "
        r"(a |the )?(TensorRT engine|plan)|libtriton_tensorrt|failed to get cuda engine",
        general=1,
    ),
    "server-ended": KnownMessage(
        "NvDsInferContext[UID 1]: Error in NvDsInferContextImpl::initialize(): NVDSINFER_CONFIG_FAILED",
        "DeepStream or Triton stops, and this line says only where: give the first line of [TRT], or the "
        "first ERROR above it; onnxq quantize MODEL --calib DATA --deploy triton (or deepstream) writes a "
        "configuration that fits the model",
        "nothing",
        r"NvDsInfer|NVDSINFER|gst_?nvinfer|(?=.*(nvds|nvinfer)).*gst-plugin-scanner|trtis|specifyBackendDims|"
        r"\btriton\b.{0,80}(error|fail|unable)|model_lifecycle\.cc|model_repository_manager\.cc",
        general=2,
    ),
    "jetson-container": KnownMessage(
        "NvRmMemInitNvmap failed with No such file or directory",
        "the program does not see the memory of the Jetson: docker run --runtime nvidia, with an image for "
        "the JetPack of the board; where an allocation fails (error 12), memory is short: end other programs "
        "or start the board anew",
        "nothing",
        r"NvRmMem|NvMap(Mem)?Alloc|NVMAP_IOC|/dev/nv(map|host)|libnvrm_",
    ),
    "cuda-provider": KnownMessage(
        "Failed to create CUDAExecutionProvider. Require cuDNN 9.* and CUDA 12.*.",
        "onnxruntime does not find the libraries of CUDA or cuDNN, or they are of another major version: pip "
        "install 'onnxruntime-gpu[cuda,cudnn]', or name their folders in LD_LIBRARY_PATH (PATH on Windows); "
        "it runs on the CPU meanwhile",
        "nothing",
        r"failed to create CUDAExecutionProvider|providers_cuda|TryGetProviderInfo_CUDA",
    ),
    "cuda-library": KnownMessage(
        "Error Code 1: Cudnn (CUDNN_STATUS_EXECUTION_FAILED)",
        "a library of CUDA failed: mostly its version is not that of TensorRT, or contexts and streams are "
        "mixed (PyCUDA beside PyTorch, several threads): trtexec --loadEngine=X.engine alone "
        "tells which; take "
        "one context, and a context of TensorRT for each thread",
        "nothing",
        r"(TRT|TensorRT|Error Code).{0,200}(CUDNN_STATUS|CUBLAS_STATUS|invalid resource handle|"
        r"launch failure|"
        r"invalid configuration|operation not permitted)|compiled against \S+ [\d.]+ but running against|"
        r"cannot load symbol cu|(CUDNN|CUBLAS)_STATUS.{0,80}TensorRT|"
        r"CUDA failure: .{0,80}\.(cpp|cu)\b|Error Code 1: (Cudnn|Cublas|CuTensor|Cuda Driver|Cask)|"
        r"pycuda.{0,80}(invalid device context|initialization error|cuCtx|cuDeviceGet|cuStreamCreate|cuInit)",
    ),
    "numpy-of-another-version": KnownMessage(
        "tensorrt/__init__.py, in nptype: module 'numpy' has no attribute 'bool'",
        "this Python package of TensorRT is older than the NumPy beside it: pip install 'numpy<1.24', or a "
        "newer TensorRT",
        "nothing",
        r"(tensorrt|nptype).{0,400}module '?numpy'? has no attribute|compiled using NumPy 1.{0,400}tensorrt",
    ),
    "invalid-model": KnownMessage(
        "onnx_cpp2py_export.checker.ValidationError: Field 'type' of 'value_info' is required but missing",
        "the file breaks a rule of ONNX itself, by a script or an exporter: onnxq check MODEL says which "
        "and where; export it again, or mend the script",
        "another export",
        r"checker\.ValidationError|onnx\S*\.InferenceError|\[(Shape|Type)InferenceError\]|"
        r"INVALID_GRAPH ?:|this is an invalid model|type error: type|"
        r"inferred shape and existing shape differ|is not output of any previous node",
        general=1,
    ),
    "package-not-installed": KnownMessage(
        "ERROR: Failed building wheel for tensorrt-cu12",
        "pip finds no package of TensorRT for this Python or system: a Python that the release supports, "
        "pip install --upgrade pip, then pip install tensorrt-cu13 (or -cu12), on Linux or Windows",
        "nothing",
        r"(failed building wheel for|no matching distribution found for|could not find a version .{0,60}) "
        r"?(nvidia-)?tensorrt|tensorrt\S*.{0,80}(metadata|requirements to build wheel)|"
        r"building wheels? for (nvidia-)?tensorrt\b.{0,200}error",
    ),
    "api-of-another-version": KnownMessage(
        "error: 'class nvinfer1::IBuilder' has no member named 'buildSerializedNetwork'",
        "the program is written for another version of TensorRT's interface: install that version, or follow "
        "NVIDIA's migration guide; names of 8.5 and later (tensors by name, execute_async_v3) "
        "hold in 10 and 11",
        "another program; the model stays",
        r"\bI[A-Z]\w+'? does not name a type|"
        r"tensorrt\w*(\.tensorrt)?\.?\w*'? (object )?has no attribute|nvinfer1::\w+.{0,6} has no member|"
        r"is not a member of '?.?nvinfer1|"
        r"(?=.*\btrt\b).*'module' object has no attribute|"
        r"(create_network|build_\w+|set_\w+)\(\): incompatible function arguments.{0,200}tensorrt",
        general=1,
    ),
}
"""By a name."""
