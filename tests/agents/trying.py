"""Asks one hook about many calls: in an agent's own program, and in picohook's vendor mode."""

from __future__ import annotations

import os
import shutil
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from picohook import AbortTurnError, Host, PausedError, Prompt, ToolCall, ToolResult, foreign_hooks
from picohook.ext.drill.model import serving

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from cases import Answer
    from programs import Program

PLACE = Path(__file__).parents[2] / "build" / "agents"
HOOK = """\
#!/bin/sh
event=$(cat)
case $event in *case_*) ;; *) exit 0 ;; esac
name=${event##*case_}
name=${name%%_*}
cd "$1" || exit 99
echo >>"asked/$name"
[ -e "$name.out" ] || exit 0
cat "$name.out"
cat "$name.err" >&2
code=$(cat "$name.code")
[ "$code" = -9 ] && kill -9 $$
exit "$code"
"""
"""Answers as the files of a case say, which the call names. Notes that it was asked."""


class Ground:
    """A directory with a hook, the files of its answers, and the agent's home and project."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.home, self.project, self.answers = place / "home", place / "project", place / "answers"
        for directory in (
            self.home,
            self.project,
            self.answers / "asked",
            self.project / "ran",
            self.project / "changed",
        ):
            directory.mkdir(parents=True)
        self.home.chmod(0o700)  # the sockets of the shim are there
        self.hook = place / "hook.sh"
        self.hook.write_text(HOOK, encoding="utf-8")

    @property
    def command(self) -> str:
        """The hook's command."""
        return f"/bin/sh {self.hook} {self.answers}"

    def write_all(self, program: Program, event: str, answers: Mapping[str, Answer]) -> dict[str, str]:
        """Write the files of the hook's answers for an event. Returns their names by numbers, which stand in the calls."""
        numbers = {str(at): name for at, name in enumerate(answers)}
        for number, name in numbers.items():
            answer = answers[name].of(event, {program.shown: changed(number), **program.more})
            (self.answers / f"{number}.out").write_text(answer.stdout, encoding="utf-8", newline="")
            (self.answers / f"{number}.err").write_text(answer.stderr, encoding="utf-8", newline="")
            (self.answers / f"{number}.code").write_text(str(answer.code), encoding="utf-8")
        return numbers

    def asked(self, name: str) -> bool:
        """Whether the hook was asked about a call."""
        return (self.answers / "asked" / name).exists()

    def progress(self) -> int:
        """How often the hook was asked."""
        return len(os.listdir(self.answers / "asked"))

    def came(self, name: str) -> str:
        """What ran of a call."""
        own, other = (self.project / where / f"case_{name}_" for where in ("ran", "changed"))
        return {(True, False): "as it was", (False, True): "changed", (True, True): "twice"}.get(
            (own.exists(), other.exists()), "nothing"
        )


@contextmanager
def ground() -> Iterator[Ground]:
    """A new directory, which is removed at the end. It is not the system's for scratch files: Codex refuses a home there."""
    PLACE.mkdir(parents=True, exist_ok=True)
    place = Path(tempfile.mkdtemp(dir=PLACE))
    try:
        yield Ground(place)
    finally:
        shutil.rmtree(place, ignore_errors=True)


def original(name: str) -> str:
    """The command of a call."""
    return f"touch ran/case_{name}_"


def changed(name: str) -> str:
    """The command that an answer puts in its place."""
    return f"touch changed/case_{name}_"


def in_program(program: Program, event: str, answers: Mapping[str, Answer]) -> dict[str, str]:
    """What came of a call for each answer, in the agent's own program. It is started again where an answer ends it."""
    made: dict[str, str] = {}
    with ground() as here:
        left = here.write_all(program, event, answers)
        while left:
            with serving({"": [[program.call(f"c{number}", original(number))] for number in left]}) as model:
                program.prepare(here.home, model.url, {event: program.group({"command": here.command})})
                said = program.run("go on", here.home, here.project, model.url, here.progress)
            seen = [number for number in left if here.asked(number)]
            if not seen:
                raise RuntimeError(f"{program.name} asked its hook nothing: {said[:1500]} ... {said[-1500:]}")
            made |= {left.pop(number): here.came(number) for number in seen}
    return {name: made[name] for name in answers}


