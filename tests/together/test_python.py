"""`python` hooks: functions found by name."""

from __future__ import annotations

import sys

import pytest
from kinds_support import FAR

from picohook import ConfigError, HookCrashedError, HookSpec, Host, ToolCall, TrustError
from picohook.config import load
from picohook.errors import Problem
from picohook.projects import trust

pytestmark = pytest.mark.anyio

CALL = ToolCall(tool="Bash", arguments={"command": "ls"})


def hook(target, directory=None, **settings):
    if not {"stages", "observe"} & settings.keys():
        settings["stages"] = ("before_tool",)
    return HookSpec.model_validate({"name": "hook", "python": target, "dir": directory and str(directory), **settings})


async def asked(spec, **settings):
    async with Host([spec], timeouts=FAR, **settings) as host:
        return await host.before_tool(CALL)


GUARD = """
from picohook import Deny

def guard(call):
    return Deny(reason="no " + call.tool)

async def later(call):
    return {"action": "deny_tool", "reason": "later"}
"""


@pytest.mark.parametrize(("name", "reason"), [("guard", "no Bash"), ("later", "later")])
async def test_a_function_beside_the_configuration_is_asked(config, name, reason):
    config("guards.py", GUARD)
    path = config("picohook.toml", f'[hooks.a]\npython = "guards:{name}"\nstages = ["before_tool"]\n')
    async with Host.from_config(path) as host:
        outcome = await host.before_tool(CALL)
    assert (outcome.action, outcome.reason) == ("deny_tool", reason)


async def test_it_may_be_in_a_directory_or_a_package(config, tmp_path):
    config("rules/guards.py", GUARD)
    config("pack/__init__.py", "from .inner import guard\n")
    config("pack/inner.py", GUARD)
    assert (await asked(hook("rules.guards:guard", tmp_path))).reason == "no Bash"
    assert (await asked(hook("pack:guard", tmp_path))).reason == "no Bash"


async def test_an_installed_module_is_found_if_there_is_no_file(tmp_path):
    outcome = await asked(hook("operator:attrgetter", tmp_path))
    assert outcome.trail[0].error.startswith("operator:attrgetter cannot be used: TypeError")


async def test_a_file_hides_no_module_and_no_module_hides_it(config, tmp_path):
    config("json.py", GUARD)
    before = sys.modules["json"]
    assert (await asked(hook("json:guard", tmp_path))).reason == "no Bash"
    assert sys.modules["json"] is before


