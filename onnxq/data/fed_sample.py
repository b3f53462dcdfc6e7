"""What a model is fed, and where it is from: labels are found by that."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from onnxq.data.images import Preparation


class FedSample(dict[str, np.ndarray]):
    """A sample's arrays by input.

    Attributes:
        where: the file that they are of, or its place among others.
        images: how images became inputs; none where they did not.
    """

    def __init__(
        self, feeds: Mapping[str, np.ndarray], where: str, images: Sequence[Preparation] = ()
    ) -> None:
        super().__init__(feeds)
        self.where, self.images = where, tuple(images)