def prompts_in_program(program: Program, event: str, answers: Mapping[str, Answer]) -> dict[str, str]:
    """What came of a prompt for each answer: whether the model was asked."""
    made: dict[str, str] = {}
    with ground() as here:
        for number, name in here.write_all(program, event, answers).items():
            with serving({}) as model:
                program.prepare(
                    here.home, model.url, {event: program.group({"command": here.command}, program.any_prompt)}
                )
                said = program.run(f"case_{number}_", here.home, here.project, model.url)
            if not here.asked(number):
                raise RuntimeError(f"{program.name} did not ask its hook: {said[:1500]} ... {said[-1500:]}")
            made[name] = "as it was" if model.requests else "nothing"
    return made


async def in_vendor_mode(program: Program, event: str, answers: Mapping[str, Answer]) -> dict[str, str]:
    """What comes of the same calls or prompts, for the same hook file, in a host of picohook."""
    made: dict[str, str] = {}
    with ground() as here:
        is_prompt = event == program.prompt_event
        program.prepare(
            here.home, "", {event: program.group({"command": here.command}, program.any_prompt if is_prompt else None)}
        )
        hooks = foreign_hooks(here.home / program.hook_file, dialect=program.dialect, failures="vendor")
        async with Host(hooks) as host:
            for number, name in here.write_all(program, event, answers).items():
                if is_prompt:
                    outcome = await host.before_prompt(Prompt(prompt=f"case_{number}_"))
                    made[name] = "as it was" if outcome.action in {"continue", "modify"} else "nothing"
                else:
                    made[name] = await _called(host, program, number)
    return made


async def _called(host: Host, program: Program, number: str) -> str:
    """What comes of a call of the shell, in a host of picohook. A call without its command does not run."""
    ran: list[Any] = []

    async def run(call: ToolCall) -> ToolResult:
        ran.append(call.arguments.get(program.command))
        return ToolResult(for_llm="done")

    try:
        await host.run_tool(
            ToolCall(tool=program.shell, arguments={program.command: original(number), **program.more}), run
        )
    except (AbortTurnError, PausedError):
        pass
    words = {original(number): "as it was", changed(number): "changed", None: "nothing"}
    return words.get(ran[0], str(ran[0])) if ran else "nothing"


NOTE = """\
#!/bin/sh
event=$(cat)
name=${event##*case_}
echo >>"$1/asked/$2 ${name%%_*}"
"""
"""Notes which handler was asked about which call."""


def _noting(here: Ground, program: Program, matchers: Sequence[str | None]) -> list[Any]:
    """The list of an event with one handler for each matcher."""
    here.hook.write_text(NOTE, encoding="utf-8")
    names = {"SHELL": program.matched, "WRITE": program.write}
    made = []
    for at, matcher in enumerate(matchers):
        text = matcher
        for name, own in names.items() if text else ():
            text = text.replace(name, own)
        made += program.group({"command": f"{here.command} {at}"}, text)
    return made


def _noted(here: Ground, matchers: Sequence[str | None]) -> set[tuple[str | None, str]]:
    noted = [name.split(" ") for name in os.listdir(here.answers / "asked")]
    return {(matchers[int(at)], call) for at, call in noted}


def matched_in_program(program: Program, event: str, matchers: Sequence[str | None]) -> set[tuple[str | None, str]]:
    """Which matchers' handlers the agent's program asks about a call of its shell, and about one that writes a file."""
    with ground() as here:
        calls = [program.call("c1", original("shell")), program.call_of_write("c2", "case_write_")]
        with serving({"": [[call] for call in calls]}) as model:
            program.prepare(here.home, model.url, {event: _noting(here, program, matchers)})
            said = program.run("go on", here.home, here.project, model.url, here.progress)
        if here.came("shell") != "as it was" or not (here.project / "case_write_").exists():
            raise RuntimeError(f"{program.name} did not make its calls: {said[:1500] + said[-1500:]}")
        return _noted(here, matchers)


async def matched_in_vendor_mode(
    program: Program, event: str, matchers: Sequence[str | None]
) -> set[tuple[str | None, str]]:
    """Which of them vendor mode asks."""
    with ground() as here:
        program.prepare(here.home, "", {event: _noting(here, program, matchers)})
        async with Host(
            foreign_hooks(here.home / program.hook_file, dialect=program.dialect, failures="vendor")
        ) as host:
            for _, tool, arguments in (
                program.call("c1", original("shell")),
                program.call_of_write("c2", "case_write_"),
            ):
                await host.before_tool(ToolCall(tool=tool, arguments=arguments))
        return _noted(here, matchers)
