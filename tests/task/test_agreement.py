"""Whose argmax is to agree: an output of floats."""

from __future__ import annotations

import numpy as np
import pytest
from test_stated import tensors

from onnxq.base.errors import UserError
from onnxq.task.known import output_with_classes

F = np.dtype(np.float32)
K, LOGITS, BOXES = tensors([
    ("k", np.dtype(np.int64), (1, 10)), ("logits", F, (1, 10)), ("boxes", F, (1, 4, 20)),
])  # fmt: skip


def test_integers_are_refused_and_a_float_output_is_named() -> None:
    for name in ("k", None):
        with pytest.raises(UserError, match=r"'k' is to agree, .* int64"):
            output_with_classes([K], name)
    with pytest.raises(UserError) as named:
        output_with_classes([K, LOGITS], "k")
    assert "logits=99" in named.value.hint
    with pytest.raises(UserError, match="2 outputs") as several:
        output_with_classes([K, BOXES])
    assert "boxes=99" in several.value.hint
    assert output_with_classes([K, BOXES, LOGITS]) == "logits"
    with pytest.raises(UserError, match="no output 'z'"):
        output_with_classes([K, LOGITS], "z")
