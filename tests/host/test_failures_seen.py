"""A failing hook of any kind is in the log and in the host's status, and what the model is told of it is one short sentence."""

from __future__ import annotations

import logging

import anyio
import needs
import pytest
from scripted import scripted

from picohook import AbortTurnError, Deny, FunctionHook, HookSpec, Host, Timeouts, ToolCall
from picohook.errors import HookRefusedError
from picohook.observe.log import FIELDS

pytestmark = pytest.mark.anyio

FAR = Timeouts(interceptor=60, approval=60, hello=60, chain=60, observer=60)
CALL = ToolCall(tool="bash", arguments={"command": "ls"})
SECRET = "/home/me/secret/guard.py"


def broken(_):
    raise RuntimeError(f"cannot read {SECRET}")


async def slow(_):
    await anyio.sleep_forever()


def refuses(_):
    raise HookRefusedError("error 500: overloaded", code=500)


FAILING = {
    "an exception": (broken, {}, "error", "RuntimeError: cannot read /home/me/secret/guard.py (test_failures_seen.py:"),
    "a time-out": (slow, {"timeout": 0.01, "approval_timeout": 0.01}, "timeout", "no answer in time"),
    "an error": (refuses, {}, "refused", "error 500: overloaded"),
    "a bad answer": (lambda _: "yes", {}, "reply", "the result is a string, not an object"),
}


@pytest.mark.parametrize("case", FAILING)
@pytest.mark.parametrize(
    ("stage", "settings", "counted_as"),
    [
        ("before_tool", {}, "continue"),
        ("before_tool", {"guard": True, "on_failure": "deny"}, "deny_tool"),
        ("after_llm", {"on_failure": "abort"}, "abort_turn"),
        ("approve_tool", {}, "deny_tool"),
    ],
)
async def test_a_failure_is_logged_with_hook_stage_cause_and_decision(case, stage, settings, counted_as, journal):
    function, more, cause, why = FAILING[case]
    payload = {"model": "m", "response": {}} if stage == "after_llm" else CALL
    async with Host([FunctionHook("h", {stage: function}, **settings, **more)], timeouts=FAR, logger=journal) as host:
        for _ in range(3):
            outcome = await host.ask(stage, payload)
        (status,) = host.status().hooks
    first, again = journal.all("failed", hook="h")[0], journal.all("failed again", hook="h")[0]
    assert (first["stage"], first["cause"], first["counted_as"]) == (stage, cause, counted_as)
    assert first["why"].startswith(why)
    assert first["why"] == outcome.trail[0].error == status.last_error
    assert again["times"] == 2


@needs.other_rooms
async def test_a_failing_observer_and_a_failing_model_are_logged_and_in_the_status_too(journal):
    def complete(prompt, model):
        raise OSError("HTTP 500")

    hooks = [FunctionHook("watch", on_event=broken), HookSpec(name="ask", prompt="x", stages=("before_tool",))]
    async with Host(hooks, timeouts=FAR, logger=journal, complete=complete) as host:
        await host.emit_and_wait("turn_start")
        await host.before_tool(CALL)
        errors = {status.name: status.last_error for status in host.status().hooks}
    (event,), (asked,) = journal.all("failed", hook="watch"), journal.all("failed", hook="ask")
    assert (event["stage"], event["why"]) == ("observe", errors["watch"])
    assert asked["why"] == errors["ask"]
    assert asked["why"].startswith("the model could not be asked: OSError: HTTP 500 (test_failures_seen.py:")


async def test_a_process_that_answers_with_an_error_is_logged_and_says_when_it_answers_again(journal):
    async with Host([scripted("h")], timeouts=FAR, logger=journal) as host:
        await host.before_tool(ToolCall(tool="bash", arguments={"do": [["error", -32000, "no licence"]]}))
        (status,) = host.status().hooks
        await host.before_tool(CALL)
        await host.before_tool(CALL)
    (record,) = journal.all("failed", hook="h")
    assert record["why"] == status.last_error == "error -32000: no licence"
    assert len(journal.all("answers again", hook="h", stage="before_tool")) == 1


