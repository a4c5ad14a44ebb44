"""j-cli's own YAML configuration: a list of hooks for each event."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from ...config.checks import validate
from ...config.problems import Problems, dotted, meant, quoted
from ...errors import PicohookError
from ...model.filters import Filter, exact
from ...model.spec import Globs, HookSpec, OnFailure, Seconds, Settings
from ...model.stages import STAGES
from . import contract
from .contract import EVENTS, RESULT, TOLD, VARIABLES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ...config.document import Config
    from ...config.problems import KeyPath
    from ...sessions.session import Session

BASH_TIMEOUT, LLM_TIMEOUT, LLM_RETRY = 10.0, 30.0, 1

_KNOWN = (*TOLD, *EVENTS)


class JcliSpec(HookSpec):
    """The settings of a command in one of j-cli's own files."""

    def make(self) -> Any:
        from ...hooks.command import CommandHook  # reading a configuration does without

        hook = CommandHook(self)
        hook.contract = contract
        return hook


class _FilterTable(Settings):
    tool_name: str | None = None
    tool_matcher: str | None = None
    model_prefix: str | None = None


class Definition(Settings):
    """One hook, as j-cli describes it."""

    type: Literal["bash", "llm"] = "bash"
    command: str | None = None
    prompt: str | None = None
    model: str | None = None
    timeout: Seconds | None = None
    retry: int | None = Field(default=None, ge=0, le=100)
    on_error: Literal["skip", "abort", "stop"] = "skip"
    filter: _FilterTable = Field(default_factory=_FilterTable)
    trust: Globs | None = None


def is_meant(document: dict[str, Any], _path: Path) -> bool:
    """Whether a document has lists of hooks by j-cli's events, and no table of a native file."""
    if not document.keys().isdisjoint({"hooks", "defaults", "foreign"}):
        return False
    lists = [value for value in document.values() if isinstance(value, list)]
    looks_so = bool(lists) and all(isinstance(entry, dict) for entries in lists for entry in entries)
    return any(event in document for event in _KNOWN) or (looks_so and len(lists) == len(document))


def read(document: dict[str, Any], problems: Problems, config: Config) -> Config:
    """The configuration with the hooks of all events."""
    hooks, warnings, key_paths = [], [], {}
    for event, entries in document.items():
        if event not in _KNOWN:
            problems.add((event,), "is not an event of j-cli", meant(event, _KNOWN))
        elif entries is not None and not isinstance(entries, list):
            problems.add((event,), f"must be a list of hooks, not {quoted(entries)}")
        else:
            for index, entry in enumerate(entries or ()):
                at: KeyPath = (event, index)
                definition = validate(Definition, entry, problems, at)
                if definition is None or not _check(definition, problems, at):
                    continue
                name = f"{event}-{index + 1:0{len(str(len(entries or ())))}}"  # names sort in the order of the list
                spec = _spec(event, definition, name, config.work, inherit=not config.found)
                hooks.append(spec)
                key_paths[name] = dotted(at)
                warnings += [f"{key_paths[name]}: {warning}" for warning in _warnings(event, definition, spec)]
    return replace(config, hooks=tuple(hooks), key_paths=key_paths, warnings=tuple(warnings))


def session_hook(event: str, definition: dict[str, Any], name: str) -> HookSpec:
    """A hook for `Host.mount`, from a definition as j-cli's RegisterHook takes it. Raises `ConfigError`."""
    problems = Problems("(code)")
    if event not in _KNOWN:
        problems.add((event,), "is not an event of j-cli", meant(event, _KNOWN))
    checked = validate(Definition, definition, problems, (event,))
    if checked is not None:
        _check(checked, problems, (event,))
    problems.check()
    assert checked is not None
    return _spec(event, checked, name, Path.cwd(), inherit=True).model_copy(update={"layer": "session"})


