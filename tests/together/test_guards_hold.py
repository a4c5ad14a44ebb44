"""What guards let pass is what runs, whoever has hold of the call and changes it in place."""

from __future__ import annotations

import json
import threading

import anyio
import pytest
from loops import ON_BOTH

from picohook import (
    Account,
    Approve,
    Continue,
    Deny,
    EncodeError,
    Event,
    FunctionHook,
    Hook,
    HookSpec,
    Host,
    Listener,
    LLMRequest,
    Modify,
    Notes,
    Recorder,
    Respond,
    Retry,
    Timeouts,
    ToolCall,
    ToolResult,
)

pytestmark = pytest.mark.anyio

FAR = Timeouts(interceptor=60, approval=60, hello=60, chain=60, observer=60)
CHANGED = "Tool execution denied by hook: it was changed in place while hooks were asked about it"


def copying(files="a"):
    return ToolCall(tool="copy", arguments={"files": [[files]]}, affected_paths=["/tmp"])


def evil(call):
    call.arguments["files"][0].append("evil")


def guard(seen=None, **settings):
    """Denies what is evil, and remembers what it let pass."""

    async def judge(call):
        if "evil" in json.dumps(call.arguments):
            return Deny("that is evil")
        if seen is not None:
            seen.append(call.arguments)
        return None

    return FunctionHook("guard", {"before_tool": judge}, **{"guard": True, **settings})


class Tool:
    def __init__(self):
        self.ran = []

    def __call__(self, call):
        self.ran.append(call.arguments)
        return "done"


@pytest.fixture
def tool():
    return Tool()


async def run(tool, *hooks, call=None, **settings):
    async with Host(hooks, timeouts=FAR, **settings) as host:
        return await host.run_tool(call or copying(), tool)


# By a hook.


async def test_a_function_behind_the_guard_that_edits_in_place_makes_the_guard_be_asked_again(tool):
    result = await run(tool, guard(), FunctionHook("late", {"before_tool": evil}, after=["guard"]))
    assert result.for_llm == "Tool execution denied by hook: that is evil"
    assert tool.ran == []


async def test_an_edit_in_place_that_the_guard_allows_runs(tool):
    def add(call):
        call.arguments["files"][0].append("b")

    seen = []
    await run(tool, guard(seen), FunctionHook("late", {"before_tool": add}, after=["guard"]))
    assert tool.ran == [{"files": [["a", "b"]]}]
    assert seen == [{"files": [["a"]]}, {"files": [["a", "b"]]}]


async def test_a_hook_that_keeps_its_question_cannot_change_it_later(tool):
    kept = []

    def keep(call):
        kept.append(call)

    def spoil(_):
        evil(kept[0])
        return True

    await run(tool, guard(), FunctionHook("keeps", {"before_tool": keep, "approve_tool": spoil}, after=["guard"]))
    assert tool.ran == [{"files": [["a"]]}]


@pytest.mark.parametrize("answer", ["decision", "mapping", "patch"])
async def test_a_hook_that_keeps_its_answer_cannot_change_it_later(tool, answer):
    files = [["b"]]

    def edit(_):
        if answer == "mapping":
            return {"action": "modify", "call": {"arguments": {"files": files}}}
        if answer == "patch":
            return Modify(patch={"arguments": {"files": files}})
        return Modify({"arguments": {"files": files}})

    def spoil(_):
        files[0].append("evil")
        return True

    hook = FunctionHook("edits", {"before_tool": edit, "approve_tool": spoil})
    await run(tool, hook, guard(after=["edits"]))
    assert tool.ran == [{"files": [["b"]]}]


@ON_BOTH
async def test_a_function_that_runs_on_after_its_deadline_changes_nothing(tool):
    begun, release, done = threading.Event(), threading.Event(), threading.Event()

    def slow(call):
        begun.set()
        release.wait()
        evil(call)
        done.set()

    async def approve(_):
        release.set()
        if begun.is_set():  # on a busy machine, its time may be over before it begins
            await anyio.to_thread.run_sync(done.wait)
        return True

    hooks = [FunctionHook("slow", {"before_tool": slow}, timeout=0.05, on_failure="continue", after=["guard"])]
    await run(tool, guard(), *hooks, FunctionHook("gate", {"approve_tool": approve}))
    assert tool.ran == [{"files": [["a"]]}]


async def test_a_hook_of_a_kind_of_its_own_gets_a_copy_too(tool):
    class Own(Hook):
        async def handle(self, question):
            evil(question.payload)
            evil(question.encoded.payload)
            return Continue()

    await run(tool, guard(), Own(HookSpec(name="own", stages=("before_tool",), after=["guard"])))
    assert tool.ran == [{"files": [["a"]]}]


async def test_an_approver_cannot_change_the_call_for_another_one(tool):
    changed = anyio.Event()

    async def spoil(call):
        evil(call)
        changed.set()
        return False

    async def look(call):
        await changed.wait()
        seen.append(call.arguments)
        return True

    seen = []
    hooks = [FunctionHook("a", {"approve_tool": look}), FunctionHook("b", {"approve_tool": spoil})]
    async with Host(hooks, timeouts=FAR) as host, anyio.create_task_group() as tasks:
        tasks.start_soon(host.approve_tool, copying())
        assert not (await host.approve_tool(copying())).approved
    assert all(arguments == {"files": [["a"]]} for arguments in seen)


