"""The hooks that are worth installing as they are."""

from __future__ import annotations

import importlib.util
import json
import re
import shutil
import subprocess
import sys

import preloaded
import pytest

from picohook import HookSpec, Meta, ToolCall
from picohook.testing import RecordingHost

from .conftest import EXAMPLES

ODD = '"q" \\ \n \u2028 caf\u00e9 \U0001f600 \0'


@pytest.fixture(scope="module")
def anyio_backend():
    """One event loop: these hooks are processes, and cannot tell which one their host has."""
    return "asyncio", {"use_uvloop": False}


@pytest.fixture
def start(output):
    """A host with one of the scripts as its hook."""

    def host(script, *arguments, stages=("before_tool",), **settings):
        command = (preloaded.program("python"), str(EXAMPLES / script), *map(str, arguments))
        return RecordingHost([HookSpec(name="hook", command=command, stages=stages, **settings)], logger=output)

    return host


def run(script, *arguments, **settings):
    command = [preloaded.program("python"), str(EXAMPLES / script), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, check=False, text=True, timeout=30, input="", **settings)


def module(name):
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    loaded = importlib.util.module_from_spec(spec)
    sys.modules[name] = loaded
    spec.loader.exec_module(loaded)
    del sys.modules[name]
    return loaded


class Clock:
    def __init__(self):
        self.now = 1000.0

    def __call__(self):
        return self.now


def readme(title):
    """A file that the README shows."""
    shown = (EXAMPLES / "README.md").read_text()
    return re.search(rf'^```toml title="{title}"\n(.*?)^```', shown, re.MULTILINE | re.DOTALL)[1]


@pytest.mark.anyio
async def test_the_readmes_configuration_of_them_all_is_one(tmp_path, output):
    for file in EXAMPLES.glob("*.py"):
        shutil.copy(file, tmp_path)
    (tmp_path / "policy.toml").write_text(readme("policy.toml"))
    config = tmp_path / "picohook.toml"
    config.write_text(readme("picohook.toml").replace('"--open"', '"--port", "0"'))
    call = ToolCall(tool="read_file", arguments={"path": "notes"})
    async with RecordingHost.from_config(config, logger=output) as host:
        states = {hook.name: hook.state for hook in host.status().hooks}
        outcome = await host.before_tool(call)
        denied = await host.before_tool(ToolCall(tool="read_file", arguments={"path": ".env"}))
    assert states == dict.fromkeys(("redactor", "guard", "rate", "audit", "cache", "person"), "ready")
    assert (outcome.action, [entry.error for entry in outcome.trail if entry.error]) == ("continue", [])
    assert denied.reason == ".env is denied by .env"
    verified = run("audit_log.py", "--verify", tmp_path / "audit.jsonl")
    assert verified.returncode == 0, verified.stderr


# redactor.py


SECRETS = {
    "the key is sk-proj-abcDEF_123456.": "the key is [redacted].",
    "AKIAIOSFODNN7EXAMPLE": "[redacted]",
    f"ghp_{'a1' * 18} and github_pat_{'b2' * 15}": "[redacted] and [redacted]",
    f"glpat-{'c3' * 10}": "[redacted]",
    "xoxb-123456789012-abcdef": "[redacted]",
    f"AIza{'d' * 35}": "[redacted]",
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTYifQ.c2ln-x_y": "[redacted]",
    "a\n-----BEGIN RSA PRIVATE KEY-----\nMII\n-----END RSA PRIVATE KEY-----\nb": "a\n[redacted]\nb",
    "-----BEGIN PRIVATE KEY-----\nMII and then it was cut": "[redacted]",
    "Authorization: Bearer abcdefghijklmnop==": "Authorization: Bearer [redacted]",
    "postgres://me:hunter2@db:5432/x": "postgres://me:[redacted]@db:5432/x",
    "password=a b, PASSWORD: c": "password=[redacted] b, PASSWORD: [redacted]",
    '{"api_key": "abc", "n": 1}': '{"api_key": "[redacted]", "n": 1}',
}


@pytest.mark.anyio
@pytest.mark.parametrize("told", SECRETS)
async def test_the_redactor_knows_secrets_of_many_kinds(start, told):
    async with start("redactor.py", "--flat", stages=("after_tool",)) as host:
        result = await host.run_tool(ToolCall(tool="read"), lambda _: told)
    assert result.for_llm == SECRETS[told]


