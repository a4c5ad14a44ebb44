"""PicoClaw's own JSON configuration, of which only `hooks` is looked at."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field, ValidationError

from ...model.spec import Globs, HookSpec, Settings, Timeouts, WholeModeSpec
from ...wire import words
from ..checks import explain, validate
from ..hooks import KINDS, OLDEST, Contents, check_dir, check_env, check_given, check_name, check_observe, of_version
from ..problems import meant, quoted

if TYPE_CHECKING:
    from pathlib import Path

    from ...model.spec import StageName
    from ..hooks import PicoClaw
    from ..problems import KeyPath, Problems

SECTIONS = ("enabled", "defaults", "builtins", "processes")

_STAGES: tuple[StageName, ...] = ("before_llm", "after_llm", "before_tool", "approve_tool", "after_tool")

# Kinds of PicoClaw's runtime that an agent's turn does not have. A config may name them; they never come.
_ELSEWHERE = ("agent.message.", "agent.thread.", "bus.", "channel.", "gateway.", "mcp.", "message_", "thread_closed")


_WHO_SENDS = {True: "comes only where your own program emits it", False: "picohook never sends"}

# 0 and less: PicoClaw's own defaults, which are those of `Timeouts`.
_Milliseconds = Annotated[int, Field(le=10**9)]


class _Defaults(Settings):
    observer_timeout_ms: _Milliseconds = 0
    interceptor_timeout_ms: _Milliseconds = 0
    approval_timeout_ms: _Milliseconds = 0


class _Builtin(Settings):
    enabled: bool = False
    priority: int = 0
    config: Any = None


class _Process(Settings):
    # A bool and an int of a Go struct: absent is false and 0, where a native hook is enabled and has priority 100.
    enabled: bool = False
    priority: int = 0
    transport: str = ""
    command: tuple[str, ...] = ()
    dir: str = ""
    env: dict[str, str] = Field(default_factory=dict)
    observe: tuple[str, ...] = ()
    intercept: tuple[str, ...] = ()
    trust: Globs | None = None


class _Hooks(Settings):
    enabled: bool = True
    defaults: _Defaults = Field(default_factory=_Defaults)
    builtins: dict[str, _Builtin] = Field(default_factory=dict)
    processes: dict[str, _Process] = Field(default_factory=dict)


class _File(Settings):
    hooks: _Hooks


def section(document: dict[str, Any]) -> str | None:
    """The first of its sections under `hooks`, where a native file has hooks: then this is PicoClaw's shape."""
    hooks = document.get("hooks")
    return next((name for name in SECTIONS if name in hooks), None) if isinstance(hooks, dict) else None


def read(
    document: dict[str, Any], problems: Problems, directory: Path, *, found: bool, version: PicoClaw | None = None
) -> Contents:
    """The process hooks that it enables, which run in this directory as with this version of PicoClaw."""
    version = version or OLDEST
    isolated = _isolated(document)
    document = {"hooks": _without_nulls(document["hooks"])}
    file = validate(_File, document, problems)
    enabled = document["hooks"].get("enabled") is not False
    tables = document["hooks"].get("processes")
    active = {
        name: table
        for name, table in (tables.items() if isinstance(tables, dict) else ())
        # PicoClaw does not look into a process that is off: people keep half-made ones in their files.
        if enabled and isinstance(table, dict) and table.get("enabled")
    }
    for name, table in active.items():
        _check(name, table, problems, found=found)
    if active and isolated:
        message = "picohook has no such isolation, and does not start hooks that need it"
        hint = "set it to false; or write the hooks in the native format, where sandbox says what a hook may reach"
        problems.add(("isolation", "enabled"), message, hint)
    if file is None or problems.found:
        return Contents((), Timeouts())
    processes = file.hooks.processes
    specs = (_spec(name, processes[name], problems, directory, version, found=found) for name in active)
    hooks = tuple(spec for spec in specs if spec)
    timeouts, warnings = _timeouts(file.hooks.defaults, len(hooks)), tuple(_warnings(file.hooks, active))
    return Contents(hooks, timeouts, enabled, warnings, picoclaw=version)


