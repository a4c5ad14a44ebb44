"""One call after another, many at once, and among many hooks."""

from __future__ import annotations

import sys
from functools import partial
from typing import TYPE_CHECKING, Any

from picohook import Host, Meta

from .clients import MinimalAsyncio, MinimalTrio, Pipe, line
from .given import CALL, FAR, HOOKS, PLAIN, Given, hook, on
from .measure import Row, Timed, Times, alternate, blocking, each, micros, on_one_core, p50

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

    from picohook import ToolCall

    from .clients import Use


async def _round_trip(given: Given, loop: str, command: list[str]) -> Times:
    count = given.times(1000)
    pipe, minimal = Pipe(command), (MinimalTrio if loop == "trio" else MinimalAsyncio)(command)
    request = line(2, "hook.before_tool", CALL.wire())
    try:
        async with Host([hook("h", *command)], timeouts=FAR) as host:
            return await alternate(
                given.rounds,
                floor=blocking(partial(pipe.ask, request), count),
                minimal=p50(count, partial(minimal.ask, "hook.before_tool", CALL)),
                ours=p50(count, partial(host.before_tool, CALL)),
            )
    finally:
        await minimal.aclose()
        pipe.close()


def round_trips(given: Given) -> list[Row]:
    """1 to 3."""
    rows = []
    for number, loop, what, command, must, aim in (
        ("1", "asyncio", "a Python hook", PLAIN, 1.5, 1.2),
        ("1", "uvloop", "a Python hook", PLAIN, 1.5, 1.2),
        ("2", "asyncio", "a compiled hook", [given.echo], 1.5, 1.35),
        ("2", "uvloop", "a compiled hook", [given.echo], 1.6, 1.35),
        ("3", "trio", "a Python hook", PLAIN, 1.6, 1.5),
        ("3", "trio", "a compiled hook", [given.echo], 1.6, 1.5),
    ):
        shown = {}
        for name, pinned in (("pinned", True), ("unpinned", False)):
            with on_one_core(pinned=pinned):
                shown[name] = on(loop, partial(_round_trip, given, loop, command))
        at = shown["pinned"]
        free = shown["unpinned"]
        rows.append(
            Row(
                number,
                f"round trip, {what}, {loop}, against a minimal client",
                at.ratio("ours", "minimal"),
                must=must,
                aim=aim,
                detail={
                    **{f"{name}_us": micros(time) for name, time in at.items()},
                    "to_floor": round(at.ratio("ours", "floor"), 2),
                    "unpinned": round(free.ratio("ours", "minimal"), 2),
                    "unpinned_to_floor": round(free.ratio("ours", "floor"), 2),
                },
            )
        )
    return rows


ANSWERS = {
    "continue with a reason": ["reason"],
    "a denial with a reason": ["deny"],
    "a changed argument": ["edit"],
}
"""What the compiled hook is given to answer this. The reason, and the argument, is another one in each answer."""


def _changed(result: dict[str, Any]) -> ToolCall:
    """The call with the change of the hook: the least that a client must do with it. It is not validated."""
    return CALL.model_copy(update=result["call"])


async def _answers(given: Given, loop: str) -> dict[str, dict[str, Times]]:
    """For each answer: the times of a round trip; and of one of 64 calls at once, except on trio."""
    count, shown = given.times(500), {}
    for answer, arguments in ANSWERS.items():
        command = [given.echo, *arguments]
        use = _changed if arguments == ["edit"] else None
        minimal = (MinimalTrio if loop == "trio" else MinimalAsyncio)(command)
        try:
            async with Host([hook("h", *command)], timeouts=FAR) as host:
                assert (await host.before_tool(CALL)).trail[0].error is None
                at = await alternate(
                    given.rounds,
                    minimal=p50(count, partial(minimal.ask, "hook.before_tool", CALL, use)),
                    ours=p50(count, partial(host.before_tool, CALL)),
                )
                shown[answer] = {"one": at}
                if isinstance(minimal, MinimalAsyncio):
                    shown[answer]["many"] = await _many(given, minimal, host, use)
        finally:
            await minimal.aclose()
    return shown


def answers(given: Given) -> list[Row]:
    """19: answers that differ each time, where the learnt `continue` of 1 to 4 is always the same."""
    rows = []
    for loop, must in (("asyncio", 1.5), ("uvloop", 1.6), ("trio", 1.6)):
        with on_one_core():
            shown = on(loop, partial(_answers, given, loop))
        for answer, at in shown.items():
            one = at["one"]
            detail = {f"{name}_us": micros(time) for name, time in one.items()}
            measure = f"round trip, {answer}, {loop}, against a minimal client"
            rows.append(Row("19", measure, one.ratio("ours", "minimal"), must=must, detail=detail))
        rows += [_throughput_row("19", f"{answer}, {loop}", at["many"]) for answer, at in shown.items() if "many" in at]
    return rows