async def test_each_mount_reads_the_file_again_without_a_cache(config, tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    text = "def guard(call):\n    return {'action': 'deny_tool', 'reason': 'one'}\n"
    config("guards.py", text)
    assert (await asked(hook("guards:guard", tmp_path))).reason == "one"
    config("guards.py", text.replace("one", "two"))
    assert (await asked(hook("guards:guard", tmp_path))).reason == "two"
    assert not (tmp_path / "__pycache__").exists()


STAGED = """
from dataclasses import dataclass
from pathlib import Path

@dataclass
class Rules:
    seen: int = 0

    def before_tool(self, call):
        self.seen += 1

    def approve_tool(self, call):
        return self.seen == 1

    def on_event(self, event):
        Path("told").write_text(event.kind)

ready = Rules()
"""


@pytest.mark.parametrize("target", ["Rules", "ready"])
async def test_a_class_or_an_object_has_a_method_for_each_stage(config, tmp_path, target):
    config("rules.py", STAGED)
    spec = hook(f"rules:{target}", tmp_path, stages=("before_tool", "approve_tool"), observe=("turn_start",))
    async with Host([spec], timeouts=FAR) as host:
        assert not (await host.approve_tool(CALL)).approved
        await host.before_tool(CALL)
        assert (await host.approve_tool(CALL)).approved
        await host.emit_and_wait("turn_start")
    assert (tmp_path / "told").read_text() == "turn_start"


FAILING = {
    "no file": ("nothing_here:guard", "ModuleNotFoundError: No module named 'nothing_here'"),
    "no name": ("guards:gard", "guards.py has no gard (did you mean guard?)"),
    "broken": ("broken:guard", "SyntaxError: "),
    "raises": ("raises:guard", "ZeroDivisionError: division by zero"),
    "exits": ("exits:guard", "it called exit(3)"),
    "no method": ("guards:RULES", "TypeError: it has no before_tool, and cannot be called"),
}


@pytest.fixture
def modules(config):
    config("guards.py", GUARD + "RULES = object()\n")
    config("broken.py", "def guard(:\n")
    config("raises.py", "1 / 0\n")
    config("exits.py", "import sys\nsys.exit(3)\n")


@pytest.mark.parametrize("case", FAILING)
@pytest.mark.usefixtures("modules")
async def test_a_function_that_cannot_be_imported_fails_when_it_is_asked_and_says_why(case, tmp_path):
    target, why = FAILING[case]
    async with Host([hook(target, tmp_path, on_failure="deny")], timeouts=FAR) as host:
        outcome = await host.before_tool(CALL)
        (status,) = host.status().hooks
    assert outcome.action == "deny_tool"
    assert outcome.trail[0].error.startswith(f"{target} cannot be used: {why}")
    assert (status.state, status.last_error) == ("failed", outcome.trail[0].error)


@pytest.mark.usefixtures("modules")
async def test_a_required_function_that_cannot_be_imported_fails_the_start(tmp_path):
    with pytest.raises(HookCrashedError, match="hook hook is required, and did not start: raises:guard cannot be used"):
        async with Host([hook("raises:guard", tmp_path, required=True)]):
            pass


async def test_an_import_without_end_holds_up_no_other_hook(config, tmp_path):
    config("slow.py", "import pathlib, time\nwhile not pathlib.Path('go').exists():\n    time.sleep(0.01)\n" + GUARD)
    spec = hook("slow:guard", tmp_path, hello_timeout=0.05, timeout=0.05, on_failure="deny")
    async with Host([spec], timeouts=FAR) as host:
        outcome = await host.before_tool(CALL)
        (status,) = host.status().hooks
    (tmp_path / "go").touch()
    assert (outcome.action, outcome.trail[0].error) == ("deny_tool", "it is still being imported")
    assert (status.state, status.last_error) == ("failed", "it is still being imported")


async def test_a_failed_approver_denies(tmp_path):
    async with Host([hook("nothing_here:guard", tmp_path, stages=("approve_tool",))], timeouts=FAR) as host:
        assert not (await host.approve_tool(CALL)).approved


async def test_it_is_verified_before_it_is_imported(config, tmp_path):
    config("guards.py", "import pathlib\npathlib.Path('ran').touch()\n" + GUARD)

    def refuse(spec):
        raise TrustError([Problem(spec.name, "", "is not trusted")])

    outcome = await asked(hook("guards:guard", tmp_path, on_failure="deny"), verify=refuse)
    assert "is not trusted" in outcome.trail[0].error
    assert not (tmp_path / "ran").exists()


async def test_it_is_asked_where_hooks_of_users_are(tmp_path):
    """Not among the builtin ones, though it is in the host's own process: it is from a configuration."""
    builtin = hook("operator:not_", tmp_path).model_copy(update={"name": "z", "layer": "builtin"})
    async with Host([hook("operator:not_", tmp_path), builtin]) as host:
        assert [one.name for one in host.asked_at("before_tool")] == ["z", "hook"]


@pytest.mark.parametrize("target", ["guards", ":guard", "guards:", "a b:c", "guards:a-b", "../guards:a", "a:b:c"])
def test_a_setting_that_does_not_name_a_function_is_refused(config, target):
    path = config("picohook.toml", f'[hooks.a]\npython = "{target}"\nstages = ["before_tool"]\n')
    with pytest.raises(ConfigError, match=r'hooks\.a\.python: must be "module:function"'):
        load(path)


# Trust covers what is run.


@pytest.fixture
def store(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "home"))


@pytest.mark.usefixtures("store")
@pytest.mark.parametrize(
    ("setting", "file"),
    [
        ('python = "guards:guard"', "guards.py"),
        ("run = \"./check.sh --fast && sh 'other check.sh'; sh third.sh|cat\"", "check.sh"),
        ("run = \"./check.sh --fast && sh 'other check.sh'; sh third.sh|cat\"", "other check.sh"),
        ("run = \"./check.sh --fast && sh 'other check.sh'; sh third.sh|cat\"", "third.sh"),
    ],
)
def test_trust_covers_the_files_of_the_project_that_a_hook_runs(config, setting, file):
    for name in ("guards.py", "check.sh", "other check.sh", "third.sh"):
        config(name, GUARD)
    path = config("picohook.toml", f'[hooks.a]\n{setting}\nstages = ["before_tool"]\n')
    found = load(path, found=True)
    trust.trust(found)
    trust.require_trust(found)
    config(file, GUARD + "# changed\n")
    with pytest.raises(TrustError, match="changed since it was trusted"):
        trust.still_trusted(found, found.hooks[0])
    with pytest.raises(TrustError, match="changed since it was trusted"):
        trust.require_trust(load(path, found=True))


@pytest.mark.usefixtures("store")
def test_trust_in_j_clis_project_file_covers_the_scripts_of_the_project_around_it(config):
    config("scripts/check.sh", "echo '{}'\n")
    path = config(".jcli/hooks.yaml", "stop:\n  - command: sh scripts/check.sh\n")
    found = load(path, found=True)
    trust.trust(found)
    config("scripts/check.sh", "echo changed\n")
    with pytest.raises(TrustError, match="changed since it was trusted"):
        trust.still_trusted(found, found.hooks[0])


@pytest.mark.usefixtures("store")
def test_a_command_that_the_shell_cannot_parse_cannot_be_trusted(config):
    config("check.sh", "echo '{}'\n")
    found = load(config("picohook.toml", '[hooks.a]\nrun = "./check.sh \'"\nstages = ["before_tool"]\n'), found=True)
    with pytest.raises(TrustError, match="only the shell can tell what this runs"):
        trust.covered(found)
