"""Opening an onnxruntime session: what it is made with as data, and what to do where it cannot be made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import onnxruntime

from onnxq.base.process import bound_cores

Level = Literal["all", "extended", "basic", "off"]
"""How far onnxruntime may rewrite the graph."""

_LEVELS: Mapping[str, str] = {
    "all": "ORT_ENABLE_ALL",
    "extended": "ORT_ENABLE_EXTENDED",
    "basic": "ORT_ENABLE_BASIC",
    "off": "ORT_DISABLE_ALL",
}


@dataclass(slots=True)
class SessionSettings:
    """What a session is made with, which another process can be told.

    Attributes:
        level: how far the graph may be rewritten.
        threads: threads inside an operator, 0 for all cores.
        memory_pattern: whether memory is planned for all of a run.
        in_order: whether nodes run in the order of the model, not in one that onnxruntime chooses.
        libraries: those of custom operators.
        config: onnxruntime's other settings.
        save: a file for the rewritten model, or "".
    """

    level: Level = "all"
    threads: int = 0
    memory_pattern: bool = True
    in_order: bool = False
    libraries: tuple[str, ...] = ()
    config: dict[str, str] = field(default_factory=dict)
    save: str = ""

    def open(self, source: bytes | str) -> Any:
        """A session of a model or of its file.

        Raises:
            Exception: one of onnxruntime's, which are a dozen classes without a common base.
        """
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        options.intra_op_num_threads = self.threads or bound_cores()  # it counts those of the machine
        options.enable_mem_pattern = self.memory_pattern
        if self.in_order:  # of nodes that are ready, the first one of the model
            options.execution_order = onnxruntime.ExecutionOrder.PRIORITY_BASED
        options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, _LEVELS[self.level])
        for library in self.libraries:
            options.register_custom_ops_library(library)
        # a thread that waits for work busily takes CPU time that others want: up to a third of all
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        for key, value in self.config.items():
            options.add_session_config_entry(key, value)
        if self.save:
            options.optimized_model_filepath = self.save
        return onnxruntime.InferenceSession(source, options, providers=["CPUExecutionProvider"])