async def _fresh_meta(given: Given) -> Times:
    command, count = [given.echo], given.times(1000)
    minimal = MinimalAsyncio(command)

    def timed(ask: Callable[[ToolCall], Awaitable[Any]]) -> Timed:
        calls: Iterator[ToolCall] = iter(())

        async def once() -> None:
            await ask(next(calls))

        async def round_() -> float:
            nonlocal calls
            metas = (Meta(agent_id="main", turn_id=f"turn-{n}", session_key="s1", iteration=n) for n in range(count))
            calls = iter([CALL.model_copy(update={"meta": meta}) for meta in metas])
            return await p50(count, once)()

        return round_

    try:
        async with Host([hook("h", *command)], timeouts=FAR) as host:
            return await alternate(
                given.rounds, minimal=timed(partial(minimal.ask, "hook.before_tool")), ours=timed(host.before_tool)
            )
    finally:
        await minimal.aclose()


def fresh_meta(given: Given) -> list[Row]:
    """20: calls that are made before, each with a `Meta` of its own."""
    with on_one_core():
        at = on("asyncio", partial(_fresh_meta, given))
    detail = {f"{name}_us": micros(time) for name, time in at.items()}
    measure = "round trip, a fresh Meta for each call, asyncio, against a minimal client"
    return [Row("20", measure, at.ratio("ours", "minimal"), must=1.5, aim=1.35, detail=detail)]


async def _many(given: Given, minimal: MinimalAsyncio, host: Host, use: Use | None = None) -> Times:
    count = given.times(5000)
    return await alternate(
        given.rounds,
        raw=each(count, 64, partial(minimal.ask_in_company, "hook.before_tool", CALL, use)),
        ours=each(count, 64, partial(host.before_tool, CALL)),
    )


def _throughput_row(number: str, what: str, at: Times) -> Row:
    return Row(
        number,
        f"throughput, 64 in flight, {what}, against raw callbacks",
        at.ratio("raw", "ours"),
        must=0.5,
        aim=0.75,
        more_is_better=True,
        detail={f"{name}_per_s": round(1 / time) for name, time in at.items()},
    )


async def _throughput(given: Given) -> Times:
    minimal = MinimalAsyncio([given.echo])
    try:
        async with Host([hook("h", given.echo)], timeouts=FAR) as host:
            return await _many(given, minimal, host)
    finally:
        await minimal.aclose()


def throughput(given: Given) -> list[Row]:
    """4."""
    rows = []
    for loop in ("asyncio", "uvloop"):
        with on_one_core():
            at = on(loop, partial(_throughput, given))
        rows.append(_throughput_row("4", f"a compiled hook, {loop}", at))
    return rows


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
    """8."""
    with on_one_core():
        at = on("asyncio", partial(_among, given))
    detail = {f"{name}_us": micros(time) for name, time in at.items()}
    return [
        Row("8", "round trip, 200 hooks mounted, against 1", at.ratio("many", "one"), must=1.3, aim=1.05, detail=detail)
    ]


async def _in_flight(given: Given) -> Times:
    async with Host([hook("h", given.echo)], timeouts=FAR) as host:
        # Twenty calls a task, or the tasks' own beginnings would be what is measured.
        rounds = {
            str(n): each(max(20 * n, given.times(4000)), n, partial(host.before_tool, CALL)) for n in (1, 10, 100, 1000)
        }
        return await alternate(given.rounds, **rounds)


def in_flight(given: Given) -> list[Row]:
    """13, calls in flight: the cost of one call with 1,000 of them, against one alone."""
    with on_one_core():
        at = on("asyncio", partial(_in_flight, given))
    detail = {f"{name}_in_flight_us": micros(time) for name, time in at.items()}
    return [
        Row(
            "13",
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
    """12, the round trip; and 14, jsonrpcserver as a hook."""
    with on_one_core():
        at = on("asyncio", partial(_hook_sides, given))
    detail = {f"{name}_us": micros(time) for name, time in at.items()}
    return [
        Row(
            "12",
            "round trip, a hook on the SDK, against a plain loop",
            at.ratio("sdk", "plain"),
            must=1.3,
            aim=1.1,
            detail=detail,
        ),
        Row(
            "14",
            "round trip, a hook on jsonrpcserver, against a plain loop",
            at.ratio("jsonrpcserver", "plain"),
            detail=detail,
        ),
    ]
