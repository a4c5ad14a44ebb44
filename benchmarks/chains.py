"""Chains of hooks over large payloads, and what size and number cost."""

from __future__ import annotations

import subprocess
import sys
from contextlib import AsyncExitStack
from functools import partial

import orjson

from picohook import Host, ToolCall

from .by_hand import EDITOR, HOOKS_IN_CHAIN, MEGABYTE
from .clients import Pipe, line
from .given import CALL, FAR, HOOKS, HUGE, Given, hook, on
from .measure import Row, Times, alternate, blocking, micros, on_one_core, p50

AT_LLM = {"stages": ["before_llm"]}


async def _continuing(given: Given) -> Times:
    count = given.times(20)
    pipes = [Pipe([given.echo]) for _ in range(HOOKS_IN_CHAIN)]

    def raw() -> None:
        request = line(2, "hook.before_llm", MEGABYTE.wire())
        for pipe in pipes:
            pipe.ask(request)

    async with Host(
        [hook(f"h{number}", given.echo, **AT_LLM) for number in range(HOOKS_IN_CHAIN)], timeouts=FAR
    ) as host:
        measured = await alternate(
            given.rounds, raw=blocking(raw, count), ours=p50(count, partial(host.before_llm, MEGABYTE))
        )
    for pipe in pipes:
        pipe.close()
    return measured


class ByHand:
    """The chain with an edit by hand, in a process of its own: `by_hand.py`."""

    def __init__(self, echo: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.by_hand", echo],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=HOOKS.parents[1],
        )

    async def timed(self, count: int) -> float:
        """The median time of one of `count` chains."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{count}\n")
        self._process.stdin.flush()
        return float(self._process.stdout.readline())

    def close(self) -> None:
        """End it."""
        self._process.communicate()


async def _modifying(given: Given, how: str) -> Times:
    count = given.times(20)
    commands = [[given.echo, how] if number == EDITOR else [given.echo] for number in range(HOOKS_IN_CHAIN)]
    by_hand = ByHand(given.echo)
    hooks = [hook(f"h{number}", *command, **AT_LLM) for number, command in enumerate(commands)]
    async with Host(hooks, timeouts=FAR) as host:
        outcome = await host.before_llm(MEGABYTE)
        assert outcome.payload.model != MEGABYTE.model, outcome.trail
        measured = await alternate(
            given.rounds, raw=partial(by_hand.timed, count), ours=p50(count, partial(host.before_llm, MEGABYTE))
        )
    by_hand.close()
    return measured


def chains(given: Given) -> list[Row]:
    """What a chain of ten hooks costs that are asked about a megabyte."""
    rows = []
    for measure, work, must in (
        ("10 hooks say continue to 1 MB, against one encode and 10 transfers", _continuing, 1.7),
        ("the fifth of 10 changes 1 MB, against the same by hand", partial(_modifying, how="modify"), 1.9),
        ("the same with a merge patch", partial(_modifying, how="patch"), 1.5),
    ):
        with on_one_core():
            at = on("asyncio", partial(work, given))
        detail = {f"{name}_ms": round(time * 1e3, 2) for name, time in at.items()}
        rows.append(Row(measure, at.ratio("ours", "raw"), must=must, detail=detail))
    return rows


SIZES = {"1 KB": 1, "64 KB": 64, "1 MB": 1024, "24 MB": 24 * 1024}


async def _sizes(given: Given) -> Times:
    async def ask(call: ToolCall) -> None:
        outcome = await host.before_tool(call)
        assert outcome.trail[0].error is None  # a call that fails at once would look fast

    async with Host([hook("h", given.echo, max_line_bytes=HUGE)], timeouts=FAR) as host:
        timed = {
            name: p50(
                given.times(max(1, 2000 // size)),
                partial(ask, ToolCall(tool="write", arguments={"text": "x" * (size * 1024)})),
            )
            for name, size in SIZES.items()
        }
        return await alternate(given.rounds, **timed)


def sizes(given: Given) -> list[Row]:
    """The cost of a megabyte in 24 of them, against in one."""
    with on_one_core():
        at = on("asyncio", partial(_sizes, given))
    detail = {f"{name}_us": micros(time) for name, time in at.items()}
    return [
        Row(
            "a megabyte of a 24 MB payload, against of a 1 MB one",
            at.each_round(lambda times: times["24 MB"] / times["1 MB"] / 24),
            must=1.25,
            detail=detail,
        )
    ]


NUMBERS = (1, 10, 50, 200)
WHY = "two hundred processes do not fit into the caches of a processor; by hand a hook of 200 takes twice that of one"


async def _numbers(given: Given) -> Times:
    request = line(2, "hook.before_tool", CALL.wire())
    pipes = [Pipe([given.echo]) for _ in range(max(NUMBERS))]

    def by_hand(number: int) -> None:
        for pipe in pipes[:number]:
            pipe.ask(request)

    timed = {}
    async with AsyncExitStack() as hosts:
        for number in NUMBERS:
            hooks = [hook(f"h{place}", given.echo) for place in range(number)]
            host = await hosts.enter_async_context(Host(hooks, timeouts=FAR))
            count = given.times(max(5, 1000 // number))
            timed[f"floor_{number}"] = blocking(partial(by_hand, number), count)
            timed[f"ours_{number}"] = p50(count, partial(host.before_tool, CALL))
        measured = await alternate(given.rounds, **timed)
    for pipe in pipes:
        pipe.close()
    return measured


def numbers(given: Given) -> list[Row]:
    """What the host adds to a hook's own time in a chain of 200, against in a chain of 1."""
    with on_one_core():
        at = on("asyncio", partial(_numbers, given))

    def own(times: dict[str, float], number: int) -> float:
        return (times[f"ours_{number}"] - times[f"floor_{number}"]) / number

    ratio = at.each_round(lambda times: own(times, 200) / own(times, 1))
    detail = {f"{name}_us": micros(time) for name, time in at.items()}
    return [Row("a hook in a chain of 200, against of 1", ratio, must=1.6, detail=detail, why=WHY)]


def encoded_size() -> int:
    """Bytes of the payload of the chains."""
    return len(orjson.dumps(MEGABYTE.wire()))
