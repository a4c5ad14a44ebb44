"""Shows one turn of a scripted agent with the example hooks: what became of each call, and through which hook.

    make demo
    make demo HOOK=./my_hook.sh
    python hooks_examples/demo.py [CONFIG] [--hook HOOK]

It needs no network: the model's answers are below. The agent is the one in agents/plain_agent.py, with other tools and another
script. HOOK is a hook of your own, which is asked before the others: a directory that `picohook new` made, a configuration, or
a program that is asked at before_tool.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import textwrap
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import anyio

from picohook import Account, HookSpec, Host, Listener, Outcome, TrailEntry
from picohook.config import load
from picohook.model.conversation import calls_of

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE / "agents"))

from plain_agent import Agent, scripted, use_this_python  # noqa: E402 - it is in the directory added above

# The agent's tools, and the answers of its model.

QUESTION = "Do I need an umbrella in Berlin? And please look after my notes."


def read_file(path: str) -> str:
    return f"the content of {path}"


def save_note(text: str) -> str:
    return f"saved, password: hunter2 ({len(text)} characters)"


def bash(command: str) -> str:
    return {"ls notes": "shopping.md  travel.md"}.get(command, "")


SCRIPT: list[dict[str, Any]] = [
    {
        "content": "I look it up.",
        "tool_calls": [("get_weather", {"city": "Berlin"}), ("read_file", {"path": "/etc/passwd"})],
    },
    {
        "content": "Now your notes.",
        "tool_calls": [
            ("save_note", {"text": "sk-4f9a01cc7b52e8d3 opens the weather service. Take an umbrella."}),
            ("bash", {"command": "ls notes"}),
            ("bash", {"command": "rm -rf notes"}),
        ],
    },
    {"content": "Yes: it rains in Berlin. Your notes are as they were, and one more is saved."},
]


# What the hooks did.


class Act(NamedTuple):
    """What one hook did at one stage."""

    hook: str
    word: str
    detail: str
    entry: TrailEntry


class Observer(Listener):
    """Notes what the hooks did about each call of a tool, and about the model."""

    def __init__(self) -> None:
        self.acts: dict[str, list[Act]] = {}
        self.outcomes: dict[str, list[Outcome[Any]]] = {}

    def begin(self, stage: Any, payload: Any) -> Account[Any]:
        return Chain(self, stage, payload)


class Chain(Account[Any]):
    """Notes what the hooks of one chain do."""

    def __init__(self, observer: Observer, stage: Any, payload: Any) -> None:
        super().__init__(stage, payload)
        about = getattr(payload, "tool_call_id", None) or stage.name
        self.acts = observer.acts.setdefault(about, [])
        self.outcomes = observer.outcomes.setdefault(about, [])

    def asked(self, hook: Any, encoded: Any, asked: Any) -> None:
        before, after = encoded.payload.wire(), asked.encoded.payload.wire()
        changed = ", ".join(name for name in after if after[name] != before.get(name))
        word, detail = WORDS[asked.entry.action], changed
        if asked.entry.action in {"respond", "deny_tool"}:
            detail = asked.decision.reason if word == "denied" else str(asked.result.for_llm)
        elif self.stage.approves:
            word = "approved"
        self.acts.append(Act(hook.name, word, asked.entry.error or detail, asked.entry))

    def concluded(self, outcome: Outcome[Any]) -> None:
        self.outcomes.append(outcome)


WORDS = {"continue": "", "modify": "changed", "respond": "answered", "deny_tool": "denied"}
NEXT = "Next, a hook of your own:\n  picohook new my_hook && make demo HOOK=my_hook"
COLOURS = {"changed": 33, "answered": 34, "denied": 31, "approved": 32, "allowed": 32, "bold": 1, "dim": 2}


class Output:
    """A logger for the host. It keeps the first warning about each hook, and about this machine, which spoils nothing."""

    def __init__(self) -> None:
        self.warnings: dict[str, str] = {}
        self.failures = 0

    def debug(self, event: str, **fields: Any) -> None: ...

    info = debug

    def warning(self, event: str, **fields: Any) -> None:
        self.failures += "hook" in fields
        about = fields.pop("hook", "host")
        self.warnings.setdefault(
            about, "".join([f"{about}: {event}", *(f", {name}: {value}" for name, value in fields.items())])
        )

    error = warning


class Screen:
    """Prints the turn, in colour on a terminal."""

    def __init__(self) -> None:
        self.plain = not sys.stdout.isatty() or bool(os.environ.get("NO_COLOR"))
        self.width = min(shutil.get_terminal_size().columns, 100) if sys.stdout.isatty() else 80

    def line(self, text: str, right: str = "", style: str = "") -> None:
        """Print a line that fits, with a word at its right end."""
        room = self.width - (len(right) + 1 if right else 0)
        text = text if len(text) <= room else text[: room - 1] + "…"
        line = f"{text:{room}} {right}" if right else text
        print(line if self.plain or not style else f"\x1b[{COLOURS[style]}m{line}\x1b[0m")

    def text(self, text: str, style: str = "") -> None:
        """Print a text that may be longer than a line."""
        for line in textwrap.wrap(text, self.width, replace_whitespace=False, break_on_hyphens=False):
            self.line(line, style=style)

    def step(self, title: str, became: str, acts: list[Act]) -> None:
        """Print a call, what became of it, and each hook that did something about it."""
        print()
        self.line(title, became, "bold")
        for act in acts:
            if act.word or act.entry.error:
                took = f"{act.entry.duration * 1000:.1f} ms"
                self.line(f"  {act.hook:<12}{act.word:<10}{act.detail}", took, act.word)
        if passed := len({act.hook for act in acts} - {act.hook for act in acts if act.word}):
            self.line(f"  {passed} other{'s' * (passed > 1)} let it pass", style="dim")


def became(outcomes: list[Outcome[Any]], acts: list[Act]) -> str:
    """What became of a call of a tool."""
    actions = {outcome.action for outcome in outcomes}
    ends = next((WORDS[action] for action in ("deny_tool", "respond") if action in actions), "")
    return ends or ("changed" if any(act.word == "changed" for act in acts) else "allowed")


def hooks_of(hook: str) -> list[HookSpec]:
    """A hook of the person's own, as its configuration has it, or asked at before_tool."""
    path = Path(hook).resolve()
    path = path / "picohook.toml" if path.is_dir() else path
    if path.suffix in {".toml", ".yaml", ".json"}:
        found = list(load(path).hooks)
    else:
        command = (sys.executable, str(path)) if path.suffix == ".py" else (str(path),)
        found = [HookSpec(name=path.stem, command=command, stages=("before_tool",), on_failure="deny")]  # type: ignore[arg-type]
    return [one.model_copy(update={"priority": min(one.priority, 1)}) for one in found]


