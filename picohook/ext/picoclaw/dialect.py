"""PicoClaw's own JSON configuration. Only its `hooks` are read."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, ValidationError

from ...config.checks import explain, validate
from ...config.document import Config
from ...config.hook_checks import EVENTS, check_given, check_hook
from ...config.problems import KeyPath, Problems, dotted, meant, quoted
from ...model.spec import Globs, HookSpec, Settings, StageName, Timeouts, WholeModeSpec
from ...wire import words
from . import PicoClaw
from .table import OLDEST, PicoClawTable, settings_of

_SECTIONS = ("enabled", "defaults", "builtins", "processes")

_STAGES: tuple[StageName, ...] = ("before_llm", "after_llm", "before_tool", "approve_tool", "after_tool")

# Event kinds of PicoClaw's other parts. A file may name them, but picohook does not send them.
_ELSEWHERE = ("agent.message.", "agent.thread.", "bus.", "channel.", "gateway.", "mcp.", "message_", "thread_closed")
_WHO_SENDS = {True: "comes only where your own program emits it", False: "picohook never sends"}

# 0 and less mean PicoClaw's own defaults, which `Timeouts` has too.
_Milliseconds = Annotated[int, Field(le=10**9)]


class _DefaultsTable(Settings):
    observer_timeout_ms: _Milliseconds = 0
    interceptor_timeout_ms: _Milliseconds = 0
    approval_timeout_ms: _Milliseconds = 0


class _BuiltinTable(Settings):
    enabled: bool = False
    priority: int = 0
    config: Any = None


class _ProcessTable(Settings):
    # As in a Go struct, absent is false and 0. A native hook is enabled, and has priority 100.
    enabled: bool = False
    priority: int = 0
    transport: str = ""
    command: tuple[str, ...] = ()
    dir: str = ""
    env: dict[str, str] = Field(default_factory=dict)
    observe: tuple[str, ...] = ()
    intercept: tuple[str, ...] = ()
    trust: Globs | None = None


class _HooksTable(Settings):
    enabled: bool = True
    defaults: _DefaultsTable = Field(default_factory=_DefaultsTable)
    builtins: dict[str, _BuiltinTable] = Field(default_factory=dict)
    processes: dict[str, _ProcessTable] = Field(default_factory=dict)


class _File(Settings):
    hooks: _HooksTable


def section(document: dict[str, Any]) -> str | None:
    """The first of PicoClaw's sections under `hooks`, where a native file has hooks; None in any other document."""
    hooks = document.get("hooks")
    return next((name for name in _SECTIONS if name in hooks), None) if isinstance(hooks, dict) else None


def is_meant(document: dict[str, Any], _path: Path) -> bool:
    """Whether a document has one of PicoClaw's sections."""
    return section(document) is not None


def read(document: dict[str, Any], problems: Problems, config: Config) -> Config:
    """The configuration with the process hooks that the file enables."""
    if config.path.suffix != ".json":
        problems.fail(
            ("hooks", section(document) or ""),
            "belongs to PicoClaw's format, which is JSON",
            "in the native format, hooks has one table for each hook, by its name",
        )
    version = config.given.get("picoclaw", OLDEST)
    isolated = _isolated(document)
    document = {"hooks": _without_nulls(document["hooks"])}
    file = validate(_File, document, problems)
    enabled = document["hooks"].get("enabled") is not False
    tables = document["hooks"].get("processes")
    active = {
        name: table
        for name, table in (tables.items() if isinstance(tables, dict) else ())
        # PicoClaw ignores a process that is off, so its table may be unfinished.
        if enabled and isinstance(table, dict) and table.get("enabled")
    }
    for name, table in active.items():
        _check(name, table, problems, found=config.found)
    if active and isolated:
        problems.add(
            ("isolation", "enabled"),
            "picohook has no such isolation, and does not start hooks that need it",
            "set it to false; or write the hooks in the native format, where sandbox says what a hook may reach",
        )
    if file is None or problems.found:
        return config
    specs = (_spec(name, file.hooks.processes[name], problems, config, version) for name in active)
    hooks = tuple(filter(None, specs))
    return replace(
        config,
        hooks=hooks,
        key_paths={name: dotted(("hooks", "processes", name)) for name in active},
        timeouts=_timeouts(file.hooks.defaults, len(hooks)),
        enabled=enabled,
        warnings=tuple(_warnings(file.hooks, active)),
        tables={"picoclaw": PicoClawTable(version=version)},
    )


