"""Which names of an answer count, and when an answer decides: what says something is never quietly taken for `continue`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import needs
import pytest
from rows import each

from picohook.model.apply_edit import apply_edit
from picohook.model.decisions import APPROVE, CONTINUE, AbortTurn, Continue, Deny, Modify, Respond, Retry
from picohook.model.payloads import LLMRequest, LLMResponse, ToolCall, ToolResult, ToolReturn
from picohook.model.replies import ReplyError, read_decision
from picohook.model.stages import AFTER_LLM, AFTER_TOOL, APPROVE_TOOL, BEFORE_LLM, BEFORE_PROMPT, BEFORE_TOOL, STAGES
from picohook.model.trail import Notes
from picohook.wire.answer_fields import misspelled

if TYPE_CHECKING:
    from picohook.wire.answer_form import AnswerForm

INTERCEPTS = sorted(set(STAGES) - {"approve_tool"})


class TestNamesInAnyCase:
    """As Go's decoder takes them, for Go's encoder writes them so."""

    @pytest.mark.parametrize("name", ["Action", "ACTION", "aCtIoN"])
    def test_a_denial_denies(self, name):
        assert read_decision(BEFORE_TOOL, {name: "deny_tool", "Reason": "no"}) == Deny("no")

    @each("stage", INTERCEPTS)
    def test_every_field_is_taken(self, stage):
        answer = {
            "Action": "abort_turn",
            "REASON": "so",
            "System_Message": "a",
            "ADDITIONAL_context": "b",
            "Inject_Messages": [{"Role": "user"}],
        }
        assert read_decision(STAGES[stage], answer) == AbortTurn("so", notes=Notes("a", "b", ({"Role": "user"},)))

    @each(
        ("stage", "answer", "decision"),
        [
            (BEFORE_TOOL, {"Call": {"Tool": "x", "ARGUMENTS": {"Tool": 1}}}, Modify({"tool": "x", "arguments": {"Tool": 1}})),
            (BEFORE_TOOL, {"Patch": {"Arguments": {"Tool": 1}}}, Modify({}, patch={"arguments": {"Tool": 1}})),
            (BEFORE_TOOL, {"Action": "respond", "Result": {"For_LLM": "x"}}, Respond({"For_LLM": "x"})),
            (BEFORE_LLM, {"Request": {"Model": "x", "System_Prompt": "y"}}, Modify({"model": "x", "system_prompt": "y"})),
            (BEFORE_LLM, {"Action": "retry", "Feedback": "again"}, Retry("again")),
            (BEFORE_PROMPT, {"Prompt": "x"}, Modify({"prompt": "x"})),
            (AFTER_TOOL, {"Result": {"For_LLM": "x"}}, Modify({"for_llm": "x"})),
            (AFTER_TOOL, {"Result": {"Tool": "t", "Result": {"For_LLM": "x"}}}, Modify({"result": {"for_llm": "x"}})),
            (AFTER_LLM, {"Response": {"Response": {"Content": "x"}}}, Modify({"response": {"Content": "x"}})),
        ],
    )  # fmt: skip
    def test_names_in_payloads_are_read_in_any_case_but_not_inside_arguments(self, stage, answer, decision):
        assert read_decision(stage, answer) == decision

    def test_a_result_that_is_answered_has_its_names_too(self):
        made = BEFORE_TOOL.result(ToolCall(tool="x"), {"For_LLM": "x", "Is_Error": True})
        assert made == ToolResult(for_llm="x", is_error=True)
        assert BEFORE_LLM.result(LLMRequest(), {"Response": {"Content": "x"}}).response == {"Content": "x"}

    def test_a_response_has_the_names_that_it_had(self):
        """Its names are the runtime's own, whatever they are."""
        secret = LLMResponse(response={"content": "secret", "Usage": 1})
        assert apply_edit(AFTER_LLM, secret, {"Content": "-", "usage": 2}).response == {"content": "-", "Usage": 2}
        assert apply_edit(AFTER_LLM, secret, {}, {"CONTENT": None}).response == {"Usage": 1}
        assert apply_edit(AFTER_LLM, secret, {"new": 1}).response == {"content": "secret", "Usage": 1, "new": 1}

    @pytest.mark.parametrize(
        "answer",
        [
            {"action": "continue", "Action": "deny_tool"},
            {"Action": "deny_tool", "ACTION": "deny_tool"},
            {"action": "deny_tool", "reason": "x", "Reason": "y"},
            {"call": {"tool": "a", "Tool": "b"}},
            {"action": "modify", "patch": {"arguments": {}, "Arguments": {}}},
        ],
    )
    def test_two_that_differ_only_in_case_are_a_failure(self, answer):
        with pytest.raises(ValueError, match=r"is there twice: as `.*` and as `.*`"):
            read_decision(BEFORE_TOOL, answer)

    def test_a_hooks_own_fields_may_differ_only_in_case(self):
        assert (
            read_decision(BEFORE_TOOL, {"action": "continue", "Score": 1, "score": 2, "Feedback": 1, "feedback": 2})
            == CONTINUE
        )

    @pytest.mark.parametrize("name", ["a\u0441tion", "act\u0131on", "action ", "_action"])
    def test_other_letters_are_other_names(self, name):
        assert read_decision(BEFORE_TOOL, {"action": "continue", name: "deny_tool"}) == CONTINUE

    def test_names_that_are_not_text_are_a_failure_of_a_function(self):
        with pytest.raises(ValueError, match="`1` decides nothing"):
            read_decision(BEFORE_TOOL, {1: 2})


