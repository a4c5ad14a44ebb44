"""A small agent: a model, some tools, and a loop that asks hooks at every step.

    python hooks_examples/agents/plain_agent.py [QUESTION] [--config FILE] [--notes DIRECTORY]

Without a question it starts a conversation. To use an OpenAI-compatible endpoint, set OPENAI_BASE_URL, OPENAI_MODEL and
OPENAI_API_KEY, and install picohook's extra `openai`. Otherwise the model is a script, offline.

The hooks work in `Agent.answer`: `turn.run` asks them before and after each call of the model and of a tool, and for approval.
At a terminal it asks you for approval too. Text is shown as it streams in, before hooks see the response. If they must see it
first, show the return value of `answer` instead.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable
from contextlib import aclosing
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import anyio.to_thread
from pydantic import TypeAdapter, validate_call

from picohook import HardAbortError, HookSpec, Host, LLMRequest, Outcome, PicohookError, Session, ToolCall

EXAMPLES = Path(__file__).resolve().parents[1]

Tool = Callable[..., Any]
Model = Callable[[LLMRequest], AsyncGenerator[dict[str, Any]]]
"""Yields the deltas of the message that a chat completion streams."""


class Agent:
    """A model with tools, in one session with a user."""

    def __init__(
        self,
        session: Session,
        model: Model,
        tools: Iterable[Tool],
        *,
        name: str = "",
        system_prompt: str | None = None,
        show: Callable[[str], None] | None = None,
    ) -> None:
        self.session = session
        self.model = model
        self.tools = {tool.__name__: validate_call(tool) for tool in tools}
        self.request: dict[str, Any] = {
            "model": name,
            "system_prompt": system_prompt,
            "tools": [offer(tool) for tool in self.tools.values()],
        }
        self.show = show

    async def answer(self, question: str) -> str:
        """Run one turn: from a prompt of the user to the agent's answer, with any number of tool calls."""
        async with self.session.turn(question) as turn:
            result = await turn.run(complete=self.complete, execute=self.execute, **self.request)
        return result.content

    async def complete(self, request: LLMRequest) -> dict[str, Any]:
        """Ask the model. Returns its message, joined from its deltas."""
        message = Message()
        async with aclosing(self.model(request)) as deltas:
            async for delta in deltas:
                text = message.add(delta)
                if not text:
                    continue
                self.session.host.emit("llm_delta", {"ContentDeltaLen": len(text)}, meta=request.meta)
                if self.show is not None:
                    self.show(text)
        if self.show is not None and any(message.text):
            self.show("\n")
        return message.whole()

    async def execute(self, call: ToolCall) -> Any:
        """Run a tool. The model is told of an exception."""
        if call.tool not in self.tools:
            raise LookupError(f"there is no tool {call.tool!r}")
        return await anyio.to_thread.run_sync(functools.partial(self.tools[call.tool], **call.arguments))


def offer(tool: Tool) -> dict[str, Any]:
    """Return a function as a tool for a model: its name, its docstring and its annotations."""
    arguments: TypeAdapter[Any] = TypeAdapter(tool)  # type: ignore[arg-type] # it takes functions too
    about = {"name": tool.__name__, "description": tool.__doc__ or "", "parameters": arguments.json_schema()}
    return {"type": "function", "function": about}


class Message:
    """The message of the model while it is streamed."""

    def __init__(self) -> None:
        self.text: list[str] = []
        self.calls: dict[int, dict[str, Any]] = {}

    def add(self, delta: dict[str, Any]) -> str:
        """Add a delta. Returns its text. The name and id of a call come once, its arguments in pieces."""
        for piece in delta.get("tool_calls") or ():
            function = {"name": "", "arguments": ""}
            call = self.calls.setdefault(piece.get("index", 0), {"id": "", "type": "function", "function": function})
            call["id"] = piece.get("id") or call["id"]
            for key, value in (piece.get("function") or {}).items():
                call["function"][key] = call["function"].get(key, "") + (value or "")
        text = delta.get("content") or ""
        self.text.append(text)
        return str(text)

    def whole(self) -> dict[str, Any]:
        message: dict[str, Any] = {"content": "".join(self.text)}
        return {**message, "tool_calls": [self.calls[index] for index in sorted(self.calls)]} if self.calls else message


# Models.


def openai(base_url: str, api_key: str | None = None) -> Model:
    """An OpenAI-compatible endpoint."""
    import httpx  # the script does without

    url = f"{base_url.rstrip('/')}/chat/completions"
    headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}

    async def ask(request: LLMRequest) -> AsyncGenerator[dict[str, Any]]:
        system = [{"role": "system", "content": request.system_prompt}] if request.system_prompt else []
        body = {**request.options, "model": request.model, "messages": [*system, *request.messages], "stream": True}
        if request.tools:
            body["tools"] = request.tools
        done = False
        try:
            async with (
                httpx.AsyncClient(timeout=60) as client,
                client.stream("POST", url, json=body, headers=headers) as response,
            ):
                if not response.is_success:
                    said = (await response.aread()).decode(errors="replace")
                    raise ConnectionError(f"{url} answered {response.status_code}: {said[:200]}")
                async with aclosing(events(response.aiter_bytes())) as stream:
                    async for data in stream:
                        done = done or data == b"[DONE]"
                        for choice in () if done else json.loads(data).get("choices") or ():
                            yield choice.get("delta") or {}
        except (httpx.HTTPError, httpx.InvalidURL, ValueError) as error:
            raise ConnectionError(f"{url} cannot be asked: {error}") from None
        if not done:
            raise ConnectionError(f"{url} broke off in the middle of an answer")

    return ask


