"""The hook files of other agents: JSON with a list of groups for each event, and in each group a matcher and its handlers.

`Form` says what differs from one system to the next. All else is the same.
"""

from __future__ import annotations

import os
import re
from collections import defaultdict
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import ConfigDict, Field

from ...hooks.foreign.contract import Rule
from ...hooks.foreign.dialects import dialect_of
from ...hooks.foreign.shim_entry import is_shim
from ...hooks.foreign.spec import GroupSpec, Handler, HandlerSpec, Selection
from ...model.spec import HookSpec, OnFailure, Seconds, Settings, Timeouts
from ..checks import validate
from ..problems import Problems, dotted, meant, quoted
from ..tables import ForeignTable

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from ...hooks.foreign.contract import Row
    from ..document import Config
    from ..problems import KeyPath

LONGEST = 3600.0
"""Seconds of a timeout above which milliseconds were probably meant."""
_SAFE = re.compile(r"[\w@%+:,./= -]*")
"""A path that the shell takes as it is, in any quotes."""


class HandlerTable(Settings):
    """One handler, as Claude Code and those who took its form write it. Other keys are ignored, with a warning."""

    model_config = ConfigDict(extra="allow")

    type: str = "command"
    only_if: str = Field(default="", alias="if")
    timeout: Seconds | None = None
    command: str = ""
    args: tuple[str, ...] | None = None
    in_background: bool = Field(default=False, alias="async")
    rewakes: bool = Field(default=False, alias="asyncRewake")
    shell: Literal["bash", "powershell"] | None = None
    url: str = ""
    headers: dict[str, str] = Field(default_factory=dict)
    header_env: tuple[str, ...] = Field(default=(), alias="allowedEnvVars")
    prompt: str = ""
    model: str | None = None
    continues_on_block: bool = Field(default=False, alias="continueOnBlock")
    on_failure: Literal["continue", "block"] = Field(default="continue", alias="onFailure")
    once: bool = False
    status: str = Field(default="", alias="statusMessage")
    context_limit: int = Field(default=0, ge=0, alias="additionalContextLimit")


class GroupTable(Settings):
    """The handlers of one matcher."""

    model_config = ConfigDict(extra="allow")

    matcher: str | None = None
    hooks: tuple[dict[str, Any], ...] = ()


@dataclass(frozen=True, slots=True)
class Places:
    """Where the hooks of a file run, and what their environment says of it."""

    project: Path
    cwd: Path
    env: Mapping[str, str]
    is_plugin: bool = False


@dataclass(frozen=True, slots=True)
class Form:
    """What differs between the files of two systems."""

    dialect: str
    places: Callable[[Config], Places]
    timeout: Callable[[str, str], float]
    """The default timeout of a type of handler at an event."""
    types: Mapping[str, str]
    """The types of handlers; for each that is not done, the reason."""
    check_matcher: Callable[[str, str], str]
    """Takes an event and a matcher. Returns a warning, or raises `ValueError` if it cannot be read."""
    command: Callable[[str, HandlerTable], dict[str, Any]]
    """The command of a hook that runs this."""
    keys: frozenset[str]
    """The keys of a handler that the system knows."""
    only_commands: Collection[str] = ()
    """Events at which no URL and no model is asked."""
    gates_elsewhere: Collection[str] = ()
    """Events that are not done, and whose handlers refuse something there."""
    shortest_timeout: float = 0.0
    not_events: Collection[str] = ()
    """Keys beside the events."""
    longest_timeouts: Mapping[str, float] = field(default_factory=dict)
    """The longest timeout of some events."""