# By the program itself.


async def test_the_programs_changes_to_its_call_while_a_guard_decides_do_not_count(tool):
    call = copying()

    async def slow(_):
        evil(call)

    await run(tool, guard(), FunctionHook("slow", {"before_tool": slow}, after=["guard"]), call=call)
    assert tool.ran == [{"files": [["a"]]}]


async def test_asked_alone_about_a_call_that_is_changed_meanwhile_the_stage_denies():
    call = copying()

    async def slow(_):
        evil(call)

    async with Host([guard(), FunctionHook("slow", {"before_tool": slow}, after=["guard"])], timeouts=FAR) as host:
        outcome = await host.before_tool(call)
    assert (outcome.action, outcome.reason) == ("deny_tool", "it was changed in place while hooks were asked about it")


async def test_a_function_is_not_asked_about_another_call_than_the_others(tool):
    call = copying()

    async def slow(_):
        evil(call)

    hooks = [FunctionHook("slow", {"before_tool": slow}), guard(after=["slow"])]
    async with Host(hooks, timeouts=FAR) as host:
        outcome = await host.before_tool(call)
    assert outcome.reason == "hook guard failed: it was changed in place while hooks were asked about it"


async def test_a_stage_that_cannot_deny_ends_the_turn():
    said = [{"type": "text", "text": "hello"}]

    async def slow(_):
        said[0]["text"] = "evil"

    async def watch(_):
        return None

    hooks = [
        FunctionHook("guard", {"before_llm": watch}, guard=True),
        FunctionHook("slow", {"before_llm": slow}, after=["guard"]),
    ]
    async with Host(hooks, timeouts=FAR) as host:
        outcome = await host.before_llm(LLMRequest(messages=[{"role": "user", "content": said}]))
    assert outcome.action == "abort_turn"


# By a listener.


class Spoils(Account):
    at = ""

    def asking(self, hook, encoded):
        if self.at == "asking" and hook.name == "last":
            evil(encoded.payload)

    def concluded(self, outcome):
        if self.at == "concluded":
            evil(outcome.payload)
        if self.at == "replaced":
            outcome.payload = copying("evil")


def spoiling(at):
    class Watch(Listener):
        def begin(self, stage, payload):
            if stage.name != "before_tool":
                return None
            account = Spoils(stage, payload)
            account.at = at
            return account

    return Watch()


@pytest.mark.parametrize("at", ["asking", "concluded"])
async def test_a_call_that_a_listener_changes_does_not_run(tool, at):
    hooks = [guard(), FunctionHook("last", {"before_tool": lambda _: None}, after=["guard"])]
    result = await run(tool, *hooks, listeners=[spoiling(at)])
    assert tool.ran == []
    assert "changed" in result.for_llm


class Marks(Listener):
    """Gives the payload another meta."""

    def begin(self, stage, payload):
        meta = payload.meta.model_copy(update={"trace_path": stage.name})
        return Account(stage, payload.model_copy(update={"meta": meta}))


@pytest.mark.parametrize("at", ["asking", "concluded"])
async def test_a_call_that_a_listener_changes_does_not_run_though_another_one_marks_its_meta(tool, at):
    hooks = [guard(), FunctionHook("last", {"before_tool": lambda _: None}, after=["guard"])]
    result = await run(tool, *hooks, listeners=[Marks(), spoiling(at)])
    assert tool.ran == []
    assert "changed" in result.for_llm


async def test_an_outcome_in_which_a_listener_replaces_the_call_is_a_copy(tool):
    await run(tool, guard(), listeners=[spoiling("replaced")])
    assert tool.ran == [{"files": [["a"]]}]


async def test_a_function_of_on_change_gets_a_copy_of_the_outcome(tool):
    def spoil(outcome):
        if isinstance(outcome, Event):
            return
        evil(outcome.payload)
        outcome.action = "continue"
        outcome.approved = True

    async with Host([guard()], timeouts=FAR) as host:
        host.on_change.add(spoil)
        await host.run_tool(copying(), tool)
        denied = await host.run_tool(copying("evil"), tool)
    assert tool.ran == [{"files": [["a"]]}]
    assert denied.is_error


async def test_a_mark_of_a_listener_in_the_meta_does_not_count_as_a_change(tool):
    await run(tool, guard(), listeners=[Marks()])
    await run(tool, FunctionHook("e", {"before_tool": lambda _: Modify({"tool": "x"})}), guard(), listeners=[Marks()])
    assert len(tool.ran) == 2


