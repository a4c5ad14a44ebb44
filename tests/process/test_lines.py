"""What comes over real pipes: lines of any shape, and conversations that break the rules."""

from __future__ import annotations

import json
import sys
import time
import unicodedata

import anyio
import pytest
from scripted import HANG, HELLO, SERVE, descriptors, scripted

from picohook import EncodeError, FunctionHook, HookSpec, Host, RestartPolicy, Timeouts, ToolCall

pytestmark = pytest.mark.anyio

FAR = Timeouts(interceptor=60, approval=60, hello=60, chain=60)
ONCE = RestartPolicy(max_starts=1)


def asking(*steps, **more):
    return ToolCall(tool="bash", arguments={"do": list(steps), **more})


def only(host: Host):
    (status,) = host.status().hooks
    return status


async def error_of(host: Host, *steps) -> str:
    (entry,) = (await host.before_tool(asking(*steps))).trail
    assert entry.error is not None
    return entry.error


def denial(reason="no"):
    return {"action": "deny_tool", "reason": reason}


def answer(**result):
    return '{"jsonrpc":"2.0","id":{id},"result":' + json.dumps(result) + "}"


async def test_F1_an_endless_line_is_a_kill_at_the_limit(board):
    spec = scripted("h", board.call("h"), SERVE, max_line_bytes=100_000, restart=ONCE)
    async with Host([spec], timeouts=FAR) as host:
        line = await board.line("h")
        error = await error_of(host, ["flood", 1, "x" * 1000])
        assert error == "it wrote a line longer than 100000 bytes (max_line_bytes), and was killed"
        await line.dead()


async def test_F1_the_cause_is_named_even_if_the_process_ends_at_once():
    spec = scripted("h", max_line_bytes=1000, restart=ONCE)
    async with Host([spec], timeouts=FAR) as host:
        error = await error_of(host, ["flood", 1, "x", 5000], ["exit", 0])
        assert error == "it wrote a line longer than 1000 bytes (max_line_bytes), and was killed"


@pytest.mark.parametrize("size", [2000, 2001])
async def test_F2_the_limit_is_exact(size):
    empty = len(answer(action="deny_tool", reason="").replace("{id}", "2"))
    line = answer(action="deny_tool", reason="x" * (size - empty)) + "\n"
    async with Host([scripted("h", max_line_bytes=2000, restart=ONCE)], timeouts=FAR) as host:
        outcome = await host.before_tool(asking(["write", line], ["silent"]))
        assert (outcome.action == "deny_tool") is (size == 2000)
        assert (outcome.trail[0].error is None) is (size == 2000)


async def test_F3_of_a_good_line_and_an_oversize_one_in_one_chunk_the_good_one_is_delivered():
    chunk = answer(**denial("first")) + "\n" + "x" * 3000 + "\n"
    async with Host([scripted("h", max_line_bytes=2000, restart=ONCE)], timeouts=FAR) as host:
        outcome = await host.before_tool(asking(["write", chunk], HANG))
        assert outcome.reason == "first"
        assert "it wrote a line longer than 2000 bytes" in await error_of(host)


async def test_F4_a_byte_at_a_time_does_not_move_the_deadline():
    steps = ["say", "dribbling"], ["dribble", " ", 0.01]
    async with Host([scripted("h", timeout=0.1, grace=0.1, restart=ONCE)], timeouts=FAR) as host:
        assert "no answer within" in await error_of(host, *steps)


async def test_F6_F7_only_newlines_end_lines():
    odd = "a\u2028b\u2029c\u0085d\x0be\x1cf"
    blank = "\r\n\n  \n\r\n"
    reason = odd.replace("\x0b", "\\u000b").replace("\x1c", "\\u001c")  # controls may not stand in JSON as they are
    lines = blank + '{"jsonrpc":"2.0","id":{id},"result":{"action":"deny_tool","reason":"' + reason + '"}}\r\n'
    async with Host([scripted("h")], timeouts=FAR) as host:
        outcome = await host.before_tool(asking(["write", lines], ["silent"]))
        assert outcome.reason == odd
        assert only(host).dropped_lines == 0


