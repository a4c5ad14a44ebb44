"""L1, L2, L3 and promises 14 and 15: what is logged, and that nothing depends on it."""

from __future__ import annotations

import logging

import anyio
import needs
import pytest
from scripted import HELLO, SERVE, scripted

from picohook import FunctionHook, Host, PicohookError, RestartPolicy, Timeouts, ToolCall

pytestmark = pytest.mark.anyio

FAR = Timeouts(interceptor=60, approval=60, hello=60, chain=60, observer=60)
ONCE = RestartPolicy(max_starts=1)
BOTH = ("before_tool", "approve_tool")


def asking(*steps, **more):
    return ToolCall(tool="bash", arguments={"do": list(steps), **more})


class Broken:
    """A log whose disk is full."""

    def __init__(self):
        self.calls = 0

    def __getattr__(self, level):
        def fail(event, **fields):
            self.calls += 1
            raise OSError("No space left on device")

        return fail


async def test_L1_a_log_that_fails_changes_nothing_and_is_counted(board):
    log = Broken()
    noisy = ["say", "words"], ["flood", 1, "junk\n", 5], ["flood", 2, "more\n", 500]

    def fail(event):
        raise ZeroDivisionError

    hooks = [scripted("h", board.call("h"), SERVE, stages=BOTH), FunctionHook("f", on_event=fail)]
    async with Host(hooks, timeouts=FAR, logger=log) as host:
        await board.line("h")
        assert (await host.before_tool(asking(*noisy, nonce=1))).payload.arguments == {"echo": 1}
        assert (await host.approve_tool(asking())).approved
        await host.emit_and_wait("turn_start")
        assert "it exited with code 3" in (await host.before_tool(asking(["exit", 3]))).trail[0].error
        assert (await host.before_tool(asking(nonce=2))).payload.arguments == {"echo": 2}
        assert host.status().log_failures == log.calls > 5
    assert host.status().hooks[0].state == "stopped"


HOSTILE = "\x1b[2J\x1b]0;owned\x07 \r\n fake: ok \u202e\u2066\x9b31m \x00 \u2028 end"


async def test_L2_text_of_a_hook_reaches_logs_traces_and_reasons_without_control_characters(journal):
    """On stderr, on stdout, as reasons and errors, as a name and a version, in last words."""
    steps = [
        ["flood", 2, HOSTILE + "\n", 1],
        ["write", HOSTILE + "\n"],
        ["notify", "host.log", {"message": HOSTILE, "fields": {HOSTILE: HOSTILE}}],
    ]
    hooks = [
        scripted("a", ["hello", {"capabilities": {"log": True}}], SERVE, stages=BOTH),
        scripted("b", ["hello", {"ok": False, "reason": HOSTILE}], restart=ONCE),
        scripted("c", ["hello", {"version": HOSTILE}], restart=ONCE),
        scripted("d", ["read"], ["error", 1, HOSTILE], restart=ONCE),
        scripted("e", ["read"], ["flood", 2, HOSTILE, 1], ["exit", 1], restart=ONCE),
    ]
    async with Host(hooks, timeouts=FAR, logger=journal) as host:
        await host.before_tool(asking(*steps, who="a"))
        error = await host.before_tool(asking(["error", -32000, HOSTILE], who="a"))
        action = await host.before_tool(asking(["reply", {"action": HOSTILE}], who="a"))
        approval = await host.approve_tool(asking(["error", -32000, HOSTILE], who="a"))
        crash = await host.before_tool(asking(["flood", 2, HOSTILE, 1], ["exit", 1], who="a"))
        await journal.seen("ended", hook="a")
        status = host.status()
    shown = [value for record in journal.records for value in record.values() if isinstance(value, str)]
    shown += [entry.error for outcome in (error, action, crash) for entry in outcome.trail if entry.error]
    shown += [approval.reason, *(hook.last_error.replace("\n", "") for hook in status.hooks)]
    assert len([text for text in shown if "\\x1b" in text]) >= 10
    acting = [text for text in shown for character in text if character in "\x1b\x07\r\n\x9b\x00\u202e\u2066\u2028"]
    assert acting == []


SECRET = "hunter2-the-secret"


async def test_L3_payloads_are_never_logged(journal, caplog):
    """Answers, refusals, failures, time-outs, crashes, kills, dropped events and denials, with a secret in every payload."""
    caplog.set_level(logging.DEBUG)

    def explode(payload):
        raise ValueError("nothing of it")

    steps = [
        [],
        [["reply", {"action": "deny_tool", "reason": "no"}]],
        [["error", -32000, "no"]],
        [["reply", {"action": "nonsense"}]],
        [["reply", {"action": "modify", "call": {"tool": 5}}]],
        [["write", '{"id":{id},"result":{}}\n'], ["silent"]],
        [["write", "garbage\n"]],
        [["exit", 1]],
        [["close", 1], ["hang"]],
    ]
    hooks = [
        scripted("h", stages=(*BOTH, "after_tool"), observe=("*",), restart=RestartPolicy(max_starts=50)),
        scripted(
            "mute", HELLO, *[["read"]] * 3, ["hang"], timeout=0.02, grace=0.1, stages=("after_tool",), restart=ONCE
        ),
        FunctionHook("f", {"before_tool": explode}, on_event=explode),
    ]
    async with Host(hooks, timeouts=FAR, logger=journal) as host:
        for one in steps:
            call = asking(*one, secret=SECRET)
            await host.before_tool(call)
            await host.approve_tool(call)
            await host.run_tool(asking(secret=SECRET), lambda call: SECRET)
            host.emit("turn_start", {"UserMessage": SECRET})
        await host.emit_and_wait("turn_end", {"FinalContent": SECRET})
        await journal.seen("failed: it is not started again until it is reset", hook="mute")
    assert len(journal.records) > 20
    assert SECRET not in repr(journal.records)
    assert SECRET not in caplog.text
    assert SECRET not in repr(host.status())


