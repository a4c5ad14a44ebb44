"""Runs a hook's command against the requirements: their scripts, in as few processes as possible, then the line checks.

Most of the time of a run is the start of processes. So a process plays the scripts of many requirements, until one fails. That
one is played again, as the first of another process: only this counts.
"""

import shlex
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import islice
from typing import Any

from ..errors import PicohookError
from ..protocol.raw_line import RawLine
from .answer_checks import Expectations
from .line_checks import LINE_CHECKS, LONGEST_LINE, Output
from .manifest import Manifest, Requirement, load
from .outcome import Failed, Skipped
from .process import HookProcess
from .report import FAIL, PASS, SKIP, Report, Result, counted_once
from .script import Conversation

TIMEOUT = 5.0
"""Seconds for an answer."""
GRACE = 3.0
"""Seconds for the end of the process."""

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
    seen: Callable[[Sequence[RawLine]], None] | None = None,
) -> Report:
    """Check a hook against the protocol. Returns the report. The hook must serve `stages`, and may serve others.

    It is asked at PicoClaw's stages and at `stages`, or with a `profile` only at the stages of the profile. `seen` is called
    with the raw lines of each run, which carry the requirement's id. Raises `PicohookError` for a command that cannot be
    started, an unknown profile, and a stage that the profile does not have.
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
    player.play([one for one in scripts if one.id not in player.results])
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
        self._played: list[tuple[Output, list[tuple[str, int]]]] = []
        """The output of each process, and its scripts, each with the number of lines when it was over."""

    def play(self, scripts: Sequence[Requirement]) -> None:
        """Play the scripts that all others depend on, and then these."""
        others = [one for one in scripts if one.id not in {*FIRST, REFUSES}]
        leading = [*FIRST, REFUSES] if {one.id for one in scripts}.difference(FIRST) else FIRST
        shared = [*map(self._manifest.__getitem__, leading), *(one for one in others if not _needs_a_process(one))]
        for waiting in (deque(shared), *(deque([one]) for one in others if _needs_a_process(one))):
            while waiting:
                self._play_some(waiting)
                if any(self.results[one].status != PASS for one in FIRST if one in self.results):
                    why = "it did not answer hook.hello: see HELLO"
                    skipped = [one for one in scripts if one.id not in self.results]
                    self.results |= {one.id: Result(one, SKIP, said=why) for one in skipped}
                    return

    def check_lines(self, requirement: Requirement) -> Result:
        """Check all output. A complaint names the script that was played when the line came."""
        check = LINE_CHECKS[requirement.id]
        for output, scripts in self._played:
            for said in islice(check(output), 1):
                before = (name for name, count in scripts if any(check(output._replace(lines=output.lines[:count]))))
                during = next(before, scripts[-1][0])
                return Result(requirement, FAIL, requirement.wants, f"in the run for {during}, {said}")
        return Result(requirement, PASS)

    def _play_some(self, waiting: deque[Requirement]) -> None:
        """Play scripts with one process, until one fails. That one is put back, unless it was the first."""
        results: list[Result] = []
        scripts: list[tuple[str, int]] = []
        with self._start() as process:
            conversation = Conversation(process, self._manifest)
            while waiting and all(one.status != FAIL for one in results):
                script = waiting.popleft()
                process.call_lines(script.id)
                result = _result_of(script, conversation.play, script, self._expectations)
                scripts.append((script.id, len(process.lines)))
                if result.status == FAIL and results:
                    waiting.appendleft(script)
                    break
                results.append(result)
                if script.id == REFUSES:
                    self._expectations = self._expectations.with_refusal(process.lines, conversation.methods)
            process.finish()
        if self._seen is not None:
            self._seen(process.raw)
        output = Output(process.lines, process.sent, conversation.methods, self._expectations.longest_line)
        self._played.append((output, scripts))
        if results[0].status == PASS and any("quiet" in step for step in results[0].requirement.vector["steps"]):
            results = [_result_of(results[0].requirement, conversation.require_quiet)]
        self.results |= {one.requirement.id: one for one in results}


def _needs_a_process(script: Requirement) -> bool:
    """Whether it has a hello of its own, ends the hook, or allows no other answers, which another script could cause."""
    return "hello" in script.vector or any(
        {"close", "signal", "quiet"} & step.keys() for step in script.vector["steps"]
    )


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
