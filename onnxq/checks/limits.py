"""From where on a finding is worth a word; each number with its reason."""

from __future__ import annotations

from onnxq.formats import INT8

POOR_DB = 25.0
"""Signal to rounding noise of a tensor under its scale, dB.

A Gaussian whose range is six standard deviations has 37; below 25 the noise is over 5 % of the values' size.
"""

GAIN_DB = 6.0
"""What a tensor has to gain for a cause to be told, dB: one bit."""

FAINT_DB = 6.0
"""An addend of which the scale of the sum leaves less, dB: half of its size is noise."""

OUTPUT_DB = 30.0
"""An output of which int8 leaves less, dB: 3 % of its size are noise, and nothing behind it averages."""

CODES = 8
"""What has so few of the 127 codes of a side is told: three bits."""

APART = INT8.greatest / CODES
"""Ratio of two ranges from which on the smaller one has `CODES` codes under the scale of the larger one."""

OUTLIERS = 1 / 32
"""Share of the channels that may be outliers: of more it is the tensor's range."""

CHANNELS = 8
"""Of fewer channels none is an outlier."""

OUTLIER = 4.0
"""Ratio of an outlier channel to the greatest other one: the others lose two bits."""

MODE = 1e-3
"""Share of the values from which on they are a mode of the distribution; a percentile clips fewer."""

LOWER_MODE = 0.1
"""The same for the smaller values: a few of them are a tail, and lose little."""

DUST = 2.0**-16
"""Of the greatest magnitude: what is smaller is as good as zero to the layers behind."""

BETWEEN = 1e-4
"""Share of the values that may lie between two modes."""

FAR = 8.0
"""Ratio of the range to the 99.99th percentile: three bits for one value in ten thousand."""

CLIPPED = 0.01
"""Share of the values that a scale may saturate: nobody calibrates with a percentile below 99."""

UNUSED = 8.0
"""Ratio of what a scale covers to what there is: three of the eight bits are never used."""

HEAVY = 0.1
"""Share of the multiply-accumulates from which on a layer in float is told."""

WEAK_CHANNELS = 0.1
"""Share of a weight's channels that have to suffer of one scale."""

SCORE_CODES = 32
"""A score from 0 to 1 with fewer codes cannot be thresholded to 0.03."""

CONFIDENCE = 0.9
"""Of the interval of a scale."""

WIDE = 1.25
"""Ratio of the ends of that interval from which on it is told: a third of a bit."""
