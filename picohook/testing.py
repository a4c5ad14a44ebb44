"""For tests of programs with a host: hooks that follow a script, and a host that records its outcomes and events.

::

    guard = FakeHook("guard", {"before_tool": Deny(reason="not today")})
    async with RecordingHost([guard]) as host:
        result = await host.run_tool({"tool": "bash"}, execute)

    assert result.for_llm == "Tool execution denied by hook: not today"
    assert [call.tool for call in guard.asked_at("before_tool")] == ["bash"]
    assert [event.kind for event in host.events] == ["tool_exec_skipped"]

The host is a real host, with its chains, deadlines and failure policy. `hook_process` makes a real hook process from a few
lines of Python. `check_extension` is for tests of a package with an extension. `other_clothes` is for tests of gates, with
Hypothesis.
"""

from __future__ import annotations

import ast
import functools
import itertools
import sys
import textwrap
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

from . import extensions
from .config.table import Table
from .engine.listener import Listener
from .errors import HookError, PicohookError
from .extension import Extension, Lazy
from .hooks.function import FunctionHook
from .host import Host
from .model.decisions import Outcome
from .model.spec import HookSpec
from .model.stages import STAGES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from typing import TypeAlias

    from hypothesis.strategies import SearchStrategy

    from .hooks.base import Hook
    from .model.decisions import Decision
    from .model.events import Event
    from .model.payloads import Payload

    Answer: TypeAlias = (
        Decision
        | Mapping[str, Any]
        | bool
        | Exception
        | Callable[[Any], Decision | Mapping[str, Any] | bool | None]
        | None
    )

__all__ = ["FakeHook", "FakeQuestion", "RecordingHost", "check_extension", "hook_process", "other_clothes"]


class FakeQuestion(NamedTuple):
    """A question to a fake hook."""

    stage: str
    payload: Any


class FakeHook(FunctionHook):
    """A hook in the test's own process. It follows a script, and records its questions and events.

    `script` has an answer, or a list of answers, for each stage at which the hook is asked. A single answer is given every
    time. The answers of a list are given once each, in order; after the last the hook fails, which the trail shows. An answer
    is a decision, a mapping as a hook process would send it, True or False from an approver, None to continue, a function of
    the payload that returns one of these, or an exception, which makes the hook fail.

    The other settings are those of `HookSpec`: `observe`, `priority`, `on_failure`, `provides`, ...
    """

    def __init__(
        self, name: str = "fake", script: Mapping[str, Answer | list[Answer]] | None = None, **settings: Any
    ) -> None:
        self.asked: list[FakeQuestion] = []
        """Every question, in order."""
        self.events: list[Event] = []
        """Every event of the kinds that it observes, in order."""
        answers = {
            stage: iter(listed) if isinstance(listed, list) else itertools.repeat(listed)
            for stage, listed in (script or {}).items()
        }
        stages = {stage: functools.partial(self._answer, stage, each) for stage, each in answers.items()}
        super().__init__(name, stages, **settings)

    def asked_at(self, stage: str) -> list[Any]:
        """The payloads that the hook was asked about at this stage."""
        return [asked.payload for asked in self.asked if asked.stage == stage]

    def notify(self, event: Event) -> None:
        self.events.append(event)

    async def _answer(self, stage: str, answers: Iterator[Answer], payload: Payload) -> Any:
        self.asked.append(FakeQuestion(stage, payload))
        try:
            answer = next(answers)
        except StopIteration:
            raise HookError(f"its script for {stage} is at its end", hook=self.name) from None
        if isinstance(answer, Exception):
            raise answer
        return answer(payload) if callable(answer) else answer


class RecordingHost(Host):
    """A host that records the outcomes of its chains and its events, including those of `run_tool` and `run_llm`."""

    def __init__(
        self, hooks: Iterable[Hook | HookSpec] = (), *, listeners: Iterable[Listener] = (), **settings: Any
    ) -> None:
        self.outcomes: list[Outcome[Any]] = []
        """The outcome of each chain, in order."""
        self.events: list[Event] = []
        """Every event, in order, including those without an observer."""
        super().__init__(hooks, listeners=[*listeners, _Events(self.events)], **settings)
        self.on_change.add(self._changed)

    def _changed(self, change: object) -> None:
        if isinstance(change, Outcome):
            self.outcomes.append(change)

    def outcomes_at(self, stage: str) -> list[Outcome[Any]]:
        """The outcomes of the chains of this stage."""
        return [outcome for outcome in self.outcomes if outcome.stage == stage]


