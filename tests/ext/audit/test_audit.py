"""The audit log: what is in it, what it shows of what was done to it, and what becomes of who needs it when it fails."""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import resource
import signal
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from uuid import UUID

import anyio
import preloaded
import pytest
from opentelemetry.sdk.trace import TracerProvider

from picohook import (
    AuditLog,
    ConfigError,
    Continue,
    Deny,
    FunctionHook,
    Host,
    LLMRequest,
    Meta,
    Modify,
    OpenTelemetry,
    PicohookError,
    RequiredAuditLog,
    Respond,
    ToolCall,
)
from picohook.config import load
from picohook.journal.ledger import NOTHING, Ledger, verify

pytestmark = pytest.mark.anyio

SECRET = "hunter2"
META = Meta(agent_id="main", session_key="s1", turn_id="t1")
CALL = ToolCall(tool="bash", tool_call_id="c1", arguments={"password": SECRET}, meta=META)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "audit.jsonl"


def records(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def chains(path):
    return [record for record in records(path) if record["method"].startswith("hook.")]


def checked(path, key=b"", **settings):
    with open(path, "rb") as file:
        return verify(file, key, **settings)


def asking(name, answer, stage="before_tool", **settings):
    return FunctionHook(name, {stage: answer}, **settings)


def fail(call):
    raise ValueError(f"not {SECRET}")


# What is in it.


async def test_a_chain_is_one_record_with_each_hooks_answer_and_the_outcome(path):
    hooks = [asking("a", fail), asking("b", lambda _: Deny(f"not {SECRET}")), asking("c", lambda _: None)]
    async with Host(hooks, listeners=[AuditLog(path)]) as host:
        await host.before_tool(CALL)
    (chain,) = chains(path)
    fields = (
        "number time method session agent turn tool call payload_digest action hook hooks duration_ms previous hash"
    )
    assert list(chain) == fields.split(" ")
    said = {name: chain[name] for name in ("method", "session", "agent", "turn", "tool", "call", "action", "hook")}
    assert list(said.values()) == ["hook.before_tool", "s1", "main", "t1", "bash", "c1", "deny_tool", "b"]
    assert [(hook["hook"], hook["action"], hook.get("failure")) for hook in chain["hooks"]] == [
        ("a", "continue", "error"),
        ("b", "deny_tool", None),
    ]
    assert all(hook["duration_ms"] >= 0 for hook in chain["hooks"])
    assert SECRET not in path.read_text()


async def test_the_severity_of_a_denial_is_in_it_also_without_texts(path):
    async with Host([asking("a", lambda _: Deny("no", severity="high"))], listeners=[AuditLog(path)]) as host:
        await host.before_tool(CALL)
    (chain,) = chains(path)
    assert chain["hooks"][0]["severity"] == "high"


async def test_an_approval_and_a_hook_that_is_not_asked_show(path):
    hooks = [
        asking("yes", lambda _: True, "approve_tool"),
        asking("other", lambda _: True, "approve_tool", filter={"tool": "ls"}),
    ]
    async with Host(hooks, listeners=[AuditLog(path)]) as host:
        await host.approve_tool(CALL)
    (chain,) = chains(path)
    assert (chain["method"], chain["approved"]) == ("hook.approve_tool", True)
    assert {hook["hook"]: hook.get("skipped", False) for hook in chain["hooks"]} == {"yes": False, "other": True}


async def test_it_has_the_life_of_the_host_its_events_and_its_hooks(path):
    hook = asking("a", lambda _: None)
    async with Host([hook], listeners=[AuditLog(path)]) as host:
        await host.run_tool(CALL, lambda call: SECRET)
        host.emit("llm_delta", {"ContentDeltaLen": 1})
        host.emit("turn_end", {"Status": "completed", "FinalContent": SECRET}, meta=META)
        await host.before_tool(CALL)
    shown = [(record["method"], record.get("kind", record.get("hook"))) for record in records(path)]
    assert shown == [
        ("host.start", None),
        ("host.hook", "a"),
        ("hook.before_tool", None),
        ("hook.approve_tool", None),
        ("hook.event", "tool_exec_start"),
        ("hook.after_tool", None),
        ("hook.event", "tool_exec_end"),
        ("hook.event", "turn_end"),
        ("hook.before_tool", None),
        ("host.stop", None),
    ]
    assert records(path)[1]["fingerprint"] == hook.spec.fingerprint
    ended, turn = records(path)[6], records(path)[7]
    assert (ended["tool"], ended["is_error"]) == ("bash", False)
    assert (turn["status"], turn["session"]) == ("completed", "s1")
    assert SECRET not in path.read_text()


async def test_a_hook_with_other_settings_is_noted_again(path):
    async with Host([asking("a", lambda _: None)], listeners=[AuditLog(path)]) as host:
        await host.before_tool(CALL)
        await host.unmount("a")
        await host.mount(asking("a", lambda _: None, priority=1))
        await host.before_tool(CALL)
    met = [record for record in records(path) if record["method"] == "host.hook"]
    assert [record["layer"] for record in met] == ["builtin", "session"]
    assert met[0]["fingerprint"] != met[1]["fingerprint"]


async def test_a_hook_with_equal_new_settings_is_noted_once(path):
    hook = asking("a", lambda _: None)
    async with Host([hook], listeners=[AuditLog(path)]) as host:
        await host.before_tool(CALL)
        hook.spec = hook.spec.model_copy()
        await host.before_tool(CALL)
    assert [record["method"] for record in records(path)].count("host.hook") == 1


async def test_an_abandoned_chain_is_a_record_too(path):
    asked = anyio.Event()

    async def never(call):
        asked.set()
        await anyio.sleep_forever()

    hooks = [asking("a", lambda _: None), asking("slow", never)]
    async with Host(hooks, listeners=[AuditLog(path)]) as host, anyio.create_task_group() as tasks:
        tasks.start_soon(host.before_tool, CALL)
        await asked.wait()
        tasks.cancel_scope.cancel()
    (chain,) = chains(path)
    assert chain["abandoned"] in {"CancelledError", "Cancelled"}
    assert [hook["hook"] for hook in chain["hooks"]] == ["a"]


async def test_with_payloads_it_has_all_of_them_and_the_texts(path):
    hooks = [asking("a", fail), asking("b", lambda _: Modify({"arguments": {"n": 2**70}}, reason="better"))]
    hooks.append(asking("c", lambda _: Respond({"content": "hi"}, reason="known"), "before_llm"))
    async with Host(hooks, listeners=[AuditLog(path, payloads=True)]) as host:
        await host.before_tool(CALL)
        await host.before_llm(LLMRequest(model="m"))
        host.emit("turn_start", {"UserMessage": "hello"})
    tool, llm, event = chains(path)
    assert tool["payload"]["arguments"] == {"password": SECRET}
    assert tool["changed"]["arguments"] == {"n": 2**70}
    failed, denied = (hook.get("error", hook.get("reason")) for hook in tool["hooks"])
    assert failed.startswith(f"ValueError: not {SECRET} (test_audit.py:")
    assert denied == "better"
    assert (llm["result"]["response"], llm["reason"]) == ({"content": "hi"}, "known")
    assert event["payload"] == {"UserMessage": "hello"}
    assert checked(path).ok


async def test_digests_compare_within_a_run_and_cannot_be_guessed(path):
    async with Host([], listeners=[AuditLog(path)]) as host:
        await host.before_tool(CALL)
        await host.approve_tool(CALL)
        await host.before_tool({"tool": "ls"})
    async with Host([], listeners=[AuditLog(path)]) as host:
        await host.before_tool(CALL)
    one, same, other, later = [chain["payload_digest"] for chain in chains(path)]
    assert one == same
    assert len({one, other, later}) == 3
    value = {key: value for key, value in CALL.wire().items() if key != "meta"}
    plain = json.dumps(value, sort_keys=True, separators=(",", ":")).encode()
    assert hashlib.sha256(plain).hexdigest() not in {one, later}
    assert hmac.digest(b"", plain, "sha256").hex() not in {one, later}


async def test_the_owner_of_the_key_can_check_a_digest(path):
    async with Host([], listeners=[AuditLog(path, key="k")]) as host:
        await host.before_tool(CALL)
    value = {key: value for key, value in CALL.wire().items() if key != "meta"}
    plain = json.dumps(value, sort_keys=True, separators=(",", ":")).encode()
    assert chains(path)[0]["payload_digest"] == hmac.digest(b"k", plain, "sha256").hex()


async def test_a_payload_with_a_json_form_has_a_digest_and_one_without_has_a_record(path):
    async with Host([], listeners=[AuditLog(path)]) as host:
        await host.before_tool({"tool": "a", "arguments": {"id": UUID(int=1)}})
        await host.before_tool({"tool": "a", "arguments": {"id": {1, 2}}})
    one, other = chains(path)
    assert len(one["payload_digest"]) == 64
    assert "payload_digest" not in other


async def test_a_change_in_place_by_a_function_does_not_change_the_logged_question(path):
    def change(call):
        call.arguments["password"] = "other"

    async with Host([asking("a", change)], listeners=[AuditLog(path, payloads=True)]) as host:
        await host.before_tool(CALL.model_copy(deep=True))
    assert chains(path)[0]["payload"]["arguments"] == {"password": SECRET}


async def test_an_approved_call_is_in_the_file_before_it_runs(path):
    def execute(call):
        assert chains(path)[-2]["approved"] is True
        assert chains(path)[-1]["kind"] == "tool_exec_start"
        return "done"

    async with Host([], listeners=[AuditLog(path)]) as host:
        assert (await host.run_tool(CALL, execute)).for_llm == "done"


async def test_names_of_a_models_own_are_cut(path):
    async with Host([], listeners=[AuditLog(path)]) as host:
        await host.before_tool({"tool": "x" * 10_000})
    assert len(chains(path)[0]["tool"]) == 256


def test_only_its_owner_can_read_it(path):
    Ledger(path).close()
    assert path.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("first", [True, False])
async def test_it_names_the_trace_in_any_order_of_listeners(path, first):
    traces = TracerProvider()
    listeners = [AuditLog(path), OpenTelemetry(tracer_provider=traces)]
    hooks = [asking("a", lambda call: Deny(call.meta.traceparent))]
    async with Host(hooks, listeners=listeners if first else listeners[::-1]) as host:
        outcome = await host.before_tool(CALL)
    (chain,) = chains(path)
    assert chain["traceparent"] == outcome.reason
    assert "changed_digest" not in chain
    assert outcome.payload is CALL


# What it shows of what was done to it.


@pytest.fixture
def written(path):
    """A log of two runs, seven records."""
    for tools in ((), ("a", "b", "c")):
        log = AuditLog(path)
        log.opened()
        for tool in tools:
            log.write("hook.before_tool", {"tool": tool, "hooks": [{"hook": "x", "duration_ms": 0.1}]})
        log.closed()
    return path


def rewritten(path, change):
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(change(lines)))
    return checked(path)