class RegisteredHooks:
    """The hooks that j-cli's RegisterHook tool adds to a session. They are asked last, in the order of registration."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._all: list[tuple[str, str, dict[str, Any]]] = []
        """The name, event and definition of each."""
        self._registered = 0

    async def register(self, event: str, definition: dict[str, Any]) -> int:
        """Add a hook. Returns its index. Raises `ConfigError`."""
        name = f"{event}-{self._registered}"
        spec = session_hook(event, definition, name).model_copy(update={"priority": self._registered})
        await self._session.mount(spec)
        self._registered += 1
        self._all.append((name, event, dict(definition)))
        return len(self._all) - 1

    def list(self) -> list[dict[str, Any]]:
        """The definitions, each with its event, and its index as `session_idx`."""
        return [
            {"session_idx": index, "event": event, **definition}
            for index, (_, event, definition) in enumerate(self._all)
        ]

    async def remove(self, index: int) -> None:
        """Remove a hook. The indexes of later hooks go down by one. Raises `PicohookError` if there is no such hook."""
        if not 0 <= index < len(self._all):
            raise PicohookError(f"there is no registered hook {index}: there are {len(self._all)}")
        name, _, _ = self._all.pop(index)
        await self._session.unmount(name)


def _check(definition: Definition, problems: Problems, at: KeyPath) -> bool:
    before = len(problems.found)
    needed = "command" if definition.type == "bash" else "prompt"
    if not (getattr(definition, needed) or "").strip():
        problems.add(at, f"is of type {definition.type}, and has no {needed}")
    for name in ("command", "prompt"):
        if "\0" in (getattr(definition, name) or ""):
            problems.add((*at, name), "holds a NUL character")
    return len(problems.found) == before


def _spec(event: str, definition: Definition, name: str, directory: Path, *, inherit: bool) -> HookSpec:
    asks_model = definition.type == "llm"
    stage, which = EVENTS.get(event, (None, {}))
    wanted = Filter(tool=_tool(definition.filter), model=definition.filter.model_prefix, when=which)
    return (HookSpec if asks_model else JcliSpec).model_validate({
        "name": name,
        "stages": () if stage is None else (stage,),
        "observe": (TOLD[event],) if event in TOLD else (),
        **({"prompt": definition.prompt, "model": definition.model} if asks_model else {"run": definition.command}),
        "timeout": definition.timeout or (LLM_TIMEOUT if asks_model else BASH_TIMEOUT),
        "retry": definition.retry if definition.retry is not None else (LLM_RETRY if asks_model else 0),
        "on_failure": OnFailure.CONTINUE if definition.on_error == "skip" else OnFailure.DENY,
        "filter": None if wanted == Filter() else wanted,
        "inherit_env": inherit,  # j-cli's users expect it in files that they name
        "dir": str(directory),
        "trust": definition.trust,
    })  # fmt: skip


def _tool(table: _FilterTable) -> str | None:
    if table.tool_name is not None:
        return f"/{re.escape(table.tool_name)}/"
    if table.tool_matcher is not None:
        return exact("|".join(name.strip() for name in table.tool_matcher.split("|")))
    return None


def _warnings(event: str, definition: Definition, spec: HookSpec) -> Iterator[str]:
    """Settings that j-cli or this host ignores."""
    asks_model = definition.type == "llm"
    for name in ("prompt", "model") if not asks_model else ("command",):
        if getattr(definition, name) is not None:
            yield f"{name} is not for type {definition.type}: it is ignored"
    if definition.filter.tool_name is not None and definition.filter.tool_matcher is not None:
        yield "filter.tool_matcher is ignored where there is a filter.tool_name"
    text = definition.prompt if asks_model else definition.command
    returned = [field for field in sorted(RESULT) if re.search(rf"\b{field}\b", text or "") and "_" in field]
    if event in TOLD and returned:
        yield f"{event} is only told: the fields it seems to return ({', '.join(returned)}) are ignored"
    if asks_model:
        for unknown in sorted(set(re.findall(r"\{\{\s*(\w+)\s*\}\}", text or "")) - set(VARIABLES)):
            yield f"{{{{{unknown}}}}} is not a variable ({meant(unknown, VARIABLES)})"
    fields = STAGES[spec.stages[0]].payload.model_fields if spec.stages else {}
    if spec.filter is not None:
        for part in spec.filter.never_has(fields, {}):
            if not part.startswith("when."):
                yield f"{event} has no {part}: with this filter, the hook is never asked"
