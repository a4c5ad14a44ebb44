"""What the hooks of one host share: one object of a kind, which ends after the hooks."""

from __future__ import annotations

import pytest

from picohook import ConfigError, Continue, Hook, HookSpec, Host, Problem

pytestmark = pytest.mark.anyio


class Shared:
    ends: list[object]

    def __init__(self, host):
        assert host.log is not None

    async def aclose(self):
        self.ends.append(type(self))


class First(Shared):
    pass


class Second(Shared):
    pass


class Sharing(Hook):
    def open(self, host):
        self.shared = host.shared(First), host.shared(Second)

    async def handle(self, _question):
        return Continue()

    def stop(self):
        First.ends.append(self.name)


def sharing(name):
    return Sharing(HookSpec(name=name, stages=("before_tool",)))


async def test_it_is_made_once_for_a_host_and_closed_after_the_hooks_the_last_one_first(monkeypatch):
    monkeypatch.setattr(Shared, "ends", [], raising=False)
    a, b, elsewhere = sharing("a"), sharing("b"), sharing("a")
    async with Host([a, b]):
        assert [id(one) for one in a.shared] == [id(one) for one in b.shared]
        async with Host([elsewhere]):
            assert elsewhere.shared[0] is not a.shared[0]
        Shared.ends.clear()
    assert sorted(Shared.ends[:2]) == ["a", "b"]
    assert Shared.ends[2:] == [Second, First]


async def test_a_hook_that_cannot_be_mounted_says_why_before_any_is_started():
    class Lacking(Sharing):
        def problem(self, host):
            return Problem("(code)", f"hooks.{self.name}", "it lacks a key")

    first = sharing("a")
    with pytest.raises(ConfigError, match=r"\(code\): hooks\.b: it lacks a key"):
        async with Host([first, Lacking(HookSpec(name="b", stages=("before_tool",)))]):
            pass
    assert not hasattr(first, "shared")
