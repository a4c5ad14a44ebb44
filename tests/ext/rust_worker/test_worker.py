"""The Rust worker's document in Python: its hooks, its examples, its flow, and what it left to do."""

from __future__ import annotations

import json
import threading

import anyio
import pytest
from kinds_support import FAR
from loops import ON_BOTH
from rows import each

from picohook import (
    AbortTurnError,
    Continue as Go,
    Host,
    Meta,
    PausedError,
    RetryLimitError,
    ToolCall,
    ToolResult,
    worker_hooks,
)
from picohook.ext.rust_worker.worker import (
    Abort,
    Cancel,
    Continue,
    ContinueWithMessages,
    Finish,
    Message,
    Pause,
    Paused,
    PostToolCallContext,
    Skip,
    ToolCallContext,
    configured,
)
from picohook.model.payloads import Finish as FinishPayload, LLMRequest, Prompt, ToolReturn

pytestmark = pytest.mark.anyio

BASH = ToolCall(tool="bash", arguments={"command": "ls"}, tool_call_id="1", meta=Meta(session_key="s1"))
READ = ToolCall(tool="read", arguments={}, tool_call_id="2")
RETURNED = ToolReturn(**BASH.__dict__, result=ToolResult(for_llm="a.txt"))
MESSAGES = [{"role": "user", "content": "hello"}]


def host(more=(), **events):
    return Host([*worker_hooks(**events), *more], timeouts=FAR)


# Its examples.


class InputValidator:
    async def __call__(self, message):
        if not message.content.strip():
            return Cancel("Empty input")
        return Continue()


async def test_an_empty_input_cancels_the_run():
    async with host(on_prompt_submit=[InputValidator()]) as running:
        outcome = await running.before_prompt(Prompt(prompt="  "))
        assert (outcome.action, outcome.reason) == ("abort_turn", "Empty input")
        assert (await running.before_prompt(Prompt(prompt="hello"))).action == "continue"


class TimestampHook:
    async def __call__(self, context):
        context.insert(0, Message.user("[2024-01-01T00:00:00+09:00]"))
        return Continue()


async def test_a_timestamp_is_put_before_the_messages_of_every_request():
    requests = []

    async def complete(request):
        requests.append(request.messages)
        return {"content": "hi"}

    async with host(pre_llm_request=[TimestampHook()]) as running:
        await running.run_llm(LLMRequest(messages=MESSAGES), complete)
    assert requests == [[{"role": "user", "content": "[2024-01-01T00:00:00+09:00]"}, *MESSAGES]]


class ToolBlocker:
    def __init__(self, *blocked):
        self.blocked = set(blocked)

    async def __call__(self, ctx):
        return Skip() if ctx.call.name in self.blocked else Continue()


async def test_a_blocked_tool_is_skipped_its_call_does_not_dangle_and_the_others_run():
    ran = []

    async def execute(call):
        ran.append(call.tool)
        return "done"

    running = host(pre_tool_call=[ToolBlocker("bash")])
    async with running, running.session("s1") as session, session.turn("hello") as turn:
        results = await turn.tools([BASH, READ], execute)
    assert ran == ["read"]
    assert results[0] == ToolResult(for_llm="Tool execution denied by hook: skipped", is_error=True)
    assert results[1] == ToolResult(for_llm="done")
    assert [message["tool_call_id"] for message in turn.messages] == ["1", "2"]


class ResultFormatter:
    async def __call__(self, ctx):
        if not ctx.result.is_error:
            ctx.result.content = f"[OK] {ctx.result.content}"
        return Continue()


async def test_a_result_gets_a_prefix_and_an_error_does_not():
    async with host(post_tool_call=[ResultFormatter()]) as running:
        assert (await running.run_tool(BASH, lambda _: "a.txt")).for_llm == "[OK] a.txt"
        assert (await running.run_tool(BASH, lambda _: 1 / 0)).for_llm == "ZeroDivisionError: division by zero"


