"""The agents in hooks_examples/clients/: whatever they are written in, the same hook decides the same about their tools."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

import preloaded
import pytest
import toolchains

from .conftest import EXAMPLES

pytestmark = pytest.mark.timeout(toolchains.COMPILING + 60)

CLIENTS = EXAMPLES / "clients"
EXPECTED = [
    "password=[redacted]",
    "Tool execution denied by hook: rm -rf is not allowed",
    "Tool execution denied by approval hook: bash is not a read-only tool",
    "Tokyo: 21 °C, sunny",
]
LANGUAGES = {
    "python": ([preloaded.path_of("python"), str(CLIENTS / "agent.py")], "socket"),
    "node": (["node", str(CLIENTS / "agent.mjs")], "streams"),
    "go": (["go", "run", str(CLIENTS / "agent.go")], "socket"),
}


@pytest.fixture
def config(tmp_path):
    """The policy, and an observer that writes down what it is told."""
    observer = tmp_path / "observer.py"
    observer.write_text(
        "import json, sys\n"
        "with open('kinds', 'w') as kinds:\n"
        "    for line in sys.stdin:\n"
        "        asked = json.loads(line)\n"
        "        if 'id' in asked:\n"
        "            print(json.dumps({'jsonrpc': '2.0', 'id': asked['id'], 'result': {'ok': True}}), flush=True)\n"
        "        else:\n"
        "            print(asked['params']['Kind'], file=kinds, flush=True)\n"
    )
    hook = json.dumps([preloaded.program("python"), str(EXAMPLES / "python" / "stdlib_hook.py")])
    path = tmp_path / "picohook.toml"
    path.write_text(
        f"[hooks.policy]\ncommand = {hook}\nstages = ['before_tool', 'approve_tool', 'after_tool']\non_failure = 'deny'\n"
        f"[hooks.observer]\ncommand = [{json.dumps(preloaded.program('python'))}, 'observer.py']\nobserve = ['*']\n"
    )
    return path


@pytest.fixture
def kinds(tmp_path):
    """What the observer writes, which ends with the observer."""
    os.mkfifo(tmp_path / "kinds")
    descriptor = os.open(tmp_path / "kinds", os.O_RDONLY | os.O_NONBLOCK)
    os.set_blocking(descriptor, True)
    with open(descriptor) as file:
        yield file


@contextlib.contextmanager
def serving(config):
    """`picohook serve` at a socket."""
    path = config.with_name("hooks.sock")
    command = [preloaded.program("picohook"), "serve", "--config", str(config), "--socket", str(path)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr.readline() == f"Serving at {path}\n"
        yield path
        process.terminate()
        assert (process.communicate(timeout=60)[1], process.returncode) == ("", 0)


def need(program):
    if shutil.which(program) is None:
        pytest.skip(f"there is no {program}")


@pytest.mark.parametrize("language", LANGUAGES)
def test_an_agent_in_each_language_is_guarded_alike(language, config, kinds):
    command, over = LANGUAGES[language]
    need(command[0])
    with serving(config) if over == "socket" else contextlib.nullcontext(config) as place:
        done = subprocess.run(
            [*command, str(place)], capture_output=True, check=False, text=True, timeout=toolchains.COMPILING
        )
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout.splitlines() == EXPECTED
    seen = kinds.read().split()
    assert seen[:2] == ["session_start", "turn_start"]
    assert seen[-3:] == ["turn_end", "task_completed", "session_end"]
    calls = sorted(kind for kind in seen if kind.startswith("tool"))
    assert calls == ["tool_exec_end"] * 2 + ["tool_exec_skipped"] * 2 + ["tool_exec_start"] * 2


@pytest.fixture
def short_path():
    """A directory whose path leaves room for that of a socket."""
    with tempfile.TemporaryDirectory(prefix="picohook-test-") as path:
        yield Path(path)


@pytest.mark.parametrize("language", LANGUAGES)
def test_its_instructions_work_when_copied(language, short_path, monkeypatch):
    command, _ = LANGUAGES[language]
    need(command[0])
    examples = short_path / "hooks_examples"
    shutil.copytree(EXAMPLES, examples, ignore=shutil.ignore_patterns("node_modules"))
    head = re.split(
        r"^(?:import|from|package) ", (CLIENTS / os.path.basename(command[-1])).read_text(), flags=re.MULTILINE
    )[0]
    script = re.findall(r"^(?:// ?)?(?:\t| {4})(\S.*)$", head, re.MULTILINE)
    done = subprocess.run(
        ["bash", "-c", "\n".join(["trap 'kill $(jobs -p) 2> /dev/null; wait' EXIT", *script])],
        cwd=examples / "clients",
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
        text=True,
        timeout=toolchains.COMPILING,
    )
    said = done.stdout.splitlines()
    assert (done.returncode, said[0], said[-1]) == (0, "password=[redacted]", "Tokyo: 18 \u00b0C, windy"), done.stderr