async def test_F6_a_hook_that_ends_its_lines_with_crlf_is_a_hook():
    hello = '{"jsonrpc":"2.0","id":{id},"result":{"ok":true}}\r\n'
    steps = ["read"], ["write", hello], ["read"], ["write", answer(**denial("crlf")) + "\r\n"], SERVE
    async with Host([scripted("h", *steps)], timeouts=FAR) as host:
        assert (await host.before_tool(asking())).reason == "crlf"


BAD_LINES = {
    "F8_utf8": b'{"jsonrpc":"2.0","id":2,"result":{"x":"\xff"}}',
    "F8_bom": b'\xef\xbb\xbf{"jsonrpc":"2.0","id":2,"result":{}}',
    "F8_utf16": '{"jsonrpc":"2.0","id":2,"result":{}}'.encode("utf-16-le"),
    "F8_nul": b'{"jsonrpc":"2.0","id":2,"result":{}}\0',
    "F9_log_line": b"INFO starting up",
    "F9_scalar": b"42",
    "F9_null": b"null",
    "J2_nan": b'{"jsonrpc":"2.0","id":2,"result":{"x":NaN}}',
    "J2_infinity": b'{"jsonrpc":"2.0","id":2,"result":{"x":-Infinity}}',
    "J2_1e999": b'{"jsonrpc":"2.0","id":2,"result":{"x":1e999}}',
    "J3_deep": b"[" * 100_000,
    "J3_deep_and_whole": b'{"jsonrpc":"2.0","id":2,"result":' + b"[" * 300 + b"]" * 300 + b"}",
    "J4_5000_digits": b'{"jsonrpc":"2.0","id":2,"result":{"x":' + b"9" * 5000 + b"}}",
    "J5_lone_surrogate": b'{"jsonrpc":"2.0","id":2,"result":{"reason":"\\ud800"}}',
    "R6_batch": b'[{"jsonrpc":"2.0","id":2,"result":{}}]',
    "R6_empty": b"[]",
    "J8_string_id": b'{"jsonrpc":"2.0","id":"2","result":{}}',
    "J8_float_id": b'{"jsonrpc":"2.0","id":2.0,"result":{}}',
    "J8_true_id": b'{"jsonrpc":"2.0","id":true,"result":{}}',
    "R2_unknown_id": b'{"jsonrpc":"2.0","id":3,"result":{}}',
    "R5_null_id": b'{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"what?"}}',
}


@pytest.mark.parametrize("case", BAD_LINES)
async def test_a_bad_line_is_dropped_and_counted_and_the_answer_after_it_counts(case, journal):
    async with Host([scripted("h")], timeouts=FAR, logger=journal) as host:
        bad = ["write_hex", (BAD_LINES[case] + b"\n").hex()]
        outcome = await host.before_tool(asking(bad, ["reply", denial("good")]))
        assert outcome.reason == "good"
        assert only(host).dropped_lines == 1
        assert only(host).state == "ready"
        (record,) = journal.all("dropped a line")
        assert not {unicodedata.category(character) for character in record["line"]} & {"Cc", "Cs", "Zl", "Zp"}
        assert len(record["line"]) < 1000


@pytest.mark.parametrize("number", [2**53 + 1, 2**63, 2**64 + 1, -(10**80)])
async def test_J4_a_large_integer_goes_out_and_comes_back_as_it_was(number):
    async with Host([scripted("h")], timeouts=FAR) as host:
        arguments = (await host.before_tool(asking(nonce=number))).payload.arguments
        assert arguments == {"echo": number}
        assert type(arguments["echo"]) is int


async def test_J5_a_payload_that_cannot_be_sent_is_an_error_before_anything_is_written(tmp_path):
    record = tmp_path / "record"
    spec = scripted("h", ["record", str(record)], SERVE, stages=("before_tool", "approve_tool"))
    async with Host([spec], timeouts=FAR) as host:
        for ask in (host.before_tool, host.approve_tool):
            with pytest.raises(EncodeError):
                await ask(asking(text="half a \ud83d pair"))
        assert (await host.before_tool(asking(nonce=1))).payload.arguments == {"echo": 1}
        assert only(host).calls == 1
    read = [line["line"] for line in map(json.loads, record.read_text().splitlines()) if line["way"] == "in"]
    assert [line["method"] for line in read] == ["hook.hello", "hook.before_tool"]


