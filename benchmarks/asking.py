"""A call among many hooks, beside many calls, and to hooks that are written in other ways."""

from __future__ import annotations

import sys
from functools import partial

from picohook import Host

from .given import CALL, FAR, HOOKS, PLAIN, Given, hook, on
from .measure import Row, Times, alternate, each, micros, on_one_core, p50


async def _among(given: Given) -> Times:
    count = given.times(1000)
    asked = hook("asked", given.echo)
    others = [hook(f"other{number}", given.echo, stages=["after_tool"]) for number in range(199)]
    async with Host([asked], timeouts=FAR) as one, Host([asked, *others], timeouts=FAR) as many:
        return await alternate(
            given.rounds,
            one=p50(count, partial(one.before_tool, CALL)),
            many=p50(count, partial(many.before_tool, CALL)),
        )


def among_many(given: Given) -> list[Row]:
    """A call to one hook among two hundred."""
    with on_one_core():
        at = on("asyncio", partial(_among, given))
    detail = {f"{name}_us": micros(time) for name, time in at.items()}
    return [Row("round trip, 200 hooks mounted, against 1", at.ratio("many", "one"), must=1.3, detail=detail)]


async def _in_flight(given: Given) -> Times:
    async with Host([hook("h", given.echo)], timeouts=FAR) as host:
        # Twenty calls a task, or the tasks' own beginnings would be what is measured.
        rounds = {
            str(n): each(max(20 * n, given.times(4000)), n, partial(host.before_tool, CALL)) for n in (1, 10, 100, 1000)
        }
        return await alternate(given.rounds, **rounds)


def in_flight(given: Given) -> list[Row]:
    """Calls in flight: the cost of one call with 1,000 of them, against one alone."""
    with on_one_core():
        at = on("asyncio", partial(_in_flight, given))
    detail = {f"{name}_in_flight_us": micros(time) for name, time in at.items()}
    return [
        Row(
            "a call with 1,000 in flight, against 1",
            at.ratio("1000", "1"),
            must=1.25,
            detail=detail,
        )
    ]


async def _hook_sides(given: Given) -> Times:
    count = given.times(1000)
    hooks = {
        "plain": PLAIN,
        "sdk": [sys.executable, "-S", str(HOOKS / "sdk.py")],
        "jsonrpcserver": [sys.executable, str(HOOKS / "rpcserver.py")],
    }
    timed = {}
    async with Host(timeouts=FAR) as host:
        for name, command in hooks.items():
            await host.mount(hook(name, *command, env={"PYTHONPATH": str(HOOKS.parents[1])}, filter={"tool": name}))
            timed[name] = p50(count, partial(host.before_tool, CALL.model_copy(update={"tool": name})))
        return await alternate(given.rounds, **timed)


def hook_sides(given: Given) -> list[Row]:
    """Hooks on the SDK, and on jsonrpcserver."""
    with on_one_core():
        at = on("asyncio", partial(_hook_sides, given))
    detail = {f"{name}_us": micros(time) for name, time in at.items()}
    return [
        Row(
            "round trip, a hook on the SDK, against a plain loop",
            at.ratio("sdk", "plain"),
            must=1.3,
            detail=detail,
        ),
        Row(
            "round trip, a hook on jsonrpcserver, against a plain loop",
            at.ratio("jsonrpcserver", "plain"),
            detail=detail,
        ),
    ]
