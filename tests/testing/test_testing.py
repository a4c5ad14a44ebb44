"""What embedders get for their own tests."""

from __future__ import annotations

import pytest

from picohook import AbortTurnError, Deny, HookSpec, Modify, PicohookError, Respond, ToolCall
from picohook.testing import FakeHook, RecordingHost, hook_process

pytestmark = pytest.mark.anyio

CALL = ToolCall(tool="bash", arguments={"command": "ls"})


# FakeHook.


async def test_a_single_answer_is_given_every_time():
    guard = FakeHook("guard", {"before_tool": Deny(reason="no")})
    async with RecordingHost([guard]) as host:
        outcomes = [await host.before_tool(CALL) for _ in range(3)]
    assert [(outcome.action, outcome.reason) for outcome in outcomes] == [("deny_tool", "no")] * 3


async def test_of_a_list_each_answer_is_given_once_and_then_the_hook_fails():
    guard = FakeHook("guard", {"before_tool": [None, Deny(reason="no")]})
    async with RecordingHost([guard]) as host:
        outcomes = [await host.before_tool(CALL) for _ in range(3)]
    assert [outcome.action for outcome in outcomes] == ["continue", "deny_tool", "continue"]
    assert [outcome.trail[0].error for outcome in outcomes] == [None, None, "its script for before_tool is at its end"]


async def test_an_approver_whose_script_has_ended_denies():
    async with RecordingHost([FakeHook("approver", {"approve_tool": [True]})]) as host:
        assert [(await host.approve_tool(CALL)).approved for _ in range(2)] == [True, False]


@pytest.mark.parametrize(
    ("answer", "action"),
    [
        (None, "continue"),
        (Modify({"arguments": {"command": "pwd"}}), "modify"),
        (Respond({"for_llm": "done"}), "respond"),
        ({"action": "abort_turn", "reason": "enough"}, "abort_turn"),
        (lambda call: Deny(reason=call.tool), "deny_tool"),
    ],
    ids=["none", "decision", "respond", "mapping", "function"],
)
async def test_answers_can_be_given_in_every_way_a_hook_can(answer, action):
    async with RecordingHost([FakeHook("fake", {"before_tool": answer}, provides=["bash"])]) as host:
        assert (await host.before_tool(CALL)).action == action


async def test_an_exception_is_the_hook_failing():
    broken = FakeHook("broken", {"before_tool": RuntimeError("out of order")}, on_failure="deny")
    async with RecordingHost([broken]) as host:
        outcome = await host.before_tool(CALL)
    assert outcome.action == "deny_tool"
    assert outcome.trail[0].error == "RuntimeError: out of order"


async def test_it_remembers_its_questions_in_order():
    fake = FakeHook("fake", {"before_tool": None, "approve_tool": True})
    async with RecordingHost([fake]) as host:
        await host.approve_tool(CALL)
        await host.before_tool(CALL)
    assert [asked.stage for asked in fake.asked] == ["approve_tool", "before_tool"]
    assert fake.asked_at("before_tool") == [CALL]
    assert fake.asked_at("after_tool") == []


async def test_it_gets_only_the_events_that_it_observes():
    some, none = FakeHook("some", observe=["turn_start"]), FakeHook("none", {"before_tool": None})
    async with RecordingHost([some, none]) as host:
        host.emit("turn_start", {"UserMessage": "hello"})
        host.emit("turn_end")
    assert [(event.kind, event.payload) for event in some.events] == [("turn_start", {"UserMessage": "hello"})]
    assert none.events == []


async def test_it_takes_the_settings_of_any_hook():
    last = FakeHook("a", {"before_tool": None}, priority=200)
    first = FakeHook("b", {"before_tool": None}, priority=1)
    async with RecordingHost([last, first]) as host:
        outcome = await host.before_tool(CALL)
    assert [entry.hook for entry in outcome.trail] == ["b", "a"]


# RecordingHost.


async def test_it_remembers_the_outcomes_and_events_of_a_whole_tool_call():
    fake = FakeHook("fake", {"before_tool": None, "approve_tool": True, "after_tool": None})
    async with RecordingHost([fake]) as host:
        await host.run_tool(CALL, lambda call: "a.txt")
    assert [outcome.stage for outcome in host.outcomes] == ["before_tool", "approve_tool", "after_tool"]
    assert [event.kind for event in host.events] == ["tool_exec_start", "tool_exec_end"]
    assert host.outcomes_at("after_tool")[0].payload.result.for_llm == "a.txt"


async def test_it_remembers_the_outcomes_of_a_whole_model_call():
    async def complete(request):
        return {"role": "assistant", "content": "hello"}

    async with RecordingHost() as host:
        await host.run_llm({"model": "m"}, complete)
    assert [outcome.stage for outcome in host.outcomes] == ["before_llm", "after_llm"]
    assert [event.kind for event in host.events] == ["llm_request", "llm_response"]


async def test_it_remembers_events_by_their_first_name():
    async with RecordingHost() as host:
        host.emit("agent.turn.end", {"Status": "completed"})
    assert [event.kind for event in host.events] == ["turn_end"]


async def test_it_does_not_remember_what_was_not_emitted():
    async with RecordingHost() as host:
        with pytest.raises(ValueError, match="did you mean 'turn_end'"):
            host.emit("turn_ends")
    with pytest.raises(PicohookError):
        host.emit("turn_end")
    assert host.events == []


def test_it_works_without_await():
    with RecordingHost.blocking([FakeHook("fake", {"before_tool": Deny(reason="no")})]) as host:
        assert host.run_tool(CALL, lambda call: "ran").for_llm == "Tool execution denied by hook: no"


# hook_process.


async def test_a_process_in_a_few_lines_is_asked_at_the_stages_of_its_functions():
    spec = hook_process("""
        def before_tool(params):
            return {"action": "deny_tool", "reason": "no " + params["tool"]}
    """)
    assert isinstance(spec, HookSpec)
    assert (spec.stages, spec.observe) == (("before_tool",), ())
    async with RecordingHost([spec]) as host:
        assert host.status().hooks[0].pid is not None
        assert (await host.before_tool(CALL)).reason == "no bash"


async def test_its_event_function_gets_every_event(tmp_path):
    spec = hook_process(f"""
        def event(params):
            with open({str(tmp_path / "events")!r}, "a") as file:
                print(params["Kind"], file=file)
    """)
    async with RecordingHost([spec]) as host:
        host.emit("turn_start")
        host.emit("turn_end")
    assert (tmp_path / "events").read_text().split() == ["turn_start", "turn_end"]


async def test_its_hello_function_answers_the_handshake():
    spec = hook_process(
        """
        def hello(params):
            return {"ok": False, "reason": "not with " + params["name"]}

        def approve_tool(params):
            return {"approved": True}
        """,
        name="me",
        restart={"max_starts": 1},
    )
    async with RecordingHost([spec]) as host:
        outcome = await host.approve_tool(CALL)
    assert outcome.approved is False
    assert "not with me" in outcome.reason


async def test_an_error_of_its_functions_ends_the_process_and_is_in_the_trail():
    spec = hook_process("""
        def before_tool(params):
            sys.exit(f"cannot cope with {params['tool']}")
    """)
    async with RecordingHost([spec.model_copy(update={"on_failure": "abort"})]) as host:
        with pytest.raises(AbortTurnError, match=r"exited with code 1; it said: cannot cope with bash"):
            await host.run_tool(CALL, lambda call: "ran")