class JsonValidator:
    async def __call__(self, messages):
        last = next((message for message in reversed(messages) if message.role == "assistant"), None)
        if last is not None and isinstance(last.content, str):
            try:
                json.loads(last.content)
            except ValueError:
                return ContinueWithMessages([Message.user("Invalid JSON. Please fix and try again.")])
        return Finish()


async def test_an_answer_that_is_not_json_is_sent_back_until_it_is():
    requests = []

    async def complete(request):
        requests.append(request.messages)
        return {"content": "{oops" if len(requests) == 1 else "{}"}

    running = host(on_turn_end=[JsonValidator()])
    async with running, running.session("s1") as session, session.turn("give me JSON") as turn:
        result = await turn.run(complete=complete, execute=lambda _: None)
    asked = {"role": "user", "content": "give me JSON"}
    again = {"role": "user", "content": "Invalid JSON. Please fix and try again."}
    assert result.content == "{}"
    assert requests == [[asked], [asked, {"role": "assistant", "content": "{oops"}, again]]


class Counting:
    def __init__(self):
        self.count = 0

    async def __call__(self, _):
        self.count += 1
        return Continue()


async def test_a_hook_has_its_own_state():
    counting = Counting()
    async with host(pre_tool_call=[counting]) as running:
        for _ in range(3):
            await running.before_tool(BASH)
    assert counting.count == 3


async def test_an_input_is_changed_in_place():
    async def sanitize(ctx):
        ctx.call.input["sanitized"] = True
        return Continue()

    async with host(pre_tool_call=[sanitize]) as running:
        outcome = await running.before_tool(BASH)
    assert outcome.payload.arguments == {"command": "ls", "sanitized": True}
    assert BASH.arguments == {"command": "ls"}


# Its contexts.


async def test_a_hook_before_a_tool_sees_the_call_the_tool_and_its_description():
    seen = []
    tool = object()
    call = BASH.model_copy(update={"tool_kind": "execute", "affected_paths": ["/tmp"]})
    async with host(pre_tool_call=[seen.append], tools={"bash": tool}) as running:
        await running.before_tool(call)
        await running.before_tool(READ)
    first, second = seen
    assert isinstance(first, ToolCallContext)
    assert (first.call.id, first.call.name, first.call.input) == ("1", "bash", {"command": "ls"})
    assert (first.meta.name, first.meta.kind, first.meta.affected_paths) == ("bash", "execute", ("/tmp",))
    assert first.meta.at.session_key == "s1"
    assert first.tool is tool
    assert second.tool is None
    with pytest.raises(AttributeError):
        first.meta.name = "other"


async def test_a_hook_after_a_tool_sees_the_result_too():
    seen = []
    async with host(post_tool_call=[seen.append], tools={"bash": "it"}) as running:
        await running.after_tool(RETURNED)
    (context,) = seen
    assert isinstance(context, PostToolCallContext)
    assert (context.call.name, context.result.content, context.result.is_error, context.tool) == (
        "bash",
        "a.txt",
        False,
        "it",
    )


async def test_a_result_can_become_an_error():
    async def refuse(ctx):
        ctx.result.content, ctx.result.is_error = "no", True
        return Continue()

    async with host(post_tool_call=[refuse]) as running:
        outcome = await running.after_tool(RETURNED)
    assert outcome.payload.result == ToolResult(for_llm="no", is_error=True)


async def test_a_tool_can_be_renamed_and_a_prompt_rewritten():
    async def rename(ctx):
        ctx.call.name = "safe_bash"

    async def upper(message):
        message.content = message.content.upper()

    async with host(pre_tool_call=[rename], on_prompt_submit=[upper]) as running:
        assert (await running.before_tool(BASH)).payload.tool == "safe_bash"
        assert (await running.before_prompt(Prompt(prompt="hello"))).payload.prompt == "HELLO"


