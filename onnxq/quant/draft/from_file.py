"""The draft that a plan file states.

The rules say what can be quantized and what that needs; the file says which of it is. So a layer that the
user puts into float takes its partners along as it would by a flag, and one that the user takes back
into int8 gets the pairs that a layer needs.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from onnxq.base.errors import UserError, nearest, unknown_name
from onnxq.base.grouped import Joined
from onnxq.base.reason import Reason, code_of, noted, reason
from onnxq.base.typed import Unlike
from onnxq.body.decide import Decision
from onnxq.body.formats import Kind
from onnxq.graph.duplicate import duplicate
from onnxq.graph.model import Model
from onnxq.graph.types import Shape
from onnxq.graph.view import every_node
from onnxq.options.config import LayerRule
from onnxq.options.parameters import stated
from onnxq.options.settings import Format
from onnxq.quant.draft.body import BodyPlan
from onnxq.quant.draft.draft import Draft
from onnxq.quant.draft.edit_kinds import edit_of
from onnxq.quant.draft.edits import FloatEdit, edited
from onnxq.quant.fits import fits_of, within
from onnxq.quant.patches import Patches
from onnxq.quant.placement import SUMS
from onnxq.quant.plan import FLAGGED, KeptFloat, QuantPlan, ScaleGroup, Site
from onnxq.quant.plan_file import BodyEntry, PlanFile
from onnxq.quant.ranges import Range
from onnxq.quant.scales import weight_amax
from onnxq.quant.weights import Weights
from onnxq.run.profiles import check_profile

MakePlan = Callable[[Mapping[str, str], Mapping[str, Sequence[int]], Mapping[str, str]], QuantPlan]
"""The plan of the rules, with some nodes in float, by name with the reason, and others quantized although
rules leave them in float, by name with the inputs that a sum reads quantized; and with the number formats of
nodes, by name."""

CODE = "plan"
_FEW = 4
_REPAIRED = "names are those of the repaired model: give the rules, enable and skip that it was made with"


def draft_of(
    file: PlanFile, edits: tuple[FloatEdit, ...], model: Model, make: MakePlan
) -> tuple[Draft, dict[str, LayerRule], list[str]]:
    """The draft that a file states, but for the body.

    Args:
        file: the file.
        edits: its edits, see `edited_as_stated`.
        model: the sanitized model with them.
        make: makes plans of the rules.

    Returns:
        The draft, with the ranges that the file states; the tensors that are to be measured by a method of
        their own; and what the user may not expect.

    Raises:
        UserError: the model has no such node or tensor, or what is asked for cannot be.
    """
    names = _Names(file, model)
    notes: list[str] = []
    plan = _placed(file, names, make, notes)
    plan = _grouped(plan, file, notes)
    plan = _along(plan, file, names)
    _check_edits(plan, file, edits, model)
    ranges, methods = _of_tensors(plan, file, notes)
    amax = _of_weights(plan, file, names, notes)
    return Draft(plan, ranges, edits, _patches(plan, file, model, amax, notes)), methods, notes


def edited_as_stated(file: PlanFile, model: Model) -> tuple[Model, tuple[FloatEdit, ...]]:
    """A model with the edits that a file states; and they.

    Raises:
        UserError: one of them does not fit the model.
    """
    edits: list[FloatEdit] = []
    for index, entry in enumerate(file.repair.edits):
        try:
            edit = edit_of(entry)
            model, _ = edited(model, [edit])
        except UserError as error:
            way = error.__cause__.way if isinstance(error.__cause__, Unlike) else ()
            raise file.error(("edit", index, *way), str(error), error.hint) from error
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            message = f"this edit is none, or does not fit the model: {type(error).__name__}: {error}"
            raise file.error(("edit", index), message, "write the plan anew: onnxq plan") from error
        edits.append(edit)
    return model, tuple(edits)


def _patches(plan: QuantPlan, file: PlanFile, model: Model, amax: Weights, notes: list[str]) -> Patches:
    """What the file says of constants; biases, constants and codes but for layers that are in float now."""
    repair = file.repair
    formats = {site.tensor: site.numbers for site in plan.sites if site.kind == "weight"}
    other = {n for n, codes in repair.codes.items() if n in formats and formats[n].dtype != codes.dtype}
    codes = {name: held for name, held in repair.codes.items() if name not in other}
    notes += _listed("plan-read.other-codes", sorted(other))
    patches = Patches(repair.constants, repair.biases, codes, amax)
    for kind, key, named in repair.named:
        for index, (name, values) in enumerate(named.items()):
            if kind == "codes" and name in other:
                continue
            try:
                _TAKEN[kind]({name: values}).apply(duplicate(model))
            except UserError as error:
                raise file.error((kind, index, key), str(error), error.hint) from error
    left = within(patches, model, plan)
    was, now = ({fit.layer for fit in fits_of(some, model)} for some in (patches, left))
    gone = sorted(was - now)
    if gone:
        others = f" and {len(gone) - 1} more" if len(gone) > 1 else ""
        notes.append(noted("plan-read.unfitted", layer=gone[0], others=others))
    return left


_TAKEN: Mapping[str, Callable[[Mapping[str, np.ndarray]], Patches]] = {
    "bias": lambda one: Patches(biases=one),
    "constant": lambda one: Patches(constants=one),
    "codes": lambda one: Patches(codes=one),
}


def _check_edits(plan: QuantPlan, file: PlanFile, edits: Sequence[FloatEdit], model: Model) -> None:
    """Refuses a pair for several readers of which an edit gives some another tensor."""
    nodes = {node.name: node for node in model.nodes}
    places = {edit.tensor: index for index, edit in enumerate(edits)}
    for site in plan.sites:
        read = {nodes[edge.node].inputs[edge.input] for edge in site.readers}
        if len(read) > 1:
            readers = ", ".join(repr(edge.node) for edge in site.readers)
            message = (
                f"{site.tensor!r} has one pair for {readers}, and with this edit they read several tensors"
            )
            raise file.error(
                ("edit", places.get(site.tensor, 0)),
                message,
                "take it out, or put those that it leaves into float",
            )


def check_shapes(file: PlanFile, inputs: Mapping[str, Shape | None]) -> None:
    """Refuses sizes of inputs that the model does not have, or has otherwise, and shares of nothing.

    Raises:
        UserError: there are such.
    """
    for key, profile in file.sizes.items():
        name = key if key in inputs else key.partition("/")[2] or key
        if name not in inputs:
            raise _unknown(file, ("shapes", key), "input", name, inputs)
        shape = inputs[name] or (None,) * len(profile[0])
        fixed = [size if isinstance(size, int) else -1 for size in shape]
        try:
            check_profile(name, profile, {name: fixed})
        except UserError as error:
            raise file.error(("shapes", key), str(error), error.hint) from error
    deployments = {key.partition("/")[0] for key in file.sizes if key not in inputs}
    for name in file.shares:
        if name not in deployments:
            hint = f'state its sizes in [shapes]: "{name}/INPUT" = "MIN:OPT:MAX"'
            raise file.error(("shares", name), str(unknown_name("deployment", name, deployments)), hint)


def _unknown(
    file: PlanFile, at: tuple[str | int, ...], kind: str, name: str, known: Iterable[str]
) -> Exception:
    names = list(known)
    close = difflib.get_close_matches(name, names, n=1, cutoff=0.0)
    near = nearest(name, names) or "".join(f"the nearest is {found!r};" for found in close)
    hint = f"{near} {_REPAIRED}" if near else _REPAIRED
    return file.error(at, str(unknown_name(kind, name, names)), hint)


class _Names:
    """The names that a file may mean."""

    def __init__(self, file: PlanFile, model: Model) -> None:
        self.model = model
        self.nodes = {node.name: node.op for node in model.nodes}
        read = (tensor for node in model.nodes for tensor in (*node.inputs, *node.outputs))
        self.tensors = {tensor.name: tensor for tensor in read if tensor is not None}
        self._check(file)

    def _check(self, file: PlanFile) -> None:
        for index, layer in enumerate(file.layers):
            if layer.node not in self.nodes:
                raise _unknown(file, ("layer", index, "node"), "node", layer.node, self.nodes)
            op = self.nodes[layer.node]
            if layer.op and layer.op != op:
                message = f"node {layer.node!r} is a {op}, not a {layer.op}"
                raise file.error(("layer", index, "op"), message, "write the plan anew, or leave op out")
        activations = [name for name, tensor in self.tensors.items() if not tensor.is_constant]
        constants = [name for name, tensor in self.tensors.items() if tensor.is_constant]
        for index, entry in enumerate(file.tensors):
            self._check_tensor(file, ("tensor", index, "name"), entry.name, activations)
        for index, group in enumerate(file.groups):
            for name in group.share:
                self._check_tensor(file, ("group", index, "share"), name, activations)
        for index, weight in enumerate(file.weights):
            if weight.name not in self.tensors:
                raise _unknown(file, ("weight", index, "name"), "weight", weight.name, constants)
            if not self.tensors[weight.name].is_constant:
                message = f"{weight.name!r} is an activation, not a weight"
                raise file.error(("weight", index, "name"), message, "begin its table with [[tensor]]")

    def _check_tensor(
        self, file: PlanFile, at: tuple[str | int, ...], name: str, known: Sequence[str]
    ) -> None:
        if name not in self.tensors:
            raise _unknown(file, at, "tensor", name, known)
        if self.tensors[name].is_constant:
            hint = "begin its table with [[weight]]; weights share no scales"
            raise file.error(at, f"{name!r} is a constant, not an activation", hint)


def body_as_stated(body: BodyPlan, file: PlanFile, wanted: BodyEntry, format: Format) -> BodyPlan:
    """That of a plan; where it is settled there, all is known that stays float32, else a part of it.

    Raises:
        UserError: a flag says otherwise.
    """
    for key, name, flag, said_there in (
        ("type", "body", format.body, wanted.type),
        ("io", "io", format.io, wanted.io),
        ("scales", "scale form", format.scale_form, wanted.scales),
    ):
        if flag is not None and flag != said_there:
            message = f"the plan's {name} is {said_there}, and this run's {flag}"
            raise file.error(("body", key), message, "leave the flag out, or edit the plan")
    kind: Kind | None = None if wanted.type in ("fp32", "own") else wanted.type  # type: ignore[assignment]
    io = wanted.io == (kind or "fp32")
    body = replace(
        body, kind=kind, io=io, form=wanted.scales, because=reason("plan", "user"),
        widens=body.half and wanted.type == "fp32",
    )  # fmt: skip
    stays = {node: Reason("plan", why, "user") for node, why in wanted.float32.items()} | {**body.asked}
    if not wanted.settled:
        return replace(body, asked=stays)
    layers = frozenset(layer.node for layer in file.layers if layer.scales == "post-scale")
    decision = None if kind is None else Decision(kind, io, stays, wanted.masks, wanted.float32_io)
    return replace(body, layers=layers, decision=decision)


def check_body(file: PlanFile, model: Model) -> None:
    """Refuses a plan that has what the model has not stay float32.

    Raises:
        UserError: that is so.
    """
    if file.body is not None and file.body.type not in ("fp32", "own"):
        names = {node.name for node in every_node(model)}
        ends = {tensor.name for tensor in (*model.inputs, *model.outputs)}
        file.check_float32(names, ends, {*model.tensors(bodies=True)})


def _placed(file: PlanFile, names: _Names, make: MakePlan, notes: list[str]) -> QuantPlan:
    """The plan of the rules, in which the nodes run in what the file says."""
    formats = {entry.node: entry.format for entry in file.layers if entry.format != "float"}
    free = make({}, {}, formats)
    int8 = {entry.node: index for index, entry in enumerate(file.layers) if entry.format != "float"}
    sums = {node: file.layers[index].inputs for node, index in int8.items() if file.layers[index].inputs}
    _check_sums(file, sums, names, int8)
    wanted = (int8.keys() - _in_int8(free)) | sums.keys()
    if wanted:
        asked = {node: sums.get(node, ()) for node in sorted(wanted, key=int8.__getitem__)}
        free = make({}, asked, formats)
    for node, inputs in sums.items():
        missed = sorted(set(inputs) - set(free.asked.get(node, ())))
        if missed and node in free.readers:
            message = f"input {missed[0]} of {node!r} cannot be read in {free.format_names}"
            hint = "the model quantizes it already, or it depends on no input"
            raise file.error(("layer", int8[node], "inputs"), message, hint)
    between: list[str] = []
    for node in sorted(wanted - _in_int8(free), key=int8.__getitem__):
        kept = {entry.node: entry.because for entry in free.kept_float}
        if code_of(kept.get(node, "")) in FLAGGED:
            continue
        if len(free.formats) > 1 and node not in {layer.node for layer in free.layers}:
            between.append(node)  # it moves what is read in several formats
            continue
        why = kept.get(node, reason("no-rule.operator", op=names.nodes[node]))
        hint = 'give it format = "float", or leave it out'
        message = f"node {node!r} cannot be {formats[node]}: {why}"
        raise file.error(("layer", int8[node], "format"), message, hint)
    floats = {
        entry.node: _stated_by(entry.because)
        for entry in file.layers
        if entry.format == "float" and not entry.inputs and entry.node in free.readers
    }
    for index, entry in enumerate(file.layers):
        if entry.format == "float" and entry.node in set(free.planned) - free.readers:
            message = f"node {entry.node!r} cannot be float: the model itself quantizes it, its pairs stay"
            raise file.error(("layer", index, "format"), message, "start from the float model")
    plan = Draft(free).in_float(floats, names.model).plan
    whys = {entry.node: entry.because for entry in file.layers if entry.because}
    kept_float = tuple(_with_why(entry, whys) for entry in plan.kept_float)
    layers = {layer.node for layer in plan.layers}
    lost = sorted(int8.keys() & _in_int8(free) - _in_int8(plan), key=int8.__getitem__)
    for node in lost:
        if node in layers:
            why = next((entry.because for entry in plan.kept_float if entry.node == node), "")
            notes.append(noted("plan-read.in-float", node=node, format=formats[node], why=why))
    idle = [*between, *(node for node in lost if node not in layers)]
    notes += _listed("plan-read.idle-layers", idle)
    notes += _halves(file, plan)
    order = {name: place for place, name in enumerate(names.nodes)}
    for index, entry in enumerate(file.layers):
        if entry.scales and entry.node not in layers:
            message = f"node {entry.node!r} has no weights whose scales had a form"
            raise file.error(("layer", index, "scales"), message, "leave scales out")
    return replace(plan, kept_float=tuple(sorted(kept_float, key=lambda entry: order[entry.node])))


def _check_sums(
    file: PlanFile, sums: Mapping[str, Sequence[int]], names: _Names, places: Mapping[str, int]
) -> None:
    """Refuses inputs of what is no sum, or has not so many that are computed."""
    nodes = {node.name: node for node in names.model.nodes}
    for name, inputs in sums.items():
        node, at = nodes[name], ("layer", places[name], "inputs")
        if node.op not in SUMS:
            format = file.layers[places[name]].format
            message = f"node {name!r} is {format}, and no sum: what it reads is not chosen"
            raise file.error(at, message, "inputs is said of layers in float, and of an Add or a Sum")
        for index in inputs:
            tensor = node.inputs[index] if index < len(node.inputs) else None
            if tensor is None or tensor.is_constant:
                what = "no input" if tensor is None else "a constant for input"
                raise file.error(at, f"node {name!r} has {what} {index}", "the first input is 0")


def _in_int8(plan: QuantPlan) -> frozenset[str]:
    """The nodes that a file calls int8."""
    return frozenset(plan.planned) | (plan.readers - {layer.node for layer in plan.layers})


def _stated_by(because: str) -> Reason:
    """The reason that a file states; without one, that it says so."""
    return Reason(CODE, because, "user") if because else reason(CODE, "user")


def _with_why(entry: KeptFloat, whys: Mapping[str, str]) -> KeptFloat:
    why = whys.get(entry.node)
    if why is None or why == entry.because or code_of(entry.because) in FLAGGED:
        return entry
    return replace(entry, because=Reason(CODE, why, "user"))


def _grouped(plan: QuantPlan, file: PlanFile, notes: list[str]) -> QuantPlan:
    """The plan with the scale groups of the file; what it does not name stays with its group."""
    old, numbers = plan.shared, {number: one.name for number, one in plan.numbers_of.items()}
    names = {name for group in old for name in group.tensors}
    held = {(name, numbers[group.id]) for group in old for name in group.tensors}
    listed = {entry.name for entry in file.tensors}
    groups = Joined[tuple[str, str]]()  # tensors, and the format in which they are read
    for group in old:
        for name in group.tensors:
            groups.add((name, numbers[group.id]))
    for group in old:
        format = numbers[group.id]
        for name in group.tensors:
            if name not in listed:
                groups.join((group.tensors[0], format), (name, format), "; ".join(group.reasons))
    for entry in file.groups:
        for format in dict.fromkeys(numbers.values()):
            first, *others = [(name, format) for name in entry.share if (name, format) in held] or [("", "")]
            for other in others:
                groups.join(first, other, _stated_by("; ".join(entry.because)))
    idle = [name for entry in file.groups for name in entry.share if name not in names]
    idle += [name for name in listed if name not in names and name not in idle]
    notes += _listed("plan-read.idle-tensors", sorted(idle))
    members = groups.members()
    before = {frozenset((name, numbers[group.id]) for name in group.tensors) for group in old}
    if before == set(map(frozenset, members.values())):
        return plan
    of_old = {(name, numbers[group.id]): group for group in old for name in group.tensors}
    reasons = groups.reasons()
    new: list[ScaleGroup] = []
    number: dict[tuple[str, str], int] = {}
    for root, keys in members.items():
        tensors = tuple(name for name, _ in keys)
        repeated = {
            name for key in keys for name in key[:1]
            if name not in of_old[key].sources and set(of_old[key].tensors).issubset(tensors)
        }  # fmt: skip
        whys = dict.fromkeys(filter(None, reasons.get(root, ())))
        sources = tuple(name for name in tensors if name not in repeated)
        number.update(dict.fromkeys(keys, len(new)))
        new.append(ScaleGroup(len(new), tensors, sources, tuple(whys) if len(tensors) > 1 else ()))
    sites = []
    for site in plan.sites:
        if site.kind == "weight":
            new.append(ScaleGroup(len(new), (site.tensor,), (site.tensor,), ()))
        group_id = number[site.tensor, site.format] if site.kind == "activation" else new[-1].id
        sites.append(replace(site, group=group_id))
    return replace(plan, sites=tuple(sites), groups=tuple(new))


def _along(plan: QuantPlan, file: PlanFile, names: _Names) -> QuantPlan:
    """The plan with the channel axes of the file."""
    sites: dict[str, list[Site]] = {}
    for site in plan.sites:
        if site.kind == "weight":
            sites.setdefault(site.tensor, []).append(site)
    other: dict[int, Site] = {}
    done: set[int] = set()
    for index, entry in enumerate(file.weights):
        shape = names.tensors[entry.name].shape or ()
        if entry.axis is not None and entry.axis >= len(shape):
            message = f"weight {entry.name!r} has {len(shape)} dimensions, and no axis {entry.axis}"
            raise file.error(("weight", index, "axis"), message, "the first axis is 0")
        places = sites.get(entry.name, [])
        if len(places) == 1 and id(places[0]) in done:
            message = f"weight {entry.name!r} has one set of scales, and this is the second table of it"
            raise file.error(("weight", index), message, "keep one of them")
        done.update(map(id, places[:1] if len(places) == 1 else ()))
        if len(places) == 1 and entry.axis not in (None, places[0].axis):
            has = (
                "one scale" if places[0].axis is None else f"a scale for each channel along {places[0].axis}"
            )
            message = f"weight {entry.name!r} has {has}, and none along axis {entry.axis}"
            raise file.error(("weight", index, "axis"), message, "leave axis out for one scale")
        if len(places) == 1 and places[0].axis != entry.axis:
            other[id(places[0])] = replace(places[0], axis=entry.axis)
    return replace(plan, sites=tuple(other.get(id(site), site) for site in plan.sites)) if other else plan


def _of_tensors(
    plan: QuantPlan, file: PlanFile, notes: list[str]
) -> tuple[dict[str, Range], dict[str, LayerRule]]:
    """The ranges that the file states, and the methods by which others are to be measured."""
    ranges: dict[str, Range] = {}
    methods: dict[str, LayerRule] = {}
    measured = set(plan.measured)
    groups = {name: group for group in plan.shared for name in group.tensors}
    for index, entry in enumerate(file.tensors):
        if entry.name not in groups or (entry.amax is None and entry.method is None):
            continue
        if entry.name not in measured:
            sources = ", ".join(map(repr, groups[entry.name].sources))
            key = "amax" if entry.amax is not None else "method"
            raise file.error(
                ("tensor", index, key),
                f"tensor {entry.name!r} only repeats values of its group: its {key} is that of {sources}",
                f"give the {key} there, or take it out of the [[group]]",
            )
        if entry.amax is not None:
            if plan.numbers_of_tensors[entry.name].scale(entry.amax) == 1 and entry.amax < 1:
                notes.append(noted("plan-read.always-zero", tensor=entry.name, amax=entry.amax))
            ranges[entry.name] = Range(entry.amax, _stated_by(entry.because))
        else:
            methods[entry.name] = LayerRule(
                method=entry.method, because=entry.because, index=index + 1, kind="tensor", **stated(entry)
            )
    return ranges, methods


def _of_weights(plan: QuantPlan, file: PlanFile, names: _Names, notes: list[str]) -> Weights:
    """What quantized constants cover by the file."""
    weights: Weights = {}
    axes = {(site.tensor, site.axis) for site in plan.sites if site.kind == "weight"}
    idle: list[str] = []
    for index, entry in enumerate(file.weights):
        if (entry.name, entry.axis) not in axes:
            others = [axis for name, axis in axes if name == entry.name]
            if others:
                message = (
                    f"weight {entry.name!r} has a scale for each channel along {others}, not {entry.axis}"
                )
                raise file.error(("weight", index), message, "give one of these axes")
            idle.append(entry.name)
            continue
        if entry.amax is None:
            continue
        shape = names.tensors[entry.name].shape or ()
        channels = () if entry.axis is None else (int(shape[entry.axis] or 0),)
        if entry.amax.shape not in ((), channels):
            size = f"one along axis {entry.axis}, {channels[0]}" if channels else "one: the table has no axis"
            message = f"weight {entry.name!r} is given {entry.amax.size} amax, and has {size}"
            raise file.error(("weight", index, "amax"), message, "give one number for all, or one for each")
        weights[entry.name, entry.axis] = np.broadcast_to(entry.amax, channels)
        if not entry.amax.all():
            values = names.tensors[entry.name].constant
            assert values is not None
            real = weight_amax(np.asarray(values, np.float32), entry.axis)
            if (real[np.broadcast_to(entry.amax == 0, channels)] != 0).any():
                message = f"weight {entry.name!r} is given an amax of 0, and is not zero"
                raise file.error(
                    ("weight", index, "amax"), message, "give the magnitude that codes are to cover"
                )
    notes.extend(_listed("plan-read.idle-weights", idle))
    return weights


def _halves(file: PlanFile, plan: QuantPlan) -> list[str]:
    """What is to be said of layers in float that are to read some of their inputs quantized."""
    read: dict[str, set[int]] = {}
    for pair in plan.pairs:
        for edge in pair.readers:
            read.setdefault(edge.node, set()).add(edge.input)
    for index, entry in enumerate(file.layers):
        if entry.inputs and entry.node in plan.planned:
            message = f"node {entry.node!r} cannot be float and read inputs {list(entry.inputs)} quantized"
            raise file.error(("layer", index, "inputs"), message, "leave inputs out")
    others = [e.node for e in file.layers if e.inputs and set(e.inputs) != read.get(e.node, set())]
    return _listed("plan-read.other-inputs", others)


def _listed(code: str, names: Sequence[str]) -> list[str]:
    """A note on the first few of some names; none where there are none."""
    others = f" and {len(names) - _FEW} more" if len(names) > _FEW else ""
    return [noted(code, names=", ".join(map(repr, names[:_FEW])) + others)] if names else []
