"""The mistakes of the first day, as a table: what is done, and what the message has to say. Place, cause and way out.

Rows of `FILES` are read in this process. Rows of `SHELLS` and `PYTHONS` are hooks: all rows of one table run in one host.
"""

from __future__ import annotations

import shlex
import sys
from typing import NamedTuple

import preloaded
import pytest

from picohook import FunctionHook, HookSpec, Host, PicohookError, RestartPolicy, Timeouts, ToolCall
from picohook.config import load
from picohook.config.checks import validate
from picohook.config.problems import Problems
from picohook.errors import ConfigError
from picohook.sdk import HookApp
from picohook.transport import silence
from picohook.wire.extras import how_to_install

A = '[hooks.a]\ncommand = ["sh"]\nstages = ["before_tool"]\n'
NAMED = "[hooks.NAME]"

# A configuration: the file's name, its text, and what is said, which always begins with the file and the place in it.
FILES = {
    # Of the syntax: the parser's words, and the way out.
    "YAML with tabs": ("a.yaml", "hooks:\n\ta: {}\n", "line 2, column 1: ", "'\\t'", "indent with spaces"),
    "YAML out of line": ("a.yaml", "hooks:\n  a:\n   run: x\n    dir: y\n", "line 4", "the same column"),
    "YAML with a colon in a text": ("a.yaml", "hooks:\n  a:\n    run: echo a: b\n", "line 3", "needs quotes"),
    "a comment in JSON": ("a.json", '{\n  // mine\n  "hooks": {}}', "line 2, column 3", "no comments", ".jsonc"),
    "a last comma in JSON": ("a.json", '{"hooks": {"a": {},}}', "line 1, column 20", "leave out the last comma"),
    "a last comma in a list": ("a.json", '{"hooks": {"a": {"stages": ["x",]}}}', "line 1", "leave out the last comma"),
    "single quotes in JSON": ("a.json", "{'hooks': {}}", "line 1, column 2", 'put text in "..."'),
    "Python's True in JSON": ("a.json", '{"hooks": True}', "line 1, column 11", "true or false, in small letters"),
    "a table twice": ("a.toml", A + A, "line 4", "Cannot declare", "another name"),
    "a key twice": ("a.toml", f'{A}command = ["x"]\n', "line 4", "Cannot overwrite", "keep one"),
    "an unquoted value": ("a.toml", f"{A}on_failure = deny\n", "line 4, column 14", "Invalid value", 'quotes: "deny"'),
    "Python's True in TOML": ("a.toml", f"{A}required = True\n", "line 4, column 12", "in small letters"),
    "a colon in TOML": ("a.toml", "[hooks.a]\nrun: 'x'\n", "line 2", "Expected '='", "write KEY = VALUE"),
    "a quote that is missing": ("a.toml", "[hooks.a]\nrun = 'x\ndir = 'y'\n", "line 2", "a quote is missing"),
    "quotes of a word processor": ("a.toml", "[hooks.a]\nrun = “x”\n", "line 2, column 7", "straight quotes"),
    "a path with backslashes": ("a.toml", '[hooks.a]\nrun = "C:\\Users\\x"\n', "line 2", "put the text in '...'"),
    # Of tables and keys.
    "[[hooks]]": ("a.toml", '[[hooks]]\nname = "a"\n', "hooks: must be a table", "not a list", NAMED),
    "a hook without its name": ("a.toml", '[hooks]\ncommand = ["sh"]\n', "hooks.command: must be a table", NAMED),
    "keys of a hook at the top": ("a.toml", 'command = ["sh"]\n[hooks]\n', "command: unknown key", NAMED),
    "[hook.a]": ("a.toml", '[hook.a]\ncommand = ["sh"]\n', "hook: unknown key", 'did you mean "hooks"?'),
    "one text as command": ("a.toml", '[hooks.a]\ncommand = "python3 a.py"\n', "a.command: ", '["python3", "a.py"]'),
    "an event as a stage": (
        "a.toml",
        '[hooks.a]\ncommand = ["sh"]\nstages = ["turn_start"]\n',
        'a.stages[0]: "turn_start" is not a stage',
        "name it in observe",
    ),
    "a stage as an event": (
        "a.toml",
        '[hooks.a]\ncommand = ["sh"]\nobserve = ["before_tool"]\n',
        'a.observe[0]: "before_tool" is not an event kind',
        "name it in stages",
    ),
    "a stage with a hyphen": (
        "a.toml",
        '[hooks.a]\ncommand = ["sh"]\nstages = ["before-tool"]\n',
        '"before-tool" is not a stage',
        'did you mean "before_tool"?',
    ),
    "milliseconds": ("a.toml", f"{A}timeout_ms = 500\n", "hooks.a.timeout_ms: unknown key", 'did you mean "timeout"?'),
    "an unknown suffix": ("a.conf", A, '".conf" is not a known suffix', "known: .toml, .yaml"),
    "nothing": ("a.toml", "", "is empty", "a hook is a table [hooks.NAME]"),
}


