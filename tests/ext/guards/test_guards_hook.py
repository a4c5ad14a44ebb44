"""`[guards]` in a host: what becomes of a call, with and without somebody to ask."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from mcp_ends import between, call as mcp_call

from picohook import FunctionHook, Host, ToolCall
from picohook.errors import ConfigError
from picohook.ext.guards.memory import MOST_FILES, Memory
from picohook.ext.guards.table import GuardsSpec
from picohook.ext.vendors import dialogue
from picohook.ext.vendors.dialects import vendor_named
from picohook.ext.vendors.dialogue import Dialogue
from picohook.ext.vendors.shim.server import ShimHost, ShimRequest
from picohook.model.payloads import Meta

pytestmark = pytest.mark.anyio


@pytest.fixture
def config(tmp_path):
    def made(text="[guards]\n"):
        path = tmp_path / "picohook.toml"
        path.write_text(text)
        return path

    return made


def call(command, tool="bash", **more):
    return ToolCall(tool=tool, arguments={"command": command}, **more)


async def test_a_harmful_call_is_denied_with_the_way_out_and_a_harmless_one_passes(config):
    async with Host.from_config(config()) as host:
        denied = await host.before_tool(call("rm -fr ~"))
        assert (denied.action, denied.hook) == ("deny_tool", "guards")
        assert "Name the one directory" in denied.reason
        assert (await host.before_tool(call("ls"))).action == "continue"


async def test_a_call_to_ask_about_is_denied_where_nobody_can_be_asked_and_the_answer_says_so(config):
    async with Host.from_config(config()) as host:
        outcome = await host.before_tool(call("rm -rf src"))
        assert outcome.action == "deny_tool"
        assert outcome.reason.endswith("It has to be approved by a person, and there is no approver.")


async def test_a_call_to_ask_about_goes_to_the_approver(config):
    async with Host.from_config(config()) as host:
        await host.mount(FunctionHook("person", {"approve_tool": lambda _: True}))
        assert (await host.before_tool(call("rm -rf src"))).action == "continue"
        assert (await host.before_tool(call("rm -rf ~"))).action == "deny_tool"


async def test_a_call_to_ask_about_goes_to_the_dialogue_of_an_agent_that_can_ask(config):
    async with Host.from_config(config()) as host:
        for asks, action in ((True, "pause"), (False, "deny_tool")):
            dialogue.CURRENT.set(Dialogue("Claude Code", asks, os.getcwd()))
            assert (await host.before_tool(call("rm -rf src"))).action == action
        dialogue.CURRENT.set(None)


async def test_a_call_that_another_hook_changes_is_judged_again(config):
    def change(_):
        return {"action": "modify", "call": {"arguments": {"command": "rm -rf ~"}}}

    async with Host.from_config(config()) as host:
        await host.mount(FunctionHook("changer", {"before_tool": change}, priority=900))
        assert (await host.before_tool(call("ls"))).action == "deny_tool"


async def test_paths_count_from_the_directory_that_the_context_names(config, tmp_path):
    (tmp_path / "build").mkdir()
    async with Host.from_config(config()) as host:
        inside = {"cwd": str(tmp_path / "build"), "project": str(tmp_path)}
        assert (await host.before_tool(call("rm -rf *", context=inside))).action == "continue"
        assert (
            await host.before_tool(call("rm -rf *", context={**inside, "cwd": str(tmp_path)}))
        ).action == "deny_tool"


async def test_a_script_is_remembered_until_its_session_ends(config, tmp_path):
    async with Host.from_config(config()) as host:
        meta = Meta(session_key="one")
        script = str(tmp_path / "x.sh")
        written = ToolCall(tool="Write", arguments={"file_path": script, "content": "rm -rf ~"}, meta=meta)
        place = {"cwd": str(tmp_path), "project": str(tmp_path)}
        assert (await host.before_tool(written.model_copy(update={"context": place}))).action == "continue"
        run = call("bash x.sh", meta=meta, context=place)
        assert (await host.before_tool(run)).action == "deny_tool"
        assert (await host.before_tool(call("bash x.sh", context=place))).action == "continue"
        await host.emit_and_wait("session_end", {"SessionKey": "one"}, about=run)
        assert (await host.before_tool(run)).action == "continue"


async def test_a_guard_that_fails_denies(config, monkeypatch):
    async with Host.from_config(config()) as host:
        (guard,) = (hook for hook in host.hooks if hook.name == "guards")
        monkeypatch.setattr(guard, "_memory", None)
        assert (await host.before_tool(call("ls"))).action == "deny_tool"


@pytest.mark.parametrize("command", ["check", "list", "doctor"])
def test_a_configuration_with_guards_is_well_and_says_what_they_are_about(config, command):
    words = [sys.executable, "-m", "picohook", command, "--config", str(config("[guards]\npacks = ['shell', 'git']\n"))]
    done = subprocess.run(words, capture_output=True, encoding="utf-8", check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert (
        "it runs no program (guards: rules about" if command == "doctor" else "rules about shell, git"
    ) in done.stdout


def test_a_pack_that_does_not_exist_and_a_rule_with_a_mistake_are_mistakes_of_the_file(config):
    for text, message in (
        ('[guards]\npacks = ["gti"]\n', "there is no pack of guards named 'gti'"),
        ('[guards]\nallow = ["ls | sh"]\n', "is no plain command"),
        ('[[guards.rule]]\nid = "x"\nwhy = "y"\n', "the rule x has a mistake"),
    ):
        with pytest.raises(ConfigError, match=message):
            Host.from_config(config(text))


def test_a_session_remembers_a_bounded_number_of_files_and_reads_them_as_they_are(tmp_path):
    memory = Memory()
    for number in range(MOST_FILES + 1):
        memory.note("s", {f"/nowhere/{number}": "x"})
    assert memory.text("s", "/nowhere/0") is None
    assert memory.text("s", f"/nowhere/{MOST_FILES}") == "x"
    path = tmp_path / "a"
    memory.note("s", {str(path): "old"})
    path.write_text("new")
    assert memory.text("s", str(path)) == "new"
    path.write_bytes(b"\x7fELF\0")
    assert memory.text("s", str(path)) is None


def test_git_is_asked_without_hooks_and_programs_of_the_repository(tmp_path):
    def git(*arguments):
        subprocess.run(["git", "-C", tmp_path, *arguments], check=True, capture_output=True)

    from picohook.ext.guards.judge import Judge, Place

    planted = tmp_path / "ran"
    git("init", "-q")
    (tmp_path / "a").write_text("x")
    git("-c", "user.name=x", "-c", "user.email=x", "add", "a")
    git("-c", "user.name=x", "-c", "user.email=x", "commit", "-qm", "x")
    judge, place = Judge(["git"]), Place(str(tmp_path), str(tmp_path))
    assert judge.judge("Bash", {"command": "git reset --hard"}, place).decision == "continue"
    for key in ("core.fsmonitor", "core.pager", "core.sshCommand", "diff.external", "filter.x.clean", "core.editor"):
        git("config", key, f"touch {planted}; cat")
    (tmp_path / ".gitattributes").write_text("* filter=x\n")
    (tmp_path / "a").write_text("y")
    assert judge.judge("Bash", {"command": "git reset --hard"}, place).decision == "ask"
    assert not planted.exists()


def test_explain_judges_each_line_of_a_batch(tmp_path):
    lines = [
        {
            "id": 1,
            "tool": "Bash",
            "arguments": {"command": "rm -rf *"},
            "cwd": "/home/dev",
            "project": "/home/dev/shop",
        },
        {"id": "b", "tool": "Bash", "arguments": {"command": "ls"}, "agent": "claude"},
    ]
    done = subprocess.run(
        [sys.executable, "-m", "picohook", "explain", "--batch"],
        input="\n".join(map(json.dumps, lines)),
        capture_output=True,
        text=True,
        cwd=tmp_path,
        check=True,
    )
    first, second = map(json.loads, done.stdout.splitlines())
    assert (first["id"], first["decision"], first["rule"]) == (1, "deny", "shell.delete-root")
    assert second == {"id": "b", "decision": "continue", "rule": "", "reason": ""}


def test_a_line_of_a_batch_that_is_no_call_is_denied_and_the_others_are_judged(tmp_path):
    good = '{"id": 9, "tool": "Bash", "arguments": {"command": "kubectl delete ns prod"}}'
    lines = ["no json", '{"id": 2}', '{"id": 3, "tool": "Bash", "arguments": "ls"}', "[]", good]
    done = subprocess.run(
        [sys.executable, "-m", "picohook", "explain", "--batch"],
        input="\n".join(lines),
        capture_output=True,
        text=True,
        cwd=tmp_path,
        check=False,
    )
    *wrong, last = map(json.loads, done.stdout.splitlines())
    assert done.returncode == 1
    assert [(one["id"], one["decision"]) for one in wrong] == [(None, "deny"), (2, "deny"), (3, "deny"), (None, "deny")]
    assert wrong[1]["reason"].startswith("line 2: tool: is missing")
    assert (last["id"], last["decision"], last["rule"]) == (9, "ask", "cloud.cluster")


async def test_guards_judge_the_calls_of_an_mcp_server(config):
    spec = GuardsSpec(name="guards", stages=("before_tool",), guard=True)
    async with between(spec.make()) as both:
        await both.client.send(mcp_call(1, "run", command="rm -fr ~"), mcp_call(2, "read", path="~/.ssh/id_rsa"))
        for message in (await both.client.message(), await both.client.message()):
            assert message["result"]["isError"]
            assert "denied by hook" in message["result"]["content"][0]["text"]
        await both.client.send(mcp_call(3, "run", command="ls"))
        assert json.loads(await both.server.line())["id"] == 3


async def test_the_kind_of_a_tool_counts_if_its_server_is_trusted(config):
    for text, action in (("[guards]\n", "deny_tool"), ('[guards]\ntrusted = ["files"]\n', "continue")):
        async with Host.from_config(config(text)) as host:
            reads = ToolCall(tool="mcp__files__create_index", arguments={"path": "/etc/hosts"}, tool_kind="readonly")
            assert (await host.before_tool(reads)).action == action
            reads = reads.model_copy(update={"tool_kind": None})
            assert (await host.before_tool(reads)).action == "deny_tool"


@pytest.mark.parametrize(("vendor", "event"), [("codex", "PreToolUse"), ("gemini", "BeforeTool")])
async def test_guards_judge_the_calls_of_an_agent_behind_its_shim(config, vendor, event):
    async with Host.from_config(config()) as host:
        shim = ShimHost(host, vendor_named(vendor), lambda: False)

        async def said(command):
            tool = {"codex": "Bash", "gemini": "run_shell_command"}[vendor]
            given = {"session_id": "s", "hook_event_name": event, "tool_name": tool, "tool_input": {"command": command}}
            reply = await shim.answer(ShimRequest(event, os.getcwd(), {}, json.dumps(given).encode()))
            return json.dumps(json.loads(reply.out or b"{}"))

        assert "shell.delete-root" in await said("rm -fr ~")
        assert "deny" in await said("rm -rf src")  # neither agent can ask for a hook
        assert "deny" not in await said("ls")