async def test_F9_R10_past_the_quota_bad_lines_are_a_kill(board):
    spec = scripted("h", board.call("h"), SERVE, restart=ONCE)
    async with Host([spec], timeouts=FAR) as host:
        line = await board.line("h")
        outcome = await host.before_tool(asking(["flood", 1, "tick\n", 100]))
        assert outcome.trail[0].error is None
        error = await error_of(host, ["flood", 1, "tock\n", 1], HANG)
        assert error == "in 10 s it wrote more than 100 lines that are not answers, and was killed"
        await line.dead()


FLOODS = {
    "unknown_notifications": '{"jsonrpc":"2.0","method":"hook.hi","params":{}}\n',
    "requests": '{"jsonrpc":"2.0","id":1,"method":"tools/list"}\n',
    "garbage": "\x1b[31mhello\n",
    "answers_to_nothing": '{"jsonrpc":"2.0","id":9,"result":{}}\n',
    "blank_lines": "\n",
    "logs_that_it_may_write": '{"jsonrpc":"2.0","method":"host.log","params":{"message":"x"}}\n',
    "progress_of_nothing": '{"jsonrpc":"2.0","method":"host.progress","params":{"id":7}}\n',
}


@pytest.mark.parametrize("flood", FLOODS)
async def test_R10_a_flood_on_stdout_is_a_kill_and_the_next_hook_is_served_meanwhile(flood, board, journal):
    loud = scripted("a_loud", ["hello", {"capabilities": {"log": True, "progress": True}}], board.call("loud"), ["wait"],
                    ["flood", 1, FLOODS[flood]], restart=ONCE, grace=0.1, stages=("after_tool",))  # fmt: skip
    async with Host([loud, scripted("b_good")], timeouts=FAR, logger=journal) as host:
        line = await board.line("loud")
        line.go_on()
        for nonce in range(20):
            outcome = await host.before_tool(asking(nonce=nonce))
            assert outcome.payload.arguments == {"echo": nonce}
        await line.dead()
        await journal.seen("failed: it is not started again until it is reset")
        assert len(journal.all("said")) <= 50


async def test_a_chatty_hook_that_stays_within_bounds_lives_on(journal):
    spec = scripted("h", ["hello", {"capabilities": {"log": True}}], SERVE)
    notes = ["flood", 1, FLOODS["logs_that_it_may_write"], 2000]
    async with Host([spec], timeouts=FAR, logger=journal) as host:
        assert (await host.before_tool(asking(notes, ["flood", 1, "\n", 5000]))).trail[0].error is None
        assert only(host).starts == 1
        assert 1 <= len(journal.all("said")) <= 50


async def test_R2_late_answers_to_cancelled_calls_are_dropped_without_blame(board):
    """Two hundred calls are given up by the host; the hook answers them all, later, as it should."""
    spec = scripted("h", HELLO, board.call("h"), ["wait"], SERVE)
    async with Host([spec], timeouts=FAR) as host:
        line = await board.line("h")
        async with anyio.create_task_group() as tasks:
            for nonce in range(200):
                tasks.start_soon(host.before_tool, asking(nonce=nonce))
            await anyio.wait_all_tasks_blocked()
            assert await host.hooks[0].flushed(anyio.current_time() + 60)
            tasks.cancel_scope.cancel()
        line.go_on()
        outcome = await host.before_tool(asking(nonce="new"))
        assert outcome.payload.arguments == {"echo": "new"}
        assert only(host).dropped_lines > 100  # more than a hook may write for nothing
        assert only(host).starts == 1


async def test_R2_the_first_of_two_answers_counts():
    async with Host([scripted("h")], timeouts=FAR) as host:
        outcome = await host.before_tool(asking(["reply", denial("first")], ["reply", denial("second")]))
        assert outcome.reason == "first"
        assert (await host.before_tool(asking(nonce=1))).payload.arguments == {"echo": 1}
        assert only(host).dropped_lines == 1


