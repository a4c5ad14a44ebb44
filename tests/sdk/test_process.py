"""A hook on the SDK over its real pipes: what it answers, what it never writes, and how it ends."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import picohook

SOURCE = Path(picohook.__file__).parents[1]

TOOL = {"tool": "bash", "arguments": {"command": "rm -rf /"}}


def test_it_imports_only_a_little_of_the_standard_library(tmp_path):
    script = tmp_path / "hook.py"
    script.write_text(
        f"import sys; sys.path.insert(0, {str(SOURCE)!r})\n"
        "from picohook.sdk import HookApp\n"
        "app = HookApp('test')\n"
        "@app.before_tool\n"
        "def hook(call): return None\n"
        "@app.approve_tool(tool='read')\n"
        "def approve(call): return True\n"
        "@app.tool(description='adds')\n"
        "def add(one: int, other: int) -> int: return one + other\n"
        "app.run()\n"
        "sys.stderr.write(' '.join(sys.modules))\n"
    )
    methods = enumerate(("hook.hello", "hook.before_tool"), 1)
    asked = [json.dumps({"jsonrpc": "2.0", "id": number, "method": method}) for number, method in methods]
    done = subprocess.run(
        [sys.executable, "-I", "-S", script], input="\n".join([*asked, ""]).encode(), capture_output=True, check=True
    )
    assert [json.loads(line)["id"] for line in done.stdout.splitlines()] == [1, 2]
    imported = {name.partition(".")[0] for name in done.stderr.decode().split()}
    assert not imported & {
        "asyncio",
        "inspect",
        "dataclasses",
        "typing",
        "pydantic",
        "anyio",
        "jiter",
        "orjson",
        "logging",
    }


class TestDecisions:
    def test_a_guard_denies_with_its_reason_and_changes_no_other_call(self, start):
        hook = start("""
            @app.before_tool(tool="bash")
            def guard(call):
                if "rm -rf" in call.arguments["command"]:
                    return call.deny("too dangerous")
        """)
        assert hook.answer("hook.hello")["ok"] is True
        assert hook.answer("hook.before_tool", TOOL) == {"action": "deny_tool", "reason": "too dangerous"}
        assert hook.answer("hook.before_tool", {**TOOL, "arguments": {"command": "ls"}}) == {"action": "continue"}
        assert hook.answer("hook.before_tool", {"tool": "read", "arguments": {}}) == {"action": "continue"}

    def test_a_denial_counts_without_a_return_and_stands_after_errors_and_later_decisions(self, start):
        hook = start("""
            @app.before_tool
            def guard(call):
                call.deny("no")
                if call.tool == "raises":
                    raise ValueError
                if call.tool == "modifies":
                    return call.modify(tool="other")
        """)
        for tool in ("plain", "raises", "modifies"):
            assert hook.answer("hook.before_tool", {"tool": tool}) == {"action": "deny_tool", "reason": "no"}

    def test_only_changed_fields_are_sent(self, start):
        hook = start("""
            @app.before_tool
            def edit(call):
                call.arguments["limit"] = 10
                return call.modify()
        """)
        given = {"tool": "read", "arguments": {"path": "x", "limit": 2**70}}
        assert hook.answer("hook.before_tool", given) == {
            "action": "modify",
            "call": {"arguments": {"path": "x", "limit": 10}},
        }

    @pytest.mark.parametrize(
        ("body", "approved"),
        [
            ("return True", True),
            ("return call.approve()", True),
            ("call.approve()", False),
            ("return False", False),
            ("return None", False),
            ("return call.deny('not you')", False),
        ],
    )
    def test_only_a_yes_that_is_returned_approves(self, start, body, approved):
        hook = start(f"@app.approve_tool\nasync def approve(call):\n    {body}\n")
        assert (hook.answer("hook.approve_tool", TOOL).get("approved") is True) is approved

    @pytest.mark.parametrize("body", ["raise ValueError('secret')", "return 'yes'", "return 1"])
    def test_an_approver_that_fails_does_not_approve(self, start, body):
        hook = start(f"@app.approve_tool\ndef approve(call):\n    {body}\n")
        hook.ask("hook.approve_tool", TOOL)
        assert (hook.read().get("result") or {}).get("approved") is not True

    def test_a_tool_is_offered_with_its_schema_and_answered(self, start):
        hook = start("""
            @app.tool(description="The weather")
            def get_weather(city: "str", days: int = 1) -> "OnlyForTypeCheckers":
                return f"sunny in {city} for {days}"
        """)
        request = hook.answer("hook.before_llm", {"model": "m", "tools": [{"name": "other"}]})
        offered = (request.get("request") or request["patch"])["tools"][-1]["function"]
        assert (offered["name"], offered["description"]) == ("get_weather", "The weather")
        assert offered["parameters"]["properties"].keys() == {"city", "days"}
        assert offered["parameters"]["required"] == ["city"]
        answer = hook.answer("hook.before_tool", {"tool": "get_weather", "arguments": {"city": "Rome"}})
        assert answer["action"] == "respond"
        assert answer["result"]["for_llm"] == "sunny in Rome for 1"

    def test_the_model_is_told_which_arguments_do_not_fit_a_tool(self, start):
        hook = start("""
            @app.tool(description="The weather")
            def get_weather(city: str) -> str:
                return "sunny"
        """)
        answer = hook.answer("hook.before_tool", {"tool": "get_weather", "arguments": {"town": "Rome"}})
        assert answer["result"]["is_error"] is True
        assert "city" in answer["result"]["for_llm"]


class TestTheStream:
    def test_prints_and_the_stdout_of_child_processes_go_to_stderr(self, start):
        hook = start("""
            import os, subprocess
            @app.before_tool
            def noisy(call):
                print("printed")
                os.write(1, b"written\\n")
                subprocess.run(["echo", "echoed"], check=True)
        """)
        assert hook.answer("hook.before_tool", TOOL) == {"action": "continue"}
        assert hook.close() == 0
        assert hook.process.stdout.read() == ""
        assert {"printed", "written", "echoed"} <= set(hook.said().split())

    def test_an_exception_is_an_error_with_its_text_and_line_and_its_traceback_goes_to_stderr(self, start):
        hook = start("""
            @app.before_tool
            def broken(call):
                raise LookupError("no such\\x1b[2J key\\nsecond line")
        """)
        number = hook.ask("hook.before_tool", TOOL)
        reply = hook.read()
        assert reply["id"] == number
        assert re.fullmatch(r"LookupError: no such\\x1b\[2J key \([^/]+:\d+\)", reply["error"]["message"])
        assert hook.answer("hook.hello")["ok"] is True
        hook.close()
        assert "second line" in hook.said()

    def test_events_reach_the_handlers_of_their_kind_and_are_not_answered(self, start):
        hook = start("""
            @app.on_event("tool_exec_end")
            async def some(event):
                print("some", event.kind)
            @app.on_event
            def all(event):
                print("all", event.kind)
        """)
        hook.send("hook.event", {"kind": "tool_exec_end"})
        hook.send("hook.event", {"kind": "turn_start"}, id=0)
        assert hook.answer("hook.hello")["ok"] is True
        hook.close()
        assert sorted(hook.said().splitlines()) == ["all tool_exec_end", "all turn_start", "some tool_exec_end"]

    def test_lines_that_are_not_requests_are_skipped(self, start):
        hook = start("")
        for line in ("", "nonsense", "[]", "{}", "\u2028", '{"jsonrpc":"2.0","id":7,"result":{}}'):
            hook.process.stdin.write(line + "\n")
        assert hook.answer("hook.hello")["ok"] is True

    def test_an_unknown_method_is_refused(self, start):
        hook = start("")
        hook.ask("hook.whatever")
        assert hook.read()["error"]["code"] == -32601

    def test_async_handlers_answer_several_requests_at_once(self, start):
        hook = start("""
            import asyncio
            second = asyncio.Event()
            @app.before_tool
            async def wait(call):
                if call.tool == "first":
                    await second.wait()
                else:
                    second.set()
        """)
        first, other = (hook.ask("hook.before_tool", {"tool": tool}) for tool in ("first", "second"))
        assert sorted(hook.read()["id"] for _ in range(2)) == [first, other]

    def test_a_cancelled_request_is_not_answered_and_its_handler_is_told(self, start):
        hook = start("""
            import asyncio
            @app.before_tool
            async def wait(call):
                if call.tool == "hangs":
                    try:
                        await asyncio.Event().wait()
                    except asyncio.CancelledError:
                        print("cancelled")
                        raise
        """)
        assert hook.answer("hook.hello")["capabilities"]["cancel"] is True
        number = hook.ask("hook.before_tool", {"tool": "hangs"})
        hook.send("hook.cancel", {"id": number, "reason": "enough"})
        assert hook.answer("hook.before_tool", {"tool": "quick"}) == {"action": "continue"}
        hook.close()
        assert "cancelled" in hook.said()


class TestTheEnd:
    def test_at_the_end_of_its_input_it_finishes_running_handlers_and_ends(self, start):
        hook = start("""
            @app.on_shutdown
            def bye():
                print("bye")
        """)
        assert hook.answer("hook.hello")["ok"] is True
        assert hook.close() == 0
        assert hook.said() == "bye\n"

    @pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
    @pytest.mark.parametrize("kind", ["def", "async def"])
    def test_a_signal_ends_it_after_its_shutdown_handlers(self, start, number, kind):
        hook = start(f"""
            @app.on_shutdown
            {kind} bye():
                print("bye")
        """)
        assert hook.answer("hook.hello")["ok"] is True
        hook.process.send_signal(number)
        hook.process.wait(30)
        assert hook.said() == "bye\n"


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("@app.on_event('tool_exec_ended')\ndef seen(event): ...", "tool_exec_end"),
        ("@app.tool(description='x')\ndef tool(*args): ...", "parameters"),
    ],
)
def test_a_mistake_in_a_hook_is_named_before_it_serves(start, source, message):
    hook = start(source)
    assert hook.process.wait(30) != 0
    assert message in hook.said()
