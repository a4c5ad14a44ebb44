"""Runs in place of a hook in the copy of an agent's settings: `python -I -S recorder.py PLACE NUMBER`.

Notes that it is asked about a marker's call, and then does what the marker's name says. Other calls, and those of `ask`, it
passes on to the hook itself.
"""

import glob
import json
import os
import re
import signal
import subprocess
import sys
import time
from contextlib import suppress

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

MARKER = re.compile(rb"picohook-drill-[a-z-]+-\d+-(ask|refuse|missing|killed|late)")
LATE, STARTS = 20.0, 0.5
"""Seconds after which a late hook answers, and in which a hook's program comes to wait for its input, or for its host."""
AGENT, HOOK = "PICOHOOK_DRILL", "PICOHOOK_DRILL_HOOK"
"""Variables with the process of the drill: all that the agent starts inherits the first, and all that hooks start both."""


def main() -> None:
    """Answer one event. On an error of its own it refuses, and notes the error."""
    place, number = sys.argv[1:]
    with open(os.path.join(place, "hooks.json"), encoding="utf-8") as file:
        hook = json.load(file)[int(number)]
    event = sys.stdin.buffer.read()
    found = MARKER.search(event)
    note = {"hook": hook["at"], "marker": found[0].decode() if found else ""}
    write(place, note)
    try:
        code, out, err = answer(hook, found[1].decode() if found else "ask", event)
        write(place, {**note, "code": code})
    except Exception as error:  # it has to be seen as the drill's own
        write(place, {**note, "fault": repr(error)})
        code, out, err = 2, b"", b"the drill failed\n"
    os.write(1, out)
    os.write(2, err)
    if code < 0:
        os.kill(os.getpid(), -code)
    os._exit(code)


def write(place: str, note: "dict[str, Any]") -> None:
    """Add a line to the drill's notes."""
    with open(os.path.join(place, "asked"), "ab", buffering=0) as file:
        file.write(json.dumps(note).encode() + b"\n")


def answer(hook: "dict[str, Any]", mode: str, event: bytes) -> "tuple[int, bytes, bytes]":
    """Returns the exit code and the output for a call of this mode."""
    if mode == "refuse":
        return 2, b"", b"the drill refuses this call\n"
    if mode == "late":
        time.sleep(LATE)
        return 2, b"", b"the drill is late\n"
    if not hook["run"]:
        return 0, b"", b""
    hosts = with_variable(HOOK, os.environ[AGENT]) if mode == "killed" else []
    for host in hosts:
        os.kill(host, signal.SIGSTOP)
    env, pipe = {**os.environ, HOOK: os.environ[AGENT]}, subprocess.PIPE
    if mode == "missing":
        env["PATH"] = hook["shells"]
    run = hook["missing" if mode == "missing" else "run"]
    own = subprocess.Popen(run, env=env, stdin=pipe, stdout=pipe, stderr=pipe)  # noqa: S603 - the user's own hook
    given: bytes | None = event
    if mode == "killed":
        if hosts:
            given = None
            with suppress(subprocess.TimeoutExpired):
                own.communicate(event, timeout=STARTS)
        else:
            time.sleep(STARTS)
        for victim in hosts or [innermost(own.pid)]:
            os.kill(victim, signal.SIGKILL)
    out, err = own.communicate(given)
    return own.returncode, out, err


def innermost(pid: int) -> int:
    """The process that a shell waits for; the shell itself if it has become the program."""
    children = ["pgrep", "-P", str(pid)]
    found = subprocess.run(children, stdout=subprocess.PIPE, check=False).stdout.split()  # noqa: S603 - a fixed program
    return innermost(int(found[0])) if found else pid


def with_variable(name: str, value: str) -> "list[int]":
    """The other processes that were started with a variable of this value, where the system shows it."""
    found, wanted = set[int](), f"{name}={value}".encode()
    for path in glob.glob("/proc/[0-9]*/environ"):
        with suppress(OSError), open(path, "rb") as file:  # it has ended, or is another user's
            if wanted in file.read().split(b"\0"):
                found.add(int(path.split("/")[2]))
    return sorted(found - {os.getpid()})


if __name__ == "__main__":
    main()
