"""`prompt` hooks: what a model is asked, and what is made of its answer."""

from __future__ import annotations

import threading
import time

import anyio
import pytest
from kinds_support import FAR, Model

from picohook import ConfigError, HookSpec, Host, Meta, ToolCall, ToolResult
from picohook.hooks.one_shot.jcli_contract import VARIABLES, JcliSpec
from picohook.hooks.one_shot.prompt import extract, instruction, render
from picohook.model.payloads import Finish, LLMRequest, LLMResponse, Prompt, ToolReturn

pytestmark = pytest.mark.anyio

CALL = ToolCall(tool="Bash", arguments={"command": "ls"}, meta=Meta(session_key="s1"))


def prompt(text="ok?", **settings):
    if not {"stages", "observe"} & settings.keys():
        settings["stages"] = ("before_tool",)
    return HookSpec.model_validate({"name": "model", "prompt": text, **settings})


async def asked(model, spec=None, call=CALL, **settings):
    async with Host([spec or prompt()], timeouts=FAR, complete=model, **settings) as host:
        return await host.before_tool(call)


# The template.


def test_every_variable_is_replaced_by_its_field():
    context = {name: f"<{name}>" for name in VARIABLES}
    template = " ".join(f"{{{{{name}}}}}" for name in VARIABLES)
    assert render(template, context) == " ".join(f"<{name}>" for name in VARIABLES)


def test_a_variable_that_the_event_does_not_have_is_empty():
    assert render("[{{tool_result}}]", {"event": "stop"}) == "[]"


def test_braces_in_a_value_stay_text():
    context = {"user_input": "{{assistant_output}} {{cwd}}", "assistant_output": "{{user_input}}", "cwd": "/secret"}
    assert render("{{user_input}}|{{assistant_output}}", context) == "{{assistant_output}} {{cwd}}|{{user_input}}"


def test_text_that_is_not_a_variable_is_left_as_it_is():
    assert render("{{ user_input }} {{name}} {user_input} {}", {"user_input": "x"}) == (
        "{{ user_input }} {{name}} {user_input} {}"
    )


VALUES = {
    "before_prompt": (Prompt(prompt="hello"), "pre_send_message,hello,,,,,"),
    "before_llm": (LLMRequest(model="gpt-4o"), "pre_llm_request,,,,,,gpt-4o"),
    "after_llm": (LLMResponse(model="gpt-4o", response={"content": "hi"}), "post_llm_response,,hi,,,,gpt-4o"),
    "before_tool": (CALL, 'pre_tool_execution,,,Bash,{"command":"ls"},,'),
    "after_tool": (ToolReturn(tool="Bash", result=ToolResult(for_llm="a.txt")), "post_tool_execution,,,Bash,,a.txt,"),
    "before_finish": (Finish(prompt="hello", response={"content": "hi"}, model="m"), "stop,hello,hi,,,,m"),
}


@pytest.mark.parametrize("stage", VALUES)
async def test_the_model_is_asked_with_the_fields_of_the_event(stage):
    model = Model("{}")
    payload, expected = VALUES[stage]
    template = ",".join(f"{{{{{name}}}}}" for name in VARIABLES[:-1])
    async with Host([prompt(template, stages=(stage,))], timeouts=FAR, complete=model) as host:
        await getattr(host, stage)(payload)
    assert model.prompts == [expected + instruction(expected.partition(",")[0])]


async def test_the_directory_is_that_of_the_hook(tmp_path):
    model = Model("{}")
    await asked(model, prompt("{{cwd}}", dir=str(tmp_path)))
    assert model.prompts[0].startswith(f"{tmp_path}\n")


def test_the_instruction_names_exactly_what_the_event_can_do():
    tool = instruction("pre_tool_execution")
    assert '"tool_arguments"' in tool
    assert '"skip"' in tool
    assert '"user_input"' not in tool
    assert '"tool_arguments"' not in instruction("pre_send_message")
    assert '"retry_feedback"' in instruction("stop")
    assert '"retry_feedback"' not in instruction("post_tool_execution")
    assert '"approved"' in instruction("approve_tool")
    assert '"action"' not in instruction("approve_tool")


# The answer.


@pytest.mark.parametrize(
    "answer",
    [
        '{"action": "skip"}',
        'Here you are:\n```json\n{"action": "skip"}\n```\nAnything else?',
        'I say {"action": "skip"}',
        '{"action": "skip",\n "system_message": "a } in a string"}',
    ],
)
async def test_the_result_is_from_the_first_brace_to_the_last(answer):
    outcome = await asked(Model(answer))
    assert (outcome.action, outcome.trail[0].error) == ("deny_tool", None)


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        ("", "the model's answer holds no JSON object: it is empty"),
        ("No.", "the model's answer holds no JSON object: No."),
        ("} {", "the model's answer holds no JSON object: } {"),
        ("{a} {b}", "its output is not JSON: "),
        ('{"action": "skip"} or {"action": "stop"}', "its output is not JSON: "),
        ('{"action": "skip", "action": "stop"}', "its output is not JSON: Detected duplicate key"),
        ('{"action": "deny"}', 'the action \'deny\' is neither "stop" nor "skip"'),
        ("\x1b[2J", r"the model's answer holds no JSON object: \x1b[2J"),
        (42, "`complete` returned int, not a text"),
        (None, "`complete` returned NoneType, not a text"),
        (OSError("no network"), "the model could not be asked: OSError: no network ("),
    ],
)
async def test_an_answer_without_a_usable_result_is_a_failure(answer, error):
    outcome = await asked(Model(answer), prompt(on_failure="deny"))
    assert outcome.action == "deny_tool"
    assert outcome.trail[0].error.startswith(error)


