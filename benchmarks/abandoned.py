"""Calls that end without an answer: many are cancelled, or reach deadlines that are all different.

Only the part of the host that keeps calls in flight is measured, a channel: tasks would take most of the time.
"""

from __future__ import annotations

import os
import time
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from picohook.errors import HookTimeoutError
from picohook.model.replies import read_decision
from picohook.model.stages import BEFORE_TOOL
from picohook.observe.log import Log
from picohook.transport.channel import Channel, HookCounters
from picohook.transport.event_loop import current_reactor

from .given import on
from .measure import Row, alternate, micros, on_one_core

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from .given import Given

FEW, MANY = 4_000, 16_000
HELLO = b'{"jsonrpc":"2.0","id":1,"result":{}}\n'
PARAMS = b'{"tool":"bash","arguments":{"command":"ls -la"}}'
NEWEST_FIRST, MIXED = -1, 7_919
"""The orders of the deadlines: each call's is so many places after that of the call before it. The second is a prime."""
APART = 50e-6
"""Seconds from one deadline to the next."""
FAR = 3600.0


@asynccontextmanager
async def _channel() -> AsyncIterator[Channel]:
    """A channel to nobody: hello is answered, and the pipe is soon full, so most calls wait in the host."""
    stdout, answers = os.pipe()
    requests, stdin = os.pipe()
    os.set_blocking(stdout, False)
    os.set_blocking(stdin, False)
    reactor = current_reactor()
    channel = Channel(
        reactor,
        stdout,
        stdin,
        name="h",
        log=Log(),
        counters=HookCounters(),
        read=lambda stage, reply: read_decision(stage, reply.result),
        on_fault=print,
    )
    try:
        os.write(answers, HELLO)
        await channel.hello(["tool"], reactor.now() + FAR)
        yield channel
    finally:
        channel.release()
        os.close(answers)
        os.close(requests)


async def _cancelled(count: int) -> float:
    """The processor time of a call, when all are cancelled newest first."""
    async with _channel() as channel:
        now = current_reactor().now()
        begun = time.process_time()
        calls: list[Any] = [channel.call(BEFORE_TOOL, PARAMS, now + FAR, now + FAR, now) for _ in range(count)]
        while calls:
            calls.pop().cancel()
        return (time.process_time() - begun) / count


async def _distinct(stride: int, count: int) -> float:
    """The processor time of a call, when each has a deadline of its own, until the last one has timed out."""
    async with _channel() as channel:
        now = current_reactor().now()
        begun = time.process_time()
        deadlines = [now + 0.2 + number * stride % count * APART for number in range(count)]
        calls = [channel.call(BEFORE_TOOL, PARAMS, deadline, deadline, now) for deadline in deadlines]
        with suppress(HookTimeoutError):
            await calls[deadlines.index(max(deadlines))]
        return (time.process_time() - begun) / count


def _few_and_many(given: Given, timed: Callable[[int], Any]) -> tuple[float, dict[str, float]]:
    """The cost of one of many against one of few, and both."""
    with on_one_core():
        at = on("asyncio", partial(alternate, given.rounds, few=partial(timed, FEW), many=partial(timed, MANY)))
    return at.ratio("many", "few"), {f"{FEW}_calls_us": micros(at["few"]), f"{MANY}_calls_us": micros(at["many"])}


def abandoned(given: Given) -> list[Row]:
    """What each of many calls costs that end without an answer, against each of fewer."""
    cancelled, at_cancelled = _few_and_many(given, _cancelled)
    distinct, at_distinct = _few_and_many(given, partial(_distinct, NEWEST_FIRST))
    mixed, _ = _few_and_many(given, partial(_distinct, MIXED))
    named = f"each of {MANY:,} calls %s, against {FEW:,}"
    return [
        Row(named % "cancelled newest first", cancelled, must=1.25, detail=at_cancelled),
        Row(
            named % "with a deadline of its own, newest first",
            distinct,
            must=1.25,
            detail={**at_distinct, "in_mixed_order": round(mixed, 2)},
        ),
    ]
