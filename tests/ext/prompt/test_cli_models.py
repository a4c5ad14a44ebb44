"""Hooks that ask a model, from the command line: `[model]` says which."""

from __future__ import annotations

import json

import pytest
from tests_of_models import ASK, model_table

NAMED = ("--config", "picohook.toml")
DENIES = {"action": "skip", "retry_feedback": "not that"}
PARAMS = '{"tool": "bash"}'
REVIEW = 'pre_send_message:\n  - type: llm\n    prompt: "ok? {{user_input}}"\n'


@pytest.fixture
def asking(project, endpoint):
    """A project with a hook that asks a model, which has one answer."""
    endpoint.says(DENIES)
    project.config.write_text(model_table(endpoint) + ASK)
    project.config.chmod(0o644)
    return project


def test_call_asks_the_model(asking):
    done = asking("call", "before_tool", *NAMED, "--params", PARAMS, "--json")
    assert (done.json["action"], done.json["reason"]) == ("deny_tool", "not that")


def test_serve_asks_the_model(asking):
    request = {"jsonrpc": "2.0", "id": 1, "method": "before_tool", "params": json.loads(PARAMS)}
    done = asking("serve", *NAMED, stdin=json.dumps(request) + "\n")
    assert done.json["result"]["action"] == "deny_tool"


def test_run_asks_the_model_and_feedback_at_before_prompt_goes_in_the_prompts_place(project, endpoint):
    own = project.home / ".config" / "picohook" / "picohook.toml"
    own.parent.mkdir(parents=True)
    own.write_text(model_table(endpoint))  # a model and no hooks: j-cli's file cannot name one
    own.chmod(0o644)
    hooks = project.path / "hooks.yaml"
    hooks.write_text(REVIEW)
    hooks.chmod(0o644)
    endpoint.says({"action": "stop", "retry_feedback": "politely"})
    script = '{"stage": "before_prompt", "params": {"prompt": "hey you"}}\n'
    done = project("run", "-", "--config", "hooks.yaml", "--json", stdin=script)
    (outcome,) = done.lines
    assert (done.code, outcome["action"], outcome["payload"]["prompt"]) == (0, "modify", "politely")
    assert len(endpoint.asked) == 1


@pytest.mark.parametrize("command", [("call", "before_tool", "--params", PARAMS), ("run", "-"), ("serve",)])
def test_without_a_model_nothing_starts_and_the_hook_is_named(project, command):
    project.table("asks", prompt="Is {{tool_name}} harmless?", stages=["before_tool"])
    done = project(*command, *NAMED, stdin='{"stage": "before_tool", "params": {"tool": "bash"}}\n')
    assert (done.code != 0, done.out) == (True, "")
    assert "hooks.asks: asks a model, and there is no model (name one in [model]" in " ".join(done.err.split())


def test_check_names_the_models_and_what_is_missing(asking):
    done = asking("check", "picohook.toml", "--json", env={"MY_KEY": ""})
    assert done.code == 0
    assert done.json["hooks"][0]["model"].startswith("m1 at http://127.0.0.1:")
    text = asking.config.read_text()
    asking.config.write_text(text.replace('name = "m1"', 'name = "m1"\nkey_env = "MY_KEY"'))
    done = asking("check", "picohook.toml", "--json")
    assert [problem["where"] for problem in done.json["problems"]] == ["model.key_env"]
    assert done.json["hooks"][0]["model"].endswith(", with the key in $MY_KEY")
    asking.config.write_text(ASK)
    done = asking("check", "picohook.toml", "--json")
    (warning,) = done.json["warnings"]
    assert (done.code, warning["where"]) == (0, "hooks.asks")
    assert warning["message"] == "asks a model, and there is no model: a host does not start with it"


def test_doctor_reports_the_same_and_asks_the_model_about_a_canary(asking, endpoint):
    def of_hook():
        done = asking("doctor", "--config", "picohook.toml", "--json")
        found = [one for one in done.json["findings"] if one["about"] == "hook asks"]
        return {one["check"]: (one["level"], one["message"]) for one in found}

    level, message = of_hook()["model"]
    assert level == "note"
    assert message.startswith("it asks m1 at http://127.0.0.1:")
    assert endpoint.asked == []
    text = asking.config.read_text()
    asking.config.write_text(text + 'canary = { tool = "bash" }\n')
    assert of_hook()["canary"] == ("ok", "it denies bash {} at before_tool: not that")
    assert len(endpoint.asked) == 1
    asking.config.write_text(text.replace('name = "m1"', 'name = "m1"\nkey_env = "MY_KEY"'))
    assert of_hook()["model"][0] == "error"
    asking.config.write_text(ASK)
    assert of_hook()["model"] == ("warning", "it asks a model, and there is no model: a host does not start with it")


def test_trust_shows_where_questions_and_the_key_go(asking):
    text = asking.config.read_text()
    asking.config.write_text(text.replace('name = "m1"', 'name = "m1"\nkey_env = "MY_KEY"'))
    done = asking("trust")
    assert done.code == 0
    said = " ".join(done.out.split())
    assert "Hooks of this file that ask a model ask m1 at http://127.0.0.1:" in said
    assert ", with the key in $MY_KEY." in said
