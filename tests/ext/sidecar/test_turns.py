"""Sessions and turns whose loop runs in a client: ids, iterations, notes, rounds, pauses, events."""

from __future__ import annotations

import json

import anyio
import anyio.lowlevel
import pytest

from picohook import Continue, Deny, FunctionHook, Host, Modify, Notes, Pause, Respond, Retry, Session

pytestmark = pytest.mark.anyio

MESSAGES = [{"role": "user", "content": "hello"}]


class Observer(FunctionHook):
    """Keeps every event."""

    def __init__(self):
        super().__init__("observer", on_event=lambda _: None)
        self.events = []

    def notify(self, event):
        self.events.append(event)

    async def kinds(self, last):
        """The kinds of all events, when the last one has come."""
        with anyio.fail_after(30):
            while not self.events or self.events[-1].kind != last:
                await anyio.lowlevel.checkpoint()
        return [event.kind for event in self.events]

    def payload(self, kind):
        return next(event.payload for event in self.events if event.kind == kind)


@pytest.fixture
def observer():
    return Observer()


async def begin(client, **about):
    """A session and a turn in it."""
    await client.result("session.start", {"session": "s", "agent_id": "main", "channel": "web", "chat_id": "7"})
    return (await client.result("turn.start", {"session": "s", "turn": "t", **about}))["meta"]


OF_T = {"TurnID": "t"}


async def test_a_whole_turn_emits_the_same_events_as_one_in_python(serving, connect, observer):
    call = {"tool": "read", "arguments": {"path": "x"}, "tool_call_id": "c1"}
    response = {"content": "", "tool_calls": [{"id": "c1"}]}
    async with serving(Host([observer])):
        client = await connect()
        await begin(client, user_message="hello")
        await client.result("before_prompt", {"prompt": "hello", "meta": OF_T})
        await client.result("before_llm", {"model": "m", "messages": MESSAGES, "meta": OF_T})
        await client.result("after_llm", {"response": response, "meta": OF_T})
        await client.result("before_tool", {**call, "meta": OF_T})
        await client.result("approve_tool", {**call, "meta": OF_T})
        await client.result("after_tool", {**call, "result": {"for_llm": "text"}, "duration": 5, "meta": OF_T})
        await client.result("before_llm", {"model": "m", "messages": MESSAGES, "meta": OF_T})
        await client.result("after_llm", {"response": {"content": "bye"}, "meta": OF_T})
        await client.result("before_finish", {"prompt": "hello", "response": {"content": "bye"}, "meta": OF_T})
        assert await client.result("turn.end", {"turn": "t"}) == {"iterations": 2}
        assert await client.result("session.end", {"session": "s"}) is True
        through_sidecar = await observer.kinds("session_end")
    assert observer.payload("turn_end")["FinalContent"] == "bye"
    assert observer.payload("tool_exec_end")["Duration"] == 5

    plain = Observer()
    async with Host([plain]) as host, Session(host, "s") as session:
        answers = iter(
            [{"content": "", "tool_calls": [{"id": "c1", "function": {"name": "read"}}]}, {"content": "bye"}]
        )

        async def complete(_):
            return next(answers)

        async with session.turn("hello") as turn:
            await turn.run(complete=complete, execute=lambda _: "text")
    assert through_sidecar == [event.kind for event in plain.events]


async def test_payloads_in_a_turn_get_its_ids_and_iteration(serving, connect):
    async with serving(Host()):
        client = await connect()
        meta = await begin(client)
        assert meta == {
            "AgentID": "main",
            "TurnID": "t",
            "ParentTurnID": "",
            "SessionKey": "s",
            "Iteration": 0,
            "TracePath": "runTurn",
            "Source": "turn",
        }
        for iteration in (1, 2):
            payload = (await client.result("before_llm", {"meta": OF_T, "return_payload": True}))["payload"]
            assert payload["meta"] == {**meta, "Iteration": iteration, "Source": "turn.llm.request"}
            assert (payload["channel"], payload["chat_id"]) == ("web", "7")
            params = {"tool": "x", "meta": OF_T, "return_payload": True}
            payload = (await client.result("before_tool", params))["payload"]
            assert payload["meta"] == {**meta, "Iteration": iteration, "Source": "turn.tool"}


