"""Agents of Pydantic AI inside tools of other agents: hooks are asked about both, under their own names."""

from __future__ import annotations

import pytest

from picohook import (
    Deny,
    FunctionHook,
    Host,
)

pytestmark = [pytest.mark.anyio, pytest.mark.one_worker("frameworks")]


def read(path: str) -> str:
    return f"text of {path}"


async def test_an_agent_of_pydantic_ai_inside_a_tool_has_a_sub_turn():
    import pydantic_ai
    from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
    from pydantic_ai.models.function import FunctionModel

    from picohook.integrations.pydantic_ai import Picohook

    def script(call, text):
        return lambda messages, info: ModelResponse([call if len(messages) == 1 else TextPart(text)])

    metas = []
    async with Host([FunctionHook("h", {"before_tool": lambda call: metas.append(call.meta)})]) as host:
        inner = pydantic_ai.Agent(
            FunctionModel(script(ToolCallPart("read", {"path": "a"}), "inner done")),
            name="reader",
            tools=[read],
            capabilities=[Picohook(host)],
        )

        async def ask(question: str) -> str:
            return (await inner.run(question)).output

        outer = pydantic_ai.Agent(
            FunctionModel(script(ToolCallPart("ask", {"question": "x"}), "outer done")),
            name="outer",
            tools=[ask],
            capabilities=[Picohook(host)],
        )
        await outer.run("hello", conversation_id="s1")
    first, second = metas
    assert (first.agent_id, first.parent_turn_id, first.session_key) == ("outer", "", "s1")
    assert (second.agent_id, second.parent_turn_id, second.session_key) == ("reader", first.turn_id, "s1")


def pydantic_agents(host, **settings):
    """An agent of Pydantic AI that asks hooks, and the agent in its tool, with these settings; what tools ran."""
    import pydantic_ai
    from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
    from pydantic_ai.models.function import FunctionModel

    from picohook.integrations.pydantic_ai import Picohook

    def script(call, text):
        return FunctionModel(
            lambda messages, info: ModelResponse([call if len(messages) == 1 else TextPart(text)]),
        )

    ran = []

    async def read(path: str) -> str:
        ran.append(path)
        return f"text of {path}"

    inner = pydantic_ai.Agent(
        script(ToolCallPart("read", {"path": "a"}), "inner done"), name="reader", tools=[read], **settings
    )

    async def ask(question: str) -> str:
        return (await inner.run(question)).output

    outer = pydantic_ai.Agent(
        script(ToolCallPart("ask", {"question": "x"}), "outer done"),
        name="outer",
        tools=[ask],
        capabilities=[Picohook(host)],
    )
    return outer, inner, ran


@pytest.mark.parametrize("how", ["without a Picohook", "with one"])
async def test_an_agent_of_pydantic_ai_inside_a_tool_asks_hooks_once_by_itself(how):
    from picohook.integrations.pydantic_ai import Picohook

    asked, models = [], []
    stages = {
        "before_llm": lambda request: models.append(request.meta.agent_id),
        "before_tool": lambda call: asked.append((call.tool, call.meta)),
        "approve_tool": lambda call: call.tool != "read",
    }
    async with Host([FunctionHook("h", stages)]) as host:
        outer, inner, ran = pydantic_agents(host, capabilities=[Picohook(host)] if how == "with one" else [])
        await outer.run("hello", conversation_id="s1")
        assert (ran, models) == ([], ["outer", "reader", "reader", "outer"])
        (first, outside), (second, inside) = asked
        assert (first, second) == ("ask", "read")
        assert (inside.agent_id, inside.parent_turn_id, inside.session_key) == ("reader", outside.turn_id, "s1")
        if how == "without a Picohook":
            await inner.run("hello")
            assert (ran, len(asked)) == (["a"], 2)


async def test_an_agent_of_pydantic_ai_that_makes_the_output_of_another_asks_hooks():
    import pydantic_ai
    from pydantic_ai.messages import ModelResponse, ToolCallPart
    from pydantic_ai.models.function import FunctionModel

    from picohook.integrations.pydantic_ai import Picohook

    asked = []

    def judge(call):
        asked.append(call.tool)
        return Deny("no") if call.tool == "read" else None

    async with Host([FunctionHook("h", {"before_tool": judge})]) as host:
        _, inner, ran = pydantic_agents(host)

        async def hand_off(question: str) -> str:
            return (await inner.run(question)).output

        model = FunctionModel(
            lambda _, info: ModelResponse([ToolCallPart(info.output_tools[0].name, {"question": "x"})])
        )
        router = pydantic_ai.Agent(model, output_type=hand_off, capabilities=[Picohook(host)])
        assert (await router.run("hello")).output == "inner done"
    assert (asked, ran) == (["hand_off", "read"], [])