def forged(line):
    record = json.loads(line)
    del record["hash"]
    record["tool"] = "z"
    data = json.dumps(record, sort_keys=True, separators=(",", ":")).encode()
    return json.dumps({**record, "hash": hmac.digest(b"", data, "sha256").hex()}).encode() + b"\n"


def test_a_log_that_is_as_it_was_written_holds(written):
    verdict = checked(written)
    assert (verdict.ok, verdict.records, verdict.head, verdict.notes) == (True, 7, records(written)[-1]["hash"], ())


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda lines: [*lines[:3], lines[3].replace(b'"a"', b'"z"'), *lines[4:]], "record 4 was changed"),
        (lambda lines: [*lines[:3], lines[3].replace(b'"tool": "a"', b'"tool": "z", "tool": "a"'), *lines[4:]],
         "record 4 was changed"),
        (lambda lines: [*lines[:3], lines[3].replace(b": ", b":  ", 1), *lines[4:]], "record 4 was changed"),
        (lambda lines: [*lines[:3], forged(lines[3]), *lines[4:]], "record 5 does not follow the one before it"),
        (lambda lines: lines[1:], "record 1 is missing"),
        (lambda lines: [*lines[:3], *lines[5:]], "records 4 to 5 are missing"),
        (lambda lines: [*lines[:3], lines[4], lines[3], *lines[5:]], "record 4 is missing"),
        (lambda lines: [*lines[:4], lines[3], *lines[4:]], "record 5 does not follow the one before it"),
        (lambda lines: [*lines[:3], b"{}\n", *lines[3:]], "record 4 cannot be read"),
        (lambda lines: [*lines[:3], b"\n", *lines[3:]], "record 4 cannot be read"),
        (lambda lines: [*lines[:3], lines[3].replace(b"0.1", b"NaN"), *lines[4:]], "record 4 cannot be read"),
        (lambda lines: [*lines[:3], lines[3][:-67] + b'"\\ud800"}\n', *lines[4:]], "record 4 cannot be read"),
        (lambda lines: [*lines[:3], b"[" * 100_000 + b"\n", *lines[3:]], "record 4 cannot be read"),
        (lambda lines: [lines[0].replace(b"pid", b"PID"), *lines[1:]], "record 1 was changed (or it has another key)"),
        (lambda lines: [*lines[:-1], lines[-1][:-9]],
         "record 7 is incomplete: its writer was killed, or the end was cut off"),
    ],
    ids=["changed", "doubled key", "space", "forged", "first gone", "left out", "swapped", "repeated", "put in", "blank",
         "no number", "no text", "deep", "other key", "torn"],
)  # fmt: skip
def test_every_change_to_it_shows(written, change, said):
    assert rewritten(written, change).problem == said


