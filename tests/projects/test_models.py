"""`[model]`: which model prompt hooks ask when no program gives the host one, and who has a say in it."""

from __future__ import annotations

import sys

import pytest
from endpoint import with_nonce
from tests_of_models import ASK, model_table

from picohook import ConfigError, Host, TrustError
from picohook.config import load
from picohook.projects import layers

from .conftest import trust_all

pytestmark = pytest.mark.anyio

CALL = {"tool": "bash", "arguments": {"command": "ls"}}
DENIES = {"action": "skip", "retry_feedback": "not that"}
"""What the model says."""


async def test_a_prompt_hook_asks_the_model_that_its_file_names(user, endpoint, monkeypatch):
    monkeypatch.setenv("MY_KEY", "sk-secret")
    path = user.write("named.toml", model_table(endpoint, key_env="MY_KEY", options={"temperature": 0}) + ASK)
    endpoint.says(DENIES)
    async with Host.from_config(path) as host:
        outcome = await host.before_tool(CALL)
    assert (outcome.action, outcome.reason) == ("deny_tool", "not that")
    ((where, headers, body),) = endpoint.asked
    assert (where, headers["Authorization"]) == ("/v1/chat/completions", "Bearer sk-secret")
    assert (body["model"], body["temperature"]) == ("m1", 0)
    instruction, data = (message["content"] for message in body["messages"])
    assert instruction.startswith("Is {{tool_name}} harmless?")
    assert '{"tool_name":"bash"}' in data


async def test_a_hook_may_name_another_model_of_the_same_endpoint(user, endpoint):
    path = user.write("named.toml", model_table(endpoint) + ASK + 'model = "m2"\n')
    endpoint.says({})
    async with Host.from_config(path) as host:
        await host.before_tool(CALL)
    assert endpoint.asked[0][2]["model"] == "m2"


async def test_a_programs_own_complete_replaces_the_configurations_model(user, endpoint):
    path = user.write("named.toml", model_table(endpoint, key_env="NOT_SET") + ASK)
    async with Host.from_config(path, complete=lambda prompt, model: with_nonce(prompt, **DENIES)) as host:
        assert (await host.before_tool(CALL)).action == "deny_tool"
    assert endpoint.asked == []


async def test_a_file_of_jclis_asks_the_model_of_the_users_own_configuration(user, project, endpoint):
    user.write(user.own / "picohook.toml", model_table(endpoint))
    text = 'pre_send_message:\n  - type: llm\n    prompt: "ok? {{user_input}}"\n'
    jcli = user.write(user.jcli, text)
    for host in (Host.from_config(jcli), Host.discover()):
        endpoint.says({"action": "stop", "retry_feedback": "politely"})
        async with host:
            assert (await host.before_prompt({"prompt": "hey you"})).payload.prompt == "politely"
    assert len(endpoint.asked) == 2


async def test_a_configuration_without_a_model_does_not_start_and_names_every_hook(user, project):
    path = project.hooks("fine")
    path.write_text(path.read_text() + ASK + ASK.replace("asks", "other"))
    with pytest.raises(ConfigError) as raised:
        async with Host.from_config(path):
            pytest.fail("it started")
    assert [problem.where for problem in raised.value.problems] == ["hooks.asks", "hooks.other"]
    assert "name one in [model] of the configuration" in str(raised.value)


async def test_a_key_that_is_not_set_keeps_the_host_from_starting(user, endpoint):
    path = user.write("named.toml", model_table(endpoint, key_env="NOT_SET") + ASK)
    with pytest.raises(ConfigError, match="the environment has no NOT_SET, which should have the model's key"):
        async with Host.from_config(path):
            pytest.fail("it started")


async def test_a_missing_extra_keeps_the_host_from_starting(user, endpoint, monkeypatch):
    path = user.write("named.toml", model_table(endpoint) + ASK)
    monkeypatch.setitem(sys.modules, "httpx", None)
    with pytest.raises(ConfigError, match=r"asking a model needs httpx \(.*pip install 'httpx>=.*'\)"):
        async with Host.from_config(path):
            pytest.fail("it started")


async def test_without_a_hook_that_asks_it_a_model_needs_nothing(user, project, endpoint, monkeypatch):
    path = project.hooks("fine")
    path.write_text(path.read_text() + model_table(endpoint, key_env="NOT_SET"))
    monkeypatch.setitem(sys.modules, "httpx", None)
    async with Host.from_config(path) as host:
        assert [hook.name for hook in host.hooks] == ["fine"]


async def test_a_reload_that_brings_a_hook_without_a_model_is_refused_and_changes_nothing(user, project, endpoint):
    path = project.hooks("fine")
    before = path.read_text()
    async with Host.from_config(path) as host:
        path.write_text(before + ASK)
        with pytest.raises(ConfigError, match="there is no model"):
            await host.reload()
        assert [hook.name for hook in host.hooks] == ["fine"]
        path.write_text(before + ASK + model_table(endpoint))
        await host.reload()
        endpoint.says(DENIES)
        assert (await host.before_tool(CALL)).action == "deny_tool"