async def test_meta_of_the_client_is_kept(serving, connect):
    async with serving(Host()):
        client = await connect()
        await begin(client)
        said = {"TurnID": "t", "AgentID": "other", "TracePath": "00-1", "Source": "mine", "Iteration": 9}
        params = {"tool": "x", "chat_id": "8", "meta": said, "return_payload": True}
        payload = (await client.result("before_tool", params))["payload"]
        assert payload["meta"].items() >= said.items()
        assert (payload["meta"]["SessionKey"], payload["chat_id"], payload["channel"]) == ("s", "8", "web")


async def test_a_turn_id_that_is_not_open_here_is_only_passed_on(serving, connect, observer):
    async with serving(Host([observer])):
        client, other = await connect(), await connect()
        await begin(client)
        params = {"tool": "x", "meta": OF_T, "return_payload": True}
        payload = (await other.result("before_tool", params))["payload"]
        assert (payload["meta"]["TurnID"], payload["meta"]["SessionKey"]) == ("t", "")
        await other.result("before_tool", {"tool": "x"})
        await client.result("turn.end", {"turn": "t"})
        assert "tool_exec_start" not in await observer.kinds("task_completed")


async def test_events_of_a_turn_carry_its_ids(serving, connect, observer):
    async with serving(Host([observer])):
        client = await connect()
        await begin(client)
        await client.result("emit", {"kind": "llm_delta", "payload": {"ContentDeltaLen": 3}, "meta": OF_T})
        await observer.kinds("llm_delta")
        assert observer.events[-1].meta.session_key == "s"


async def test_sessions_and_turns_without_a_name_get_one(serving, connect):
    async with serving(Host()):
        client = await connect()
        session = (await client.result("session.start"))["session"]
        first = (await client.result("turn.start", [session]))["turn"]
        second = (await client.result("turn.start", {"session": session}))["turn"]
        assert len({session, first, second, ""}) == 4


# Notes, rounds.


async def test_notes_of_hooks_are_in_the_next_request(serving, connect):
    note = Notes(additional_context="be brief", inject_messages=({"role": "user", "content": "note"},))
    own = Notes(additional_context="and kind")
    hooks = [
        FunctionHook("of tools", {"before_tool": lambda _: Continue(notes=note)}),
        FunctionHook("of requests", {"before_llm": lambda request: Continue(notes=own)}),
    ]
    async with serving(Host(hooks)):
        client = await connect()
        await begin(client)
        await client.result("before_tool", {"tool": "x", "meta": OF_T})
        asked = {"messages": MESSAGES, "system_prompt": "You help.", "meta": OF_T}
        outcome = await client.result("before_llm", asked)
        assert outcome["action"] == "modify"
        assert outcome["payload"]["system_prompt"] == "You help.\n\nbe brief\n\nand kind"
        assert outcome["payload"]["messages"] == [*MESSAGES, {"role": "user", "content": "note"}]
        outcome = await client.result("before_llm", asked)
        assert outcome["payload"]["system_prompt"] == "You help.\n\nand kind"
        assert outcome["payload"]["messages"] == MESSAGES


async def test_notes_alone_make_a_request_modified(serving, connect):
    hook = FunctionHook("f", {"before_tool": lambda _: Continue(notes=Notes(additional_context="be brief"))})
    async with serving(Host([hook])):
        client = await connect()
        await begin(client)
        await client.result("before_tool", {"tool": "x", "meta": OF_T})
        outcome = await client.result("before_llm", {"meta": OF_T})
        assert (outcome["action"], outcome["payload"]["system_prompt"]) == ("modify", "be brief")
        assert (await client.result("before_llm", {"meta": OF_T}))["action"] == "continue"


