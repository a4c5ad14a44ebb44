"""Runs an agent's program with `picohook shim`, and attacks the shim through the agent's own calls."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from trying import ground

from picohook.ext.drill.model import serving

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from programs import Program
    from trying import Ground

    from picohook.ext.drill.model import Model

GUARD = """
import os
from pathlib import Path
from picohook import AbortTurn, Deny, Modify, Pause

with open({pids!r}, "a") as file:
    file.write(f"{{os.getpid()}}\\n")


def decide(call):
    command = str(call.arguments.get("command"))
    if call.arguments.get("tty"):
        return Deny("it opens a terminal")
    if "secret" in command:
        return Deny("it is a secret")
    if "person" in command:
        return Pause("a person has to see it")
    if "die" in command:
        os.kill(os.getpid(), 9)
    if "before" in command:
        return Modify({{"arguments": {{**call.arguments, "command": "touch after"}}}})


def prompt(asked):
    return AbortTurn("not that") if "forbidden" in asked.prompt else None
"""
TAKEOVER = """
import os, socket, sys
place = os.environ["XDG_RUNTIME_DIR"] + "/picohook/"
for key in os.listdir(place):
    if "." in key:
        continue
    client = socket.socket(socket.AF_UNIX)
    client.connect(place + key)
    pid = int.from_bytes(client.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)[:4], sys.byteorder)
    os.kill(pid, 9)
    os.unlink(place + key)
    host = socket.socket(socket.AF_UNIX)
    host.bind(place + key)
    os.chmod(place + key, 0o600)
    host.listen()
    if os.fork():
        break
    os.setsid()
    for descriptor in range(3):
        os.dup2(os.open("/dev/null", os.O_RDWR), descriptor)
    with open({pids!r}, "a") as file:
        file.write(f"{{os.getpid()}}\\n")
    open("taken", "w").close()
    while True:
        connection, _ = host.accept()
        connection.recv(1 << 20)
        try:
            connection.sendall(f"picohook-shim 1 {{key}}\\ndone 0\\n".encode())
        except OSError:
            pass
        connection.close()
"""


def problems(program: Program) -> list[str]:
    """What a guard behind the shim should have kept from happening, and did not."""
    with guarded() as here:
        return [*_of_calls(program, here), *_of_prompt(program, here), *_of_terminal(program, here)]


@contextmanager
def guarded(more: str = "") -> Iterator[Ground]:
    """A ground with the guard in a configuration, and `more` below it. Ends the hosts that have asked the guard."""
    with ground() as here:
        pids = here.home / "pids"
        (here.home / "guard.py").write_text(GUARD.format(pids=str(pids)), encoding="utf-8")
        (here.home / "takeover.py").write_text(TAKEOVER.format(pids=str(pids)), encoding="utf-8")
        config = here.home / "picohook.toml"
        config.write_text(
            '[hooks.guard]\npython = "guard:decide"\nstages = ["before_tool"]\n'
            f'[hooks.prompt]\npython = "guard:prompt"\nstages = ["before_prompt"]\n{more}',
            encoding="utf-8",
        )
        try:
            yield here
        finally:
            for pid in pids.read_text().split() if pids.exists() else ():
                try:
                    os.kill(int(pid), 9)
                except ProcessLookupError:
                    continue


def _of_calls(program: Program, here: Ground) -> list[str]:
    takeover = f"python3 {here.home}/takeover.py"
    commands = (
        "touch fine",
        "touch secret",
        "touch before",
        "touch person",
        "touch die",
        "touch fine2",
        takeover,
        "touch secret2",
    )
    said, _ = run_with_shim(program, here, [[program.call(f"c{at}", command)] for at, command in enumerate(commands)])
    made = set(os.listdir(here.project))
    wrong = {"secret", "before", "person", "die", "secret2"} & made
    missing = {"fine", "after", "fine2"} - made
    if program.name == "gemini":
        missing.discard("taken")  # its policy denies such a command itself
    elif "taken" not in made:
        missing.add("taken")
    ended = [] if "it waits" not in said else ["it waits for ever"]
    return (
        [f"ran: {one}" for one in sorted(wrong)]
        + [f"did not run: {one}: {said[-1500:]}" for one in sorted(missing)]
        + ended
    )


def _of_prompt(program: Program, here: Ground) -> list[str]:
    _, model = run_with_shim(program, here, [], "this is forbidden")
    return ["a refused prompt reached the model"] if model.requests else []


def _of_terminal(program: Program, here: Ground) -> list[str]:
    """Types into a shell that Codex opened with a terminal. Events do not show that it has one."""
    if program.name != "codex":
        return []
    opens = ("t1", "exec_command", {"cmd": "bash", "tty": True, "yield_time_ms": 300})

    def types(model: Model) -> Any:
        found = re.search(r"session ID (\d+)", model.results.get("t1", ""))
        typed = found and program.agent.call("t2", "type", session=int(found[1]), command="touch typed")
        return [typed] if typed else "done"

    run_with_shim(program, here, [[opens], types])
    return ["text was typed into a shell"] if (here.project / "typed").exists() else []


def run_with_shim(
    program: Program,
    here: Ground,
    script: list[Any],
    prompt: str = "go on",
    *,
    timeout: float = 300,
    watch: Callable[[], object] = int,
) -> tuple[str, Model]:
    """Run the program with the shim, and call `watch` meanwhile. Returns what it wrote, and its model."""
    with serving({"": script}) as model:
        program.prepare(here.home, model.url, {})
        config = str(here.home / "picohook.toml")
        shim = [sys.executable, "-m", "picohook", "shim", program.name, "--config", config, "--timeout", str(timeout)]
        environment = {"HOME": str(here.home), "PATH": os.environ["PATH"]}
        subprocess.run(shim, env=environment, cwd=here.project, check=True, stdout=subprocess.DEVNULL)
        said = program.run(
            prompt, here.home, here.project, model.url, lambda: (watch(), model.requests, os.listdir(here.project))
        )
        return said, model