@pytest.mark.anyio
@pytest.mark.parametrize("told", ["task-force-of-the-year", "the password is long", "https://example.org:80/a@b", ODD])
async def test_the_redactor_leaves_text_that_only_looks_like_a_secret(start, told):
    async with start("redactor.py", stages=("after_tool",)) as host:
        result = await host.run_tool(ToolCall(tool="read"), lambda _: told)
    assert (result.for_llm, host.outcomes[-1].action) == (told, "continue")


@pytest.mark.anyio
async def test_the_redactor_takes_more_patterns(start, tmp_path):
    patterns = tmp_path / "patterns"
    patterns.write_text("# ours\nACME-\\d{4}\n(?P<keep>badge )\\d+\n")
    async with start("redactor.py", "--flat", "--patterns", patterns, stages=("after_tool",)) as host:
        result = await host.run_tool(ToolCall(tool="read"), lambda _: "ACME-1234, badge 99, password=x")
    assert result.for_llm == "[redacted], badge [redacted], password=[redacted]"


# path_guard.py


@pytest.fixture
def policy(tmp_path):
    (tmp_path / "work" / "src").mkdir(parents=True)
    (tmp_path / "work" / "link").symlink_to(tmp_path / "work" / ".env")
    file = tmp_path / "policy.toml"
    file.write_text("""
        root = "work"
        deny = [".env", ".git", "*.pem", "src/private/*"]
        commands = ["ls", "cat", "git status"]
        shells = ["terminal"]
        path_arguments = ["path", "target"]
        """)
    return file


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ({"path": "src/a.py"}, ""),
        ({"path": "src/environment"}, ""),
        ({"path": ".env"}, ".env is denied by .env"),
        ({"path": "src/../.git/config"}, "src/../.git/config is denied by .git"),
        ({"target": "src/deep/key.pem"}, "src/deep/key.pem is denied by *.pem"),
        ({"path": "src/private/a/b"}, "src/private/a/b is denied by src/private/*"),
        ({"path": "link"}, "link is denied by .env"),
        ({"path": "../policy.toml"}, "../policy.toml is outside the workspace"),
        ({"file": "/etc/passwd"}, ""),
    ],
)
async def test_a_policy_says_which_paths_are_denied(start, policy, arguments, reason):
    async with start("path_guard.py", policy) as host:
        outcome = await host.before_tool(ToolCall(tool="edit", arguments=arguments))
    assert (outcome.action, outcome.reason) == ("deny_tool" if reason else "continue", reason)


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("command", "reason"),
    [
        ("git status --short", ""),
        ("cat src/a.py -n", ""),
        ("git push", "git is not on the list of harmless commands"),
        ("pwd", "pwd is not on the list of harmless commands"),
        ("cat .env", ".env is denied by .env"),
        ("cat /etc/passwd", "/etc/passwd is outside the workspace"),
        ("cat ../x", "../x is outside the workspace"),
        ("ls --file=/etc/passwd", "/etc/passwd is outside the workspace"),
        ("ls -I/etc", "/etc is outside the workspace"),
        ("ls --from=.git", ".git is denied by .git"),
        ("cat .e*", "only a single plain command can be approved"),
        ("cat $HOME", "only a single plain command can be approved"),
        ("cat src/a > src/b", "only a single plain command can be approved"),
    ],
)
async def test_a_policy_says_which_commands_are_approved(start, policy, command, reason):
    async with start("path_guard.py", policy, stages=("approve_tool",)) as host:
        outcome = await host.approve_tool(ToolCall(tool="terminal", arguments={"command": command}))
        other = await host.approve_tool(ToolCall(tool="bash", arguments={"command": command}))
    assert (outcome.approved, outcome.reason) == (not reason, reason)
    assert other.approved is True


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("denied = []", "there is no 'denied' in a policy"),
        ("deny = '.env'", "deny is a list of strings"),
        ("deny = [1]", "deny is a list of strings"),
        ("deny =", "Invalid value"),
    ],
)
def test_a_policy_that_cannot_be_kept_is_not_started_with(tmp_path, text, said):
    (tmp_path / "policy.toml").write_text(text)
    process = run("path_guard.py", tmp_path / "policy.toml")
    assert process.returncode != 0
    assert said in process.stderr


# rate_limit.py


