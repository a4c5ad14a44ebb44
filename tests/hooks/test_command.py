"""`run` hooks: real shells, and everything that can be wrong with them."""

from __future__ import annotations

import json
import shlex
import sys

import anyio
import pytest
from kinds_support import FAR
from loops import ON_BOTH
from scripted import HANG, command

from picohook import CommandHook, HookCrashedError, Host, Meta, ToolCall, TrustError
from picohook.errors import Problem

pytestmark = pytest.mark.anyio

CALL = ToolCall(tool="Bash", arguments={"command": "ls"}, meta=Meta(session_key="s1"))


async def asked(spec, call=CALL, **settings):
    async with Host([spec], timeouts=FAR, **settings) as host:
        return await host.before_tool(call)


def edits(shell):
    """A command that replaces the arguments with what this shell prints."""
    code = (
        "import json, sys; print(json.dumps({'action': 'modify', 'call': {'arguments': {'said': sys.stdin.read()}}}))"
    )
    return f"{{ {shell}; }} | {sys.executable} -I -S -c {shlex.quote(code)}"


async def said(shell_hook, shell, **settings):
    outcome = await asked(shell_hook(edits(shell), **settings))
    assert outcome.trail[0].error is None
    return outcome.payload.arguments["said"]


# The contract.


async def test_the_params_of_the_question_are_on_stdin_as_a_hook_process_gets_them(shell_hook):
    assert json.loads(await said(shell_hook, "cat")) == CALL.wire()


async def test_the_stage_and_the_directory_are_in_the_environment(shell_hook, tmp_path):
    shell = 'echo "$PICOHOOK_EVENT $PICOHOOK_CWD $(pwd)"'
    assert await said(shell_hook, shell, dir=str(tmp_path)) == f"before_tool {tmp_path} {tmp_path}\n"


async def test_no_variable_in_the_environment_has_a_name_of_j_clis(shell_hook):
    assert "JCLI" not in await said(shell_hook, "env")


async def test_without_a_directory_it_is_the_hosts(shell_hook, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert await said(shell_hook, 'echo "$PICOHOOK_CWD $(pwd)"') == f"{tmp_path} {tmp_path}\n"


async def test_variables_of_its_environment_cannot_replace_those_of_the_event(shell_hook):
    assert await said(shell_hook, "echo $PICOHOOK_EVENT", env={"PICOHOOK_EVENT": "mine"}) == "before_tool\n"


async def test_it_sees_the_part_of_the_environment_that_its_settings_allow(shell_hook, monkeypatch):
    monkeypatch.setenv("SECRET_TOKEN", "abc")
    shell = 'echo "[$SECRET_TOKEN]"'
    assert await said(shell_hook, shell) == "[]\n"
    assert await said(shell_hook, shell, inherit_env=["SECRET_TOKEN"]) == "[abc]\n"
    assert await said(shell_hook, shell, inherit_env=True) == "[abc]\n"
    assert await said(shell_hook, shell, env={"SECRET_TOKEN": "own"}) == "[own]\n"


@pytest.mark.parametrize("shell", ["true", "echo", "echo '{}'", "cat > /dev/null"])
async def test_no_output_changes_nothing(shell_hook, shell):
    outcome = await asked(shell_hook(shell))
    assert (outcome.action, outcome.trail[0].error) == ("continue", None)


async def test_the_shell_handles_pipelines_variables_and_substitutions(shell_hook):
    outcome = await asked(shell_hook("""x=deny_tool; echo '{"action": "'$(printf $x)'", "reason": "no"}' | cat"""))
    assert (outcome.action, outcome.reason) == ("deny_tool", "no")


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        ('{"decision": "deny"}', "the answer has no `action`, and `decision` decides nothing at before_tool"),
        ('{"allow": false}', "the answer has no `action`, and `allow` decides nothing at before_tool"),
        ('{"tool_arguments": "{}"}', "the answer has no `action`, and `tool_arguments` decides nothing at before_tool"),
        ('{"retry_feedback": "no"}', "the answer has no `action`, and `retry_feedback` decides nothing at before_tool"),
        ('{"action": "skip", "retry_feedback": "no"}', "the action 'skip' is not one of before_tool's"),
        ('{"action": "stop"}', "the action 'stop' is not one of before_tool's"),
        ('{"action": "modify"}', "`modify` came without `call` or `patch`"),
    ],
)
async def test_an_answer_without_a_decision_never_continues(shell_hook, answer, error):
    outcome = await asked(shell_hook(f"echo '{answer}'", on_failure="deny"))
    assert outcome.action == "deny_tool"
    assert outcome.trail[0].error.startswith(error)


