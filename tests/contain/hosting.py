"""A host in a process of its own, that does what it is told: a word on each line of stdin, an answer on each of stdout.

`python hosting.py BACKEND HOOKS`, the hooks as JSON. It is there to be killed, to crash, and to be forgotten.
"""

import asyncio
import contextlib
import json
import os
import resource
import signal
import sys
from pathlib import Path

import anyio

sys.path.insert(0, str(Path(__file__).parents[2]))

from picohook import HookSpec, Host, Timeouts, ToolCall

STDIN = sys.stdin


def say(answer):
    sys.stdout.write(f"{json.dumps(answer)}\n")
    sys.stdout.flush()


async def read():
    """A line of stdin."""
    return (await anyio.to_thread.run_sync(STDIN.readline, abandon_on_cancel=True)).strip()


async def obey(host):
    while word := await read():
        verb, *rest = word.split(" ", 1)
        if verb == "status":
            status = host.status()
            hooks = {hook.name: [hook.state, hook.pid, hook.containment, hook.last_error] for hook in status.hooks}
            say([status.containment, hooks])
        elif verb == "ask":
            steps = json.loads(rest[0])
            given = steps if isinstance(steps, dict) else {"do": steps}
            outcome = await host.before_tool(ToolCall(tool="bash", arguments=given))
            say([entry.error for entry in outcome.trail])
        elif verb == "restart":
            host.restart(rest[0])
            say("restarted")
        elif verb == "fork":
            if not os.fork():  # a worker: it holds a copy of all that the host holds
                os.read(int(rest[0]), 1)
                os._exit(0)
            say("forked")
        elif verb == "processes":  # so many may there be at most, of this user's; without a number, as many as before
            for pid in family():
                _, most = resource.prlimit(pid, resource.RLIMIT_NPROC)
                resource.prlimit(pid, resource.RLIMIT_NPROC, (int(rest[0]) if rest else most, most))
            say("limited")
        elif verb == "catch":
            catch(rest[0])
            say("catches it")
        elif verb in {"crash", "exit", "raise"}:
            fail(verb)
        else:
            return verb
    return "end"


def catch(name):
    """Say the name of a signal when it arrives, also while the event loop waits."""
    number, said = getattr(signal, name), f"{json.dumps(name)}\n".encode()
    try:
        asyncio.get_running_loop().add_signal_handler(number, os.write, 1, said)
    except RuntimeError:  # trio, which every signal wakes
        signal.signal(number, lambda *_: os.write(1, said))  # not by `say`, which it may interrupt


def fail(how):
    if how == "crash":
        os.abort()
    if how == "exit":
        os._exit(3)
    raise ZeroDivisionError


def family():
    """This process and all that descend from it."""
    parents = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            with contextlib.suppress(OSError):
                parents[int(entry)] = int(Path(f"/proc/{entry}/stat").read_text().rsplit(") ", 1)[1].split()[1])
    found = [os.getpid()]
    for pid in found:
        found += [child for child, parent in parents.items() if parent == pid]
    return found


async def close(hooks):
    async with Host(hooks, timeouts=Timeouts(interceptor=60, hello=60)) as host:
        say("ready")
        await obey(host)
    say("closed")


async def stay(hooks):
    async with Host(hooks, timeouts=Timeouts(hello=60)):
        await anyio.sleep_forever()


async def cancel(hooks):
    async with anyio.create_task_group() as tasks:

        async def run():
            async with Host(hooks, timeouts=Timeouts(interceptor=60, hello=60)) as host:
                say("ready")
                await obey(host)
                tasks.cancel_scope.cancel()
                await anyio.sleep_forever()

        tasks.start_soon(run)
    say("closed")


async def forget(hooks):
    """Leave without a word."""
    host = await Host(hooks, timeouts=Timeouts(interceptor=60, hello=60)).__aenter__()
    say("ready")
    await obey(host)
    return host


def main(backend, how, hooks):
    specs = [HookSpec(**hook) for hook in json.loads(hooks)]
    if how == "forget" and backend == "asyncio":
        loop = asyncio.new_event_loop()
        host = loop.run_until_complete(forget(specs))
        loop.close()
        say("left")
        STDIN.readline()
        del host
    else:
        anyio.run({"close": close, "cancel": cancel, "forget": forget, "stay": stay}[how], specs, backend=backend)
        say("left")
        STDIN.readline()


if __name__ == "__main__":
    main(*sys.argv[1:])