def test_an_end_that_was_cut_off_shows_with_the_hash_of_the_last_record_and_as_a_note_without(written):
    head = checked(written).head
    verdict = rewritten(written, lambda lines: lines[:-1])
    assert verdict.ok
    assert verdict.notes == ("the last run has no end: its host still runs, or was killed, or its end was cut off",)
    assert checked(written, head=head).problem.startswith("no record has the hash that was kept")


def test_a_kept_hash_is_still_found_when_the_log_has_grown(written):
    assert checked(written, head=records(written)[3]["hash"]).ok


def test_a_log_written_anew_shows_with_a_key_or_else_only_with_a_kept_hash(written):
    head = checked(written).head
    lines = written.read_bytes().splitlines(keepends=True)
    written.unlink()
    log = Ledger(written)
    for line in lines:
        record = json.loads(line)
        log.add(record["method"], {})
    log.close()
    assert checked(written).ok
    assert not checked(written, head=head).ok
    assert not checked(written, b"k").ok


def test_every_single_byte_counts(written):
    data = b"".join(written.read_bytes().splitlines(keepends=True)[:2])
    for at in range(len(data)):
        written.write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
        assert not checked(written).ok, at


# Going on.


def test_another_run_continues_the_chain(written):
    assert [record["number"] for record in records(written)] == [*range(1, 8)]
    assert records(written)[2]["previous"] == records(written)[1]["hash"]
    assert records(written)[0]["previous"] == NOTHING