@pytest.mark.anyio
async def test_the_rate_limit_denies_calls_that_come_too_often_for_each_tool_and_session(start):
    async with start("rate_limit.py", "2/100000", "bash=1/100000", "never=0/1") as host:

        async def call(tool, session="a"):
            return (await host.before_tool(ToolCall(tool=tool, meta=Meta(session_key=session)))).action

        assert [await call("read") for _ in range(3)] == ["continue", "continue", "deny_tool"]
        assert [await call("bash") for _ in range(2)] == ["continue", "deny_tool"]
        assert [await call("bash", "b") for _ in range(2)] == ["continue", "deny_tool"]
        assert [await call("never")] == ["deny_tool"]
    reasons = [outcome.reason for outcome in host.outcomes if outcome.action == "deny_tool"]
    assert all("may be called" in reason for reason in reasons)


def test_the_rate_limit_forgets_calls_as_time_goes_by():
    rate_limit = module("rate_limit")
    clock = Clock()
    limits = rate_limit.Limits(rate_limit.Rate(2, 10), {}, clock)
    assert limits.reason_to_deny("", "t") is None
    clock.now += 4
    assert limits.reason_to_deny("", "t") is None
    assert limits.reason_to_deny("", "t") == "t may be called 2 times in 10 s: wait 6 s"
    clock.now += 6
    assert limits.reason_to_deny("", "t") is None
    assert limits.reason_to_deny("", "t") == "t may be called 2 times in 10 s: wait 4 s"


@pytest.mark.parametrize("rate", ["", "5", "5/", "x/1", "1/0", "-1/1", "1/inf", "1/nan", "t=1"])
def test_an_invalid_rate_is_named(rate):
    process = run("rate_limit.py", rate)
    assert process.returncode == 1
    assert "is not a" in process.stderr


# audit_log.py


@pytest.fixture
async def audited(start, tmp_path, output):
    """A log of a few calls and events, and its head."""
    file = tmp_path / "audit.jsonl"
    async with start("audit_log.py", file, observe=("tool_exec_start",)) as host:
        for command in ("ls", ODD, "rm -rf /"):
            await host.run_tool(ToolCall(tool="bash", arguments={"command": command}), lambda _: "done")
    return file, output.stderr["hook"][-1].split()[-1]


def tampered(file, change):
    lines = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(b"".join(change(lines)))
    return file


@pytest.mark.anyio
async def test_the_audit_log_holds_questions_and_events(audited):
    file, head = audited
    records = [json.loads(line) for line in file.read_text().split("\n")[:-1]]
    assert [record["number"] for record in records] == list(range(1, 8))
    assert sorted(record["method"] for record in records) == sorted(
        ["hook.hello", *["hook.before_tool"] * 3, *["hook.event"] * 3]
    )
    asked = [record["params"] for record in records if record["method"] == "hook.before_tool"]
    assert [call["arguments"]["command"] for call in asked] == ["ls", ODD, "rm -rf /"]
    process = run("audit_log.py", "--verify", file, "--head", head)
    assert (process.returncode, process.stdout) == (0, f"7 records, head {head}\n")


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda lines: [lines[0].replace(b"hook.hello", b"hook.hullo"), *lines[1:]], "record 1 was changed"),
        (lambda lines: [*lines[:2], *lines[3:]], "record 3 does not follow the one before it"),
        (lambda lines: [lines[1], lines[0], *lines[2:]], "record 1 does not follow the one before it"),
        (lambda lines: [*lines, lines[-1]], "record 8 does not follow the one before it"),
        (lambda lines: [*lines[:3], b"{}\n", *lines[3:]], "record 4 cannot be read"),
        (lambda lines: [*lines[:-1], lines[-1][:-9]], "the record after record 6 is incomplete"),
        (lambda lines: lines[:-1], "the last record, number 6, does not have this head"),
    ],
    ids=["changed", "left out", "swapped", "repeated", "put in", "cut", "end left out"],
)
async def test_the_audit_log_shows_changes_to_it(audited, change, said):
    file, head = audited
    process = run("audit_log.py", "--verify", tampered(file, change), "--head", head)
    assert process.returncode == 1
    assert process.stderr == f"{file}: {said}\n"


