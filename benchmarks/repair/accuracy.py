"""Accuracy with and without repair, and other tools', on samples that no tool saw; what has to be so."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median

from benchmarks.repair import intervals, tools
from benchmarks.repair.intervals import Figure, Row, Value
from benchmarks.repair.nets import FITTING, Net
from benchmarks.repair.printing import claim, table
from benchmarks.repair.rows import Rows

LEAST_INT8 = 0.95
NEAR = 0.3  # points of top-1, of MNIST and CIFAR-10
LOSS, NEAR_BEFORE = 0.2, 0.3  # dB
MOBILE, MOBILE_SAMPLES = "CONV_mobilenetv1_0.25_224_keras", 64
MOBILE_LEVEL, MOBILE_TOP1 = 29.0, 96.0  # dB, percent of the float model's
OVER_DEFAULT, OVER_MAX, OVER_NONE = 8.0, 5.0, 3.0  # dB
LOGITS = {
    "ultraface_rfb320": 37.0, "CONV_mobilenetv1_0.25_224_keras": 28.0, "CONV_squeezenet_winml_fp32": 31.0,
    "mobilenetv2_0.35_128_flowers_st": 31.5,
}  # fmt: skip
"""The least SQNR of the logits, dB."""

_CLOSER = {
    "worst part": intervals.worst, "logits": intervals.logits_about_mean, "with mean": intervals.logits,
}  # fmt: skip


def printed(nets: Sequence[Net], rows: Rows, before: str) -> None:
    """All nets of which there are rows; `before`: the tool that is repair of another checkout."""
    ours = {"none": "none", "before": before, "repair": "auto"}
    nets = [net for net in nets if any(rows.of(net, tool) for tool in ours.values())]
    print("\nSQNR about the mean on samples that judge alone, dB; 95 % intervals in brackets")
    print(f"before: {before}\n")
    titles = ["net", "judged by", *tools.PEERS.values(), *ours, "gain"]
    table(titles, [_levels(net, rows, ours) for net in nets])
    print(
        "\nof the worst part of the outputs; of the logits; of these with their mean counted as signal, dB\n"
    )
    titles = ["net", *(f"{name}, {tool}" for name in _CLOSER for tool in ours)]
    table(titles, [[net.title, *_each(net, rows, ours, *_CLOSER.values())] for net in nets])
    print("\nhow often the answer is the float model's (a class, or an anchor over the threshold), %;")
    print("top-1 against it, points; what is int8\n")
    titles = ["net", *(f"{name}, {tool}" for name in ("agreement", "top-1", "int8 %") for tool in ours)]
    table([*titles, "int8 layers"], [_answers(net, rows, ours) for net in nets])
    for net in nets:
        for tool in (*tools.PEERS, *ours.values()):
            for row in rows.of(net, tool):
                if "error" in row:
                    print(f"\n{net.title}, {tool}: {row['error']}")
    print()
    _claims(nets, rows, before)


def _levels(net: Net, rows: Rows, ours: Mapping[str, str]) -> list[str]:
    """How near the outputs are."""
    none, before, auto = (_good(rows, net, tool) for tool in ours.values())
    judges = f"{len(none[0]['noise'])} x {len(none)}" if none else ""
    return [
        net.title,
        f"{judges}{', stand-in' * (net.kind == 'stand-in')}",
        *_each(net, rows, {tool: tool for tool in tools.PEERS} | ours, intervals.sqnr),
        _gain(auto or before, none),
    ]


def _answers(net: Net, rows: Rows, ours: Mapping[str, str]) -> list[str]:
    """What a user sees, and what the engine runs."""
    firsts = [row for tool in ours.values() for row in _good(rows, net, tool)[:1] if "layers" in row]
    layers = dict.fromkeys(f"{row['int8_layers']} of {row['layers']}" for row in firsts)
    return [
        net.title,
        *_each(net, rows, ours, intervals.agreement, intervals.top1_change),
        *(_share(_good(rows, net, tool)) for tool in ours.values()),
        ", ".join(layers),
    ]


def _share(rows: Sequence[Row]) -> str:
    shares = [100 * row["int8"] for row in rows if row.get("int8") is not None]
    return f"{min(shares):.1f}" if shares else ""


def _each(net: Net, rows: Rows, given: Mapping[str, str], *figures: Figure) -> list[str]:
    """Figures of tools, "" where there is none."""
    return [_figure(_good(rows, net, tool), figure) for figure in figures for tool in given.values()]


def _claims(nets: Sequence[Net], rows: Rows, before: str) -> None:
    """What repair has to reach, each with what it reached."""
    over: dict[str, list[float]] = {"modelopt-default": [], "modelopt-max": []}
    for net in nets:
        auto, none = _good(rows, net, "auto"), _good(rows, net, "none")
        if not auto:
            continue
        gain = _paired(auto, none, intervals.sqnr)
        if gain is not None:
            claim(f"{net.title}: loses at most {LOSS} dB", gain.value >= -LOSS, f"{gain.value:+.2f} dB")
        better = _paired(auto, _good(rows, net, before), intervals.sqnr)
        if better is not None:
            what = f"{net.title}: at most {NEAR_BEFORE} dB behind before"
            claim(what, better.value >= -NEAR_BEFORE, _text(better))
        for row in auto[:1]:
            share = row.get("int8")
            if share is not None:
                claim(f"{net.title}: {LEAST_INT8:.0%} int8", share >= LEAST_INT8, f"{share:.1%}")
        both = [pair for pair in zip(none, auto, strict=False) if all("layers" in row for row in pair)]
        if both:
            more = min(after["int8_layers"] - before["int8_layers"] for before, after in both)
            claim(f"{net.title}: as many int8 layers as without", more >= 0, f"{more:+d}")
        if net.name.startswith(("mnist", "cifar10")):
            change = intervals.of(auto, intervals.top1_change)
            claim(f"{net.title}: top-1 within {NEAR} points of float", change.value >= -NEAR, _text(change))
        if net.name == MOBILE and net.fitting == MOBILE_SAMPLES and net.published is not None:
            level, right = (intervals.of(auto, one) for one in (intervals.sqnr, intervals.top1_share))
            claim(f"{net.title}: at least {MOBILE_LEVEL:g} dB", level.value >= MOBILE_LEVEL, _text(level))
            claim(
                f"{net.title}: {MOBILE_TOP1:g} % of float's top-1", right.value >= MOBILE_TOP1, _text(right)
            )
        if net.name in LOGITS and net.fitting == FITTING:
            level, least = intervals.of(auto, intervals.logits), LOGITS[net.name]
            claim(f"{net.title}: logits at least {least:g} dB", level.value >= least, _text(level))
        if net.name in ("vit", "text") and gain is not None:
            claim(f"{net.title}: at least {OVER_NONE:.0f} dB over none", gain.value >= OVER_NONE, _text(gain))
        if net.kind != "planted":
            for tool, found in over.items():
                ahead = _paired(auto, _good(rows, net, tool), intervals.sqnr)
                if ahead is not None:
                    found.append(ahead.value)
                    claim(f"{net.title}: not behind {tool}", ahead.value >= 0, f"{ahead.value:+.2f} dB")
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