@pytest.mark.parametrize("left", [1, 5, 40, -1])
def test_a_record_that_was_never_whole_is_dropped_and_that_is_noted(written, left):
    data = written.read_bytes()
    *_, last = data.splitlines(keepends=True)
    torn = last[:left]
    written.write_bytes(data[: -len(last)] + torn)
    Ledger(written).close()
    assert records(written)[6]["method"] == "audit.cut"
    verdict = checked(written)
    assert verdict.ok
    assert verdict.notes[0] == f"record 7: {len(torn)} bytes of an incomplete record were cut off here"


def test_a_log_with_long_records_is_continued(path):
    for size in (1 << 16, 1 << 18, 3 << 20, 1):
        log = Ledger(path)
        log.add("x", {"long": "x" * size})
        log.close()
    assert checked(path).records == 4


@pytest.mark.parametrize("content", [b"hello", b"hello\n", b"\n", b"\n\n", b'{"number": 1}\n', b"{}"])
def test_a_file_that_is_not_a_log_is_left_alone(path, content):
    path.write_bytes(content)
    with pytest.raises(PicohookError, match=r"is not an audit log|cannot be continued"):
        Ledger(path)
    assert path.read_bytes() == content


def test_a_log_whose_last_record_has_no_number_is_not_continued(path):
    path.write_bytes(forged(b'{"number": "1", "hash": ""}'))
    with pytest.raises(PicohookError, match="its last record has no number"):
        Ledger(path)