async def test_rounds_are_counted_in_a_turn_and_end(serving, connect, observer):
    hook = FunctionHook("f", {"after_llm": lambda _: Retry("shorter")})
    async with serving(Host([hook, observer], retry_limit=2)):
        client = await connect()
        await begin(client)
        for _ in range(2):
            request = await client.result("before_llm", {"meta": OF_T, "return_payload": True})
            assert request["payload"]["meta"]["Iteration"] == 1  # a round is no iteration
            outcome = await client.result("after_llm", {"response": {"content": "long"}, "meta": OF_T})
            assert (outcome["action"], outcome["feedback"]) == ("retry", "shorter")
        error = (await client.ask("after_llm", {"response": {"content": "long"}, "meta": OF_T}))["error"]
        assert error["code"] == -32003
        assert "more than 2 times" in error["message"]
        assert "shorter" in error["message"]
        await client.result("turn.end", {"turn": "t", "status": "error", "reason": "too many rounds"})
        kinds = await observer.kinds("turn_end")
        assert (kinds.count("llm_retry"), kinds.count("turn_abort")) == (2, 1)
        assert observer.payload("error") == {"Stage": "turn", "Message": "too many rounds"}
        await client.result("turn.start", {"session": "s", "turn": "t"})
        assert "result" in await client.ask("after_llm", {"response": {"content": "long"}, "meta": OF_T})


async def test_without_a_turn_rounds_are_the_clients_own(serving, connect):
    async with serving(Host([FunctionHook("f", {"after_llm": lambda _: Retry("shorter")})], retry_limit=0)):
        client = await connect()
        assert (await client.result("after_llm", {"response": {}}))["action"] == "retry"


# Tools.


@pytest.mark.parametrize(
    ("stage", "decision", "told"),
    [
        ("before_tool", Deny("no"), ["tool_exec_skipped"]),
        ("before_tool", Respond({"for_llm": "hi"}), ["tool_exec_start", "tool_exec_end"]),
        ("before_tool", None, []),
        ("approve_tool", Deny("no"), ["tool_exec_skipped"]),
        ("approve_tool", True, ["tool_exec_start"]),
    ],
)
async def test_each_end_of_a_tool_call_has_its_events(serving, connect, observer, stage, decision, told):  # noqa: PLR0917
    hook = FunctionHook("f", {stage: lambda _: decision}, provides=("x",))
    async with serving(Host([hook, observer])):
        client = await connect()
        await begin(client)
        await client.result(stage, {"tool": "x", "meta": OF_T})
        await client.result("turn.end", {"turn": "t"})
        kinds = await observer.kinds("task_completed")
        assert kinds[2:-2] == told


async def test_the_event_of_a_compaction_counts_the_dropped_messages(serving, connect, observer):
    async with serving(Host([observer])):
        client = await connect()
        await begin(client)
        about = {"scope": "auto", "meta": OF_T}
        await client.result("before_compact", {**about, "messages": MESSAGES * 5})
        await client.result("after_compact", {**about, "messages": MESSAGES * 2})
        await observer.kinds("context_compress")
        assert observer.payload("context_compress") == {"Reason": "auto", "DroppedMessages": 3, "RemainingMessages": 2}


async def test_a_hook_owns_the_tools_that_it_added_until_its_session_ends(serving, connect):
    weather = {"type": "function", "function": {"name": "weather"}}
    asked = []

    def approve(call):
        asked.append(call.tool)
        return False

    hooks = [
        FunctionHook(
            "w",
            {
                "before_llm": lambda request: Modify({"tools": [*request.tools, weather]}),
                "before_tool": lambda _: Respond({"for_llm": "sunny"}),
            },
        ),
        FunctionHook("a", {"approve_tool": approve}),
    ]
    async with serving(Host(hooks)):
        client = await connect()
        call = {"tool": "weather", "meta": OF_T}
        await begin(client)
        assert (await client.result("before_tool", call))["action"] == "deny_tool"
        await client.result("before_llm", {"meta": OF_T})
        assert (await client.result("before_tool", call))["result"]["for_llm"] == "sunny"
        assert asked == ["weather"]
        await client.result("session.end", {"session": "s"})
        await begin(client)
        assert (await client.result("before_tool", call))["action"] == "deny_tool"


# Pauses.


