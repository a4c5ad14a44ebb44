"""Decisions of handlers: a change in place is an edit, and an answer that decides nothing is refused."""

from __future__ import annotations

import pytest
from rows import each

from picohook.sdk import Decision, HookApp, testing

PAYLOADS = {
    "before_prompt": {"prompt": "hello", "messages": [{"role": "user", "content": "x"}]},
    "before_llm": {"model": "m", "messages": [{"role": "user", "content": "x"}], "tools": [], "options": {"n": 1}},
    "after_llm": {"model": "m", "response": {"role": "assistant", "content": "x"}},
    "before_tool": {"tool": "bash", "arguments": {"files": ["a"], "deep": {"n": 1}}, "affected_paths": ["a"]},
    "approve_tool": {"tool": "bash", "arguments": {"files": ["a"]}},
    "after_tool": {"tool": "bash", "arguments": {"files": ["a"]}, "result": {"for_llm": "x", "media": ["m"]}},
    "before_finish": {"messages": [{"role": "user", "content": "x"}], "response": {"content": "x"}},
    "before_compact": {"scope": "auto", "messages": [{"role": "user", "content": "x"}]},
    "after_compact": {"scope": "auto", "messages": [{"role": "user", "content": "x"}]},
}


def asked(stage, handler, payload=None):
    """What the handler comes to, as a host takes it."""
    app = HookApp("test")
    getattr(app, stage)(handler)
    with testing.client(app) as hook:
        return getattr(hook, stage)(PAYLOADS[stage] if payload is None else payload)


EDITS = {
    "before_prompt": (lambda call: call.messages.append({"role": "user"}), "messages"),
    "before_llm": (lambda call: call.messages[0].update(content="-"), "messages"),
    "before_llm: options": (lambda call: call.options.pop("n"), "options"),
    "before_llm: tools": (lambda call: call.tools.append({"name": "t"}), "tools"),
    "after_llm": (lambda call: call.response.update(content="-"), "response"),
    "before_tool": (lambda call: call.arguments["files"].append("evil"), "arguments"),
    "before_tool: deep": (lambda call: call.arguments["deep"].clear(), "arguments"),
    "before_tool: paths": (lambda call: call.affected_paths.remove("a"), "affected_paths"),
    "before_tool: params": (lambda call: call.params["arguments"].update(new=1), "arguments"),
    "before_tool: put": (lambda call: call.params.update(arguments={}), "arguments"),
    "after_tool": (lambda call: call.result.media.append("n"), "result"),
    "before_finish": (lambda call: call.messages.clear(), "messages"),
    "before_compact": (lambda call: call.messages.clear(), "messages"),
    "after_compact": (lambda call: call.messages.clear(), "messages"),
}


@each("case", EDITS)
@each("returns", [None, {}, {"action": "continue"}, {"reason": "because"}])
def test_a_change_in_place_is_an_edit(case, returns):
    stage, (edit, field) = case.partition(":")[0], EDITS[case]
    seen = {}

    def handler(call):
        edit(call)
        seen.update(call.params)
        return returns

    answer = asked(stage, handler)
    assert answer.action == "modify"
    assert answer.payload[field] == seen[field] != PAYLOADS[stage][field]
    assert answer.payload == {
        **answer.payload,
        **{name: PAYLOADS[stage][name] for name in PAYLOADS[stage] if name != field},
    }


