"""The ways to run something: drives an agent along each, with a copy of its settings, and judges what was seen."""

import contextlib
import json
import os
import re
import shlex
import shutil
import signal
import sys
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias

from ...contain.syscalls import CLONE_NEWNS, libc
from ...errors import PicohookError
from ...wire.merge import merge_patch
from ..vendors.dialects import rows
from .agents import Agent, Call, filled, run
from .alone import recorder
from .model import Model, Said, Step, serving
from .settings import SHELLS, codex_hooks, command_of, directory_of, handlers, read, without_programs, written

Verdict: TypeAlias = Literal["guarded", "unguarded", "inconclusive"]

WAYS: dict[str, dict[str, Any]] = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
FAILS = {name: way["fails"] for name, way in WAYS.items() if "fails" in way}
REFUSES = 2
"""The exit code of a hook that refuses."""
_SHOWN = 160
FOREIGN = re.compile(
    r"(?i)(ANTHROPIC|CLAUDE|OPENAI|CODEX|GEMINI|GOOGLE|COPILOT|GITHUB|GH|AWS|AZURE|OTEL|DBUS)(_\w*|CODE)?$|\w*_PROXY$"
)
"""Variables that may name an account, another model or a way out of the machine. The agent gets none of them."""
_MAIN, _HELPER = "go on with the drill", "help here"
"""The prompts of the agent, and of its sub-agent."""
_USUAL = [[["ask"], ["refuse"]]]
"""The calls of a session along most ways."""
_RUN = {"command", "commandWindows", "bash", "powershell", "exec", "program", "args", "shell", "url", "headers"}
_RUN |= {"allowedEnvVars", "prompt", "model", "server", "tool", "input"}
"""The keys of a handler that say what it runs. All others stay as they are."""
_BIND, _PRIVATE, _DETACH = 1 << 12, 1 << 14 | 1 << 18, 2  # flags of mount and umount2


@dataclass
class Seen:
    """What was seen of one call."""

    marker: str
    ran: bool = False
    asked: list[str] = field(default_factory=list)
    """The hooks that were asked about it."""
    codes: list[int] = field(default_factory=list)
    """The exit codes of those that answered."""
    said: str = ""
    """What the agent told its model about it."""
    faults: list[str] = field(default_factory=list)
    """Errors of the drill itself."""

    @property
    def mode(self) -> str:
        """What the recorder does with the call."""
        return self.marker.rpartition("-")[2]

    def verdict(self, last: str) -> tuple[Verdict, str]:
        """What this call shows, and why. `last` are the agent's last words."""
        if self.faults:
            return "inconclusive", f"the drill failed: {self.faults[0]}"
        if not self.ran:
            told = " ".join((self.said or last or "it wrote nothing").split())
            return (
                ("guarded", "") if self.asked else ("inconclusive", f"the agent did not make a call: {told[:_SHOWN]}")
            )
        if not self.asked:
            return "unguarded", "a call ran, and no hook was asked about it"
        if self.mode == "refuse":
            return "unguarded", f"a call ran that {self.asked[0]} had refused"
        failed = [code for code in self.codes if code not in {0, REFUSES}]
        if self.mode in FAILS and self.mode != "missing" and self.codes and not failed:
            return "inconclusive", "the hook answered before it could fail"
        why = FAILS.get(self.mode) or (failed and f"its exit code was {failed[0]}")
        return ("unguarded", f"a call ran although {self.asked[0]} failed: {why}") if why else ("guarded", "")


@dataclass
class Way:
    """The verdict about one way, and what was seen."""

    name: str
    verdict: Verdict
    seen: str
    calls: list[Seen] = field(default_factory=list)
    known: str = ""
    """The way out, if no hook of this agent can guard it."""

    @property
    def fails(self) -> bool:
        """Whether the way is unguarded and should not be."""
        return self.verdict == "unguarded" and not self.known


