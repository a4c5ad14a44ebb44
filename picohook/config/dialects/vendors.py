"""Finds out whose hook file a file is, and reads it. The readers are imported when a file needs them."""

from __future__ import annotations

import os
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from .. import files, syntax
from ..problems import Problems, dotted

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from ...hooks.foreign.contract import Failures
    from ...hooks.foreign.tools import ToolAlias
    from ...model.spec import HookSpec
    from ..document import Config
    from ..tables import ForeignTable
    from .foreign import Form


def is_claude(document: Mapping[str, Any], path: Path) -> bool:
    """Whether it is one of Claude Code's settings, or has a list for each event of its `hooks`."""
    return _is_shape(document) or (path.parent.name == ".claude" and path.name.startswith("settings"))


def is_codex(_document: Mapping[str, Any], path: Path) -> bool:
    """Whether it is one of Codex's files, by its place."""
    return path.parent.name == ".codex" and path.name in {"hooks.json", "config.toml"}


def _is_shape(document: Mapping[str, Any]) -> bool:
    hooks = document.get("hooks")
    return isinstance(hooks, dict) and bool(hooks) and all(isinstance(entries, list) for entries in hooks.values())


Name: TypeAlias = Literal["claude", "codex"]
_MEANT: dict[Name, Callable[[Mapping[str, Any], Path], bool]] = {"codex": is_codex, "claude": is_claude}


def read_foreign(dialect: str, document: dict[str, Any], problems: Problems, config: Config) -> Config:
    """The configuration with the hooks of another agent's file."""
    from .foreign import read_with  # noqa: PLC0415 - few configurations need it

    return read_with(_form(dialect), document, problems, config)


def _form(dialect: str) -> Form:
    form: Form = import_module(f".{dialect}", __package__).FORM
    return form


def read_tables(
    tables: Sequence[ForeignTable], problems: Problems, config: Config, *, taken: Collection[str]
) -> Config:
    """The hooks of all files that `[[foreign]]` names, with their key paths, warnings, and room in the chain for them."""
    from .foreign import read_with, with_room  # noqa: PLC0415 - likewise

    hooks, key_paths, warnings = [], {}, []
    names = set(taken)
    for index, table in enumerate(tables):
        path = config.path.parent / Path(table.file).expanduser()
        own = Problems(str(path))
        document, _ = syntax.parse(files.read(path, own), path.suffix, own)
        path = Path(os.path.realpath(path.parent)) / path.name
        dialect = table.dialect or next((name for name, meant in _MEANT.items() if meant(document, path)), None)
        if dialect is None:
            problems.fail(("foreign", index, "file"), "does not show whose hooks it has", 'say it: dialect = "claude"')
        read = read_with(_form(dialect), document, own, replace(config, path=path, work=config.project), table)
        own.check()
        for hook in read.hooks:
            name, number = hook.name, 2
            while name in names:
                name, number = f"{hook.name}-{number}", number + 1
            names.add(name)
            hooks.append(hook.model_copy(update={"name": name}))
            key_paths[name] = dotted(("foreign", index)) + f" {read.key_paths[hook.name]}"
        warnings += [f"{dotted(('foreign', index))} {warning}" for warning in read.warnings]
    return replace(
        config,
        hooks=tuple(hooks),
        key_paths=key_paths,
        warnings=tuple(warnings),
        timeouts=with_room(config.timeouts, hooks),
    )


def foreign_hooks(
    file: str | os.PathLike[str],
    *,
    dialect: Name | None = None,
    failures: Failures = "strict",
    tools: Mapping[str, ToolAlias] | None = None,
) -> list[HookSpec]:
    """The hooks of another agent's file, for `Host`. Naming the file is consent to run them. Raises `ConfigError`.

    `dialect` is whose file it is, if its place and form do not show that. `failures` is "strict" or "vendor". `tools` has, for
    tools of the host with names of their own, what they are for the file. A handler may take minutes: give the host
    `Timeouts(chain=...)` with room for the slowest.
    """
    from ...model.spec import Timeouts  # noqa: PLC0415 - likewise
    from ..document import Config  # noqa: PLC0415 - likewise
    from ..tables import ForeignTable  # noqa: PLC0415 - likewise

    here, path = Path.cwd(), Path(file).absolute()
    config = Config(
        path=here / "x", project=here, work=here, dialect="native", digest="", found=False, timeouts=Timeouts()
    )
    table = ForeignTable(file=str(path), dialect=dialect, failures=failures, tools=dict(tools or {}))
    problems = Problems(str(path))
    read = read_tables([table], problems, config, taken=())
    return [hook.model_copy(update={"source": str(path)}) for hook in read.hooks]