class FileReader:
    """Reads one file into hooks, one for each event."""

    def __init__(self, form: Form, config: Config, options: ForeignTable, problems: Problems) -> None:
        self._form, self._config, self._options, self._problems = form, config, options, problems
        self._dialect = dialect_of(form.dialect)
        self._places = form.places(config)
        self._rows: Mapping[str, Row] = self._dialect.events
        self.warnings: list[str] = []
        self._allowed_urls: list[str] | None = None
        self._allowed_env: list[str] | None = None

    def read(self, document: Mapping[str, Any]) -> list[GroupSpec]:
        """The hooks. Adds mistakes to the problems, or to the warnings if the vendor's failures are wanted."""
        self._allowed_urls = _texts(document.get("allowedHttpHookUrls"))
        self._allowed_env = _texts(document.get("httpHookAllowedEnvVars"))
        if document.get("enabledPlugins"):
            self.warnings.append(
                'enabledPlugins: plugins are not looked for: name their "hooks/hooks.json" in [[foreign]]'
            )
        hooks = document.get("hooks")
        if isinstance(hooks, str | list):
            self._problems.add(("hooks",), "names other files", "name those files themselves")
            return []
        if hooks is not None and not isinstance(hooks, dict):
            self._problems.add(("hooks",), f"must be a table of events, not {quoted(hooks)}")
            return []
        if document.get("disableAllHooks") is True:
            self.warnings.append("disableAllHooks: it is true: no hook will run")
            return []
        events = {name: entries for name, entries in (hooks or {}).items() if name not in self._form.not_events}
        groups = (self._group(event, entries) for event, entries in events.items())
        return [group for group in groups if group is not None]

    def _wrong(self, at: KeyPath, message: str, hint: str = "") -> None:
        """A mistake in one entry, which is left out: in strict, the file cannot be used."""
        if self._options.failures == "strict":
            self._problems.add(at, message, hint)
        else:
            self.warnings.append(f"{dotted(at)}: {message}: it is left out")

    def _group(self, event: str, entries: Any) -> GroupSpec | None:
        at: KeyPath = ("hooks", event)
        row = self._rows.get(event)
        if row is None:
            self._wrong(at, f"is not an event of {self._dialect.title}", meant(event, self._rows))
            return None
        if not isinstance(entries, list):
            self._wrong(at, f"must be a list, not {quoted(entries)}")
            return None
        handlers = [
            handler
            for index, entry in enumerate(entries)
            for handler in self._handlers(event, row, entry, (*at, index))
        ]
        if handlers and not row.done:
            also = ", so it refuses nothing here" if event in self._form.gates_elsewhere else ""
            self.warnings.append(f"{dotted(at)}: its handlers never run{also}: {row.why}")
            return None
        return self._spec(event, row, handlers) if handlers else None

    def _handlers(self, event: str, row: Row, entry: Any, at: KeyPath) -> Iterator[Handler]:
        own = Problems(str(self._config.path))
        group = validate(GroupTable, entry, own, at)
        if group is None:
            self._reject(own)
            return
        matcher = group.matcher or ""
        try:
            warning = self._form.check_matcher(event, matcher)
        except ValueError as error:
            self._wrong((*at, "matcher"), str(error))
            return
        if matcher not in {"", "*"} and row.done and not row.matched:
            warning = f"{event} ignores it: its handlers always run"
        if warning:
            self.warnings.append(f"{dotted((*at, 'matcher'))}: {warning}")
        self.warnings += [f"{dotted((*at, key))}: is ignored" for key in group.model_extra or ()]
        for index, table in enumerate(group.hooks):
            handler = self._handler(event, row, matcher, table, (*at, "hooks", index))
            if handler is not None:
                yield handler

    def _reject(self, own: Problems) -> None:
        """Take the mistakes of one entry."""
        if self._options.failures == "strict":
            for problem in own.found:
                self._problems.add(problem.where, problem.message, problem.hint)
        else:
            self.warnings += [f"{problem.where}: {problem.message}: the entry is left out" for problem in own.found]

    def _handler(self, event: str, row: Row, matcher: str, given: Any, at: KeyPath) -> Handler | None:
        own = Problems(str(self._config.path))
        table = validate(HandlerTable, given, own, at)
        if table is None:
            self._reject(own)
            return None
        if is_shim(table.command):
            return None  # it would ask picohook once more
        why = self._mistake(event, table)
        if why:
            self._wrong(at, why)
            return None
        self.warnings += [f"{dotted(at)}: {warning}" for warning in self._doubts(event, row, table, given)]
        undone = self._form.types[table.type] or self._undone(table)
        if undone and row.done:
            open_or_not = "in strict it denies" if row.gate else "it never runs"
            lets = open_or_not if self._options.failures == "strict" else "it never runs"
            self.warnings.append(f"{dotted(at)}: it cannot be run, and {lets}: {undone}")
        if table.only_if and not row.matched.startswith("tool"):
            return None  # it never runs in Claude Code either, as a warning says
        longest = self._form.longest_timeouts.get(event, float("inf"))
        rule = Rule(
            at=dotted(at),
            kind="undone" if undone else table.type,  # type: ignore[arg-type] # one of those that are done
            matcher=matcher,
            only_if=table.only_if,
            timeout=max(
                min(table.timeout or self._form.timeout(table.type, event), longest), self._form.shortest_timeout
            ),
            context_limit=table.context_limit,
            in_background=(table.in_background or table.rewakes) and not undone,
            blocks_on_failure=table.on_failure == "block",
            continues_on_block=table.continues_on_block,
            why=undone,
        )
        env_names = [name for name in table.header_env if self._allowed_env is None or name in self._allowed_env]
        return Handler(
            rule=rule,
            spec=self._ordinary(event, table, rule),
            headers=table.headers,
            header_env=tuple(env_names),
        )

    def _mistake(self, event: str, table: HandlerTable) -> str:
        """What is wrong with a handler; empty if nothing is."""
        if table.type not in self._form.types:
            return f"{quoted(table.type)} is not a type of handler ({', '.join(self._form.types)})"
        if event in self._form.only_commands and table.type in {"http", "prompt", "agent"}:
            return f"is of type {table.type}, and {event} runs only commands"
        needed = {"command": table.command, "http": table.url, "prompt": table.prompt}.get(table.type, "-")
        if not needed.strip():
            return f"is of type {table.type}, and has no {'url' if table.type == 'http' else table.type}"
        if "\0" in needed + "".join(table.args or ()):
            return "holds a NUL character"
        if table.type == "http" and not re.match(r"https?://[^/\s]", table.url):
            return f"{quoted(table.url)} is not a URL"
        if table.only_if:
            from ...hooks.foreign.permission_rule import is_rule  # noqa: PLC0415 - few files have one

            if not is_rule(table.only_if):
                return f"{quoted(table.only_if)} is not a permission rule, such as Bash(git *)"
        return ""

    def _undone(self, table: HandlerTable) -> str:
        """Why a handler of a type that is done cannot be run."""
        if (
            table.type == "http"
            and self._allowed_urls is not None
            and not any(_fits(one, table.url) for one in self._allowed_urls)
        ):
            return "its URL is not in allowedHttpHookUrls"
        if "${user_config." in table.command + "".join(table.args or ()):
            return "picohook has no configuration of plugins by their users"
        return ""

    def _doubts(self, event: str, row: Row, table: HandlerTable, given: Mapping[str, Any]) -> Iterator[str]:
        """Settings of a handler that probably do not do what is meant."""
        for key in given:
            if key not in self._form.keys:
                yield f"{key}: {self._dialect.title} has no such setting: it is ignored"
        if table.timeout is not None and table.timeout > LONGEST:
            yield f"timeout: {table.timeout:g} is in seconds, not in milliseconds"
        if table.once:
            yield "once: it has an effect only in a skill"
        if table.only_if and row.done and not row.matched.startswith("tool"):
            yield f"if: {event} is not about a tool, so the handler never runs"
        if table.rewakes:
            yield "asyncRewake: the agent is not woken: what it says comes with the next prompt"
        if table.in_background and row.gate:
            yield "async: nobody waits for it, so it refuses nothing"
        if table.type == "http" and find_spec("httpx") is None:
            yield "url: it needs httpx: pip install 'picohook[openai]'"

    def _ordinary(self, event: str, table: HandlerTable, rule: Rule) -> HandlerSpec:
        """The hook that the handler is."""
        options, found = self._options, self._config.found
        what: dict[str, Any] = {}
        if rule.kind == "command":
            what = self._form.command(event, self._substituted(table))
        elif rule.kind == "prompt":
            what = {"prompt": table.prompt, "model": table.model}
        elif rule.kind == "http":
            what = {"url": table.url}
        return HandlerSpec.model_validate({
            **what,
            "why": rule.why,
            "timeout": rule.timeout,
            "dir": str(self._places.cwd),
            "env": dict(self._places.env),
            "inherit_env": not found if options.inherit_env is None else options.inherit_env,
            "trust": options.trust,
            "limits": options.limits,
            "sandbox": options.sandbox,
            "contain": options.contain,
        })  # fmt: skip

    def _substituted(self, table: HandlerTable) -> HandlerTable:
        """The handler with the `${...}` of its directories filled in.

        A path that is more to a shell than its characters is left to the shell, which takes it from the environment.
        """
        command, args = table.command, table.args
        for name, value in self._places.env.items():
            if args is not None:
                command = command.replace(f"${{{name}}}", value)
                args = tuple(arg.replace(f"${{{name}}}", value) for arg in args)
            elif _SAFE.fullmatch(value):
                command = command.replace(f"${{{name}}}", value)
        return table.model_copy(update={"command": command, "args": args})

    def _spec(self, event: str, row: Row, handlers: Sequence[Handler]) -> GroupSpec:
        waited_for = [one.rule.timeout for one in handlers if not one.rule.in_background]
        longest = max(waited_for, default=1.0)
        stages = [row.stage] if row.stage else []
        if row.stage and row.stage != "before_prompt" and len(waited_for) < len(handlers):
            stages.append("before_prompt")  # where the texts of the others are delivered
        denies = row.gate and self._options.failures == "strict"
        return GroupSpec(
            name=f"{self._form.dialect}:{event}",
            stages=tuple(stages),
            observe=(row.kind,) if row.kind else (),
            timeout=longest,
            approval_timeout=longest,
            on_failure=OnFailure.DENY if denies else OnFailure.CONTINUE,
            priority=self._options.priority,
            trust=self._options.trust,
            dir=str(self._places.cwd),
            failures=self._options.failures,
            file=str(self._config.path),
            filter=Selection(
                dialect=self._form.dialect,
                event=event,
                handlers=tuple(handlers),
                project=str(self._places.project),
                cwd=str(self._places.cwd),
                tools=self._options.tools,
            ),
        )


