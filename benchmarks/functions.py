"""A hook that is a function in the host's process, against a function that pluggy calls."""

from __future__ import annotations

from functools import partial

from picohook import FunctionHook, Host, ToolCall

from .given import CALL, FAR, Given, on
from .measure import Row, Times, alternate, micros, on_one_core, p50

WHY = (
    "a hook gets a copy of the call, which it cannot change unseen, a deadline, a trail, counters and a failure policy"
)


def _pass(call: ToolCall) -> None:
    """Lets each call pass."""


async def _pass_soon(call: ToolCall) -> None:
    """Lets each call pass."""


async def _measured(given: Given) -> Times:
    import pluggy

    class Specification:
        @pluggy.HookspecMarker("bench")
        def before_tool(self, call: ToolCall) -> None: ...

    class Plugin:
        @pluggy.HookimplMarker("bench")
        def before_tool(self, call: ToolCall) -> None:
            return _pass(call)

    manager = pluggy.PluginManager("bench")
    manager.add_hookspecs(Specification)
    manager.register(Plugin())

    async def called() -> None:
        manager.hook.before_tool(call=CALL)

    hooks = [
        FunctionHook("plain", {"before_tool": _pass}, filter={"tool": "plain"}),
        FunctionHook("coroutine", {"before_tool": _pass_soon}, filter={"tool": "coroutine"}),
    ]
    async with Host(hooks, timeouts=FAR) as host:
        count = given.times(2000)
        ours = {
            name: partial(host.before_tool, CALL.model_copy(update={"tool": name})) for name in ("plain", "coroutine")
        }
        return await alternate(
            3 * given.rounds, pluggy=p50(count, called), **{name: p50(count, ask) for name, ask in ours.items()}
        )


def functions(given: Given) -> list[Row]:
    """How many times longer a hook takes than a function that pluggy calls."""
    with on_one_core():
        at = on("asyncio", partial(_measured, given))
    detail = {f"{name}_us": micros(taken) for name, taken in at.items()}
    return [
        Row(
            f"{what} as a hook, against a function that pluggy calls",
            at.ratio(name, "pluggy"),
            must=must,
            detail=detail,
            why=why,
        )
        for what, name, must, why in (
            ("a coroutine function", "coroutine", 30, WHY),
            ("a function", "plain", 90, f"it runs in a thread, so that one that hangs stops nothing else; {WHY}"),
        )
    ]