async def test_a_users_message_stays_text():
    async def parts(message):
        message.content = [{"type": "text", "text": "x"}]

    async with host(on_prompt_submit=[parts]) as running:
        outcome = await running.before_prompt(Prompt(prompt="hello"))
    assert (outcome.action, outcome.trail[0].error) == (
        "abort_turn",
        "it set the content of the user's message to something other than a text",
    )


async def test_an_unchanged_context_changes_nothing():
    strange = [
        {"content": None, "role": "assistant", "tool_calls": [{"id": "1"}]},
        {"role": "tool", "tool_call_id": "1", "content": [{"type": "text", "text": "x"}]},
        {"role": "developer"},
    ]
    everywhere = {
        event: [lambda _: None]
        for event in ("on_prompt_submit", "pre_llm_request", "pre_tool_call", "post_tool_call", "on_turn_end")
    }
    request = LLMRequest(messages=strange)
    async with host(**everywhere) as running:
        for outcome, payload in [
            (await running.before_llm(request), request),
            (await running.before_tool(BASH), BASH),
            (await running.after_tool(RETURNED), RETURNED),
        ]:
            assert outcome.payload is payload
            assert outcome.trail[0].action == "continue"


async def test_a_message_keeps_the_fields_that_the_hook_does_not_know():
    given = [
        {"role": "assistant", "content": None, "tool_calls": [{"id": "1"}]},
        {"role": "developer"},
        {"role": "user", "content": "x", "name": "jack"},
    ]

    async def edit(messages):
        messages[2].content = "y"
        messages.append(Message.system("z"))

    async with host(pre_llm_request=[edit]) as running:
        outcome = await running.before_llm(LLMRequest(messages=given))
    assert outcome.payload.messages == [
        *given[:2],
        {"role": "user", "content": "y", "name": "jack"},
        {"role": "system", "content": "z"},
    ]


# Its results, row by row.


async def test_pre_llm_request_cancel_ends_the_turn():
    async with host(pre_llm_request=[lambda _: Cancel("not now")]) as running:
        with pytest.raises(AbortTurnError, match="not now"):
            await running.run_llm(LLMRequest(), lambda _: pytest.fail("the model was asked"))


async def test_pre_tool_call_abort_ends_the_turn_and_later_hooks_are_not_asked():
    later = []
    async with host(pre_tool_call=[lambda _: Continue(), lambda _: Abort("reason"), later.append]) as running:
        with pytest.raises(AbortTurnError, match="reason"):
            await running.run_tool(BASH, lambda _: pytest.fail("it ran"))
    assert later == []


async def test_post_tool_call_abort_ends_the_turn_and_keeps_the_results_so_far():
    async def abort(ctx):
        return Abort("enough") if ctx.call.name == "read" else Continue()

    async def execute(call):
        return f"result of {call.tool}"

    async with host(post_tool_call=[abort]) as running, running.session("s1") as session:
        with pytest.raises(AbortTurnError, match="enough") as caught:
            async with session.turn("hello") as turn:
                await turn.tools([BASH, READ], execute)
    assert [result.for_llm for result in caught.value.results] == ["result of bash", "result of read"]


async def test_pause_stops_the_turn_and_resuming_forgets_no_decision():
    asked = []

    async def gate(ctx):
        asked.append(ctx.call.id)
        return Pause("ask a person") if ctx.call.name == "bash" else Continue()

    running = host(pre_tool_call=[gate])
    async with running, running.session("s1") as session:
        with pytest.raises(PausedError) as caught:
            async with session.turn("hello") as turn:
                await turn.tools([READ, BASH], lambda _: pytest.fail("it ran"))
        assert caught.value.reason == "ask a person"
        ran = []
        async with session.resume(caught.value.paused, Go()) as turn:
            results = await turn.tools(None, lambda call: ran.append(call.tool) or call.tool)
    assert asked == ["2", "1"]
    assert [result.for_llm for result in results] == ["read", "bash"]


