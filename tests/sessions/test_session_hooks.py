"""Hooks of one session: asked and told in that session object, and in no other."""

from __future__ import annotations

import anyio
import pytest
from turns import FAR, Model, Tools, host_with, kinds, says, wants

from picohook import (
    AbortTurn,
    ConfigError,
    Deny,
    FunctionHook,
    HardAbort,
    HardAbortError,
    HookCrashedError,
    HookSpec,
    Host,
    LLMRequest,
    Modify,
    Pause,
    PausedError,
    PicohookError,
    Retry,
    Session,
    ToolCall,
    ToolResult,
    blade_hooks,
)
from picohook.calls.model_call import in_rounds
from picohook.ext.blade.hooks import HookEvent
from picohook.ext.jcli.dialect import RegisteredHooks
from picohook.integrations.agent_run import AgentRun
from picohook.testing import FakeHook

pytestmark = pytest.mark.anyio


async def one_tool(session, tool="bash"):
    """A turn with one tool call; what was run."""
    tools = Tools()
    async with session.turn("hello") as turn:
        await turn.run(complete=Model(wants(tool), says("done")).complete, execute=tools.execute)
    return tools.ran


async def test_hooks_of_one_session_are_not_asked_in_another_even_with_the_same_id():
    a, b = FakeHook("guard", {"before_tool": Deny("not in a")}), FakeHook("guard", {"before_tool": None})
    async with host_with() as host, host.session("same", hooks=[a]) as one, host.session("same", hooks=[b]) as two:
        async with host.session("same") as three:
            ran = [await one_tool(session) for session in (one, two, three)]
        await host.run_tool({"tool": "bash", "meta": {"SessionKey": "same"}}, lambda _: "")
    assert ran == [[], ["bash"], ["bash"]]
    assert (len(a.asked), len(b.asked)) == (1, 1)


async def test_a_session_that_is_begun_from_another_ones_host_does_not_have_its_hooks():
    outer, inner = FakeHook("outer", {"before_tool": None}), FakeHook("inner", {"before_tool": None})
    async with host_with() as host, host.session("s1", hooks=[outer]) as session:
        async with Session(session.host, "s2", hooks=[inner]) as another:
            await one_tool(another)
        await host.mount(late := FakeHook("late", {"before_tool": None}))
        await one_tool(session)
        assert host.hooks == (late,)
        assert [status.name for status in session.host.status().hooks] == ["late", "outer@session"]
    assert [len(hook.asked) for hook in (outer, inner, late)] == [1, 1, 1]


async def test_they_get_the_events_of_their_session_only():
    hook = FakeHook("h", observe=("session_start", "turn_start", "session_end"))
    async with host_with() as host, host.session("s1", hooks=[hook]) as session, host.session("s2") as other:
        await one_tool(session)
        await one_tool(other)
        await host.emit_and_wait("turn_start")
    assert [(event.kind, event.meta.session_key) for event in hook.events] == [
        ("session_start", "s1"),
        ("turn_start", "s1"),
        ("session_end", "s1"),
    ]
    assert kinds(host).count("turn_start") == 3


async def test_they_are_asked_after_all_hooks_of_the_host_in_their_own_order():
    def adds(word):
        return {"before_prompt": lambda prompt: Modify({"prompt": f"{prompt.prompt} {word}"})}

    hosts = [FakeHook("user", adds("user"), layer="user"), FakeHook("late", adds("late"), layer="session")]
    own = [FakeHook("b", adds("b"), after=("c",)), FakeHook("c", adds("c")), FakeHook("d", adds("d"), priority=1)]
    async with host_with(*hosts) as host, host.session("s1", hooks=own) as session:
        assert [hook.name for hook in session.hooks] == ["b@session", "c@session", "d@session"]
        outcome = await session.host.before_prompt({"prompt": "x"})
        assert [entry.hook for entry in outcome.trail] == ["user", "late", "d@session", "c@session", "b@session"]
        assert outcome.payload.prompt == "x user late d c b"
        await host.mount(FakeHook("new", adds("new")))  # what comes later to the host comes before them, too
        assert (await session.host.before_prompt({"prompt": "x"})).payload.prompt == "x user late new d c b"
        await host.unmount("user")
        assert (await session.host.before_prompt({"prompt": "x"})).payload.prompt == "x late new d c b"
        assert (await host.before_prompt({"prompt": "x"})).payload.prompt == "x late new"