async def test_a_paused_call_is_resumed_with_the_answer_and_the_hooks_behind(serving, connect):
    asked = []

    def hook(name, decision):
        def decide(_):
            asked.append(name)
            return decision

        return FunctionHook(name, {"before_tool": decide}, priority=len(hooks))

    hooks = []
    for name, decision in (("first", None), ("careful", Pause("sure?")), ("second", Pause("really?")), ("last", None)):
        hooks.append(hook(name, decision))
    async with serving(Host(hooks)):
        client = await connect()
        await begin(client)
        call = {"tool": "rm", "tool_call_id": "c1", "meta": OF_T}
        outcome = await client.result("before_tool", call)
        assert (outcome["action"], outcome["reason"]) == ("pause", "sure?")
        resume = {"turn": "t", "tool_call_id": "c1", "decision": {"action": "continue"}}
        outcome = await client.result("turn.resume", resume)
        assert (outcome["action"], outcome["reason"]) == ("pause", "really?")
        resume["decision"] = {"action": "modify", "call": {"arguments": {"only": "this"}}}
        outcome = await client.result("turn.resume", resume)
        assert (outcome["stage"], outcome["action"]) == ("before_tool", "modify")
        assert outcome["payload"]["arguments"] == {"only": "this"}
        assert asked == ["first", "careful", "second", "last"]
        assert (await client.ask("turn.resume", resume))["error"]["code"] == -32001


@pytest.mark.parametrize("changes", ["the_answer", "a_hook_behind_it", "a_hook_before_it"])
async def test_a_guard_is_asked_again_about_a_call_that_was_changed_around_a_pause(serving, connect, changes):
    edit = {"arguments": {"path": "/"}}

    def judge(call):
        return Deny("not that") if call.arguments else None

    hooks = [
        FunctionHook("guard", {"before_tool": judge}, guard=True),
        FunctionHook(
            "before", {"before_tool": lambda _: Modify(edit) if "before" in changes else None}, after=["guard"]
        ),
        FunctionHook("pauses", {"before_tool": lambda _: Pause("sure?")}, after=["before"]),
        FunctionHook(
            "late", {"before_tool": lambda _: Modify(edit) if "behind" in changes else None}, after=["pauses"]
        ),
    ]
    async with serving(Host(hooks)):
        client = await connect()
        await begin(client)
        await client.result("before_tool", {"tool": "rm", "tool_call_id": "c1", "meta": OF_T})
        said = {"action": "modify", "call": edit} if changes == "the_answer" else {"action": "continue"}
        outcome = await client.result("turn.resume", {"turn": "t", "tool_call_id": "c1", "decision": said})
        assert (outcome["action"], outcome["reason"]) == ("deny_tool", "not that")


async def test_A13_of_two_answers_to_a_pause_at_once_one_counts(serving, connect):
    asked = []

    async def behind(call):
        asked.append(call.tool)
        await anyio.lowlevel.checkpoint()

    hooks = [
        FunctionHook("f", {"before_tool": lambda _: Pause("sure?")}),
        FunctionHook("behind", {"before_tool": behind}, after=["f"]),
    ]
    async with serving(Host(hooks)):
        client = await connect()
        await begin(client)
        await client.result("before_tool", {"tool": "rm", "meta": OF_T})
        ask = {"jsonrpc": "2.0", "method": "turn.resume", "params": {"turn": "t", "decision": {"action": "continue"}}}
        await client.send("\n".join(json.dumps({**ask, "id": number}) for number in (100, 101)))
        answers = [await client.message() for _ in range(2)]
    assert sorted("error" in one for one in answers) == [False, True]
    assert asked == ["rm"]


async def test_A13_a_pause_of_a_client_ends_too(serving, connect):
    hook = FunctionHook("f", {"before_tool": lambda _: Pause("sure?")})
    async with serving(Host([hook], pause_lasts=1e-9)):
        client = await connect()
        await begin(client)
        await client.result("before_tool", {"tool": "rm", "meta": OF_T})
        for why in ("the pause is over: it could be answered for 1e-09 s", "no hook has paused the turn 't'"):
            error = (await client.ask("turn.resume", {"turn": "t", "decision": {"action": "continue"}}))["error"]
            assert (error["code"], error["message"]) == (-32001, why)