def test_an_answer_of_half_a_surrogate_pair_is_refused():
    with pytest.raises(ValueError, match="surrogates not allowed"):
        extract('{"action": "\ud800"}')


async def test_a_question_that_failed_is_asked_again_before_it_counts_as_a_failure():
    model = Model("what?", '{"action": "skip"}')
    outcome = await asked(model, prompt(retry=1))
    assert (outcome.action, outcome.trail[0].retries) == ("deny_tool", 1)
    assert model.prompts[0] == model.prompts[1]


@pytest.mark.parametrize(
    ("answer", "approved"),
    [('{"approved": true}', True), ('{"approved": false}', False), ("{}", False), ("yes", False)],
)
async def test_a_model_can_approve(answer, approved):
    async with Host([prompt(stages=("approve_tool",))], timeouts=FAR, complete=Model(answer)) as host:
        assert (await host.approve_tool(CALL)).approved is approved


async def test_a_yes_that_comes_too_late_is_a_denial():
    async def complete(prompt, model):
        del prompt, model
        time.sleep(0.1)  # it holds up the event loop: nobody could end it in time
        return '{"approved": true}'

    hook = prompt(stages=("approve_tool",), approval_timeout=0.05)
    async with Host([hook], timeouts=FAR, complete=complete) as host:
        outcome = await host.approve_tool(CALL)
    assert (outcome.approved, outcome.trail[0].error) == (False, "no answer in time")


# The model.


async def test_a_hook_names_its_model_and_without_one_the_embedder_chooses():
    model = Model("{}", "{}")
    await asked(model, prompt(model="gpt-4o-mini"))
    await asked(model, prompt())
    assert model.models == ["gpt-4o-mini", None]


async def test_a_host_without_a_model_refuses_to_start_and_names_every_hook_that_needs_one():
    hooks = [prompt(), HookSpec(name="other", prompt="ok?", stages=("after_llm",), source="here.toml")]
    with pytest.raises(ConfigError) as raised:
        async with Host([*hooks, HookSpec(name="fine", run="true", stages=("before_tool",))]):
            pytest.fail("it started")
    way_out = "(name one in [model] of the configuration, or give the host one: Host(..., complete=...))"
    assert str(raised.value).splitlines() == [
        f"(code): hooks.model: asks a model, and there is no model {way_out}",
        f"here.toml: hooks.other: asks a model, and there is no model {way_out}",
    ]


async def test_a_hook_that_asks_a_model_is_not_mounted_on_a_host_without_a_model():
    async with Host() as host:
        with pytest.raises(ConfigError, match="there is no model"):
            await host.mount(prompt())
        async with host.session("s1") as session:
            with pytest.raises(ConfigError, match="there is no model"):
                await session.mount(prompt())
        assert host.hooks == ()


async def test_a_plain_function_can_be_the_model_and_does_not_block_the_loop():
    loop_turned = threading.Event()

    def complete(prompt, model):
        del prompt, model
        assert loop_turned.wait(30)
        return '{"action": "skip"}'

    async with Host([prompt()], timeouts=FAR, complete=complete) as host, anyio.create_task_group() as tasks:
        outcomes = []

        async def ask():
            outcomes.append(await host.before_tool(CALL))

        tasks.start_soon(ask)
        await anyio.wait_all_tasks_blocked()
        loop_turned.set()
    assert outcomes[0].action == "deny_tool"


async def test_a_model_that_does_not_answer_is_given_up_at_the_timeout():
    cancelled = []

    async def complete(prompt, model):
        del prompt, model
        try:
            await anyio.sleep_forever()
        finally:
            cancelled.append(True)

    outcome = await asked(complete, prompt(timeout=0.05))
    assert outcome.trail[0].error == "no answer in time"
    assert cancelled == [True]


def test_a_prompt_has_a_longer_default_timeout_than_a_program():
    assert prompt().timeout == 30
    assert prompt(timeout=5).timeout == 5


async def test_a_model_gets_events_too(journal):
    model = Model('{"user_input": "x"}')
    async with Host([prompt("{{event}}", observe=("session_end",))], complete=model, logger=journal) as host:
        await host.emit_and_wait("session_end")
    assert model.prompts[0].startswith("session_end\n")
    assert journal.all("ignored a part of its answer", at="session_end", fields="user_input")


@pytest.mark.parametrize(
    "answer", ['{"decision": "deny"}', '{"allow": false, "abort": false}', '{"tool_result": "x", "retry_feedback": ""}']
)
async def test_an_answer_without_a_decision_never_continues(answer):
    outcome = await asked(Model(answer), prompt(on_failure="deny"))
    assert outcome.action == "deny_tool"
    assert " decides nothing at pre_tool_execution: the answer may have " in outcome.trail[0].error


async def test_a_prompt_from_j_clis_own_file_keeps_j_clis_rule_for_such_an_answer():
    spec = JcliSpec.model_validate(prompt(on_failure="deny").model_dump())
    assert (await asked(Model('{"decision": "deny"}'), spec)).action == "continue"
