"""Arrays by the channels of one axis."""

from __future__ import annotations

import numpy as np

from onnxq.graph.channels import along, by_channel


def test_rows_of_channels_and_what_meets_them() -> None:
    values = np.arange(24).reshape(2, 3, 4)
    rows = by_channel(values, 1)
    assert rows.shape == (3, 8)
    assert rows[2].tolist() == [8, 9, 10, 11, 20, 21, 22, 23]
    scales = np.array([1, 10, 100])
    assert along(scales, 1, 3).shape == (1, 3, 1)
    np.testing.assert_array_equal(by_channel(values * along(scales, 1, 3), 1), rows * scales[:, None])
