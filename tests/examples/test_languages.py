"""The same hook in every language: built as its readers would build it, and asked by a real host."""

from __future__ import annotations

import functools
import itertools
import json
import re
import shutil
import subprocess
from collections import Counter

import anyio
import preloaded
import pytest
import toolchains
from first_hooks import texts

from picohook import HookSpec, Host, LLMRequest, LLMResponse, Recorder, ToolCall
from picohook.ext.record.reader import Record
from picohook.ext.record.replay import compared
from picohook.model.spec import Timeouts
from picohook.testing import RecordingHost

from .conftest import EXAMPLES, needed
from .languages import LANGUAGES, Language

pytestmark = pytest.mark.timeout(toolchains.COMPILING + 60)

PATIENT = Timeouts(hello=60, interceptor=60, chain=120)  # for a busy machine: nothing here is about time
STAGES = ("before_llm", "before_tool", "approve_tool", "after_tool")
SEARCH = {"type": "function", "function": {"name": "search", "parameters": {"type": "object"}}}
ODD = (
    "\"quoted\" \\back/slash\\\n\r\ttab \x01\x1f\x7f \0 </script> & 'x' "
    "caf\u00e9 \u2028\u2029\u0085 \ufeff \u65e5\u672c \U0001f600 end"
)


@pytest.fixture(scope="module")
def anyio_backend():
    """One event loop: these hooks are processes, and cannot tell which one their host has."""
    return "asyncio", {"use_uvloop": False}


@pytest.fixture(params=LANGUAGES, ids=lambda language: language.name)
def language(request):
    return request.param


@pytest.fixture
def command(language, shared):
    return language.command(shared)


@pytest.fixture
def start(command, output):
    """A host with this hook alone."""

    def host(*, stages=STAGES, **settings):
        spec = HookSpec(name="hook", command=command, stages=stages, **settings)
        return RecordingHost([spec], timeouts=PATIENT, logger=output)

    return host


# Through a host.


async def says_hello(host):
    assert [hook.state for hook in host.status().hooks] == ["ready"]


async def denies_rm_rf(host):
    result = await host.run_tool(ToolCall(tool="bash", arguments={"command": "cd / && rm -rf *"}), pytest.fail)
    assert result.for_llm == "Tool execution denied by hook: rm -rf is not allowed"


async def denies_a_command_that_is_not_text(host):
    for command in (["rm", "-rf", "/"], {"run": "ls"}, True):
        assert (await host.before_tool(ToolCall(tool="bash", arguments={"command": command}))).action == "deny_tool"


async def lets_other_commands_and_other_tools_be(host):
    calls = [
        ToolCall(tool="bash", arguments={"command": "rm notes.txt"}),
        ToolCall(tool="bash"),
        ToolCall(tool="echo", arguments={"command": "rm -rf /"}),
    ]
    assert [(await host.before_tool(call)).action for call in calls] == ["continue"] * 3


async def approves_tools_that_only_read(host):
    for tool in ("read_file", "list_dir", "search", "get_weather"):
        assert (await host.approve_tool(ToolCall(tool=tool))).approved is True


async def approves_no_other_tool_and_says_why(host):
    for tool in ("write_file", "read", "read_file_and_more", 'a "quoted" caf\u00e9', "\U0001f600"):
        outcome = await host.approve_tool(ToolCall(tool=tool))
        assert (outcome.approved, outcome.reason) == (False, f"{tool} is not a read-only tool")


async def offers_its_tool_once_beside_the_others(host):
    outcome = await host.before_llm(LLMRequest(model="m", tools=[SEARCH], options={"temperature": 0.7}))
    again = await host.before_llm(outcome.payload)
    assert [tool["function"]["name"] for tool in outcome.payload.tools] == ["search", "get_weather"]
    assert outcome.payload.tools[1]["function"]["description"] == "Today's weather in a city."
    assert (outcome.payload.model, outcome.payload.options) == ("m", {"temperature": 0.7})
    assert again.action == "continue"


async def answers_its_tool_itself(host):
    await host.before_llm(LLMRequest())
    result = await host.run_tool(ToolCall(tool="get_weather", arguments={"city": "Berlin"}), pytest.fail)
    assert (result.for_llm, result.is_error) == ("Berlin: 21 \u00b0C, sunny", False)
    assert host.outcomes_at("approve_tool") == []