async def events(chunks: AsyncIterator[bytes]) -> AsyncGenerator[bytes]:
    """Yield the data of server-sent events. Only a newline ends a line, because JSON may contain other line ends."""
    rest = b""
    async for chunk in chunks:
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            if line.startswith(b"data:"):
                yield line[5:].strip()


def scripted(script: Iterable[dict[str, Any]]) -> Model:
    """A model that streams the messages of a script word by word."""
    messages = iter(script)

    async def ask(request: LLMRequest) -> AsyncGenerator[dict[str, Any]]:
        said = next(
            messages, {"content": "My script ends here. Name a model: OPENAI_BASE_URL=http://localhost:8080/v1"}
        )
        for place, word in enumerate(str(said["content"]).split(" ")):
            await anyio.lowlevel.checkpoint()
            yield {"content": f" {word}" if place else word}
        for index, (name, arguments) in enumerate(said.get("tool_calls", ())):
            identity = f"call-{len(request.messages)}-{index}"
            yield {"tool_calls": [{"index": index, "id": identity, "function": {"name": name, "arguments": ""}}]}
            yield {"tool_calls": [{"index": index, "function": {"arguments": json.dumps(arguments)}}]}

    return ask


SCRIPT: list[dict[str, Any]] = [
    {
        "content": "I look at the weather and your notes.",
        "tool_calls": [("get_weather", {"city": "Berlin"}), ("list_notes", {})],
    },
    {
        "content": "It rains. I note that.",
        "tool_calls": [
            ("save_note", {"name": "berlin", "text": "Take an umbrella. password: hunter2"}),
            ("read_note", {"name": "../secrets"}),
        ],
    },
    {"content": "Take an umbrella: it rains in Berlin. I saved that as a note."},
]


# The program.


def notes_in(directory: Path) -> list[Tool]:
    """Tools for notes in one directory."""

    def list_notes() -> list[str]:
        """The names of all notes."""
        return sorted(path.stem for path in directory.glob("*.md"))

    def read_note(name: str) -> str:
        """The text of a note."""
        return file(name).read_text()

    def save_note(name: str, text: str) -> str:
        """Save a note under a name."""
        directory.mkdir(exist_ok=True)
        file(name).write_text(text)
        return f"saved as {name}"

    def file(name: str) -> Path:
        if not name.replace("-", "").replace("_", "").isalnum():
            raise ValueError(f"{name!r} cannot be the name of a note")
        return directory / f"{name}.md"

    return [list_notes, read_note, save_note]


def watch(what: object) -> None:
    """Show the tool calls."""
    match what:
        case Outcome(stage="before_tool" | "approve_tool", action="deny_tool", payload=call, reason=reason):
            print(f"  [{call.tool}: {reason}]", flush=True)
        case Outcome(stage="before_tool", action="respond", payload=call, hook=hook):
            print(f"  [{call.tool}: answered by {hook}]", flush=True)
        case Outcome(stage="after_tool", payload=returned):
            print(f"  [{returned.tool}: {'failed' if returned.result.is_error else 'done'}]", flush=True)


def person() -> HookSpec:
    """Return a hook that asks you before a note is saved."""
    return HookSpec(
        name="you",
        python="terminal_approval:Terminal",
        dir=str(EXAMPLES),
        stages=("approve_tool",),
        approval_timeout=300,
        filter={"tool": "save_*"},  # type: ignore[arg-type]
    )


async def questions(given: str | None) -> AsyncIterator[str]:
    """Yield the prompts of the user until the input ends."""
    if given is not None:
        yield given
        return
    while True:
        try:
            said = await anyio.to_thread.run_sync(input, "\nyou: ", abandon_on_cancel=True)
        except EOFError:
            return
        if said.strip():
            yield said


async def main(options: argparse.Namespace) -> int:
    base_url = os.environ.get("OPENAI_BASE_URL")
    model = openai(base_url, os.environ.get("OPENAI_API_KEY")) if base_url else scripted(SCRIPT)
    show = functools.partial(print, end="", flush=True)
    failed = 0
    async with Host.from_config(options.config) as host:
        host.on_change.add(watch)
        if sys.stdin.isatty():
            await host.mount(person())
        async with host.session("plain", agent_id="notes", show=print) as session:
            agent = Agent(
                session,
                model,
                notes_in(options.notes),
                name=os.environ.get("OPENAI_MODEL", "gpt-4o-mini"),
                system_prompt="You keep the user's notes. Be brief.",
                show=show,
            )
            async for question in questions(options.question):
                try:
                    await agent.answer(question)
                except HardAbortError as error:
                    print(f"\n[ended by a hook: {error.reason}]")
                    return 1
                except (PicohookError, OSError) as error:
                    failed = 1
                    print(f"\n[no answer: {error}]")
    return failed


def use_this_python() -> None:
    """Make "python3" in a configuration the Python that runs this, which has the libraries of the example hooks."""
    os.environ["PATH"] = os.path.dirname(sys.executable) + os.pathsep + os.environ.get("PATH", "")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="A small agent that keeps notes.")
    parser.add_argument("question", nargs="?", metavar="QUESTION")
    parser.add_argument("--config", default=EXAMPLES / "picohook.toml", type=Path, metavar="FILE")
    parser.add_argument("--notes", default=Path("notes"), type=Path, metavar="DIRECTORY")
    use_this_python()
    try:
        sys.exit(anyio.run(main, parser.parse_args()))
    except KeyboardInterrupt:
        sys.exit(130)
