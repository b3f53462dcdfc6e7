"""Write `GridSample` as Gathers of each place's neighbours and their weighted sum.

TensorRT samples images from 8.5 on, and volumes (5-D) from 11.2 on:

    must be tensors of rank 4
    No importer registered for op: GridSample

    before    y = GridSample<mode="linear">(x, grid)                            x: [N, C, D, H, W]
    after     place = ((grid + 1) * [W, H, D] - 1) / 2, its neighbours and their weights along each axis
              v = Gather(rows of x, neighbour) * weight, eight times, added up
              y = Transpose(v)

It takes memory for eight values of each place and channel, of an image for four, in the mode `nearest` for one. Places
are computed as onnxruntime does.
"""

from typing import Any

import numpy as np
from _opsets import size_of, sliced, unsqueezed

from onnxq.rule import Close, Except, Fires, Node, Skip, Skips, Value, float32_only, op, required, rule


@rule("GridSample", stage="compat")
def grid_sample_gathers(node: Node) -> Any:
    x, grid = required(node, 2)
    if not node.lacks("grid-sample-3d" if x.rank == 5 else "GridSample"):
        return None
    mode, shape = node.attr("mode", "linear"), x.shape
    if x.dtype != np.float32 or shape is None or not isinstance(shape[1], int):
        raise Skip(f"the type or the number of channels of {x.name!r} is not known, or no float32's")
    if mode in ("cubic", "bicubic") or len(shape) not in (4, 5):
        raise Skip(f"its mode is {mode}, of {len(shape)} dimensions")
    rank = len(shape) - 2
    sizes = [size_of(node, x, 2 + side) for side in range(rank)]
    lines = [_neighbours(node, grid, rank - 1 - side, sizes[side], mode == "nearest") for side in range(rank)]
    rows = op.Reshape(op.Transpose(x, perm=[0, *range(2, rank + 2), 1]), np.array([-1, shape[1]]))
    images = size_of(node, x, 0)
    count = (
        op.Range(np.int64(0), images, np.int64(1)) if isinstance(images, Value) else np.arange(int(images))
    )
    y = _summed(node, rows, op.Reshape(count, np.array([-1] + [1] * rank)), sizes, lines)
    back = op.Transpose(y, perm=[0, rank + 1, *range(1, rank + 1)])
    return Except(Close(back), "extreme-input", "a place so far away has no neighbours")


def _summed(node: Node, rows: Value, begin: Any, sizes: list[Any], lines: list[Any]) -> Value:
    """The weighted sum of the rows from `begin` on, a number for each place, axis by axis."""
    if not lines:
        return op.Gather(rows, begin)
    parts = []
    for element, weight in lines[0]:
        part = _summed(node, rows, op.Add(op.Mul(begin, sizes[0]), element), sizes[1:], lines[1:])
        parts.append(part if weight is None else op.Mul(part, unsqueezed(node, weight, [-1])))
    return parts[0] if len(parts) == 1 else op.Add(*parts)


def _neighbours(
    node: Node, grid: Value, number: int, size: Any, nearest: bool
) -> list[tuple[Value, Value | None]]:
    """The elements near each place along one axis and their weights; None for a weight of one."""
    aligned, padding = bool(node.attr("align_corners", 0)), node.attr("padding_mode", "zeros")
    wide = op.Cast(size, to=1) if isinstance(size, Value) else np.float32(size)
    last = op.Sub(wide, np.float32(1)) if isinstance(size, Value) else np.float32(size - 1)
    rank = len(grid.shape or ()) - 2
    given = op.Add(
        op.Squeeze(sliced(node, grid, [number], [number + 1], [rank + 1]), np.array([rank + 1])),
        np.float32(1),
    )
    if aligned:
        place = op.Mul(op.Div(given, np.float32(2)), last)
    else:
        place = op.Div(op.Sub(op.Mul(given, wide), np.float32(1)), np.float32(2))
    place = float32_only(op.Round(place) if nearest else place)
    if padding == "reflection":
        if isinstance(size, Value) or (aligned and size < 2):
            raise Skip("it reflects at the ends of an axis whose size is dynamic, or 1")
        ends = (0.0, size - 1.0) if aligned else (-0.5, size - 0.5)
        place = _reflected(place, *map(np.float32, ends))
    elif padding == "border":
        place = _within(place, last)
    low = place if nearest else op.Floor(place)
    behind = None if nearest else op.Sub(place, low)
    found = [(low, None if behind is None else op.Sub(np.float32(1), behind))]
    if behind is not None:
        found.append((op.Add(low, np.float32(1)), behind))
    return [_inside(element, weight, last, padding == "zeros") for element, weight in found]


def _within(place: Value, last: Any) -> Value:
    return op.Min(op.Max(place, np.float32(0)), last)


