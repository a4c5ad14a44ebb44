"""j-cli's YAML, read as it is: what each entry comes to, and what is said about one that is wrong."""

from __future__ import annotations

import pytest
from jcli_examples import EXAMPLE

from picohook import ConfigError, HookSpec, OnFailure, Timeouts
from picohook.config import load
from picohook.ext.jcli.dialect import JcliSpec, session_hook
from picohook.model.filters import Filter


def test_the_example_in_the_document_has_three_hooks(config, tmp_path):
    path = config("hooks.yaml", EXAMPLE)
    read = load(path)
    settings = {"source": str(path), "dir": str(tmp_path), "inherit_env": True}
    assert read.dialect == "jcli"
    assert read.timeouts == Timeouts(chain=30)
    assert read.hooks == (
        JcliSpec(
            name="pre_send_message-1",
            run="python3 ~/.jdata/agent/hooks/inject_time.py",
            stages=("before_prompt",),
            timeout=5,
            **settings,
        ),
        JcliSpec(
            name="session_start-1",
            run="""echo '{"inject_messages": [{"role": "user", "content": "当前用户: jack"}]}'""",
            observe=("session_start",),
            timeout=10,
            **settings,
        ),
        HookSpec(
            name="pre_tool_execution-1",
            prompt=(
                "审查工具调用是否安全:工具={{tool_name}} 参数={{tool_arguments}}\n"
                '如果不安全,返回 {"action":"skip"},否则返回 {}\n'
            ),
            stages=("before_tool",),
            timeout=30,
            retry=1,
            filter=Filter(tool="/Bash|Shell/"),
            **settings,
        ),
    )
    assert read.warnings == (
        "session_start[0]: session_start is only told: the fields it seems to return (inject_messages) are ignored",
    )


EVENTS = {
    "session_start": ((), ("session_start",), None),
    "session_end": ((), ("session_end",), None),
    "pre_send_message": (("before_prompt",), (), None),
    "post_send_message": ((), ("prompt_sent",), None),
    "pre_llm_request": (("before_llm",), (), None),
    "post_llm_response": (("after_llm",), (), None),
    "pre_tool_execution": (("before_tool",), (), None),
    "post_tool_execution": (("after_tool",), (), Filter(when={"is_error": False})),
    "post_tool_execution_failure": (("after_tool",), (), Filter(when={"is_error": True})),
    "stop": (("before_finish",), (), None),
    "pre_micro_compact": (("before_compact",), (), Filter(when={"scope": "micro"})),
    "post_micro_compact": (("after_compact",), (), Filter(when={"scope": "micro"})),
    "pre_auto_compact": (("before_compact",), (), Filter(when={"scope": "auto"})),
    "post_auto_compact": (("after_compact",), (), Filter(when={"scope": "auto"})),
}


@pytest.mark.parametrize("event", EVENTS)
def test_each_event_is_a_stage_or_an_event_of_ours(config, event):
    (hook,) = load(config("hooks.yaml", f"{event}:\n  - command: 'true'\n")).hooks
    assert (hook.stages, hook.observe, hook.filter) == EVENTS[event]


def one(config, **entry):
    lines = "".join(f"    {key}: {value}\n" for key, value in entry.items())
    (hook,) = load(config("hooks.yaml", f"pre_tool_execution:\n  -\n{lines}")).hooks
    return hook


def test_missing_settings_get_j_clis_defaults(config):
    bash, llm = one(config, command="x"), one(config, type="llm", prompt="x")
    assert (bash.run, bash.timeout, bash.retry, bash.on_failure) == ("x", 10, 0, OnFailure.CONTINUE)
    assert (llm.prompt, llm.timeout, llm.retry, llm.on_failure) == ("x", 30, 1, OnFailure.CONTINUE)


