"""What is told by who asks the target's table, the rules, onnxruntime, NVIDIA's compiler and the data.

These are checks without a function: their findings are made where the answer is heard.
"""

from __future__ import annotations

from onnxq.checks import stated

UNSUPPORTED = stated(
    "unsupported", "an operator, type or feature that the target lacks", needs="target", severity="error"
)
REPAIRABLE = stated(
    "repairable", "the same, where a rule of `onnxq sanitize` repairs it", needs="target", severity="error"
)
NEAR_MISS = stated(
    "near-miss", "the same, where a rule would if it knew more", needs="target", severity="error"
)
PLUGIN = stated("plugin", "a plugin of the target's own library", needs="target", severity="note")
RUNTIME = stated("runtime", "onnxruntime does not take the file: nothing can be measured", needs="target")

PARSER = stated("parser", "NVIDIA's parser rejects the file", needs="engine", severity="error")
COMPILER = stated("compiler", "NVIDIA's compiler builds no engine", needs="engine", severity="error")

NOT_MEASURED = stated("not-measured", "the data could not be run through the model", needs="data")
FAILED_CHECK = stated("failed-check", "a check that failed: a fault of onnxq", needs="data", severity="note")

OWN_CHECK = stated(
    "own-check", "what a function of yours finds, where it is no check", needs="plan", kind="own"
)
BROKEN_CHECK = stated(
    "broken-check",
    "a function of yours that fails, or gives no findings",
    needs="plan",
    severity="error",
    kind="own",
)