async def test_a_reload_applies_another_model(user, endpoint):
    path = user.write("named.toml", model_table(endpoint) + ASK)
    async with Host.from_config(path) as host:
        path.write_text(path.read_text().replace('"m1"', '"m9"'))
        await host.reload()
        endpoint.says({})
        await host.before_tool(CALL)
    assert endpoint.asked[0][2]["model"] == "m9"


async def test_a_reload_that_takes_the_model_away_is_refused_and_hooks_ask_the_one_before(user, endpoint):
    table = model_table(endpoint)
    path = user.write("named.toml", table + ASK)
    async with Host.from_config(path) as host:
        path.write_text(ASK)
        with pytest.raises(ConfigError, match="there is no model"):
            await host.reload()
        path.write_text(table.replace('"m1"', '"m1"\nkey_env = "NOT_SET"') + ASK)
        with pytest.raises(ConfigError, match="the environment has no NOT_SET"):
            await host.reload()
        endpoint.says(DENIES)
        assert (await host.before_tool(CALL)).action == "deny_tool"


async def test_another_model_needs_no_new_start_of_the_hooks_that_ask_it(user, endpoint):
    path = user.write("named.toml", model_table(endpoint) + ASK)
    async with Host.from_config(path) as host:
        path.write_text(path.read_text().replace('"m1"', '"m9"'))
        assert (await host.reload()).kept == ("asks",)


# Trust.


async def test_a_projects_model_is_asked_once_the_project_is_trusted(user, project, endpoint):
    project.write("picohook.toml", model_table(endpoint) + ASK)
    with pytest.raises(TrustError):
        Host.discover()
    trust_all(project)
    endpoint.says(DENIES)
    async with Host.discover() as host:
        assert (await host.before_tool(CALL)).action == "deny_tool"
    project.write("picohook.toml", model_table(endpoint).replace("/v1", "/elsewhere") + ASK)
    with pytest.raises(TrustError):
        Host.discover()


async def test_a_projects_model_gets_only_the_projects_own_questions(user, project, endpoint):
    user.write(user.own / "picohook.toml", ASK.replace("asks", "mine"))
    project.write("picohook.toml", model_table(endpoint) + ASK)
    trust_all(project)
    with pytest.raises(ConfigError) as raised:
        async with Host.discover():
            pytest.fail("it started")
    assert [problem.where for problem in raised.value.problems] == ["hooks.mine"]  # it has no model
    read = layers.discover()
    assert ["model" in spec.tables for spec in read.hooks] == [False, True]


async def test_a_projects_hooks_ask_the_users_model_where_the_project_names_none(user, project, endpoint):
    user.write(user.own / "picohook.toml", model_table(endpoint))
    project.write("picohook.toml", ASK)
    trust_all(project)
    endpoint.says(DENIES)
    async with Host.discover() as host:
        assert (await host.before_tool(CALL)).action == "deny_tool"


# Mistakes.


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ('name = "m"', "model.base_url: is missing"),
        ('base_url = "http://x/v1"', "model.name: is missing"),
        ('name = ""\nbase_url = "http://x/v1"', "model.name: "),
        ('name = "m"\nbase_url = "x/v1"', 'model.base_url: must be a URL, such as "https://api.openai.com/v1"'),
        ('name = "m"\nbase_url = "file:///etc/passwd"', "model.base_url: must be a URL"),
        ('name = "m"\nbase_url = "http://me:sk-x@x/v1"', "model.base_url: has a user or a password in it"),
        ('name = "m"\nbase_url = "http://x/v1?key=sk-x"', "model.base_url: must end before"),
        ('name = "m"\nbase_url = "http://x/v1"\nkey = "sk-x"', "model.key: unknown key"),
        ('name = "m"\nbase_url = "http://x/v1"\nkey_env = "sk-x"', "model.key_env: must be the name of an environment"),
        ('name = "m"\nbase_url = "http://x/v1"\noptions = { model = "x" }', "model.options: has model, which"),
    ],
)
def test_mistakes_in_the_table_are_named_and_a_key_is_never_shown(user, table, said):
    path = user.write("wrong.toml", f"[model]\n{table}\n{ASK}")
    with pytest.raises(ConfigError) as raised:
        load(path)
    (problem,) = raised.value.problems
    assert f"{problem.where}: {problem.message}".startswith(said)
    assert "sk-x" not in str(raised.value)


@pytest.mark.parametrize(
    ("url", "warned"), [("http://models.example/v1", True), ("https://x/v1", False), ("http://127.0.0.1:1/v1", False)]
)
def test_a_model_that_is_asked_as_plain_text_over_a_network_is_a_warning(user, url, warned):
    path = user.write("named.toml", f'[model]\nname = "m"\nbase_url = "{url}"\nkey_env = "K"\n{ASK}')
    (warnings,) = (load(path).warnings,)
    assert bool(warnings) is warned
    if warned:
        assert warnings[0].startswith("model.base_url: questions and the key go over the network as plain text")