async def test_a_refused_part_of_an_answer_is_logged_as_well(journal):
    def edit(request):
        return {"request": {"system_prompt": "mine"}}

    hook = FunctionHook("h", {"before_llm": edit}, may_edit=("tools",))
    async with Host([hook], timeouts=FAR, logger=journal) as host:
        await host.before_llm({"model": "m", "system_prompt": "yours"})
    (record,) = journal.all("failed", hook="h")
    assert (record["cause"], record["why"]) == ("edit", "it may not edit system_prompt: left as it was")


async def test_the_standard_librarys_records_have_the_fields_apart(caplog):
    caplog.set_level(logging.WARNING, logger="picohook")

    def fail(_):
        raise KeyError('it said "no"')

    async with Host([FunctionHook("h", {"before_tool": fail})], timeouts=FAR) as host:
        await host.before_tool(CALL)
    (record,) = caplog.records
    fields = getattr(record, FIELDS)
    assert (fields["hook"], fields["stage"], fields["counted_as"]) == ("h", "before_tool", "continue")
    assert "\\" not in record.getMessage()


# What the model is told.


@pytest.mark.parametrize("stage", ["before_tool", "approve_tool"])
async def test_the_model_gets_one_short_sentence_about_a_failing_guard_or_approver(stage):
    hook = FunctionHook("guard", {stage: broken}, on_failure="deny")
    async with Host([hook], timeouts=FAR) as host:
        outcome = await host.ask(stage, CALL)
        result = await host.run_tool(CALL, lambda _: pytest.fail("it ran"))
    by = "approval hook" if stage == "approve_tool" else "hook"
    assert result.for_llm == f"Tool execution denied by {by}: hook guard failed"
    assert SECRET in outcome.trail[0].error
    assert SECRET in outcome.reason
    assert outcome.wire()["reason_for_llm"] == outcome.reason_for_llm == "hook guard failed"


@pytest.mark.parametrize(
    ("case", "told"),
    [
        ("a time-out", "hook guard failed: it did not answer in time"),
        ("an error", "hook guard failed: it answered with an error"),
        ("a bad answer", "hook guard failed: its answer could not be used"),
    ],
)
async def test_the_sentence_says_how_it_failed_and_none_of_the_hooks_words(case, told):
    function, settings, _, _ = FAILING[case]
    hook = FunctionHook("guard", {"before_tool": function}, on_failure="deny", **settings)
    async with Host([hook], timeouts=FAR) as host:
        assert (await host.before_tool(CALL)).reason_for_llm == told


async def test_a_hooks_own_reason_reaches_the_model_as_it_is():
    async with Host([FunctionHook("guard", {"before_tool": lambda _: Deny("use read_file")})], timeouts=FAR) as host:
        outcome = await host.before_tool(CALL)
        assert (await host.run_tool(CALL, str)).for_llm == "Tool execution denied by hook: use read_file"
    assert outcome.reason_for_llm == outcome.reason == "use read_file"
    assert "reason_for_llm" not in outcome.wire()


@needs.other_rooms
async def test_calls_that_a_failed_hook_ended_show_only_the_short_sentence():
    async def failing(call):
        if call.arguments["n"] == 1:
            broken(call)

    hook = FunctionHook("guard", {"before_tool": failing}, on_failure="abort")
    async with Host([hook], timeouts=FAR) as host, host.session("s1") as session:
        with pytest.raises(AbortTurnError) as raised:
            async with session.turn("hello") as turn:
                await turn.tools([ToolCall(tool="bash", arguments={"n": n}) for n in (0, 1)], lambda _: "ran")
    assert SECRET in raised.value.reason
    told = "Tool execution skipped: hook guard failed"
    assert [result.for_llm for result in raised.value.results] == [told, told]
    assert SECRET not in repr(session.messages)


async def test_a_turn_inside_a_tool_that_a_failed_hook_ended_shows_only_the_short_sentence():
    hook = FunctionHook("guard", {"after_llm": broken}, on_failure="abort")
    async with Host([hook], timeouts=FAR) as host:

        async def agent(_):
            async def complete(_):
                return {"content": "hi"}

            return await host.run_llm({"model": "m"}, complete)

        result = await host.run_tool(CALL, agent)
    assert result.for_llm == "AbortTurnError: hook guard failed"