# Failures.


@pytest.mark.parametrize(
    ("shell", "error"),
    [
        ("exit 3", "it exited with code 3"),
        ("echo oh no >&2; exit 1", "it exited with code 1; it said: oh no"),
        ("""echo '{"action": "deny_tool"}'; exit 1""", "it exited with code 1"),
        ("""echo '{"action": "deny_tool"}'; exit 2""", "it exited with code 2"),
        ("kill -9 $$", "it was ended by SIGKILL"),
        ("no-such-program-of-picohook", "it exited with code 127; it said: "),
        ("echo hello", "its output is not JSON: "),
        ("echo '[]'", "its output is not a JSON object: []"),
        ("""echo '{"action": "deny_tool", "action": "continue"}'""", "its output is not JSON: Detected duplicate key"),
        ("""echo '{"call": {"arguments": {"a": NaN}}}'""", "its output is not JSON: "),
        ("""echo '{"action": "deny"}'""", "the action 'deny' is not one of before_tool's: did you mean `deny_tool`?"),
    ],
)
async def test_each_error_is_a_failure_that_names_it(shell_hook, shell, error):
    outcome = await asked(shell_hook(shell))
    assert outcome.action == "continue"
    assert outcome.payload == CALL
    assert outcome.trail[0].error.startswith(error)


async def test_a_missing_directory_of_a_hook_is_named(shell_hook):
    outcome = await asked(shell_hook("true", dir="/no/such/place"))
    assert outcome.trail[0].error == "cannot be started: its directory /no/such/place does not exist"


async def test_the_exit_code_and_stderr_are_on_the_error(shell_hook):
    class Watched(CommandHook):
        async def handle(self, question):
            try:
                return await super().handle(question)
            except HookCrashedError as error:
                self.caught = error
                raise

    hook = Watched(shell_hook("echo one >&2; echo two >&2; exit 7"))
    await asked(hook)
    assert (hook.caught.exit_code, hook.caught.stderr_tail) == (7, "one\ntwo")


async def test_a_failure_counts_as_its_on_failure_says(shell_hook):
    assert (await asked(shell_hook("exit 1", on_failure="deny"))).action == "deny_tool"
    assert (await asked(shell_hook("exit 1", on_failure="abort"))).action == "abort_turn"


async def test_a_failed_try_is_repeated_before_it_counts_as_a_failure(shell_hook, tmp_path):
    count = tmp_path / "count"
    outcome = await asked(shell_hook(f"echo x >> {count}; exit 1", retry=2, on_failure="deny"))
    assert count.read_text() == "x\n" * 3
    assert (outcome.action, outcome.trail[0].retries) == ("deny_tool", 2)


async def test_a_retry_that_succeeds_is_a_success(shell_hook, tmp_path):
    flag = tmp_path / "flag"
    shell = f"""if [ -e {flag} ]; then echo '{{"action": "deny_tool"}}'; else touch {flag}; exit 1; fi"""
    outcome = await asked(shell_hook(shell, retry=1))
    assert (outcome.action, outcome.trail[0].error, outcome.trail[0].retries) == ("deny_tool", None, 1)


# Children that do not behave.