async def test_a_guard_of_the_host_is_asked_again_about_their_edits():
    guard = FakeHook(
        "guard", {"before_tool": lambda call: Deny("no") if call.arguments.get("n") == 2 else None}, guard=True
    )
    own = FakeHook("own", {"before_tool": Modify({"arguments": {"n": 2}})})
    async with host_with(guard) as host, host.session("s1", hooks=[own]) as session:
        assert await one_tool(session) == []
    assert len(guard.asked) == 2


async def test_their_guards_and_approvers_count_and_so_do_the_hosts_approvers():
    approver, own = FakeHook("yes", {"approve_tool": True}), FakeHook("no", {"approve_tool": False})
    async with host_with(approver) as host, host.session("s1", hooks=[own]) as session:
        assert await one_tool(session) == []
        assert (await host.approve_tool({"tool": "bash"})).approved
    assert len(approver.asked) == 2


async def test_sub_turns_have_the_hooks_of_their_session():
    own = FakeHook("own", {"before_tool": None})
    async with host_with() as host, host.session("s1", hooks=[own]) as session, session.turn("hello") as turn:

        async def execute(call):
            if call.tool == "look":
                async with session.turn("inside", parent=turn) as inner:
                    await inner.run(complete=Model(wants("read"), says("x")).complete, execute=Tools().execute)

        await turn.run(complete=Model(wants("look"), says("x")).complete, execute=execute)
    assert [call.tool for call in own.asked_at("before_tool")] == ["look", "read"]


async def test_a_hook_that_is_mounted_while_a_turn_runs_is_asked_from_then_on():
    own = FakeHook("own", {"before_tool": Deny("no more")})
    tools = Tools()
    async with host_with() as host, host.session("s1") as session, session.turn("hello") as turn:

        async def execute(call):
            await session.mount(own)
            return await tools.execute(call)

        model = Model(wants("first"), wants("second"), says("done"))
        await turn.run(complete=model.complete, execute=execute)
        assert tools.ran == ["first"]
        await session.unmount("own")
        assert await one_tool(session) == ["bash"]
        assert (session.hooks, host.hooks) == ((), ())


async def test_they_are_stopped_at_the_sessions_end_and_later_questions_raise():
    closed = anyio.Event()

    class Noticing(FakeHook):
        def stop(self):
            super().stop()
            closed.set()

    hook = Noticing("h", {"before_tool": None})
    async with host_with() as host:
        async with host.session("s1", hooks=[hook]) as session:
            view, turn = session.host, session.turn("late")
            assert not closed.is_set()
        assert closed.is_set()
        for late in (view.before_tool({"tool": "bash"}), turn.prompt()):
            with pytest.raises(PicohookError, match="the session is over, and its hooks are gone"):
                await late
        assert (await host.before_tool({"tool": "bash"})).trail == ()


async def test_a_session_with_hooks_that_is_not_entered_raises():
    async with host_with() as host:
        session = host.session("s1", hooks=[FakeHook("h", {"before_tool": None})])
        for use in (lambda: session.turn("hello"), lambda: session.host):
            with pytest.raises(PicohookError, match="'s1' has hooks, and is not entered"):
                use()
        with pytest.raises(PicohookError, match="not open"):
            await session.mount(FakeHook("h"))


async def test_a_hook_object_is_mounted_in_one_session_at_a_time():
    hook = FakeHook("h", {"before_tool": None})
    async with host_with() as host:
        async with host.session("s1", hooks=[hook]):
            with pytest.raises(PicohookError, match="is mounted already: make another one"):
                async with host.session("s2", hooks=[hook]):
                    pytest.fail("it was mounted twice")
        async with host.session("s3", hooks=[hook]) as session:  # it is free again
            assert await one_tool(session) == ["bash"]
    assert len(hook.asked) == 1


async def test_their_names_cannot_be_those_of_hooks_of_the_host():
    gate, own = FakeHook("gate", {"before_tool": Deny("no")}), FakeHook("gate", {"before_tool": None})
    async with host_with() as host:
        async with host.session("s1", hooks=[own]) as session:
            await host.mount(gate)  # the host's own guard does not give way to a session's hook of its name
            assert await one_tool(session) == []
            with pytest.raises(PicohookError, match="a hook named 'gate' is mounted already"):
                await session.mount(FakeHook("gate"))
        with pytest.raises(PicohookError, match="own hooks end in @session"):
            await host.mount(FakeHook("gate@session"))


