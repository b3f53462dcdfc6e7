"""Several deployments of one file: what is stated of each, its samples, and its share of the work.

Whoever knows what a model is run for states it as `StatedDeployment`s: flags and `onnxq.toml`
(`stated_deployments`), or what recognizes the phases of a decoder. `all_deployed` takes them from either.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from onnxq.base.errors import UserError, unknown_name
from onnxq.options.settings import Batch, Inputs
from onnxq.run.deployment import Deployment, Dims, Shape, deployed
from onnxq.run.profiles import Profile, text_of


@dataclass(frozen=True, slots=True)
class StatedDeployment:
    """What is stated of a deployment.

    Attributes:
        name: its name; "": there is one only.
        weight: its share of the work, above 0, against those of the others; None: it is not stated.
        batch: the smallest, the usual and the largest batch; None: it is not stated.
        profiles: the smallest, the usual and the largest shape of inputs.
    """

    name: str = ""
    weight: float | None = None
    batch: Batch | None = None
    profiles: Mapping[str, Profile] = field(default_factory=dict)


def main_of(deployments: Sequence[Deployment]) -> Deployment:
    """The deployment with most of the work, the first of equals."""
    return max(deployments, key=lambda one: one.weight)


def by_deployment(
    inputs: Collection[str], profiles: Mapping[str, Profile]
) -> tuple[dict[str, Profile], dict[str, dict[str, Profile]]]:
    """Profiles by input: those without a name, and those of each deployment that is named.

    Args:
        inputs: names of the model's inputs, which may hold slashes: a whole name wins.
        profiles: by INPUT or NAME/INPUT.

    Raises:
        UserError: there is no such input.
    """
    common: dict[str, Profile] = {}
    named: dict[str, dict[str, Profile]] = {}
    for key, profile in profiles.items():
        name, slash, rest = key.partition("/")
        if key in inputs or not slash or not name:
            common[key] = profile
        elif rest in inputs:
            named.setdefault(name, {})[rest] = profile
        else:
            raise unknown_name("input", rest if name not in inputs else key, inputs)
    return common, named


def stated_deployments(inputs: Collection[str], stated: Inputs) -> tuple[StatedDeployment, ...]:
    """What the user states: those that profiles and batches name, in their order; else one.

    What is stated without a name holds for each, unless it states the same itself.

    Args:
        inputs: names of the model's inputs.
        stated: what the user states of them.

    Raises:
        UserError: there is no such input or deployment, or a weight is not above 0.
    """
    common, named = by_deployment(inputs, stated.profiles or {})
    batches = stated.batch if isinstance(stated.batch, Mapping) else {"": stated.batch}
    weights = stated.profile_weights or {}
    names = list(dict.fromkeys([*named, *filter(None, batches)]))
    for name, weight in weights.items():
        if name not in names:
            if names:
                raise unknown_name("deployment", name, names)
            raise UserError(
                f"profile_weight {name}={weight:g}: no deployment has a name",
                hint=f"name it with its sizes: --profile {name}/INPUT=MIN:OPT:MAX",
            )
        if not (math.isfinite(weight) and weight > 0):
            raise UserError(
                f"profile_weight {name}={weight:g}: a share of the work is above 0",
                hint=f"write profile_weight {name}=1, or leave the deployment out",
            )
    return tuple(
        StatedDeployment(
            name, weights.get(name), batches.get(name, batches.get("")), {**common, **named.get(name, {})}
        )
        for name in names or [""]
    )


def all_deployed(
    inputs: Sequence[tuple[str, Dims | None]],
    stated: Sequence[StatedDeployment],
    seen: Sequence[Mapping[str, Shape]],
    *,
    batched: Collection[str] = (),
    every: bool = True,
    sums: Sequence[tuple[str, str, str]] = (),
) -> tuple[Deployment, ...]:
    """What a model is deployed for, in the order in which it is stated.

    A sample belongs to each deployment whose stated sizes it has, but for the batch. What is not stated of a
    deployment is as in its samples, see `deployed`. A weight that is not stated is its part of what the
    others leave of 1, and where they leave nothing 1; those of all are divided by their sum.

    Args:
        inputs: names and dimensions; None where the rank is unknown.
        stated: the deployments, one at least.
        seen: the shapes of each sample, as in `deployed`.
        batched: the inputs whose first axis is the batch.
        every: whether those are all samples; else a deployment may have others.
        sums: as in `deployed`.

    Raises:
        UserError: a statement makes no sense, a deployment leaves open what others state, or has no samples.
    """
    (first, *more) = stated
    if not (first.name or more):
        return (deployed(inputs, first.profiles, seen, batch=first.batch, batched=batched, sums=sums),)
    bare = [_named(one, inputs, [], batched, sums) for one in stated]
    _refuse_open(bare)
    weights = shares([one.weight for one in stated])
    found = []
    for one, sizes, weight in zip(stated, bare, weights, strict=True):
        fitting = [number for number, shapes in enumerate(seen) if sizes.fits(shapes)]
        if seen and every and not fitting:
            raise _no_sample(sizes, deployed(inputs, {}, seen, batched=batched))
        own = _named(one, inputs, [seen[number] for number in fitting], batched, sums)
        nearest = None if own.nearest is None else fitting[own.nearest]
        assumed = one.weight is None
        found.append(
            replace(own, nearest=nearest, fitting=tuple(fitting), weight=weight, is_weight_assumed=assumed)
        )
    return tuple(found)


def _named(
    one: StatedDeployment,
    inputs: Sequence[tuple[str, Dims | None]],
    seen: Sequence[Mapping[str, Shape]],
    batched: Collection[str],
    sums: Sequence[tuple[str, str, str]],
) -> Deployment:
    """A deployment with a name.

    Raises:
        UserError: it makes no sense; it is named.
    """
    try:
        found = deployed(inputs, one.profiles, seen, batch=one.batch, batched=batched, sums=sums)
    except UserError as error:
        raise UserError(f"deployment {one.name!r}: {error}", hint=error.hint) from error
    return replace(found, name=one.name)


def shares(stated: Sequence[float | None]) -> list[float]:
    """The shares of all work, which add up to 1; None: it is not stated."""
    told = math.fsum(weight for weight in stated if weight is not None)
    rest = (1 - told) / stated.count(None) if None in stated and told < 1 else 1.0
    weights = [rest if weight is None else weight for weight in stated]
    return [weight / math.fsum(weights) for weight in weights]


def _refuse_open(deployments: Sequence[Deployment]) -> None:
    """Refuses a deployment that leaves open what others state.

    Raises:
        UserError: there is one.
    """
    for one in deployments:
        for other in deployments:
            for dim in (dim for dim in other.spans if dim in other.stated and dim not in one.stated):
                name, profile = next(
                    (name, other.profiles[name]) for name, dims in other.names.items() if dim in dims
                )
                raise UserError(
                    f"deployment {one.name!r} leaves {dim} open, and deployment {other.name!r} states it: "
                    f"{other.spans[dim]}",
                    hint=f"state it, as in --profile {one.name}/{name}={text_of(profile)}",
                )


def _no_sample(deployment: Deployment, samples: Deployment) -> UserError:
    """The error for a deployment that no sample fits; it names an input whose sizes are apart, if one is."""
    chosen = deployment.stated.difference(deployment.batch)

    def is_apart(dims: Dims) -> bool:
        pairs = [(deployment.spans[dim], samples.spans[dim]) for dim in map(str, dims) if dim in chosen]
        return any(one.largest < other.smallest or other.largest < one.smallest for one, other in pairs)

    stating = [name for name, dims in deployment.names.items() if chosen.intersection(map(str, dims))]
    name = next((name for name in stating if is_apart(deployment.names[name])), stating[0])
    says, has = text_of(deployment.profiles[name]), text_of(samples.profiles[name])
    return UserError(
        f"no sample fits deployment {deployment.name!r}: {name} {says} is stated, and samples have {has}",
        hint=f"give samples of such sizes, or state those that there are: "
        f"--profile {deployment.name}/{name}={has}",
    )


def profiles_of(inputs: Iterable[str], profiles: Mapping[str, Profile]) -> dict[str, dict[str, Profile]]:
    """The stated profiles of each deployment, by its name, for who only compiles; one without a name: "".

    Raises:
        UserError: as `stated_deployments`.
    """
    stated = stated_deployments(list(inputs), Inputs(profiles=profiles))
    return {one.name: dict(one.profiles) for one in stated}