@ON_BOTH
async def test_when_the_host_stops_waiting_it_is_killed_with_its_descendants(shell_hook, board):
    hanging = shlex.join(command(board.call("child"), HANG))
    grandchild = shlex.join(command(board.call("grandchild"), HANG))
    async with Host([shell_hook(f"{grandchild} & {hanging}", timeout=600)], timeouts=FAR) as host:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(host.before_tool, CALL)
            lines = [await board.line("child"), await board.line("grandchild")]
            assert all(line.alive for line in lines)
            tasks.cancel_scope.cancel()
        for line in lines:
            await line.dead()


@ON_BOTH
async def test_at_its_timeout_it_fails_and_its_descendants_are_killed(shell_hook, board):
    hanging = shlex.join(command(board.call("child"), HANG))
    grandchild = shlex.join(command(board.call("grandchild"), HANG))
    outcome = await asked(shell_hook(f"{grandchild} & {hanging}", timeout=1, on_failure="deny"))
    assert outcome.trail[0].error == "it did not end in time, and was killed"
    assert outcome.action == "deny_tool"
    while not board.nobody_called():  # as far as it came before its time was over
        name = "child" if any(waiting == "child" for waiting, _ in board._waiting) else "grandchild"
        await (await board.line(name)).dead()


LARGE = ToolCall(tool="Bash", arguments={"text": "x" * 1_000_000})


@pytest.mark.parametrize("shell", ["echo '{}'", "exec 0<&-; echo '{}'", "head -c 10 >/dev/null; echo '{}'"])
async def test_unread_stdin_blocks_nothing(shell_hook, shell):
    outcome = await asked(shell_hook(shell), LARGE)
    assert (outcome.action, outcome.trail[0].error) == ("continue", None)


async def test_a_command_that_reads_stdin_gets_all_of_it(shell_hook):
    outcome = await asked(shell_hook("""[ $(wc -c) -gt 1000000 ] && echo '{"action": "deny_tool"}'"""), LARGE)
    assert outcome.action == "deny_tool"


async def test_a_command_that_leaves_its_pipes_to_a_child_blocks_nothing_and_the_child_ends(shell_hook, board):
    child = shlex.join(command(board.call("child"), ["wait"], ["write", "{}"]))
    grandchild = shlex.join(command(board.call("grandchild"), HANG))
    outcomes = []
    async with Host([shell_hook(f"{grandchild} & exec {child}", timeout=600)], timeouts=FAR) as host:
        async with anyio.create_task_group() as tasks:

            async def ask():
                outcomes.append(await host.before_tool(CALL))

            tasks.start_soon(ask)
            left_behind = await board.line("grandchild")
            (await board.line("child")).go_on()
        await left_behind.dead()
    assert (outcomes[0].action, outcomes[0].trail[0].error) == ("continue", None)


async def test_a_command_with_endless_output_is_stopped_at_the_limit(shell_hook):
    outcome = await asked(shell_hook("exec yes", max_line_bytes=100_000))
    assert outcome.trail[0].error == "it wrote more than 100000 bytes, and was killed"


async def test_a_flood_on_stderr_does_not_block_it(shell_hook):
    outcome = await asked(shell_hook("head -c 1000000 /dev/zero >&2; echo '{}'"))
    assert outcome.trail[0].error is None


async def test_an_escape_on_stderr_is_written_out(shell_hook):
    outcome = await asked(shell_hook(r"printf '\033[2Jx' >&2; exit 1"))
    assert outcome.trail[0].error == r"it exited with code 1; it said: \x1b[2Jx"


# Around it.


async def test_it_is_verified_before_each_run(shell_hook):
    allowed = [True]
    seen = []

    def verify(spec):
        seen.append(spec.name)
        if not allowed[0]:
            raise TrustError([Problem("hooks.yaml", "", "changed since it was trusted")])

    async with Host([shell_hook("echo '{}'", on_failure="deny")], timeouts=FAR, verify=verify) as host:
        assert (await host.before_tool(CALL)).action == "continue"
        allowed[0] = False
        outcome = await host.before_tool(CALL)
    assert (outcome.action, outcome.trail[0].error) == ("deny_tool", "hooks.yaml: changed since it was trusted")
    assert seen == ["run", "run"]


