"""Which tools a hook may answer for without approval."""

from __future__ import annotations

import pytest

from picohook.engine import tool_ownership as ownership
from picohook.engine.tool_ownership import SESSIONS, Ownership, tool_names
from picohook.hooks.base import Hook
from picohook.model.payloads import LLMRequest, Meta, ToolCall
from picohook.model.spec import HookSpec

A, B = (Hook(HookSpec(name=name)) for name in "ab")


def tool(name: str) -> dict:
    return {"type": "function", "function": {"name": name}}


def request(*names: str, session: str = "s") -> LLMRequest:
    return LLMRequest(meta=Meta(session_key=session), tools=[tool(name) for name in names])


def call(name: str, session: str = "s") -> ToolCall:
    return ToolCall(tool=name, meta=Meta(session_key=session))


def owners(owner: Ownership, name: str, session: str = "s") -> str:
    return "".join(hook for hook in "ab" if owner.owns(hook, call(name, session)))


@pytest.fixture
def owner() -> Ownership:
    return Ownership()


class TestProvides:
    def test_a_tool_that_the_configuration_gives_a_hook_is_its_own_in_every_session(self, owner):
        owner.provide({"a": ["weather"], "b": []})
        assert owners(owner, "weather") == owners(owner, "weather", "another") == "a"

    def test_even_if_the_runtime_offers_one_of_that_name(self, owner):
        owner.provide({"a": ["weather"]})
        owner.offered(request("weather"))
        assert owners(owner, "weather") == "a"

    def test_two_hooks_may_provide_the_same_tool(self, owner):
        owner.provide({"a": ["weather"], "b": ["weather"]})
        assert owners(owner, "weather") == "ab"

    def test_new_provides_replace_the_old_ones(self, owner):
        owner.provide({"a": ["weather"]})
        owner.provide({"b": ["weather"]})
        assert owners(owner, "weather") == "b"

    def test_names_are_exact(self, owner):
        owner.provide({"a": ["weather"]})
        assert owners(owner, "Weather") == owners(owner, "weather ") == owners(owner, "") == ""


class TestInjected:
    def test_a_tool_that_a_hook_added_is_its_own_in_that_session(self, owner):
        owner.offered(request("bash"))
        owner.edited(A, request("bash"), request("bash", "weather"))
        assert owners(owner, "weather") == "a"
        assert owners(owner, "weather", "another") == ""

    def test_a_tool_that_the_runtime_offers_never_belongs_to_a_hook(self, owner):
        owner.offered(request("bash"))
        owner.edited(A, request("bash"), request("bash"))
        owner.edited(A, request(), request("bash"))
        assert owners(owner, "bash") == ""

    def test_nor_once_the_runtime_offers_it_later(self, owner):
        owner.edited(A, request(), request("weather"))
        assert owners(owner, "weather") == "a"
        owner.offered(request("weather"))
        assert owners(owner, "weather") == ""

    def test_nor_if_the_runtime_offered_it_earlier(self, owner):
        owner.offered(request("bash"))
        owner.offered(request())
        owner.edited(A, request(), request("bash"))
        assert owners(owner, "bash") == ""

    def test_tools_of_another_session_do_not_matter(self, owner):
        owner.edited(A, request(), request("weather"))
        owner.offered(request("weather", session="another"))
        assert owners(owner, "weather") == "a"

    def test_claimed_by_two_hooks_it_belongs_to_neither(self, owner):
        owner.edited(A, request(), request("weather"))
        owner.edited(B, request(), request("weather"))
        assert owners(owner, "weather") == ""

    def test_claimed_twice_by_one_it_stays_its_own(self, owner):
        owner.edited(A, request(), request("weather"))
        owner.edited(A, request(), request("weather"))
        assert owners(owner, "weather") == "a"

    def test_a_hook_that_passes_it_on_claims_nothing(self, owner):
        owner.edited(A, request(), request("weather"))
        owner.edited(B, request("weather"), request("weather", "news"))
        assert (owners(owner, "weather"), owners(owner, "news")) == ("a", "b")

    def test_a_tool_that_another_hook_provides_cannot_be_claimed(self, owner):
        owner.provide({"b": ["weather"]})
        owner.edited(A, request(), request("weather"))
        assert owners(owner, "weather") == "b"

    def test_a_tool_that_no_hook_added_belongs_to_none(self, owner):
        owner.edited(A, request(), request("weather"))
        assert owners(owner, "bash") == ""

    def test_a_session_that_is_over_is_forgotten(self, owner):
        owner.edited(A, request(), request("weather"))
        owner.forget("s")
        owner.forget("never there")
        assert owners(owner, "weather") == ""


class TestHowMuchIsRemembered:
    def claim(self, owner: Ownership, session: str) -> None:
        owner.edited(A, request(session=session), request("weather", session=session))

    def test_the_session_unused_for_longest_is_forgotten_first(self, owner):
        for number in range(SESSIONS):
            self.claim(owner, f"{number}")
        owner.offered(request(session="0"))
        self.claim(owner, "one more")
        assert owners(owner, "weather", "0") == "a"
        assert owners(owner, "weather", "1") == ""
        assert owners(owner, "weather", "2") == "a"
        assert owners(owner, "weather", "one more") == "a"

    def test_requests_without_tools_of_unknown_sessions_are_not_remembered(self, owner):
        self.claim(owner, "mine")
        for number in range(2 * SESSIONS):
            owner.offered(request(session=f"{number}"))
        assert owners(owner, "weather", "mine") == "a"

    def test_asking_does_not_make_it_remember_a_session(self, owner):
        self.claim(owner, "mine")
        for number in range(2 * SESSIONS):
            owner.owns("a", call("weather", f"{number}"))
        assert owners(owner, "weather", "mine") == "a"

    def test_it_is_bounded(self, owner, monkeypatch):
        monkeypatch.setattr(ownership, "SESSIONS", 2)
        for session in "xyz":
            owner.offered(request("bash", session=session))
            self.claim(owner, session)
        assert [owners(owner, "weather", session) for session in "xyz"] == ["", "a", "a"]


@pytest.mark.parametrize(
    ("tools", "names"),
    [
        ([], set()),
        ([{"type": "function", "function": {"name": "a"}}], {"a"}),
        ([{"name": "a", "input_schema": {}}], {"a"}),
        ([{"type": "function", "name": "a"}], {"a"}),
        ([{"type": "web_search"}, {"function": {}}, {"function": "x", "name": "b"}], {"b"}),
        ([{"name": 5}, {"function": {"name": ["a"]}}, {"name": None}], set()),
        ([{"name": "outer", "function": {"name": "inner"}}], {"inner"}),
    ],
)
def test_the_names_of_tools_in_the_shapes_of_providers(tools, names):
    assert tool_names(tools) == names
