"""Commands of j-cli: what they get and what they may answer, in j-cli's own words, run for real."""

from __future__ import annotations

import json
import shlex
import sys

import pytest
from kinds_support import FAR

from picohook import Host, Meta, ToolCall
from picohook.ext.jcli.dialect import JcliSpec

pytestmark = pytest.mark.anyio

CALL = ToolCall(tool="Bash", arguments={"command": "ls"}, meta=Meta(session_key="s1"))


def command(shell, **settings):
    if "observe" not in settings:
        settings["stages"] = ("before_tool",)
    return JcliSpec.model_validate({"name": "run", "run": shell, **settings})


async def asked(shell, call=CALL, logger=None, **settings):
    async with Host([command(shell, **settings)], timeouts=FAR, logger=logger) as host:
        return await host.before_tool(call)


async def test_the_context_is_on_stdin_and_the_event_in_the_environment(tmp_path):
    code = (
        "import json, os, sys; context = json.load(sys.stdin); "
        "context['env'] = [os.environ['JCLI_HOOK_EVENT'], os.environ['JCLI_CWD'], os.environ.get('PICOHOOK_EVENT')]; "
        "print(json.dumps({'tool_arguments': json.dumps(context)}))"
    )
    outcome = await asked(f"{sys.executable} -I -S -c {shlex.quote(code)}", dir=str(tmp_path))
    assert outcome.payload.arguments == {
        "event": "pre_tool_execution",
        "tool_name": "Bash",
        "tool_arguments": '{"command":"ls"}',
        "session_id": "s1",
        "cwd": str(tmp_path),
        "env": ["pre_tool_execution", str(tmp_path), None],
    }


@pytest.mark.parametrize(
    ("answer", "action", "reason"),
    [
        ('{"action": "skip"}', "deny_tool", "the tool was skipped"),
        ('{"action": "skip", "retry_feedback": "no"}', "deny_tool", "no"),
        ('{"action": "stop"}', "abort_turn", "stopped by hook"),
        ('{"abort": true}', "abort_turn", "stopped by hook"),
    ],
)
async def test_the_answers_are_j_clis(answer, action, reason):
    outcome = await asked(f"echo '{answer}'")
    assert (outcome.action, outcome.reason) == (action, reason)


async def test_an_action_of_picohooks_own_is_a_failure():
    outcome = await asked("""echo '{"action": "deny_tool"}'""")
    assert outcome.trail[0].error == 'the action \'deny_tool\' is neither "stop" nor "skip"'


async def test_a_meaningless_result_is_logged(journal):
    await asked("""echo '{"tool_result": "x", "tool_argments": "{}"}'""", logger=journal)
    (record,) = journal.all("ignored a part of its answer")
    assert (record["at"], record["fields"]) == ("pre_tool_execution", "tool_result, tool_argments")


async def test_a_meaningless_result_is_warned_of_once_with_the_valid_ones(journal):
    async with Host([command("""echo '{"decision": "deny"}'""")], timeouts=FAR, logger=journal) as host:
        for _ in range(2):
            await host.before_tool(ToolCall(tool="bash"))
    warned, again = journal.all("ignored a part of its answer", fields="decision")
    assert (warned["level"], again["level"]) == ("warning", "info")
    assert "action" in warned["known"].split(", ")


async def test_events_come_one_after_another_and_results_are_ignored(tmp_path, journal):
    told = tmp_path / "told"
    hook = command(
        f"""cat >> {told}; echo '{{"user_input": "x"}}'""",
        observe=["session_start", "prompt_sent", "session_end"],
        dir=str(tmp_path),
    )
    async with Host([hook], timeouts=FAR, logger=journal) as host:
        host.emit("session_start", {"SessionKey": "s1"}, meta=Meta(session_key="s1"))
        host.emit("prompt_sent", {"UserMessage": "hello"}, meta=Meta(session_key="s1"))
        await host.emit_and_wait("turn_start")
        host.emit("session_end", {"SessionKey": "s1"}, meta=Meta(session_key="s1"))
    here = {"session_id": "s1", "cwd": str(tmp_path)}
    assert [json.loads(line) for line in told.read_text().splitlines()] == [
        {"event": "session_start", **here},
        {"event": "post_send_message", "user_input": "hello", **here},
        {"event": "session_end", **here},
    ]
    assert len(journal.all("ignored a part of its answer", fields="user_input")) == 3
