"""The user's data, opened for a model that runs as it is."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence

from onnxq.base.progress import Observer
from onnxq.data.samples import InputSpec, Sample, named
from onnxq.data.sources import DataSource, Source, open_source
from onnxq.options.grouped import Options


def open_data(
    data: DataSource,
    specs: Sequence[InputSpec],
    asked: Options,
    most: int | None,
    observe: Observer,
    step: str,
) -> tuple[Source, Iterator[Sample], Callable[[int], None]]:
    """Opens data for inputs.

    Args:
        data: the data.
        specs: the inputs.
        asked: how it is read.
        most: how many samples at most; None: all.
        observe: is told the progress.
        step: the name of the step that it is progress of.

    Returns:
        The data, so many of its samples, and what is to hear how many of these are done.

    Raises:
        UserError: as `open_source`.
    """
    feeding = asked.feeding
    specs = named(specs, feeding.input_names)
    source = open_source(data, specs, options=asked.images, skip_bad=feeding.skip_bad)
    total = source.count if most is None or source.count is None else min(most, source.count)
    return source, itertools.islice(source, most), lambda done: observe(step, done, total)
