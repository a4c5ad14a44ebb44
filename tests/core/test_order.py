"""Who is asked where, and in which order."""

from __future__ import annotations

import itertools

import needs
import pytest
from hypothesis import given, strategies as st
from steps import growth

from picohook.engine.order import LAYERS, audiences, in_order, seats
from picohook.errors import ConfigError
from picohook.hooks.base import Hook
from picohook.model.spec import HookSpec, Timeouts
from picohook.wire import words


def hook(name: str, *, in_process: bool = False, **settings) -> Hook:
    made = Hook(HookSpec(name=name, **settings))
    made.in_process = in_process
    return made


def order(*hooks: Hook) -> str:
    return "".join(one.name for one in in_order(hooks))


def test_by_layer_then_priority_then_name():
    hooks = [
        hook("a", layer="session", priority=1), hook("b", layer="project", priority=2), hook("c", layer="user", priority=3),
        hook("d", layer="builtin", priority=4), hook("e", layer="user", priority=2), hook("f", layer="user", priority=3),
    ]  # fmt: skip
    for some in itertools.permutations(hooks):
        assert order(*some) == "decfba"


def test_without_a_layer_code_is_builtin_and_a_process_the_users():
    assert order(hook("a"), hook("b", in_process=True), hook("c", layer="builtin", priority=500)) == "bca"


def test_a_function_that_a_file_names_is_asked_where_the_other_hooks_of_the_file_are():
    assert order(hook("a", source="x.toml"), hook("b", source="x.toml", in_process=True)) == "ab"


def test_after_comes_before_priority():
    hooks = [hook("a", priority=1, after=("c",)), hook("b", priority=2), hook("c", priority=3)]
    assert order(*hooks) == "bca"


def test_one_whose_after_is_satisfied_has_its_own_priority_again():
    hooks = [hook("a", priority=1), hook("b", priority=3, after=("a",)), hook("c", priority=2), hook("d", priority=4)]
    assert order(*hooks) == "acbd"


def test_after_one_of_an_earlier_layer_holds_anyway():
    assert order(hook("a", layer="user", after=("b",)), hook("b", layer="builtin")) == "ba"


@needs.other_rooms
def test_a_fallback_is_asked_for_itself_where_it_cannot_stand_in():
    stages = ("before_tool", "approve_tool", "before_llm")
    remote = hook("r", nats="r", fallback="f", stages=stages[:2])
    asked = seats([remote, hook("f", stages=stages)], Timeouts())
    assert {stage: [seat.name for seat in asked[stage]] for stage in stages} == {
        "before_tool": ["r"],
        "approve_tool": ["r", "f"],
        "before_llm": ["f"],
    }


@needs.other_rooms
def test_a_fallback_of_another_layer_is_a_mistake():
    remote = hook("r", nats="r", fallback="gate", stages=("before_tool",), layer="project")
    gate = hook("gate", stages=("before_tool",), layer="user")
    with pytest.raises(ConfigError, match="'gate' is not of the same file"):
        in_order([remote, gate])
    with pytest.raises(ConfigError, match="'gate' is not of the same file"):
        in_order([gate, remote], checked=[remote])


@pytest.mark.parametrize("other", ["q", "p"])
def test_a_fallback_has_no_fallback_itself(other):
    hooks = [hook("p", fallback=other, stages=("before_tool",)), hook("q", fallback="r", stages=("before_tool",))]
    with pytest.raises(ConfigError, match=rf"hooks.p.fallback: '{other}' has a fallback itself"):
        in_order([*hooks, hook("r", stages=("before_tool",))])


@pytest.mark.parametrize("layer", [None, "user"])
@needs.other_rooms
def test_a_fallback_in_python_belongs_to_the_user_as_a_remote_hook_of_the_same_file_does(layer):
    remote = hook("r", nats="r", fallback="local", stages=("before_tool",))
    assert order(remote, hook("local", in_process=True, stages=("before_tool",), layer=layer))