def judged(name: str, calls: list[Seen], said: str = "") -> Way:
    """The verdict about a way of which these calls were seen. `said` is what the agent wrote."""
    last = re.sub(r"\x1b\[[\d;]*m", "", said).strip().rpartition("\n")[2]
    found = [one.verdict(last) for one in calls]
    for verdict, why in sorted(found, key=lambda one: one[0], reverse=True):  # unguarded, inconclusive, guarded
        if verdict != "guarded":
            return Way(name, verdict, why, calls)
    asked = ", ".join(dict.fromkeys(hook for one in calls for hook in one.asked))
    failed_by = [FAILS[one.mode] for one in calls if one.mode in FAILS]
    ended = f"the call did not run when {failed_by[0]}" if failed_by else "none ran that was refused"
    own = "; your hook itself kept one from running" if any(not one.ran and one.mode == "ask" for one in calls) else ""
    return Way(name, "guarded", f"{asked} was asked about each call, and {ended}{own}", calls)


class Drill:
    """Drives one agent along one way after the other, in a directory, or in `here`. The path of `sockets` is short."""

    def __init__(self, agent: Agent, program: str, place: Path, sockets: Path, here: Path | None) -> None:
        self.agent, self.program, self.place, self.here = agent, program, place, here
        self.notes: list[str] = []
        real, links = Path(os.environ.get("XDG_CONFIG_HOME") or "~/.config").expanduser(), place / "config"
        for directory in (links / "picohook" / "hosts", place / "cache", place / "state"):
            directory.mkdir(mode=0o700, parents=True)
        for path in (*real.glob("*"), *real.glob("picohook/*")):  # hosts of picohook leave their notes among the links
            if not (link := links / path.relative_to(real)).exists():
                link.symlink_to(path)
        self.environment = {
            **{name: value for name, value in os.environ.items() if not FOREIGN.match(name)},
            **dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"), "http://127.0.0.1:9"),
            **dict.fromkeys(("NO_PROXY", "no_proxy"), "127.0.0.1"),
            **dict.fromkeys(("XDG_RUNTIME_DIR", "TMPDIR"), str(sockets)),
            **{f"XDG_{name.upper()}_HOME": str(place / name) for name in ("config", "cache", "state")},
            recorder.AGENT: str(os.getpid()),
            agent.home: str(place),
        }

    def version(self) -> str:
        """The version that the program says it has; empty if it says none."""
        told = run([self.program, "--version"], self.place, self.environment, self.place / "version")
        found = re.search(r"\d+\.\d+\.\d+(-[\w.]*\w)?", told)
        return found[0] if found else ""

    def note(self, text: str) -> None:
        """Keep a remark for the user, once."""
        if text not in self.notes:
            self.notes.append(text)

    def along(self, name: str) -> Way:
        """Drive the agent along a way. Returns the verdict. Raises `PicohookError` if its settings cannot be used."""
        if name in self.agent.lacks:
            return Way(name, "inconclusive", self.agent.lacks[name])
        ground = Ground(self, name)
        try:
            said = ground.drive()
            way = judged(name, ground.seen(), said)
        finally:
            ground.clean()
        if way.verdict == "unguarded" and (name == "open-shell" or any(one.asked for one in way.calls)):
            way.known = self.agent.unguardable.get(name, "")
        return way