@pytest.mark.parametrize("mistake", FILES)
def test_a_mistake_in_a_file_is_told_with_its_place_and_the_way_out(mistake, tmp_path):
    name, text, *told = FILES[mistake]
    (tmp_path / name).write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError) as raised:
        load(tmp_path / name)
    said = str(raised.value)
    assert said.startswith(f"{tmp_path / name}: ")
    assert [words for words in told if words not in said] == [], said


def test_a_misspelt_file_is_told_with_the_one_that_is_there(tmp_path):
    (tmp_path / "picohook.toml").write_text(A)
    with pytest.raises(ConfigError, match=r"picohok\.toml: there is no such file \(did you mean picohook\.toml\?\)"):
        Host.from_config(tmp_path / "picohok.toml")


def test_the_name_that_was_meant_is_escaped(tmp_path):
    (tmp_path / "picohook\x1b.toml").write_text(A)
    with pytest.raises(ConfigError, match=r"did you mean picohook\\+x1b\.toml\?"):
        Host.from_config(tmp_path / "picohook.toml")


class Row(NamedTuple):
    """A hook and what its failure says."""

    does: str
    told: tuple[str, ...]
    settings: dict = {}  # noqa: RUF012 - never changed


HELLO = """read line; echo '{"jsonrpc":"2.0","id":1,"result":{}}'; read line; """
LATE = {"hello_timeout": 0.2}

# A hook that is a line of shell, which starts at once.
SHELLS = {
    "ends without a greeting": Row(
        "exit 0", ("exited with code 0 before it answered hook.hello", "in a loop", "foreground")
    ),
    "reads and never greets": Row(
        "while read line; do :; done",
        ("hook.hello was not answered in time", "it wrote nothing", "answer hook.hello"),
        LATE,
    ),
    "reads to the end": Row(
        """cat > /dev/null; echo '{"action":"continue"}'""",
        ("hook.hello was not answered in time", "read the input line by line", "run ="),
        LATE,
    ),
    "answers with another id": Row(
        HELLO + """echo '{"jsonrpc":"2.0","id":7,"result":{}}'; exec sleep 1000""",
        ("no answer within 1 s (timeout)", "the id 7", "send back the id of the request"),
        {"timeout": 1.0},
    ),
    "answers with a text as id": Row(
        HELLO + """echo '{"jsonrpc":"2.0","id":"2","result":{}}'; exec sleep 1000""",
        ("the id back as a string", "as the number"),
        {"timeout": 1.0},
    ),
    "prints text": Row(
        HELLO + "echo looking; exec sleep 1000",
        ("prints text to standard output", "print to standard error"),
        {"timeout": 1.0},
    ),
    "is slow": Row(f"{HELLO} exec sleep 1000", ("no answer within 0.2 s (timeout)",), {"timeout": 0.2}),
    "writes a long line": Row(
        f"{HELLO} echo {'x' * 400}; exec sleep 1000",
        ("longer than 200 bytes (max_line_bytes)",),
        {"max_line_bytes": 200},
    ),
    "closes its output": Row(f"{HELLO} exec sleep 1000 >&-", ("it closed its output", "keep standard output open")),
    "lacks a variable": Row(
        'echo "PICOHOOK_TEST_KEY: parameter not set" >&2; exit 2',
        ("it said: PICOHOOK_TEST_KEY", "is set here", 'inherit_env = ["PICOHOOK_TEST_KEY"]'),
    ),
    "lacks a module": Row(
        "echo \"ModuleNotFoundError: No module named 'requests'\" >&2; exit 1",
        ("No module named 'requests'", "install requests for its Python, which is /bin/sh"),
    ),
    "lacks the SDK": Row(
        "echo \"ModuleNotFoundError: No module named 'picohook'\" >&2; exit 1",
        ("install picohook for its Python, which is /bin/sh", f"name one that has it in the command: {sys.executable}"),
    ),
    "has a file named like the SDK": Row(
        "echo \"ModuleNotFoundError: No module named 'picohook.sdk'; 'picohook' is not a package\" >&2; exit 1",
        ("a file picohook.py hides the package: give it another name",),
    ),
    "has no handler": Row(
        HELLO + """echo '{"jsonrpc":"2.0","id":2,"error":{"code":-32601,"message":"no"}}'; exec sleep 1000""",
        ("error -32601: no", "no handler for before_tool", "`stages`"),
    ),
}

