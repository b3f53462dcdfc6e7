"""What is decided by running the model, or compiling it: a search a file, in their order.

`PLANNED` are those of whatever needs scales, `WRITTEN` those up to the model as it is written, and `COMPILED`
those in which NVIDIA's compiler has a say.
"""

from __future__ import annotations

from onnxq.pipeline.searches.body import BODY
from onnxq.pipeline.searches.bytes import BYTES
from onnxq.pipeline.searches.compile import COMPILE
from onnxq.pipeline.searches.formats import MIX
from onnxq.pipeline.searches.goal import GOAL
from onnxq.pipeline.searches.joints import JOINTS
from onnxq.pipeline.searches.loud import LOUD
from onnxq.pipeline.searches.repair import REPAIR
from onnxq.pipeline.searches.scales import SCALES

PLANNED = (SCALES, REPAIR, JOINTS, LOUD)
WRITTEN = (GOAL, BODY)
COMPILED = (COMPILE, BYTES, MIX)