class _Events(Listener):
    def __init__(self, events: list[Event]) -> None:
        self._events = events

    def happened(self, event: Event, _hooks: Sequence[Hook]) -> None:
        self._events.append(event)


_LOOP = """
def _serve():
    for line in sys.stdin.buffer:
        request = json.loads(line)
        method, params = request["method"], request.get("params")
        handle = globals().get(method.removeprefix("hook."))
        if "id" not in request:
            handle = globals().get("event", handle)
        result = handle(params) if handle else {"ok": True} if method == "hook.hello" else {}
        if "id" in request:
            print(json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": result}), flush=True)
_serve()
"""


def hook_process(source: str, *, name: str = "process", **settings: Any) -> HookSpec:
    """A real hook process that runs these lines of Python.

    ::

        hook_process('''
            def before_tool(params):
                return {"action": "deny_tool", "reason": "no " + params["tool"]}

            def event(params):
                print(params["Kind"], file=sys.stderr)
        ''')

    A function with the name of a stage gets the params of the stage, and returns the answer. A function `event` gets every
    event, and a function `hello` the handshake. The hook is asked at the stages that have a function, unless `settings`,
    which are those of `HookSpec`, name others. `json` and `sys` are imported. An exception in a function ends the process.
    """
    source = textwrap.dedent(source)
    defined = {node.name for node in ast.parse(source).body if isinstance(node, ast.FunctionDef)}
    settings.setdefault("stages", tuple(stage for stage in STAGES if stage in defined))
    if "event" in defined:
        settings.setdefault("observe", ("*",))
    return HookSpec.model_validate(
        {"name": name, "command": (sys.executable, "-c", "import json, sys\n" + source + _LOOP), **settings}
    )


def check_extension(row: Extension) -> None:
    """Check an extension's row, and import all that it names.

    Raises `PicohookError` if picohook refuses the row, and `AssertionError` if a name cannot be imported, or is of another type
    than its field needs. Both name the field.
    """
    for wrong in extensions.mistakes(row):
        raise PicohookError(wrong)
    for field, lazy in _lazy_names(row):
        try:
            found = lazy.load()
        except PicohookError as error:
            raise AssertionError(f"{field}: {error}") from error
        needed, is_right = next((rule for prefix, rule in _TYPES.items() if field.startswith(prefix)), _CALLABLE)
        assert is_right(found), f"{field}: {lazy.path} is {found!r}, and must be {needed}"


_CALLABLE = ("a function", callable)
_TYPES = {
    "kinds[": ("a subclass of HookSpec", lambda found: isinstance(found, type) and issubclass(found, HookSpec)),
    "tables[": ("a subclass of Table", lambda found: isinstance(found, type) and issubclass(found, Table)),
    "commands[": ("a typer.Typer", lambda found: hasattr(found, "registered_commands")),
}


def _lazy_names(value: Any, at: str = "") -> Iterator[tuple[str, Lazy[Any]]]:
    """Yields each name in the row, with its field."""
    if isinstance(value, Lazy):
        yield at, value
    elif isinstance(value, Mapping):
        for key, one in value.items():
            yield from _lazy_names(one, f"{at}[{key!r}]")
    elif is_dataclass(value):
        for field in fields(value):
            yield from _lazy_names(getattr(value, field.name), f"{at}.{field.name}" if at else field.name)


def other_clothes(command: str, *, harmless: bool = False, most: int = 3) -> SearchStrategy[str]:
    """A Hypothesis strategy: a shell command as it is, and in up to `most` other clothes, such as quotes, variables, `bash -c`.

    With `harmless`, they are clothes in which a usual command stays usual. A failure shrinks to the fewest that it needs.
    Raises `ImportError` without Hypothesis.

    ::

        @given(other_clothes("rm -rf ~"))
        def test_the_gate_reads(command: str) -> None:
            assert gate.denies(command)
    """
    from hypothesis import strategies

    mutate = import_module("picohook.ext.guards.mutate")
    clothes = mutate.HARMLESS if harmless else mutate.HARMFUL
    names = strategies.lists(strategies.sampled_from(clothes), max_size=most, unique=True)
    return names.map(lambda worn: str(mutate.wear(command, worn)))