async def test_R3_an_answer_to_a_request_that_was_not_sent_yet_matches_nothing(board):
    early = '{"jsonrpc":"2.0","id":3,"result":{"action":"deny_tool","reason":"forged"}}\n'
    spec = scripted("h", HELLO, board.call("h"), ["wait"], ["write", early], ["tell", "forged"], ["wait"], SERVE)
    async with Host([spec], timeouts=FAR) as host:
        line = await board.line("h")
        outcomes = []

        async def ask():
            outcomes.append(await host.before_tool(asking(nonce=1)))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(host.before_tool, asking(pad="x" * 3_000_000))  # fills the pipe, wide as it gets
            await anyio.wait_all_tasks_blocked()
            tasks.start_soon(ask)  # behind it
            await anyio.wait_all_tasks_blocked()
            line.go_on()
            assert await line.said() == "forged"
            await anyio.wait_all_tasks_blocked()
            line.go_on()
        assert outcomes[0].payload.arguments == {"echo": 1}
        assert only(host).dropped_lines == 1


async def test_R4_output_of_the_old_process_cannot_answer_for_the_new_one(board):
    """A grandchild of the first process keeps its stdout, and answers every id that there may be."""
    forged = "".join(
        f'{{"jsonrpc":"2.0","id":{n},"result":{{"action":"deny_tool","reason":"forged"}}}}\n' for n in range(9)
    )
    fork = ["fork", [["setsid"], board.call("old"), ["wait"], ["write", forged], ["tell", "wrote"], ["wait"]]]
    spec = scripted("h", HELLO, board.call("h"), SERVE, contain="group")
    async with Host([spec], timeouts=FAR) as host:
        assert "it exited with code 9" in await error_of(host, fork, ["exit", 9])
        await board.line("h")
        old = await board.line("old")
        await board.line("h")
        async with anyio.create_task_group() as tasks:
            outcomes = []

            async def ask():
                outcomes.append(await host.before_tool(asking(board.call("asked"), ["wait"], nonce="mine")))

            tasks.start_soon(ask)
            asked = await board.line("asked")
            old.go_on()
            await old.dead()  # of EPIPE: the old pipe is closed
            asked.go_on()
        assert outcomes[0].payload.arguments == {"echo": "mine"}


async def test_R7_a_hook_that_calls_the_host_is_answered_method_not_found_and_not_kept_waiting(tmp_path):
    record = tmp_path / "record"
    steps = ["ask", "tools/list", "mine"], ["read"]
    async with Host([scripted("h", ["record", str(record)], SERVE)], timeouts=FAR) as host:
        assert (await host.before_tool(asking(*steps, nonce=1))).payload.arguments == {"echo": 1}
    lines = [json.loads(line) for line in record.read_text().splitlines()]
    asked = next(n for n, line in enumerate(lines) if line["line"].get("method") == "tools/list")
    reply = lines[asked + 1]
    assert reply["way"] == "in"
    assert reply["line"]["id"] == "mine"
    assert reply["line"]["error"]["code"] == -32601


async def test_R7_notifications_of_a_hook_are_never_answered(tmp_path):
    record = tmp_path / "record"
    async with Host([scripted("h", ["record", str(record)], SERVE)], timeouts=FAR) as host:
        await host.before_tool(asking(["notify", "hook.hi", {"x": 1}]))
        await host.before_tool(asking())
    ways = [json.loads(line)["way"] for line in record.read_text().splitlines()]
    assert ways == ["in", "out", "in", "out", "out", "in", "out"]


async def test_R9_cat_as_a_hook_fails_in_hello_and_answers_nothing():
    spec = scripted("cat", ["exec", "/bin/cat"], restart=ONCE, stages=("approve_tool",))
    before = descriptors()
    async with Host([spec], timeouts=FAR) as host:
        approval = await host.approve_tool(asking())
        assert not approval.approved
        assert only(host).state == "failed"
        assert "hook.hello was answered with an error" in only(host).last_error
    assert descriptors() == before


SLOPPY = {
    "no_version": '{"id":{id},"result":{"action":"modify","call":{"arguments":{"seen":1}}}}\n',
    "neither": '{"jsonrpc":"2.0","id":{id}}\n',
}


@pytest.mark.parametrize("case", SLOPPY)
async def test_R8_sloppy_answers_are_taken_with_a_warning_by_intercepts_and_denied_by_approvals(case, journal):
    spec = scripted("h", stages=("before_tool", "approve_tool"))
    async with Host([spec], timeouts=FAR, logger=journal) as host:
        call = asking(["write", SLOPPY[case]], ["silent"])
        assert (await host.before_tool(call)).trail[0].error is None
        assert len(journal.all("accepted a sloppy answer")) == 1
        approval = await host.approve_tool(call)
        assert not approval.approved
        assert approval.trail[0].error is not None