def _inside(element: Value, weight: Value | None, last: Any, zeros: bool) -> tuple[Value, Value | None]:
    """The index of an element, one at the end for one outside; of zeros it has no weight there."""
    if zeros:
        outside = op.Or(op.Less(element, np.float32(0)), op.Greater(element, last))
        weight = op.Where(outside, np.float32(0), np.float32(1) if weight is None else weight)
    return op.Cast(float32_only(_within(element, last)), to=7), weight


def _reflected(place: Value, least: np.float32, most: np.float32) -> Value:
    """A place between the ends, as often reflected at them as it takes."""
    under, over = op.Less(place, least), op.Greater(place, most)
    beyond = op.Where(under, op.Sub(least, place), op.Sub(place, most))
    times = op.Floor(op.Div(beyond, most - least))
    rest = op.Sub(beyond, op.Mul(times, most - least))
    half = op.Mul(times, np.float32(0.5))
    even = op.Equal(op.Floor(half), half)
    up, down = op.Add(rest, least), op.Sub(most, rest)
    turned = op.Where(under, op.Where(even, up, down), op.Where(even, down, up))
    return op.Where(op.Or(under, over), turned, place)


_NET = """<ir_version: 9, opset_import: ["" : 20]>
    g (float[%s] x, float[%s] p) => (y) { y = GridSample <%s> (x, p) }"""
_VOLUME, _IMAGE = ("N, 2, 3, 4, 5", "N, 2, 1, 3, 3"), ("N, 2, 4, W", "N, 3, 2, 2")


def _net(sizes: tuple[str, str], mode: str, padding: str, aligned: int) -> str:
    return _NET % (*sizes, f'mode = "{mode}", padding_mode = "{padding}", align_corners = {aligned}')


EXAMPLES = [
    *(
        Fires(_net(_VOLUME, mode, padding, aligned), gone="GridSample")
        for mode in ("linear", "nearest")
        for padding in ("zeros", "border", "reflection")
        for aligned in (0, 1)
    ),
    Fires(_net(_IMAGE, "linear", "zeros", 0), gone="GridSample"),
    Fires(_net(_IMAGE, "linear", "border", 1), gone="GridSample"),
    Fires(
        _NET.replace(": 20", ": 16") % ("N, 1, 4, 3", "N, 3, 2, 2", 'mode = "nearest"'),
        becomes="""_1 = Transpose <perm = [0, 2, 3, 1]> (x); _2 = Reshape (_1, {-1, 1}); _3 = Shape (x)
        _4 = Gather (_3, 0); _5 = Range (0, _4, 1); _6 = Reshape (_5, {-1, 1, 1}); _7 = Mul (_6, 4)
        _8 = Slice (p, {1}, {2}, {3}, {1}); _9 = Squeeze (_8, {3}); _10 = Add (_9, 1.0)
        _11 = Mul (_10, 4.0); _12 = Sub (_11, 1.0); _13 = Div (_12, 2.0); _14 = Round (_13)
        _15 = Max (_14, 0.0); _16 = Min (_15, 3.0); _17 = Cast <to = 7> (_16); _18 = Add (_7, _17)
        _19 = Mul (_18, 3); _20 = Slice (p, {0}, {1}, {3}, {1}); _21 = Squeeze (_20, {3})
        _22 = Add (_21, 1.0); _23 = Mul (_22, 3.0); _24 = Sub (_23, 1.0); _25 = Div (_24, 2.0)
        _26 = Round (_25); _27 = Max (_26, 0.0); _28 = Min (_27, 2.0); _29 = Cast <to = 7> (_28)
        _30 = Add (_19, _29); _31 = Gather (_2, _30); _32 = Less (_26, 0.0); _33 = Greater (_26, 2.0)
        _34 = Or (_32, _33); _35 = Where (_34, 0.0, 1.0); _36 = Unsqueeze (_35, {-1})
        _37 = Mul (_31, _36); _38 = Less (_14, 0.0); _39 = Greater (_14, 3.0); _40 = Or (_38, _39)
        _41 = Where (_40, 0.0, 1.0); _42 = Unsqueeze (_41, {-1}); _43 = Mul (_37, _42)
        y = Transpose <perm = [0, 3, 1, 2]> (_43)""",
    ),
    Skips(_net(_IMAGE, "linear", "reflection", 0), because="reflects at the ends"),
    Skips(_net(("N, 2, 4, 1", "N, 3, 2, 2"), "nearest", "reflection", 1), because="reflects at the ends"),
    Fires(_net(("N, 2, 4, 1", "N, 3, 2, 2"), "nearest", "reflection", 0), gone="GridSample"),
    Skips(_net(_IMAGE, "cubic", "zeros", 0), because="mode is cubic"),
    Skips(_net(("N, C, 4, 3", "N, 3, 2, 2"), "linear", "zeros", 0), because="number of channels"),
    Skips((_net(_IMAGE, "linear", "zeros", 0)).replace("float", "double"), because="no float32"),
]
