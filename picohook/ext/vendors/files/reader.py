"""Reads the hook file of another agent by its form."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import BaseModel

from ....config.checks import validate
from ....config.problems import Problems, dotted, meant, quoted
from ....model.expressions import ADVICE
from ..contract import Rule
from ..dialects import vendor_named
from ..foreign_file import ForeignFile
from ..shim_entry import is_shim
from .checks import meant_tool, mistake, setting_warnings, why_unsupported
from .handler_table import GroupTable, HandlerTable
from .hooks import HookMaker, in_order, with_room
from .settings import file_settings

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ....config.document import Config
    from ....config.problems import KeyPath
    from ..spec import GroupSpec, HandlerSpec
    from ..vendor_table import Row


M = TypeVar("M", bound=BaseModel)


def read(document: Mapping[str, Any], problems: Problems, config: Config, options: ForeignFile | None = None) -> Config:
    """Returns the configuration with the hooks of a hook file, which is in the configuration's dialect."""
    reader = FileReader(config, options or ForeignFile(file=str(config.path)), problems, document)
    hooks = reader.read(document.get("hooks"))
    return replace(
        config,
        hooks=tuple(hooks),
        key_paths={hook.name: dotted(("hooks", hook.filter.event)) for hook in hooks},
        timeouts=with_room(config.timeouts, hooks),
        enabled=not reader.settings.off,
        warnings=tuple(reader.warnings),
    )


class FileReader:
    """Reads one file into hooks, one for each event."""

    def __init__(self, config: Config, options: ForeignFile, problems: Problems, document: Mapping[str, Any]) -> None:
        self._config, self._options, self._problems = config, options, problems
        self._vendor = vendor_named(config.dialect)
        self._hooks = HookMaker(config.dialect, self._vendor, config, options)
        self._rows: Mapping[str, Row] = self._vendor.events
        self.settings = file_settings(self._vendor, document)
        self.warnings = list(self.settings.warnings)

    def read(self, hooks: Any) -> list[GroupSpec]:
        """Returns the hooks. Adds mistakes to the problems in strict, and to the warnings otherwise."""
        if isinstance(hooks, str | list):
            self._problems.add(("hooks",), "names other files", "name those files directly")
            return []
        if hooks is not None and not isinstance(hooks, dict):
            self._problems.add(("hooks",), f"must be a table of events, not {quoted(hooks)}")
            return []
        if self.settings.problem:
            self._wrong(("version",), self.settings.problem)
            return []
        if self.settings.off:
            self.warnings.append(f"{self.settings.off}: no hook will run")
            return []
        events = {name: entries for name, entries in (hooks or {}).items() if name not in self._vendor.files.not_events}
        groups = (self._group(event, entries) for event, entries in events.items())
        return in_order([group for group in groups if group is not None], list(self._rows))

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
        at: KeyPath = ("hooks", event)
        row = self._rows.get(event)
        if row is None:
            self._wrong(at, f"is not an event of {self._vendor.title}", meant(event, self._rows))
            return None
        if not isinstance(entries, list):
            self._wrong(at, f"must be a list, not {quoted(entries)}")
            return None
        handlers = [
            handler
            for index, entry in enumerate(entries)
            for handler in self._handlers(event, row, entry, (*at, index))
        ]
        if handlers and not row.supported:
            also = ", so it refuses nothing here" if row.gate else ""
            self._warn(at, f"its handlers never run{also}: {row.why}")
            return None
        if not handlers:
            return None
        return self._hooks.group(event, row, handlers)

    def _handlers(self, event: str, row: Row, entry: Any, at: KeyPath) -> Iterator[HandlerSpec]:
        """Yields the handlers of an entry, which is a group or a handler."""
        layout = self._vendor.files.layout
        is_handler = isinstance(entry, dict) and (layout == "handlers" or (layout == "both" and "hooks" not in entry))
        if is_handler:
            own = {key: value for key, value in entry.items() if key != "matcher"}
            entry = {"matcher": entry.get("matcher"), "hooks": [own]}
        group = self._checked(GroupTable, entry, at)
        if group is None:
            return
        matcher = group.matcher or ""
        matches_all = matcher.strip() in {"", "*", "**"}
        warning = self._vendor.matcher_warning(matcher)
        if not matches_all and (why := self._vendor.matcher_problem(event, matcher)):
            warning = f"{matcher} matches everything, because it cannot be read: {why} ({ADVICE})"
        if matcher not in {"", "*"} and row.supported and not row.matched:
            warning = f"{event} ignores it: its handlers always run"
        elif not warning and row.stage in {"before_tool", "approve_tool"} and row.matched.startswith("tool"):
            warning = meant_tool(self._vendor, event, matcher)
        if warning:
            self._warn((*at, "matcher"), warning)
        for key in entry:
            if key not in self._vendor.files.group_keys:
                self._warn((*at, key), "is ignored")
        in_order = self._vendor.files.in_order or (group.in_order and "sequential" in self._vendor.files.group_keys)
        for index, table in enumerate(group.hooks):
            where = at if is_handler else (*at, "hooks", index)
            handler = self._handler(event, row, matcher, table, where, in_order=in_order)
            if handler is not None:
                yield handler

    def _handler(
        self, event: str, row: Row, matcher: str, entry: Any, at: KeyPath, *, in_order: bool
    ) -> HandlerSpec | None:
        if isinstance(entry, dict) and any(map(is_shim, entry.values())):
            return None  # picohook would ask itself
        vendor = self._vendor
        table = self._checked(HandlerTable, vendor.files.known(entry) if isinstance(entry, dict) else entry, at)
        if table is None:
            return None
        missing = [key for key in vendor.files.required if key not in entry]
        wrong = f"{missing[0]}: is missing" if missing else mistake(vendor, event, table)
        if wrong:
            self._wrong(at, wrong)
            return None
        if (table.name or table.command) in self.settings.disabled:
            self._warn(at, "it is switched off by its name, so it never runs")
            return None
        for warning in setting_warnings(vendor, event, row, table, entry):
            self._warn(at, warning)
        why = why_unsupported(vendor, self.settings, table)
        if why and row.supported:
            denies = row.gate and self._options.failures == "strict"
            self._warn(at, f"it cannot be run, and {'in strict it denies' if denies else 'it never runs'}: {why}")
        if table.only_if and not row.matched.startswith("tool"):
            return None  # it never runs in Claude Code either, as a warning says
        allowed = self.settings.allowed_env
        header_env = [name for name in table.header_env if allowed is None or name in allowed]
        files = self._vendor.files
        longest = files.longest_timeouts.get(event, float("inf"))
        default = files.timeouts.get(event, files.timeouts.get(table.type, files.timeout))
        timeout = default if table.timeout is None else table.timeout * files.unit
        if table.timeout_sec is not None:
            timeout = table.timeout_sec
        rule = Rule(
            at=dotted(at),
            kind="unsupported" if why else table.type,  # type: ignore[arg-type] # a supported type
            matcher=matcher,
            only_if=table.only_if,
            timeout=max(min(timeout, longest), files.shortest_timeout),
            identity=f"{table.name}:{table.command}" if files.once_each else "",
            context_limit=table.context_limit,
            in_background=(table.in_background or table.rewakes) and not why,
            blocks_on_failure=table.blocks_on_failure,
            most_blocks=table.most_blocks if "most_blocks" in table.model_fields_set else files.most_blocks,
            continues_on_block=table.continues_on_block,
            in_order=in_order,
            why=why,
        )
        return self._hooks.handler(table, rule, header_env)
