"""Messages as users paste them, with paths, names and times: each leads to what is known of its kind."""

from __future__ import annotations

import re

import pytest

from onnxq.rule.known_message import KNOWN
from onnxq.rule.load import load_rules
from onnxq.rule.messages import known_of
from onnxq.targets import load_target

RULES = load_rules()
TARGETS = [load_target("tensorrt-11"), load_target("tensorrt-rtx")]

PASTED = [
    # removed from TensorRT 11
    ("AttributeError: module 'tensorrt' has no attribute 'CalibrationAlgoType'", "calibrators"),
    ('  File "/srv/app/calib.py", line 12, in <module>\n    class C(trt.IInt8EntropyCalibrator2):\n'
     "AttributeError: module 'tensorrt' has no attribute 'IInt8EntropyCalibrator2'", "calibrators"),
    ("AttributeError: 'tensorrt_bindings.tensorrt.IBuilderConfig' object has no attribute 'int8_calibrator'",
     "calibrators"),
    ("'tensorrt_bindings.tensorrt.ITensor' object has no attribute 'dynamic_range'", "calibrators"),
    ("[06/12/2026-10:02:11] [E] Unknown option: --calib calib.cache", "calibrators"),
    ("[06/12/2026-10:02:11] [E] Unknown option: --fp16 ", "precision-flags"),
    ("Unknown option: --int8", "precision-flags"),
    ("[E] Unknown option: --best", "precision-flags"),
    ("AttributeError: type object 'tensorrt_bindings.tensorrt.BuilderFlag' has no attribute 'FP16'",
     "precision-flags"),
    ("BuilderFlag has no attribute 'FP16'", "precision-flags"),
    ("main.cpp:41:33: error: 'kFP16' is not a member of 'nvinfer1::BuilderFlag'", "precision-flags"),
    ("[TRT] [E] IBuilder::buildSerializedNetwork: Error Code 3: API Usage Error (Parameter check failed, "
     "condition: !config.getFlag(BuilderFlag::kFP16). )", "precision-flags"),
    ("[E] Unknown option: --layerPrecisions /head/Conv:fp16", "precision-by-layer"),
    ("[E] Unknown option: --precisionConstraints obey", "precision-by-layer"),
    ("type object 'tensorrt.BuilderFlag' has no attribute 'OBEY_PRECISION_CONSTRAINTS'",
     "precision-by-layer"),
    # what a line of the builder says of its cause
    ("[TRT] [E] [qdqGraphOptimizer.cpp::quantizePaths::1913] Error Code 2: Internal Error (Node "
     "QuantizeLinear_3 cannot be quantized by input. You might want to add a DQ node before it)",
     "pairs-of-another-tool"),
    ("Error Code 2: Internal Error (Assertion vol == 1 || vol == params.nbOutputMaps failed. )",
     "pairs-of-another-tool"),
    ("[E] [TRT] 4: [network.cpp::validate::3001] Error Code 4: Internal Error (orig_im_size: network "
     "input that is shape tensor must have type Int32)", "resize-scales-input"),
    ("9: [pluginV2Builder.cpp::deduceTensorFormat::288] Error Code 9: Internal Error (/dec/MSDA: could not "
     "find any supported formats consistent with input/output data types)", "plugin-formats"),
    ("error: 'IPluginCreatorInterface' does not name a type; did you mean 'IPluginCreator'?",
     "api-of-another-version"),
    ("3: [runtime.cpp::~Runtime::346] Error Code 3: API Usage Error (Parameter check failed at: "
     "runtime.cpp::~Runtime::346, condition: mEngineCounter.use_count() == 1. Destroying a runtime before "
     "destroying deserialized engines created by the runtime leads to undefined behavior.)",
     "freed-too-late"),
    ("[TRT] [E] 3: [refit.cpp::createInferRefitter_INTERNAL::1209] Error Code 3: API Usage Error (Parameter "
     "check failed, condition: e.isRefittable())", "refit"),
    ("Error Code 1: Myelin (Compiled against cuBLASLt 11.9.2.0 but running against cuBLASLt 11.2.1.0.)",
     "cuda-library"),
    ("Invalid handle. Cannot load symbol cublasLtGetVersion", "cuda-library"),
    ("RuntimeError: [Error thrown at core/runtime/TRTEngine.cpp:67] Program to be deserialized targets an "
     "incompatible Torch-TensorRT ABI", "engine-of-another-version"),
    ("Skipping tactic 0x0000000000000000 due to exception [::0] Error during shape inference of "
     "/PRelu_6 = lt(x, y) / Input 0's element type (half) differs from input 1's element type (float).",
     "types-that-differ"),
    ("Skipping tactic 0x0000000000000003 due to exception Assertion context.dlaContext != nullptr failed.",
     "dla"),
    ("load cuDLA module from memory FAILED in src/cudla_context_hybrid.cpp:96, CUDLA ERR: 7", "dla"),
    ('CUDA error code=35(cudaErrorInsufficientDriver) "cudaSetDevice(device)"', "driver"),
    ("Error 804: forward compatibility was attempted on non supported HW", "driver"),
    ("min_shape contains a 0 dimension: (0, 4). TensorRT does not support dynamic shapes with min "
     "dimension of 0", "profile-of-0"),
    ("[E] Model missing or format not recognized", "no-model-given"),
    ("unable to find 'libtriton_tensorrt_plan.so' for model 'yolo', searched: /models/yolo/1, "
     "/opt/tritonserver/backends/tensorrt_plan", "backend-of-a-server"),
    ("deepstream-app: nvdsinfer_yolo.cpp:96: Yolo::createEngine(nvinfer1::IBuilder*, "
     "nvinfer1::IBuilderConfig*): Assertion `network' failed.", "library-of-a-server"),
    ("RuntimeError: Target aten.convolution.default does not support `transposed=True`",
     "converter-of-a-framework"),
    ("UserWarning: torch.onnx.dynamo_export only implements opset version 18 for now.", "exporter"),
    # removed before
    ("AttributeError: 'tensorrt.tensorrt.ICudaEngine' object has no attribute 'num_bindings'", "old-api"),
    ("'tensorrt_bindings.tensorrt.IExecutionContext' object has no attribute 'execute_async_v2'", "old-api"),
    ("'tensorrt.tensorrt.IBuilderConfig' object has no attribute 'max_workspace_size'. Did you mean: "
     "'set_memory_pool_limit'?", "old-api"),
    ("error: 'class nvinfer1::ICudaEngine' has no member named 'getNbBindings'", "old-api"),
    ("[E] Unknown option: --workspace 4096", "trtexec-option"),
    ("Unknown option: --explicitBatch", "trtexec-option"),
    # engines
    ("[08/01/2022-15:41:44] [TRT] [E] 1: [stdArchiveReader.cpp::StdArchiveReader::40] Error Code 1: "
     "Serialization (Serialization assertion stdVersionRead == serializationVersion failed.Version tag does "
     "not match. Note: Current Version: 213, Serialized Engine Version: 205)", "engine-of-another-version"),
    ("ERROR: 4: [runtime.cpp::deserializeCudaEngine::65] Error Code 4: Internal Error (Engine "
     "deserialization failed.)", "engine-of-another-version"),
    ("IRuntime::deserializeCudaEngine: Error Code 1: Serialization (Serialization assertion magicTagRead == "
     "kMAGIC_TAG failed.Magic tag does not match)", "no-engine-file"),
    ("[W] [TRT] Using an engine plan file across different models of devices is not recommended and is "
     "likely to affect performance or even cause errors.", "engine-of-another-gpu"),
    ('Traceback (most recent call last):\n  File "demo.py", line 51, in <module>\nAttributeError: '
     "'NoneType' object has no attribute 'create_execution_context'", "no-engine"),
    # building
    ("[W] [TRT] UNSUPPORTED_STATE: Skipping tactic 0 due to insufficient memory on requested size of "
     "11580055552 detected for tactic 0x0000000000000000.", "out-of-memory"),
    ("[F] [TRT] [virtualMemoryBuffer.cpp::resizePhysical::79] Error Code 2: OutOfMemory (no further "
     "information)", "out-of-memory"),
    ("[E] Error[10]: [optimizer.cpp::computeCosts::2011] Error Code 10: Internal Error (Could not find any "
     "implementation for node {ForeignNode[onnx::Gather_72...ScatterND_170]}.)", "no-kernel"),
    ("[TRT] [E] 1: [runnerBuilderBase.cpp::buildMyelinGraphImpl::388] Error Code 1: Myelin ([impl.cpp:391: "
     "detail] Autotuner: no tactics to implement operation, error)", "myelin"),
    ("&&&& FAILED TensorRT.trtexec [TensorRT v8205] # ./trtexec --onnx=debug.onnx", "build-ended"),
    ("[E] Target GPU SM 61 is not supported by this TensorRT release.", "gpu-too-old"),
    ("[W] [TRT] Detected invalid timing cache, setup a local cache instead", "timing-cache"),
    ("[W] [TRT] Default DLA is enabled but layer Resize_12 is not supported on DLA, falling back to GPU.",
     "dla"),
    # plugins
    ("[E] [TRT] IPluginRegistry::getCreator: Error Code 4: API Usage Error (Cannot find plugin: "
     "EfficientNMS_TRT, version: 1, namespace:.)", "plugin-not-loaded"),
    ("getPluginCreator could not find plugin: ModulatedDeformConv2d version: 1", "plugin-not-loaded"),
    # int64, types
    ("[W] [TRT] onnx2trt_utils.cpp:374: Your ONNX model has been generated with INT64 "
     "weights, while TensorRT "
     "does not natively support INT64. Attempting to cast down to INT32.", "int64-weights"),
    ("onnx2trt_utils.cpp:391: One or more weights outside the range of INT32 was clamped", "int64-clamped"),
    ("[W] [TRT] Weights [name=/blk.0/MatMul + /blk.0/Add.weight] had the following issues when converted to "
     "FP16:\n[W] [TRT]  - Subnormal FP16 values detected.", "beyond-float16"),
    ("[E] ITensor::getDimensions: Error Code 4: API Usage Error (/m/Add: "
     "IElementWiseLayer: operation SUM has "
     "incompatible input types Float and Half)", "types-that-differ"),
    # calibration
    ("[TRT] [E] 2: [quantization.cpp::getPerTensorScale::7] Error Code 1: Calibration failure occurred with "
     "no scaling factors detected. This could be due to no int8 calibrator", "calibration-gave-nothing"),
    ("[W] [TRT] Missing scale and zero-point for tensor (Unnamed Layer* 12) [Shuffle]_output, expect fall "
     "back to non-int8 implementation for any layer consuming or producing given tensor", "no-scales"),
    ("[E] [TRT] 4: [network.cpp::validate::2789] Error Code 4: Internal Error (Int8 precision has been set "
     "for a layer or layer output, but int8 is not configured in the builder)", "int8-flag"),
    # shapes
    ("[E] [TRT] 3: [executionContext.cpp::setInputShape::2288] Error Code 3: API "
     "Usage Error (Parameter check "
     "failed at: runtime/api/executionContext.cpp::setInputShape::2288, condition: satisfyProfile Runtime "
     "dimension does not satisfy any optimization profile.)", "outside-profile"),
    ("Supplied binding dimension [10,3,128,64] for bindings[0] exceed min ~ max range at index 0, maximum "
     "dimension in profile is 1, minimum dimension in profile is 1, but supplied dimension is 10.",
     "outside-profile"),
    ("input_1: for dimension number 1 in profile 0 does not match network definition (got min=100, opt=1024, "
     "max=4096), expected min=opt=max=1024)", "profile-of-a-fixed-size"),
    ("[W] Dynamic dimensions required for input: images, but no shapes were provided. Automatically "
     "overriding shape to: 1x3x640x640", "profile-of-no-sizes"),
    ("[E] [TRT] 4: [shapeCompiler.cpp::evaluateShapeChecks::832] Error Code 4: Internal Error (kOPT values "
     "for profile 0 violate shape constraints: broadcast with incompatible dimensions.",
      "sizes-that-contradict"),
    ('[E] Cannot find input tensor with name "input" in the network inputs! Please '
     'make sure the input tensor '
     "names are correct.", "no-such-input"),
    ("[E] [TRT] 4: [network.cpp::validate::2882] Error Code 4: Internal Error "
     "(Network must have at least one "
     "output)", "no-outputs"),
    # files
    ("ValueError: Message onnx.ModelProto exceeds maximum protobuf size of 2GB: 6442450944", "beyond-2-gb"),
    ("[E] [TRT] WeightsContext.cpp:178: Failed to open file: /models/llm/model.onnx_data",
     "weights-not-there"),
    ("[E] [TRT] ModelImporter.cpp:914: Failed to parse ONNX model from file: /models/a b.onnx!",
     "no-onnx-file"),
    ("onnxruntime.capi.onnxruntime_pybind11_state.Fail: [ONNXRuntimeError] : 1 : FAIL : Load model from "
     "m.onnx failed:/onnxruntime_src/onnxruntime/core/graph/model.cc:180 Unsupported "
     "model IR version: 12, max "
     "supported IR version: 11", "opset"),
    # running, by hand
    ("[TRT] [E] IExecutionContext::enqueueV3: Error Code 3: API Usage Error (Parameter check "
     "failed, condition: "
     "mContext.profileObliviousBindings.at(i) != nullptr. Address is not set for input tensor images.)",
     "no-address"),
    ("[TRT] [E] IExecutionContext::setInputShape: Error Code 3: API Usage Error (Parameter check failed, "
     "condition: engineDims.d[i] == dims.d[i]. Static dimension mismatch while setting input "
     "shape for images.)",
     "profile-of-a-fixed-size"),
    ("[W] [TRT] Calibrator won't be used in explicit quantization mode. Please insert Quantize/Dequantize "
     "layers to indicate which tensors to quantize/dequantize.", "calibrator-and-pairs"),
    # onnxruntime, installation
    ("EP Error /onnxruntime_src/onnxruntime/core/session/provider_bridge_ort.cc:1193 "
     "[ONNXRuntimeError] : 1 : "
     "FAIL : Failed to load library libonnxruntime_providers_tensorrt.so with error: "
     "libnvinfer.so.10: cannot "
     "open shared object file: No such file or directory", "library-not-found"),
    ("UserWarning: Specified provider 'TensorrtExecutionProvider' is not in available provider names."
     "Available providers: 'CPUExecutionProvider'", "no-provider"),
    ("2026-06-10 [E:onnxruntime] Non-zero status code returned while running TRTKernel node. EP_FAIL : "
     "TensorRT EP failed to create engine from network.", "provider-failed"),
    ("ModuleNotFoundError: No module named 'tensorrt'", "no-package"),
    ("AttributeError: module 'tensorrt' has no attribute 'Logger'", "broken-package"),
    ("[E] [TRT] 6: [helpers.h::smVerHex2Dig] CUDA initialization failure with error: 35. Please check your "
     "CUDA installation", "driver"),
    ("[W] [TRT] TensorRT was linked against cuDNN 8.6.0 but loaded cuDNN 8.4.1", "linked-against"),
    ("[TRT] [E] IExecutionContext::enqueueV3: Error Code 1: Cuda Runtime (an illegal memory access was "
     "encountered)", "memory-access"),
    ("[E] FAILED | Output: 'logits' | Difference exceeds tolerance (rel=1e-05, abs=1e-05)", "outputs-differ"),
    # the parser, of any node
    ("[8] No importer registered for op: DCNv2", "no-importer"),
    ("In node 10 with name: /r and operator: RandomNormalLike (checkFallbackPluginImporter): INVALID_NODE: "
     'creator && "Plugin not found, are the plugin name, version, and namespace correct?"', "no-plugin"),
    ("UNSUPPORTED_NODE: Assertion failed: axis >= 0 && axis < nbDims", "unsupported-node"),
    ("[E] [TRT] ModelImporter.cpp:948: While parsing node number 0 [Erf -> \"/Erf_output_0\"]:", "parsing"),
    ("onnx2trt_utils.cpp:467: Found unsupported datatype (11) when importing initializer: _c.total_ops",
     "data-type"),
    ("ModelImporter.cpp:296 In function importModel: [5] Assertion failed: tensors.count(input_name)",
     "name-not-made"),
    ('[5] Assertion failed: toposort(graph.node(), &topoOrder) && "Failed to sort the model topologically."',
     "not-sorted"),
    ('thenOutputTensors.size() == elseSGOutputTensors.size() && "The then/else branches of an If '
     'operator must '
     'have the same number of outputs."', "branches"),
    # the builder
    ("[pointWiseV2Builder.cpp::toExpr::325] Error Code 2: Internal Error (Assertion outScales.size() == 1 "
     "failed. )", "pairs-of-another-tool"),
    ("[E] Error[9]: Error Code: 9: Skipping tactic 0xfe80445f7bb61a99 due to exception Assertion vol == 1 "
     "failed.", "skipped-tactic"),
    ("[E] Error[4]: /upsample/Resize: resize scale/size must be known at build time",
     "not-known-when-building"),
    ("IShuffleLayer /Reshape: reshaping failed for tensor: /a. volume mismatch. Input dimensions [4,84] have "
     "volume 336 and output dimensions [1,84] have volume 84.", "fixed-sizes"),
    ("[W] [TRT] Some tactics do not have sufficient workspace memory to run. Increasing workspace size may "
     "increase performance", "workspace"),
    ("In node 614 (parseGraph): INVALID_NODE: Invalid Node - /ArgMax std::bad_alloc", "host-memory"),
    ("[E] [TRT] 4: /conv1/Conv: kernel weights has count 864 but 288 was expected",
     "weights-of-another-size"),
    ("Networks with FP8 Q/DQ layers require hardware with FP8 support.", "format-of-gpu"),
    ("[E] Engine is not refittable", "refit"),
    ("[W] * GPU compute time is unstable, with coefficient of variance = 4.25%.", "clocks"),
    ("[W] [TRT] CUDA lazy loading is not enabled. Enabling it can significantly reduce device memory usage.",
     "remark-of-the-builder"),
    ("[W] [TRT] Using PreviewFeature::kFASTER_DYNAMIC_SHAPES_0805 can help improve performance", "warning"),
    ("[06/12/2026-10:02:11] [E] Uncaught exception detected:", "error"),
    ("[E] Error Code 4: API Usage Error (/norm: IReduceLayer: reduce axes must be within the rank)",
     "layer-refused"),
    ("[E] Error[2]: [checkSanity.cpp::checkSanity::148] Error Code 2: Internal Error (Assertion isIOGraph || "
     "a.size() == b.size() failed. )", "builder-fault"),
    # programs around it
    ("torch.onnx.errors.UnsupportedOperatorError: Exporting the operator 'aten::fft_fft2' to ONNX "
     "opset version "
     "18 is not supported.", "exporter"),
    ('  File "modelopt/onnx/quantization/qdq_utils.py", line 541, in _convert\n    assert not y.shape\n'
     "AssertionError", "model-optimizer"),
    ("[ONNXRuntimeError] : 1 : FAIL : TensorRT input: 504 has no shape specified. Please run shape inference",
     "provider-shapes"),
    ("Since ORT 1.9, you are required to explicitly set the providers parameter when instantiating "
     "InferenceSession.", "providers-not-given"),
    ("[ONNXRuntimeError] : 9 : NOT_IMPLEMENTED : Could not find an implementation for Conv(11) node",
     "onnxruntime-operator"),
    ("ERROR: Deserialize engine failed because file path: /a/model_b1_gpu0_fp32.engine open error", "server"),
    ("UNAVAILABLE: Internal: unable to create TensorRT engine", "server"),
    ("IExecutionContext::enqueueV3: Error Code 1: Cuda Runtime (invalid resource handle)", "cuda-library"),
    ("ERROR: Failed building wheel for tensorrt-cu12", "package-not-installed"),
    ("error: 'class nvinfer1::IBuilder' has no member named 'buildSerializedNetwork'",
     "api-of-another-version"),
    ("TracerWarning: Converting a tensor to a Python boolean might cause the trace to be incorrect.",
     "tracer"),
    # of those before, said otherwise
    ("[TRT] [E] 1: [caskUtils.cpp::createCaskHardwareInfo::852] Error Code 1: Internal Error (Unsupported "
     "SM: 0x809)", "gpu-too-old"),
    ("RuntimeError: Failed to build TensorRT engine from network", "build-ended"),
    ("AssertionError: Error while creating TRT engine from ONNX", "build-ended"),
    ("[TRT] [E] 6: The engine plan file is generated on an incompatible device, expecting compute 8.6 got "
     "compute 7.5, please rebuild.", "engine-of-another-gpu"),
    ("[!] Invalid Engine. Please ensure the engine was built correctly", "no-engine"),
    ("[E] 4: Specified optimization profiles must satisfy MIN<=OPT<=MAX.", "sizes-that-contradict"),
    ("ImportError: DLL load failed while importing tensorrt: The specified module could not be found.",
     "library-not-found"),
    ("(deserializeOnnxModel): MODEL_DESERIALIZE_FAILED: Assertion failed: model->ParseFromCodedStream(&c)",
     "no-onnx-file"),
    ("[W] [TRT] Tactic Device request: 1000MB Available: 680MB. Device memory is insufficient to use tactic.",
     "out-of-memory"),
    # removed flags, libraries of plugins and of CUDA
    ("[W] --workspace flag has been deprecated by --memPoolSize flag.", "trtexec-option"),
    ("[W] --explicitBatch flag has been deprecated and has no effect!", "trtexec-option"),
    ("IPluginRegistry::loadLibrary: Error Code 3: API Usage Error (SymbolAddress for getCreators could not "
     "be "
     "loaded, check function name against library symbol)", "plugin-not-loaded"),
    ("[TRT] [E] 9: The engine plan file has a layer that utilizes loop API or boolean tensors, but the "
     "current platform does not support these layers due to mismatch of libnvrtc version.", "linked-against"),
    ("Could not load library libcudnn_cnn_infer.so.8. Error: libnvrtc.so: cannot open shared object file",
     "linked-against"),
    ("ModuleNotFoundError: No module named 'tensorrt.tensorrt'", "broken-package"),
    ("  Building wheel for tensorrt (setup.py) ... error\n  error: subprocess-exited-with-error",
     "package-not-installed"),
    ('  File "/usr/lib/python3/site-packages/tensorrt/__init__.py", line 166, in nptype\n    bool: np.bool,\n'
     "AttributeError: module 'numpy' has no attribute 'bool'", "numpy-of-another-version"),
    ("TypeError: create_network(): incompatible function arguments. The following argument types are "
     "supported:\n    1. (self: tensorrt.tensorrt.Builder, flags: int = 0)", "api-of-another-version"),
    ("ERROR: The NVIDIA Driver is present, but CUDA failed to initialize.", "driver"),
    # while it runs
    ("IExecutionContext::enqueueV3: Error Code 1: Cask (Cask Pooling Runner Execute Failure)",
     "cuda-library"),
    ("pycuda._driver.LogicError: cuMemcpyHtoDAsync failed: invalid argument", "memory-access"),
    ("Segmentation fault (core dumped)  trtexec --onnx=m.onnx --int8", "builder-fault"),
    # sizes
    ("4: [shapeContext.cpp::operator()::3602] Error Code 4: Shape Error (reshape dimension with more than "
     "one "
     "-1 wildcard. Reshaping [21,3,(# 2 (SHAPE x)),(# 3 (SHAPE x))] to [1,21,3,-1,-1].)", "sizes-of-values"),
    ("[graph.cpp::symbolicExecute::535] Error Code 4: Internal Error (/h/OneHot: an IIOneHotLayer cannot be "
     "used to compute a shape tensor)", "sizes-of-values"),
    ("[6] Invalid Node - Pad_22 [shuffleNode.cpp::symbolicExecute::392] Error Code 4: Internal Error "
     "(Reshape_11: IShuffleLayer applied to shape tensor must have 0 or 1 reshape dimensions: dimensions "
     "were "
     "[-1,2])", "sizes-of-values"),
    ("Error Code 9: Internal Error (Less_7 requires foreign node optimizations incompatible with "
     "data-dependent shapes, so treating as error.)", "sizes-of-values"),
    ("[E] Static model does not take explicit shapes since the shape of inference tensors will be determined "
     "by the model itself", "profile-of-a-fixed-size"),
    # quantization
    ("[E] Error[9]: Error Code: 9: Skipping tactic 0x0 due to exception [type.cpp:infer_type:145] Could not "
     "infer output types for operation:  40: quantize: /maxpool_QuantizeLinear_Output'-(fp8[7,64,192,256])",
     "flags-beside-types"),
    ("[pluginV2Runner.cpp::getInputHostScale::88] Error Code 2: Internal Error (Assertion scales.size() == 1 "
     "failed.)", "pairs-of-another-tool"),
    ("AttributeError: module 'modelopt.onnx.quantization' has no attribute 'quantize'", "model-optimizer"),
    # files and exporters
    ("[TRT] [E] onnx2trt_utils.cpp:1571: Failed to open file: transformer.wte.weight", "weights-not-there"),
    ("[TRT] [E] ModelImporter.cpp:726: Failed to open file: /models/net.onnx", "no-onnx-file"),
    ("onnx.onnx_cpp2py_export.checker.ValidationError: Field 'shape' of 'type' is required but missing.",
     "invalid-model"),
    ("TorchExportError: Failed to export the model with torch.export. This is step 1/3 of exporting the "
     "model "
     "to ONNX. Next steps:", "exporter-dynamo"),
    ("[W] [TRT] /model.23/Concat_2: DLA only supports concatenation on the C dimension.\n[W] [TRT] Layer "
     "'/model.23/Concat_2' (CONCATENATION): Unsupported on DLA. Switching this layer's device type to GPU.",
     "dla"),
    # before it runs, and calibration caches
    ("3: [executionContext.cpp::resolveSlots::2842] Error Code 3: API Usage Error (Parameter check failed "
     "at: runtime/api/executionContext.cpp::resolveSlots::2842, condition: "
     "allInputDimensionsSpecified(routine) )",
     "no-shape-set"),
    ("[TRT] [E] IExecutionContext::executeV2: Error Code 3: API Usage Error (Parameter check failed, "
     'condition: nullPtrAllowed. Tensor "attention_mask" is bound to nullptr, which is allowed only for an '
     "empty input tensor, shape tensor, or an output tensor associated with an IOuputAllocator.)\n[TRT] [E] "
     "[calibrator.cpp::calibrateEngine::1223] Error Code 2: Internal Error (Assertion "
     "context->executeV2(bindings.data()) failed. )", "no-address"),
    ("File does not exist: /mnt/sd/DeepStream-Yolo/calib.table\nERROR: [TRT]: 1: Unexpected exception "
     "_Map_base::at\nBuilding engine failed", "no-calibration-cache"),
    # pairs, told by what was being built
    ("[E] Error[9]: Skipping tactic 0xdb2ceb83bdb264c9 due to exception Assertion dims1.d[i] == 1 || "
     "dims2.d[i] == 1 || dims1.d[i] == dims2.d[i] failed. [64] cannot broadcast with [224]\nError message: "
     "[optimizer.cpp::computeCosts::4048] Error Code 10: Internal Error (Could not find any implementation "
     "for node conv1.weight + /conv1/weight_quantizer/QuantizeLinear + /conv1/Conv.).",
     "pairs-of-another-tool"),
    ("[TensorRT] ERROR: 2: [scaleNode.cpp::getChannelAxis::20] Error Code 2: Internal Error ((Unnamed Layer* "
     "2) [Quantize]: unexpected negative axis)", "pairs-of-another-tool"),
    # quantizers and their exporters
    ("RuntimeError: ONNX export failed: Couldn't export Python operator FakeTensorQuantFunction",
     "quantizer-of-torch"),
    ("torch.onnx._internal.exporter._errors.DispatchError: No ONNX function found for <OpOverload(op='aten."
     "_fake_quantize_per_tensor_affine_cachemask_tensor_qparams', overload='default')>. Failure message: No "
     "decompositions registered for the real-valued input", "quantizer-of-torch"),
    ("RuntimeError: Zero-point must be Int32, Float or Half, found Long", "quantizer-of-torch"),
    ("/envs/m/site-packages/modelopt/onnx/quantization/int4.py:27: UserWarning: Using slower INT4 ONNX "
     "quantization using numpy. Install JAX", "quantizer-warning"),
    ("WARNING:root:Please consider to run pre-processing before quantization. Refer to example: "
     "https://github.com/microsoft/onnxruntime-inference-examples", "onnxruntime-quantizer"),
    ('  File "symbolic_shape_infer.py", line 2062, in infer_shapes\n    raise Exception("Incomplete symbolic '
     'shape inference")\nException: Incomplete symbolic shape inference', "shape-inference"),
    ("[E:onnxruntime:, sequential_executor.cc:514 ExecuteKernel] Non-zero status code returned while running "
     "Reshape node. Name:'/attn/Slice_9_output_0_ReduceMax_Reshape' Status Message: "
     "/onnxruntime_src/reshape_helper.h:44 The input tensor cannot be reshaped to the requested shape.",
     "onnxruntime-quantizer"),
    # onnxruntime
    ("[W:onnxruntime:, execution_frame.cc:811 VerifyOutputSizes] Expected shape from model of {1,1000} does "
     "not match actual shape of {8,1000} for output logits", "other-shape-than-stated"),
    ("[ONNXRuntimeError] : 2 : INVALID_ARGUMENT : Got invalid dimensions for input: images for the following "
     "indices\n index: 2 Got: 640 Expected: 320\n Please fix either the inputs/outputs or the model.",
     "other-input-than-stated"),
    ("[ONNXRuntimeError] : 1 : FAIL : Non-zero status code returned while running Concat node. Name:'cat_3' "
     "Status Message: concat.cc:159 Non concat axis dimensions must match", "onnxruntime-node"),
    ("RuntimeError: Unrecognized attribute: axis for operator QuantizeLinear\n\n==> Context: Bad node spec "
     "for node. Name: QuantizeLinear_7 OpType: QuantizeLinear", "attribute-of-another-opset"),
    ("Load model from mqbench_qmodel.onnx failed: This is an invalid model. Type Error: Type tensor(uint8) "
     "of input parameters of operator (QuantizeLinear) in node is invalid.", "invalid-model"),
    ("2026-02-01 10:00:00.1 [E:onnxruntime:Default, env.cc:254 ThreadMain] pthread_setaffinity_np failed",
     "onnxruntime"),
    ("2026-02-01 10:00:00.1 [W:onnxruntime:, graph.cc:1283 Graph] Initializer conv1.weight appears in graph "
     "inputs and will not be treated as constant value/weight.", "onnxruntime-warning"),
    ("AttributeError: module 'onnx' has no attribute 'shape_inference'", "package-of-onnx"),
    ("ModuleNotFoundError: No module named 'onnx_graphsurgeon'", "package-of-onnx"),
    # engines and programs of other releases, contexts
    ("[E] IBuilderConfig::getFlag: Error Code 3: API Usage Error (Parameter check failed, condition: "
     "int(builderFlag) >= 0 && int(builderFlag) < EnumMax<BuilderFlag>(). )", "releases-that-differ"),
    ("Error[3]: [layers.cpp::setMode::3848] Error Code 3: Internal Error (Parameter check failed at: "
     "optimizer/api/layers.cpp::setMode::3848, condition: int(mode) >= 0 && int(mode) < EnumMax<SliceMode>()",
     "releases-that-differ"),
    ("TensorRT backend: 2: [helpers.h::nvinfer1::smVerHex2Dig::694] Error Code 2: Internal Error (Assertion "
     "major >= 0 && major < 10 failed. )", "gpu-too-old"),
    ("[TRT] [E] 1: [graphContext.h::~MyelinGraphContext::39] Error Code 1: Myelin (Error 709 destroying "
     "stream '0x24ec72b0'.)\n[TRT] [E] 1: [defaultAllocator.cpp::deallocate::35] Error Code 1: Cuda Runtime "
     "(invalid device context", "freed-too-late"),
    ("[TensorRT] INTERNAL ERROR: Assertion failed: mGraphContexts.find(&context) == mGraphContexts.end()\n"
     "myelin/myelinRunner.cpp:163\nAborting...", "profile-in-use"),
    ("pycuda._driver.LogicError: cuDeviceGet failed: initialization error", "cuda-library"),
    ('  File "exporter.py", line 780, in export_engine\n    with build(network, config) as engine, open(f) '
     'as '
     "t:\nAttributeError: __enter__", "no-engine"),
    ("[HostToDeviceCopy]requires bool I/O but node can not be handled by Myelin.", "sizes-as-output"),
    ("[E] Cannot create DLA engine, 0 not available", "dla"),
    ("1: [nvdlaUtils.cpp::submit::198] Error Code 1: DLA (Failure to submit program to DLA engine.)", "dla"),
    ("[W] [TRT] TensorRT encountered issues when converting weights between types and that could affect "
     "accuracy.", "beyond-float16"),
    # files of other tools, and these tools
    ("FAIL : Load model from t5-decoder.onnx failed:Type Error: Type parameter (T) of Optype (Add) bound to "
     "different types (tensor(float16) and tensor(float) in node (Add_73)", "types-that-differ"),
    ("[ONNXRuntimeError] : 6 : RUNTIME_EXCEPTION : Exception during initialization: batch_norm.h:52 "
     "onnxruntime::BatchNorm<float>::BatchNorm !is_train_ was false. Training mode is not supported in this "
     "build.", "exported-in-training"),
    ("(op_type:Slice, name:Slice_207): Inferred shape and existing shape differ in dimension 0: (2) vs (180)",
     "invalid-model"),
    ("ONNX: simplifier failure: FLOAT8E4M3FN", "simplifier"),
    ('  File "/envs/a/site-packages/onnxsim/onnx_simplifier.py", line 199, in simplify\n    C.simplify(\n'
     "RuntimeError: bad optional access", "simplifier"),
    ('  File "/envs/a/site-packages/onnxconverter_common/float16.py", line 98, in convert_float_to_float16\n'
     "ValueError: too many values to unpack", "half-precision-tool"),
    ("Lowering failed for node %aten_foo : No converter found for aten.foo.default",
     "converter-of-a-framework"),
    ("ERROR - tf2onnx.tfonnx: Tensorflow op [map/while: StatelessWhile] is not supported",
     "exporter-of-a-framework"),
    ('  File "/usr/lib/python3/dist-packages/tensorrt_llm/builder.py", line 12, in build\nAssertionError',
     "language-models"),
    ("/tmp/onnx-tensorrt/main.cpp:26:10: fatal error: onnx/optimizer/optimize.h: No such file or directory",
     "compiling-a-program"),
    ("E0712 model_lifecycle.cc:626 failed to load 'net' version 1: Invalid argument: model 'net', tensor "
     "'images': the model expects 4 dimensions (shape [-1,3,8,8]) but the model configuration specifies 3",
     "server-configuration"),
    ("[libprotobuf WARNING google/protobuf/io/coded_stream.cc:604] Reading dangerously large protocol "
     "message.",
     "large-file"),
    ('  File "/envs/a/site-packages/onnx_graphsurgeon/importers/onnx_importer.py", line 92\nKeyError: 16',
     "package"),
    ("[E:onnxruntime:Default, provider_bridge_ort.cc:1546 onnxruntime::TryGetProviderInfo_CUDA] "
     '[ONNXRuntimeError] : 1 : FAIL : LoadLibrary failed with error 126 "" when trying to load '
     '"C:\\Python310\\lib\\site-packages\\onnxruntime\\capi\\onnxruntime_providers_cuda.dll"',
     "cuda-provider"),
    ("TypeError: QDQQuantizer.__init__() got an unexpected keyword argument 'static'",
     "onnxruntime-quantizer"),
    ("ValueError: Quantization parameters are not specified for param 310.In static mode quantization params "
     "for inputs and outputs of nodes to be quantized are required.", "onnxruntime-quantizer"),
    ("UNAVAILABLE: Internal: unable to load plan file to auto complete config: /tmp/f/1/model.plan",
     "server"),
    # memory, by hand
    ('  File "yolov5_trt.py", line 120, in infer\n    np.copyto(host_inputs[0], input_image.ravel())\n'
     "ValueError: could not broadcast input array from shape (1107168) into shape (1108992)",
     "buffer-of-another-size"),
    ("    host_mem = cuda.pagelocked_empty(size, dtype)\nOverflowError: can't convert negative "
     "value to size_t", "buffer-of-another-size"),
    ("PyCUDA ERROR: The context stack was not empty upon module cleanup.", "freed-too-late"),
    # said in other words
    ("[W] [TRT] Missing dynamic range for tensor input_1_1:01, expect fall back to non-int8 implementation",
     "no-scales"),
    ("RuntimeError: failed to load ONNX file: weights/mask.onnx", "no-onnx-file"),
    ("/app/onnx2trt.py:323: DeprecationWarning: Use set_memory_pool_limit instead.\n"
     "  config.max_workspace_size = workspace * 1 << 30", "old-api"),
    ("/site-packages/onnxruntime/capi/onnxruntime_inference_collection.py:123: UserWarning: Specified "
     "provider 'CUDAExecutionProvider' is not in available provider names.Available providers: "
     "'CPUExecutionProvider'", "no-provider"),
    ("(gst-plugin-scanner:12236): GStreamer-WARNING **: Failed to load plugin "
     "'libnvdsgst_inferserver.so': libtritonserver.so: cannot open shared object file", "server-ended"),
    ("RuntimeError: [Error thrown at core/conversion/conversionctx/ConversionCtx.cpp:147] Building "
     "serialized network failed in TensorRT", "build-ended"),
    ('  File "calib.py", line 13\n    class C(trt.infer.EntropyCalibrator):\nAttributeError: \'module\' '
     "object has no attribute 'infer'", "api-of-another-version"),
    ("/model.22/Gather: rank of data tensor must be greater than or equal to 1", "layer-refused"),
    ("INTERNAL_ERROR Assertion failed: d.nbDims >= 1\n../rtSafe/safeHelpers.cpp:419\nAborting...",
     "builder-fault"),
    ('  File "main.py", line 118, in profile_trt\n    assert(engine is not None)\nAssertionError',
     "no-engine"),
    ("CUDA failure: no error in file yoloPlugins.cpp at line 235", "cuda-library"),
    ("Potential unsafe merge between symbolic expressions: (floor(Min(64, d3)/2 + 1/2),floor(Min(64, d3)/2))",
     "shape-inference"),
    ("WARNING: TensorRT requires GPU export, automatically assigning device=0", "remark-of-the-builder"),
    # what of eighty lines of threads led nowhere, or elsewhere
    ("[W] Myelin graph with multiple dynamic values may have poor performance if they differ.",
     "remark-of-the-builder"),
    ("[I] FP32 and INT8 precisions have been specified - more performance might be enabled by "
     "additionally specifying --fp16 or --best", "remark-of-the-builder"),
    ("Setting layouts of network and plugin input/output tensors to linear, as 3D operators are found and "
     "3D non-linear IO formats are not supported, yet.", "remark-of-the-builder"),
    ("[07/29/2021-19:44:10] [I] Engine built in 21.4258 sec.", "warning"),
    ("[W] Something that nobody has seen before", "warning"),
    ("ERROR: failed to build network since parsing model errors.", "parsing"),
    ("ERROR: Failed to parse the ONNX file.", "parsing"),
    ("FileNotFoundError: Could not find module 'D:\\models\\grid_sample_3d_plugin.dll' (or one of its "
     "dependencies). Try using the full path with constructor syntax.", "plugin-not-loaded"),
    ("failed to create trtis backend on model:centerface because tensor:input.1 input-dims is not correct",
     "server-configuration"),
    ("[E] [TRT] C:/source/rtExt/cuda/calibrator.cu (106) - Cuda Error in cuCalibrator::absTensorMax: 11 "
     "(invalid argument)", "calibration-gave-nothing"),
    ("Error Code 1: Myelin ([myelinGraphExecute] Called without resolved dynamic shapes.)", "no-shape-set"),
    ("[W] [TRT] setDefaultDeviceType was called but no layer in the network can run on DLA.", "dla"),
    ("ERROR: [TRT]: UffParser: Validator error: FirstDimTile_2: Unsupported operation _BatchTile_TRT",
     "old-parser"),
    # of exporters, servers, boards and tools beside it, and of sizes
    ("Error Code 4: Internal Error (past_len: optimization profile is missing values for shape input)",
     "profile-of-values"),
    ("[W] [TRT] Node: /neck/act/Relu cannot run in INT8 mode due to missing scale and zero point. This node "
     "will not run on DLA.", "dla-int8"),
    ("importDropout: UNSUPPORTED_NODE: Assertion failed: inputs.at(2).is_weights(): This Version of TensorRT "
     "only supports the training_mode input as an initializer.", "runtime-training-mode"),
    ("[6] Invalid Node - /topk/TopK\nThis version of TensorRT only supports input K as an initializer. Try "
     "applying constant folding on the model using Polygraphy", "not-known-when-building"),
    ("In function importSlice: [8] Assertion failed: (axes.allValuesKnown()) && \"This version of TensorRT "
     "does not support dynamic axes.\"", "not-known-when-building"),
    ("[E] ITensor::getDimensions: Error Code 4: API Usage Error (Error while computing output extent of node "
     "/neck/Concat_3.)", "sizes-at-a-node"),
    ("ScatterLayer in elements mode all inputs tensors rank must be same. Input 0 rank is 2, input 1 rank is "
     "2, and input 2 rank is 1.", "sizes-at-a-node"),
    ("[dot.cu::volume::79] Error Code 2: Internal Error (Assertion size <= "
     "std::numeric_limits<int32_t>::max() failed. )", "too-many-elements"),
    ("Error[3]: [layers.h::setPostPadding::667] Error Code 3: API Usage Error (Parameter check failed, "
     "condition: (postPadding.nbDims == 2 && allDimsGtEq(postPadding, 0)))", "padding-of-a-layer"),
    ("[ERROR] IBuilderConfig::setDeviceType: Error Code 3: API Usage Error (Parameter check failed, "
     "condition: (layer) != nullptr. )", "no-argument"),
    ("[F] [TRT] Assertion failed: params.c % params.cPerBlock == 0\n"
     "/src/TensorRT/plugin/groupNormPlugin/groupNormKernel.cu:138\nAborting...", "plugin-formats"),
    ("[builder.cpp::createCaskKernelLibraryImpl::157] Error Code 2: Internal Error (Assertion "
     "validateCaskKLibSize(buffer.size) failed. )", "releases-that-differ"),
    ("p2o.DequantizeLinear.12: only activation types allowed as input to this layer.",
     "pairs-of-another-tool"),
    ("IScatterLayer `input` and `updates` must have identical types. `input` type is Int64 and `updates` "
     "type is Int32.", "types-that-differ"),
    ("IExecutionContext::enqueueV3: Error Code 1: Myelin ([cask_fusion.cpp:exec:417] Platform (Cuda) error)",
     "memory-access"),
    ("Mismatched type for tensor __mye30106_shape, i64 vs. expected type:b.", "myelin"),
    ("grid_sample_plugin.cpp:363:24: error: 'IPluginCreatorInterface' does not name a type\n  363 | extern "
     "IPluginCreatorInterface* const* getCreators(int32_t& nbCreators)", "api-of-another-version"),
    ('  File "/envs/a/torch/onnx/_internal/exporter/_core.py", line 599, in _handle\nValueError: too many '
     "values to unpack", "exporter-ended"),
    ("<class 'torch._dynamo.exc.UserError'>: Constraints violated (batch)! For more information, run with "
     'TORCH_LOGS="+dynamic".', "exporter-sizes"),
    ("RuntimeError: The serialized model is larger than the 2GiB limit imposed by the protobuf library.",
     "beyond-2-gb"),
    ("RuntimeError: /onnx/version_converter/BaseConverter.h:73: adapter_lookup: Assertion `false` failed: No "
     "Adapter From Version $16 for Identity", "converter-of-opsets"),
    ("Exception: Blockquant does not support ONNX export.", "model-optimizer"),
    ("[modelopt][onnx] - WARNING - Model has no opset of its own", "quantizer-warning"),
    ("Unexpected type in I/O tensor boxes, keep_io_types=True, original type: 1, converted type: 10",
     "half-precision-tool"),
    ("TypeError: Provided an unsupported data type as an input data type (support: bool, int32, long, half, "
     "float), got: torch.float8_e4m3fn", "converter-of-a-framework"),
    ("    onnx.helper.float32_to_bfloat16\nAttributeError: module 'onnx.helper' has no attribute "
     "'float32_to_bfloat16'", "onnx-of-another-version"),
    ("Failed to download or register the following EPs: NvTensorRTRTXExecutionProvider. Will try installing "
     "again later.", "rtx-provider"),
    ("Error in NvDsInferContextImpl::preparePreprocess() <nvdsinfer_context_impl.cpp:971> [UID = 1]: Infer "
     "Context default input_layer is not a image[CHW]", "image-of-a-server"),
    ("NvDsInferContextImpl::parseBoundingBox() [UID = 1]: Could not find output coverage layer for parsing "
     "objects", "server-configuration"),
    ("failed to load 'net' version 1: Invalid argument: unable to find backend library for backend "
     "'onnxruntime', try specifying runtime on the model configuration.", "backend-of-a-server"),
    ("ERROR: infer_trtis_server.cpp:994 Triton: failed to create repo server, err_msg:failed to stat file "
     "/models", "model-repository"),
    ("NvRmMemInitNvmap failed with No such file or directory\n356: Memory Manager Not supported",
     "jetson-container"),
]  # fmt: skip

