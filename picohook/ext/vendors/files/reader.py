"""Reads the hook file of another agent by its form. A handler is an ordinary hook, and an event is a hook of the chain."""

from __future__ import annotations

import os
import re
from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import BaseModel

from ....config.checks import validate
from ....config.problems import Problems, dotted, meant, quoted
from ....model.spec import OnFailure
from ..contract import Rule
from ..dialects import vendor_named
from ..foreign_file import ForeignFile
from ..shim_entry import is_shim
from ..spec import GroupSpec, HandlerSpec, Selection
from .checks import matcher_warning, mistake, setting_warnings, why_unsupported
from .handler_table import GroupTable, HandlerTable
from .places import places

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from ....config.document import Config
    from ....config.problems import KeyPath
    from ....model.spec import HookSpec, Timeouts
    from ..vendor_table import Row

M = TypeVar("M", bound=BaseModel)
_VARIABLE = re.compile(r"\$(?:(\w+)|\{(\w+)\})", re.ASCII)
_SAFE = re.compile(r"[\w@%+:,./= -]*")
"""A path that means the same to the shell in any quotes, and without quotes."""


def read(document: Mapping[str, Any], problems: Problems, config: Config, options: ForeignFile | None = None) -> Config:
    """Returns the configuration with the hooks of a hook file, which is in the configuration's dialect."""
    reader = FileReader(config, options or ForeignFile(file=str(config.path)), problems, document)
    hooks = reader.read()
    return replace(
        config,
        hooks=tuple(hooks),
        key_paths={hook.name: dotted(("hooks", hook.filter.event)) for hook in hooks},
        timeouts=with_room(config.timeouts, hooks),
        enabled=not reader.off,
        warnings=tuple(reader.warnings),
    )