def _isolated(document: dict[str, Any]) -> bool:
    """Whether it asks for isolation. Go takes the names in any case; what is no section at all is not taken for a no."""
    return any(
        any(value for inner, value in section.items() if inner.lower() == "enabled")
        if isinstance(section, dict)
        else bool(section)
        for name, section in document.items()
        if name.lower() == "isolation"
    )


def _without_nulls(value: Any) -> Any:
    """To a Go program, null is a key that is not there."""
    if isinstance(value, dict):
        return {key: _without_nulls(inner) for key, inner in value.items() if inner is not None}
    return value


def _check(name: str, table: dict[str, Any], problems: Problems, *, found: bool) -> None:
    at: KeyPath = ("hooks", "processes", name)
    check_name(name, problems, at)
    intercept = table.get("intercept")
    stages = [stage for stage in intercept if stage != ""] if isinstance(intercept, list) else intercept
    if table.keys() <= _Process.model_fields.keys():
        check_given({**table, "intercept": stages}, problems, at, stages="intercept", known=_STAGES)
    if table.get("transport", "") not in {"", "stdio"}:
        problems.add((*at, "transport"), f"{quoted(table['transport'])} is not a transport", 'only "stdio" is')
    for index, stage in enumerate(intercept if isinstance(intercept, list) else ()):
        if isinstance(stage, str) and stage not in {"", *_STAGES}:
            problems.add((*at, "intercept", index), f"{quoted(stage)} is not a stage", meant(stage, _STAGES))
    check_observe(table.get("observe"), problems, (*at, "observe"), also=_ELSEWHERE)
    check_env(table.get("env"), problems, (*at, "env"), found=found)
    check_dir(table.get("dir"), problems, (*at, "dir"))


def _spec(
    name: str, process: _Process, problems: Problems, base: Path, version: PicoClaw, *, found: bool
) -> HookSpec | None:
    """The process as a hook; what is relative in it is so to `dir`, and that to where the host runs."""
    directory = base / process.dir
    program, *arguments = process.command
    try:
        return WholeModeSpec(
            name=name,
            source=problems.file,
            command=(str(directory / program) if "/" in program else program, *arguments),
            stages=tuple(stage for stage in _STAGES if stage in process.intercept),
            observe=process.observe,
            priority=process.priority,
            env=process.env,
            inherit_env=not found,  # as its users expect, where they named the file
            dir=str(directory),
            trust=process.trust,
            **of_version(version),
        )
    except ValidationError as error:
        explain(error, WholeModeSpec, problems, ("hooks", "processes", name))
        return None


def _timeouts(defaults: _Defaults, hooks: int) -> Timeouts:
    given = {
        "observer": defaults.observer_timeout_ms / 1000,
        "interceptor": defaults.interceptor_timeout_ms / 1000,
        "approval": defaults.approval_timeout_ms / 1000,
    }
    timeouts = Timeouts.model_validate({name: seconds for name, seconds in given.items() if seconds > 0})
    # PicoClaw has no budget for the chain: each of its interceptors may take all of its time.
    needed = timeouts.interceptor * hooks
    return timeouts.model_copy(update={"chain": needed}) if needed > timeouts.chain else timeouts


def _warnings(hooks: _Hooks, active: dict[str, Any]) -> list[str]:
    builtins = [
        f"hooks.builtins: {quoted(name)} is built into PicoClaw, not into picohook: mount your own hook for it"
        for name, builtin in hooks.builtins.items()
        if builtin.enabled and hooks.enabled
    ]
    silent = [
        f"hooks.processes: {quoted(name)} observes {quoted(kind)}, which {_WHO_SENDS[kind in KINDS]}"
        for name in active
        for kind in hooks.processes[name].observe
        if kind not in KINDS or words.EVENT_KINDS.get(kind) == kind
    ]
    return builtins + silent