def test_a_log_whose_last_record_was_changed_or_has_another_key_is_not_continued(written):
    with pytest.raises(PicohookError, match=r"its last record was changed .*key"):
        Ledger(written, b"k")


async def test_a_log_has_one_writer_and_a_second_one_is_refused_before_anything_runs(path):
    async with Host([], listeners=[AuditLog(path)]):
        with pytest.raises(PicohookError, match="is in use by another host: give each host a file of its own"):
            async with Host([], listeners=[AuditLog(path)]):
                raise AssertionError("it was entered")
    async with Host([], listeners=[AuditLog(path)]):
        pass
    assert checked(path).ok


async def test_a_log_belongs_to_one_host_at_a_time(path):
    log = AuditLog(path)
    async with Host([], listeners=[log]):
        with pytest.raises(PicohookError, match="in use by another host"):
            async with Host([], listeners=[log]):
                raise AssertionError("it was entered")
    async with Host([], listeners=[log]):
        pass
    assert (checked(path).records, log.head) == (4, checked(path).head)


@pytest.mark.parametrize("made", [os.mkdir, os.mkfifo])
def test_a_log_must_be_a_regular_file(path, made):
    made(path)
    with pytest.raises(PicohookError, match=r"is not a regular file|cannot be opened: Is a directory"):
        Ledger(path)


@pytest.mark.parametrize("linked", ["log", "logs"])
def test_X10_a_link_in_a_project_is_not_written_to(tmp_path, linked):
    project = tmp_path / "project"
    (project / "logs").mkdir(parents=True)
    (tmp_path / "logs").mkdir()
    (project / "logs" / "log").symlink_to(tmp_path / "logs" / "log")
    if linked == "logs":
        (project / "logs" / "log").unlink()
        (project / "logs").rmdir()
        (project / "logs").symlink_to(tmp_path / "logs")
    with pytest.raises(PicohookError, match=f"cannot be opened: {linked} is a link to"):
        Ledger(project / "logs" / "log", below=project)
    assert not [*(tmp_path / "logs").iterdir()]
    Ledger(project / "logs" / "log").close()  # a user's own link
    assert (tmp_path / "logs" / "log").exists()


def test_X10_a_log_that_is_moved_away_does_not_continue_behind_a_link(path):
    ledger = Ledger(path, below=path.parent)
    path.rename(path.with_name("moved"))
    path.symlink_to(path.with_name("other"))
    with pytest.raises(OSError, match="is a link to"):
        ledger.add("a", {})
    ledger.close()
    assert not path.with_name("other").exists()


def test_a_missing_directory_is_named(path):
    with pytest.raises(PicohookError, match="cannot be opened: No such file or directory"):
        Ledger(path / "deeper")


KILLED = """
import anyio, sys
from picohook import AuditLog, Host
async def main():
    async with Host([], listeners=[AuditLog(sys.argv[1])]) as host:
        for number in range(3):
            await host.before_tool({"tool": str(number)})
        print("there", flush=True)
        await anyio.sleep_forever()
anyio.run(main)
"""