async def test_on_turn_end_can_pause_too():
    running = host(on_turn_end=[lambda _: Paused("read it first")])
    async with running, running.session("s1") as session:
        with pytest.raises(PausedError, match="read it first"):
            async with session.turn("hello") as turn:
                await turn.run(complete=_say("hi"), execute=lambda _: None)


def _say(text):
    async def complete(_):
        return {"content": text}

    return complete


async def test_endless_messages_are_cut_off():
    running = host(on_turn_end=[lambda _: ContinueWithMessages([Message.user("again")])])
    async with running, running.session("s1") as session:
        with pytest.raises(RetryLimitError):
            async with session.turn("hello") as turn:
                await turn.run(complete=_say("hi"), execute=lambda _: None)


async def test_on_turn_end_sees_the_answer_though_the_runtime_keeps_it_elsewhere():
    seen = []
    finish = FinishPayload(prompt="hello", messages=MESSAGES, response={"content": "hi"})

    async def again(messages):
        seen.extend(messages)
        return ContinueWithMessages([{"role": "user", "content": "again"}])

    async with host(on_turn_end=[again]) as running:
        outcome = await running.before_finish(finish)
    assert (seen[-1].role, seen[-1].content) == ("assistant", "hi")
    assert outcome.payload.messages == [
        *MESSAGES,
        {"role": "assistant", "content": "hi"},
        {"role": "user", "content": "again"},
    ]


async def test_on_turn_end_can_edit_the_messages_and_finish():
    finish = FinishPayload(prompt="hello", messages=MESSAGES, response={"content": "hi"})

    async def edit(messages):
        messages.insert(0, Message.system("first"))
        return Finish()

    async with host(on_turn_end=[edit]) as running:
        outcome = await running.before_finish(finish)
    assert outcome.payload.messages == [{"role": "system", "content": "first"}, *MESSAGES]


async def test_on_abort_gets_the_reason_only_if_a_turn_is_aborted():
    reasons = []
    running = host(on_abort=[reasons.append], pre_tool_call=[lambda _: Abort("too dangerous")])
    async with running, running.session("s1") as session:
        async with session.turn("hello"):
            pass
        assert reasons == []
        with pytest.raises(AbortTurnError):
            async with session.turn("hello") as turn:
                await turn.tools([BASH], lambda _: None)
    assert reasons == ["too dangerous"]


# Each event has its own results.


@each(
    ("event", "result", "error"),
    [
        ("on_prompt_submit", Skip(), "it returned Skip, and its event allows Continue, Cancel"),
        ("pre_llm_request", Pause(), "it returned Pause, and its event allows Continue, Cancel"),
        ("pre_tool_call", Cancel("x"), "it returned Cancel, and its event allows Continue, Skip, Abort, Pause"),
        ("pre_tool_call", Go(), "it returned Continue, and its event allows Continue, Skip, Abort, Pause"),
        ("post_tool_call", Skip(), "it returned Skip, and its event allows Continue, Abort"),
        ("on_turn_end", Continue(), "it returned Continue, and its event allows Finish, ContinueWithMessages, Paused"),
        ("on_turn_end", ContinueWithMessages([]), "it asked for another round without feedback and without a change"),
        ("pre_tool_call", "skip", "it returned str, and its event allows Continue, Skip, Abort, Pause"),
    ],
)
async def test_a_result_of_another_event_is_a_failure(event, result, error):
    asks = {
        "on_prompt_submit": lambda running: running.before_prompt(Prompt(prompt="hello")),
        "pre_llm_request": lambda running: running.before_llm(LLMRequest(messages=MESSAGES)),
        "pre_tool_call": lambda running: running.before_tool(BASH),
        "post_tool_call": lambda running: running.after_tool(RETURNED),
        "on_turn_end": lambda running: running.before_finish(FinishPayload(messages=MESSAGES)),
    }
    async with host(**{event: [lambda _: result]}) as running:
        outcome = await asks[event](running)
    assert outcome.action == "abort_turn"
    assert outcome.trail[0].error.startswith(error)