async def redacts_what_the_model_and_the_user_are_told(host):
    told = {
        "for_llm": "key sk-abcdEFGH1234, password=hunter2 and sk-short",
        "for_user": "password=sk-abcdEFGH1234",
        "silent": True,
        "media": ["m"],
    }
    result = await host.run_tool(ToolCall(tool="search"), lambda _: told)
    assert result.for_llm == "key [redacted], password=[redacted] and sk-short"
    assert result.for_user == "password=[redacted]"
    assert (result.silent, result.media) == (True, ["m"])


async def leaves_a_result_without_secrets_alone(host):
    result = await host.run_tool(ToolCall(tool="search"), lambda _: {"for_llm": f"sk-1234567 {ODD}", "for_user": ""})
    assert (result.for_llm, result.for_user) == (f"sk-1234567 {ODD}", "")
    assert [outcome.action for outcome in host.outcomes] == ["continue"] * 3


async def brings_odd_text_back_as_it_was(host):
    weather = await host.before_tool(ToolCall(tool="get_weather", arguments={"city": ODD}))
    other = await host.before_tool(ToolCall(tool="bash", arguments={ODD: [[{ODD: ODD}]], "command": ODD}))
    assert weather.result.for_llm == f"{ODD}: 21 \u00b0C, sunny"
    assert other.action == "continue"
    clean = await host.run_tool(ToolCall(tool="search"), lambda _: {"for_llm": f"{ODD} sk-abcdEFGH1234 {ODD}"})
    assert clean.for_llm == f"{ODD} [redacted] {ODD}"


async def brings_odd_values_back_as_they_were(host):
    nested = {"deep": {}}
    for _ in range(80):
        nested = {"deep": [nested]}
    tool = {
        **SEARCH,
        "odd": [ODD, {ODD: ODD}, [], {}, None, True, False, 0, -1, 2**53, -(2**53), 1.5, -0.25, 1e20, 1e-7, ""],
        "nested": nested,
    }
    outcome = await host.before_llm(LLMRequest(tools=[tool]))
    assert outcome.payload.tools[0] == tool


async def answers_each_of_many_calls(host):
    found = {}

    async def ask(city):
        found[city] = (await host.before_tool(ToolCall(tool="get_weather", arguments={"city": city}))).result.for_llm

    async with anyio.create_task_group() as group:
        for number in range(20):
            group.start_soon(ask, f"city {number}")
    assert found == {f"city {number}": f"city {number}: 21 \u00b0C, sunny" for number in range(20)}


async def takes_more_than_a_pipe_holds(host):
    large = 'caf\u00e9 "x" \\ ' * 9_000
    call = ToolCall(tool="search", arguments={"text": large, "list": list(range(1000))})
    result = await host.run_tool(call, lambda _: {"for_llm": f"{large}password=hunter2"})
    assert result.for_llm == f"{large}password=[redacted]"


async def answers_after_a_stage_that_it_does_not_know(host):
    unknown = await host.after_llm(LLMResponse(response={"content": "x"}))
    known = await host.approve_tool(ToolCall(tool="search"))
    assert "-32601" in unknown.trail[0].error
    assert known.approved is True
    host.outcomes.remove(unknown)  # its error is as it should be


async def ignores_notifications(host):
    for number in range(10):
        host.emit("turn_start", {"UserMessage": f"password=x {number}"})
        assert (await host.before_tool(ToolCall(tool="echo"))).action == "continue"


async def keeps_integers_past_2_53_exact(host, exact):
    outcome = await host.before_llm(LLMRequest(tools=[{**SEARCH, "limit": 12345678901234567891}]))
    limit = outcome.payload.tools[0]["limit"]
    assert limit == (12345678901234567891 if exact else pytest.approx(12345678901234567891))


