"""What tests of turns need: a model that follows a script, and short ways to say what it says."""

from __future__ import annotations

from typing import Any

from picohook import Hook, HookSpec, LLMRequest, Timeouts, ToolCall
from picohook.testing import RecordingHost, hook_process

FAR = Timeouts(interceptor=60, approval=60, hello=60, chain=60, observer=60)
KEY = b"only the embedder has it"


class Used:
    """A store of used pauses in memory."""

    def __init__(self) -> None:
        self.pauses: dict[str, float] = {}

    def use(self, pause: str, until: float) -> bool:
        return self.pauses.setdefault(pause, until) is until


def host_with(*hooks: Hook | HookSpec, **settings: Any) -> RecordingHost:
    return RecordingHost(hooks, **{"timeouts": FAR, "used_pauses": Used(), **settings})


def says(text: str) -> dict[str, Any]:
    return {"content": text}


def wants(*tools: str, content: str = "") -> dict[str, Any]:
    """A response with a call of each of these tools, under the ids c0, c1, ..."""
    calls = [
        {"id": f"c{place}", "type": "function", "function": {"name": tool, "arguments": f'{{"n": {place}}}'}}
        for place, tool in enumerate(tools)
    ]
    return {"content": content, "tool_calls": calls}


def calls(*tools: str) -> list[ToolCall]:
    return [ToolCall(tool=tool, tool_call_id=f"c{place}") for place, tool in enumerate(tools)]


class Model:
    """Gives one answer after another, and remembers what it was asked. An answer may be a function of the request."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.requests: list[LLMRequest] = []

    async def complete(self, request: LLMRequest) -> Any:
        self.requests.append(request)
        answer = self.answers.pop(0)
        return answer(request) if callable(answer) else answer


class Tools:
    """Tools that return their names, or what is given; remembers what was run."""

    def __init__(self, **returns: Any) -> None:
        self.returns = returns
        self.ran: list[str] = []

    async def execute(self, call: ToolCall) -> Any:
        self.ran.append(call.tool)
        returned = self.returns.get(call.tool, f"did {call.tool}")
        if isinstance(returned, BaseException):
            raise returned
        return returned(call) if callable(returned) else returned


def told(messages: Any) -> list[tuple[str, str]]:
    """What the model is told of its calls: their ids, and the texts."""
    return [(one["tool_call_id"], one["content"]) for one in messages if one["role"] == "tool"]


def kinds(host: RecordingHost) -> list[str]:
    return [event.kind for event in host.events]


def payloads(host: RecordingHost, kind: str) -> list[dict[str, Any]]:
    return [dict(event.payload) for event in host.events if event.kind == kind]


def office(log: str, *, at: str = "before_tool", strict: bool = False) -> list[HookSpec]:
    """Real processes that write down that they are asked: `early` decides, `boss` pauses, `late` decides, `gate` approves.

    `strict` is another setting of `early`.
    """
    note = f"""
        def note(*words):
            with open({log!r}, "a") as file:
                print(*words, file=file)
        """
    early = f"""
        {note}
        def {at}(params):
            note("early", params.get("tool", ""))
            return {{"additional_context": "early was here"}}
        """
    boss = f"""
        {note}
        def {at}(params):
            note("boss", params.get("tool", ""))
            if params.get("tool") == "read":
                return {{}}
            return {{"action": "pause", "reason": "may it?"}}
        """
    late = early.replace("early", "late")
    gate = f"""
        {note}
        def approve_tool(params):
            note("gate", params["tool"])
            return {{"approved": True}}
        """
    return [
        hook_process(early, name="early", priority=1, env={"MODE": "strict"} if strict else {}),
        hook_process(boss, name="boss", priority=2),
        hook_process(late, name="late", priority=3),
        hook_process(gate, name="gate"),
    ]
