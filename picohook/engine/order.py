"""The order in which hooks are asked (by layer, `after`, priority and name), and which hooks each stage asks."""

import heapq
from collections.abc import Iterable, Sequence
from graphlib import CycleError, TopologicalSorter
from itertools import groupby
from typing import Any, get_args

from ..errors import ConfigError, Problem
from ..hooks.base import Hook
from ..model.spec import OF_SESSION, HookSpec, Layer, Timeouts
from ..model.stages import STAGES, Stage
from ..wire import words
from ..wire.did_you_mean import nearest
from .seat import Seat

LAYERS = get_args(Layer)
"""Asked in this order."""


def layer(hook: Hook) -> str:
    """The layer that a hook belongs to: without one of its own, `user` for a program, and for a hook of a file."""
    return hook.spec.layer or ("builtin" if hook.in_process and not hook.spec.source else "user")


def _place(hook: Hook) -> tuple[int, int, bool]:
    """The position of the hook's file: its layer, and in the layer the depth of its project. A session's own hooks are last."""
    return LAYERS.index(layer(hook)), hook.spec.depth, hook.name.endswith(OF_SESSION)


def in_order(hooks: Iterable[Hook], *, checked: Iterable[Hook] | None = None) -> list[Hook]:
    """The hooks as they are asked: by layer and project, and inside them by `after`, then priority, then name.

    Raises `ConfigError` for an `after` or a `fallback` that cannot be satisfied, of all hooks or only of those `checked`.
    """
    by_name = {hook.name: hook for hook in hooks}
    some = by_name.values() if checked is None else checked
    problems = [
        problem for hook in some for check in (_check_after, _check_fallback) for problem in check(hook, by_name)
    ]
    if problems:
        raise ConfigError(problems)
    places = sorted(by_name.values(), key=_place)
    return [hook for _, here in groupby(places, _place) for hook in _sorted([*here])]


def _sorted(hooks: Sequence[Hook]) -> list[Hook]:
    """The hooks in order: next comes the first, by priority and name, of those whose `after` is satisfied."""
    here = {hook.name: hook for hook in hooks}
    graph = TopologicalSorter(
        {name: [other for other in hook.spec.after if other in here] for name, hook in here.items()}
    )
    try:
        graph.prepare()
    except CycleError as error:
        cycle = error.args[1][::-1]
        at = here[cycle[0]].spec
        raise ConfigError(
            [_problem(at, f"waits for itself: {' after '.join(cycle)}", "remove one `after` of the cycle")]
        ) from None
    free: list[tuple[int, str]] = []
    ordered: list[Hook] = []
    while graph.is_active():
        for name in graph.get_ready():
            heapq.heappush(free, (here[name].spec.priority, name))
        _, name = heapq.heappop(free)
        ordered.append(here[name])
        graph.done(name)
    return ordered


def _check_after(hook: Hook, by_name: dict[str, Hook]) -> Iterable[Problem]:
    for other in hook.spec.after:
        if other not in by_name:
            near = nearest(other, by_name)
            yield _problem(hook.spec, f"there is no hook {other!r}", f'did you mean "{near}"?' if near else "")
        elif _place(by_name[other]) > _place(hook):
            where = f"in the layer {layer(by_name[other])}: {by_name[other].spec.source or '(code)'}"
            yield _problem(hook.spec, f"{other!r} is asked later, {where}", "move one of them")


def _check_fallback(hook: Hook, by_name: dict[str, Hook]) -> Iterable[Problem]:
    name = hook.spec.fallback
    if name is None:
        return
    if name not in by_name:
        near = nearest(name, by_name)
        yield _problem(hook.spec, f"there is no hook {name!r}", f'did you mean "{near}"?' if near else "", "fallback")
        return
    other = by_name[name].spec
    lacks = [stage for stage in hook.spec.asked_at if stage not in other.asked_at and not STAGES[stage].approves]
    if other.fallback is not None:
        yield _problem(hook.spec, f"{name!r} has a fallback itself", "name a hook that has none", "fallback")
    elif other.source != hook.spec.source or (other.layer != hook.spec.layer and layer(by_name[name]) != layer(hook)):
        # Otherwise a project could switch off a user's gate, and an inner project an outer one's.
        yield _problem(hook.spec, f"{name!r} is not of the same file", "name one that is", "fallback")
    elif lacks:
        yield _problem(hook.spec, f"{name!r} is not for {', '.join(lacks)}", "add it to its stages", "fallback")


def _problem(spec: HookSpec, message: str, hint: str, key: str = "after") -> Problem:
    return Problem(spec.source or "(code)", f"hooks.{spec.name}.{key}", message, hint)


def seats(ordered: Sequence[Hook], timeouts: Timeouts) -> dict[str, tuple[Seat, ...]]:
    """For each stage, the hooks that are asked. Where a hook may stand in for another, it is only asked in its place."""
    return {name: _seats_at(stage, ordered, timeouts) for name, stage in STAGES.items()}


def _seats_at(stage: Stage[Any], ordered: Sequence[Hook], timeouts: Timeouts) -> tuple[Seat, ...]:
    asked = {hook.name: hook for hook in ordered if stage.name in hook.spec.asked_at}
    fallbacks = (
        {} if stage.approves else {name: hook.spec.fallback for name, hook in asked.items() if hook.spec.fallback}
    )

    def seat(hook: Hook, fallback: Seat | None = None) -> Seat:
        timeout = hook.spec.timeout_at(stage.name, timeouts, approves=stage.approves)
        return Seat(hook, timeout, hook.spec.filter, fallback)

    able = {name for name, hook in asked.items() if not hook.shadow}
    own = {name: seat(asked[fallback]) for name, fallback in fallbacks.items() if fallback in able and name in able}
    return tuple(seat(hook, own.get(name)) for name, hook in asked.items() if name not in fallbacks.values())


def audiences(ordered: Sequence[Hook]) -> dict[str, tuple[Hook, ...]]:
    """For each kind of event, the hooks that are told."""
    observed = [(hook, hook.spec.kinds) for hook in ordered]
    return {kind: tuple([hook for hook, kinds in observed if kind in kinds]) for kind in words.EVENT_KINDS}