BEHAVIOURS = [
    says_hello,
    denies_rm_rf,
    denies_a_command_that_is_not_text,
    lets_other_commands_and_other_tools_be,
    approves_tools_that_only_read,
    approves_no_other_tool_and_says_why,
    answers_its_tool_itself,  # before the tool is another's too
    offers_its_tool_once_beside_the_others,
    redacts_what_the_model_and_the_user_are_told,
    leaves_a_result_without_secrets_alone,
    brings_odd_text_back_as_it_was,
    brings_odd_values_back_as_they_were,
    answers_each_of_many_calls,
    takes_more_than_a_pipe_holds,
    answers_after_a_stage_that_it_does_not_know,
    ignores_notifications,
]


@pytest.mark.parametrize(("path", "text"), [pytest.param(*one, id=one[0].name) for one in texts().items()])
def test_an_example_and_a_page_are_as_the_templates_make_them(path, text):
    assert path.read_text() == text, "`make examples` writes it anew"


@pytest.mark.anyio
async def test_the_hook_behaves_as_in_every_other_language(language, start, output):
    async with start(stages=(*STAGES, "after_llm"), observe=("*",)) as host:
        integers = functools.partial(keeps_integers_past_2_53_exact, exact=language.exact())
        for behaviour in (*BEHAVIOURS, integers):  # one process serves them all
            host.outcomes.clear()
            await behaviour(host)
            assert [entry.error for outcome in host.outcomes for entry in outcome.trail if entry.error] == []
    assert {fields.get("stage") for _, fields in output.complaints} == {"after_llm"}  # which it does not know


# On the wire.


def conversation(command, *lines):
    """What the hook answers, line by line, until it ends by itself after its input has."""
    process = subprocess.run(
        command, input=b"".join(line + b"\n" for line in lines), capture_output=True, check=True, timeout=60
    )
    return [json.loads(line) for line in process.stdout.split(b"\n")[:-1]]


def request(number, method, **params):
    return json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params}).encode()


# Each yields the lines that it sends, and gets the answers.


def replies_have_the_exact_ids_of_their_requests():
    ids = [1, 2, 9007199254740991, "7", 'a "b" \u00e9 \U0001f600']
    answers = yield [request(number, "hook.hello", version=1, modes=[]) for number in ids]
    assert [(answer["id"], type(answer["id"])) for answer in answers] == [(number, type(number)) for number in ids]
    assert all(answer["jsonrpc"] == "2.0" and answer["result"]["ok"] is True for answer in answers)


def an_unknown_method_is_method_not_found():
    methods = ["hook.nope", "hook.toString", "hello", 'a "b" \u00e9', ""]
    answers = yield [request(1, method) for method in methods]
    assert [answer["error"]["code"] for answer in answers] == [-32601] * len(methods)
    assert all("result" not in answer for answer in answers)


def requests_that_come_together_are_answered_in_order():
    answers = yield [
        request(1, "hook.hello", version=1, modes=["tool"]),
        b'{"jsonrpc":"2.0","method":"hook.event","params":{"Kind":"turn_start","Meta":{},"Payload":null}}',
        b'{"jsonrpc":"2.0","method":"hook.nope"}',
        (
            b'{"id":2,"jsonrpc":"2.0","params":{"arguments":{"command":"\\u0072m -rf \\u002f"},"tool":"b\\u0061sh"},'
            b'"method":"hook.before_tool"}\r'
        ),
        b' { "jsonrpc" : "2.0" , "id" : 3 , "method" : "hook.approve_tool" , "params" : { "tool" : "x" } } ',
        request(4, "hook.before_llm", tools=None),
    ]
    assert [answer["id"] for answer in answers] == [1, 2, 3, 4]
    assert answers[1]["result"] == {"action": "deny_tool", "reason": "rm -rf is not allowed"}
    assert answers[2]["result"] == {"approved": False, "reason": "x is not a read-only tool"}
    assert "get_weather" in json.dumps(answers[3]["result"])


def lines_that_are_not_requests_do_no_harm():
    no_requests = [
        b"",
        b"not json",
        b"[]",
        b"5",
        b"null",
        b'"id"',
        b'{"id":1',
        b'{"id":1}}',
        b"\xff\xfe",
        b"[" * 10_000,
    ]
    numbers = range(2, 2 + len(no_requests))
    asked = [request(number, "hook.approve_tool", tool="search") for number in numbers]
    answers = yield [line for pair in zip(no_requests, asked, strict=True) for line in pair]
    answered = [(answer["id"], answer["result"]) for answer in answers if answer["id"] is not None]
    assert answered == [(number, {"approved": True}) for number in numbers]
    assert all("error" in answer for answer in answers if answer["id"] is None)