PATIENT = {"hello": 60.0, "interceptor": 60.0, "observer": 10.0, "chain": 120.0}
"""Longer timeouts than the configuration's, so that a busy machine plays the same turn."""


async def main(config: str, hook: str | None) -> int:
    use_this_python()
    show, output, observer, settings = Screen(), Output(), Observer(), load(config)
    hooks = [*(hooks_of(hook) if hook else ()), *settings.hooks]
    show.line(f"user: {QUESTION}", style="bold")
    patient = settings.timeouts.model_copy(update=PATIENT)
    async with Host(hooks, timeouts=patient, logger=output, listeners=[observer]) as host:
        async with host.session("session-1", agent_id="demo") as session:
            await Agent(session, scripted(SCRIPT), [read_file, save_note, bash], name="scripted").answer(QUESTION)
        processes = [one for one in host.status().hooks if one.pid]
    of_model = observer.acts.get("before_llm", []) + observer.acts.get("after_llm", [])
    show.step("the model is asked", "changed", [*{(one.hook, one.word): one for one in of_model}.values()])
    ends: Counter[str] = Counter()
    for message in session.messages:
        for call in calls_of(message) if message["role"] == "assistant" else ():
            arguments = ", ".join(f"{name}={json.dumps(value)}" for name, value in call.arguments.items())
            acts = observer.acts.get(call.tool_call_id or "", [])
            end = became(observer.outcomes.get(call.tool_call_id or "", []), acts)
            show.step(f"{call.tool}({arguments})", end, acts)
            ends[end] += 1
    print()
    show.text(f"agent: {session.messages[-1]['content']}", "bold")
    counts = ", ".join(f"{ends[word]} {word}" for word in ("allowed", "changed", "denied", "answered"))
    asked = sum(one.calls for one in processes)
    print()
    show.text(f"{ends.total()} calls: {counts}. {len(processes)} processes of hooks answered {asked} questions.")
    for warning in output.warnings.values():
        show.text(f"warning  {warning}")
    failed = any(act.entry.error for acts in observer.acts.values() for act in acts)
    show.text(f"Your hook {hook} was asked first." if hook else NEXT)
    return 1 if failed or output.failures else 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Shows one turn of a scripted agent with hooks.")
    parser.add_argument("config", nargs="?", default=str(HERE / "picohook.toml"))
    parser.add_argument(
        "--hook", help="a hook of your own: a directory of `picohook new`, a configuration, or a program"
    )
    given = parser.parse_args()
    sys.exit(anyio.run(main, given.config, given.hook or None))