class TestApprovals:
    @pytest.mark.parametrize("name", ["Approved", "APPROVED"])
    def test_a_denial_is_understood_in_any_letter_case(self, name):
        assert read_decision(APPROVE_TOOL, {name: False, "Reason": "too dangerous"}) == Deny("too dangerous")

    @each("name", ["Approved", "APPROVED"])
    @each("value", [True, 1, "true", None, {}])
    def test_J7_a_yes_is_understood_in_its_own_letter_case_only(self, name, value):
        with pytest.raises(ValueError, match=f"the answer has no `approved`, and `{name}` is not a yes"):
            read_decision(APPROVE_TOOL, {name: value})

    @pytest.mark.parametrize("exact", [True, False])
    @pytest.mark.parametrize("other", [True, False, None])
    def test_both_are_a_failure(self, exact, other):
        with pytest.raises(ValueError, match="`approved` is there twice: as `approved` and as `Approved`"):
            read_decision(APPROVE_TOOL, {"approved": exact, "Approved": other})

    def test_a_yes_beside_a_denial_in_another_case_is_a_failure(self):
        with pytest.raises(ValueError, match="an approval has no action, and this one has 'deny_tool'"):
            read_decision(APPROVE_TOOL, {"approved": True, "Action": "deny_tool"})

    def test_fields_of_its_own_do_not_hurt_a_yes(self):
        assert read_decision(APPROVE_TOOL, {"approved": True, "Reason": "", "Action": "", "score": 1}) is APPROVE


