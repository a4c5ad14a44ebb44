"""Hosts and people share the queue of approvals, and are killed and stopped at random.

    python tests/soak/approvals.py --minutes 20 [--seed 7]

Each call is another one. Hosts and people note what they do in one log, whose lines survive a kill. Prints what came of it, and
ends with 1 if a call ran without a yes, ran twice, ran after a no, or was lost.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[2]
NOTING = """
import json, os, random, sys, time
log = os.open(sys.argv[1], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
def note(**said):
    os.write(log, (json.dumps(said) + "\\n").encode())
"""
HOST = """
import anyio
from picohook import HookSpec, Host, ToolCall
me = os.getpid()

async def work(host, number):
    turn = 0
    while True:
        call, turn = f"{me}-{number}-{turn}", turn + 1
        note(asked=call)
        with anyio.move_on_after(3 if number == 0 else 60):  # the first one's callers go away
            await host.run_tool(ToolCall(tool="t", arguments={"call": call}), lambda _: note(ran=call))
            note(done=call)

async def main():
    spec = HookSpec(name="person", approver="queue", approval_timeout=2 if me % 3 == 0 else 30)
    async with Host([spec]) as host, anyio.create_task_group() as group:
        for number in range(4):
            group.start_soon(work, host, number)

anyio.run(main, backend=sys.argv[2])
"""
PERSON = """
from picohook import PicohookError
from picohook.ext.approvals.queue import Answer, Queue
queue = Queue()
while True:
    queue.remove_dead()
    waiting = queue.waiting(20)
    for one in random.sample(waiting, min(len(waiting), 5)):
        call, yes = json.loads(one.call)["arguments"]["call"], random.random() < 0.5
        note(said=call, yes=yes)
        try:
            queue.answer(one.id, Answer(yes, "", "soak"))
            note(taken=call, yes=yes)
        except PicohookError:
            note(refused=call)
    time.sleep(0.02)
"""


class Soak:
    """The processes, and the log of what they did."""

    def __init__(self, place: Path) -> None:
        self.log = place / "log"
        self.environment = {**os.environ, "XDG_STATE_HOME": str(place), "PYTHONPATH": str(ROOT)}
        self.hosts = [self.host() for _ in range(3)]
        self.people = [self.person() for _ in range(2)]
        self.harm: Counter[str] = Counter()

    def start(self, code: str, *arguments: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-c", NOTING + code, str(self.log), *arguments]
        return subprocess.Popen(command, env=self.environment, stderr=subprocess.DEVNULL)

    def host(self) -> subprocess.Popen[bytes]:
        return self.start(HOST, random.choice(["asyncio", "trio"]))

    def person(self) -> subprocess.Popen[bytes]:
        return self.start(PERSON)

    def do_harm(self) -> None:
        """Kill a process and start another in its place, or stop one for a while."""
        group, new = random.choice([(self.hosts, self.host), (self.people, self.person)])
        at, what = random.randrange(len(group)), random.choice(["killed", "stopped"])
        self.harm[what] += 1
        if what == "killed":
            group[at].kill()
            group[at].wait()
            group[at] = new()
            return
        group[at].send_signal(signal.SIGSTOP)
        time.sleep(random.uniform(0.1, 3))
        group[at].send_signal(signal.SIGCONT)

    def end(self) -> None:
        for process in (*self.hosts, *self.people):
            process.kill()
            process.wait()

    def wrong(self) -> dict[str, list[str]]:
        """The calls that broke a promise, by the promise."""
        noted: dict[str, list[str]] = {name: [] for name in ("asked", "ran", "done", "yes", "no", "taken", "refused")}
        for line in self.log.read_text().splitlines():
            said = json.loads(line)
            name, call = next(iter(said.items()))
            noted[("yes" if said["yes"] else "no") if name == "said" else name].append(call)
            if name == "taken" and not said["yes"]:
                noted.setdefault("refused by a person", []).append(call)
        print(*(f"{name}: {len(calls)}" for name, calls in noted.items()), *self.harm.items(), sep="\n")
        living, done = {str(host.pid) for host in self.hosts}, {*noted["done"]}
        last = {call.rpartition("-")[0]: call for call in noted["asked"]}
        ended = [call for call in noted["asked"] if call not in last.values() and call.split("-")[1] != "0"]
        return {
            "ran without a yes": sorted({*noted["ran"]} - {*noted["yes"]}),
            "ran twice": [call for call, times in Counter(noted["ran"]).items() if times > 1],
            "ran after a no": sorted({*noted["ran"]} & {*noted.get("refused by a person", ())}),
            "lost": [call for call in ended if call.split("-")[0] in living and call not in done],
        }


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--minutes", type=float, default=1)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    given = parser.parse_args()
    random.seed(given.seed)
    print("seed", given.seed)
    with tempfile.TemporaryDirectory() as place:
        soak = Soak(Path(place))
        end = time.monotonic() + given.minutes * 60
        try:
            while time.monotonic() < end:
                time.sleep(random.uniform(0.3, 1.5))
                soak.do_harm()
        finally:
            soak.end()
        wrong = soak.wrong()
    for promise, calls in wrong.items():
        print(f"{promise}: {len(calls)}", *calls[:5])
    return int(any(wrong.values()))


if __name__ == "__main__":
    sys.exit(main())
