"""`picohook top`: figures of a host that runs, as data, as a table, and live in a real terminal."""

from __future__ import annotations

import io
import json
import os
import select
import shlex
import shutil
import signal
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest
from program import PATIENCE, read_line, reading
from rich.console import Console

from picohook.ext.control.top import Look, _table, figures, memory

AGENT = """
import sys, anyio
from picohook import Host
async def main():
    async with Host.from_config("picohook.toml", control="host.sock") as host:
        print("ready", flush=True)
        while line := await anyio.to_thread.run_sync(sys.stdin.readline):
            for _ in range(int(line)):
                await host.before_tool({"tool": "bash"})
            print("asked", flush=True)
anyio.run(main)
"""

HAS_PROC = Path("/proc/self/stat").exists()


class Agent:
    """A program with a host, that asks its hooks when it is told to."""

    def __init__(self, process):
        self.process = process

    def ask(self, times):
        self.process.stdin.write(f"{times}\n")
        self.process.stdin.flush()
        assert read_line(self.process.stdout) == "asked\n"

    def end(self):
        self.process.stdin.close()
        assert self.process.wait(PATIENCE) == 0


@pytest.fixture
def agent(project):
    project.hook("one", "")
    project.hook("two", "def before_tool(params): sys.exit(1)", restart=0)
    project.config.write_text(project.config.read_text().replace("restart = 0", "restart = { max_starts = 1 }"))
    with subprocess.Popen(
        [project.python, "-c", AGENT],
        cwd=project.path,
        env=project.env,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        try:
            assert read_line(process.stdout) == "ready\n"
            yield Agent(process)
        finally:
            process.kill()


# As data.


def test_programs_get_a_line_every_interval(project, agent):
    with project.start("top", "--control", "host.sock", "--interval", "0.1", "--json") as top:
        first = json.loads(read_line(top.stdout))
        agent.ask(10)
        rates = []
        while True:
            shown = json.loads(read_line(top.stdout))
            one, two = shown["hooks"]
            rates.append(one["calls_per_second"])
            if one["calls"] == 10:
                break
        top.send_signal(signal.SIGINT)
        _, err = top.communicate(timeout=PATIENCE)

    assert (top.returncode, err) == (130, "")
    assert [(hook["name"], hook["state"], hook["calls"]) for hook in first["hooks"]] == [
        ("one", "ready", 0),
        ("two", "ready", 0),
    ]
    assert max(rates) > 0
    assert one["p99_ms"] >= one["p50_ms"] > 0
    assert (one["failures"], two["failures"]) == (0, 10)
    if HAS_PROC:
        assert 1e6 < one["memory_bytes"] < 1e9
    assert shown["containment"] in {"namespace", "sweep", "group"}


def test_once_is_one_line_or_one_table(project, agent):
    agent.ask(3)

    programs = project("top", "--control", "host.sock", "--once", "--interval", "0.1", "--json")
    people = project("top", "--control", "host.sock", "--once", "--interval", "0.1")

    assert (programs.code, programs.err, people.code, people.err) == (0, "", 0, "")
    (one, two) = programs.json["hooks"]
    assert (one["calls"], one["calls_per_second"], one["restarts"], two["state"]) == (3, 0.0, 0, "failed")
    columns = ["hook", "state", "pid", "calls/s", "p50 ms", "p99 ms", "denied", "failed", "drops", "restarts", "memory"]
    head, *rows, error = people.out.splitlines()
    assert head.split() == " ".join(columns).split()
    assert rows[0].split()[:4] == ["two", "failed", "-", "-"]
    assert rows[1].split()[:4] == ["one", "ready", str(one["pid"]), "0.0"]
    assert error.startswith("two: it was given up: it exited with code 1")
    assert rows[0].split()[-4:] == ["3", "0", "0", "-"]


def test_a_host_that_ends_is_an_error_and_so_is_a_missing_one(project, agent):
    with project.start("top", "--control", "host.sock", "--interval", "0.1", "--json") as top:
        read_line(top.stdout)
        agent.end()
        _, err = top.communicate(timeout=PATIENCE)

    assert top.returncode == 1
    assert err.startswith("Error: the ")
    nobody = project("top", "--control", "host.sock", "--once")
    assert (nobody.code, nobody.err) == (1, "Error: no host has its control socket at host.sock\n")


def test_it_ends_quietly_when_its_reader_has_gone(project, agent):
    done = project.shell("picohook top --control host.sock --interval 0.1 --json | head -n 1; echo ${PIPESTATUS[0]}")

    shown, code = done.out.splitlines()
    assert (json.loads(shown)["hooks"][0]["name"], code, done.err) == ("one", "1", "")


def test_watching_a_host_ends_quietly_when_its_reader_has_gone(project, agent):
    with project.start("control", "watch", "--control", "host.sock") as watch:
        agent.ask(0)
        while not select.select([watch.stdout], [], [], 0.05)[0]:
            agent.ask(1)
        watch.stdout.close()
        while watch.poll() is None:
            agent.ask(1)
        assert (watch.returncode, watch.stderr.read()) == (1, "")


def test_a_live_view_without_a_terminal_is_wrong_usage(project):
    done = project("top", "--control", "host.sock")

    assert done.code == 2
    assert "use --once or --json" in done.err


def status(name="h", *, starts=1, dropped=(0, 0), pid=None, **executions):
    stage = {
        "decisions": {"deny_tool": 4, "continue": 9},
        "failures": {"timeout": 1, "reply": 2},
        "p50_ms": 0.2,
        "p99_ms": 0.9,
    }
    hook = {
        "name": name,
        "state": "ready",
        "pid": pid,
        "starts": starts,
        "dropped_events": dropped[0],
        "dropped_lines": dropped[1],
        "last_error": None,
        "stages": {stage_name: {**stage, "executions": count} for stage_name, count in executions.items()},
    }
    return {"containment": "sweep", "hooks": [hook]}


def test_rates_compare_two_looks():
    before = Look(status(before_tool=10, after_tool=4), 100.0)
    now = Look(status(before_tool=20, after_tool=5, before_llm=1, starts=3, dropped=(2, 5), pid=7), 102.0)

    (hook,) = figures(before, now, {7: 4096})["hooks"]

    assert (hook["calls"], hook["calls_per_second"], hook["failures"]) == (26, 6.0, 9)
    assert (hook["dropped"], hook["restarts"], hook["memory_bytes"], hook["denials"]) == (7, 2, 4096, 12)


def test_a_first_look_has_no_rates_and_a_replaced_hook_has_its_own():
    (first,) = figures(None, Look(status(before_tool=10), 1.0), {})["hooks"]
    (changed,) = figures(Look(status(before_tool=10), 1.0), Look(status(before_tool=4), 2.0), {})["hooks"]
    (added,) = figures(Look(status("other"), 1.0), Look(status(before_tool=4), 2.0), {})["hooks"]

    assert (first["calls_per_second"], first["memory_bytes"]) == (None, None)
    assert (changed["calls_per_second"], added["calls_per_second"]) == (4.0, 4.0)


def drawn(hooks, width, height):
    """The lines of a table in a terminal of this size."""
    console = Console(width=width, height=height, color_system=None, file=io.StringIO())
    shown = figures(None, Look({"containment": "none", "hooks": hooks}, 1.0), {})
    console.print(_table(shown["hooks"], width, height))
    return console.file.getvalue().splitlines()


def hooks_named(*names, **stages):
    return [status(name, **stages)["hooks"][0] for name in names]


@pytest.mark.parametrize("width", [60, 70, 80, 100])
def test_in_a_narrow_terminal_names_and_failures_stay_readable(width):
    head, *rows = drawn(hooks_named("a-guard-of-paths", "b", before_tool=1), width, 20)

    assert {"hook", "state", "calls/s", "p99", "failed"} <= set(head.split())
    assert ("memory" in head) == (width >= 80)
    assert rows[0].startswith("a-guard-of-paths ready ")
    assert max(map(len, (head, *rows))) <= width


def test_with_more_hooks_than_lines_those_in_trouble_come_first():
    hooks = hooks_named(*(f"h{n}" for n in range(20)), before_tool=1, after_tool=1)
    hooks[17]["state"] = "failed"
    hooks[18]["stages"]["before_tool"]["failures"] = {"timeout": 90}

    _, *rows = drawn(hooks, 70, 8)
    assert [row.split()[0] for row in rows] == ["h17", "h18", "h0", "h1", "h2", "h3", "h4", "and"]
    assert rows[-1].split() == ["and", "13", "more"]
    assert "0.9" in rows[0].split()  # the p99 of its slowest stage


@pytest.mark.skipif(not HAS_PROC, reason="there is no /proc")
def test_memory_is_that_of_all_processes_of_a_hook():
    hoard = "import subprocess, sys; kept = b'x' * 30_000_000; {}; print('there', flush=True); sys.stdin.read()"
    helper = hoard.format("pass")
    parent = hoard.format(f"subprocess.Popen([sys.executable, '-c', {helper!r}])")
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", parent], process_group=0, **pipes) as hook:
        assert [hook.stdout.readline() for _ in range(2)] == [b"there\n"] * 2
        held = memory({hook.pid})
        hook.stdin.close()
    assert held.keys() == {hook.pid}
    assert held[hook.pid] > 60_000_000
    assert memory({hook.pid}, proc="/nowhere") == {}


# In a terminal.


class Terminal:
    """A program in a terminal of tmux's, and what is on its screen."""

    def __init__(self, path, run):
        self._tmux = ["tmux", "-S", str(path / "tmux"), "-f", "/dev/null"]
        self._written = path / "written"
        os.mkfifo(self._written)
        self.run = run

    def tmux(self, *arguments):
        done = subprocess.run([*self._tmux, *arguments], capture_output=True, text=True, timeout=PATIENCE, check=True)
        return done.stdout

    def keys(self, *keys):
        self.tmux("send-keys", *keys)

    @property
    def screen(self):
        return self.tmux("capture-pane", "-p")

    @contextmanager
    def shown(self):
        """Waits, with what comes from the program, until the screen has it."""
        with reading(self._written) as written:
            self.tmux("pipe-pane", f"cat > {self._written}")

            def until(*words):
                while not all(word in self.screen for word in words):
                    assert read_some(written), self.screen
                return self.screen

            yield until


def read_some(file):
    return select.select([file], [], [], PATIENCE)[0] and os.read(file.fileno(), 65536)


@pytest.fixture
def terminal(project, tmp_path):
    """Starts `top` in a terminal of 80 columns; afterwards the files `code`, `before` and `after` say how it ended."""
    if shutil.which("tmux") is None:
        pytest.skip("there is no tmux: apt-get install tmux")
    script = tmp_path / "script.sh"
    top = f"{shlex.quote(sys.executable)} -m picohook top --control host.sock --interval 0.1"
    script.write_text(
        # As from an interactive shell, which a program that is stopped falls back to.
        f"set -m; tmux wait-for begin; stty -a > before; {top}; echo $? > code; stty -a > after; tmux wait-for -S ended; cat\n"
    )
    one = Terminal(tmp_path, script)
    environment = [f"-e{name}={project.env[name]}" for name in ("HOME", "PYTHONPATH")]
    one.tmux("new-session", "-d", "-x80", "-y20", f"-c{project.path}", *environment, f"bash {script}")
    try:
        with one.shown() as until:
            one.until = until
            one.tmux("wait-for", "-S", "begin")
            yield one
    finally:
        one.tmux("kill-server")


def ended(project, terminal):
    """How it ended, once it has; the terminal has to be as it was before."""
    terminal.tmux("wait-for", "ended")
    assert (project.path / "after").read_text() == (project.path / "before").read_text()
    assert terminal.tmux("display-message", "-p", "#{alternate_on} #{cursor_flag}") == "0 1\n"
    assert "calls/s" not in terminal.screen
    return int((project.path / "code").read_text())


def test_it_updates_live_fits_the_terminal_and_ends_with_q(project, agent, terminal):
    screen = terminal.until("one ", "ready", "q quits")
    assert "containment" in screen.splitlines()[0]
    rows = {row.split()[0]: row.split() for row in screen.splitlines() if row.strip()}
    assert list(rows)[1:] == ["hook", "one", "two"]
    assert "…" not in screen

    agent.ask(5)
    terminal.until(" failed -")
    terminal.keys("x")  # is nothing, and is not seen
    terminal.keys("q")

    assert ended(project, terminal) == 0


@pytest.mark.parametrize(("how", "code"), [("C-c", 130), ("TERM", 143)])
def test_an_interrupt_restores_the_terminal(project, agent, terminal, how, code):
    terminal.until("calls/s", "ready")

    if how == "C-c":
        terminal.keys("C-c")
    else:
        (shell,) = terminal.tmux("list-panes", "-F", "#{pane_pid}").split()
        subprocess.run(["pkill", "-TERM", "-P", shell], check=True)

    assert ended(project, terminal) == code


def test_it_ends_when_the_host_ends(project, agent, terminal):
    terminal.until("calls/s", "ready")
    agent.end()

    assert ended(project, terminal) == 1
    assert "Error: the " in terminal.screen