UNDECIDED = [
    ("before_tool", {"decision": "deny"}, "`decision` .* did you mean `action: deny_tool`?"),
    ("before_tool", {"Decision": "BLOCK", "reason": "no"}, "`Decision` .* `action: deny_tool`"),
    ("before_tool", {"permission": "deny"}, "`permission` .* `action: deny_tool`"),
    ("before_tool", {"acton": "deny_tool", "reason": "no"}, "`acton` .* `action: deny_tool`"),
    ("before_tool", {"result": "denied"}, "`result` .* `action: deny_tool`"),
    (
        "before_tool",
        {"hookSpecificOutput": {"permissionDecision": "deny"}},
        "`hookSpecificOutput` .* `action: deny_tool`",
    ),
    ("before_tool", {"allow": False}, "`allow` .* `action: deny_tool`"),
    ("before_tool", {"approved": False, "reason": "rm"}, "`approved` .* `action: deny_tool`"),
    ("before_tool", {"deny": True}, "`deny` .* `action: deny_tool`"),
    ("before_tool", {"deny": "too dangerous"}, "`deny` .* `action: deny_tool`"),
    ("before_tool", {"approved": True}, "`approved` .* `action: continue`"),
    (
        "before_tool",
        {"error": "what?"},
        "`error` decides nothing at before_tool; an edit comes in `call` or `patch`, and the actions are abort_turn,",
    ),
    ("before_tool", {"arguments": {"command": "ls"}}, "`arguments` .* `call: {arguments: ...}`"),
    (
        "before_tool",
        {"call": {"args": {"command": "ls"}}},
        "before_tool cannot change `args`, which `call` has: did you mean `arguments`?",
    ),
    ("before_tool", {"result": {"for_llm": "x"}}, "`result` .* `action: respond` beside it"),
    ("before_tool", {"request": {"model": "x"}}, "`request` decides nothing at before_tool"),
    ("before_tool", {"call": {"tool": "", "arguments": None}, "verdict": "deny"}, "`verdict` .* `action: deny_tool`"),
    ("before_tool", {"ok": True, "decision": "deny"}, "`decision` .* `action: deny_tool`"),
    ("before_tool", {"ok": False, "reason": "no"}, "`ok` .* `action: deny_tool`"),
    ("before_finish", {"feedback": "run the tests"}, "`feedback` .* `action: retry` beside it"),
    ("before_finish", {"decision": "deny"}, "`decision` .* `action: abort_turn`"),
    ("before_compact", {"decision": "deny"}, "`decision` .* `action: skip`"),
    ("after_tool", {"for_llm": "[redacted]"}, "`for_llm` .* `result: {for_llm: ...}`"),
    (
        "after_llm",
        {"content": "[redacted]"},
        "`content` decides nothing at after_llm; an edit comes in `response` or `patch`",
    ),
    ("before_prompt", {"promt": "x"}, "`promt` .* `prompt`"),
    ("before_prompt", {"prompt": "", "messages": None, "decision": "deny"}, "`decision` .* `action: abort_turn`"),
]
UNMODIFIED = [
    (
        "after_tool",
        {"action": "modify", "for_llm": "[redacted]"},
        "`modify` changes nothing: `for_llm` .* `result: {for_llm: ...}`",
    ),
    (
        "after_tool",
        {"action": "modify", "result": {"text": "[redacted]"}},
        "cannot change `text`, which `result` has: did you mean `for_llm`?",
    ),
    ("after_tool", {"action": "modify", "result": {"arguments": {}}}, "cannot change `arguments`, which `result` has"),
    (
        "before_tool",
        {"action": "modify", "call": {"args": {}}},
        "cannot change `args`, which `call` has: did you mean `arguments`?",
    ),
    (
        "before_tool",
        {"action": "modify", "patch": {"args": {}}},
        "cannot change `args`, which `patch` has: did you mean `arguments`?",
    ),
    ("before_tool", {"action": "modify", "call": {"meta": {}}}, "cannot change `meta`, which `call` has"),
    ("before_tool", {"action": "modify", "call": {}}, "`modify` came without `call` or `patch`"),
    ("before_tool", {"action": "modify", "reason": "safer"}, "`modify` came without `call` or `patch`"),
    ("before_tool", {"Action": "modify", "Arguments": {"a": 1}}, "`Arguments` .* `call: {arguments: ...}`"),
    ("before_llm", {"action": "modify", "request": {"message": []}}, "cannot change `message`, .* `messages`"),
    (
        "before_llm",
        {"action": "modify", "messages": [{}], "additional_context": "x"},
        "`messages` .* `request: {messages: ...}`",
    ),
    ("before_finish", {"action": "modify", "prompt": "x"}, "`prompt` decides nothing at before_finish"),
    ("after_llm", {"action": "modify", "content": "x"}, "`content` decides nothing at after_llm"),
]


@each(("stage", "answer", "said"), UNDECIDED + UNMODIFIED)
def test_an_answer_that_decides_nothing_is_a_failure_that_suggests_the_right_form(stage, answer, said):
    with pytest.raises(ReplyError, match=said) as caught:
        read_decision(STAGES[stage], answer)
    assert caught.value.answer is answer
    assert str(caught.value).startswith(
        "the answer has no `action`, and " if "action" not in map(str.lower, answer) else "`modify` "
    )


@each(("stage", "answer", "said"), UNDECIDED)
@each("action", ["continue", "", None])
def test_beside_an_action_the_same_fields_are_the_hooks_own(stage, answer, said, action):
    del said
    decision = read_decision(STAGES[stage], {**answer, "action": action})
    assert isinstance(decision, Continue)


SILENT = [
    None,
    {},
    {"ok": True},
    {"OK": True, "Version": 1},
    {"hook_result": {"anything": 1}},
    {"version": "2.1", "ok": False},
    {"x_score": 3, "_trace": "abc", "X_Score": 3},
    {"decision": "", "call": None, "notes": [], "score": 0, "flag": False, "more": {"deep": {"empty": ""}}},
    {"approved": False, "reason": ""},
    {"call": {"tool": "", "arguments": None}, "request": {"model": ""}},
]


@each("answer", SILENT)
def test_an_answer_that_says_nothing_is_a_continue(answer):
    assert read_decision(BEFORE_TOOL, answer) == CONTINUE


def test_a_reason_may_stand_alone():
    assert read_decision(BEFORE_TOOL, {"Reason": "looks fine", "ok": True}) == Continue(reason="looks fine")