@pytest.mark.parametrize(
    ("decision", "code"),
    [({"action": "skip"}, -32602), ({"action": "pause"}, -32000), ({"action": "modify", "call": {"tool": 5}}, -32000)],
)
async def test_a_wrong_answer_to_a_pause_leaves_it_paused(serving, connect, decision, code):
    async with serving(Host([FunctionHook("f", {"before_tool": lambda _: Pause("sure?")})])):
        client = await connect()
        await begin(client)
        await client.result("before_tool", {"tool": "rm", "meta": OF_T})
        assert (await client.ask("turn.resume", {"turn": "t", "decision": decision}))["error"]["code"] == code
        outcome = await client.result("turn.resume", {"turn": "t", "decision": {"action": "deny_tool", "reason": "no"}})
        assert (outcome["action"], outcome["reason"]) == ("deny_tool", "no")


# Names, and ends.


async def test_sub_turns_have_their_events_and_their_parents_continue(serving, connect, observer):
    async with serving(Host([observer])):
        client = await connect()
        await begin(client)
        meta = (await client.result("turn.start", {"session": "s", "parent": "t", "label": "look"}))["meta"]
        assert meta["ParentTurnID"] == "t"
        await client.result("turn.end", {"turn": meta["TurnID"], "content": "found"})
        await client.result("turn.end", {"turn": "t"})
        kinds = await observer.kinds("task_completed")
        assert [kind for kind in kinds if kind.startswith("subturn")] == [
            "subturn_spawn",
            "subturn_end",
            "subturn_result_delivered",
        ]


async def test_names_that_are_taken_or_not_open_are_refused(serving, connect):
    async with serving(Host()):
        client, other = await connect(), await connect()
        await begin(client)
        for who, method, params, code in (
            (client, "session.start", {"session": "s"}, -32002),
            (other, "session.start", {"session": "s"}, -32002),
            (other, "session.end", {"session": "s"}, -32001),
            (client, "turn.start", {"session": "s", "turn": "t"}, -32002),
            (other, "turn.start", {"session": "s"}, -32001),
            (client, "turn.start", {"session": "s", "parent": "x"}, -32001),
            (other, "turn.end", {"turn": "t"}, -32001),
            (client, "turn.end", {"turn": "t", "status": "fine"}, -32602),
            (client, "session.start", {"session": ""}, -32602),
        ):
            assert (await who.ask(method, params))["error"]["code"] == code, (method, params)
        await client.result("session.end", {"session": "s"})
        assert await other.result("session.start", {"session": "s"}) == {"session": "s"}


async def test_sessions_and_turns_of_a_connection_are_bounded(serving, connect, monkeypatch):
    monkeypatch.setattr("picohook.ext.sidecar.methods.context.MAX_OPEN", 2)
    async with serving(Host()):
        client = await connect()
        await client.result("session.start")
        name = (await client.result("session.start"))["session"]
        assert (await client.ask("session.start"))["error"]["code"] == -32000
        await client.result("session.end", {"session": name})
        await client.result("session.start")


async def test_the_turns_of_a_session_that_ends_are_aborted(serving, connect, observer):
    async with serving(Host([observer])):
        client = await connect()
        await begin(client)
        await client.result("turn.start", {"session": "s", "turn": "inner", "parent": "t"})
        await client.result("session.end", {"session": "s"})
        await observer.kinds("session_end")
        ends = [(e.meta.turn_id, e.payload["Status"]) for e in observer.events if e.kind == "turn_end"]
        assert ends == [("inner", "aborted"), ("t", "aborted")]
        assert (await client.ask("turn.end", {"turn": "t"}))["error"]["code"] == -32001


async def test_sessions_and_turns_of_a_client_that_vanishes_are_ended(serving, connect, observer):
    async with serving(Host([observer])):
        client, other = await connect(), await connect()
        await begin(client)
        await client.stream.aclose()
        kinds = await observer.kinds("session_end")
        assert kinds[2:] == ["turn_abort", "turn_end", "session_end"]
        assert observer.payload("turn_abort") == {"Reason": "the client is gone"}
        while "error" in await other.ask("session.start", {"session": "s"}):
            pass
