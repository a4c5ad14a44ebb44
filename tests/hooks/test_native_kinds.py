"""The kinds of hook in the native format."""

from __future__ import annotations

import json

import pytest
from kinds_support import Model

from picohook import ConfigError, Hook, HookSpec, Host, ToolCall
from picohook.config import load, schema
from picohook.hooks import make_hook
from picohook.model.hook_kinds import KINDS_OF_HOOK
from picohook.model.payloads import Prompt

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
    assert type(make_hook(spec)).__name__ == kinds[name]
    assert spec.runs == runs.get(name, spec.run)
    assert spec.dir == str(tmp_path)


@pytest.mark.parametrize(
    ("table", "complaint"),
    [
        (
            'command = ["a"]\nrun = "b"',
            "hooks.a: has command and run: a hook is one of command, run, python, prompt, nats",
        ),
        (
            'run = "b"\npython = "c:d"\nprompt = "e"',
            "hooks.a: has run and python and prompt: a hook is one of command, run, python, prompt, nats",
        ),
        ('run = " "', "hooks.a.run: is empty"),
        ('prompt = ""', "hooks.a.prompt: is empty"),
        ('run = "a\\u0000"', "hooks.a.run: holds a NUL character"),
        ('run = ["a"]', "hooks.a.run: must be text, not a list"),
        ('run = "a"\nmodel = "b"', "hooks.a: has a model, and no prompt to ask it"),
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
    with pytest.raises(ValueError, match="a hook is one of command, run, python, prompt, nats"):
        HookSpec(name="a", command=("a",), run="b")


def test_the_settings_of_a_kind_survive_being_written_and_read():
    spec = HookSpec(name="a", prompt="b", model="c", stages=("before_tool",))
    assert HookSpec.model_validate(json.loads(spec.model_dump_json())) == spec


@pytest.mark.parametrize("kind", KINDS_OF_HOOK)
def test_each_row_of_the_table_of_kinds_has_a_setting_and_makes_a_hook_of_its_class(kind):
    value = ("true",) if kind == "command" else "a:b"
    spec = HookSpec.model_validate({"name": "a", kind: value, "stages": ("before_tool",)})
    assert spec.kind == kind
    assert KINDS_OF_HOOK[kind].endswith(f".{type(make_hook(spec)).__name__}")


def test_a_kind_is_known_by_its_row_alone(monkeypatch):
    monkeypatch.setitem(KINDS_OF_HOOK, "prompt", "hooks.base.Hook")
    spec = HookSpec(name="a", prompt="b", stages=("before_tool",))
    assert type(make_hook(spec)) is Hook
