"""Runs a hook's command against the requirements: their scripts, in as few processes as possible, then the line checks.

Most of the time of a run is the start of processes. So a process plays the scripts of many requirements, until one fails. That
one is played again, as the first of another process: only this counts.
"""

from __future__ import annotations

import shlex
import threading
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import chain, groupby, islice
from typing import TYPE_CHECKING, Any

from ..errors import PicohookError
from .answer_checks import Expectations
from .line_checks import LINE_CHECKS, LONGEST_LINE, Output
from .manifest import load
from .outcome import Failed, Skipped
from .process import HookProcess
from .report import FAIL, PASS, SKIP, Report, Result, counted_once
from .script import Conversation

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from ..protocol.raw_line import RawLine
    from .manifest import Manifest, Requirement

TIMEOUT = 5.0
"""Seconds for an answer."""
GRACE = 3.0
"""Seconds for the end of the process."""
AT_ONCE = 4
"""Processes of the hook that run at the same time."""

FIRST = ("HELLO-1", "HELLO-2")
"""A hook that fails one of these is not checked further."""
REFUSES = "CALL-2"
"""Shows the hook's error for an unknown method."""


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
    """Check a hook against the protocol. Returns the report. The hook must serve `stages`, and may serve others.

    It is asked at PicoClaw's stages and at `stages`, or with a `profile` only at the stages of the profile. `seen` is called
    with the raw lines of each run, which carry the requirement's id. The calls come one at a time, from any thread. Raises
    `PicohookError` for a command that cannot be started, an unknown profile, and a stage that the profile does not have.
    """
    manifest = load("hook")
    expectations = expectations_of(manifest, stages, profile)
    wanted = [one for one in manifest.requirements if not only or one.id in only]
    watched = [one for one in wanted if "watch" in one.vector]
    # A line check needs the output of every script.
    scripts = [one for one in (manifest.requirements if watched else wanted) if "steps" in one.vector]
    player = _Player(manifest, expectations, lambda: HookProcess(command, timeout=timeout, grace=grace), seen)
    served = {stage for mode in expectations.modes for stage in manifest.data["modes"][mode]}
    for requirement in scripts:
        stage = requirement.vector.get("stage")
        if stage is not None and stage not in served:
            way_out = "" if profile else f": use --stages {stage}"
            why = f"it was not asked to serve {stage}{way_out}"
            player.results[requirement.id] = Result(requirement, SKIP, said=why)
    player.play([one for one in scripts if one.id not in player.results], at_once)
    checked = {one.id: player.check_lines(one) for one in watched}
    results = player.results | checked
    return Report(manifest, shlex.join(command), counted_once([results[one.id] for one in wanted]))