REFUSED = {
    "after_tool": lambda call: call.arguments["files"].append("evil"),
    "before_finish": lambda call: call.response.update(content="-"),
    "before_tool: meta": lambda call: call.params["meta"].update(AgentID="x"),
    "before_tool: gone": lambda call: call.params.pop("arguments"),
    "after_llm": lambda call: call.params.update(model="n"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_change_in_place_of_a_field_that_cannot_be_edited_is_refused(case):
    with pytest.raises(testing.AnswerError, match="TypeError"):
        asked(case.partition(":")[0], lambda call: REFUSED[case](call) and None)


def test_an_approver_that_changes_the_call_has_not_approved_it():
    def approve(call):
        call.arguments["files"].append("evil")
        return True

    with pytest.raises(testing.AnswerError, match="TypeError"):
        asked("approve_tool", approve)
    denied = asked("approve_tool", lambda call: call.arguments.clear() or call.deny("no"))
    assert (denied.approved, denied.reason) == (False, "no")


@each(
    "given",
    [
        ({"for_session": True}, {"for": "session"}),
        ({"for_agent": True, "times": 3}, {"for": "agent", "times": 3}),
        ({"for_project": True, "like": {"path": "anything"}}, {"for": "project", "like": {"path": "anything"}}),
    ],
)
def test_a_yes_for_more_than_this_call_has_a_grant(given):
    arguments, grant = given
    assert asked("approve_tool", lambda call: call.approve(**arguments)) == {"approved": True, "grant": grant}
    assert asked("approve_tool", lambda call: call.approve(**arguments) and call.deny()) == {"approved": False}


@each("given", [{"times": 3}, {"for_session": True, "for_project": True}, {"like": {}}])
def test_a_grant_is_for_one_scope(given):
    with pytest.raises(testing.AnswerError, match="for_session, for_agent or for_project"):
        asked("approve_tool", lambda call: call.approve(**given))


@each("stage", PAYLOADS)
def test_reading_a_field_changes_nothing(stage):
    def look(call):
        for name in dir(call):
            if name not in {"cancelled", "decision"} and not name.startswith("_"):
                getattr(call, name)
        if stage == "after_tool":
            assert (call.result.for_user, call.result.artifact_tags, call.result.silent) == ("", [], False)
        return True if stage == "approve_tool" else None

    answer = asked(stage, look)
    assert answer == ({"approved": True} if stage == "approve_tool" else {"action": "continue"})
    assert asked(stage, look, {"tool": "bash"}) == answer


def test_a_change_that_is_undone_is_not_sent():
    def handler(call):
        call.arguments["files"].append("b")
        call.arguments["files"].remove("b")

    assert asked("before_tool", handler) == {"action": "continue"}


def test_a_denial_stays_a_denial_whatever_was_changed():
    def handler(call):
        call.arguments.clear()
        return call.deny("no")

    assert asked("before_tool", handler) == {"action": "deny_tool", "reason": "no"}


def test_a_tool_of_the_hook_may_change_its_arguments():
    app = HookApp("test")

    @app.tool
    def first(files: list[str]) -> str:
        return files.pop()

    with testing.client(app) as hook:
        answer = hook.before_tool({"tool": "first", "arguments": {"files": ["a"]}})
    assert answer == {"action": "respond", "result": {"for_llm": "a"}}


def test_a_retry_keeps_changes_in_place():
    def handler(call):
        call.messages.append({"role": "user", "content": "the tests fail"})
        return call.retry("mend it")

    answer = asked("before_finish", handler)
    assert (answer.action, len(answer["messages"]), answer["feedback"]) == ("retry", 2, "mend it")


def test_edits_of_an_answer_and_changes_in_place_are_both_sent():
    def handler(call):
        call.arguments["files"].append("b")
        call.affected_paths.append("b")
        return {"action": "modify", "call": {"arguments": {"files": []}}}

    payload = asked("before_tool", handler).payload
    assert payload["arguments"] == {"files": []}
    assert payload["affected_paths"] == ["a", "b"]


def test_a_continue_keeps_earlier_modifications():
    def handler(call):
        call.modify(tool="sh")
        return {"action": "continue"}

    assert asked("before_tool", handler).payload["tool"] == "sh"


UNDECIDED = [
    ("before_tool", {"decision": "deny"}),
    ("before_tool", {"acton": "deny_tool"}),
    ("before_tool", {"action": "modify", "call": {"args": {}}}),
    ("before_tool", {"action": "modify"}),
    ("before_tool", {"Action": "deny_tool", "action": "deny_tool"}),
    ("before_tool", Decision({"decision": "deny"})),
    ("after_tool", {"action": "modify", "for_llm": "[redacted]"}),
    ("approve_tool", {"Approved": True}),
    ("approve_tool", {"approve": True}),
    ("approve_tool", {"approved": "yes"}),
]


@each(("stage", "answer"), UNDECIDED)
def test_an_answer_that_decides_nothing_never_leaves_the_hook(stage, answer):
    with pytest.raises(testing.AnswerError, match="ValueError"):
        asked(stage, lambda call: answer)


def test_the_case_of_names_is_ignored():
    answer = asked("before_tool", lambda call: {"Action": "deny_tool", "Reason": "no"})
    assert (answer.denied, answer.reason, dict(answer)) == (True, "no", {"action": "deny_tool", "reason": "no"})


def test_a_decision_made_from_the_class_counts():
    assert asked("before_tool", lambda call: Decision(action="deny_tool", reason="no")).denied


@pytest.mark.parametrize("answer", [{"decision": "deny"}, {"action": "modify", "call": {"args": {}}}], ids=repr)
def test_a_test_of_a_hook_in_any_language_fails_for_an_answer_that_decides_nothing(answer):
    with pytest.raises(testing.BrokenHookError, match=r"for a host, the hook failed: .*did you mean"):
        testing.Answer("before_tool", {}, answer)


def test_a_test_ignores_the_case_of_names_as_a_host_does():
    answer = testing.Answer("before_tool", {"tool": "a", "arguments": {}}, {"Action": "modify", "Call": {"Tool": "b"}})
    assert (answer.action, answer.payload["tool"]) == ("modify", "b")
    denied = testing.Answer("approve_tool", {}, {"Approved": False, "Reason": "no"})
    assert (denied.approved, denied.denied, denied.reason) == (False, True, "no")
    assert testing.Answer("approve_tool", {}, {"Approved": True}).denied
