"""Shows one turn of a scripted agent with the example hooks, step by step. It needs no network: the model's answers are below.

Run it with: make demo, or: python hooks_examples/demo.py [CONFIG]

The agent is the one in agents/plain_agent.py, with other tools and another script. The rest of this file shows the work of the
hooks: a listener of the host notes what each hook saw, decided and changed.
"""

from __future__ import annotations

import json
import os
import sys
from typing import TYPE_CHECKING, Any, NamedTuple

import anyio
from rich.console import Console
from rich.table import Table
from rich.text import Text

from picohook import Account, Host, Listener
from picohook.config import load
from picohook.model.conversation import calls_of

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "agents"))

from plain_agent import Agent, scripted, use_this_python  # noqa: E402 - it is in the directory added above

if TYPE_CHECKING:
    from collections.abc import Iterator

    from picohook import Outcome, TrailEntry

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


# The report.


class Answer(NamedTuple):
    """The answer of one hook to one request."""

    saw: str
    changed: str
    entry: TrailEntry


class Asked(NamedTuple):
    """The answers of all hooks at one stage."""

    outcome: Outcome[Any]
    answers: list[Answer]


class Observer(Listener):
    """Notes every chain."""

    def __init__(self) -> None:
        self.asked: list[Asked] = []

    def begin(self, stage: Any, payload: Any) -> Account[Any]:
        return Chain(self, stage, payload)


class Chain(Account[Any]):
    """Notes one chain, hook by hook."""

    def __init__(self, observer: Observer, stage: Any, payload: Any) -> None:
        super().__init__(stage, payload)
        self.observer = observer
        self.answers: list[Answer] = []

    def asked(self, hook: Any, encoded: Any, asked: Any) -> None:
        del hook
        before, after = encoded.payload.wire(), asked.encoded.payload.wire()
        changed = ", ".join(name for name in after if after[name] != before.get(name))
        self.answers.append(Answer(brief(self.stage.name, before), changed, asked.entry))

    def concluded(self, outcome: Outcome[Any]) -> None:
        self.observer.asked.append(Asked(outcome, self.answers))


class Output:
    """A logger for the host. It keeps the stderr of the hooks, and the warnings."""

    def __init__(self) -> None:
        self.stderr: dict[str, list[str]] = {}
        self.warnings: list[str] = []
        self.failures = 0
        """How many warnings are about a hook. The others are about this machine, and spoil nothing."""

    def debug(self, event: str, **fields: Any) -> None: ...

    def info(self, event: str, **fields: Any) -> None:
        if event == "stderr":
            self.stderr.setdefault(fields["hook"], []).append(fields["line"])

    def warning(self, event: str, **fields: Any) -> None:
        self.failures += "hook" in fields
        about = f"{fields.pop('hook', 'host')}: {event}"
        self.warnings.append("".join([about, *(f", {name}: {value}" for name, value in fields.items())]))

    error = warning


def call_of(tool: str, arguments: dict[str, Any]) -> str:
    return f"{tool}({', '.join(f'{name}={json.dumps(value)}' for name, value in arguments.items())})"


def brief(stage: str, payload: dict[str, Any]) -> str:
    """Return a summary of a payload."""
    match stage:
        case "before_llm":
            said = len(payload["messages"])
            return f"{said} message{'s' if said > 1 else ''}, {len(payload['tools'])} tools"
        case "after_llm":
            return str(payload["response"]["content"])
        case "after_tool":
            return str(payload["result"]["for_llm"])
    return call_of(payload["tool"], payload["arguments"])


STYLES = {
    "continue": "dim",
    "modify": "yellow",
    "respond": "blue",
    "deny_tool": "red",
    "approved": "green",
    "refused": "red",
}


