"""The copy of an agent's settings that a drill starts it with."""

from __future__ import annotations

import json
import shlex
import tomllib
from datetime import date
from pathlib import Path
from tempfile import mkdtemp

import pytest
from rows import each

from picohook.errors import PicohookError
from picohook.ext.drill.agents import AGENTS
from picohook.ext.drill.settings import without_programs, written
from picohook.ext.drill.ways import FOREIGN, Drill, Ground

NOWHERE = "http://127.0.0.1:1"


@pytest.fixture
def ground(tmp_path, monkeypatch):
    """Makes the ground of an agent for a way. Its home is empty."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for agent in AGENTS.values():
        monkeypatch.delenv(agent.home, raising=False)

    def make(name, way="main"):
        place = Path(mkdtemp(dir=tmp_path))
        return Ground(Drill(AGENTS[name], "/nowhere", place, place, None), way)

    return make


@pytest.fixture
def copied(tmp_path, ground):
    """Copies the settings of an agent, whose files are given. Returns the ground with the copy, and its files."""

    def copy(name, files, way="main"):
        for path, document in files.items():
            real = tmp_path / "home" / f".{name}" / path
            real.parent.mkdir(parents=True, exist_ok=True)
            real.write_text(document if isinstance(document, str) else json.dumps(document))
        made = ground(name, way)
        made.copy(NOWHERE, {})
        made.at = made.home / ".gemini" if name == "gemini" else made.home
        return made

    return copy


def handler_of(copy, name, event):
    entry = json.loads((copy.at / name).read_text())["hooks"][event][0]
    return entry.get("hooks", [entry])[0]


def test_a_recorder_stands_in_the_place_of_a_hook_and_all_else_stays(copied):
    hook = {"type": "command", "command": "guard --all", "timeout": 7, "onFailure": "block", "if": "Bash(rm *)"}
    other = {"hooks": [{"type": "command", "command": "true"}]}
    settings = {
        "permissions": {"deny": ["Read(.env)"]},
        "hooks": {"PreToolUse": [{"matcher": "Bash|Edit", "hooks": [hook]}], "Stop": [other]},
    }
    copy = copied("claude", {"settings.json": settings})
    made = json.loads((copy.at / "settings.json").read_text())
    (group,) = made["hooks"]["PreToolUse"]
    (handler,) = group["hooks"]
    words = shlex.split(handler.pop("command"))
    assert (words[1:3], words[3].endswith("recorder.py"), words[4:]) == (["-I", "-S"], True, [str(copy.place), "0"])
    assert handler == {name: value for name, value in hook.items() if name != "command"}
    assert (group["matcher"], made["permissions"], made["hooks"]["Stop"]) == (
        "Bash|Edit",
        settings["permissions"],
        [other],
    )
    (kept,) = json.loads((copy.place / "hooks.json").read_text())
    assert (kept["at"], kept["run"]) == ("settings.json: PreToolUse[0]", ["/bin/sh", "-c", "guard --all"])


def test_a_hook_of_codex_runs_in_the_login_shell_of_its_recorder_and_not_in_another_one(ground, monkeypatch):
    monkeypatch.setenv("SHELL", "/bin/bash")
    document = {"hooks": {"PreToolUse": [{"hooks": [{"type": "command", "command": "guard"}]}]}}
    made = ground("codex")
    made.record(document, "hooks.json")
    assert made.hooks[0]["run"] == ["/bin/bash", "-c", "guard"]


def test_models_accounts_and_servers_are_left_out(copied):
    settings = {
        "model": "opus",
        "apiKeyHelper": "/bin/key",
        "env": {"ANTHROPIC_AUTH_TOKEN": "secret", "CLAUDE_CODE_USE_BEDROCK": "1", "GUARD_LEVEL": "3"},
        "disableAllHooks": True,
    }
    copy = copied("claude", {"settings.json": settings, ".credentials.json": {"token": "secret"}})
    assert json.loads((copy.at / "settings.json").read_text()) == {"env": {"GUARD_LEVEL": "3"}, "disableAllHooks": True}
    assert not any(b"secret" in path.read_bytes() for path in copy.place.rglob("*") if path.is_file())


@each(
    ("name", "left_out"), [("ANTHROPIC_API_KEY", True), ("CLAUDECODE", True), ("GH_TOKEN", True), ("HTTPS_PROXY", True)]
)
def test_variables_of_accounts_do_not_reach_the_agent(name, left_out):
    assert (FOREIGN.match(name) is not None) is left_out
    assert not FOREIGN.match("PATH")
    assert not FOREIGN.match("GHOST")


def test_only_a_trusted_project_is_trusted_in_the_copy(copied):
    copy = copied("gemini", {"settings.json": '{"security": {"folderTrust": {"enabled": true}}} // mine'})
    assert json.loads((copy.at / "trustedFolders.json").read_text()) == {str(copy.project): "TRUST_FOLDER"}
    security = json.loads((copy.at / "settings.json").read_text())["security"]
    assert security == {"folderTrust": {"enabled": True}, "auth": {"selectedType": "gemini-api-key"}}


def test_an_untrusted_project_is_not_named(copied):
    copy = copied("gemini", {}, "untrusted")
    assert not (copy.at / "trustedFolders.json").exists()


@each(
    ("agent", "event", "late"),
    [
        ("claude", "PreToolUse", {"timeout": 2}),
        ("gemini", "BeforeTool", {"timeout": 2000}),
        ("copilot", "preToolUse", {"timeoutSec": 2}),
    ],
)
def test_a_time_out_is_made_short_where_it_is_to_pass(ground, agent, event, late):
    document = {"hooks": {event: [{"type": "command", "command": "x", "timeout": 90}]}}
    ground(agent, "late").record(document, "own.json")
    (made,) = document["hooks"][event]
    assert {name: value for name, value in made.items() if name.startswith("timeout")} == late


def test_a_hook_that_runs_no_command_is_told(copied):
    hook = {"type": "http", "url": "https://example.com", "timeout": 9}
    copy = copied("claude", {"settings.json": {"hooks": {"PreToolUse": [{"hooks": [hook]}]}}})
    assert copy.drill.notes == ["settings.json: PreToolUse[0] runs no command: the drill sees only whether it is asked"]
    assert handler_of(copy, "settings.json", "PreToolUse").keys() == {"type", "command", "timeout"}


@each("text", ["{", "[]", "[1]", '"x"', "\udcff"])
def test_a_file_that_cannot_be_read_is_named(ground, tmp_path, text):
    path = tmp_path / "home/.claude/settings.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode(errors="surrogateescape"))
    made = ground("claude")
    with pytest.raises(PicohookError, match=r"settings\.json cannot be read: "):
        made.copy(NOWHERE, {})


def test_toml_says_the_same_as_before():
    document = {
        "a.b": 'x"\\\n\u2028é',
        "list": [1, 2.5, True, {"a": []}],
        "table": {"nested": {"k e y": date(2026, 1, 2)}},
        "hooks": {"PreToolUse": [{"hooks": [{"command": "a 'b' \"c\"", "timeout": 5}]}]},
    }
    assert tomllib.loads(written(document, Path("config.toml"))) == document


@each(
    ("word", "missing"),
    [
        ("/usr/bin/env -i x", "/usr/bin/env -i x"),
        ("/bin/sh -c 'x'", "/bin/sh -c 'x'"),
        ("$HOME/guard.sh --x", "$HOME/guard.sh.missing --x"),
        ('"$CLAUDE_PROJECT_DIR"/guard.py', '"$CLAUDE_PROJECT_DIR"/guard.py.missing'),
        ("~/guard.sh; x", "~/guard.sh.missing; x"),
        (f"{__file__} || exit 2", f"{__file__}.missing || exit 2"),
        ("grep -q /no/such/place", "grep -q /no/such/place"),
        ("cat > /dev/null", "cat > /dev/null"),
    ],
)
def test_each_program_that_a_command_names_by_its_path_can_be_missing(word, missing):
    assert without_programs(word) == missing