UNRELATED = [
    "AttributeError: __enter__",
    "DeprecationWarning: Use load instead.",
    "GStreamer-WARNING **: Failed to load plugin '/usr/lib/gstreamer-1.0/libgstx264.so': libx264.so.164",
    "UserWarning: the model configuration has no field 'hidden_size'",
    "ModuleNotFoundError: No module named 'cudf'",
    "UserWarning: the quantized model is slower on this CPU",
    "RuntimeError: CUDA error: device-side assert triggered",
    "FileNotFoundError: [Errno 2] No such file or directory: 'config.json'",
    "AttributeError: module 'numpy' has no attribute 'bool'",
    (
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB (GPU 0; "
        "23.65 GiB total capacity)"
    ),
    "ModuleNotFoundError: No module named 'tensorflow'",
    "error: unrecognized arguments: --fp16",
    "AttributeError: 'NoneType' object has no attribute 'shape'",
    "ImportError: libcudart.so.12: cannot open shared object file: No such file or directory",
    "fatal: not a git repository (or any of the parent directories): .git",
    (
        "RuntimeError: Expected all tensors to be on the same device, but found at least "
        "two devices, cuda:0 and cpu!"
    ),
    "KeyError: 'model.0.conv.weight'",
    "pip: ERROR: Could not find a version that satisfies the requirement foo==9.9",
    "ValueError: operands could not be broadcast together with shapes (3,4) (5,)",
    "json.decoder.JSONDecodeError: Expecting value: line 1 column 1 (char 0)",
    "docker: Error response from daemon: could not select device driver",
    "make: *** [Makefile:12: all] Error 2",
    "the engine of my car makes a strange noise when it is cold",
    "Unknown option: -z",
    "RuntimeError: cuDNN error: CUDNN_STATUS_EXECUTION_FAILED",
    "terminate called after throwing an instance of 'std::bad_alloc'",
    "[1234:5678:FATAL:file.cc(12)] Check failed: DCHECK(x) failed.",
    "AttributeError: 'NoneType' object has no attribute 'execute'",
    "GridSearchCV(refit=True) failed",
    "ImportError: DLL load failed while importing _imaging: The specified module could not be found.",
    "RuntimeError: bfloat16 is not supported on CPU device",
    "error: argument --foo: requires --bar",
    "sqlalchemy.exc.ArgumentError: could not create engine from the given URL",
    "ERROR: Failed building wheel for numpy",
    "ValueError: cannot reshape array of size 6 into shape (4,)",
    "RuntimeError: mat1 and mat2 must have the same dtype, but got Half and Float",
    "Segmentation fault (core dumped)",
    "ImportError: libcudnn.so.8: cannot open shared object file: No such file or directory",
    "Building wheel for numpy (setup.py) ... error",
    "WARNING: --user option has been deprecated",
    "torch._dynamo.exc.Unsupported: call_function BuiltinVariable(str)",
    "FileNotFoundError: Failed to open file: config.yaml",
    "RuntimeError: shape '[-1, -1]' is invalid for input of size 6",
    "ConstraintViolation: duplicate key value violates unique constraint",
    "nvidia-smi: command not found",
    "stat: cannot stat file '/models'",
    "AssertionError: the torch module has no attribute export",
    "git: failed to create repository",
]


def names(message: str) -> list[str]:
    return [match.name for match in known_of(message, RULES, TARGETS)]


@pytest.mark.parametrize(("message", "name"), PASTED)
def test_the_first_answer_is_that_of_its_kind(message: str, name: str) -> None:
    assert names(message)[:1] == [name]


def test_all_kinds_are_pasted() -> None:
    marked = {name for name, said in KNOWN.items() if said.mark}
    assert len(PASTED) >= 50
    assert {name for _, name in PASTED} == marked


def test_another_operator_is_never_answered_by_a_rule_for_one() -> None:
    """A rule that quotes what parsers say of any node is for its own operators."""
    for op in ("RandomNormalLike", "DCNv2", "ATen"):
        for told in (
            f"No importer registered for op: {op}",
            f"operator: {op} (parseNode): INVALID_NODE: Invalid Node",
        ):
            assert {match.kind for match in known_of(told, RULES, TARGETS)} == {"advice"}


@pytest.mark.parametrize("message", UNRELATED)
def test_nothing_is_said_of_what_is_unrelated(message: str) -> None:
    assert names(message) == []


def test_each_message_leads_to_its_own_entry() -> None:
    for name, said in KNOWN.items():
        found = names(said.seen)
        assert name in found or found[0] in KNOWN, (name, found)
        if said.mark:
            assert found[0] == name, (name, found)
            assert re.compile(said.mark).search("") is None


def test_what_says_little_comes_behind_what_says_more() -> None:
    log = "\n".join(message for message, name in PASTED if name in ("build-ended", "no-kernel"))
    assert names(log)[0] == "no-kernel"
    assert "build-ended" not in names(log)


def test_of_several_lines_the_first_error_that_says_something_is_the_cause() -> None:
    log = (
        "[05/20/2025-22:23:29] [W] [TRT] One or more weights outside the range of INT32 was clamped\n"
        "[05/20/2025-22:23:29] [E] Error[4]: (Error while computing output extent of node /m/Concat_14.)\n"
        "[05/20/2025-22:23:29] [E] [TRT] ModelImporter.cpp:1012: While parsing node number 3 [Relu -> "
        '"/m/Relu_output_0"]:\n[05/20/2025-22:23:29] [E] [TRT] Networks with FP8 Q/DQ layers require '
        "hardware with FP8 support.\n[05/20/2025-22:23:30] [E] Engine could not be created from network"
    )
    assert names(log)[:2] == ["sizes-at-a-node", "format-of-gpu"]
    assert not {"parsing", "build-ended", "integer_activations"} & {*names(log)}


def test_a_warning_is_not_the_cause_of_an_error_that_says_little() -> None:
    log = (
        "[W] [TRT] onnx2trt_utils.cpp:374: Your ONNX model has been generated with INT64 weights\n"
        '[E] [TRT] ModelImporter.cpp:768: While parsing node number 93 [Pad -> "/Pad_output_0"]:\n'
        "[E] Failed to parse onnx file"
    )
    assert names(log)[0] == "parsing"


def test_the_node_at_which_the_parser_stopped_comes_behind_what_it_says_of_it() -> None:
    log = (
        "ModelImporter.cpp:195 In function parseGraph:\n[6] Invalid Node - /Where\n"
        "[graphShapeAnalyzer.cpp::check::1503] Error Code 2: Internal Error (Assertion !isPartialWork.)"
    )
    assert names(log) == ["builder-fault", "parsing"]


@pytest.mark.parametrize(
    ("op", "said"), [("MyOwnOp", "MyOwnOp is no operator of ONNX"), ("Slice", "this Slice")]
)
def test_what_parsers_say_of_any_node_names_the_operator(op: str, said: str) -> None:
    found = known_of(
        f"In node 5 with name: /s and operator: {op} (parseNode): INVALID_NODE: axes", RULES, TARGETS
    )
    (told,) = (match.summary for match in found if match.kind == "advice")
    assert said in told


@pytest.mark.parametrize("op", ["QuantizeLinear", "DequantizeLinear"])
def test_a_zero_point_in_the_words_of_older_releases(op: str) -> None:
    """TensorRT 8 says otherwise what 10 and 11 say of it."""
    message = (
        f"While parsing node number 3 [{op}]: In function QuantDequantLinearHelper:\n[6] Assertion failed: "
        'shiftIsAllZeros(zeroPoint) && "TRT only supports symmetric quantization - zeroPt must be all zeros"'
    )
    first = known_of(message, RULES, TARGETS)[0]
    assert first.kind == "rule"
    assert all(op in rule.roots for rule in RULES if rule.id == first.name)