def test_records_written_before_a_kill_are_kept(path):
    with subprocess.Popen([sys.executable, "-c", KILLED, str(path)], stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"there\n"
        process.send_signal(signal.SIGKILL)
    assert [chain["tool"] for chain in chains(path)] == ["0", "1", "2"]
    Ledger(path).close()
    log = AuditLog(path)
    log.opened()
    log.closed()
    assert checked(path).notes == ("record 5: the run before has no end: its host was killed, or its end was cut off",)


# When it cannot be written.


@contextmanager
def full(path):
    """The file cannot grow any more; another byte or so still fits."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size + 20, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)


async def test_lost_records_are_counted_and_warned_of_and_change_nothing(path, output):
    log = AuditLog(path)
    async with Host([asking("a", lambda _: Continue())], listeners=[log], logger=output) as host:
        await host.before_tool(CALL)
        with full(path):
            results = [await host.run_tool(CALL, lambda call: "done") for _ in range(2)]
        await host.before_tool(CALL)
    assert [result.for_llm for result in results] == ["done", "done"]
    assert log.failures == 10
    assert "cannot be written: File too large" in output.warnings[0][1]["why"]
    verdict = checked(path)
    assert verdict.ok
    assert verdict.notes == ("record 4: 10 records could not be written here",)


async def test_a_required_log_that_cannot_be_written_denies(path, output):
    ran = []
    hooks = [asking("yes", lambda _: True, "approve_tool")]
    async with Host(hooks, listeners=[RequiredAuditLog(path)], logger=output) as host:
        with full(path):
            outcome = await host.approve_tool(CALL)
            result = await host.run_tool(CALL, ran.append)
        again = await host.run_tool(CALL, lambda call: "done")
    assert (outcome.approved, outcome.action) == (False, "deny_tool")
    assert outcome.reason == "the audit log cannot be written"
    assert result.for_llm == "Tool execution denied by hook: the audit log cannot be written"
    assert "cannot be written: File too large" in output.warnings[0][1]["why"]
    assert ran == []
    assert again.for_llm == "done"
    assert checked(path).ok


@pytest.mark.parametrize(
    ("stage", "payload", "action"),
    [
        ("before_tool", CALL, "deny_tool"),
        ("before_llm", LLMRequest(), "abort_turn"),
        ("after_tool", {"tool": "a", "result": {}}, "abort_turn"),
        ("before_finish", {}, "abort_turn"),
    ],
)
async def test_a_required_log_ends_a_stage_like_a_hook_that_fails_and_denies(path, stage, payload, action):
    answers = {"before_tool": {"action": "respond", "result": {"for_llm": SECRET}}}
    hook = asking("a", lambda _: answers.get(stage), stage, provides=("bash",))
    async with Host([hook], listeners=[RequiredAuditLog(path)]) as host:
        with full(path):
            outcome = await getattr(host, stage)(payload)
    assert (outcome.action, outcome.result, outcome.approved) == (action, None, None)


@pytest.mark.parametrize("action", ["abort_turn", "hard_abort", "deny_tool"])
async def test_denials_and_aborts_of_hooks_stay_as_they_are(path, action):
    hook = asking("a", lambda _: {"action": action, "reason": "enough"})
    async with Host([hook], listeners=[RequiredAuditLog(path)]) as host:
        with full(path):
            outcome = await host.before_tool(CALL)
    assert (outcome.action, outcome.reason) == (action, "enough")


async def test_a_host_whose_log_cannot_be_begun_does_not_start(path):
    Ledger(path).close()
    log = AuditLog(path)
    with full(path), pytest.raises(PicohookError, match="cannot be written: File too large"):
        async with Host([], listeners=[log]):
            raise AssertionError("it was entered")
    assert path.read_bytes() == b""
    async with Host([], listeners=[log]):
        pass


# From a configuration, and from the command line.

CONFIG = """
[audit]
path = "logs/audit.jsonl"
[hooks.a]
python = "yes:no"
stages = ["before_tool"]
"""


@pytest.fixture
def project(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "deep" / "logs").mkdir(parents=True)
    (tmp_path / "deep" / "picohook.toml").write_text(CONFIG)
    (tmp_path / "deep" / "yes.py").write_text("def no(call):\n    return {'action': 'deny_tool'}\n")
    return tmp_path


async def test_a_configuration_names_a_log_beside_itself(project):
    async with Host.from_config("deep/picohook.toml") as host:
        await host.before_tool(CALL)
    (chain,) = chains(project / "deep/logs/audit.jsonl")
    assert (chain["action"], chain["hook"]) == ("deny_tool", "a")


async def test_a_key_for_it_is_in_the_environment(project, monkeypatch):
    monkeypatch.setenv("PICOHOOK_AUDIT_KEY", "k")
    async with Host.from_config("deep/picohook.toml") as host:
        await host.before_tool(CALL)
    assert not checked(project / "deep/logs/audit.jsonl").ok
    assert checked(project / "deep/logs/audit.jsonl", b"k").ok


def picohook(*arguments, **environment):
    env = {**os.environ, **environment, "COLUMNS": "80"}
    return preloaded.run([*arguments], text=True, env=env)


ASK = ("call", "before_tool", "--params", '{"tool": "a"}', "--config", "deep/picohook.toml")


def test_the_command_line_keeps_both_and_the_named_one_once(project):
    for named in ("own.jsonl", "deep/logs/audit.jsonl"):
        assert picohook(*ASK, "--audit", named).stderr == ""
    assert len(chains(Path("own.jsonl"))) == 1
    assert len(chains(Path("deep/logs/audit.jsonl"))) == 2


def test_a_hook_does_not_get_the_key(project):
    Path("deep/yes.py").write_text(
        "import os\ndef no(call):\n    return {'action': 'deny_tool', 'reason': os.environ.get('PICOHOOK_AUDIT_KEY', '-')}\n"
    )
    done = picohook(*ASK, "--json", PICOHOOK_AUDIT_KEY="k")
    assert json.loads(done.stdout)["reason"] == "-"
    assert checked("deep/logs/audit.jsonl", b"k").ok


def test_verify_reports_ok_or_the_wrong_record(written, tmp_path):
    head = checked(written).head
    done = picohook("audit", "verify", str(written), "--head", head.upper())
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{written}: ok, 7 records, head {head}\n", "")
    rewritten(written, lambda lines: [*lines[:3], *lines[4:]])
    done = picohook("audit", "verify", str(written))
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"Error: {written}: record 4 is missing\n"
    done = picohook("audit", "verify", str(written), "--json")
    assert done.returncode == 1
    said = json.loads(done.stdout)
    assert (said["ok"], said["records"], said["problem"]) == (False, 3, "record 4 is missing")
    assert picohook("audit", "verify", str(tmp_path / "none")).returncode == 2


def test_verify_says_of_an_empty_log_that_it_is_one(tmp_path):
    log = tmp_path / "log"
    log.touch()
    done = picohook("audit", "verify", str(log))
    assert (done.returncode, done.stdout) == (0, f"{log}: ok, 0 records\n")
    (note,) = json.loads(picohook("audit", "verify", str(log), "--json").stdout)["notes"]
    assert note.startswith("it is empty")
    assert done.stderr == f"Warning: {log}: {note}\n"


def test_the_example_hooks_verifier_takes_it_and_the_other_way_round(written, tmp_path):
    example = Path(__file__).parents[3] / "hooks_examples" / "audit_log.py"

    def theirs(*arguments, **more):
        return subprocess.run([sys.executable, str(example), *arguments], capture_output=True, check=False, **more)

    assert theirs("--verify", str(written)).returncode == 0
    own = tmp_path / "own.jsonl"
    theirs(str(own), input=b'{"jsonrpc": "2.0", "method": "hook.event", "params": {}}\n')
    assert (checked(own).ok, checked(own).records) == (True, 1)


@pytest.mark.parametrize(
    ("audit", "said"),
    [
        ("path = 1", "audit.path"),
        ('path = ""', "audit.path"),
        ("payloads = true", "audit.path"),
        ('path = "x"\npaylods = true', "audit.paylods"),
    ],
)
def test_a_mistake_in_its_settings_is_named(project, audit, said):
    Path("picohook.toml").write_text(f"[audit]\n{audit}\n[hooks.a]\npython = 'yes:no'\nstages = ['before_tool']\n")
    with pytest.raises(ConfigError, match=said):
        load("picohook.toml")


async def test_an_outcome_after_the_log_was_closed_is_written_nowhere(path, tmp_path):
    log = RequiredAuditLog(path)
    began, goes_on = anyio.Event(), anyio.Event()

    async def slow(call):
        began.set()
        await goes_on.wait()
        return True

    outcomes = []

    async def approve(host):
        outcomes.append(await host.approve_tool(CALL))

    async with anyio.create_task_group() as tasks:
        async with Host([FunctionHook("slow", {"approve_tool": slow}, approval_timeout=60)], listeners=[log]) as host:
            tasks.start_soon(approve, host)
            await began.wait()
        files = [(tmp_path / f"{number}.txt").open("w") for number in range(8)]
        goes_on.set()
    for file in files:
        file.close()
        assert Path(file.name).read_text() == ""
    assert [outcome.approved for outcome in outcomes] == [False]
