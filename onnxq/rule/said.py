"""What TensorRT and what builds on it say of what no rule repairs, and what to do: an entry each."""

from __future__ import annotations

from collections.abc import Mapping

from onnxq.rule.known_message import KnownMessage
from onnxq.rule.said_around import AROUND
from onnxq.rule.said_building import BUILDING
from onnxq.rule.said_onnxruntime import ONNXRUNTIME
from onnxq.rule.said_tools import TOOLS

_AXES = "the axes are an input: onnxq sanitize --freeze AXES=0, by the input's name, and the axis that it is"
ANY_NODE = (
    "TensorRT's parser does not take a node: onnxq check MODEL names each of them, and what repairs it; the "
    "other lines of the message say more"
)
_BRANCHES = (
    "a size decides which branch runs: state it, onnxq sanitize --assume N=1; onnxq check names the size"
)

_TYPES = "fp16|bf16|int8|fp8|int4|fp4"
_TRT = r"(TRT|TensorRT|nvinfer|tactic|trtexec|virtualMemoryBuffer|Error Code)"

SAID: Mapping[str, KnownMessage] = {
    "runtime-axes": KnownMessage(
        "Axis input must resolve to a build-time constant (an initializer or a ...)!",
        _AXES,
        "the engine is for that axis",
    ),
    "runtime-squeeze-axes": KnownMessage(
        "squeeze axis is not a constant In makeAxesMask",
        _AXES,
        "the engine is for that axis",
    ),
    "runtime-training-mode": KnownMessage(
        "This Version of TensorRT only supports the training_mode input as an initializer.",
        "onnxq sanitize --freeze TRAINING_MODE=false, by the input's name",
        "nothing",
        r"training_?mode\b.{0,60}initializer",
    ),
    "resize-scales-input": KnownMessage(
        "Network input s is a shape tensor and must have type Int32 or Int64. Type is Float.",
        "a float input decides sizes: onnxq sanitize --freeze SCALES=1,1,2,2, by the input's name, and the "
        "values that it has; or export it as int64",
        "the engine is for those values",
        r"shape tensor\b.{0,10}must have type Int",
    ),
    "resize-scales": KnownMessage(
        "Resize scales must be an initializer!",
        "onnxq sanitize computes scales that follow from sizes; if a scale is an input, give "
        "--freeze SCALES=1,1,2,2",
        "a scale that you state: the engine is for it",
    ),
    "data-type": KnownMessage(
        "Unsupported ONNX data type: UINT8 (2)",
        "onnxq check MODEL names the tensor, and what repairs it: onnxq sanitize writes many types "
        "in wider ones",
        "memory, where a type becomes a wider one",
        r"unsupported (onnx )?data ?type(?! as an input)|convert_?onnx_?weights|inputs must not be Int32",
    ),
    "runtime-zero-point": KnownMessage(
        "IQuantizeLayer/IDequantizeLayer has zero_point which is not an initializer.",
        "onnxq sanitize --freeze ZERO_POINT=0, by the input's name",
        "the engine is for that zero point",
    ),
    "dynamic-deconv-shape": KnownMessage(
        "TensorRT does not support negative pre-padding in the ConvTranspose operator!",
        "output_shape needs an input of known size: onnxq sanitize --assume H=8 --assume W=8, or "
        "--shape x=1x3x8x8",
        "the engine is for those sizes",
    ),
    "unknown-rank": KnownMessage(
        "at least 4 dimensions are required for input. In checkNOrMoreDims",
        "an input has no shape: state it, onnxq sanitize --shape x=NxCxHxW",
        "the engine is for that rank",
    ),
    "profile": KnownMessage(
        "Network has dynamic or shape inputs, but no optimization profile has been defined.",
        "trtexec needs --minShapes, --optShapes and --maxShapes; onnxq quantize and sanitize print "
        "them with --profile x=1x3x8x8:4x3x8x8:8x3x8x8; an integer input that decides sizes needs "
        "values: onnxq sanitize --freeze NAME=4,6",
        "the engine is tuned for the usual of the three sizes",
    ),
    "profile-of-values": KnownMessage(
        "kv_slice: optimization profile is missing values for shape input",
        "the input decides sizes, so that the profile needs its values beside its shape: "
        "profile.set_shape_input(name, min, opt, max); or make it a constant, onnxq sanitize MODEL --freeze "
        "NAME=4,6",
        "a constant: the engine is for those values",
        r"missing values for shape input",
    ),
    "profile-of-0": KnownMessage(
        "min_shape contains a 0 dimension: (0, 4). TensorRT does not support ...",
        "no size of a profile may be 0: state 1 or more, --profile x=1x4:8x4:16x4, in torch Dim(min=1); and "
        "feed nothing that is empty",
        "an empty batch is skipped before the engine",
        r"contains a 0 dimension|min dimension of 0",
    ),
    "no-model-given": KnownMessage(
        "Model missing or format not recognized",
        "trtexec was given no model: trtexec --onnx=FILE, or trtexec --loadEngine=FILE of an engine",
        "nothing",
        r"model missing or format not recognized",
    ),
    "ranks-of-branches": KnownMessage(
        "IConditionalOutputLayer: Must have inputs with equal ranks when condition is not a build-time ...",
        _BRANCHES,
        "the engine is for that size",
    ),
    "strings": KnownMessage(
        "does not support the value_string and value_strings attributes",
        "TensorRT has no strings: end the model before them with onnxq extract, and name classes on the host",
        "names are looked up on the host",
    ),
    "no-importer": KnownMessage(
        "No importer registered for op: ...",
        ANY_NODE,
        "see the rule or the advice that the message leads to",
        r"no (importer|checker) registered for op",
        general=1,
    ),
    "no-plugin": KnownMessage(
        "Plugin not found, are the plugin name, version, and namespace correct?",
        ANY_NODE,
        "see the rule or the advice that the message leads to",
        r"plugin not found, are the plugin|and namespace correct\?",
        general=1,
    ),
    "unsupported-node": KnownMessage(
        "UNSUPPORTED_NODE: false",
        ANY_NODE,
        "see the rule or the advice that the message leads to",
        r"UNSUPPORTED_NODE|INVALID_NODE|UNSUPPORTED_GRAPH|INVALID_GRAPH.{0,40}parse|\bInvalid Node - ",
        general=1,
    ),
    "parsing": KnownMessage(
        "While parsing node number 5 [...]:",
        ANY_NODE,
        "see the rule or the advice that the message leads to",
        r"while parsing node number|In function (import|check|parse|unary|elementwise)\w*|op_?importers|"
        r"onnxOpCheckers|onnx2trt(?!\S*\.py)|importerUtils|Func of the error:|"
        r"than TRT expected|misaligns? with the|was not registered|failed to create layer|"
        r"match up for the \w+ operator|failed to parse (the )?(onnx|input|model)|"
        r"parsing (the )?(onnx )?model (errors|failed)|errors? (while|when|in) parsing|"
        r"failed to (import|convert|squeeze|unsqueeze) .{0,40}(node|tensor|initializer|scalar)",
        general=1,
    ),
    "dense_weights": KnownMessage(
        "This version of TensorRT does not support the sparse_value attribute",
        "onnxq sanitize writes sparse weights in full",
        "a larger file",
    ),
    "precision-flags": KnownMessage(
        "Unknown option: --fp16",
        "TensorRT 11 and TensorRT-RTX have no flags of types, and run each tensor in the type of the file: "
        "onnxq quantize MODEL --calib DATA writes int8 as Q/DQ pairs, onnxq sanitize MODEL --body fp16 half "
        "precision; build that without the flag",
        "a file for each precision",
        rf"unknown option:? *--({_TYPES}|best|precision)\b|BuilderFlag\W+(k|.*attribute '?)?({_TYPES})\b"
        rf"|\bk({_TYPES})\b.{{0,40}}BuilderFlag|no (attribute|member)\W+(named "
        rf")?\W*platform_?has_?fast|no (attribute|member)\W+(named )?\W*(STRONGLY_TYPED|setComputePrecision)"
        rf"|strongly.?typed.{{0,80}}(precision|BuilderFlag|FP16|INT8|flag)|(precision|BuilderFlag\w*|"
        rf"set_?(precision|"
        rf"output_?type)).{{0,80}}strongly.?typed",
    ),
    "precision-by-layer": KnownMessage(
        "Unknown option: --layerPrecisions",
        "older releases take one of OBEY and PREFER, and not beside strong types; TensorRT 11 takes no types "
        "of layers from outside the file: onnxq quantize MODEL --calib DATA --keep-float NAME leaves a layer "
        "in float, --body says which",
        "the layer is not in int8",
        r"--precisionConstraints flag is set|unknown option:? *--(layerPrecisions|layerOutputTypes|"
        r"layerDeviceTypes|precisionConstraints)"
        r"|(OBEY|PREFER)_PRECISION_CONSTRAINTS"
        r"|no (attribute|member)\W+(named )?\W*(set_precision|setPrecision|set_output_type|setOutputType|"
        r"precision\b|precision_is_set|precisionIsSet|output_type_is_set)\b",
    ),
    "calibrators": KnownMessage(
        "module 'tensorrt' has no attribute 'IInt8EntropyCalibrator2'",
        "TensorRT 11 does not calibrate: onnxq quantize MODEL --calib DATA does, and writes the scales as "
        "Q/DQ pairs; --stats FILE reads a calibration cache that there is; where TensorRT is 10 or older, "
        "its Python package is broken: install it anew",
        "the time of calibrating",
        r"(no (attribute|member)|not a (member|class)|no type|undeclared|"
        r"unknown option).*(IInt8\w*Calibrator|"
        r"CalibrationAlgoType|int8_?calibrator|calibration_?profile|quantization_?flag|"
        r"dynamic_?range|--calib\b)",
    ),
    "calibration-gave-nothing": KnownMessage(
        "Calibration failure occurred with no scaling factors detected.",
        "the calibrator of TensorRT 10 or older gave no batch: onnxq quantize MODEL --calib DATA --target "
        "tensorrt-10 calibrates without it, and writes Q/DQ pairs",
        "the time of calibrating",
        r"no scaling factors detected|calibration failure|while configuring INT8 mode|symbol is not concrete|"
        r"DynamicRange.{0,80}min_ <= max_|calibrator specified|Cuda Error in cuCalibrator",
    ),
    "no-scales": KnownMessage(
        "Missing scale and zero-point for tensor x, expect fall back to non-int8 implementation",
        "int8 was asked of a float model, and the tensor has no range: onnxq quantize MODEL --calib DATA "
        "writes Q/DQ pairs, which need neither cache nor calibrator",
        "the time of calibrating",
        r"missing (scale and zero-?point|dynamic range)|calibrator is not being used|provide dynamic range",
    ),
    "int8-flag": KnownMessage(
        "Int8 precision has been set for a layer or layer output, but int8 is not configured in the builder",
        "TensorRT 10 and older need the flag beside the Q/DQ pairs: build with the line that onnxq quantize "
        "MODEL --calib DATA --target tensorrt-10 prints",
        "nothing",
        r"int8 is not configured in the builder|explicit (precision )?quantization.*--int8",
    ),
    "broken-package": KnownMessage(
        "module 'tensorrt' has no attribute 'Logger'",
        "what was imported is not TensorRT, or is there in part: python -c 'import tensorrt; "
        "print(tensorrt.__file__)' says what it is; rename what hides it, or install the package anew",
        "nothing",
        r"module '?tensorrt'? has no attribute '?(Logger|Builder\w*|Runtime|OnnxParser|"
        r"NetworkDefinitionCreationFlag|__version__|tensorrt)\b|no module named '?tensorrt\.tensorrt",
    ),
    "no-package": KnownMessage(
        "ModuleNotFoundError: No module named 'tensorrt'",
        "the Python package is not in this environment: pip install tensorrt; "
        "what compiles without a GPU is TensorRT-RTX: pip install 'onnxq[trt]'",
        "nothing",
        r"no module named '?tensorrt(_rtx|_bindings|_libs)?\b(?!\.)",
    ),
    "old-api": KnownMessage(
        "'tensorrt.tensorrt.ICudaEngine' object has no attribute 'num_bindings'",
        "an interface that TensorRT 10 removed: num_io_tensors, get_tensor_name and get_tensor_shape stand "
        "for bindings, execute_async_v3 for execute_async_v2, build_serialized_network for build_engine, "
        "set_memory_pool_limit for max_workspace_size; create_network needs no EXPLICIT_BATCH",
        "another program; the model stays",
        r"no (attribute|member)\W+(named )?\W*(num_?bindings|get_?binding_?\w+|binding_?is_?input|"
        r"getNbBindings|"
        r"set_?binding_?shape|execute_async(_v2)?\b|enqueueV2|max_?workspace_?size|setMaxWorkspaceSize|"
        r"max_?batch_?size|setShapeValues|build_?cuda_?engine|build_?engine|EXPLICIT_BATCH|"
        r"kEXPLICIT_BATCH|destroy\b)|"
        r"Use (set_memory_pool_limit|build_serialized_network|\w*tensor_\w+|\w+_v3|\w+_nd) instead",
    ),
    "no-engine": KnownMessage(
        "'NoneType' object has no attribute 'create_execution_context'",
        "building or reading the engine gave none: the first [E] line above says why; give that to onnxq "
        "rules explain --message; onnxq check MODEL says what the parser does not take",
        "nothing",
        r"'NoneType' object has no attribute '(create_execution_context|serialize|num_io_tensors|"
        r"num_bindings|set_binding_shape|set_input_shape|execute_\w+|get_binding\w+|get_tensor_\w+)"
        r"|deserialize_cuda_engine\(\): incompatible function arguments|invalid engine\. please ensure|"
        r"could not deserialize engine|trt_?engine != nullptr|got invalid engine|"
        r"(?=.*(engine|TensorRT|\btrt\b)).*\b__enter__\b|"
        r"assert\W+engine is not None",
        general=1,
    ),
    "engine-of-another-version": KnownMessage(
        "Serialization assertion stdVersionRead == serializationVersion failed. Version tag does not match",
        "an engine is for the release that built it: build it again with the TensorRT that runs it, by the "
        "line that onnxq quantize printed and its report has; --versionCompatible is for later releases",
        "the time of building",
        r"version ?tag does not match|VersionRead ==|serialized engine version|"
        r"expecting library version|engine plan file is .{0,40}(version|incompatible with)|"
        r"plan file is not compatible with this version|engine deserialization failed|"
        r"incompatible Torch-TensorRT ABI|SERIALIZATION_LEN",
    ),
    "no-engine-file": KnownMessage(
        "Serialization assertion magicTagRead == kMAGIC_TAG failed. Magic tag does not match",
        "the file is no engine of this TensorRT, or is cut short: an ONNX file is built first, and an engine "
        "of TensorRT-RTX is none of TensorRT; copy it in binary, or build it again",
        "the time of building",
        r"magic ?tag|does not match archive size|size of serialized engine|error opening engine file|"
        r"failed to load engine from file",
    ),
    "engine-of-another-gpu": KnownMessage(
        "Using an engine plan file across different models of devices is not recommended",
        "an engine is for the GPU that it was built on: build it there, or with "
        "--hardwareCompatibilityLevel=ampere+",
        "the time of building",
        r"across different models of devices|generated on an incompatible device|"
        r"(platform|device).{0,40}(differs|mismatch|not match).{0,60}engine",
    ),
    "int64-weights": KnownMessage(
        "Your ONNX model has been generated with INT64 weights, while TensorRT does not natively support "
        "INT64. Attempting to cast down to INT32.",
        "a remark of TensorRT before 10, mostly of shapes and indices: nothing is to be done while no value "
        "is said to be clamped",
        "nothing",
        r"generated with INT64 weights|does not natively support INT64",
    ),
    "int64-clamped": KnownMessage(
        "One or more weights outside the range of INT32 was clamped",
        "ends of slices are often the greatest int64, and clamping these is harmless: polygraphy run MODEL "
        "--onnxrt --trt says whether outputs differ; TensorRT 10 and later take int64",
        "nothing",
        r"outside the range of INT32",
    ),
    "out-of-memory": KnownMessage(
        "Skipping tactic 0 due to insufficient memory on requested size of 11580055552",
        "the GPU has too little free memory: end what else runs there, state smaller sizes, onnxq quantize "
        "MODEL --calib DATA --profile x=1x3x8x8:1x3x8x8:1x3x8x8, or give trtexec "
        "--memPoolSize=workspace:1024; onnxq memory MODEL says what activations take",
        "smaller inputs or batches; slower kernels with a small workspace",
        rf"cuda failure:? (2: )?out of memory|(?=.*{_TRT})(?=.*(out ?of ?memory|insuff?icient memory|"
        rf"memory allocation (error|fail)|"
        rf"memory is insufficient|"
        rf"memory .{{0,40}}could not be allocated))",
    ),
    "no-kernel": KnownMessage(
        "Could not find any implementation for node {ForeignNode[...]}",
        "no kernel fits: mostly too little memory (lines about skipped tactics say so), else a type or an "
        "operator: onnxq sanitize MODEL simplifies, onnxq check MODEL compiles with TensorRT-RTX, and "
        "onnxq quantize --keep-float NAME leaves a layer in float",
        "the layer is not in int8",
        r"could not find any implementation for node (?!.{0,200}(Quantize|Dequantize)Linear)",
    ),
    "myelin": KnownMessage(
        "[myelin] Error Code 9: Internal Error",
        "the part of TensorRT that fuses regions failed: onnxq sanitize MODEL simplifies the graph, which "
        "often helps; else another patch release; onnxq extract cuts out the node that is named",
        "nothing",
        r"^(?!.*(destroying|mGraphContexts|compiled against|Platform \(Cuda)).*(myelin.{0,200}(error|fail|"
        r"assert|can ?not)|(error|fail|assert|can ?not).{0,200}myelin)|\b__mye\d",
    ),
    "plugin-not-loaded": KnownMessage(
        "IPluginRegistry::getCreator: Error Code 4: API Usage Error (Cannot find plugin: X, version: 1)",
        "the library of the plugin is not loaded, neither when building nor when running: "
        "init_libnvinfer_plugins for NVIDIA's own, ctypes.CDLL or trtexec --staticPlugins=LIB.so for "
        "yours (--dynamicPlugins wants one that exports getCreators); where it is an operator of ONNX, "
        "this release lacks it: onnxq check MODEL names what repairs it",
        "nothing",
        r"(cannot|could not|failed to) (find|deserialize|locate) plugin|IPluginCreator not found|"
        r"getPluginCreators?\b|\bgetCreators\b(?! ?\()|IPluginRegistry::loadLibrary|initLibNvInferPlugins|"
        r"plugin .{0,40}could not be (loaded|found)|"
        r"custom layer .{0,60}not (found|registered)|"
        r"plugin\w*\.(dll|so)\b.{0,40}(dependencies|cannot open|no such file)",
    ),
    "outside-profile": KnownMessage(
        "Supplied binding dimension [10,3,128,64] for bindings[0] exceed min ~ max range at index 0",
        "the input is of a size that the engine was not built for: state all sizes, onnxq quantize MODEL "
        "--calib DATA --profile x=1x3x8x8:4x3x8x8:8x3x8x8 or --batch 1:8:32, and build again",
        "the engine is tuned for the usual of the three sizes",
        r"satisfy any optimization profile|satisfyProfile|exceed min ~ max range|supplied dimension|"
        r"(out of|outside).{0,20}(optimization )?profile",
    ),
    "profile-in-use": KnownMessage(
        "Assertion failed: mGraphContexts.find(&context) == mGraphContexts.end()",
        "two contexts use one optimization profile, or one is set twice: an engine has to be built with a "
        "profile for each context (trtexec --profile=0 ... --profile=1 ...), and each context takes its own",
        "a larger engine",
        r"mGraphContexts|profile .{0,60}(in use|being used|has been chosen|already been)|"
        r"another (execution )?context.{0,60}profile",
    ),
    "profile-of-a-fixed-size": KnownMessage(
        "for dimension number 1 in profile 0 does not match network definition (got min=1, opt=4, max=8), "
        "expected min=opt=max=3",
        "the dimension is fixed in the file: state its size in all three shapes, or make it dynamic, onnxq "
        "sanitize MODEL --shape x=Nx3x224x224",
        "nothing",
        r"static dimension mismatch|input has static dimensions|static model does not take explicit shapes|"
        r"does not match network definition|"
        r"expected min=opt=max",
    ),
    "profile-of-no-sizes": KnownMessage(
        "Dynamic dimensions required for input: x, but no shapes were provided. Automatically overriding",
        "the model has dynamic sizes: trtexec needs --minShapes, --optShapes and --maxShapes, which onnxq "
        "quantize and sanitize print with --profile x=1x3x8x8:4x3x8x8:8x3x8x8",
        "the engine is tuned for the usual of the three sizes",
        r"dynamic dimensions required|missing dimensions in profile|number of dimensions is \d+ but profile|"
        r"is not set for all|optimization profile is missing(?! values)|no optimization profile has been "
        r"defined",
    ),
    "sizes-that-contradict": KnownMessage(
        "kOPT values for profile 0 violate shape constraints: broadcast with incompatible dimensions",
        "the stated sizes do not fit each other, or are not smallest <= usual <= largest: onnxq "
        "inspect MODEL says which dimensions share a "
        "symbol; state these alike",
        "nothing",
        r"violate shape constraints|must be conformable|IOptimizationProfile::setDimensions|"
        r"MIN ?<= ?OPT ?<= ?MAX|profile is not valid|incompatible dimensions|"
        r"^(?!.*skipping tactic).*cannot broadcast with|"
        r"broadcast\(x\.d|"
        r"residual->extent|dimension \d+ never exceeds|"
        r"values? of this profile is not valid",
    ),
    "old-parser": KnownMessage(
        "UffParser: Validator error: Unsupported operation",
        "the parsers of UFF and Caffe files are gone since TensorRT 10 and had few operators before: export "
        "the model to ONNX from its framework (tf2onnx for TensorFlow), then onnxq check MODEL",
        "the time of an export",
        r"\bUFF_?Parser|parse UFF|nv_?(uff|caffe)_?parser|CaffeParser|caffeToTRT|\.uff\b|Caffe model",
    ),
    "no-such-input": KnownMessage(
        'Cannot find input tensor with name "x" in the network inputs! Please make sure the input '
        "tensor names",
        "the flag names an input that the file does not have: onnxq inspect MODEL lists inputs and outputs",
        "nothing",
        r"cannot find input tensor|invalid tensor name|given invalid tensor|"
        r"Required inputs .{0,200}are missing",
    ),
    "no-address": KnownMessage(
        "Address is not set for input tensor x. Call setInputTensorAddress or setTensorAddress "
        "before enqueue",
        "each input and output needs memory of the GPU before it runs: set_tensor_address(name, pointer) for "
        "all of get_tensor_name(0) to num_io_tensors - 1; onnxq inspect MODEL lists them",
        "nothing",
        r"address is not set for|profileObliviousBindings|OutputAllocator|bound to nullptr|nullPtrAllowed",
    ),
    "no-shape-set": KnownMessage(
        "Parameter check failed, condition: allInputDimensionsSpecified(routine)",
        "an input with dynamic sizes has none yet: context.set_input_shape(name, shape) for each such input, "
        "before shapes are asked for and before it runs; onnxq inspect MODEL lists them",
        "nothing",
        r"all(Input)?(Dimensions|Shapes)Specified|input (shapes?|dimensions?) .{0,30}(not|never) (been )?"
        r"(set|specified)|(dimensions|shapes?) (of|for) .{0,60}(not|never) (been )?(set|specified)|"
        r"without resolved dynamic shapes",
    ),
    "no-calibration-cache": KnownMessage(
        "File does not exist: calib.table",
        "the calibration cache is not there, or is of another model or export, whose tensors have other "
        "names: onnxq quantize MODEL --calib DATA writes Q/DQ pairs, which need none; --stats FILE reads one "
        "that fits",
        "the time of calibrating",
        r"calib\S*\.(table|cache)\b.{0,80}(not exist|not found|no such|invalid|error)|"
        r"(not exist|not found|no such|fail\w*|cannot|could not).{0,120}calib\S*\.(table|cache)\b|"
        r"_Map_base::at|unordered_map<K, T> key|reading calibration cache",
    ),
    "calibrator-and-pairs": KnownMessage(
        "Calibrator won't be used in explicit quantization mode.",
        "the file has Q/DQ pairs, whose scales hold: leave calibrator and cache out; where they should count "
        "instead, onnxq quantize MODEL --calib DATA --pairs drop quantizes it anew",
        "nothing",
        r"calibrator (won't|will not|is not going to) be used",
    ),
    "no-outputs": KnownMessage(
        "Network must have at least one output",
        "the parser failed before, or nothing was parsed: onnxq check MODEL says what it does not take; "
        "parser.parse returns False, and parser.get_error(0) says why",
        "nothing",
        r"must have at least one output|getNbOutputs\(\) > 0",
    ),
    "beyond-2-gb": KnownMessage(
        "onnx.ModelProto exceeded maximum protobuf size of 2GB",
        "weights of more than 2 GB stand beside the file: load and save by paths (parse_from_file), with "
        "external data; onnxq sanitize MODEL reads such files, and writes X.onnx and X.onnx.data",
        "two files, which stay together",
        r"protobuf size of 2 ?GB|EncodeError: Failed to serialize proto|exceeds? (the )?(maximum|"
        r"2 ?GB).{0,30}(protobuf|ModelProto|2 ?GB)|"
        r"larger than the 2 ?GiB|message onnx\.ModelProto.{0,30}(exceed|too large)|"
        r"ModelProto.{0,40}2147483647",
    ),
    "weights-not-there": KnownMessage(
        "Failed to open file: model.onnx.data",
        "the weights stand in another file, which was not copied along: put it beside the model under the "
        "name that it had; of a model in memory give the path instead",
        "nothing",
        r"(open|find|load|read|exist|access).{0,80}(\.onnx[._]data|external[ _](data|weight|initializer))|"
        r"(\.onnx[._]data|external data).{0,80}(not found|no such|not exist|missing|not accessible)|"
        r"(onnx2trt_utils|WeightsContext|\[TRT\]).{0,80}failed to open file: (?!\S*\.onnx\b(?![._]))",
    ),
    "no-onnx-file": KnownMessage(
        "Failed to parse ONNX model from file: model.onnx",
        "where no other [E] line names a node, the file is not there, is cut short, or is no ONNX file (a "
        "pointer of git-lfs, say): onnxq inspect MODEL says what it is",
        "nothing",
        r"MODEL_DESERIALIZE_FAILED|failed to (parse|load) onnx (model|file)|error parsing text-format|"
        r"could not open (onnx )?(model )?file|failed to open file: \S+\.onnx\b(?![._])|"
        r"protobuf parsing failed|"
        r"error parsing message with type 'onnx|protobuf\S*DecodeError|failed to parse the model",
        general=1,
    ),
    "opset": KnownMessage(
        "ONNX Runtime only *guarantees* support for models stamped with official released onnx "
        "opset versions",
        "the model is newer than what reads it: export it with an earlier opset, or take a newer release; "
        "onnxq check MODEL --target NAME says which opset a TensorRT documents",
        "another export",
        r"official released onnx opset|newer ir_version|ir_version.{0,60}built against|unsupported "
        r"onnx opset|(?<!to ONNX )opset.{0,60}(under development|not support(?!s? quantization)|unsupported|"
        r"newer|maximum)|unsupported.{0,20}opset|"
        r"unsupported model IR version",
    ),
    "types-that-differ": KnownMessage(
        "IElementWiseLayer: operation SUM has incompatible input types Float and Half",
        "tensors are in the types of the file, and two that meet differ: casts are missing, as scripts for "
        "half precision leave them; give the float32 model to onnxq sanitize --body fp16",
        "another file",
        r"I\w+Layer.{0,120}(incompatible (input )?types|same (data ?)?types?\b)|"
        r"operation \w+ has incompatible (input )?types|input type \w+, output type \w+|"
        r"inputs? of \w+ to be of the same type|must have (the same|identical) (data ?)?types?|bound to "
        r"different types|"
        r"does not match expected type|element type \(\w+\) differs from",
    ),
    "beyond-float16": KnownMessage(
        "had the following issues when converted to FP16: Subnormal FP16 values detected",
        "values do not fit float16: onnxq sanitize MODEL --body fp16 --calib DATA keeps in float32 what "
        "float16 does not hold; --body bf16 has the range of float32",
        "some layers in float32",
        r"layernorm (nodes )?(in FP16|after self-attention)|float32 number \S+ will be truncated|"
        r"issues when convert(ed to FP16|ing weights)|subnormal FP16|in FP16 may cause overflow|(exceed|"
        r"greater).{0,30}max fp16",
    ),
    "library-not-found": KnownMessage(
        "Failed to load library libonnxruntime_providers_tensorrt.so: libnvinfer.so.10: cannot open shared "
        "object file",
        "the libraries of TensorRT are not found, or are of another major version than the program was built "
        "for: install that one, and name its folder in LD_LIBRARY_PATH (PATH on Windows); onnxruntime takes "
        "TensorRT 11 from 1.27 on",
        "nothing",
        r"(lib)?(nvinfer\w*|nvonnxparser\w*)(_\d+)?(\.so|\.dll)|onnxruntime_providers_tensorrt|"
        r"failed to create TensorrtExecutionProvider|DLL load failed while importing tensorrt|"
        r"Could not find TensorRT|undefined (reference|symbol).{0,60}"
        r"(nvinfer|nvonnxparser|createInfer)|EP_FAIL.{0,40}could not open shared library|"
        r"ExecutionProvider_Tensorrt.{0,40}(shared )?library|install TensorRT libraries|"
        r"nvinfer_builder_resource",
    ),
    "no-provider": KnownMessage(
        "Specified provider 'TensorrtExecutionProvider' is not in available provider names",
        "this onnxruntime was built without TensorRT: pip uninstall onnxruntime, then install "
        "onnxruntime-gpu",
        "nothing",
        r"(Tensorrt|CUDA)\w*ExecutionProvider.{0,60}not in available",
    ),
    "provider-failed": KnownMessage(
        "TensorRT EP could not build engine for fused node",
        "TensorRT did not take a part that onnxruntime gave it: onnxq check MODEL names what the target does "
        "not take, onnxq sanitize MODEL repairs it",
        "nothing",
        r"TensorRT EP (could not build|could not create|failed)|EP_FAIL.*TensorRT|non-zero status "
        r"code returned while running TRTKernel",
        general=1,
    ),
    "driver": KnownMessage(
        "CUDA initialization failure with error: 35",
        "the driver of the GPU is older than this CUDA asks for, or no GPU is seen: nvidia-smi says which; "
        "update the driver, start the container with --gpus all",
        "nothing",
        r"CUDA initialization failure|driver version is insufficient|no CUDA-capable device|"
        r"unable to determine GPU memory usage|CUDA failed to initialize|no supported GPU|"
        r"Cuda failure: (35|36|100|80[34]|999)\b|InsufficientDriver|forward compatibility was attempted",
    ),
    "gpu-too-old": KnownMessage(
        "Target GPU SM 61 is not supported by this TensorRT release",
        "this release has no kernels for the GPU: a GPU that is newer than the release needs a "
        "newer TensorRT, "
        "an old one an older: make the file for it, onnxq quantize MODEL --calib DATA --target tensorrt-8.6",
        "another TensorRT",
        r"unsupported SM\b|invalid device function.{0,80}TensorRT|TensorRT.{0,80}invalid device function|"
        r"SM ?\d+ is not supported|smVerHex2Dig.{0,80}major|(TRT|TensorRT).*no kernel image is available|"
        r"GPU.{0,40}not supported by this (TensorRT )?release",
    ),
    "memory-access": KnownMessage(
        "Error Code 1: Cuda Runtime (an illegal memory access was encountered)",
        "a buffer is smaller than the shape that was set, or is freed, or a kernel is at fault: "
        "take sizes of "
        "buffers from the context's get_tensor_shape after set_input_shape; compute-sanitizer names the "
        "kernel; onnxq check MODEL knows what some releases miscompute",
        "nothing",
        rf"pycuda.{{0,80}}cuMemcpy|Myelin.{{0,80}}Platform \(Cuda|(?=.*({_TRT}|Cuda Runtime|enqueue|"
        rf"executeMemcpy))"
        r"(?=.*(illegal memory access|misaligned address|"
        r"(Cuda Runtime|Cuda Error).{0,40}invalid argument))",
    ),
    "freed-too-late": KnownMessage(
        "Error Code 1: Myelin (Error 709 destroying stream '0x24ec72b0'.)",
        "engine, context or buffers are freed after the CUDA context has ended: delete them before it "
        "(PyCUDA: del context, engine, then pop), in the thread that made them; results from before hold, "
        "unless another error stands above",
        "nothing",
        r"destroying (stream|event)|object_deallocate|::deallocate|clean-?up operation failed|dead context|"
        r"context stack was not empty|mEngineCounter|destroying a runtime before",
    ),
    "buffer-of-another-size": KnownMessage(
        "np.copyto(inputs[0].host, image.ravel()): could not broadcast input array from shape (1107168)",
        "the buffer has the size that the engine was built for, and what is fed another; a dynamic size is "
        "-1 until it is set: set_input_shape first, then take sizes of the context's get_tensor_shape; onnxq "
        "inspect MODEL lists what the model takes",
        "nothing",
        r"copyto\(.{0,60}host.{0,400}could not broadcast|pagelocked_empty|convert negative value to size_t|"
        r"mem_alloc\(.{0,200}(negative|overflow)",
    ),
    "releases-that-differ": KnownMessage(
        "Parameter check failed, condition: int(builderFlag) >= 0 && int(builderFlag) < "
        "EnumMax<BuilderFlag>()",
        "the program, the parser and the library of TensorRT are of different releases: install all of one "
        "(nvinfer, nvonnxparser, the Python package), and build the program with its headers",
        "nothing",
        r"EnumMax<\w+>|CaskK\w*Lib|(headers?|compiled|built) .{0,40}TensorRT.{0,60}(but|loaded|running|"
        r"library)",
    ),
    "trtexec-option": KnownMessage(
        "Unknown option: --workspace",
        "trtexec of this release has no such flag, or soon will not: --memPoolSize=workspace:1024 stands "
        "for --workspace, and --explicitBatch, --minTiming, --batch and others are gone; onnxq quantize "
        "--target NAME prints a "
        "line of flags that the release has",
        "nothing",
        rf"unknown option:? *--(?!({_TYPES}|best|precision\w*|layer\w+|calib)\b)\w+|"
        r"--(workspace|\w*batch|plugins|preview|buildOnly|safe|explicitPrecision|minTiming|heuristic) "
        r"(flag |option )?(has been|is) (deprecated|removed)",
    ),
    "linked-against": KnownMessage(
        "TensorRT was linked against cuDNN 8.6.0 but loaded cuDNN 8.4.1",
        "a CUDA library (cuDNN, cuBLAS, NVRTC) is not found, or another version of it first: a warning, "
        "unless kernels fail or an engine does not load; put the folder of the right one first in "
        "LD_LIBRARY_PATH",
        "nothing",
        r"linked against cu\w+.{0,40}but loaded|mismatch of lib\w+ version|"
        r"(unable to|failed to|could not) load (dynamic )?library:? *'?(lib)?(nvrtc|cudnn|cublas)",
    ),
    "dla": KnownMessage(
        "Default DLA is enabled but layer x is not supported on DLA, falling back to GPU",
        "the accelerator takes few operators and fixed sizes: trtexec --allowGPUFallback runs the "
        "rest on the "
        "GPU; fix sizes by onnxq sanitize MODEL --shape x=1x3x224x224",
        "the layers that fall back cost copies",
        r"canRunOnDLA|dlaEngineCount|set(Default)?DeviceType(?!.{0,120}nullptr)|unable to (set|use) DLA|"
        r"\bDLA\b.{0,80}(not "
        r"supported|cannot run|not support|fall|only supports)|(not |un)supported on DLA|nvdla|"
        r"Error Code 1: DLA|(cannot|failure|failed|unable) .{0,40}\bDLA\b|CUDLA ERR|dlaContext|isDLA\(|"
        r"nvmRegionOptimizer",
    ),
    "dla-int8": KnownMessage(
        "Node: /act/Relu cannot run in INT8 mode due to missing scale and zero point. This node will not run "
        "on DLA.",
        "int8 of the accelerator comes from the ranges of a calibration cache, not from Q/DQ pairs: onnxq "
        "quantize FLOAT --calib DATA --target tensorrt-10 --cache writes X.cache, and trtexec --int8 "
        "--calib=X.cache reads it with the float model; or --fp16",
        "the time of calibrating",
        r"cannot run in INT8 mode.{0,80}DLA|missing scale and zero.?point.{0,80}\bDLA\b",
    ),
    "timing-cache": KnownMessage(
        "Detected invalid timing cache, setup a local cache instead",
        "the cache is of another GPU or release: a warning; delete the file, and a new one is written",
        "a longer build, once",
        r"invalid timing cache|timing cache.{0,60}(mismatch|not match|ignor)",
    ),
    "outputs-differ": KnownMessage(
        "FAILED | Output: 'y' | Difference exceeds tolerance (rel=1e-05, abs=1e-05)",
        "int8 and half precision are no nearer than their steps: onnxq compare FLOAT INT8 --data "
        "DATA says how "
        "near and whether answers are kept, onnxq analyze FLOAT INT8 --data DATA which layers cost it",
        "nothing",
        r"FAILED \| Mismatched outputs|will not compare outputs of different shapes|difference "
        r"exceeds tolerance|exceeds? tolerance .{0,40}rel",
    ),
    "build-ended": KnownMessage(
        "Failed to create engine from model or file.",
        "this line says only that building ended: the first [E] line above says why; give that one; onnxq "
        "check MODEL asks parser and compiler without a GPU",
        "nothing",
        r"(?=.*(TRT|TensorRT|ONNX|trtexec))(could not|fail\w*|error while|unable to) (to )?(create|creating|"
        r"build|building) .{0,12}engine|"
        r"backend strateg(y|ies)|export failure.{0,60}TensorRT|"
        r"TensorRT: export failure|"
        r"failed to create engine from model|engine could not be created|building engine failed|"
        r"building serialized network failed|engine set up failed|assertion engine\w*(ptr)? != nullptr|&&&& "
        r"FAILED TensorRT",
        general=1,
    ),
    **BUILDING,
    **AROUND,
    **ONNXRUNTIME,
    **TOOLS,
}
"""By a name."""