class FileReader:
    """Reads one file into hooks, one for each event."""

    def __init__(self, config: Config, options: ForeignFile, problems: Problems, document: Mapping[str, Any]) -> None:
        self._config, self._options, self._problems, self._document = config, options, problems, document
        self._vendor = vendor_named(config.dialect)
        self._files = self._vendor.files
        self._places = places(self._vendor, config.path, config.work)
        self._inherits = not config.found if options.inherit_env is None else options.inherit_env
        self._allowed_env = self._texts(self._files.allowed_env)
        self._disabled = self._texts(self._files.disabled) or []
        self.off = next((key for key, value in self._files.off.items() if self._at(key) is value), "")
        """The setting that switches all hooks off; empty if they are on."""
        self.warnings = [f"{key}: {why}" for key, why in self._vendor.settings_without_effect(document)]

    def _at(self, key: str) -> Any:
        """The value of a setting, whose key has a dot for each table on the way; None without one."""
        found: Any = self._document
        for name in key.split("."):
            found = found.get(name) if isinstance(found, dict) else None
        return found

    def _texts(self, key: str) -> list[str] | None:
        """The texts in a list; None for anything else."""
        value = self._at(key)
        return [one for one in value if isinstance(one, str)] if isinstance(value, list) else None

    def read(self) -> list[GroupSpec]:
        """Returns the hooks. Adds mistakes to the problems in strict, and to the warnings otherwise."""
        hooks = self._document.get("hooks", {})
        version = self._document.get("version", 1)
        if self._files.has_version and (version != 1 or version is True):
            self._problems.add(("version",), "is not 1, the version that picohook knows")
        elif isinstance(hooks, str | list):
            self._problems.add(("hooks",), "names other files", "name those files directly")
        elif hooks is not None and not isinstance(hooks, dict):
            self._problems.add(("hooks",), f"must be a table of events, not {quoted(hooks)}")
        elif self.off:
            self.warnings.append(f"{self.off}: it is {str(self._at(self.off)).lower()}: no hook will run")
        else:
            events = {name: entries for name, entries in (hooks or {}).items() if name not in self._files.not_events}
            groups = (self._group(event, entries) for event, entries in events.items())
            return in_order([group for group in groups if group is not None], list(self._vendor.events))
        return []

    def _wrong(self, at: KeyPath | str, message: str, hint: str = "") -> None:
        """Add a mistake in one entry. In strict, the file cannot be used; otherwise the entry is left out."""
        if self._options.failures == "strict":
            self._problems.add(at, message, hint)
        else:
            self._warn(at, f"{message}: it is left out")

    def _warn(self, at: KeyPath | str, message: str) -> None:
        self.warnings.append(f"{at if isinstance(at, str) else dotted(at)}: {message}")

    def _checked(self, model: type[M], table: Any, at: KeyPath) -> M | None:
        """Returns the table as the model; None if it does not fit."""
        own = Problems(str(self._config.path))
        made = validate(model, table, own, at)
        for problem in own.found:
            self._wrong(problem.where, problem.message, problem.hint)
        return made

    def _group(self, event: str, entries: Any) -> GroupSpec | None:
        """Returns the hook of the chain for the handlers of an event; None if none of them runs."""
        at: KeyPath = ("hooks", event)
        row = self._vendor.events.get(event)
        if row is None:
            self._wrong(at, f"is not an event of {self._vendor.title}", meant(event, self._vendor.events))
            return None
        if not isinstance(entries, list):
            self._wrong(at, f"must be a list, not {quoted(entries)}")
            return None
        handlers = [
            handler for index, entry in enumerate(entries) for handler in self._handlers(row, entry, (*at, index))
        ]
        if handlers and not row.supported:
            also = ", so it refuses nothing here" if row.gate else ""
            self._warn(at, f"its handlers never run{also}: {row.why}")
        return self._hook(row, handlers) if handlers and row.supported else None

    def _handlers(self, row: Row, entry: Any, at: KeyPath) -> Iterator[HandlerSpec]:
        """Yields the handlers of an entry, which is a group or a handler."""
        layout = self._files.layout
        is_handler = isinstance(entry, dict) and (layout == "handlers" or (layout == "both" and "hooks" not in entry))
        if is_handler:
            own = {key: value for key, value in entry.items() if key != "matcher"}
            entry = {"matcher": entry.get("matcher"), "hooks": [own]}
        group = self._checked(GroupTable, entry, at)
        if group is None:
            return
        matcher = group.matcher or ""
        if warning := matcher_warning(self._vendor, row, matcher):
            self._warn((*at, "matcher"), warning)
        for key in entry:
            if key not in self._files.group_keys:
                self._warn((*at, key), "is ignored")
        in_order = self._files.in_order or (group.in_order and "sequential" in self._files.group_keys)
        for index, table in enumerate(group.hooks):
            where = at if is_handler else (*at, "hooks", index)
            handler = self._handler(row, matcher, table, where, in_order=in_order)
            if handler is not None:
                yield handler

    def _handler(self, row: Row, matcher: str, entry: Any, at: KeyPath, *, in_order: bool) -> HandlerSpec | None:
        """Returns a handler as an ordinary hook; None if it never runs."""
        if isinstance(entry, dict) and any(map(is_shim, entry.values())):
            return None  # picohook would ask itself
        vendor, files = self._vendor, self._files
        table = self._checked(HandlerTable, files.known(entry) if isinstance(entry, dict) else entry, at)
        if table is None:
            return None
        if wrong := mistake(vendor, row.name, table):
            self._wrong(at, wrong)
            return None
        if (table.name or table.command) in self._disabled:
            self._warn(at, "it is switched off by its name, so it never runs")
            return None
        for warning in setting_warnings(vendor, row, table, entry):
            self._warn(at, warning)
        why = why_unsupported(vendor, table, self._texts(files.allowed_urls))
        if why and row.supported:
            denies = row.gate and self._options.failures == "strict"
            self._warn(at, f"it cannot be run, and {'in strict it denies' if denies else 'it never runs'}: {why}")
        if table.only_if and not row.matched.startswith("tool"):
            return None  # it never runs in Claude Code either, as a warning says
        default = files.timeouts.get(row.name, files.timeouts.get(table.type, files.timeout))
        timeout = table.timeout_sec or (default if table.timeout is None else table.timeout * files.unit)
        rule = Rule(
            at=dotted(at),
            kind="unsupported" if why else table.type,  # type: ignore[arg-type] # a supported type
            matcher=matcher,
            only_if=table.only_if,
            timeout=max(min(timeout, files.longest_timeouts.get(row.name, timeout)), files.shortest_timeout),
            identity=f"{table.name}:{table.command}" if files.once_each else "",
            context_limit=table.context_limit,
            in_background=(table.in_background or table.rewakes) and not why,
            blocks_on_failure=table.blocks_on_failure,
            most_blocks=table.most_blocks if "most_blocks" in table.model_fields_set else files.most_blocks,
            continues_on_block=table.continues_on_block,
            in_order=in_order,
            why=why,
        )
        what: dict[str, Any] = {}
        if rule.kind == "command":
            what = vendor.command(self._substituted(table))
        elif rule.kind == "prompt":
            what = {"prompt": table.prompt, "model": table.model}
        elif rule.kind == "http":
            allowed = self._allowed_env
            header_env = [name for name in table.header_env if allowed is None or name in allowed]
            what = {"url": table.url, "headers": table.headers, "header_env": header_env}
        shared = self._options.model_dump(include={"trust", "limits", "sandbox", "contain"})
        about = {"rule": rule, "timeout": rule.timeout, "dir": str(self._places.cwd / table.cwd)}
        env = {**self._places.env, **self._own_env(table)}
        return HandlerSpec.model_validate({**what, **shared, **about, "env": env, "inherit_env": self._inherits})

    def _own_env(self, table: HandlerTable) -> dict[str, str]:
        """The handler's own variables, in which references to variables that it inherits are replaced."""
        if not self._files.expands_env:
            return table.env
        inherits = self._inherits
        known = {name: value for name, value in os.environ.items() if inherits is True or name in (inherits or ())}
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
        return table.with_texts({**self._files.templates, **named})

    def _hook(self, row: Row, handlers: Sequence[HandlerSpec]) -> GroupSpec:
        options, dialect = self._options, self._config.dialect
        waited_for = [one.rule.timeout for one in handlers if not one.rule.in_background]
        longest = max(waited_for, default=1.0)
        if any(one.rule.in_order for one in handlers):
            longest = sum(waited_for) or longest
        stages = [row.stage] if row.stage else []
        if row.stage and row.stage != "before_prompt" and len(waited_for) < len(handlers):
            stages.append("before_prompt")  # the texts of handlers in the background come there
        denies = row.gate and options.failures == "strict"
        return GroupSpec(
            name=f"{dialect}:{row.name}",
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
                dialect=dialect,
                event=row.name,
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
