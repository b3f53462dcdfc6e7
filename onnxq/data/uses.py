"""Which samples were read for what: those that verify decide nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Literal

from onnxq.base.errors import Fault
from onnxq.data.samples import Sample

Use = Literal["calibrate", "fit", "choose", "confirm", "cross", "verify"]


@dataclass(frozen=True, slots=True)
class SampleUses:
    """What samples were read for, so far.

    Attributes:
        indices: those of the samples that were read for each use, of one that was read at all.
        own: whether there were samples for a use that nothing else has, of one that was asked for.
    """

    indices: dict[Use, set[int]] = field(default_factory=dict)
    own: dict[Use, bool] = field(default_factory=dict)

    def noted(self, use: Use, samples: Iterable[Sample], shared: Callable[[], bool]) -> Iterator[Sample]:
        """Samples that are read for a use, each noted as it is.

        Args:
            use: what they are read for.
            samples: they.
            shared: whether samples may both verify and decide, as there are too few.

        Raises:
            Fault: one of them does both all the same.
        """
        for sample in samples:
            self.indices.setdefault(use, set()).add(sample.index)
            uses = [known for known, indices in self.indices.items() if sample.index in indices]
            if "verify" in uses and len(uses) > 1 and not shared():
                both = " and to ".join(sorted(uses))
                raise Fault(f"{sample.where} was read to {both}: its figures would be too good")
            yield sample
