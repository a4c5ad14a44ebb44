"""Reads the handlers of one agent's hook file as if they were in another agent's file."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ....hooks.foreign.dialects import dialect_of
from ....model.spec import Timeouts
from ... import files, syntax
from ...document import Config
from ...problems import Problems, dotted
from ...tables import ForeignTable
from .reader import read_with
from .vendors import VENDOR_FILES, form_of, vendor_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ....hooks.foreign.dialects import DialectName
    from ....hooks.foreign.spec import GroupSpec

_INTERPRETERS = {".py": "python3", ".sh": "sh", ".bash": "bash", ".js": "node", ".mjs": "node", ".cjs": "node"}
"""For scripts that are not executable."""
_HOOK_FILES = {".json", ".toml", ".yaml", ".yml"}


class WrittenHandler(NamedTuple):
    """A handler of a hook file, or a script that is in no file yet."""

    at: str
    """Its key path in the file; for a script, its path."""
    path: Path
    """The file, absolute."""
    home: DialectName | None
    """The dialect of its file; None for a script."""
    stage: str
    """The stage of its event."""
    event: str
    matcher: str
    table: Mapping[str, Any]
    """Its whole entry in the file."""

    @property
    def command(self) -> str:
        """The command that it runs; empty if it is not a command."""
        program, args = self.table.get("exec") or self.table.get("command"), self.table.get("args")
        if isinstance(args, list):
            return shlex.join(map(str, (program, *args)))
        return str(self.table.get("bash") or program or "")


def written_handlers(path: Path) -> list[WrittenHandler]:
    """The handlers of a hook file; for a script, the handler that would run it. Raises `ConfigError`."""
    path = Path(os.path.realpath(path.parent)) / path.name
    if path.suffix not in _HOOK_FILES:
        script = shlex.quote(str(path))
        if not os.access(path, os.X_OK) and path.suffix in _INTERPRETERS:
            script = f"{_INTERPRETERS[path.suffix]} {script}"
        return [WrittenHandler(path.name, path, None, "before_tool", "", "", {"command": script})]
    problems = Problems(str(path))
    document, _ = syntax.parse(files.read(path, problems), syntax.suffix_of(path), problems)
    home = vendor_of(document, path)
    if home is None:
        problems.fail((), "is not a hook file of another agent", f"known: {', '.join(VENDOR_FILES)}")
    return list(_handlers(document.get("hooks"), path, home))


def _handlers(hooks: Any, path: Path, home: DialectName) -> Iterator[WrittenHandler]:
    rows = dialect_of(home).events
    for event, entries in hooks.items() if isinstance(hooks, dict) else ():
        row = rows.get(event)
        if row is None or not isinstance(entries, list):
            continue
        for index, entry in enumerate(entries):
            own = entry if isinstance(entry, dict) else {}
            inner = own.get("hooks")
            tables = [own] if inner is None else inner if isinstance(inner, list) else []
            for number, table in enumerate(tables):
                at = ("hooks", event, index, *(() if inner is None else ("hooks", number)))
                if isinstance(table, dict):
                    yield WrittenHandler(
                        dotted(at), path, home, row.stage, event, str(own.get("matcher") or ""), dict(table)
                    )


def read_as(dialect: DialectName, handler: WrittenHandler, event: str) -> tuple[GroupSpec | None, str]:
    """Returns the hook of a handler at an event in an agent's file, or None and the reason."""
    form, place, work = form_of(dialect), handler.path, Path.cwd()
    is_home = dialect == handler.home
    if handler.home is None:
        place = work / VENDOR_FILES[dialect].project_files[0]
    elif not is_home:
        own = form_of(handler.home).places(_config(handler.home, place, work))
        work = own.cwd  # where its command works
        if _is_of_project(place, handler.home):
            place = own.project / VENDOR_FILES[dialect].project_files[0]
    table = dict(handler.table) if is_home else {"type": "command", "command": handler.command}
    table.pop("matcher", None)
    matcher = {"matcher": handler.matcher} if handler.matcher else {}
    entry = {**matcher, **table} if form.layout == "handlers" else {**matcher, "hooks": [table]}
    problems = Problems(str(place))
    config = _config(dialect, place, work)
    options = ForeignTable(file=str(place), failures="vendor")
    read = read_with(form, {"version": 1, "hooks": {event: [entry]}}, problems, config, options)
    groups: list[Any] = list(read.hooks)
    return (groups[0], "") if groups else (None, "; ".join((*read.warnings, *map(str, problems.found))))


def _is_of_project(path: Path, home: DialectName) -> bool:
    """Whether a file is where an agent looks for a project's files. A plugin's file is not."""
    places = {Path(file).parent.parts for file in VENDOR_FILES[home].project_files}
    return any(path.parent.parts[-len(parts) :] == parts for parts in places)


def _config(dialect: DialectName, place: Path, work: Path) -> Config:
    return Config(path=place, project=work, work=work, dialect=dialect, digest="", found=False, timeouts=Timeouts())
