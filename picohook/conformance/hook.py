"""Runs a hook's command against the requirements: a process for each script, then the line checks over all output."""

from __future__ import annotations

import shlex
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from ..errors import PicohookError
from .answer_checks import Expectations
from .line_checks import LINE_CHECKS, Output
from .manifest import load
from .outcome import Failed, Skipped
from .process import HookProcess
from .report import FAIL, PASS, SKIP, Report, Result, counted_once
from .script import Script

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from ..protocol.raw_line import RawLine
    from .manifest import Manifest, Requirement

TIMEOUT = 5.0
"""Seconds for an answer."""
GRACE = 3.0
"""Seconds for the end of the process."""
AT_ONCE = 4
"""Processes of the hook that run at the same time. Most of their time is start-up."""

FIRST = ("HELLO-1", "HELLO-2")
"""A hook that fails one of these is not checked further."""
REFUSES = "CALL-2"
"""Shows the hook's error for an unknown method."""


class _ScriptRun(NamedTuple):
    result: Result
    output: Output


class _RunningProcesses:
    """The processes that run now, in any thread, so that an interrupted run can end all of them at once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._processes: set[HookProcess] = set()
        self._over = False

    @contextmanager
    def running(self, process: HookProcess) -> Iterator[None]:
        """Include this process while the block runs."""
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
        """Kill all of them, and those that start from now on."""
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
    """Check a hook against the protocol, and return the report. The hook must serve `stages`, and may serve others.

    It is asked at PicoClaw's stages and at `stages`, or with a `profile` only at the stages of the profile. `seen` is called
    with the raw lines of each run, which carry the requirement's id. The calls come one at a time, from any thread. Raises
    `PicohookError` for a command that cannot be started, an unknown profile, and a stage that the profile does not have.
    """
    manifest = load("hook")
    expectations = expectations_of(manifest, stages, profile)
    player = _Player(command, manifest, expectations, timeout, grace, seen, with_profile=profile is not None)
    wanted = [one for one in manifest.requirements if not only or one.id in only]
    watched = [one for one in wanted if "watch" in one.vector]
    # A line check needs the output of every script.
    scripts = [one for one in (manifest.requirements if watched else wanted) if "steps" in one.vector]
    runs: list[_ScriptRun] = []
    for requirement_id in (*FIRST, REFUSES) if scripts else FIRST:
        if all(done.result.status == PASS for done in runs):
            runs.append(player.play(manifest[requirement_id]))
    others = [one for one in scripts if one.id not in {done.result.requirement.id for done in runs}]
    if all(done.result.status == PASS for done in runs[: len(FIRST)]):
        player.expectations = expectations.with_refusal(runs[-1].output.lines)
        runs += player.play_all(others, at_once)
    else:
        why = "it did not answer hook.hello: see HELLO"
        runs += [_ScriptRun(Result(one, SKIP, said=why), Output((), ())) for one in others]
    results = {done.result.requirement.id: done.result for done in runs}
    results |= {one.id: _check_lines(one, runs) for one in watched}
    return Report(manifest, shlex.join(command), counted_once([results[one.id] for one in wanted]))


class _Player:
    """Plays the scripts of requirements, each with a new process of the hook."""

    def __init__(  # noqa: PLR0917 - what `run` was given
        self,
        command: Sequence[str],
        manifest: Manifest,
        expectations: Expectations,
        timeout: float,
        grace: float,
        seen: Callable[[Sequence[RawLine]], None] | None,
        *,
        with_profile: bool,
    ) -> None:
        self._command, self._manifest, self.expectations = command, manifest, expectations
        self._timeout, self._grace, self._seen, self._with_profile = timeout, grace, seen, with_profile
        self._served = {stage for mode in expectations.modes for stage in manifest.data["modes"][mode]}
        self._processes = _RunningProcesses()
        self._showing = threading.Lock()

    def play(self, requirement: Requirement) -> _ScriptRun:
        """Play the script of one requirement. Any thread may call this."""
        stage = requirement.vector.get("stage")
        if stage is not None and stage not in self._served:
            way_out = "" if self._with_profile else f": use --stages {stage}"
            skipped = Result(requirement, SKIP, said=f"it was not asked to serve {stage}{way_out}")
            return _ScriptRun(skipped, Output((), ()))
        process = HookProcess(self._command, timeout=self._timeout, grace=self._grace, name=requirement.id)
        with process, self._processes.running(process):
            script = Script(process, self._manifest, requirement, self.expectations)
            result = _result_of(requirement, script)
        if self._seen is not None:
            with self._showing:
                self._seen(process.raw)
        return _ScriptRun(result, Output(process.lines, process.sent, script.methods))

    def play_all(self, requirements: Iterable[Requirement], at_once: int) -> list[_ScriptRun]:
        """Play the scripts of several requirements, some at the same time. If this is interrupted, it ends all processes."""
        with ThreadPoolExecutor(at_once) as pool:
            try:
                return list(pool.map(self.play, requirements))
            except BaseException:
                self._processes.end()
                raise


def expectations_of(manifest: Manifest, stages: Iterable[str], profile: str | None) -> Expectations:
    """Return what is expected of a hook. Raises `PicohookError` for an unknown profile, or one without these stages."""
    claimed = frozenset(stages)
    modes: Mapping[str, Sequence[str]] = manifest.data["modes"]
    if profile is None:
        asked = manifest.data["hello"]["modes"]
        named = [mode for mode, has in modes.items() if mode in asked or claimed.intersection(has)]
        return Expectations(tuple(named), claimed)
    profiles = manifest.data["profiles"]
    if profile not in profiles:
        raise PicohookError(f"unknown profile {profile!r}: use one of {', '.join(profiles)}")
    chosen = profiles[profile]
    if foreign := claimed.difference(*(modes[mode] for mode in chosen["modes"])):
        raise PicohookError(f"profile {profile}: it has no {', '.join(sorted(foreign))}")
    actions = chosen.get("actions")
    return Expectations(tuple(chosen["modes"]), claimed, None if actions is None else frozenset(actions))


def _result_of(requirement: Requirement, script: Script) -> Result:
    try:
        script.play()
    except Failed as failed:
        return Result(requirement, FAIL, failed.expected, failed.said)
    except Skipped as skipped:
        return Result(requirement, SKIP, said=str(skipped))
    return Result(requirement, PASS)


def _check_lines(requirement: Requirement, runs: Iterable[_ScriptRun]) -> Result:
    for done in runs:
        complaint = LINE_CHECKS[requirement.id](done.output)
        if complaint is not None:
            during = done.result.requirement.id
            return Result(requirement, FAIL, requirement.wants, f"in the run for {during}, {complaint}")
    return Result(requirement, PASS)
