"""The kinds of hook in the native format."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys

import pytest
from kinds_support import Model

from picohook import ConfigError, Hook, HookSpec, Host, ToolCall, extensions
from picohook.config import load, schema
from picohook.ext.prompt.spec import PromptSpec
from picohook.model.payloads import Prompt
from picohook.model.spec import KINDS

CALL = ToolCall(tool="Bash", arguments={"command": "ls"})

ALL = """
[hooks.process]
command = ["python3", "gate.py"]
stages = ["approve_tool"]

[hooks.shell]
run = '''echo '{"action": "modify", "call": {"arguments": {"by": "'$PICOHOOK_EVENT'"}}}' '''
stages = ["before_tool"]

[hooks.function]
python = "guards:guard"
stages = ["before_prompt"]

[hooks.judge]
prompt = "Is {{tool_arguments}} safe?"
model = "gpt-4o-mini"
stages = ["before_tool"]
after = ["shell"]
"""


@pytest.mark.anyio
async def test_hooks_of_every_kind_are_asked_in_one_chain(config, tmp_path):
    config("guards.py", "def guard(prompt):\n    return {'prompt': prompt.prompt.upper()}\n")
    path = config("picohook.toml", ALL.replace('command = ["python3", "gate.py"]', "enabled = false\nrun = 'true'"))
    model = Model({"action": "skip", "retry_feedback": "no"})
    async with Host.from_config(path, complete=model) as host:
        assert [hook.name for hook in host.asked_at("before_tool")] == ["shell", "judge"]
        outcome = await host.before_tool(CALL)
        assert (await host.before_prompt(Prompt(prompt="hello"))).payload.prompt == "HELLO"
    assert (outcome.action, outcome.reason, outcome.payload.arguments) == ("deny_tool", "no", {"by": "before_tool"})
    assert model.prompts[0].startswith("Is {{tool_arguments}} safe?")
    assert r'{"tool_arguments":"{\"by\":\"before_tool\"}"}' in model.prompts[0].data


@pytest.mark.parametrize("name", ["process", "shell", "function", "judge"])
def test_each_hook_knows_its_kind_and_its_program(config, tmp_path, name):
    spec = next(hook for hook in load(config("picohook.toml", ALL)).hooks if hook.name == name)
    kinds = {"process": "ProcessHook", "shell": "CommandHook", "function": "PythonHook", "judge": "PromptHook"}
    runs = {"process": "python3 gate.py", "function": "guards:guard", "judge": "Is {{tool_arguments}} safe?"}
    assert type(spec.make()).__name__ == kinds[name]
    assert spec.runs == runs.get(name, spec.run)
    assert spec.dir == str(tmp_path)


@pytest.mark.parametrize(
    ("table", "complaint"),
    [
        (
            'command = ["a"]\nrun = "b"',
            "hooks.a: has command and run: a hook is one of command, run, python, approver, ask, nats, prompt",
        ),
        (
            'run = "b"\npython = "c:d"\nprompt = "e"',
            "hooks.a: has run and python and prompt: a hook is one of command, run, python, approver, ask, nats, prompt",
        ),
        ('run = " "', "hooks.a.run: is empty"),
        ('prompt = ""', "hooks.a.prompt: is empty"),
        ('run = "a\\u0000"', "hooks.a.run: holds a NUL character"),
        ('run = ["a"]', "hooks.a.run: must be text, not a list"),
        ('nats = "a"\nprompt = "b"', "hooks.a.prompt: unknown key (a hook is of one kind)"),
        ('run = "a"\nmodel = "b"', "hooks.a.model: unknown key (it is for a hook with prompt)"),
    ],
)
def test_one_mistake_is_one_message(config, table, complaint):
    path = config("picohook.toml", f'[hooks.a]\nstages = ["before_tool"]\n{table}\n')
    with pytest.raises(ConfigError) as caught:
        load(path)
    assert [str(problem).removeprefix(f"{path}: ") for problem in caught.value.problems] == [complaint]


def test_the_schema_knows_the_kinds():
    jsonschema = pytest.importorskip("jsonschema")
    check = jsonschema.Draft202012Validator(schema())

    def valid(**keys):
        return check.is_valid({"hooks": {"a": {"stages": ["before_tool"], **keys}}})

    assert valid(command=["a"])
    assert valid(run="a")
    assert valid(python="a:b")
    assert valid(prompt="a", model="b")
    assert not valid()
    assert not valid(command=["a"], run="b")
    assert not valid(run=5)


def test_settings_in_code_are_checked_alike():
    with pytest.raises(ValueError, match="a hook is one of command, run, python, approver, ask, nats, prompt"):
        HookSpec(name="a", command=("a",), run="b")


def test_the_settings_of_a_kind_survive_being_written_and_read():
    spec = HookSpec(name="a", prompt="b", model="c", stages=("before_tool",))
    assert HookSpec.model_validate(json.loads(spec.model_dump_json())) == spec


@pytest.mark.parametrize("kind", [*KINDS, *extensions.every("kinds")])
def test_each_kind_is_named_by_its_key_and_makes_a_hook(kind):
    value = {"command": ("true",), "approver": "queue", "ask": "queue"}.get(kind, "a:b")
    stages = ("before_tool", "before_finish") if kind == "ask" else ("approve_tool",)
    settings = {"name": "a", kind: value, "stages": stages}
    spec = HookSpec(**settings)
    assert spec == HookSpec.model_validate(settings)
    assert (spec.kind, spec.runs) == (kind, "true" if kind == "command" else value)
    assert isinstance(spec.make(), Hook)


def test_a_hook_of_an_extensions_kind_stays_one_when_it_is_copied_and_sent_to_another_process():
    spec = HookSpec(name="a", prompt="b", model="c", stages=("before_tool",))
    assert type(spec) is PromptSpec
    assert pickle.loads(pickle.dumps(spec)) == spec
    assert type(spec.model_copy(update={"name": "d"})) is PromptSpec
    assert spec.fingerprint == PromptSpec(name="a", prompt="b", model="c", stages=("before_tool",)).fingerprint


def test_a_configuration_of_the_cores_kinds_reads_no_row(config):
    path = config("picohook.toml", ALL[: ALL.index("[hooks.judge]")])
    code = f"import sys; from picohook.config import load; load({str(path)!r}); assert 'picohook.ext.otel' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