class Screen:
    """Prints the steps of the turn."""

    def __init__(self) -> None:
        terminal = sys.stdout.isatty()
        plain = not terminal or bool(os.environ.get("NO_COLOR"))
        self.console = Console(highlight=False, color_system=None if plain else "auto", width=None if terminal else 100)
        self.steps = 0
        self.failures = 0

    def title(self, text: str) -> None:
        self.console.print(Text(f"\n{text}", "bold"))

    def turn(self, observer: Observer, messages: list[dict[str, Any]]) -> None:
        """Print every step in the order of the conversation."""
        of_model = [asked for asked in observer.asked if asked.outcome.stage in {"before_llm", "after_llm"}]
        calls: dict[str, Any] = {}
        for message in messages:
            if message["role"] == "assistant":
                (before, *after), of_model = of_model[:2], of_model[2:]
                offered = ", ".join(tool["function"]["name"] for tool in before.outcome.payload.tools)
                told = f"it is offered {offered}, and says: {message['content']}"
                self.step("the model is asked", [before, *after], told)
                calls = {call.tool_call_id or "": call for call in calls_of(message)}
            elif message["role"] == "tool":
                call = calls[message["tool_call_id"]]
                asked = [
                    one
                    for one in observer.asked
                    if getattr(one.outcome.payload, "tool_call_id", None) == message["tool_call_id"]
                ]
                style = "red" if asked[-1].outcome.action == "deny_tool" else ""
                title = call_of(call.tool, call.arguments)
                self.step(title, asked, f"the model is told: {message['content']}", style)

    def step(self, title: str, asked: list[Asked], result: str, style: str = "") -> None:
        """Print one step: what each hook saw and decided, how long it took, and the outcome."""
        self.steps += 1
        self.title(f"{self.steps}  {title}")
        self.table([row for one in asked for row in self.rows(one)])
        self.columns("→", Text(result, style), 1)

    def rows(self, asked: Asked) -> Iterator[tuple[Text, ...]]:
        outcome, above = asked.outcome, ""
        for place, (saw, changed, entry) in enumerate(asked.answers):
            decided, detail = told(outcome, entry, changed)
            self.failures += entry.error is not None
            yield (
                Text("" if place else outcome.stage, "bold"),
                Text(entry.hook, "cyan"),
                Text("the same" if saw == above else saw, "dim" if saw == above else ""),
                Text(f"{decided}: {detail}" if detail else decided, "red" if entry.error else STYLES[decided]),
                Text(f"{entry.duration * 1000:.1f} ms", "dim"),
            )
            above = saw

    def table(self, rows: list[tuple[Text, ...]], *, header: bool = False) -> None:
        table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, show_header=header, header_style="dim")
        table.add_column("", width=1)
        room = min(self.console.width, 100) - 43
        for name, width in (("stage", 12), ("hook", 10), ("saw", room * 4 // 7)):
            table.add_column(name, width=width, no_wrap=True, overflow="ellipsis")
        table.add_column("decided", width=room - room * 4 // 7)
        table.add_column("took", width=8, justify="right", no_wrap=True)
        for row in rows:
            table.add_row("", *row)
        self.console.print(table)

    def columns(self, name: str, text: str | Text, width: int) -> None:
        """Print a name, and a text that may be longer than a line."""
        table = Table.grid(padding=(0, 2, 0, 0))
        table.add_column(width=1)
        table.add_column(width=width, style="cyan")
        table.add_column(overflow="fold")
        table.add_row("", name, Text(text) if isinstance(text, str) else text)
        self.console.print(table)


def told(outcome: Outcome[Any], entry: TrailEntry, changed: str) -> tuple[str, str]:
    """Return the decision of a hook, and its details."""
    decided: str = entry.action
    if outcome.approved is not None:
        decided = "approved" if decided == "continue" else "refused"
    if entry.error:
        return decided, entry.error
    if decided == "modify":
        return decided, changed
    if entry.hook == outcome.hook:
        return decided, outcome.reason or str(outcome.result.for_llm)
    return decided, ""


async def main(config: str) -> int:
    use_this_python()
    show, output, observer, settings = Screen(), Output(), Observer(), load(config)
    show.title(f"user: {QUESTION}")
    async with Host(settings.hooks, timeouts=settings.timeouts, logger=output, listeners=[observer]) as host:
        show.table([], header=True)
        async with host.session("session-1", agent_id="demo") as session:
            await Agent(session, scripted(SCRIPT), [read_file, save_note, bash], name="scripted").answer(QUESTION)
        show.turn(observer, session.messages)
        processes = [hook for hook in host.status().hooks if hook.pid]
    show.title("Events, for which the agent did not wait, as the observers saw them")
    for name in ("event_counter", "runtime_events"):
        show.columns(name, "\n".join(output.stderr.get(name, [])), 15)
    show.title(
        f"{len(processes)} hook processes answered {sum(hook.calls for hook in processes)} questions, and were ended"
    )
    for warning in output.warnings:
        show.columns("warning", warning, 15)
    return 1 if show.failures or output.failures else 0


if __name__ == "__main__":
    sys.exit(anyio.run(main, sys.argv[1] if len(sys.argv) > 1 else os.path.join(HERE, "picohook.toml")))
