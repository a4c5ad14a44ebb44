"""`python -m benchmarks.by_hand ECHO`: a chain over a megabyte whose fifth hook changes it, with no host.

It is a process of its own, because in a host's process it would find the memory as the host left it. For each number on stdin
it runs so many chains, and prints the median time of one.
"""

from __future__ import annotations

import statistics
import sys
import time

import jiter

from picohook import LLMRequest

from .clients import Pipe, line

TOOL_CALL = {"id": "call_1", "type": "function", "function": {"name": "bash", "arguments": '{"command":"ls -la"}'}}
MEGABYTE = LLMRequest(
    model="m",
    messages=[
        *({"role": "user", "content": "a line of text, and another one; " * 31} for _ in range(1023)),
        {"role": "assistant", "content": None, "tool_calls": [TOOL_CALL]},  # as in most conversations: it has a null
    ],
)
HOOKS_IN_CHAIN, EDITOR = 10, 4
"""How many hooks a chain has, and which of them changes the payload."""


def main(echo: str) -> None:
    """Run as many chains as stdin says."""
    pipes = [Pipe([echo, "modify"] if number == EDITOR else [echo]) for number in range(HOOKS_IN_CHAIN)]

    def chain() -> None:
        request = line(2, "hook.before_llm", MEGABYTE.wire())
        for pipe in pipes[:EDITOR]:
            pipe.ask(request)
        edited = jiter.from_json(pipes[EDITOR].ask(request))["result"]["request"]
        request = line(2, "hook.before_llm", edited)
        for pipe in pipes[EDITOR + 1 :]:
            pipe.ask(request)

    for count in sys.stdin:
        times = []
        for _ in range(int(count)):
            begun = time.perf_counter()
            chain()
            times.append(time.perf_counter() - begun)
        print(statistics.median(times), flush=True)
    for pipe in pipes:
        pipe.close()


if __name__ == "__main__":
    main(sys.argv[1])
