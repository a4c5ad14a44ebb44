"""The warm host of `picohook shim`: what it decides, when it reads its configuration again, and how it ends."""

from __future__ import annotations

import contextlib
import json
import os
import signal
from functools import partial
from pathlib import Path

import anyio
import pytest

from picohook import AbortTurn, Continue, Deny, FunctionHook, Host, Modify, Notes, Pause, Respond, Retry
from picohook.config import load
from picohook.ext.vendors.alone import ask_host
from picohook.ext.vendors.dialects import vendor_named
from picohook.ext.vendors.shim import server
from picohook.ext.vendors.shim.host import host_of
from picohook.ext.vendors.shim.server import Sessions, ShimHost, ShimReply, ShimRequest, ShimServer
from picohook.observe.log import Log
from picohook.projects import trust
from picohook.rpc.listening_socket import ListeningSocket

pytestmark = pytest.mark.anyio


def question(event="PreToolUse", **fields):
    given = {"session_id": "s", "hook_event_name": event, **fields}
    return ShimRequest(event, "/work", {}, json.dumps(given).encode())


def call(command="ls", identity="t", event="PreToolUse", **fields):
    return question(event, tool_name="Bash", tool_input={"command": command}, tool_use_id=identity, **fields)


@pytest.fixture
def ask(tmp_path, monkeypatch):
    """Asks hooks in code. Gives the status of the reply, and its JSON or its text."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))

    async def ask(stages, *questions, vendor="claude", events=None):
        hook = FunctionHook("h", stages, **({"on_event": events.append} if events is not None else {}))
        async with Host([hook]) as host:
            shim_host = ShimHost(host, vendor_named(vendor), lambda: False)
            replies = [await shim_host.answer(one) for one in questions]
        shown = [
            (reply.status, json.loads(reply.out or b"{}") if reply.status == "done" else reply.out.decode())
            for reply in replies
        ]
        return shown if len(shown) > 1 else shown[0]

    return ask


def before_tool(decision):
    return {"before_tool": lambda _: decision}


class TestDecisions:
    async def test_a_call_that_no_hook_refuses_is_left_to_the_agent(self, ask):
        assert await ask(before_tool(None), call()) == ("done", {})

    @pytest.mark.parametrize(
        ("decision", "told"),
        [
            (
                Deny("no"),
                {"permissionDecision": "deny", "permissionDecisionReason": "Tool execution denied by hook: no"},
            ),
            (Pause("may it?"), {"permissionDecision": "ask", "permissionDecisionReason": "may it?"}),
            (Respond({"for_llm": "known"}), {"permissionDecision": "deny", "permissionDecisionReason": "known"}),
            (Modify({"arguments": {"command": "pwd"}}), {"updatedInput": {"command": "pwd"}}),
            (Continue(notes=Notes(additional_context="mind")), {"additionalContext": "mind"}),
        ],
    )
    async def test_each_has_its_form(self, ask, decision, told):
        status, said = await ask(before_tool(decision), call())
        assert (status, said["hookSpecificOutput"]) == ("done", {"hookEventName": "PreToolUse", **told})

    async def test_an_abort_denies_and_stops(self, ask):
        _, said = await ask(before_tool(AbortTurn("enough")), call())
        assert (said["continue"], said["stopReason"]) == (False, "enough")
        assert said["hookSpecificOutput"]["permissionDecision"] == "deny"

    async def test_further_calls_of_a_turn_that_a_hook_has_ended_are_denied_until_the_next_prompt(self, ask):
        hooks = {"before_tool": lambda given: AbortTurn("enough") if given.arguments["command"] == "rm" else None}
        asked = [call("rm"), call("ls"), question("UserPromptSubmit", prompt="again"), call("ls", "later")]
        replies = [said for _, said in await ask(hooks, *asked)]
        assert [reply.get("stopReason") for reply in replies] == ["enough", "enough", None, None]

    @pytest.mark.parametrize(
        "fields",
        [{"identity": "t"}, {"identity": None, "timestamp": 1}, {"identity": None}],
        ids=["id", "time", "neither"],
    )
    async def test_an_event_of_two_entries_is_asked_about_once_and_an_equal_call_later_again(self, monkeypatch, fields):
        monkeypatch.setattr(server, "SHARED", 600.0)
        asked, replies = [], []
        begun, may_end = anyio.Event(), anyio.Event()

        async def look(given):
            asked.append(given.arguments["command"])
            begun.set()
            await may_end.wait()
            return Deny("no")

        async def client(shim_host):
            replies.append(await shim_host.answer(call(**fields)))

        async with Host([FunctionHook("h", {"before_tool": look})]) as host:
            shim_host = ShimHost(host, vendor_named("claude"), lambda: False)
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(client, shim_host)
                await begun.wait()
                tasks.start_soon(client, shim_host)
                await anyio.wait_all_tasks_blocked()
                may_end.set()
            assert asked == ["ls"]
            await client(shim_host)
            assert len(asked) == (1 if len(fields) > 1 or fields["identity"] else 2)
            await client(shim_host)
            await shim_host.answer(call("pwd", **fields))
        assert asked[-1] == "pwd"
        assert len(replies) == 4
        assert {reply.out for reply in replies} == {replies[0].out}
        assert b"deny" in replies[0].out

    async def test_a_client_asks_itself_if_the_first_one_of_its_event_has_gone(self):
        asked, replies = [], []
        begun = anyio.Event()

        async def look(_given):
            asked.append(1)
            begun.set()
            if len(asked) == 1:
                await anyio.sleep_forever()
            return Deny("no")

        async def client(shim_host):
            replies.append(await shim_host.answer(call()))

        async with Host([FunctionHook("h", {"before_tool": look})]) as host, anyio.create_task_group() as tasks:
            shim_host = ShimHost(host, vendor_named("claude"), lambda: False)
            async with anyio.create_task_group() as first:
                first.start_soon(client, shim_host)
                await begun.wait()
                for _ in range(2):
                    tasks.start_soon(client, shim_host)
                await anyio.wait_all_tasks_blocked()
                first.cancel_scope.cancel()
        assert len(asked) == 2
        assert [reply.status for reply in replies] == ["done"] * 2
        assert all(b"deny" in reply.out for reply in replies)

    async def test_another_tool_is_a_denial(self, ask):
        _, said = await ask(before_tool(Modify({"tool": "Read"})), call())
        assert said["hookSpecificOutput"]["permissionDecision"] == "deny"

    async def test_approvers_are_asked_before_the_tool(self, ask):
        _, said = await ask({"approve_tool": lambda _: False}, call())
        assert said["hookSpecificOutput"]["permissionDecision"] == "deny"

    @pytest.mark.parametrize("refusing", ["before_tool", "approve_tool"])
    async def test_a_person_is_asked_only_about_a_call_that_no_other_hook_refuses(self, refusing):
        pausing = FunctionHook("pausing", before_tool(Pause("may it?")), priority=1)
        other = FunctionHook("other", {refusing: lambda _: Deny("no")}, priority=2)
        async with Host([pausing, other]) as host:
            shim_host = ShimHost(host, vendor_named("claude"), lambda: False)
            said = json.loads((await shim_host.answer(call())).out)["hookSpecificOutput"]
        assert (said["permissionDecision"], said["permissionDecisionReason"].rpartition(": ")[2]) == ("deny", "no")

    async def test_a_person_is_asked_about_the_call_as_all_hooks_have_changed_it(self):
        hooks = [
            FunctionHook("first", before_tool(Modify({"arguments": {"command": "pwd"}})), priority=1),
            FunctionHook("second", before_tool(Pause("may it?")), priority=2),
            FunctionHook(
                "third",
                {"before_tool": lambda given: Modify({"arguments": {"command": given.arguments["command"] + " -P"}})},
                priority=3,
            ),
        ]
        told = {}
        async with Host(hooks) as host:
            for vendor, event in (("claude", "PreToolUse"), ("gemini", "BeforeTool"), ("copilot", "preToolUse")):
                asked = call(event=event)
                if vendor == "copilot":
                    asked = ShimRequest(event, "/", {}, b'{"toolName": "bash", "toolArgs": {"command": "ls"}}')
                shim_host = ShimHost(host, vendor_named(vendor), lambda: False)
                told[vendor] = await shim_host.answer(asked)
        claude = json.loads(told["claude"].out)["hookSpecificOutput"]
        assert (claude["permissionDecision"], claude["updatedInput"]) == ("ask", {"command": "pwd -P"})
        assert json.loads(told["gemini"].out)["decision"] == "deny"  # with -p it would wait for a person for ever
        assert json.loads(told["copilot"].out)["permissionDecision"] == "deny"  # it may run the call unchanged

    @pytest.mark.parametrize(
        ("vendor", "event", "decision", "kinds"),
        [
            ("codex", "PreToolUse", Pause("may it?"), ["tool_exec_skipped"]),
            ("cursor", "preToolUse", Pause("may it?"), ["tool_exec_skipped"]),
            ("claude", "PreToolUse", Modify({"tool": "Read"}), ["tool_exec_start", "tool_exec_end"]),
        ],
    )
    async def test_a_call_that_the_agent_cannot_make_so_is_no_open_call(self, ask, vendor, event, decision, kinds):
        events = []
        _, said = await ask(before_tool(decision), call(event=event), vendor=vendor, events=events)
        assert "deny" in str(said)
        assert [event.kind for event in events] == kinds

    async def test_a_path_is_absolute_and_a_changed_call_keeps_the_other_fields(self, ask):
        seen = []

        def look(payload):
            seen.append((payload.tool, payload.arguments["file_path"], payload.affected_paths))
            return Modify({"arguments": {**payload.arguments, "new_string": "c"}})

        given = {"file_path": "a.txt", "old_string": "a", "new_string": "b"}
        _, said = await ask({"before_tool": look}, question(tool_name="Edit", tool_input=given))
        assert seen == [("Edit", "/work/a.txt", ["/work/a.txt"])]
        assert said["hookSpecificOutput"]["updatedInput"] == {**given, "new_string": "c"}

    async def test_the_files_of_a_patch_are_its_affected_paths(self, ask):
        seen = []
        patch = (
            "*** Begin Patch\n*** Update File: a\n*** Move to: b/c\n*** Add File: /d\n*** Delete File: e\n*** End Patch"
        )
        asked = question(tool_name="apply_patch", tool_input={"command": patch}, tool_use_id="t")
        await ask({"before_tool": lambda given: seen.append(given.affected_paths)}, asked, vendor="codex")
        assert seen == [["/work/a", "/work/b/c", "/d", "/work/e"]]


class TestAfterTheTool:
    @staticmethod
    def returned(**fields):
        return call(event="PostToolUse", tool_response={"stdout": "a secret", "stderr": ""}, **fields)

    @pytest.mark.parametrize("known", [True, False])
    async def test_a_result_is_changed_in_its_own_form(self, ask, known):
        hooks = {"after_tool": lambda payload: Modify({"for_llm": payload.result.for_llm.replace("secret", "gap")})}
        replies = await ask(hooks, call(identity="t" if known else "another"), self.returned())
        told = replies[1][1]["hookSpecificOutput"]
        assert told == {"hookEventName": "PostToolUse", "updatedToolOutput": {"stdout": "a gap", "stderr": ""}}

    async def test_a_known_call_is_concluded_once(self, ask):
        events = []
        await ask({"after_tool": lambda _: None}, call(), self.returned(), self.returned(), events=events)
        assert [event.kind for event in events] == ["tool_exec_start", "tool_exec_end"]

    async def test_a_call_that_ran_with_other_arguments_is_reported(self, ask):
        asked = call("pwd", event="PostToolUse", tool_response="x")
        replies = await ask({"after_tool": lambda _: None}, call("ls"), asked)
        assert "other arguments" in replies[1][1]["systemMessage"]

    async def test_a_result_that_the_tool_cannot_return_is_refused(self, ask):
        asked = call(event="PostToolUse", tool_response={"own": 1})
        status, why = await ask({"after_tool": lambda _: Modify({"for_llm": "text"})}, asked)
        assert status == "refused"
        assert "to a form that this tool does not return" in why

    async def test_the_error_of_a_tool_is_an_error_for_hooks(self, ask):
        seen = []
        asked = call(event="PostToolUseFailure", error="it broke")
        await ask({"after_tool": lambda given: seen.append(given.result)}, asked)
        assert [(one.is_error, one.for_llm) for one in seen] == [(True, "it broke")]


class TestTurns:
    async def test_a_prompt_is_refused(self, ask):
        asked = question("UserPromptSubmit", prompt="hello")
        assert await ask({"before_prompt": lambda _: AbortTurn("no")}, asked) == (
            "done",
            {"decision": "block", "reason": "no"},
        )

    async def test_a_changed_prompt_is_refused_because_no_agent_takes_it(self, ask):
        asked = question("UserPromptSubmit", prompt="hello")
        status, why = await ask({"before_prompt": lambda _: Modify({"prompt": "bye"})}, asked)
        assert status == "refused"
        assert "cannot change prompts" in why

    async def test_hooks_keep_a_turn_from_its_end_eight_times(self, ask):
        hooks = {"before_finish": lambda _: Retry("run the tests")}
        replies = await ask(hooks, *[question("Stop", last_assistant_message=f"done {n}") for n in range(9)])
        assert [said.get("decision") for _, said in replies] == ["block"] * 8 + [None]

    async def test_a_session_begins_and_ends(self, ask):
        events = []
        await ask({}, question("SessionStart", source="startup"), question("SessionEnd"), events=events)
        assert [(event.kind, event.meta.session_key) for event in events] == [
            ("session_start", "s"),
            ("session_end", "s"),
        ]

    async def test_hooks_that_this_agent_cannot_ask_are_named_when_the_session_begins(self, ask):
        _, said = await ask({"after_llm": lambda _: None}, question("SessionStart"))
        assert "picohook: this agent does not ask hooks" in said["systemMessage"]

    async def test_a_subagent_has_a_turn_below_its_parents(self, ask):
        seen = []
        asked = call(prompt_id="p", agent_id="a", agent_type="reviewer")
        await ask({"before_tool": lambda given: seen.append(given.meta)}, asked)
        assert [(one.session_key, one.turn_id, one.parent_turn_id, one.agent_id) for one in seen] == [
            ("s", "a", "p", "reviewer")
        ]


@pytest.mark.parametrize(
    ("stdin", "why"),
    [
        (b"", "not JSON"),
        (b"\xff\xfe", "not JSON"),
        (b'{"a": 1, "a": 2}', "not JSON"),
        (b"[]", "not a JSON object"),
        (b'{"hook_event_name": "PostToolUse"}', "names itself PostToolUse"),
        (b"{}", "no text in `tool_name`"),
    ],
)
async def test_input_that_is_not_an_event_is_refused(ask, stdin, why):
    status, said = await ask(before_tool(None), call()._replace(stdin=stdin))
    assert status == "refused"
    assert why in said


GUARD = "from picohook import Deny\ndef decide(call):\n    return Deny({!r})\n"


class TestTheConfiguration:
    @pytest.fixture
    def project(self, tmp_path, monkeypatch):
        """A project whose configuration is trusted."""
        monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
        monkeypatch.setenv("HOME", str(tmp_path))
        project = tmp_path / "project"
        project.mkdir()
        self.write(project, "no")
        return project

    @staticmethod
    def write(project, reason):
        (project / "guard.py").write_text(GUARD.format(reason))
        (project / "picohook.toml").write_text(
            f"# {reason}\n[hooks.g]\npython = 'guard:decide'\nstages = ['before_tool']\n"
        )
        trust.trust(load(project / "picohook.toml", found=True))

    async def test_a_changed_one_is_used_once_it_is_trusted_and_refused_before(self, project):
        vendor = vendor_named("claude")
        async with host_of(vendor, str(project), "") as host:
            shim_host = ShimHost(host, vendor, host.reloader.source.changed)
            assert b"denied by hook: no" in (await shim_host.answer(call())).out
            with (project / "picohook.toml").open("a") as file:
                file.write("# changed\n")
            for _ in range(2):
                reply = await shim_host.answer(call())
                assert reply.status == "refused"
                assert b"changed since it was trusted" in reply.out
            self.write(project, "never")
            assert b"denied by hook: n" in (await shim_host.answer(call())).out

    async def test_a_trusted_one_that_is_gone_is_a_refusal_until_its_trust_is_taken_back(self, project):
        vendor = vendor_named("claude")
        async with host_of(vendor, str(project), "") as host:
            shim_host = ShimHost(host, vendor, host.reloader.source.changed)
            (project / "picohook.toml").unlink()
            reply = await shim_host.answer(call())
            assert reply.status == "refused"
            assert b"is trusted, and is not there any more" in reply.out
            trust.untrust(project / "picohook.toml")
            assert await shim_host.answer(call()) == ("done", b"")

    async def test_the_files_that_the_agent_runs_itself_are_left_to_it(self, project):
        (project / ".claude").mkdir()
        settings = {"hooks": {"PreToolUse": [{"hooks": [{"type": "command", "command": "false"}]}]}}
        (project / ".claude/settings.json").write_text(json.dumps(settings))
        async with host_of(vendor_named("claude"), str(project), "") as host:
            assert [hook.name for hook in host.hooks] == ["g"]

    async def test_another_value_of_a_variable_that_its_hooks_inherit_needs_another_host(self, project, monkeypatch):
        monkeypatch.setenv("TOKEN", "1")
        (project / "own.toml").write_text(
            "[hooks.g]\npython = 'guard:decide'\nstages = ['before_tool']\ninherit_env = ['TOKEN']\n"
        )
        vendor = vendor_named("claude")
        async with host_of(vendor, str(project), str(project / "own.toml")) as host:
            shim_host = ShimHost(host, vendor, host.reloader.source.changed)
            assert (await shim_host.answer(call()._replace(environment={"TOKEN": "2"}))).status == "again"
            assert (await shim_host.answer(call()._replace(environment={"TOKEN": "1"}))).status == "done"


class TestASession:
    """The hosts of two directories that share the directory of their sockets."""

    @pytest.fixture
    def at(self, tmp_path):
        """Returns how the host of a directory answers a question: its status, and the reason of its denial."""
        (tmp_path / "sockets").mkdir()

        async def answered(directory, question, vendor="claude", projects=()):
            sessions = Sessions(str(tmp_path / "sockets"), vendor, directory, lambda: map(Path, projects))
            async with Host([FunctionHook("h", before_tool(Deny(directory)))]) as host:
                shim_host = ShimHost(host, vendor_named(vendor), lambda: False, sessions.began)
                reply = await shim_host.answer(question)
                assert await shim_host.answer(question) == reply
            return reply

        return answered

    async def test_X12_a_session_keeps_the_directory_that_it_began_in_wherever_its_agent_goes(self, at):
        assert b"/began" in (await at("/began", call())).out
        for place in ("/moved", "/", "/began2"):
            assert await at(place, call()) == ("elsewhere", b"/began")
        assert b"/began" in (await at("/began", call())).out

    async def test_X12_hooks_further_inside_are_asked_too(self, at):
        await at("/began", call())
        reply = await at("/began/inner", call(), projects=["/began/inner"])
        assert (reply.status, b"/began/inner" in reply.out) == ("done", True)

    async def test_X12_a_session_that_comes_into_another_project_is_refused(self, at):
        await at("/began", call())
        reply = await at("/moved/sub", call(), projects=["/", "/moved"])
        assert reply.status == "refused"
        assert b"this session began in /began, and /moved has hooks that are not asked in it" in reply.out
        assert (await at("/moved", call(), projects=["/"])).status == "elsewhere"

    async def test_another_session_and_another_vendor_have_their_own(self, at):
        await at("/began", call())
        assert (await at("/moved", call(session_id="other"))).status == "done"
        assert (await at("/moved", call(), vendor="codex")).status == "done"

    async def test_sessions_that_nobody_has_seen_for_long_are_forgotten(self, at, tmp_path):
        await at("/began", call())
        (file,) = (tmp_path / "sockets").iterdir()
        os.utime(file, (1, 1))
        assert (await at("/moved", call())).status == "done"
        assert await at("/began", call()) == ("elsewhere", b"/moved")

    async def test_a_record_that_cannot_be_read_is_a_refusal(self, at, tmp_path):
        await at("/began", call())
        (file,) = (tmp_path / "sockets").iterdir()
        file.unlink()
        file.mkdir()
        assert (await at("/began", call())).status == "refused"


async def test_an_agent_without_any_hook_is_told_so_at_its_start():
    async with Host() as host:
        reply = await ShimHost(host, vendor_named("claude"), lambda: False).answer(question("SessionStart"))
    assert b"no hook was found, so nothing is guarded" in reply.out


class TestTheServer:
    async def test_it_answers_those_who_have_connected_when_it_ends_and_then_is_gone(self, shim):
        key = shim.key()
        shim.sockets.mkdir(mode=0o700)
        shim.note(ask_host.record_of(os.getpid()))
        asked = []

        async def answer(question):
            asked.append(question.event)
            return ShimReply("done", b"{}")

        listening = await ListeningSocket.at_path(shim.sockets / key, "the socket")
        server = ShimServer(listening, answer, key, Log())
        clients = [shim.start() for _ in range(3)]
        for one in clients:
            one.stdin.write(b"{}")
            one.stdin.close()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(partial(server.run, idle=600.0))
            while len(asked) < len(clients):
                await anyio.sleep(0.01)
            server.end()
        assert [(one.wait(), one.stdout.read()) for one in clients] == [(0, b"{}")] * 3
        for one in clients:
            one.stdout.close()
            one.stderr.close()
        assert list(shim.sockets.iterdir()) == []

    async def test_it_ends_when_nobody_asks(self, shim):
        listening = await ListeningSocket.at_path(shim.runtime / "s", "the socket")
        await ShimServer(listening, None, "k", Log()).run(idle=0.01)
        assert not (shim.runtime / "s").exists()


class TestARealHost:
    """One process for all of them."""

    @pytest.mark.parametrize("anyio_backend", ["asyncio"])  # the host is a process of its own
    async def test_of_many_clients_one_starts_it_and_killed_in_a_question_it_is_a_denial(self, shim):
        (shim.project / "guard.py").write_text(
            "import os\n"
            f"with open({str(shim.runtime / 'pids')!r}, 'a') as file:\n    file.write(f'{{os.getpid()}} ')\n"
            "def decide(call):\n    if call.arguments['command'] == 'die':\n        os.kill(os.getpid(), 9)\n"
        )
        config = shim.project / "picohook.toml"
        config.write_text("[hooks.g]\npython = 'guard:decide'\nstages = ['before_tool']\n")
        clients = [shim.start(config=str(config)) for _ in range(8)]
        try:
            for one in clients:
                one.stdin.write(call().stdin)
                one.stdin.close()
                one.stdin = None
            done = [(*one.communicate(timeout=120), one.returncode) for one in clients]
            assert done == [(b"", b"", 0)] * len(clients)
            code, _, err = shim.ask(call("die").stdin, config=str(config))
            assert (code, err) == (2, "picohook: the host ended before it answered\n")
            assert len((shim.runtime / "pids").read_text().split()) == 1
        finally:
            for pid in (shim.runtime / "pids").read_text().split():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(int(pid), signal.SIGKILL)

    def test_what_keeps_it_from_starting_is_the_reason_of_the_denial(self, shim):
        (shim.project / "picohook.toml").write_text("[hooks.g]\nrun = 'true'\nstages = ['before_tool']\n")
        code, out, err = shim.ask(call().stdin)
        assert (code, out) == (2, "")
        assert "was found here and is not trusted yet" in err