@pytest.mark.parametrize(
    ("hook", "error", "said"),
    [
        (FakeHook("h", layer="user"), PicohookError, "is of the layer session"),
        (FakeHook("h", after=("nobody",)), ConfigError, "there is no hook 'nobody'"),
        (FakeHook("", {"before_tool": None}), PicohookError, "a hook needs a name"),
        (
            HookSpec(name="h", command=("/nowhere",), stages=("before_tool",), required=True),
            HookCrashedError,
            "is required, and did not start",
        ),
    ],
)
async def test_a_session_whose_hooks_cannot_be_mounted_does_not_begin(hook, error, said):
    good = FakeHook("good", {"before_tool": None})
    async with host_with() as host:
        with pytest.raises(error, match=said):
            async with host.session("s1", hooks=[good, hook]):
                pytest.fail("it began")
        assert kinds(host) == []
        async with host.session("s1", hooks=[good]):  # nothing is left of it
            pass


async def test_hooks_of_a_session_that_wait_for_each_other_are_refused_and_none_of_them_is_asked():
    circle = [FakeHook("a", {"before_tool": Deny("no")}, after=("b",)), FakeHook("b", after=("a",))]
    async with host_with() as host, host.session("s1") as session:
        with pytest.raises(ConfigError, match="waits for itself"):
            await session.mount(*circle)
        assert session.hooks == ()
        assert await one_tool(session) == ["bash"]


async def test_a_hook_of_a_session_owns_tools_in_that_session_only():
    def offering():
        weather = {"type": "function", "function": {"name": "weather"}}
        return FakeHook(
            "weather",
            {
                "before_llm": lambda request: Modify({"tools": [*request.tools, weather]}),
                "before_tool": {"action": "respond", "result": {"for_llm": "sunny"}},
            },
        )

    approver = FakeHook("approver", {"approve_tool": False})
    call = {"tool": "weather", "meta": {"SessionKey": "same"}}
    async with (
        host_with(approver) as host,
        host.session("same", hooks=[offering()]) as one,
        host.session("same", hooks=[offering()]) as two,
    ):
        await one.host.before_llm({"meta": {"SessionKey": "same"}})
        assert (await one.host.before_tool(call)).action == "respond"
        assert (await two.host.before_tool(call)).action == "deny_tool"


async def test_a_hook_that_comes_late_cannot_claim_a_tool_that_the_runtime_offered_before():
    offered = {"type": "function", "function": {"name": "bash"}}
    hook = FakeHook(
        "h",
        {
            "before_llm": Modify({"tools": [offered]}),
            "before_tool": {"action": "respond", "result": {"for_llm": "made up"}},
        },
    )
    meta = {"SessionKey": "s1"}
    async with host_with(FakeHook("no", {"approve_tool": False})) as host, host.session("s1") as session:
        await session.host.before_llm({"tools": [offered], "meta": meta})
        await session.mount(hook)
        await session.host.before_llm({"tools": [], "meta": meta})
        assert (await session.host.before_tool({"tool": "bash", "meta": meta})).action == "deny_tool"


async def test_a_pause_by_a_hook_of_a_session_is_answered_for_in_another_session_of_that_id():
    def boss():
        return FakeHook("boss", {"before_tool": Pause("may it?")})

    tools = Tools()
    async with host_with() as host:
        with pytest.raises(PausedError) as raised:
            async with host.session("s1", hooks=[boss()]) as session, session.turn("hello") as turn:
                await turn.run(complete=Model(wants("rm")).complete, execute=tools.execute)
        paused = raised.value.paused
        assert paused.hook == "boss@session"
        async with host.session("s1", hooks=[boss()]) as session, session.resume(paused, Deny("no")) as turn:
            await turn.run(complete=Model(says("well")).complete, execute=tools.execute)
    assert tools.ran == []


async def test_a_reload_leaves_them_alone_and_stops_the_hooks_that_it_replaces(tmp_path):
    config = tmp_path / "picohook.toml"
    config.write_text("[hooks.gate]\nrun = \"echo '{}'\"\nstages = ['before_tool']\n")
    config.chmod(0o644)
    own = FakeHook("own", {"before_tool": None})
    async with Host.from_config(config) as host, host.session("s1", hooks=[own]) as session:
        config.write_text("[hooks.other]\nrun = \"echo '{}'\"\nstages = ['before_tool']\n")
        await host.reload()
        assert [hook.name for hook in session.host.asked_at("before_tool")] == ["other", "own@session"]
        assert [hook.name for hook in host.asked_at("before_tool")] == ["other"]


# Blade and j-cli.


async def test_blades_hooks_of_two_sessions_do_not_see_each_others_calls():
    seen = {"a": [], "b": []}

    def hooks(name):
        async def audit(given):
            seen[name].append((given["sessionId"], given["toolName"]))

        return blade_hooks({HookEvent.PreToolUse: [audit]})

    async with host_with() as host, host.session("a", hooks=hooks("a")) as a, host.session("b", hooks=hooks("b")) as b:
        await one_tool(a, "read")
        await one_tool(b, "write")
    assert seen == {"a": [("a", "read")], "b": [("b", "write")]}