GO = json.loads(
    '{"Action":"","Reason":"","Approved":false,"Feedback":"","Call":null,"Request":null,"Response":null,"Result":null,'
    '"Patch":null,"Messages":null,"Prompt":"","System_Message":"","Inject_Messages":null}'
)
"""One Go struct for all stages, of which nothing was set."""


class TestHooksThatAreNotHurt:
    @each("stage", INTERCEPTS)
    @each("action", ["", "continue"])
    def test_one_that_sends_gos_zero_values(self, stage, action):
        assert read_decision(STAGES[stage], {**GO, "Action": action}) == CONTINUE
        assert read_decision(STAGES[stage], {name.lower(): value for name, value in GO.items()}) == CONTINUE
        without = {name: value for name, value in GO.items() if name != "Action"}
        assert read_decision(STAGES[stage], without) == CONTINUE

    def test_one_whose_zero_values_are_whole_structs(self):
        answer = {"Action": "continue", "Call": {"Tool": "", "Arguments": None}}
        assert read_decision(BEFORE_TOOL, answer) == CONTINUE
        assert read_decision(BEFORE_TOOL, {**answer, "Action": "deny_tool", "Reason": "no"}) == Deny("no")

    @each("stage", INTERCEPTS)
    def test_one_that_echoes_what_it_got_beside_an_action(self, stage, payloads):
        payload, row = payloads[stage], STAGES[stage]
        decision = read_decision(row, {**payload.wire(), "action": "continue"})
        assert apply_edit(row, payload, getattr(decision, "changes", {})) is payload
        assert read_decision(row, {**payload.wire(), "action": "abort_turn", "reason": "x"}) == AbortTurn("x")

    def test_one_that_denies_and_sends_fields_of_its_own(self):
        own = {"decision": "allow", "call": "bash", "patch": 5, "result": [1], "score": 0.9}
        assert read_decision(BEFORE_TOOL, {"action": "deny_tool", "reason": "no", **own}) == Deny("no")

    def test_one_that_modifies_and_sends_fields_of_its_own(self):
        answer = {"action": "modify", "call": {"arguments": {"a": 1}, "risk": "low"}, "decision": "deny"}
        assert read_decision(BEFORE_TOOL, answer) == Modify({"arguments": {"a": 1}, "risk": "low"})

    def test_one_that_empties_a_result(self):
        for answer in ({"result": {"for_llm": ""}}, {"action": "continue", "result": {"for_llm": ""}}):
            assert read_decision(AFTER_TOOL, answer) == Modify({"for_llm": ""})

    def test_one_whose_response_is_empty(self):
        assert apply_edit(AFTER_LLM, payload := LLMResponse(response={}), {}) is payload
        assert read_decision(AFTER_LLM, {"action": "modify", "response": {}}) == CONTINUE

    def test_one_whose_patch_is_empty_because_nothing_changed(self):
        assert read_decision(BEFORE_TOOL, {"action": "modify", "patch": {}}) == Modify({}, patch={})

    def test_one_whose_modification_are_its_notes(self):
        decision = read_decision(BEFORE_LLM, {"action": "modify", "additional_context": "It is late."})
        assert decision == Continue(notes=Notes(additional_context="It is late."))


@pytest.mark.parametrize(
    ("action", "meant"),
    [
        ("deny", "deny_tool"),
        ("allow", "continue"),
        ("edit", "modify"),
        ("stop", "abort_turn"),
        ("deny-tool", "deny_tool"),
        ("Respond", "respond"),
    ],
)
def test_an_unknown_action_names_the_one_that_was_meant(action, meant):
    with pytest.raises(ValueError, match=f"'{action}' is not one of before_tool's: did you mean `{meant}`?"):
        read_decision(BEFORE_TOOL, {"action": action})


def test_a_result_without_a_name_that_is_known_is_a_failure():
    with pytest.raises(ValueError, match="a tool's result has no `text`: put the text for the model into `for_llm`"):
        BEFORE_TOOL.result(ToolCall(tool="x"), {"text": "It is sunny."})
    assert (
        BEFORE_TOOL.result(ToolCall(tool="x"), {})
        == BEFORE_TOOL.result(ToolCall(tool="x"), {"text": ""})
        == ToolResult()
    )


