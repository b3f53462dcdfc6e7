"""Whether the file that is written gives what was measured of it, on the samples that chose its repair.

With a float32 body: the ledger's figure was measured in one too.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from pathlib import Path

import onnx

import onnxq
from benchmarks.repair.nets import Net
from benchmarks.repair.printing import claim
from onnxq.data.samples import InputSpec
from onnxq.data.sources import open_source
from onnxq.data.split import split
from onnxq.judge.about_mean import AboutMeanMeter
from onnxq.run import ort
from onnxq.run.compare import compare_models

APART = 0.05  # dB: a rounding boundary crossed by other sums


def printed(nets: Sequence[Net]) -> None:
    """The first split of each net."""
    print("\nthe written file on the samples that chose its repair, against the ledger\n")
    for net in nets:
        given, samples = net.model(0), list(net.split(0).fitting)
        done = onnxq.quantize(given, samples, body="fp32", compile=False)
        ledger = done.report.repair
        assert ledger is not None
        if ledger.after_db is None:
            print(f"       {net.title}: {ledger.why_not or 'nothing was measured'}")
            continue
        model = onnx.load(given) if isinstance(given, Path) else given
        specs = [InputSpec(name, array.dtype, array.shape) for name, array in samples[0].items()]
        chosen = split(open_source(samples, specs), len(samples), 0, choose=True).choice()
        feeds = [sample.feeds for sample in islice(chosen, ledger.judged_on)]
        floats = ort.load(model)
        meter = AboutMeanMeter(floats.outputs)
        compare_models(floats, ort.load(done.model), feeds, meters=[meter])
        found = meter.result().sqnr_about_mean_db or 0.0
        said = f"{found:.2f} dB, {ledger.after_db:.2f} in the ledger"
        claim(net.title, abs(found - ledger.after_db) <= APART, said)
