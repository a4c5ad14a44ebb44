"""One turn of a scripted agent through the example hooks, step by step. It needs no network: the model's lines are below.

Run it with: make demo, or: python hooks_examples/demo.py [CONFIG]

It is also a small example of how a runtime embeds a host: `turn` is an ordinary agent loop, in which `host.run_llm` stands
for asking the model and `host.run_tool` for running a tool. All the rest is there to show what the hooks do.
"""

from __future__ import annotations

import json
import os
import sys
from typing import TYPE_CHECKING, Any

import anyio
from rich.console import Console
from rich.table import Table
from rich.text import Text

from picohook import LLMRequest, Meta, Outcome, ProcessHook, Question, ToolCall
from picohook.config import load
from picohook.testing import RecordingHost

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from picohook import Decision, HookSpec, TrailEntry

HERE = os.path.dirname(os.path.abspath(__file__))

# The agent: its tools, and what its model says each time it is asked.

QUESTION = "Do I need an umbrella in Berlin? And please look after my notes."


def read_file(path: str) -> str:
    return f"the content of {path}"


def save_note(text: str) -> str:
    return f"saved, password: hunter2 ({len(text)} characters)"


def bash(command: str) -> str:
    return {"ls notes": "shopping.md  travel.md"}.get(command, "")


TOOLS: dict[str, Callable[..., str]] = {"read_file": read_file, "save_note": save_note, "bash": bash}
OFFERED = [{"type": "function", "function": {"name": name, "parameters": {"type": "object"}}} for name in TOOLS]

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


async def turn(host: RecordingHost, show: Screen) -> None:
    meta = Meta(agent_id="demo", turn_id="turn-1", session_key="session-1")
    lines = iter(SCRIPT)
    messages: list[dict[str, Any]] = [{"role": "user", "content": QUESTION}]

    async def model(request: LLMRequest) -> dict[str, Any]:
        show.offered = ", ".join(tool["function"]["name"] for tool in request.tools)
        said = next(lines)
        calls = [{"function": {"name": name, "arguments": given}} for name, given in said.get("tool_calls", ())]
        return {"role": "assistant", "content": said["content"], "tool_calls": calls}

    def execute(call: ToolCall) -> str:
        return TOOLS[call.tool](**call.arguments)

    host.emit("turn_start", {"UserMessage": QUESTION, "MediaCount": 0}, meta=meta)
    while True:
        request = LLMRequest(meta=meta, model="scripted", messages=messages, tools=OFFERED)
        response = (await host.run_llm(request, model)).response
        show.step("the model is asked", host, f"it is offered {show.offered}, and says: {response['content']}")
        messages = [*messages, response]
        if not response["tool_calls"]:
            break
        for function in (call["function"] for call in response["tool_calls"]):
            call = ToolCall(meta=meta, tool=function["name"], arguments=function["arguments"])
            result = await host.run_tool(call, execute)
            style = "red" if result.is_error else ""
            show.step(call_of(call.tool, call.arguments), host, f"the model is told: {result.for_llm}", style)
            messages = [*messages, {"role": "tool", "content": result.for_llm}]
    host.emit("turn_end", {"Status": "completed", "FinalContent": response["content"]}, meta=meta)


# What there is to see.


class Watched(ProcessHook):
    """A hook process, with a note of what it saw and what it changed."""

    def __init__(self, spec: HookSpec) -> None:
        super().__init__(spec)
        self.saw: dict[str, str] = {}
        self.changed: dict[str, str] = {}

    async def handle(self, question: Question[Any]) -> Decision:
        stage, payload = question.stage, question.payload
        self.saw[stage.name] = brief(stage.name, payload.wire())
        decision = await super().handle(question)
        if decision.action == "modify":
            before, after = payload.wire(), stage.edit(payload, getattr(decision, "changes", {})).wire()
            self.changed[stage.name] = ", ".join(name for name in after if after[name] != before.get(name))
        return decision


