"""Makes the hooks of a hook file: an ordinary hook for each handler, and one hook of the chain for each event."""

from __future__ import annotations

import os
import re
from collections import defaultdict
from typing import TYPE_CHECKING, Any

from ....model.spec import HookSpec, OnFailure, Timeouts
from ..spec import GroupSpec, HandlerSpec, Selection
from .settings import places

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ....config.document import Config
    from ..contract import Rule
    from ..foreign_file import ForeignFile
    from ..vendor import Vendor
    from ..vendor_table import Row
    from .handler_table import HandlerTable

_VARIABLE = re.compile(r"\$(?:(\w+)|\{(\w+)\})", re.ASCII)
_SAFE = re.compile(r"[\w@%+:,./= -]*")
"""A path that means the same to the shell in any quotes, and without quotes."""


class HookMaker:
    """Makes the hooks of one file."""

    def __init__(self, name: str, vendor: Vendor, config: Config, options: ForeignFile) -> None:
        self._name, self._vendor, self._config, self._options = name, vendor, config, options
        self._places = places(vendor, config.path, config.work)

    def handler(self, table: HandlerTable, rule: Rule, header_env: Sequence[str]) -> HandlerSpec:
        """Returns a handler as an ordinary hook."""
        options = self._options
        what: dict[str, Any] = {}
        if rule.kind == "command":
            what = self._vendor.command(self._substituted(table))
        elif rule.kind == "prompt":
            what = {"prompt": table.prompt, "model": table.model}
        elif rule.kind == "http":
            what = {"url": table.url, "headers": table.headers, "header_env": header_env}
        return HandlerSpec.model_validate({
            **what,
            "rule": rule,
            "timeout": rule.timeout,
            "dir": str(self._places.cwd / table.cwd),
            "env": {**self._places.env, **self._own_env(table)},
            "inherit_env": self._inherits,
            "trust": options.trust,
            "limits": options.limits,
            "sandbox": options.sandbox,
            "contain": options.contain,
        })  # fmt: skip

    @property
    def _inherits(self) -> bool | tuple[str, ...]:
        return not self._config.found if self._options.inherit_env is None else self._options.inherit_env

    def _own_env(self, table: HandlerTable) -> dict[str, str]:
        """The handler's own variables, in which references to variables that it inherits are replaced."""
        if not self._vendor.files.expands_env:
            return table.env
        inherited = self._inherits
        known = {name: value for name, value in os.environ.items() if inherited is True or name in (inherited or ())}
        known |= self._places.env
        return {
            name: _VARIABLE.sub(lambda found: known.get(found[1] or found[2], ""), value)
            for name, value in table.env.items()
        }

    def _substituted(self, table: HandlerTable) -> HandlerTable:
        """The handler with the `${...}` of its directories replaced.

        A path with characters that are special to a shell stays a variable, which the shell takes from the environment.
        """
        env = self._places.env.items()
        named = {f"${{{name}}}": value for name, value in env if table.args is not None or _SAFE.fullmatch(value)}
        return table.with_texts({**self._vendor.files.templates, **named})

    def group(self, event: str, row: Row, handlers: Sequence[HandlerSpec]) -> GroupSpec:
        """Returns the hook of the chain for the handlers of an event."""
        options = self._options
        waited_for = [one.rule.timeout for one in handlers if not one.rule.in_background]
        in_order = any(one.rule.in_order for one in handlers)
        longest = sum(waited_for) if in_order and waited_for else max(waited_for, default=1.0)
        stages = [row.stage] if row.stage else []
        if row.stage and row.stage != "before_prompt" and len(waited_for) < len(handlers):
            stages.append("before_prompt")  # the texts of handlers in the background come there
        denies = row.gate and options.failures == "strict"
        return GroupSpec(
            name=f"{self._name}:{event}",
            stages=tuple(stages),
            observe=(row.kind,) if row.kind else (),
            timeout=longest,
            approval_timeout=longest,
            on_failure=OnFailure.DENY if denies else OnFailure.CONTINUE,
            priority=options.priority,
            guard=denies and row.stage == "before_tool",
            trust=options.trust,
            dir=str(self._places.cwd),
            failures=options.failures,
            file=str(self._config.path),
            filter=Selection(
                dialect=self._name,
                event=event,
                handlers=tuple(handlers),
                project=str(self._places.project),
                tools=options.tools,
                strict=denies,
            ),
        )


def in_order(groups: Sequence[GroupSpec], events: Sequence[str]) -> list[GroupSpec]:
    """The hooks of one file, each after those of earlier events at the same stage.

    So a handler of a later event is asked about the call that earlier handlers have changed.
    """
    last: dict[str, str] = {}
    after: dict[str, tuple[str, ...]] = {}
    for group in sorted(groups, key=lambda one: events.index(one.filter.event)):
        after[group.name] = tuple(dict.fromkeys(last[stage] for stage in group.stages if stage in last))
        last |= dict.fromkeys(group.stages, group.name)
    return [group.model_copy(update={"after": after[group.name]}) for group in groups]


def with_room(timeouts: Timeouts, hooks: Sequence[HookSpec]) -> Timeouts:
    """The timeouts, with a chain budget that has room for every group, unless the budget is set."""
    needed: defaultdict[str, float] = defaultdict(float)
    for hook in hooks:
        for stage in hook.stages if isinstance(hook, GroupSpec) else ():
            needed[stage] += hook.timeout or 0.0
    longest = max(needed.values(), default=0.0)
    if "chain" in timeouts.model_fields_set or longest <= timeouts.chain:
        return timeouts
    return timeouts.model_copy(update={"chain": longest})