BOTH_AT_ONCE = '{"jsonrpc":"2.0","id":{id},"result":{"approved":true},"error":%s}\n'


async def test_R1_a_result_and_an_error_are_a_failure():
    both = BOTH_AT_ONCE % '{"code":-32000,"message":"no"}'
    async with Host([scripted("h", stages=("before_tool", "approve_tool"))], timeouts=FAR) as host:
        assert await error_of(host, ["write", both], ["silent"]) == "its answer has both a result and an error"
        assert not (await host.approve_tool(asking(["write", both], ["silent"]))).approved
        approval = await host.approve_tool(asking(["write", BOTH_AT_ONCE % "null"], ["silent"]))
        assert approval.approved  # an error of null is none
        assert only(host).dropped_lines == 0


@pytest.mark.parametrize("action", ["alow", "Continue", "retry", 1])
@pytest.mark.parametrize("rule", ["continue", "deny"])
async def test_A7_an_action_that_the_stage_does_not_have_counts_as_a_failure(action, rule):
    spec = scripted("h", stages=("before_tool", "approve_tool"), on_failure=rule)
    async with Host([spec], timeouts=FAR) as host:
        answer = {"action": action, "approved": True, "call": {"arguments": {"x": 1}}, "feedback": "again"}
        call = asking(["reply", answer])
        outcome = await host.before_tool(call)
        assert outcome.action == ("continue" if rule == "continue" else "deny_tool")
        assert outcome.payload.arguments == call.arguments
        assert outcome.trail[0].error is not None
        assert not (await host.approve_tool(call)).approved


LONG = "\x1b]0;owned\x07\u202e" * 5000


async def test_A10_a_hooks_text_is_cut_to_its_limit_and_escaped_where_people_read_it(journal):
    hello = ["hello", {"capabilities": {"log": True}, "name": LONG, "version": 1}]
    spec = scripted("h", hello, SERVE, stages=("before_tool", "approve_tool", "after_llm"))
    say = ["notify", "host.log", {"message": LONG, "fields": {LONG: LONG}}]
    async with Host([spec], timeouts=FAR, logger=journal) as host:
        denial = await host.before_tool(asking(say, ["reply", {"action": "deny_tool", "reason": LONG}]))
        assert 1000 < len(denial.reason.encode()) <= 1024
        refused = await host.approve_tool(asking(["reply", {"approved": False, "reason": LONG}]))
        assert 1000 < len(refused.reason.encode()) <= 1024
        errors = [
            await error_of(host, ["error", -32000, LONG]),
            await error_of(host, ["reply", {"action": LONG}]),
            await error_of(host, ["reply", {"action": "modify", "call": {"tool": [LONG]}}]),
            await error_of(host, ["flood", 2, LONG, 1], ["exit", 1]),
        ]
        await journal.seen("ended")
    assert all(len(error) <= 8 * 1024 for error in errors)
    assert all(len(text) <= 8 * 1024 for text in texts_of(journal, "said", "dropped a line", "ended"))
    shown = [*errors, *texts_of(journal)]
    assert not [text for text in shown if set(text) & set("\x1b\x07\u202e")]
    assert len([text for text in shown if "\\x1b" in text]) >= 4


def texts_of(journal, *events):
    records = [record for record in journal.records if not events or record["event"] in events]
    return [value for record in records for value in record.values() if isinstance(value, str)]


YES = {
    "J6_yes": {"approved": "yes"},
    "J6_one": {"approved": 1},
    "J6_on": {"approved": "on"},
    "J6_true_as_text": {"approved": "true"},
    "J7_capital": {"Approved": True},
    "A2_empty": {},
    "A2_null": None,
    "A2_list": [True],
    "A2_nested": {"result": {"approved": True}},
}


@pytest.mark.parametrize("case", YES)
async def test_A2_only_true_approves(case):
    async with Host([scripted("h", stages=("approve_tool",))], timeouts=FAR) as host:
        approval = await host.approve_tool(asking(["reply", YES[case]]))
        assert approval.approved is False
        assert "hook h failed" in approval.reason