async def test_many_are_asked_at_the_same_time_up_to_the_limit(shell_hook, board):
    shell = f"exec {shlex.join(command(board.call('child'), ['wait'], ['write', '{}']))}"
    async with (
        Host([shell_hook(shell, max_in_flight=2, timeout=60)], timeouts=FAR) as host,
        anyio.create_task_group() as tasks,
    ):
        for _ in range(3):
            tasks.start_soon(host.before_tool, CALL)
        first, second = await board.line("child"), await board.line("child")
        await anyio.wait_all_tasks_blocked()
        assert board.nobody_called()
        first.go_on()
        third = await board.line("child")
        second.go_on()
        third.go_on()


@ON_BOTH
async def test_waiting_for_a_free_slot_counts_toward_its_timeout(shell_hook, board):
    shell = f"exec {shlex.join(command(board.call('child'), HANG))}"
    hook = shell_hook(
        shell,
        max_in_flight=1,
        timeouts={"before_tool": 600, "approve_tool": 0.1},
        stages=["before_tool", "approve_tool"],
    )
    async with Host([hook], timeouts=FAR) as host, anyio.create_task_group() as tasks:
        tasks.start_soon(host.before_tool, CALL)
        await board.line("child")
        outcome = await host.approve_tool(CALL)
        tasks.cancel_scope.cancel()
    assert (outcome.approved, outcome.trail[0].error) == (
        False,
        "timed out waiting for a free slot: 1 call was ahead of it",
    )


async def test_an_approver_can_say_yes(shell_hook):
    for shell, approved in [
        ("""echo '{"approved": true}'""", True),
        ("""echo '{"approved": false, "reason": "no"}'""", False),
        ("echo '{}'", False),
        ("true", False),
        ("""echo '{"approved": "yes"}'""", False),
        ("""echo '{"approved": true}'; exit 1""", False),
        ("""echo '{"approved": false, "approved": true}'""", False),
    ]:
        async with Host([shell_hook(shell, stages=["approve_tool"])], timeouts=FAR) as host:
            assert (await host.approve_tool(CALL)).approved is approved, shell


@pytest.mark.parametrize(
    ("dialect", "name", "read"),
    [
        ("legacy", "session_start", lambda params: (params["Kind"], params["Payload"], params["Meta"]["SessionKey"])),
        (
            "runtime",
            "agent.session.start",
            lambda params: (params["kind"], params["payload"], params["scope"]["session_key"]),
        ),
    ],
)
async def test_an_event_comes_as_a_hook_process_gets_it(shell_hook, tmp_path, dialect, name, read):
    told = tmp_path / "told"
    hook = shell_hook(f"echo $PICOHOOK_EVENT >> {told}; cat >> {told}", observe=["session_start"], events=dialect)
    async with Host([hook], timeouts=FAR) as host:
        host.emit("session_start", {"SessionKey": "s1"}, meta=Meta(session_key="s1"))
    named, params = told.read_text().splitlines()
    assert named == name
    assert read(json.loads(params)) == (name, {"SessionKey": "s1"}, "s1")


async def test_a_result_at_an_event_is_ignored_and_logged(shell_hook, journal):
    async with Host(
        [shell_hook("""echo '{"action": "deny_tool"}'""", observe=["turn_start"])], timeouts=FAR, logger=journal
    ) as host:
        await host.emit_and_wait("turn_start")
    assert len(journal.all("ignored a part of its answer", at="turn_start", fields="action")) == 1


async def test_its_questions_are_counted(shell_hook):
    async with Host(
        [shell_hook("[ -z $FAIL ] && cat >/dev/null || exit 1", filter={"tool": "Bash"})], timeouts=FAR
    ) as host:
        await host.before_tool(CALL)
        await host.before_tool(ToolCall(tool="Read"))
        (status,) = host.status().hooks
    counts = status.stages["before_tool"]
    assert (status.state, status.calls) == ("ready", 1)
    assert (counts["executions"], counts["successes"], counts["failures"], counts["skipped"]) == (1, 1, {}, 1)
    assert counts["total_ms"] > 0