SDK = "from picohook.sdk import HookApp\napp = HookApp('h')\n"

# A hook in Python.
PYTHONS = {
    "exits in a handler": Row(
        f"{SDK}import sys\n@app.before_tool\ndef f(call): sys.exit(3)\napp.run()\n",
        ("exited with code 3", "handler of before_tool called exit()", "return a decision instead"),
    ),
    "does not run": Row(f"{SDK}@app.before_tool\ndef f(call): pass\n", ("before it answered hook.hello", "app.run()")),
    "returns a text": Row(
        f"{SDK}@app.before_tool\ndef f(call): return 'deny'\napp.run()\n",
        ("a handler returns a decision or None", "not str"),
    ),
    "reads a variable that is not inherited": Row(
        f"{SDK}import os\n@app.before_tool\ndef f(call): os.environ['PICOHOOK_TEST_KEY']\napp.run()\n",
        ("KeyError: 'PICOHOOK_TEST_KEY'", 'inherit_env = ["PICOHOOK_TEST_KEY"]'),
    ),
}


async def failures(specs, monkeypatch):
    """Why each of these hooks failed, when all were asked once, by one host."""
    monkeypatch.setenv("PICOHOOK_TEST_KEY", "secret")
    monkeypatch.setattr(silence, "LISTEN_AT_END", 60.0)
    timeouts = Timeouts(interceptor=60, hello=60, chain=600)
    async with Host(specs, timeouts=timeouts) as host:
        trail = (await host.before_tool(ToolCall(tool="bash"))).trail
    return {entry.hook: entry.error or "it did not fail" for entry in trail}


def check(said, rows):
    lacks = {name: [words for words in row.told if words not in said[name]] for name, row in rows.items()}
    assert {name: (words, said[name]) for name, words in lacks.items() if words} == {}
    assert not any("secret" in one for one in said.values())


ONCE = {"stages": ("before_tool",), "grace": 0.1, "restart": RestartPolicy(max_starts=1)}


@pytest.mark.anyio
async def test_a_mistake_of_a_hook_is_told_with_its_cause_and_the_way_out(monkeypatch):
    specs = [
        HookSpec(name=name, command=("/bin/sh", "-c", row.does), **ONCE, **row.settings) for name, row in SHELLS.items()
    ]
    check(await failures(specs, monkeypatch), SHELLS)


# A command of a shell, run for each question.
RUNS = {
    "lacks a variable": Row(
        "echo ${PICOHOOK_TEST_KEY?}", ("exited with code 2", 'inherit_env = ["PICOHOOK_TEST_KEY"]')
    ),
    "a command that is missing": Row("no-such-command", ("exited with code 127", "no-such-command: ")),
    "prints text": Row("echo looking", ("looking",)),
}


@pytest.mark.anyio
async def test_a_mistake_of_a_command_is_told_too(monkeypatch, tmp_path):
    (tmp_path / "hook.py").write_text(f"{SDK}@app.before_tool\ndef f(call): return call.deny()\napp.run()\n")
    rows = {
        "is a hook of the SDK": Row(
            shlex.join((preloaded.program("python"), f"{tmp_path}/hook.py")), ("exited with code 2", "command = [...]")
        ),
        **RUNS,
    }
    specs = [HookSpec(name=name, run=row.does, stages=("before_tool",)) for name, row in rows.items()]
    check(await failures(specs, monkeypatch), rows)


@pytest.mark.anyio
async def test_a_mistake_of_a_hook_in_python_is_told_too(monkeypatch, tmp_path):
    specs = []
    for name, row in PYTHONS.items():
        (tmp_path / f"{name}.py").write_text(row.does)
        specs.append(HookSpec(name=name, command=(preloaded.program("python"), f"{tmp_path}/{name}.py"), **ONCE))
    check(await failures(specs, monkeypatch), PYTHONS)