def test_given_settings_are_used(config):
    bash = one(config, type="bash", command="x", timeout=3, retry=2, on_error="abort")
    llm = one(config, type="llm", prompt="x", model="gpt-4o-mini", timeout=10, retry=0, on_error="stop")
    assert (bash.timeout, bash.retry, bash.on_failure) == (3, 2, OnFailure.DENY)
    assert (llm.model, llm.timeout, llm.retry, llm.on_failure) == ("gpt-4o-mini", 10, 0, OnFailure.DENY)


@pytest.mark.parametrize(
    ("given", "filter_"),
    [
        ("{tool_name: Bash}", Filter(tool="/Bash/")),
        ("{tool_name: 'a|b*'}", Filter(tool=r"/a\|b\*/")),
        ("{tool_matcher: 'Write | Edit|Bash'}", Filter(tool="/Write|Edit|Bash/")),
        ("{tool_name: Bash, tool_matcher: 'Write|Edit'}", Filter(tool="/Bash/")),
    ],
)
def test_tool_filters_are_exact_and_the_name_wins(config, given, filter_):
    assert one(config, command="x", filter=given).filter == filter_


def test_a_model_filter_is_a_prefix_and_all_parts_must_hold(config):
    text = "pre_llm_request:\n  - command: x\n    filter: {model_prefix: gpt-4}\n"
    (hook,) = load(config("hooks.yaml", text)).hooks
    assert hook.filter == Filter(model="gpt-4")


def test_the_order_of_a_list_is_the_order_of_its_names(config):
    entries = "".join(f"  - command: 'echo {n}'\n" for n in range(12))
    hooks = load(config("hooks.yaml", f"stop:\n{entries}")).hooks
    assert [hook.name for hook in sorted(hooks, key=lambda hook: hook.name)] == [hook.name for hook in hooks]
    assert [hook.run for hook in hooks] == [f"echo {n}" for n in range(12)]


def test_a_file_that_was_only_found_inherits_less(config):
    path = config(".jcli/hooks.yaml", EXAMPLE)
    assert {hook.inherit_env for hook in load(path).hooks} == {True}
    assert {hook.inherit_env for hook in load(path, found=True).hooks} == {False}


def test_the_project_of_a_file_in_its_directory_is_the_one_around_it(config, tmp_path):
    assert load(config(".jcli/hooks.yaml", EXAMPLE)).project == tmp_path


# Mistakes.


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (
            "pre_tool_executon:\n  - command: x\n",
            'pre_tool_executon: is not an event of j-cli (did you mean "pre_tool_execution"?)',
        ),
        ("stop:\n  command: x\n", "stop: must be a list of hooks, not a table"),
        ("stop:\n  - x\n", 'stop[0]: must be a table of keys and values, not "x"'),
        ("stop:\n  - {}\n", "stop[0]: is of type bash, and has no command"),
        ("stop:\n  - {command: ' '}\n", "stop[0]: is of type bash, and has no command"),
        ("stop:\n  - {prompt: x}\n", "stop[0]: is of type bash, and has no command"),
        ("stop:\n  - {type: llm, command: x}\n", "stop[0]: is of type llm, and has no prompt"),
        ('stop:\n  - {command: "x\\0"}\n', "stop[0].command: holds a NUL character"),
        ("stop:\n  - {type: python, command: x}\n", 'stop[0].type: "python" is not one of bash, llm'),
        ("stop:\n  - {comand: x}\n", 'stop[0].comand: unknown key (did you mean "command"?)'),
        ("stop:\n  - {command: x, timeout: 5s}\n", 'stop[0].timeout: must be a number of seconds above 0, not "5s"'),
        ("stop:\n  - {command: x, timeout: 0}\n", "stop[0].timeout: must be a number of seconds above 0, not 0"),
        ("stop:\n  - {command: x, retry: -1}\n", "stop[0].retry: must be 0 or more, not -1"),
        ("stop:\n  - {command: x, on_error: fail}\n", 'stop[0].on_error: "fail" is not one of skip, abort, stop'),
        (
            "stop:\n  - {command: x, filter: {tool: Bash}}\n",
            'stop[0].filter.tool: unknown key (did you mean "tool_name"?)',
        ),
    ],
)
def test_one_mistake_is_one_message(config, text, complaint):
    path = config("hooks.yaml", text)
    with pytest.raises(ConfigError) as caught:
        load(path)
    assert [str(problem).removeprefix(f"{path}: ") for problem in caught.value.problems] == [complaint]