# Its flow.


async def test_hooks_of_an_event_are_asked_in_the_given_order_and_see_earlier_edits():
    def append(letter):
        async def hook(ctx):
            ctx.call.input["seen"] = ctx.call.input.get("seen", "") + letter
            return Continue()

        return hook

    async with host(pre_tool_call=[append(letter) for letter in "abcdefghijkl"]) as running:
        outcome = await running.before_tool(BASH)
    assert outcome.payload.arguments["seen"] == "abcdefghijkl"


async def test_before_hooks_run_one_by_one_then_tools_together_then_after_hooks_one_by_one():
    order = []
    both_run = anyio.Event()

    async def execute(call):
        order.append(f"run {call.tool}")
        if sum(step.startswith("run") for step in order) == 2:
            both_run.set()
        await both_run.wait()
        return "done"

    running = host(
        pre_tool_call=[lambda ctx: order.append(f"before {ctx.call.name}")],
        post_tool_call=[lambda ctx: order.append(f"after {ctx.call.name}")],
    )
    async with running, running.session("s1") as session, session.turn("hello") as turn:
        with anyio.fail_after(30):
            await turn.tools([BASH, READ], execute)
    assert order[:2] == ["before bash", "before read"]
    assert sorted(order[2:4]) == ["run bash", "run read"]
    assert order[4:] == ["after bash", "after read"]


# What it left to do.


async def raises(ctx):
    if isinstance(ctx, ToolCallContext):
        ctx.call.input["changed"] = True
    raise OSError("no disk")


async def test_a_hook_that_raises_ends_the_turn_as_it_did_there():
    async with host(pre_tool_call=[raises]) as running:
        outcome = await running.before_tool(BASH)
    assert (outcome.action, outcome.payload) == ("abort_turn", BASH)
    assert outcome.trail[0].error.startswith("OSError: no disk (test_worker.py:")


@pytest.mark.parametrize(("rule", "action"), [("continue", "continue"), ("deny", "deny_tool"), ("abort", "abort_turn")])
async def test_or_does_as_its_settings_say_and_loses_its_changes(rule, action):
    async with host(pre_tool_call=[configured(raises, on_failure=rule)]) as running:
        outcome = await running.before_tool(BASH)
    assert (outcome.action, outcome.payload) == (action, BASH)


@ON_BOTH
async def test_a_hook_that_takes_too_long_is_cancelled_and_fails():
    cancelled = []

    async def hang(_):
        try:
            await anyio.sleep_forever()
        finally:
            cancelled.append(True)

    async with host(pre_tool_call=[hang], timeout=0.05) as running:
        outcome = await running.before_tool(BASH)
    assert (outcome.action, outcome.trail[0].error) == ("abort_turn", "no answer in time")
    assert cancelled == [True]


async def test_priorities_and_dependencies_can_change_the_order():
    order = []

    def named(name):
        return lambda _: order.append(name)

    first = configured(named("first"), priority=1)
    after = configured(named("after"), priority=0, after=["worker.pre_tool_call-1"])
    async with host(pre_tool_call=[named("given"), first, after]) as running:
        await running.before_tool(BASH)
    assert order == ["first", "given", "after"]


async def test_a_hook_can_have_a_condition():
    seen = []
    limited = configured(lambda ctx: seen.append(ctx.call.name), filter={"tool": "ba*"})
    async with host(pre_tool_call=[limited]) as running:
        await running.before_tool(BASH)
        await running.before_tool(READ)
    assert seen == ["bash"]


async def test_a_plain_function_is_a_hook_too_and_runs_beside_the_loop():
    threads = []
    async with host(pre_tool_call=[lambda _: threads.append(threading.current_thread())]) as running:
        await running.before_tool(BASH)
    assert threads[0] is not threading.current_thread()