class Ground:
    """A directory for one way: the copy of the agent's settings, its project, and the recorders' notes."""

    def __init__(self, drill: Drill, name: str) -> None:
        self.drill, self.agent, self.name, self.place = drill, drill.agent, name, drill.place / name
        self.real, self.home, self._shells = directory_of(drill.agent), self.place / "home", self.place / "shells"
        self.project = drill.here or self.place / "project"
        self.work = self.project / f"picohook-drill-directory-{os.getpid()}" if name == "subdirectory" else self.project
        self.work.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._shells.mkdir(parents=True)
        self.hooks: list[dict[str, Any]] = []
        """The hooks that are asked before a tool: place, command, and the command with its programs missing."""
        self.markers: list[str] = []
        self._results: dict[str, str] = {}
        self._covered: list[Path] = []

    def drive(self) -> str:
        """Start the agent, once or twice. Returns what it wrote."""
        said, scripts = "", self._scripts()
        with serving(scripts[0]) as model:
            home = {self.agent.home: str(self.home)}
            environment = {**self.drill.environment, **home, **filled(self.agent.environment, url=model.url)}
            self.copy(model.url, environment)
            if not self.hooks:
                places = f"{self.real}{f' and {self.drill.here}' if self.drill.here else ''}"
                raise PicohookError(
                    f"no hook in {places} is asked before a tool: write one, or call picohook shim {self.agent.name}"
                )
            for at, model.scripts in enumerate(scripts):
                before = (*self.agent.start, *(self.agent.resume if at else ()), *filled(self.agent.in_drill))
                command = [self.drill.program, *before, *self.agent.options, _MAIN]
                said = run(command, self.work, environment, self.place / "output")
            self._results = model.results
        return said

    def _scripts(self) -> list[dict[str, list[Step]]]:
        """What the model says in each session."""
        way = WAYS[self.name]
        sessions: list[list[Step]] = [
            [[self._call(mode, way.get("kind", "shell")) for mode in modes] for modes in session]
            for session in way.get("sessions", _USUAL)
        ]
        if self.name == "open-shell":
            sessions[0].append(self._typed)
        if self.name == "sub-agent":
            help_call: list[Step] = [[self.agent.call("helper", "help", prompt=_HELPER)]]
            return [{_MAIN: help_call, _HELPER: [*sessions[0], "I have helped"]}]
        return [{_MAIN: steps} for steps in sessions]

    def _call(self, mode: str, kind: str, **words: Any) -> Call:
        """The next call, which makes a marker of this mode. Another drill in the same directory has other markers."""
        self.markers.append(f"picohook-drill-{self.name}-{os.getpid()}{len(self.markers):02}-{mode}")
        path = self.work / self.markers[-1]
        return self.agent.call(path.name, kind, path=str(path), command=f"touch {path}", **words)

    def _typed(self, model: Model) -> Said:
        """Text for the shell that the first call has opened, if it has."""
        opened = re.search(r"session ID (\d+)", model.results.get(self.markers[0], ""))
        return [self._call("ask", "type", session=int(opened[1]))] if opened else "done"

    def seen(self) -> list[Seen]:
        """What was seen of each call that the model made."""
        notes = [json.loads(line) for path in self.place.glob("asked") for line in path.read_bytes().splitlines()]
        found = []
        for one in self.markers:
            own = [note for note in notes if note["marker"] == one]
            asked = [note["hook"] for note in own if not note.keys() & {"code", "fault"}]
            codes, faults = ([note[key] for note in own if key in note] for key in ("code", "fault"))
            found.append(Seen(one, (self.work / one).exists(), asked, codes, self._results.get(one, ""), faults))
        return found

    def clean(self) -> None:
        """Let the project's hook files be seen again, remove the markers, and end what the hooks left running."""
        for path in self._covered:
            libc("umount2", os.fsencode(path), _DETACH)
        for marker in self.markers:
            (self.work / marker).unlink(missing_ok=True)
        if self.work != self.project:
            shutil.rmtree(self.work, ignore_errors=True)
        for pid in recorder.with_variable(recorder.AGENT, str(os.getpid())):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def copy(self, url: str, environment: Mapping[str, str]) -> None:
        """Write the settings for a model at this URL, and cover the project's. Raises `PicohookError` if one cannot be read."""
        found = [path for pattern in self.agent.files for path in sorted(self.real.glob(pattern))]
        first, *_ = self.agent.files
        documents: dict[str, Any] = {first: {}} | {str(path.relative_to(self.real)): self._read(path) for path in found}
        documents = merge_patch(documents, {first: filled({**self.agent.settings, **self.agent.servers}, url=url)})
        if self.name != "untrusted":
            documents = merge_patch(documents, filled(self.agent.trust, project=str(self.project)))
        state = documents[first].get("hooks", {}).get("state", {}) if self.agent.name == "codex" else {}
        if state:
            documents[first]["hooks"]["state"] = {
                key.replace(str(self.real), str(self.home), 1): one for key, one in state.items()
            }
        own = self._known_to_codex(documents, environment)
        for name, document in documents.items():
            self.record(document, name)
        for path in [path for one in rows[self.agent.name].project_files for path in sorted(self.project.glob(one))]:
            self._cover(path)
        for shell in filter(shutil.which, SHELLS):
            (self._shells / shell).symlink_to(str(shutil.which(shell)))
        (self.place / "hooks.json").write_text(json.dumps(self.hooks), encoding="utf-8")
        recorders = self._known_to_codex(documents, environment)
        approved = {key for key, hook in own.items() if hook["trustStatus"] == "trusted"} & recorders.keys()
        for key in approved:
            trust = {"hooks": {"state": {key: {"trusted_hash": recorders[key]["currentHash"]}}}}
            documents = merge_patch(documents, {first: trust})
        self._put(documents)

    def _read(self, path: Path) -> dict[str, Any]:
        """The document of a file, without what a copy does not have. Raises `PicohookError`."""
        document = {key: one for key, one in read(path).items() if key not in self.agent.left_out}
        if isinstance(env := document.get("env"), dict):
            document["env"] = {name: value for name, value in env.items() if not FOREIGN.match(name)}
        return document

    def _put(self, documents: Mapping[str, Any]) -> None:
        for name, document in documents.items():
            path = self.home / (self.real.name if self.agent.above else "") / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(written(document, path), encoding="utf-8")

    def _known_to_codex(
        self, documents: Mapping[str, Any], environment: Mapping[str, str]
    ) -> dict[str, dict[str, Any]]:
        """The hooks that Codex finds in these documents. It trusts each as it is written, so recorders need that anew."""
        self._put(documents)
        return codex_hooks(self.drill.program, environment, self.project) if self.agent.name == "codex" else {}

    def _cover(self, path: Path) -> None:
        """Put recorders into a hook file of the project, as this process and its children see it. The file does not change."""
        document, covering = self._read(path), self.place / f"covers-{len(self._covered)}{path.suffix}"
        self.record(document, str(path))
        covering.write_text(written(document, covering), encoding="utf-8")
        try:
            libc("unshare", CLONE_NEWNS)
            libc("mount", None, b"/", None, _PRIVATE, None)
            libc("mount", os.fsencode(covering), os.fsencode(path), None, _BIND, None)
        except (OSError, AttributeError) as error:
            why = f"{path} cannot be covered by a copy, since this system gives no mount namespace ({error})"
            raise PicohookError(f"{why}: leave out --here") from None
        self._covered.append(path)

    def record(self, document: dict[str, Any], file: str) -> None:
        """Put a recorder in the place of each hook of a document that is asked before a tool."""
        for at, handler in handlers(self.agent, document):
            kept = {key: value for key, value in handler.items() if key not in _RUN}
            if self.name == "late":
                kept = {key: one for key, one in kept.items() if not key.startswith("timeout")} | self.agent.short
            run = command_of(self.agent, handler)
            if not run:
                self.drill.note(f"{file}: {at} runs no command: the drill sees only whether it is asked")
            missing = {"missing": [*map(without_programs, run)], "shells": str(self._shells)}
            self.hooks.append({"at": f"{file}: {at}", "run": run, **missing})
            program = [sys.executable, "-I", "-S", recorder.__file__, str(self.place), str(len(self.hooks) - 1)]
            handler.clear()
            handler |= {**kept, "type": "command", "command": shlex.join(program)}