async def test_without_a_logger_the_standard_librarys_is_used(caplog):
    caplog.set_level(logging.INFO, logger="picohook")
    async with Host([scripted("h", HELLO, ["say", "a word"], SERVE)], timeouts=FAR) as host:
        await host.before_tool(asking())
    assert [record.getMessage() for record in caplog.records if "a word" in record.getMessage()] == [
        "stderr hook='h' line='a word'"
    ]
    assert all(record.name == "picohook" for record in caplog.records)


async def test_a_crashs_cause_stands_in_the_log_once_for_each_time(journal):
    async with Host([scripted("h")], timeouts=FAR, logger=journal) as host:
        for times in (1, 2):
            await host.before_tool(asking(["say", "oh no"], ["exit", 2]))
            record = await journal.seen("ended", hook="h", times=times)
            assert record["why"] == "it exited with code 2; it said: oh no"
        with anyio.fail_after(30):
            await host.before_tool(asking())


def noisy():
    return FunctionHook("f", on_event=lambda event: 1 / 0)


@pytest.mark.parametrize("level", [logging.DEBUG, logging.CRITICAL])
async def test_a_logger_of_the_standard_library_gets_every_line_that_its_level_lets_through(caplog, level):
    logger = logging.getLogger("mine.own")
    caplog.set_level(level, logger="mine.own")
    async with Host([noisy()], timeouts=FAR, logger=logger) as host:
        await host.emit_and_wait("turn_start")
        assert host.status().log_failures == 0
    records = [record for record in caplog.records if record.name == "mine.own"]
    assert all(record.name != "picohook" for record in caplog.records)
    if level == logging.CRITICAL:
        assert records == []
        return
    (record,) = records
    assert record.levelname == "WARNING"
    assert record.getMessage().startswith("failed hook='f' stage='observe' cause='error' counted_as=")
    assert "why='ZeroDivisionError: division by zero (test_log.py:" in record.getMessage()


async def test_a_record_of_the_standard_library_has_hook_stage_and_cause_as_attributes(caplog):
    async with Host([noisy()], timeouts=FAR) as host:
        await host.emit_and_wait("turn_start")
    (record,) = caplog.records
    assert (record.hook, record.stage, record.cause) == ("f", "observe", "error")
    assert record.fields["counted_as"] == "an event that was not taken"
    assert logging.Formatter("%(hook)s|%(stage)s|%(cause)s").format(record) == "f|observe|error"


async def test_an_adapter_of_the_standard_library_keeps_its_own_fields_and_its_prefix(caplog):
    class Prefixed(logging.LoggerAdapter):
        def process(self, msg, kwargs):
            return f"[{self.extra['tenant']}] {msg}", {**kwargs, "extra": self.extra}

    logger = Prefixed(logging.getLogger("mine"), {"tenant": "t1"})
    async with Host([noisy()], timeouts=FAR, logger=logger) as host:
        await host.emit_and_wait("turn_start")
    (record,) = caplog.records
    assert (record.name, record.tenant, record.hook) == ("mine", "t1", "f")
    assert record.getMessage().startswith("[t1] failed")


class Plain:
    """Whose methods take a text alone."""

    def warning(self, text):
        raise AssertionError

    debug = info = error = warning


@pytest.mark.parametrize("target", [print, "picohook", Plain()])
def test_an_object_that_is_not_a_logger_is_refused_at_once(target):
    with pytest.raises(PicohookError, match="is not a logger: its methods debug, info, warning, error must"):
        Host(logger=target)


async def test_the_module_logging_is_its_root_logger(caplog):
    async with Host([noisy()], timeouts=FAR, logger=logging) as host:
        await host.emit_and_wait("turn_start")
    assert [record.name for record in caplog.records] == ["root"]


@pytest.mark.parametrize(("steps", "level"), [([["exit", 2]], "info"), ([["reply", {}], ["exit", 2]], "warning")])
@needs.other_rooms
async def test_a_crash_that_a_failed_question_reports_is_not_warned_of_twice(journal, steps, level):
    async with Host([scripted("h")], timeouts=FAR, logger=journal) as host:
        outcome = await host.before_tool(asking(*steps))
        ended = await journal.seen("ended", hook="h")
    failed = journal.all("failed", hook="h")
    assert ended["level"] == level
    assert [entry.error for entry in outcome.trail] == [record["why"] for record in failed] or failed == []
    assert len([record for record in journal.records if record["level"] == "warning"]) == 1