async def test_an_observer_has_an_event_of_its_own(tool):
    seen = []

    async def spoil(event):
        if event.kind == "tool_exec_start":
            event.payload["Arguments"]["files"].clear()

    async def look(event):
        if event.kind == "tool_exec_start":
            seen.append(event.payload["Arguments"])

    def after(returned):
        seen.append(returned.arguments)

    hooks = [FunctionHook("a", on_event=spoil), FunctionHook("b", {"after_tool": after}, on_event=look)]
    await run(tool, *hooks)
    assert seen == [{"files": [["a"]]}] * 2


async def test_observers_get_an_event_as_it_was_when_it_was_emitted(tmp_path):
    said, seen = {"Reason": ["before"]}, []
    path = tmp_path / "record.jsonl"
    hook = FunctionHook("h", on_event=lambda event: seen.append(event.payload))
    async with Host([hook], timeouts=FAR, listeners=[Recorder(path)]) as host:
        host.emit("turn_abort", said)
        said["Reason"][0] = "after"
    assert seen == [{"Reason": ["before"]}]
    assert '"before"' in path.read_text()
    assert '"after"' not in path.read_text()


# At other stages.


async def test_changes_to_a_kept_payload_reach_no_other_hook_and_not_the_model():
    kept, seen = [], []

    def keep(request):
        kept.append(request)

    async def spoil(_):
        kept[0].messages[0]["content"] = "evil"

    def look(request):
        seen.append(request.messages[0]["content"])

    async def complete(request):
        seen.append(request.messages[0]["content"])
        return {"content": "hi"}

    stages = (("a", keep), ("b", spoil), ("c", look))
    hooks = [FunctionHook(name, {"before_llm": function}) for name, function in stages]
    async with Host(hooks, timeouts=FAR) as host:
        await host.run_llm({"messages": [{"role": "user", "content": "good"}]}, complete)
    assert seen == ["good", "good"]


async def test_a_hooks_answer_for_a_tool_cannot_be_changed_later():
    result, said = {"for_llm": "fine", "media": [{"url": "a"}]}, []

    def respond(_):
        return Respond(result, notes=Notes("", "", ({"role": "user", "content": said},)))

    def approve(_):
        result["media"][0]["url"] = "evil"
        said.append("evil")
        return True

    hook = FunctionHook("h", {"before_tool": respond, "approve_tool": approve})
    async with Host([hook], timeouts=FAR) as host:
        outcome = await host.before_tool(copying())
    assert outcome.result == ToolResult(for_llm="fine", media=[{"url": "a"}])
    assert outcome.notes[0].inject_messages[0]["content"] == []


async def test_a_tools_later_changes_to_its_result_do_not_count():
    media = [{"url": "a"}]

    def after(_):
        media[0]["url"] = "evil"

    hook = FunctionHook("h", {"after_tool": after})
    async with Host([hook], timeouts=FAR) as host:
        result = await host.run_tool(copying(), lambda _: ToolResult(media=media))
    assert result.media == [{"url": "a"}]


async def test_the_calls_of_a_batch_stay_as_they_were_at_its_beginning(tool):
    call = copying()

    async def slow(_):
        evil(call)

    hooks = [guard(), FunctionHook("slow", {"before_tool": slow}, after=["guard"])]
    async with (
        Host(hooks, timeouts=FAR) as host,
        host.session("s") as session,
        session.turn() as turn,
    ):
        await turn.tools([call], tool)
    assert tool.ran == [{"files": [["a"]]}]


async def test_a_call_that_cannot_be_copied_is_the_programs_mistake(tool):
    with pytest.raises(EncodeError, match="lock has no JSON form"):
        await run(tool, guard(), call=ToolCall(tool="x", arguments={"lock": threading.Lock()}))
    assert tool.ran == []


async def test_the_outcome_says_whether_its_payload_is_still_what_hooks_saw():
    async with Host([guard(), FunctionHook("gate", {"approve_tool": lambda _: True})], timeouts=FAR) as host:
        before = await host.before_tool(copying())
        approval = await host.approve_tool(before.payload)
        assert before.intact
        assert approval.intact
        evil(before.payload)
        assert not before.intact
        assert not approval.intact


async def test_an_answer_in_python_of_a_hook_outside_of_the_process_is_copied_too(tool):
    files = [["b"]]

    class Remote(Hook):
        in_process = False

        async def handle(self, question):
            if question.stage.name == "approve_tool":
                files[0].append("evil")
                return Approve()
            return Modify({"arguments": {"files": files}})

    await run(tool, Remote(HookSpec(name="remote", stages=("before_tool", "approve_tool"))))
    assert tool.ran == [{"files": [["b"]]}]


async def test_a_prompt_that_replaced_a_refused_one_and_was_changed_since_is_not_intact():
    def refuses(prompt):
        return Retry("say please") if prompt.prompt == "now" else None

    hooks = [
        FunctionHook("polite", {"before_prompt": refuses}),
        FunctionHook("other", {"before_prompt": lambda _: None}),
    ]
    async with Host(hooks, timeouts=FAR) as host:
        outcome = await host.before_prompt({"prompt": "now", "messages": [{"role": "user", "content": "hi"}]})
    assert (outcome.payload.prompt, outcome.intact) == ("say please", True)
    outcome.payload.messages[0]["content"] = "ho"
    assert not outcome.intact
