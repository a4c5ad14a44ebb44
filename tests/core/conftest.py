"""Hooks that say what a test wants, a clock that a test moves, and a payload for every stage."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

import pytest

from picohook.engine.chain import NEVER, Chain
from picohook.engine.seat import Seat
from picohook.hooks.base import Hook, HostServices, Question
from picohook.model.encoded import Encoded
from picohook.model.payloads import (
    Compaction,
    Finish,
    LLMRequest,
    LLMResponse,
    Meta,
    Prompt,
    ToolCall,
    ToolResult,
    ToolReturn,
)
from picohook.model.spec import HookSpec, Timeouts
from picohook.model.stages import STAGES
from picohook.observe.log import Log
from picohook.process.group import GroupSpawner
from picohook.transport.event_loop import current_reactor

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from picohook.engine.tool_ownership import Ownership

META = Meta(agent_id="agent", turn_id="turn", session_key="session", iteration=3)
CONTEXT = {"trusted": True}


class Clock:
    """Time, as a test tells it."""

    def __init__(self) -> None:
        self.time = 1000.0

    def __call__(self) -> float:
        return self.time


class Says(Hook):
    """A hook that gives these answers, one a question, the last one again and again.

    An exception is raised; a function is called with the question, and awaited if it is async.
    """

    def __init__(self, name: str, *answers: Any, in_process: bool = True, **settings: Any) -> None:
        super().__init__(HookSpec(name=name, stages=tuple(STAGES), **settings))
        self.in_process = in_process
        self.answers = list(answers)
        self.questions: list[Question[Any]] = []

    async def handle(self, question: Question[Any]) -> Any:
        self.questions.append(question)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, BaseException):
            raise answer
        if callable(answer):
            answer = answer(question)
        return await answer if inspect.isawaitable(answer) else answer

    @property
    def asked(self) -> list[Any]:
        """The payloads it was asked about."""
        return [question.payload for question in self.questions]


@pytest.fixture
def says() -> type[Says]:
    return Says


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture(scope="session")
def payloads() -> dict[str, Any]:
    """One for each stage, with everything in it."""
    about = {"meta": META, "context": CONTEXT, "channel": "cli", "chat_id": "chat"}
    messages = [{"role": "system", "content": "be kind"}, {"role": "user", "content": "hello"}]
    call = {
        **about,
        "tool": "bash",
        "arguments": {"command": "ls", "big": 2**63 + 1, "deep": {"a": [1, None]}},
        "tool_call_id": "call-1",
        "tool_kind": "execute",
        "affected_paths": ["/tmp"],
    }
    tools = [{"type": "function", "function": {"name": "bash", "parameters": {"type": "object"}}}]
    return {
        "before_prompt": Prompt(**about, prompt="hello", messages=messages),
        "before_llm": LLMRequest(
            **about, model="m", messages=messages, tools=tools, options={"temperature": 0.5}, system_prompt="be brief"
        ),
        "after_llm": LLMResponse(**about, model="m", response={"content": "hi", "tool_calls": []}, messages=messages),
        "before_tool": ToolCall(**call),
        "approve_tool": ToolCall(**call),
        "after_tool": ToolReturn(
            **call, result=ToolResult(for_llm="out", for_user="shown", media=["a.png"]), duration=5, error="none"
        ),
        "before_finish": Finish(**about, prompt="hello", messages=messages, response={"content": "hi"}, model="m"),
        "before_compact": Compaction(**about, scope="micro", messages=messages, system_prompt="be brief", model="m"),
        "after_compact": Compaction(**about, scope="auto", messages=messages),
    }


@pytest.fixture
async def host_services() -> HostServices:
    """What a hook gets of a host, on the loop that runs."""
    reactor = current_reactor()
    return HostServices(reactor, Log(), Timeouts(), GroupSpawner(reactor))


@pytest.fixture
def chain(clock: Clock, payloads: dict[str, Any]):
    """Runs a chain over these hooks, each with a timeout of 5 s, on the clock that the test moves."""

    async def run(
        stage: str,
        *hooks: Hook,
        payload: Any = None,
        budget: float = 30.0,
        timeout: float = 5.0,
        decided: Sequence[Seat] = (),
        clock: Callable[[], float] = clock,
        owners: Ownership | None = None,
        **more: Any,
    ) -> Any:
        seats = [Seat(hook, timeout, hook.spec.filter) for hook in hooks]
        encoded = Encoded(payloads[stage] if payload is None else payload)
        end = NEVER if STAGES[stage].approves else clock() + budget
        made = Chain(STAGES[stage], encoded, clock, end, **more)
        made.owners = owners
        return await made.run(seats, decided)

    return run
