"""An extension adds a key to hooks of every kind: here `counts`, with which a hook is asked, and decides nothing."""

from __future__ import annotations

import pickle

import needs
import pytest

from picohook import ConfigError, HookSpec, Host, ToolCall
from picohook.config import load, schema

pytestmark = pytest.mark.anyio

SHADOW = """
from typing import Literal
from picohook import Continue, Extension, HookKey, Lazy

extension = Extension(name="shadow", hook_keys={"counts": HookKey(Lazy("shadow:Mode"), Lazy("shadow:apply"), "How it counts.")})
Mode = Literal["decides", "shadow"]
asked = []

def apply(hook, mode):
    decide = hook.handle
    async def handle(question):
        asked.append(await decide(question))
        return Continue()
    if mode == "shadow":
        hook.handle = handle
    return hook
"""
CALL = ToolCall(tool="bash", arguments={})
DENY = """run = "echo '{\\"action\\": \\"deny_tool\\"}'"\nstages = ["before_tool"]"""


@pytest.fixture
def file(install, tmp_path):
    """Writes a configuration with a hook that denies, and has these other keys."""
    install("shadow", text=SHADOW)

    def write(more: str):
        path = tmp_path / "picohook.toml"
        path.write_text(f"[hooks.gate]\n{DENY}\n{more}\n")
        return path

    return write


@pytest.mark.parametrize(("mode", "action"), [("decides", "deny_tool"), ("shadow", "continue")])
@needs.other_rooms
async def test_the_hook_that_the_extension_returns_is_mounted(file, mode, action):
    async with Host.from_config(file(f'counts = "{mode}"')) as host:
        assert (await host.before_tool(CALL)).action == action
    import shadow

    assert [decision.action for decision in shadow.asked] == (["deny_tool"] if mode == "shadow" else [])


@pytest.mark.parametrize(
    ("more", "complaint"),
    [
        ('counts = "shadows"', 'hooks.gate.counts: "shadows" is not one of decides, shadow'),
        ('count = "shadow"', 'hooks.gate.count: unknown key (did you mean "counts"?)'),
    ],
)
def test_a_mistake_in_it_is_named_as_in_any_key(file, more, complaint):
    path = file(more)
    with pytest.raises(ConfigError) as caught:
        load(path)
    assert [str(problem).removeprefix(f"{path}: ") for problem in caught.value.problems] == [complaint]


@needs.other_rooms
def test_the_settings_with_it_are_like_all_others(file):
    (spec,) = load(file('counts = "shadow"')).hooks
    (other,) = load(file('counts = "decides"')).hooks
    assert spec.counts == "shadow"
    assert spec.fingerprint != other.fingerprint
    assert spec.model_copy(update={"counts": "decides"}) == other
    assert pickle.loads(pickle.dumps(spec)) == spec
    assert HookSpec(name="judge", prompt="x", counts="shadow").kind == "prompt"
    assert schema()["$defs"]["HookSpec"]["properties"]["counts"]["enum"] == ["decides", "shadow"]


def test_a_package_that_cannot_be_used_is_named_to_a_configuration_with_its_key_and_to_no_other(install, tmp_path):
    install("broken", text="import not_there")
    file = tmp_path / "picohook.toml"
    file.write_text(f"[hooks.gate]\n{DENY}\n")
    load(file)
    file.write_text('[hooks.gate]\nurl = "https://example.org"\nstages = ["before_tool"]\n')
    with pytest.raises(
        ConfigError, match=r"hooks\.gate\.url: unknown key \(it may be a key of broken 1\.2.*'not_there'"
    ):
        load(file)