@pytest.mark.parametrize("event", [HookEvent.UserPromptSubmit, HookEvent.PreToolUse, HookEvent.PostToolUse])
@pytest.mark.parametrize("of_session", [True, False])
async def test_blades_abort_ends_the_session_and_its_next_turn_raises(event, of_session):
    hooks = blade_hooks({event: [lambda given: {"action": "abort", "reason": "dangerous"}]})
    async with host_with(*([] if of_session else hooks)) as host:
        async with host.session("s1", hooks=hooks if of_session else ()) as session:
            made = session.turn("made before")
            with pytest.raises(HardAbortError, match="dangerous"):
                await one_tool(session)
            with pytest.raises(HardAbortError, match=r"ended the session: dangerous"):
                session.turn("next")
            with pytest.raises(HardAbortError, match=r"ended the session: dangerous"):
                await made.__aenter__()
        async with host.session("s1") as another:
            assert another.turn("a session of its own")


async def test_a_hard_abort_of_any_other_hook_closes_no_session():
    hook = FakeHook("h", {"before_tool": [HardAbort("stop"), AbortTurn("stop"), None]})
    async with (
        host_with(hook) as host,
        host.session("s1", hooks=[FakeHook("own", {"before_llm": [HardAbort("x"), *[None] * 9]})]) as session,
    ):
        for _ in range(3):
            with pytest.raises(Exception, match=r"stop|x"):
                await one_tool(session)
        assert await one_tool(session) == ["bash"]


@pytest.mark.parametrize("event", [HookEvent.SessionStart, HookEvent.TaskCompleted, HookEvent.SessionEnd])
@pytest.mark.parametrize("action", ["abort", "skip"])
async def test_a_blade_callbacks_decision_about_an_event_is_logged(event, action, journal):
    hooks = blade_hooks({event: [lambda given: {"action": action}]})
    async with host_with(logger=journal) as host, host.session("s1", hooks=hooks) as session, session.turn("hello"):
        pass
    (record,) = journal.all("its decision has no effect")
    assert action in record["why"]
    assert record["hook"].startswith(f"blade.{event}")


async def test_jclis_registered_hooks_are_listed_and_removed_by_their_index():
    async with host_with() as host, host.session("s1") as session, host.session("s2") as other:
        registered = RegisteredHooks(session)
        deny = {"command": 'echo \'{"action": "skip"}\'', "filter": {"tool_name": "Bash"}}
        assert await registered.register("pre_tool_execution", deny) == 0
        assert await registered.register("post_tool_execution", {"command": "true", "timeout": 3}) == 1
        assert registered.list() == [
            {"session_idx": 0, "event": "pre_tool_execution", **deny},
            {"session_idx": 1, "event": "post_tool_execution", "command": "true", "timeout": 3},
        ]
        assert await one_tool(session, "Bash") == []
        assert await one_tool(other, "Bash") == ["Bash"]
        await registered.remove(0)
        assert [one["event"] for one in registered.list()] == ["post_tool_execution"]
        assert registered.list()[0]["session_idx"] == 0
        assert await one_tool(session, "Bash") == ["Bash"]
        with pytest.raises(PicohookError, match="there is no registered hook 1"):
            await registered.remove(1)
        with pytest.raises(ConfigError, match="not an event of j-cli"):
            await registered.register("pre_tool", deny)
        assert len(registered.list()) == 1


async def test_jclis_registered_hooks_run_in_the_order_in_which_they_were_registered():
    async with host_with() as host, host.session("s1") as session:
        registered = RegisteredHooks(session)
        for word in [f"w{number}" for number in range(11)]:
            code = "import json,sys;print(json.dumps({'user_input':json.load(sys.stdin)['user_input']+' %s'}))"
            if word in {"w0", "w2", "w10"}:
                await registered.register("pre_send_message", {"command": f'python3 -c "{code % word}"'})
            else:
                await registered.register("session_end", {"command": "true"})
        assert (await session.host.before_prompt({"prompt": "x"})).payload.prompt == "x w0 w2 w10"
        for _ in range(11):
            await registered.remove(0)
        assert session.hooks == ()


async def test_a_hook_of_a_session_may_send_its_prompt_back():
    own = FakeHook("own", {"before_prompt": Retry("politely")})
    model = Model(says("hi"))
    async with Host(timeouts=FAR) as host, host.session("s1", hooks=[own]) as session, session.turn("hey you") as turn:
        await turn.run(complete=model.complete, execute=Tools().execute)
    assert model.requests[0].messages == [{"role": "user", "content": "politely"}]
    assert len(own.asked) == 1