class Output:
    """A logger for the host that keeps what the hooks write on stderr, and what goes wrong."""

    def __init__(self) -> None:
        self.stderr: dict[str, list[str]] = {}
        self.warnings: list[str] = []

    def debug(self, event: str, **fields: Any) -> None: ...

    def info(self, event: str, **fields: Any) -> None:
        if event == "stderr":
            self.stderr.setdefault(fields["hook"], []).append(fields["line"])

    def warning(self, event: str, **fields: Any) -> None:
        self.warnings.append(f"{fields.pop('hook', 'host')}: {event} {fields}")

    error = warning


def call_of(tool: str, arguments: dict[str, Any]) -> str:
    return f"{tool}({', '.join(f'{name}={json.dumps(value)}' for name, value in arguments.items())})"


def brief(stage: str, payload: dict[str, Any]) -> str:
    """A payload, as short as it can be told."""
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
    """Prints each step when it is over."""

    def __init__(self) -> None:
        terminal = sys.stdout.isatty()
        plain = not terminal or bool(os.environ.get("NO_COLOR"))
        self.console = Console(highlight=False, color_system=None if plain else "auto", width=None if terminal else 100)
        self.offered = ""
        self.steps = 0
        self.failures = 0

    def title(self, text: str) -> None:
        self.console.print(Text(f"\n{text}", "bold"))

    def step(self, title: str, host: RecordingHost, result: str, style: str = "") -> None:
        """What every hook saw, decided and needed in one step, and what came of it."""
        self.steps += 1
        self.title(f"{self.steps}  {title}")
        outcomes, host.outcomes = host.outcomes, []
        hooks = {hook.name: hook for hook in host.hooks if isinstance(hook, Watched)}
        self.table([row for outcome in outcomes for row in self.rows(outcome, hooks)])
        self.columns("→", Text(result, style), 1)

    def rows(self, outcome: Outcome[Any], hooks: dict[str, Watched]) -> Iterator[tuple[Text, ...]]:
        stage, above = outcome.stage, ""
        for place, entry in enumerate(outcome.trail):
            saw = hooks[entry.hook].saw.get(stage, "")
            decided, detail = told(outcome, entry, hooks[entry.hook])
            self.failures += entry.error is not None
            yield (
                Text("" if place else stage, "bold"),
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
        """A name, and a text that may be longer than a line."""
        table = Table.grid(padding=(0, 2, 0, 0))
        table.add_column(width=1)
        table.add_column(width=width, style="cyan")
        table.add_column(overflow="fold")
        table.add_row("", name, Text(text) if isinstance(text, str) else text)
        self.console.print(table)


def told(outcome: Outcome[Any], entry: TrailEntry, hook: Watched) -> tuple[str, str]:
    """What a hook decided, and what more there is to say about that."""
    decided = entry.action
    if outcome.approved is not None:
        decided = "approved" if decided == "continue" else "refused"
    if entry.error:
        return decided, entry.error
    if decided == "modify":
        return decided, hook.changed[outcome.stage]
    if entry.hook == outcome.hook:
        return decided, outcome.reason or str(outcome.result.for_llm)
    return decided, ""


async def main(config: str) -> int:
    # "python3" in the configuration is the Python that runs this: one that has jsonrpcserver.
    os.environ["PATH"] = os.path.dirname(sys.executable) + os.pathsep + os.environ.get("PATH", "")
    show, output, settings = Screen(), Output(), load(config)
    show.title(f"user: {QUESTION}")
    async with RecordingHost(
        [Watched(spec) for spec in settings.hooks], timeouts=settings.timeouts, logger=output
    ) as host:
        show.table([], header=True)
        await turn(host, show)
        processes = [hook for hook in host.status().hooks if hook.pid]
    show.title("Events, which nobody waited for, and what the observers made of them")
    for name in ("event_counter", "runtime_events"):
        show.columns(name, "\n".join(output.stderr.get(name, [])), 15)
    show.title(
        f"{len(processes)} hook processes answered {sum(hook.calls for hook in processes)} questions, and were ended"
    )
    for warning in output.warnings:
        show.columns("warning", warning, 15)
    return 1 if show.failures or output.warnings else 0


if __name__ == "__main__":
    sys.exit(anyio.run(main, sys.argv[1] if len(sys.argv) > 1 else os.path.join(HERE, "picohook.toml")))