def test_all_mistakes_are_reported_at_once(config):
    path = config("hooks.yaml", "stop:\n  - {}\n  - {command: x, retry: a}\nstart:\n  - {command: x}\n")
    with pytest.raises(ConfigError) as caught:
        load(path)
    assert [problem.where for problem in caught.value.problems] == ["stop[0]", "stop[1].retry", "start"]


# What would pass in silence.


@pytest.mark.parametrize(
    ("text", "warning"),
    [
        ("stop:\n  - {command: x, prompt: y}\n", "stop[0]: prompt is not for type bash: it is ignored"),
        ("stop:\n  - {command: x, model: y}\n", "stop[0]: model is not for type bash: it is ignored"),
        ("stop:\n  - {type: llm, prompt: x, command: y}\n", "stop[0]: command is not for type llm: it is ignored"),
        (
            "pre_tool_execution:\n  - {command: x, filter: {tool_name: a, tool_matcher: b}}\n",
            "pre_tool_execution[0]: filter.tool_matcher is ignored where there is a filter.tool_name",
        ),
        (
            "stop:\n  - {command: x, filter: {tool_name: Bash}}\n",
            "stop[0]: stop has no tool: with this filter, the hook is never asked",
        ),
        (
            "pre_tool_execution:\n  - {command: x, filter: {model_prefix: gpt}}\n",
            "pre_tool_execution[0]: pre_tool_execution has no model: with this filter, the hook is never asked",
        ),
        (
            "session_end:\n  - {command: x, filter: {tool_name: Bash}}\n",
            "session_end[0]: session_end has no tool: with this filter, the hook is never asked",
        ),
        (
            "stop:\n  - {type: llm, prompt: '{{user_inptu}}'}\n",
            'stop[0]: {{user_inptu}} is not a variable (did you mean "user_input"?)',
        ),
    ],
)
def test_settings_that_are_ignored_or_never_apply_are_warnings(config, text, warning):
    assert load(config("hooks.yaml", text)).warnings == (warning,)


def test_a_native_file_is_not_taken_for_j_clis(config):
    assert load(config("hooks.yaml", "hooks: {}\n")).dialect == "native"


@pytest.mark.parametrize("text", ["defaults: {}\n", "hook: {a: 1}\n", "hooks: []\n", "a: [1, 2]\n"])
def test_a_file_without_a_known_shape_is_not_taken_for_j_clis(config, text):
    with pytest.raises(ConfigError) as caught:
        load(config("hooks.yaml", text))
    assert "j-cli" not in str(caught.value)


# Hooks of a session, as RegisterHook makes them.


def test_a_definition_makes_a_hook_of_the_session(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    hook = session_hook("pre_send_message", {"command": "true", "timeout": 3}, "session-1")
    assert (hook.name, hook.run, hook.stages, hook.timeout) == ("session-1", "true", ("before_prompt",), 3)
    assert (hook.layer, hook.inherit_env, hook.dir) == ("session", True, str(tmp_path))


@pytest.mark.parametrize(
    ("event", "definition", "complaint"),
    [
        ("pre_send", {"command": "x"}, r'pre_send: is not an event of j-cli \(did you mean "pre_send_message"\?\)'),
        ("stop", {}, "stop: is of type bash, and has no command"),
        ("stop", {"command": "x", "retry": "y"}, 'stop.retry: must be a whole number, not "y"'),
    ],
)
def test_a_wrong_definition_is_refused(event, definition, complaint):
    with pytest.raises(ConfigError, match=complaint):
        session_hook(event, definition, "session-1")
