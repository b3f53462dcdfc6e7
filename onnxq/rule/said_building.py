"""What TensorRT's builder says of graphs, kernels and engines, of what no rule repairs: an entry each."""

from __future__ import annotations

from collections.abc import Mapping

from onnxq.rule.known_message import KnownMessage

BUILDING: Mapping[str, KnownMessage] = {
    "pairs-of-another-tool": KnownMessage(
        "Assertion outScales.size() == 1 failed.",
        "the builder stumbles over where Q/DQ pairs stand, or over their scales: onnxq check "
        "MODEL names such "
        "pairs; onnxq quantize FLOAT --calib DATA places pairs that TensorRT takes; where only the file with "
        "pairs is there, onnxq quantize MODEL --calib DATA --pairs drop",
        "the time of calibrating",
        r"scales\.size\(\)|HostScale|numScales|candidateRequirements|incorrectly marked as an int8|"
        r"quantizeBias|combineInOutScale|isOutputSet|scale coefficients must|candidateChoices|lhs\.expr|"
        r"getter\(i\) != 0|"
        r"weightConvertors|opnd->is_data|quantizePaths|cannot be quantized by|nbOutputMaps|"
        r"only activation types allowed|"
        r"(Quantize|Dequantize)(Linear|Layer)\w*\b.{0,120}(assert|fail|error|must)|"
        r"\[(Quantize|Dequantize)\]|implementation for node .{0,200}(Quantize|Dequantize)Linear",
    ),
    "flags-beside-types": KnownMessage(
        "Could not infer output types for operation: 40: quantize",
        "the types of Q/DQ pairs and those that --fp16, --int8 or --fp8 allow mix: build with "
        "--stronglyTyped and without these flags; onnxq quantize FLOAT --calib DATA prints such a line, and "
        "writes half "
        "precision around the pairs",
        "nothing",
        r"infer output types|no matching rules found for input operand",
    ),
    "skipped-tactic": KnownMessage(
        "Skipping tactic 0x0 due to exception Assertion vol == 1 failed.",
        "a kernel that the builder tried does not fit, and it goes on with others: nothing is to "
        "be done while "
        "an engine is built; else the last [E] line says why",
        "nothing",
        r"skipping tactic|no valid tactics",
        general=1,
    ),
    "not-known-when-building": KnownMessage(
        "Resize: scale/size must be known at build time",
        "an argument or a size is computed while the model runs, and TensorRT wants it while it "
        "builds: onnxq "
        "sanitize MODEL computes what follows from sizes; state the others with --shape x=1x3x224x224, "
        "--assume N=1 or --freeze NAME=VALUE; onnxq check MODEL names the node",
        "the engine is for that value",
        r"build[- ]time constant|known at build time|(not|cannot|can not) be used as shape tensor|"
        r"data-dependent shapes|fromSymbolic|must be INT32 for shape outputs|must be an? initializer|"
        r"(is|are) not an? (initializer|constant)|is_weights\(\)|only supports .{0,60}\bas an initializer|"
        r"does not support dynamic axes|allValuesKnown|try applying constant folding",
        general=1,
    ),
    "sizes-of-values": KnownMessage(
        "an IIOneHotLayer cannot be used to compute a shape tensor",
        "a size hangs on values, or on operators with which TensorRT computes no sizes, or two sizes of a "
        "Reshape are unknown: onnxq sanitize MODEL --shape x=1x3x224x224 makes constants of sizes that "
        "follow from the inputs'; of what depends on values (NonZero), onnxq check MODEL names the node",
        "the engine is for those sizes",
        r"cannot be used to compute a shape tensor|applied to shape tensor must|more than one -1|"
        r"output shape can ?not be computed|"
        r"incompatible with data-dependent shapes",
    ),
    "sizes-at-a-node": KnownMessage(
        "Error while computing output extent of node /model/transformer/Concat_14.",
        "what this node reads does not fit together (of a Concat its inputs' sizes, or how many dimensions "
        "they have): onnxq check MODEL says whether the file is at fault, onnxq sanitize MODEL --shape "
        "x=1x3x224x224 computes such sizes; the node at which the parser stopped is a later one",
        "the engine is for those sizes",
        r"comput\w+ (the )?output extent|all inputs? tensors? rank must be (the )?same",
    ),
    "sizes-as-output": KnownMessage(
        "[ShapeHostToDeviceCopy 0] requires bool or uint8 I/O but node can not be handled by Myelin.",
        "a tensor of sizes was made an output, as polygraphy's mark all does: mark tensors of data alone; "
        "onnxq analyze FLOAT INT8 --data DATA compares layer by layer and marks none",
        "nothing",
        r"HostToDeviceCopy\W",
    ),
    "too-many-elements": KnownMessage(
        "Assertion size <= std::numeric_limits<int32_t>::max() failed.",
        "a tensor has more than 2147483647 elements, which kernels do not count to: a smaller batch, or a "
        "smaller greatest size in --profile; onnxq memory MODEL lists the largest tensors",
        "smaller inputs or batches",
        r"numeric_limits<(std::)?int(32_t)?>::max|exceeds? (INT32_MAX|2\^31)|2\^31 ?- ?1 elements",
    ),
    "branches": KnownMessage(
        "The then/else branches of an If operator must have the same number of outputs.",
        "both branches of an If have to give the same shapes: state what decides, onnxq sanitize MODEL "
        "--assume N=1, or --freeze NAME=true where an input chooses; onnxq check MODEL names it",
        "the engine is for that branch",
        r"I(If)?ConditionalOutputLayer|If_OutputLayer|then/else branches|if-conditional outputs|"
        r"If condition must be",
        general=1,
    ),
    "fixed-sizes": KnownMessage(
        "IShuffleLayer: reshaping failed: volume mismatch. Input dimensions [2,8] have volume 16 and output",
        "a size is written into the file as a number, often the batch of a Reshape: state the batch, onnxq "
        "sanitize MODEL --shape x=Nx3x224x224, which computes such sizes; onnxq check MODEL names the node",
        "nothing",
        r"volume mismatch|reshap(e|ing) .{0,40}(failed|changes? volume)|would change volume|"
        r"reshape wildcard|could not infer .{0,20}reshape",
    ),
    "not-sorted": KnownMessage(
        "Failed to sort the model topologically.",
        "nodes are not in their order, a name is there twice, or there is a circle: onnxq inspect MODEL says "
        "which, onnxq sanitize MODEL writes nodes in their order",
        "nothing",
        r"topological(ly)?|toposort|cycle detected in graph|Output name is not unique|tensors "
        r"with duplicate names|"
        r"circle in the graph",
    ),
    "name-not-made": KnownMessage(
        "Assertion failed: tensors.count(input_name)",
        "the parser meets a name that nothing made before: TensorRT 5 to 7 want weights among the inputs or "
        "have no optional inputs: a newer TensorRT, or onnxq sanitize MODEL --target tensorrt-7",
        "nothing",
        r"tensors(\(\))?\.count\(|tensors\(\)\.at\(output",
    ),
    "plugin-formats": KnownMessage(
        "[pluginV2Builder.cpp::deduceTensorFormat::288] Assertion format.hasValue() failed.",
        "a plugin takes no type, layout or size that stands around it: its supportsFormatCombination has to "
        "allow the types of the engine, its source says which sizes; onnxq inspect MODEL lists the operators "
        "that plugins compute; ONNX's own operators need none",
        "another plugin",
        r"pluginV\dBuilder|deduceTensorFormat|supportsFormatCombination|[/\\]\w+Plugin[/\\]\w+\.(cu|cpp|h)\b",
    ),
    "workspace": KnownMessage(
        "Some tactics do not have sufficient workspace memory to run.",
        "kernels want more scratch memory than they are allowed: trtexec --memPoolSize=workspace:4096, or "
        "config.set_memory_pool_limit(trt.MemoryPoolType.WORKSPACE, bytes); it is a remark while an engine "
        "is built",
        "memory of the GPU",
        r"sufficient workspace|requires .{0,40}scratch space|increas\w+ (the )?workspace|scratch requested",
    ),
    "host-memory": KnownMessage(
        "INVALID_NODE: Invalid Node - ArgMax std::bad_alloc",
        "the memory of the machine, not that of the GPU, is too small, or a library of plugins was built "
        "otherwise than TensorRT: close other programs, or build on a larger machine; of a plugin, take the "
        "release build",
        "nothing",
        r"(?=.*(TRT|TensorRT|trtexec|Node|parse))(?=.*(std::bad_alloc|bad allocation|out of host memory))",
    ),
    "weights-of-another-size": KnownMessage(
        "kernel weights has count 864 but 288 was expected",
        "channels of weights and input do not fit each other: onnxq check MODEL says whether the file is at "
        "fault; in code that builds a network by hand, weights are in the order [out, in, height, width]",
        "nothing",
        r"weights has count \d+ but|(kernel|bias) weights .{0,40}expected|channel count to be",
    ),
    "format-of-gpu": KnownMessage(
        "Networks with FP8 Q/DQ layers require hardware with FP8 support.",
        "the GPU has no kernels of that number format: onnxq quantize MODEL --calib DATA --format int8, or a "
        "GPU that has them (FP8 from 8.9 on, FP4 from 10.0 on)",
        "int8 in its place",
        r"(FP8|FP4|INT4|BF16)\b.{0,60}(requires? hardware|hardware support|platform|compute capability)",
    ),
    "refit": KnownMessage(
        "Engine is not refittable. Build it with BuilderFlag::kREFIT",
        "weights can be replaced only in an engine that was built for it: trtexec --refit, or --stripWeights "
        "with a refit before it runs",
        "a larger engine, or slower kernels",
        r"not refittable|isRefittable|kREFIT|I(nfer)?Refitter|refit(ting)? (the )?(engine|weights)",
    ),
    "clocks": KnownMessage(
        "GPU compute time is unstable, with coefficient of variance = 4.2%.",
        "a remark on the measurement, not on the model: lock the clocks (nvidia-smi -lgc MHZ) and measure "
        "longer (--duration=30); bound by enqueue means short kernels: --useCudaGraph",
        "nothing",
        r"compute time is unstable|throughput may be bound by|lock(ing)? the (GPU )?clock",
    ),
    "remark-of-the-builder": KnownMessage(
        "CUDA lazy loading is not enabled.",
        "a remark: nothing is to be done; CUDA_MODULE_LOADING=LAZY in the environment saves "
        "memory of the GPU",
        "nothing",
        r"lazy loading is not enabled|hardware does not support TF32|TF32 is enabled by default|"
        r"requires GPU export, automatically|no custom ops found|shape inference of \S+ type is missing|"
        r"symbolic_shape_infer.{0,60}could not be loaded|multiple dynamic values may have|"
        r"more performance might be enabled|non-linear IO formats are not supported",
    ),
    "warning": KnownMessage(
        "[W] [TRT] ...",
        "a warning: TensorRT goes on, and nothing is to be done while an engine is built; else the first [E] "
        "line says why",
        "nothing",
        r"^\W*\[W\]|\[W\].{0,8}\[TRT\]|\[TRT\].{0,8}\[W\]|\[TensorRT\] WARNING|WARNING: \[TRT\]|"
        r"^.{0,40}\[(I|V|D)\] ",
        general=2,
    ),
    "error": KnownMessage(
        "[E] [TRT] ...",
        "TensorRT stops, and this line says little: give the first [E] line and those around it; onnxq check "
        "MODEL asks parser and compiler without a GPU, onnxq sanitize MODEL repairs much of what they reject",
        "nothing",
        r"\[E\].{0,8}\[TRT\]|\[TRT\].{0,8}\[E\]|\[TensorRT\] ERROR|ERROR: \[TRT\]|"
        r"\b(TensorRT\b|trtexec\b|polygraphy).{0,120}\b(error|fail\w*|unable|exception|cannot|could not)\b|"
        r"\b(error|fail\w*|unable|exception|cannot|could not)\b.{0,60}\b(TensorRT|trtexec|polygraphy)\b"
        r"|\bI(Builder|Runtime|CudaEngine|ExecutionContext|Network|Parser|OnnxParser|Plugin|Refitter)\w*::|"
        r"nvinfer1::|nvonnxparser|\[\d\d/\d\d/\d{4}-[\d:]{8}\] \[[EF]\]|^\[!\] .*\b(engine|network|runner|"
        r"profile|model|graph)\b",
        general=2,
    ),
    "padding-of-a-layer": KnownMessage(
        "IDeconvolutionLayer::setPostPadding: Parameter check failed, condition: allDimsGtEq(postPadding, 0)",
        "this release takes no such padding, as one below 0 or of a layer with one dimension: a newer "
        "TensorRT, or an export that pads by 0 and cuts the output behind the layer",
        "another export",
        r"set(Pre|Post)Padding|allDimsGtEq\((pre|post)Padding",
    ),
    "no-argument": KnownMessage(
        "IBuilderConfig::setDeviceType: Error Code 3: API Usage Error (Parameter check failed, condition: "
        "(layer) != nullptr. )",
        "the program hands on nothing where TensorRT wants a layer or a tensor: a call before it failed, "
        "mostly the parser, whose result was not looked at; the first error says which",
        "nothing",
        r"condition: \(?\w+\)? != nullptr",
    ),
    "layer-refused": KnownMessage(
        "IReduceLayer: reduce axes must be within the rank",
        "the builder refuses a layer as it stands: onnxq check MODEL compiles without a GPU and "
        "names the node, "
        "onnxq sanitize MODEL repairs many",
        "see the rule or the advice that the message leads to",
        r"\bI[A-Z]\w+Layer\b|API Usage Error|\b(rank|dimensions?) of .{0,40}must (be|have)",
        general=1,
    ),
    "builder-fault": KnownMessage(
        "Error Code 2: Internal Error (Assertion isIOGraph failed.)",
        "an assertion inside TensorRT failed, or it died, mostly over one pattern of the graph: onnxq "
        "sanitize MODEL simplifies the graph, which often helps; else another patch release; onnxq split "
        "MODEL --at TENSOR "
        "halves the model until the part is found",
        "nothing",
        r"Error (Code:? ?)?\[?\d+\]?: (Internal Error|Miscellaneous|Unsupported)|\[\w+\.cpp::\S+::\d+\]|"
        r"\[[EF]\] \[?TRT\]?.{0,80}assert|Assertion Error in|(\.\.|source)/(builder|rtSafe|rtExt|"
        r"runtime)/\S+\.(cpp|cu)|(trtexec|TensorRT).{0,200}segmentation fault|segmentation "
        r"fault.{0,60}(trtexec|TensorRT)",
        general=1,
    ),
}
"""By a name."""