async def test_J1_two_verdicts_in_one_answer_deny():
    line = '{"jsonrpc":"2.0","id":{id},"result":{"approved":false,"approved":true}}\n'
    async with Host([scripted("h", stages=("approve_tool",))], timeouts=FAR) as host:
        assert not (await host.approve_tool(asking(["write", line], ["silent"]))).approved


async def test_A9_a_yes_after_the_deadline_does_not_undo_the_denial(board):
    """The event loop is held up past the deadline, until the yes is in the pipe: it is read first, and still too late."""
    spec = scripted("h", board.call("h"), SERVE, stages=("before_tool", "approve_tool"), approval_timeout=0.05)
    async with Host([spec], timeouts=FAR) as host:
        line = await board.line("h")
        approvals = []

        async def ask():
            steps = ["tell", "asked"], ["wait"], ["reply", {"approved": True}], ["tell", "answered"]
            approvals.append(await host.approve_tool(asking(*steps)))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask)
            assert await line.said() == "asked"
            deadline = anyio.current_time() + 0.06
            while anyio.current_time() < deadline:
                pass
            line.go_on()
            assert line.said_now() == "answered"
        assert not approvals[0].approved
        assert (await host.before_tool(asking())).trail[0].error is None


async def test_progress_moves_the_deadline_of_the_call_it_names(board):
    spec = scripted("h", ["hello", {"capabilities": {"progress": True}}], board.call("h"), SERVE, timeout=0.2)
    async with Host([spec], timeouts=FAR) as host:
        line = await board.line("h")
        outcomes = []

        async def ask():
            steps = [["tell", "asked"], *[["wait"], ["write", PROGRESS], ["tell", "wrote"]] * 5, ["wait"]]
            outcomes.append(await host.before_tool(asking(*steps, nonce=1)))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask)
            await line.said()
            first = host._mounted.require_open().now() + 0.2
            while host._mounted.require_open().now() < first:
                line.go_on()
                await line.said()
                if host._mounted.require_open().now() < first:
                    await anyio.sleep_until(min(first, host._mounted.require_open().now() + 0.05))
            for _ in range(6):
                line.go_on()
        assert outcomes[0].trail[0].error is None


@pytest.mark.parametrize("more", [[], [["write", "PROGRESS"]]], ids=["an answer", "progress and an answer"])
async def test_A9_what_a_process_says_while_the_loop_stands_still_past_the_deadline_is_late(board, more):
    steps = [[name, PROGRESS] for name, _ in more]
    spec = scripted("h", ["hello", {"capabilities": {"progress": True}}], SERVE, timeout=0.2, on_failure="deny")
    async with Host([spec], timeouts=FAR) as host:
        await host.before_tool(asking())
        outcomes = []

        async def ask():
            told = [board.call("asked"), ["wait"], *steps, ["reply", {}], ["tell", "answered"]]
            outcomes.append(await host.before_tool(asking(*told)))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask)
            line = await board.line("asked")
            line.go_on()
            time.sleep(0.3)  # the answer is written and the deadline is over, and the loop has seen neither
        assert outcomes[0].action == "deny_tool"
        assert outcomes[0].trail[0].failure == "timeout"


PROGRESS = '{"jsonrpc":"2.0","method":"host.progress","params":{"id":{id}}}\n'


RENAMES_AND_TELLS = """
import json, sys
for line in sys.stdin:
    message = json.loads(line)
    result = {"action": "modify", "call": {"tool": message["params"].get("tool", "") + "!"}}
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
"""


async def test_a_nan_that_a_function_puts_into_the_call_in_place_never_becomes_null():
    def spoils(call):
        call.arguments["x"] = float("nan")

    hooks = [
        FunctionHook("f", {"before_tool": spoils}),
        *(
            HookSpec(name=name, command=[sys.executable, "-S", "-c", RENAMES_AND_TELLS], stages=["before_tool"])
            for name in "ab"
        ),
    ]
    async with Host(hooks, timeouts=FAR) as host:
        outcome = await host.before_tool(ToolCall(tool="bash", arguments={"x": 1.0, "other": None}))
    assert (outcome.payload.tool, outcome.payload.arguments) == ("bash!!", {"x": 1.0, "other": None})
    assert "cannot be sent as JSON" in outcome.trail[0].error