async def test_functions_that_decide_about_an_event_are_logged_and_others_are_not(journal):
    hooks = [
        FunctionHook("decides", on_event=lambda _: Deny("no"), observe=("turn_start",)),
        FunctionHook("says", on_event=lambda _: "a text", observe=("turn_start",)),
    ]
    async with host_with(*hooks, logger=journal) as host:
        await host.emit_and_wait("turn_start")
    assert [record["hook"] for record in journal.all("its decision has no effect")] == ["decides"]


@pytest.mark.parametrize("how", ["run_tool", "run_llm"])
async def test_blades_abort_of_a_single_call_ends_the_session_too(how):
    stages = ("before_tool", "before_llm")
    aborts = FunctionHook("h", dict.fromkeys(stages, lambda _: HardAbort("dangerous")))
    aborts.ends_sessions = True  # as a callback of Blade has it, which is not asked at before_llm
    async with host_with(aborts) as host, host.session("s1") as session, host.session("s1") as other:
        given = ({"tool": "bash"}, lambda _: "") if how == "run_tool" else ({}, Model(says("x")).complete)
        with pytest.raises(HardAbortError):
            await getattr(session.host, how)(*given)
        with pytest.raises(HardAbortError, match="ended the session: dangerous"):
            session.turn("next")
        assert other.turn("a session of its own")
        assert Session(session.host, "s2").turn("and so is one that is begun from its host")


async def test_the_error_of_a_session_that_ended_without_a_reason_is_a_whole_sentence():
    hooks = blade_hooks({HookEvent.PreToolUse: [lambda given: {"action": "abort"}]}, name="b")
    async with host_with(*hooks) as host, host.session("s1") as session:
        with pytest.raises(HardAbortError):
            await one_tool(session)
        with pytest.raises(HardAbortError, match=r"^hook b\.PreToolUse-1 ended the session$"):
            session.turn("next")


async def test_a_frameworks_run_with_a_sessions_host_has_the_sessions_hooks_at_every_stage_and_its_end():
    hook = FakeHook("own", {"before_llm": None, "before_tool": [None, HardAbort("stop")]}, observe=("turn_start",))
    hook.ends_sessions = True

    async def execute(_):
        return ToolResult(for_llm="did it")

    async with host_with() as host, host.session("s1", hooks=[hook]) as session:
        async with AgentRun(session.host, "s1", "hello") as guard:
            async with guard.model_call(LLMRequest()) as decided:
                await in_rounds(decided, Model(says("x")).complete)
            await guard.tool(lambda: ToolCall(tool="bash"), execute, lambda result: result)
            with pytest.raises(HardAbortError):
                await guard.tool(lambda: ToolCall(tool="bash"), execute, lambda result: result)
        with pytest.raises(HardAbortError, match="ended the session"):
            AgentRun(session.host, "s1", "hello again")
        assert AgentRun(host, "s1", "the whole host's").turn
    assert [asked.stage for asked in hook.asked] == ["before_llm", "before_tool", "before_tool"]
    assert [event.kind for event in hook.events] == ["turn_start"]


async def test_a_hook_that_runs_already_is_refused_and_runs_on():
    running, new = FakeHook("running", {"before_tool": None}), FakeHook("new", {"before_tool": None})
    async with host_with(running) as host, host.session("s1") as session:
        with pytest.raises(PicohookError, match="'running' is mounted already"):
            await session.mount(new, running)
        assert (session.hooks, new.name) == ((), "new")
        await host.mount(new)  # none of it was begun
        assert [hook.name for hook in host.hooks if isinstance(hook, FakeHook)][-2:] == ["running", "new"]
        await one_tool(session)
    assert (len(running.asked), len(new.asked)) == (1, 1)


async def test_they_cannot_be_mounted_unmounted_or_stopped_in_another_event_loop():
    hook, late = FakeHook("h", {"before_tool": None}), FakeHook("late", {"before_tool": None})
    async with host_with() as host, host.session("s1", hooks=[hook]) as session:
        for act in (
            lambda: session.mount(late),
            lambda: session.unmount("h"),
            lambda: session.__aexit__(None, None, None),
        ):
            with pytest.raises(PicohookError, match="another event loop"):
                await anyio.to_thread.run_sync(anyio.run, act)
            assert session.hooks == (hook,)
        await one_tool(session)
    assert len(hook.asked) == 1
