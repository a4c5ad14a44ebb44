"""How the program ends, and what it writes to what: signals, closed pipes, terminals."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys

import pytest
from program import PATIENCE, in_terminal, read_line, reading

ASK = ("call", "before_tool", "--config", "picohook.toml", "--params", '{"tool": "x"}')

# Says what happens to it in a pipe whose end proves its own, and ends only when it is told to twice.
SILENT = """
import atexit, signal
pipe = open("pipe", "w", buffering=1)
def before_tool(params):
    print("asked", file=pipe)
def terminated(*_):
    print("terminated", file=pipe)
    os._exit(0)
signal.signal(signal.SIGTERM, terminated)
@atexit.register
def input_ended():
    print("end of input", file=pipe)
    signal.pause()
"""


@pytest.mark.parametrize(
    ("number", "code"),
    [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)],
    ids=str,
)
def test_a_signal_stops_the_hooks_and_then_the_program(project, number, code):
    project.hook("silent", SILENT, grace=0.1)
    fifo = project.fifo("pipe")

    with project.start(*ASK) as process, reading(fifo) as pipe:
        assert read_line(pipe) == "asked\n"
        process.send_signal(number)
        assert read_line(pipe) == "end of input\n"
        assert read_line(pipe) == "terminated\n"
        assert read_line(pipe) == ""
        assert process.communicate(timeout=30) == ("", "")
        assert process.returncode == code


def test_a_script_that_waits_for_its_next_line_can_be_interrupted(project):
    project.hook("silent", SILENT, grace=0.1)
    fifo = project.fifo("pipe")

    with (
        project.start("run", "-", "--config", "picohook.toml", stdin=subprocess.PIPE) as process,
        reading(fifo) as pipe,
    ):
        process.stdin.write('{"event": "turn_start"}\n')
        process.stdin.flush()
        assert read_line(process.stdout) == "line 1: turn_start\n"
        process.send_signal(signal.SIGINT)
        assert read_line(pipe) == "end of input\n"
        assert process.wait(timeout=30) == 130
        assert process.stderr.read() == ""


def test_an_ignored_signal_stays_ignored(project):
    project.hook("caller", "os.kill(os.getppid(), 1)")

    with project.start(*ASK, preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN)) as process:
        assert process.wait(timeout=30) == 0


def test_a_reader_that_goes_away_ends_it_quietly_and_its_hooks(project):
    project.hook("silent", SILENT, grace=0.1)
    fifo = project.fifo("pipe")
    (project.path / "script.jsonl").write_text('{"event": "turn_start"}\n' * 4000)  # says more than a pipe holds

    done = project.shell(f"""
        picohook run script.jsonl --config picohook.toml --json | head -n 1 &
        cat {fifo}
        wait
    """)

    assert (done.out, done.err) == ('{"line": 1, "event": "turn_start"}\nend of input\nterminated\n', "")


def test_a_closed_or_full_stdout_shows_no_traceback(project):
    project.hook("gate", "")

    done = project.shell(
        """
        picohook list --config picohook.toml >&-; echo $?
        picohook list --config picohook.toml > /dev/full; echo $?
        picohook --help > /dev/full; echo $?
        picohook check --help > /dev/full; echo $?
        picohook --version > /dev/full; echo $?
        picohook --version >&-; echo $?
        picohook call 2>&-; echo $?
    """,
        starts=True,
    )

    assert done.out.split() == ["0", "1", "1", "1", "1", "1", "2"]
    assert done.err == "Error: standard output cannot be written: No space left on device\n" * 4


def test_help_for_a_reader_that_has_gone_is_not_an_error(project):
    ours, theirs = os.pipe()
    os.close(ours)

    with project.start("--help", stdout=theirs, starts=True) as process:
        os.close(theirs)
        assert process.communicate(timeout=30) == (None, "")
        assert process.returncode == 1


def test_without_its_dependencies_it_names_what_is_missing(project):
    for command in ([], ["--help"], ["check"], ["serve"]):
        done = subprocess.run(
            [sys.executable, "-S", "-m", "picohook", *command],
            env=project.env,
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.returncode, done.stdout) == (1, "")
        assert re.fullmatch("Error: the command line needs typer: .* -m pip install .*\n", done.stderr)


def test_a_working_directory_that_was_removed_is_named(project):
    done = project.shell("mkdir gone; cd gone; rmdir ../gone; picohook shim claude --project", starts=True)
    assert (done.code, done.out) == (1, "")
    assert done.err == "Error: the working directory was removed: change to another one\n"


def test_the_version_is_printed_without_importing_libraries(project):
    command = [sys.executable, "-X", "importtime", "-m", "picohook", "--version"]
    done = subprocess.run(command, env=project.env, capture_output=True, text=True, check=True)

    assert re.fullmatch(r"picohook \d+\.\d+\.\d+\n", done.stdout)
    imported = {line.rpartition("|")[2].strip().partition(".")[0] for line in done.stderr.splitlines()}
    assert "picohook" in imported
    assert not imported & {"typer", "rich", "pydantic", "anyio", "asyncio"}


def test_help_names_every_command_and_no_command_is_wrong_usage(project):
    helped, bare, unknown = project("--help"), project(), project("chek")

    assert (helped.code, helped.err) == (0, "")
    for command in ("check", "list", "call", "doctor", "new", "run", "schema", "top", "trust"):
        assert f"\n  {command} " in helped.out
    assert bare.code == 2
    assert unknown.code == 2
    assert "Did you mean" in unknown.err
    assert "'check'" in unknown.err


def test_a_terminal_gets_colour_unless_it_is_not_wanted(project):
    project.hook("gate", "")
    listing = ("list", "--config", "picohook.toml")

    coloured = in_terminal(project, *listing)
    assert "\x1b[1;36mbefore_tool" in coloured
    for env in ({"NO_COLOR": "1"}, {"TERM": "dumb"}):
        plain = in_terminal(project, *listing, **env)
        assert "before_tool" in plain
        assert "\x1b" not in plain
    assert "\x1b" not in in_terminal(project, *listing, "--json")


def test_a_pipe_gets_no_colour_and_as_much_width_as_it_needs(project):
    project.hook("gate", "", provides=["a-tool-with-a-long-name"] * 20)

    done = project("list", "--config", "picohook.toml", env={"FORCE_COLOR": "1", "COLUMNS": "40"})

    assert "\x1b" not in done.out
    assert "a-tool-with-a-long-name " * 19 in done.out
    assert not any(line.endswith(" ") for line in done.out.splitlines())


def test_a_character_that_the_encoding_lacks_is_written_out(project):
    project.hook("gate", "def before_tool(params): return {'call': {'arguments': {'a': 'ö'}}}")

    done = project(*ASK, env={"PYTHONIOENCODING": "ascii"})

    assert done.code == 0
    assert 'arguments.a: added "\\xf6"' in done.out


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupted_conformance_run_does_not_wait_for_hooks(project, number, code):
    (project.path / "mute.py").write_text(
        "import json, signal, sys\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "kept = open('held', 'w')\n"
        "for line in sys.stdin:\n"
        "    asked = json.loads(line)\n"
        "    if asked.get('method') == 'hook.hello':\n"
        "        print(json.dumps({'jsonrpc': '2.0', 'id': asked['id'], 'result': {}}), flush=True)\n"
        "    else:\n"
        "        with open('asked', 'w') as told:\n"
        "            print('here', file=told)\n"
        "        signal.pause()\n"
    )
    with reading(project.fifo("held")) as held, reading(project.fifo("asked")) as asked:
        command = ("conformance", "--timeout", "600", "--", sys.executable, "mute.py")
        with project.start(*command) as process:
            assert read_line(asked) == "here\n"
            process.send_signal(number)
            assert process.wait(PATIENCE) == code
        assert held.read() == ""


@pytest.fixture(autouse=True)
def _hooks_are_killed_as_they_are(project):
    project.python = sys.executable