def test_an_edit_from_code_without_editable_fields_is_a_failure():
    call = ToolCall(tool="bash", arguments={"command": "ls"})
    with pytest.raises(ValueError, match="before_tool cannot change `args`"):
        apply_edit(BEFORE_TOOL, call, {"args": {"command": "pwd"}})
    returned = ToolReturn(tool="bash", result=ToolResult(for_llm="secret"))
    with pytest.raises(ValueError, match="after_tool cannot change `text`"):
        apply_edit(AFTER_TOOL, returned, {"text": "-"})
    assert apply_edit(BEFORE_TOOL, call, {}) is call


def test_a_hooks_names_are_shown_short_and_escaped():
    with pytest.raises(ValueError, match="decides nothing") as caught:
        read_decision(BEFORE_TOOL, {"\x1b[31m" + "x" * 1000: 1})
    assert "\x1b" not in str(caught.value)
    assert len(str(caught.value)) < 400


@needs.other_rooms
def test_the_sdk_and_the_host_have_the_same_forms():
    from picohook.sdk.answers import STAGES as SDK_STAGES

    def facts(form: AnswerForm):
        return form.stage, form.carries, form.part, form.editable, form.actions, form.names

    for name in INTERCEPTS:
        assert facts(SDK_STAGES[name].form()) == facts(STAGES[name].form)


def test_misspelt_names_of_the_protocol_are_found():
    answer = {
        "Action": "modify",
        "call": {"Tool": "x", "arguments": {"Tool": 1}, "Own": 1},
        "Own": 1,
        "patch": {"ARGUMENTS": {}},
    }
    assert misspelled(BEFORE_TOOL.form, answer) == ["Action", "Tool", "ARGUMENTS"]
    echo = {
        "action": "modify",
        "result": {"meta": {"AgentID": "x"}, "tool": "t", "result": {"for_llm": "x", "Silent": True}},
    }
    assert misspelled(AFTER_TOOL.form, echo) == ["Silent"]


def test_a_null_in_a_patch_says_something():
    assert read_decision(BEFORE_TOOL, {"patch": {"arguments": None}, "score": 1}) == Modify(
        {}, patch={"arguments": None}
    )
    with pytest.raises(ValueError, match="before_tool cannot change `args`"):
        apply_edit(BEFORE_TOOL, ToolCall(tool="x"), {}, {"args": None})


def test_an_answer_with_a_call_that_has_no_known_field_is_an_answer():
    answer = {"action": "respond", "result": {"for_llm": "x"}, "call": {"args": {}}}
    assert read_decision(BEFORE_TOOL, answer) == Respond({"for_llm": "x"})


def test_a_response_with_a_field_named_like_itself_keeps_it():
    assert read_decision(AFTER_LLM, {"response": {"Response": "id-1"}}) == Modify({"Response": "id-1"})


@each("stage", INTERCEPTS)
@each(
    "answer",
    [
        {"allow": 0},
        {"data": {"allow": False}},
        {"decision": {"Allowed": False}},
        {"hookSpecificOutput": {"inner": {"approve": False}}},
    ],
)
def test_a_denial_is_not_an_empty_field_wherever_it_stands(stage, answer):
    with pytest.raises(ReplyError, match="the answer has no `action`, and "):
        read_decision(STAGES[stage], answer)


@pytest.mark.parametrize("stage", sorted(set(INTERCEPTS) - {"after_llm"}))
def test_a_patch_that_removes_what_is_not_there_decides_nothing(stage):
    """In a patch a null says something: remove this."""
    with pytest.raises(ReplyError, match=f"{stage} cannot change `argumentz`, which `patch` has"):
        read_decision(STAGES[stage], {"patch": {"argumentz": None}})


@each("stage", INTERCEPTS)
def test_one_that_gives_every_question_the_answer_to_hello_is_not_hurt(stage):
    assert (
        read_decision(STAGES[stage], {"ok": True, "name": "x", "version": 1, "capabilities": {"log": True}}) == CONTINUE
    )
    for answer in ({"name": "x"}, {"ok": False, "name": "x"}, {"ok": True, "name": "x", "decision": "deny"}):
        with pytest.raises(ReplyError, match="decides nothing"):
            read_decision(STAGES[stage], answer)


def test_a_hook_that_answers_and_sends_the_empty_call_of_a_go_struct_gives_the_tool_no_name():
    answer = {"action": "respond", "result": {"for_llm": "x"}, "call": {"tool": "", "arguments": None}}
    assert read_decision(BEFORE_TOOL, answer) == Respond({"for_llm": "x"})


def test_an_answer_with_a_field_without_a_name_is_a_failure():
    for stage in STAGES.values():
        if not stage.approves:
            with pytest.raises(ReplyError, match="`` decides nothing"):
                read_decision(stage, {"": 1})