class _Player:
    """Plays scripts with processes of the hook, and keeps the results."""

    def __init__(
        self,
        manifest: Manifest,
        expectations: Expectations,
        start: Callable[[], HookProcess],
        seen: Callable[[Sequence[RawLine]], None] | None,
    ) -> None:
        self.results: dict[str, Result] = {}
        """The results of scripts, by id."""
        self._manifest = manifest
        self._expectations = expectations
        self._start = start
        self._seen = seen
        self._lock = threading.Lock()
        self._running: set[HookProcess] = set()
        self._interrupted = False
        self._played: list[tuple[list[Requirement], Output]] = []
        """The scripts that each process has played, and its output."""

    def play(self, scripts: Sequence[Requirement], at_once: int) -> None:
        """Play the scripts that all others depend on, and then these."""
        leading = [self._manifest[one] for one in (*FIRST, REFUSES)]
        others = [one for one in scripts if one not in leading]
        if not others and leading[-1] not in scripts:
            leading.pop()
        alone = [one for one in others if _needs_a_process(one)]
        quiet = [one for one in others if one not in alone and _is_quiet(one)]
        waiting = deque([*leading, *(one for one in others if one not in alone and one not in quiet)])
        while any(one.id not in self.results for one in leading):
            self._play_some(waiting)
            if any(self.results[one].status != PASS for one in FIRST if one in self.results):
                why = "it did not answer hook.hello: see HELLO"
                skipped = [one for one in scripts if one.id not in self.results]
                self.results |= {one.id: Result(one, SKIP, said=why) for one in skipped}
                return
        ending = [deque(same) for _, same in groupby(alone, _steps)]
        with ThreadPoolExecutor(at_once) as pool:
            try:
                list(pool.map(self._play_all, [*[waiting] * at_once, deque(quiet), *ending]))
            except BaseException:
                with self._lock:
                    self._interrupted = True
                    for process in self._running:
                        process.kill()
                raise

    def check_lines(self, requirement: Requirement) -> Result:
        """Check all output. A complaint names the first script that is a cause of it when it is played alone."""
        check = LINE_CHECKS[requirement.id]
        found = [(scripts, said) for scripts, output in self._played for said in islice(check(output), 1)]
        if not found:
            return Result(requirement, PASS)
        suspects = [one for scripts, _ in found for one in scripts]
        for script in sorted(suspects, key=self._manifest.requirements.index):
            for said in check(self._output_of(script)):
                return Result(requirement, FAIL, requirement.wants, f"in the run for {script.id}, {said}")
        scripts, said = found[0]
        during = f"{scripts[0].id} to {scripts[-1].id}"
        return Result(requirement, FAIL, requirement.wants, f"in the run for {during}, {said}")

    def _output_of(self, script: Requirement) -> Output:
        """Returns the output of this script alone."""
        if all(scripts != [script] for scripts, _ in self._played):
            self._play_some(deque([script]))
        return next(output for scripts, output in self._played if scripts == [script])

    def _play_all(self, waiting: deque[Requirement]) -> None:
        while waiting:
            self._play_some(waiting)

    def _play_some(self, waiting: deque[Requirement]) -> None:
        """Play scripts with one process, until one fails. That one is put back, unless it was the first."""
        results: list[Result] = []
        taken = _taken_from(waiting)
        first = next(taken, None)
        if first is None:
            return
        with self._start() as process, self._killable(process):
            conversation = Conversation(process, self._manifest)
            for script in chain([first], taken):
                process.call_lines(script.id)
                result = _result_of(script, conversation.play, script, self._expectations)
                if result.status == FAIL and results:
                    waiting.appendleft(script)
                    break
                results.append(result)
                if script.id == REFUSES:
                    self._expectations = self._expectations.with_refusal(process.lines, conversation.methods)
                if result.status == FAIL:
                    break
            process.finish()
        if self._seen is not None:
            with self._lock:
                self._seen(process.raw)
        scripts = [one.requirement for one in results]
        output = Output(process.lines, process.sent, conversation.methods, self._expectations.longest_line)
        self._played.append((scripts, output))
        if all(one.status == PASS and _is_quiet(one.requirement) for one in results):
            results = [_result_of(one, conversation.require_quiet) for one in scripts]
            if len(scripts) > 1 and results[0].status == FAIL:
                for one in scripts:
                    self._play_some(deque([one]))
                return
        self.results |= {one.requirement.id: one for one in results}

    @contextmanager
    def _killable(self, process: HookProcess) -> Iterator[None]:
        """Kill this process in the block if the run is interrupted, or was before."""
        with self._lock:
            self._running.add(process)
            if self._interrupted:
                process.kill()
        try:
            yield
        finally:
            with self._lock:
                self._running.discard(process)


def _needs_a_process(script: Requirement) -> bool:
    """Whether it has a hello of its own, or ends the hook."""
    return "hello" in script.vector or any({"close", "signal"} & step.keys() for step in script.vector["steps"])


def _steps(script: Requirement) -> list[tuple[str, Any]]:
    """The steps of a script without its expectations. Scripts with the same steps can share a process, even if they end it."""
    return [next(iter(step.items())) for step in script.vector["steps"]]


def _is_quiet(script: Requirement) -> bool:
    """Whether it allows no other answers. Bytes of another script could cause some."""
    return any("quiet" in step for step in script.vector["steps"])


def _taken_from(waiting: deque[Requirement]) -> Iterator[Requirement]:
    """Yields what is taken from the queue until it is empty. Other threads may take from it too."""
    while True:
        try:
            yield waiting.popleft()
        except IndexError:
            return


def expectations_of(manifest: Manifest, stages: Iterable[str], profile: str | None) -> Expectations:
    """Returns what is expected of a hook. Raises `PicohookError` for an unknown profile, or one without these stages."""
    claimed = frozenset(stages)
    modes: Mapping[str, Sequence[str]] = manifest.data["modes"]
    profiles, chosen = manifest.data["profiles"], dict[str, Any]()
    if profile is None:
        asked = manifest.data["hello"]["modes"]
        chosen = {"modes": [mode for mode, has in modes.items() if mode in asked or claimed.intersection(has)]}
    elif profile in profiles:
        chosen = profiles[profile]
    else:
        raise PicohookError(f"unknown profile {profile!r}: use one of {', '.join(profiles)}")
    foreign = claimed.difference(*(modes[mode] for mode in chosen["modes"]))
    if profile is not None and foreign:
        raise PicohookError(f"profile {profile}: it has no {', '.join(sorted(foreign))}")
    actions = chosen.get("actions")
    return Expectations(
        tuple(chosen["modes"]),
        claimed,
        chosen.get("longest_line", LONGEST_LINE),
        None if actions is None else frozenset(actions),
    )


def _result_of(requirement: Requirement, check: Callable[..., None], *arguments: object) -> Result:
    try:
        check(*arguments)
    except Failed as failed:
        return Result(requirement, FAIL, failed.expected, failed.said)
    except Skipped as skipped:
        return Result(requirement, SKIP, said=str(skipped))
    return Result(requirement, PASS)