def _isolated(document: dict[str, Any]) -> bool:
    """Whether the file asks for isolation. Like Go, ignores the case of names. A value that is not a table counts as yes."""
    return any(
        any(value for inner, value in table.items() if inner.lower() == "enabled")
        if isinstance(table, dict)
        else bool(table)
        for name, table in document.items()
        if name.lower() == "isolation"
    )


def _without_nulls(value: Any) -> Any:
    """The value without keys that are null, which a Go program takes for absent."""
    if isinstance(value, dict):
        return {key: _without_nulls(inner) for key, inner in value.items() if inner is not None}
    return value


def _check(name: str, table: dict[str, Any], problems: Problems, *, found: bool) -> None:
    at: KeyPath = ("hooks", "processes", name)
    check_hook(name, table, problems, at, found=found, also=_ELSEWHERE)
    intercept = table.get("intercept")
    stages = [stage for stage in intercept if stage != ""] if isinstance(intercept, list) else intercept
    if table.keys() <= _ProcessTable.model_fields.keys():
        check_given({**table, "intercept": stages}, problems, at, stages="intercept", known=_STAGES)
    if table.get("transport", "") not in {"", "stdio"}:
        problems.add((*at, "transport"), f"{quoted(table['transport'])} is not a transport", 'only "stdio" is')
    for index, stage in enumerate(intercept if isinstance(intercept, list) else ()):
        if isinstance(stage, str) and stage not in {"", *_STAGES}:
            problems.add((*at, "intercept", index), f"{quoted(stage)} is not a stage", meant(stage, _STAGES))


def _spec(name: str, process: _ProcessTable, problems: Problems, config: Config, version: PicoClaw) -> HookSpec | None:
    """The process as a hook. Its program is relative to `dir`, and `dir` to the host's directory."""
    directory = config.work / process.dir
    program, *arguments = process.command
    try:
        return WholeModeSpec(
            name=name,
            command=(str(directory / program) if "/" in program else program, *arguments),
            stages=tuple(stage for stage in _STAGES if stage in process.intercept),
            observe=process.observe,
            priority=process.priority,
            env=process.env,
            inherit_env=not config.found,  # PicoClaw's users expect it in files that they name
            dir=str(directory),
            trust=process.trust,
            **settings_of(version),
        )
    except ValidationError as error:
        explain(error, WholeModeSpec, problems, ("hooks", "processes", name))
        return None


def _timeouts(defaults: _DefaultsTable, hooks: int) -> Timeouts:
    limits = {
        "observer": defaults.observer_timeout_ms / 1000,
        "interceptor": defaults.interceptor_timeout_ms / 1000,
        "approval": defaults.approval_timeout_ms / 1000,
    }
    timeouts = Timeouts.model_validate({name: seconds for name, seconds in limits.items() if seconds > 0})
    # PicoClaw has no budget for the chain: each of its interceptors may take its whole timeout.
    needed = timeouts.interceptor * hooks
    return timeouts.model_copy(update={"chain": needed}) if needed > timeouts.chain else timeouts


def _warnings(hooks: _HooksTable, active: dict[str, Any]) -> list[str]:
    builtins = [
        f"hooks.builtins: {quoted(name)} is built into PicoClaw, not into picohook: mount your own hook for it"
        for name, builtin in hooks.builtins.items()
        if builtin.enabled and hooks.enabled
    ]
    silent = [
        f"hooks.processes: {quoted(name)} observes {quoted(kind)}, which {_WHO_SENDS[kind in EVENTS]}"
        for name in active
        for kind in hooks.processes[name].observe
        if kind not in EVENTS or words.EVENT_KINDS.get(kind) == kind
    ]
    return builtins + silent
