"""Reads the hook files that a configuration or a program names."""

import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

from ....config import dialects, files, syntax
from ....config.document import Config
from ....config.problems import Problems, dotted
from ....config.table import Table
from ....model.spec import HookSpec, Timeouts
from ..contract import Failures
from ..dialects import dialect_in
from ..foreign_file import ForeignFile
from ..tools import ToolAlias
from .reader import read, with_room


class ForeignTable(Table):
    """Hook files of other agents, run as they are."""

    bare: ClassVar[str] = "files"
    files: tuple[ForeignFile, ...]

    def apply(self, config: Config, problems: Problems) -> Config:
        """Returns the configuration with the hooks of these files, and with time for them in the chain."""
        more = read_files(self.files, problems, config, taken=config.key_paths)
        return replace(
            config,
            hooks=config.hooks + more.hooks,
            key_paths={**config.key_paths, **more.key_paths},
            timeouts=more.timeouts,
            warnings=config.warnings + more.warnings,
        )


def read_files(named: Sequence[ForeignFile], problems: Problems, config: Config, *, taken: Collection[str]) -> Config:
    """Returns the configuration with the hooks of all files in `[[foreign]]`, and with time for them in the chain."""
    hooks, key_paths, warnings = [], {}, []
    names = set(taken)
    for index, table in enumerate(named):
        path = config.path.parent / Path(table.file).expanduser()
        own = Problems(str(path))
        document, _ = syntax.parse(files.read(path, own), dialects.suffix_of(path), own)
        path = Path(os.path.realpath(path.parent)) / path.name
        dialect = table.dialect or dialect_in(document, path)
        if dialect is None:
            problems.fail(
                ("foreign", index, "file"), "does not show which agent's hooks it has", 'set dialect = "claude"'
            )
        made = read(document, own, replace(config, path=path, work=config.project, dialect=dialect), table)
        own.check()
        new = {}
        for hook in made.hooks:
            name, number = hook.name, 2
            while name in names:
                name, number = f"{hook.name}-{number}", number + 1
            names.add(name)
            new[hook.name] = name
            key_paths[name] = dotted(("foreign", index)) + f" {made.key_paths[hook.name]}"
        hooks += [
            hook.model_copy(update={"name": new[hook.name], "after": tuple(new[other] for other in hook.after)})
            for hook in made.hooks
        ]
        warnings += [f"{dotted(('foreign', index))} {warning}" for warning in made.warnings]
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
    dialect: str | None = None,
    failures: Failures = "strict",
    tools: Mapping[str, ToolAlias] | None = None,
) -> list[HookSpec]:
    """The hooks of another agent's file, for `Host`. Naming the file is consent to run them. Raises `ConfigError`.

    `dialect` names the agent, if the file's path and form do not show it. `failures` is "strict" or "vendor". `tools` maps
    tools of the host to the agent's. A handler may take minutes: give the host a `Timeouts(chain=...)` that is long enough.
    """
    here, path = Path.cwd(), Path(file).absolute()
    config = Config(
        path=here / "x", project=here, work=here, dialect="native", digest="", found=False, timeouts=Timeouts()
    )
    table = ForeignFile(file=str(path), dialect=dialect, failures=failures, tools=dict(tools or {}))
    problems = Problems(str(path))
    made = read_files([table], problems, config, taken=())
    return [hook.model_copy(update={"source": str(path)}) for hook in made.hooks]
