"""Accuracy with and without repair, and other tools', on samples that no tool saw; what has to be so."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from benchmarks.repair import intervals, tools
from benchmarks.repair.intervals import Figure, Row, Value
from benchmarks.repair.nets import Net
from benchmarks.repair.printing import claim, table
from benchmarks.repair.rows import Rows

LEAST_INT8 = 0.95
NEAR = 0.3  # points of top-1, of MNIST and CIFAR-10
LOSS = 0.2  # dB
OVER_DEFAULT, OVER_MAX, OVER_NONE = 8.0, 5.0, 3.0  # dB
LOGITS = {
    "ultraface_rfb320": 37.0, "CONV_mobilenetv1_0.25_224_keras": 28.0, "CONV_squeezenet_winml_fp32": 31.0,
    "mobilenetv2_0.35_128_flowers_st": 31.5,
}  # fmt: skip
"""The least SQNR of the logits, dB."""


def printed(nets: Sequence[Net], rows: Rows) -> None:
    """All nets of which there are rows."""
    nets = [net for net in nets if any(rows.of(net, tool) for tool in tools.OURS)]
    print("\nSQNR about the mean on samples that judge alone, dB; 95 % intervals in brackets")
    print("logits: SQNR in front of the Softmax, their mean counted as signal\n")
    titles = ["net", "judged by", "Model-Optimizer", "its max", "onnxruntime", "no repair", "repair", "gain"]
    table([*titles, "logits, none", "repair"], [_levels(net, rows) for net in nets])
    print("\nhow often the answer is the float model's, %; top-1 against it, points; what is int8\n")
    titles = ["net", "agreement, none", "repair", "top-1, none", "repair", "int8 %", "int8 layers"]
    table(titles, [_answers(net, rows) for net in nets])
    for net in nets:
        for tool in (*tools.PEERS, *tools.OURS):
            for row in rows.of(net, tool)[:1]:
                if "error" in row:
                    print(f"\n{net.name}, {tool}: {row['error']}")
    print()
    _claims(nets, rows)


def _levels(net: Net, rows: Rows) -> list[str]:
    """How near the outputs are."""
    auto, none = _good(rows, net, "auto"), _good(rows, net, "none")
    judges = f"{len(none[0]['noise'])} x {len(none)}" if none else ""
    return [
        net.name,
        f"{judges}{', stand-in' * (net.kind == 'stand-in')}",
        *(_figure(_good(rows, net, tool), intervals.sqnr) for tool in (*tools.PEERS, *tools.OURS)),
        _gain(auto, none),
        *(_figure(given, intervals.logits) for given in (none, auto)),
    ]


def _answers(net: Net, rows: Rows) -> list[str]:
    """What a user sees, and what the engine runs."""
    auto, none = _good(rows, net, "auto"), _good(rows, net, "none")
    shares = [100 * row["int8"] for row in auto if row.get("int8") is not None]
    layers = [f"{row['int8_layers']} of {row['layers']}" for row in (*none[:1], *auto[:1]) if "layers" in row]
    return [
        net.name,
        *(_figure(given, intervals.agreement) for given in (none, auto)),
        *(_figure(given, intervals.top1_change) for given in (none, auto)),
        f"{min(shares):.0f}" if shares else "",
        ", ".join(dict.fromkeys(layers)),
    ]


def _claims(nets: Sequence[Net], rows: Rows) -> None:
    """What repair has to reach, each with what it reached."""
    over: dict[str, list[float]] = {"modelopt-default": [], "modelopt-max": []}
    for net in nets:
        auto, none = _good(rows, net, "auto"), _good(rows, net, "none")
        if not auto:
            continue
        gain = _paired(auto, none, intervals.sqnr)
        if gain is not None:
            claim(f"{net.name}: loses at most {LOSS} dB", gain.value >= -LOSS, f"{gain.value:+.2f} dB")
        for row in auto[:1]:
            share = row.get("int8")
            if share is not None:
                claim(f"{net.name}: {LEAST_INT8:.0%} int8", share >= LEAST_INT8, f"{share:.1%}")
        both = [pair for pair in zip(none, auto, strict=False) if all("layers" in row for row in pair)]
        if both:
            more = min(after["int8_layers"] - before["int8_layers"] for before, after in both)
            claim(f"{net.name}: as many int8 layers as without", more >= 0, f"{more:+d}")
        if net.name.startswith(("mnist", "cifar10")):
            change = intervals.of(auto, intervals.top1_change)
            claim(f"{net.name}: top-1 within {NEAR} points of float", change.value >= -NEAR, _text(change))
        if net.name in LOGITS:
            level, least = intervals.of(auto, intervals.logits), LOGITS[net.name]
            claim(f"{net.name}: logits at least {least:g} dB", level.value >= least, _text(level))
        if net.name in ("vit", "text") and gain is not None:
            claim(f"{net.name}: at least {OVER_NONE:.0f} dB over none", gain.value >= OVER_NONE, _text(gain))
        if net.kind != "planted":
            for tool, found in over.items():
                ahead = _paired(auto, _good(rows, net, tool), intervals.sqnr)
                if ahead is not None:
                    found.append(ahead.value)
                    claim(f"{net.name}: not behind {tool}", ahead.value >= 0, f"{ahead.value:+.2f} dB")
    for tool, least in (("modelopt-default", OVER_DEFAULT), ("modelopt-max", OVER_MAX)):
        if over[tool]:
            level = median(over[tool])
            what = f"median over {len(over[tool])} nets at least {least:.0f} dB over {tool}"
            claim(what, level >= least, f"{level:+.2f} dB, least {min(over[tool]):+.2f}")


def _good(rows: Rows, net: Net, tool: str) -> list[Row]:
    """The rows of a tool where it made a model of every split."""
    found = rows.of(net, tool)
    return found if all("error" not in row for row in found) else []


def _paired(auto: Sequence[Row], others: Sequence[Row], figure: Figure) -> Value | None:
    """The difference on the splits that both have: the first ones."""
    count = min(len(auto), len(others))
    return intervals.difference(auto[:count], others[:count], figure) if count else None


def _gain(auto: Sequence[Row], none: Sequence[Row]) -> str:
    found = _paired(auto, none, intervals.sqnr)
    return "" if found is None else f"{found.value:+.2f} [{found.low:+.2f}, {found.high:+.2f}]"


def _figure(rows: Sequence[Row], figure: Figure) -> str:
    """The figure of a tool, "" where it has none."""
    try:
        return _text(intervals.of(rows, figure)) if rows else ""
    except KeyError:
        return ""


def _text(value: Value) -> str:
    return f"{value.value:.2f} [{value.low:.2f}, {value.high:.2f}]"
