"""What is said of arrays whose sizes do not fit an input."""

from __future__ import annotations

import numpy as np
import pytest

from onnxq.base.errors import UserError
from onnxq.data.layout import layout
from onnxq.data.samples import InputSpec


@pytest.mark.parametrize(
    ("shape", "said"),
    [
        ((5, 9, 9), "read without axis 1 of the input, which is 1, sizes 9, 9 where 8, 8 are needed "
                    "(axes 1, 2 of the data, axes 2, 3 of the input)"),
        ((5, 8, 9), "read without axis 1 of the input, which is 1, size 9 where 8 is needed "
                    "(axis 2 of the data, axis 3 of the input)"),
        ((1, 9, 9), "sizes 9, 9 where 8, 8 are needed (axes 1, 2 of the data, axes 2, 3 of the input)"),
        ((16, 5, 9, 9), "sizes 5, 9, 9 where 1, 8, 8 are needed (axes 1, 2, 3 of the data"),
        ((16, 5, 8, 8), "size 5 where 1 is needed (axis 1 of the data, axis 1 of the input)"),
    ],
)  # fmt: skip
def test_all_sizes_that_do_not_fit_are_named_as_the_data_are_likely_meant(
    shape: tuple[int, ...], said: str
) -> None:
    """It named axis 0, of pictures without a channel."""
    spec = InputSpec("x", np.dtype(np.float32), ("N", 1, 8, 8))
    with pytest.raises(UserError) as refused:
        layout(shape, spec, True, "here")
    assert said in str(refused.value)