@pytest.mark.anyio
async def test_the_audit_log_is_continued_and_a_cut_last_record_is_noted(audited, start):
    file, _ = audited
    tampered(file, lambda lines: [*lines[:-1], lines[-1][:-9]])
    async with start("audit_log.py", file) as host:
        assert (await host.before_tool(ToolCall(tool="bash"))).action == "continue"
    records = [json.loads(line) for line in file.read_text().split("\n")[:-1]]
    assert [record["method"] for record in records[6:]] == ["audit.cut", "hook.hello", "hook.before_tool"]
    assert run("audit_log.py", "--verify", file).returncode == 0


@pytest.mark.anyio
async def test_the_audit_log_does_not_continue_a_broken_chain(audited):
    file, _ = audited
    tampered(file, lambda lines: lines[1:])
    assert run("audit_log.py", file).returncode == 1


@pytest.mark.anyio
async def test_a_keyed_audit_log_holds_only_with_the_key(start, tmp_path, monkeypatch):
    file = tmp_path / "audit.jsonl"
    async with start("audit_log.py", file, env={"AUDIT_KEY": "k"}) as host:
        await host.before_tool(ToolCall(tool="bash"))
    assert run("audit_log.py", "--verify", file).stderr == f"{file}: record 1 was changed\n"
    monkeypatch.setenv("AUDIT_KEY", "k")
    assert run("audit_log.py", "--verify", file).returncode == 0


@pytest.mark.anyio
async def test_an_audit_log_has_one_writer(start, tmp_path):
    async with start("audit_log.py", tmp_path / "audit.jsonl"):
        process = run("audit_log.py", tmp_path / "audit.jsonl")
    assert process.returncode == 1
    assert "another process writes this log" in process.stderr


# result_cache.py


class Reader:
    """A tool that returns something else each time."""

    def __init__(self):
        self.calls = 0

    def __call__(self, call):
        self.calls += 1
        return {"for_llm": f"{self.calls} {call.arguments}", "for_user": ODD, "media": [{"n": 12345678901234567890}]}


@pytest.mark.anyio
async def test_the_cache_answers_the_same_call_of_the_same_session_again(start):
    read = Reader()
    async with start("result_cache.py", "read", "search", stages=("before_tool", "after_tool")) as host:

        async def call(tool="read", session="s", **arguments):
            return await host.run_tool(ToolCall(tool=tool, arguments=arguments, meta=Meta(session_key=session)), read)

        first = await call(path=ODD, n=1)
        again = await call(n=1, path=ODD)
        assert (again.for_llm, again.for_user, again.media) == (first.for_llm, first.for_user, first.media)
        assert read.calls == 1
        others = [await call(path="b"), await call(session="t", path=ODD, n=1), await call("search", path=ODD, n=1)]
    assert [result.for_llm.split()[0] for result in others] == ["2", "3", "4"]


@pytest.mark.anyio
async def test_the_cache_is_emptied_by_any_other_tool_and_keeps_no_error(start):
    read = Reader()
    call = ToolCall(tool="read", arguments={"path": "a"})
    async with start("result_cache.py", "read", stages=("before_tool", "after_tool")) as host:
        await host.run_tool(call, lambda _: {"for_llm": "no", "is_error": True})
        await host.run_tool(call, read)
        await host.run_tool(ToolCall(tool="write"), lambda _: "done")
        await host.run_tool(call, read)
        await host.run_tool(call, read)
    assert read.calls == 2


@pytest.fixture
def cache():
    result_cache = module("result_cache")
    return result_cache.Cache({"read"}, 10, 2, Clock())


def read(path, **more):
    return {"tool": "read", "arguments": {"path": path}, **more}


def fill(cache, path):
    cache.before_tool(read(path))
    cache.after_tool(read(path, result={"for_llm": path}))


def test_the_cache_forgets_old_entries_and_the_oldest_when_it_is_full(cache):
    for path in "abc":
        fill(cache, path)
    assert [cache.before_tool(read(path))["action"] for path in "abc"] == ["continue", "respond", "respond"]
    cache.clock.now += 10
    assert cache.before_tool(read("c"))["action"] == "continue"


def test_the_cache_keeps_no_result_that_was_read_while_another_tool_ran(cache):
    cache.before_tool(read("a"))
    cache.before_tool({"tool": "write"})
    cache.after_tool(read("a", result={"for_llm": "old"}))
    cache.before_tool(read("b"))
    cache.after_tool({"tool": "write"})
    cache.after_tool(read("b", result={"for_llm": "old"}))
    assert [cache.before_tool(read(path))["action"] for path in "ab"] == ["continue", "continue"]