COMMANDS = {
    "a misspelt file": (("/bin/sh", "hok.sh"), ("hok.sh does not exist", "did you mean hook.sh?")),
    "a misspelt program": (("./hok.sh",), ("hok.sh does not exist", "did you mean hook.sh?")),
    "a misspelt command": (("pythno3",), ("the command 'pythno3' is not on the PATH", "did you mean python3?")),
    "a home directory": (("~/hook.sh",), ("does not exist", "for a shell", "run =")),
    "a variable": (("$HOME/hook.sh",), ("does not exist", "for a shell", "run =")),
    "a pipeline": (("jq . | grep x",), ("is not on the PATH", "one element an argument", "run =")),
    "a script that is not executable": (("./hook.sh",), ("hook.sh is not executable", "chmod +x")),
}


@pytest.mark.anyio
async def test_a_command_that_cannot_be_started_is_told_with_what_was_meant(monkeypatch, tmp_path):
    (tmp_path / "hook.sh").write_text("exit 0")
    specs = [HookSpec(name=name, command=command, dir=str(tmp_path), **ONCE) for name, (command, _) in COMMANDS.items()]
    check(await failures(specs, monkeypatch), {name: Row("", told) for name, (_, told) in COMMANDS.items()})


def handler_of(function, decorate=lambda app: app.before_tool):
    return lambda: decorate(HookApp("h"))(function)


async def entered(host):
    async with host:
        pass


def used_by_with():
    with Host():
        pass


async def entered_twice():
    async with Host() as host, host:
        pass


async def called(call):
    made = call()
    if hasattr(made, "__await__"):
        await made


async def used_after_close():
    async with Host() as host:
        pass
    await host.before_tool(ToolCall(tool="bash"))


# A program: what it calls, the error, and what that says.
CALLS = {
    "a file as hooks": (lambda: Host("picohook.toml"), "Host.from_config('picohook.toml')"),
    "a command as a hook": (
        lambda: Host(["python3 hook.py"]),
        "list of HookSpec and Hook objects, and 'python3 hook.py' is",
    ),
    "one hook and no list": (lambda: Host(HookSpec(name="a", command=("sh",))), "list of HookSpec and Hook objects"),
    "with for async with": (used_by_with, "a Host is entered by `async with`", "Host.blocking"),
    "not entered": (lambda: Host().before_tool(ToolCall(tool="x")), "is not running: use it inside `async with`"),
    "used after its end": (used_after_close, "the host is closed: use it inside its `async with`"),
    "entered twice": (entered_twice, "a host is entered once: make another one"),
    "the same name twice": (
        lambda: entered(Host([FunctionHook("a"), FunctionHook("a")])),
        "a hook named 'a' is mounted already",
    ),
    "a handler without an argument": (handler_of(lambda: None), "@app.before_tool: ", "called with one argument"),
    "a handler with two": (handler_of(lambda tool, arguments: None), "@app.before_tool: ", "called with one argument"),
    "an observer without an argument": (handler_of(lambda: None, lambda app: app.on_event), "@app.on_event: "),
    "a tool by position": (lambda: HookApp("h").before_tool("bash"), "settings have names", 'tool="bash"'),
    "a misspelt decorator": (lambda: HookApp("h").before_tol, "no attribute 'before_tol'"),
}


@pytest.mark.anyio
@pytest.mark.parametrize("mistake", CALLS)
async def test_a_mistake_in_a_program_is_told_with_the_way_out(mistake):
    call, *told = CALLS[mistake]
    with pytest.raises((PicohookError, TypeError, AttributeError)) as raised:
        await called(call)
    assert [words for words in told if words not in str(raised.value)] == [], raised.value


def test_an_extra_is_installed_by_the_names_of_its_packages_and_not_of_picohook():
    said = how_to_install("nats")
    assert said.startswith(f"{sys.executable} -m pip install 'nats-py[nkeys]>=")
    assert "picohook" not in said.removeprefix(sys.executable)


def test_a_field_of_another_system_is_told_with_ours():
    problems = Problems("--params")
    validate(ToolCall, {"tool_name": "bash", "tool_input": {}}, problems)
    assert [str(one) for one in problems.found] == [
        "--params: tool: is missing",
        '--params: tool_name: unknown key (did you mean "tool"?)',
        '--params: tool_input: unknown key (did you mean "arguments"?)',
    ]