def read_with(
    form: Form, document: Mapping[str, Any], problems: Problems, config: Config, options: ForeignTable | None = None
) -> Config:
    """The configuration with the hooks of a foreign file."""
    reader = FileReader(form, config, options or ForeignTable(file=str(config.path)), problems)
    hooks = reader.read(document)
    return replace(
        config,
        hooks=tuple(hooks),
        key_paths={hook.name: dotted(("hooks", hook.filter.event)) for hook in hooks},
        timeouts=with_room(config.timeouts, hooks),
        enabled=document.get("disableAllHooks") is not True,
        warnings=tuple(reader.warnings),
        picoclaw=None,
    )


def with_room(timeouts: Timeouts, hooks: Sequence[HookSpec]) -> Timeouts:
    """The timeouts, with a budget of the chain that lets each group take its time, unless the budget is set."""
    needed: defaultdict[str, float] = defaultdict(float)
    for hook in hooks:
        for stage in hook.stages if isinstance(hook, GroupSpec) else ():
            needed[stage] += hook.timeout or 0.0
    longest = max(needed.values(), default=0.0)
    if "chain" in timeouts.model_fields_set or longest <= timeouts.chain:
        return timeouts
    return timeouts.model_copy(update={"chain": longest})


def _texts(value: Any) -> list[str] | None:
    return [one for one in value if isinstance(one, str)] if isinstance(value, list) else None


def _fits(pattern: str, url: str) -> bool:
    """Whether a URL fits a pattern, in which `*` is any text."""
    return re.fullmatch(".*".join(map(re.escape, pattern.split("*"))), url) is not None


def home() -> Path:
    """The user's home, with links followed."""
    return Path(os.path.realpath(Path.home()))