CIRCLE = "waits for itself: (b after c after b|c after b after c)"


@pytest.mark.parametrize(
    ("hooks", "said"),
    [
        (
            [hook("gate", after=("gaet",)), hook("gates")],
            r"hooks.gate.after: there is no hook 'gaet' \(did you mean \"gate",
        ),
        ([hook("a", after=("nothing like it",))], "there is no hook 'nothing like it'$"),
        (
            [hook("p", fallback="gaet"), hook("gate")],
            r"hooks.p.fallback: there is no hook 'gaet' \(did you mean \"gate\"\?",
        ),
        ([hook("p", fallback="nothing like it")], "there is no hook 'nothing like it'$"),
        (
            [hook("a", layer="user", after=("b",)), hook("b", layer="session")],
            "'b' is asked later, in the layer session",
        ),
        ([hook("a", after=("a",))], "waits for itself: a after a"),
        ([hook("a", after=("b",)), hook("b", after=("c",)), hook("c", after=("b",))], CIRCLE),
    ],
)
def test_an_order_that_is_impossible_is_a_config_error_that_names_it(hooks, said):
    with pytest.raises(ConfigError, match=said):
        in_order(hooks)


def test_every_mistake_is_named_at_once():
    with pytest.raises(ConfigError) as caught:
        in_order([hook("a", after=("x", "y")), hook("b", after=("z",))])
    assert len(caught.value.problems) == 3


@given(st.lists(st.tuples(st.sampled_from(LAYERS), st.integers(0, 2), st.sets(st.integers(0, 7))), max_size=8))
def test_any_hooks_are_all_in_the_order_once_and_every_after_holds(wishes):
    hooks = [
        hook(
            f"h{number}", layer=layer, priority=priority, after=tuple(f"h{other}" for other in after if other < number)
        )
        for number, (layer, priority, after) in enumerate(wishes)
    ]
    layers = {one.name: LAYERS.index(one.spec.layer) for one in hooks}
    if any(layers[other] > layers[one.name] for one in hooks for other in one.spec.after):
        with pytest.raises(ConfigError, match="asked later"):
            in_order(hooks)
        return
    ordered = in_order(hooks)
    places = {one.name: place for place, one in enumerate(ordered)}
    assert len(ordered) == len(places) == len(hooks)
    for one in hooks:
        assert all(places[other] < places[one.name] for other in one.spec.after)
    assert [LAYERS.index(one.spec.layer) for one in ordered] == sorted(LAYERS.index(one.spec.layer) for one in hooks)


def test_a_seat_has_its_timeout_and_its_filter():
    gate = hook("gate", stages=("before_tool", "approve_tool"), timeout=1, filter={"tool": "bash"})
    laid = seats([gate], Timeouts())
    (before,), (approve,) = laid["before_tool"], laid["approve_tool"]
    assert (before.hook, before.timeout, before.filter) == (gate, 1, gate.spec.filter)
    assert (approve.hook, approve.timeout) == (gate, 60)
    assert not any(laid[stage] for stage in laid.keys() - {"before_tool", "approve_tool"})


def test_observers_are_told_of_the_kinds_they_name():
    a, b = hook("a", observe=("error",)), hook("b", observe=("*",))
    told = audiences([a, b])
    assert told.keys() == words.EVENT_KINDS.keys()
    assert told["error"] == (a, b)
    assert all(told[kind] == (b,) for kind in told.keys() - {"error"})


@pytest.mark.parametrize("after_each_other", [False, True])
def test_the_work_for_each_hook_does_not_grow_with_their_number(after_each_other):
    def prepare(number):
        names = [f"h{place:04}" for place in range(number)]
        afters = [(name,) for name in names[1:]] + [()] if after_each_other else [()] * number
        hooks = [hook(name, after=after) for name, after in zip(names, afters, strict=True)]
        return lambda: in_order(hooks)

    assert growth(prepare, 50, 400) < 1.25