DIALOGUES = [
    replies_have_the_exact_ids_of_their_requests,
    an_unknown_method_is_method_not_found,
    requests_that_come_together_are_answered_in_order,
    lines_that_are_not_requests_do_no_harm,
]
BETWEEN = "between two dialogues"


def test_the_hook_answers_on_the_wire_as_in_every_other_language(command):
    dialogues = [dialogue() for dialogue in DIALOGUES]
    lines = [
        line
        for dialogue in dialogues
        for line in (*next(dialogue), request(BETWEEN, "hook.hello", version=1, modes=[]))
    ]
    answers = iter(conversation(command, *lines))  # one process takes part in them all
    for dialogue in dialogues:
        heard = list(itertools.takewhile(lambda answer: answer["id"] != BETWEEN, answers))
        with pytest.raises(StopIteration):
            dialogue.send(heard)
    assert list(answers) == []


HOW_TO_RUN = dict(
    re.findall(
        r"^\|[^|]+\| `((?!clients/)\w+/\w+\.\w+)` \| (.+?) \|", (EXAMPLES / "README.md").read_text(), re.MULTILINE
    )
)


def test_the_readme_lists_every_language_there_is():
    assert HOW_TO_RUN.keys() == {language.source for language in LANGUAGES}
    assert all((EXAMPLES / language.source).is_file() for language in LANGUAGES)


def test_the_readme_says_how_it_is_run(language, tmp_path):
    for program in language.needs:
        needed(program, language.install)
    directory = tmp_path / "copy"
    shutil.copytree((EXAMPLES / language.source).parent, directory, ignore=shutil.ignore_patterns("node_modules"))
    commands = re.findall("`([^`]+)`", HOW_TO_RUN[language.source])
    done = subprocess.run(
        commands[-1 if language.build else 0],
        shell=True,
        cwd=directory,
        input=request(1, "hook.hello", version=1, modes=[]) + b"\n",
        capture_output=True,
        check=True,
        timeout=toolchains.COMPILING,
    )
    assert json.loads(done.stdout.splitlines()[-1])["result"]["ok"] is True


def test_a_missing_toolchain_skips_with_a_hint(tmp_path):
    cobol = Language(
        "cobol", "cobol/hook.cob", ("{out}/hook",), needs=("cobc-of-tomorrow",), install="apt-get install it"
    )
    with pytest.raises(pytest.skip.Exception, match="there is no cobc-of-tomorrow: apt-get install it"):
        cobol.command(tmp_path)


# Held to a record of another one.


@pytest.mark.parametrize(
    "language", [one for one in LANGUAGES if one.name in {"node", "go"}], indirect=True, ids=["node", "go"]
)
@pytest.mark.anyio
async def test_it_decides_as_the_recorded_hook_in_python(command, tmp_path):
    path = tmp_path / "session.jsonl"
    python = HookSpec(
        name="hook", command=(preloaded.program("python"), str(EXAMPLES / "python/stdlib_hook.py")), stages=STAGES
    )
    async with Host([python], timeouts=PATIENT, listeners=[Recorder(path)]) as host:
        await host.before_llm({"model": "m", "messages": [{"role": "user", "content": ODD}], "tools": [SEARCH]})
        await host.before_tool({"tool": "get_weather", "arguments": {"city": "Tokyo"}})
        for text in ("ls", "rm -rf /", ODD):
            call = {"tool": "bash", "arguments": {"command": text}}
            await host.before_tool(call)
            await host.approve_tool(call)
            await host.after_tool({**call, "result": {"for_llm": f"password=hunter2 {text}"}})

    hook = HookSpec(name="hook", command=command, stages=STAGES)
    with path.open("rb") as file:
        async with Host([hook], timeouts=PATIENT) as host:
            found = [one async for one in compared(Record(file, path.name), host, Counter())]
    assert len(found) == 11
    assert {one.recorded["action"] for one in found} == {"modify", "respond", "continue", "deny_tool", "denied"}
    assert [one for one in found if one.changed] == []
