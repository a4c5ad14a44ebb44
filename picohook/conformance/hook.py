"""Runs a hook's command against the requirements: a process for each script, and the watches over all that they wrote."""

from __future__ import annotations

import shlex
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from ..errors import PicohookError
from .manifest import load
from .process import HookProcess
from .report import FAIL, PASS, SKIP, Report, Result, counted_once
from .script import Script
from .shapes import Terms
from .verdict import Failed, Skipped
from .watches import WATCHES, Output

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from ..protocol.raw_line import RawLine
    from .manifest import Manifest, Requirement

TIMEOUT = 5.0
"""Seconds for an answer."""
GRACE = 3.0
"""Seconds for the end."""
AT_ONCE = 4
"""Processes of the hook that run at the same time: most of their time they start."""

FIRST = ("HELLO-1", "HELLO-2")
"""Without these there is nothing more to see."""
REFUSES = "CALL-2"
"""Shows how the hook says that it has no such method."""


class _Run(NamedTuple):
    result: Result
    output: Output


class _UnderWay:
    """The processes that run now, in any thread. Who breaks off ends them, and waits for none."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._processes: set[HookProcess] = set()
        self._over = False

    @contextmanager
    def with_(self, process: HookProcess) -> Iterator[None]:
        """It runs as long as the block does, and is reaped after it."""
        with self._lock:
            self._processes.add(process)
            if self._over:
                process.kill()
        try:
            yield
        finally:
            with self._lock:
                self._processes.discard(process)

    def end(self) -> None:
        """No more."""
        with self._lock:
            self._over = True
            for process in self._processes:
                process.kill()


def run(
    command: Sequence[str],
    *,
    only: Collection[str] = (),
    stages: Iterable[str] = (),
    profile: str | None = None,
    timeout: float = TIMEOUT,
    grace: float = GRACE,
    at_once: int = AT_ONCE,
    seen: Callable[[Sequence[RawLine]], None] | None = None,
) -> Report:
    """Hold a hook to the protocol. `stages` are those that it must have; others it may have, as far as it is asked for them.

    It is asked for PicoClaw's stages and for `stages`; with a `profile`, for those that the profile names and no others.
    `seen` is called with the raw lines of each run, one run at a time, from any thread; they carry the requirement's id.
    Raises `PicohookError` when the command cannot be started, and for a profile or a stage that is not there.
    """
    manifest = load("hook")
    terms = terms_of(manifest, stages, profile)
    served = {stage for mode in terms.modes for stage in manifest.data["modes"][mode]}
    wanted = [one for one in manifest.requirements if not only or one.id in only]
    watched = [one for one in wanted if "watch" in one.vector]
    # A watch looks at everything that the hook can be made to write.
    scripts = [one for one in (manifest.requirements if watched else wanted) if "steps" in one.vector]

    under_way = _UnderWay()
    showing = threading.Lock()

    def play(requirement: Requirement) -> _Run:
        name, stage = requirement.id, requirement.vector.get("stage")
        if stage is not None and stage not in served:
            way = "" if profile else f": --stages {stage} asks it"
            return _Run(Result(requirement, SKIP, said=f"it was not asked to serve {stage}{way}"), Output((), (), {}))
        with HookProcess(command, timeout=timeout, grace=grace, name=name) as process, under_way.with_(process):
            script = Script(process, manifest, requirement, terms)
            result = _verdict(requirement, script)
        if seen is not None:
            with showing:
                seen(process.raw)
        return _Run(result, Output(process.lines, process.sent, script.methods))

    runs: list[_Run] = []
    for requirement_id in FIRST:
        if all(done.result.status == PASS for done in runs):
            runs.append(play(manifest[requirement_id]))
    if scripts and all(done.result.status == PASS for done in runs):
        runs.append(play(manifest[REFUSES]))
        terms = terms.learn(runs[-1].output.lines)
    others = [one for one in scripts if one.id not in {done.result.requirement.id for done in runs}]
    if all(done.result.status == PASS for done in runs[: len(FIRST)]):
        with ThreadPoolExecutor(at_once) as pool:
            try:
                runs += pool.map(play, others)
            except BaseException:
                under_way.end()
                raise
    else:
        runs += [_Run(Result(one, SKIP, said="it does not take part: see HELLO"), Output((), ())) for one in others]
    results = {done.result.requirement.id: done.result for done in runs}
    results |= {one.id: _watch(one, runs) for one in watched}
    return Report(manifest, shlex.join(command), counted_once([results[one.id] for one in wanted]))


def terms_of(manifest: Manifest, stages: Iterable[str], profile: str | None) -> Terms:
    """What a hook is held to. Raises `PicohookError` for a profile that is not there, or has not one of these stages."""
    claimed = frozenset(stages)
    modes: Mapping[str, Sequence[str]] = manifest.data["modes"]
    if profile is None:
        asked = manifest.data["hello"]["modes"]
        named = [mode for mode, has in modes.items() if mode in asked or claimed.intersection(has)]
        return Terms(tuple(named), claimed)
    profiles = manifest.data["profiles"]
    if profile not in profiles:
        raise PicohookError(f"there is no profile {profile!r} (there are: {', '.join(profiles)})")
    chosen = profiles[profile]
    if foreign := claimed.difference(*(modes[mode] for mode in chosen["modes"])):
        raise PicohookError(f"{profile} has no {', '.join(sorted(foreign))}")
    actions = chosen.get("actions")
    return Terms(tuple(chosen["modes"]), claimed, None if actions is None else frozenset(actions))


def _verdict(requirement: Requirement, script: Script) -> Result:
    try:
        script.play()
    except Failed as failed:
        return Result(requirement, FAIL, failed.expected, failed.said)
    except Skipped as skipped:
        return Result(requirement, SKIP, said=str(skipped))
    return Result(requirement, PASS)


def _watch(requirement: Requirement, runs: Iterable[_Run]) -> Result:
    for done in runs:
        complaint = WATCHES[requirement.id](done.output)
        if complaint is not None:
            during = done.result.requirement.id
            return Result(requirement, FAIL, requirement.wants, f"in the run for {during}, {complaint}")
    return Result(requirement, PASS)
