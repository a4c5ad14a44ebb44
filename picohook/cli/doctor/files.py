"""Configuration files: mistakes, settings without effect, permissions, trust."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path

from ...config import Config
from ...config.files import strangers
from ...errors import ConfigError, Problem, TrustError
from ...projects import trust, trust_store
from ...projects.layers import Layers
from .findings import Finding, Level

_TRUST = "read it and the programs it names, then: picohook trust"


def mistakes(error: ConfigError) -> Iterator[Finding]:
    """Yields the mistakes of a configuration that cannot be read."""
    for problem in error.problems:
        yield _finding(problem, Level.ERROR, "correct the file")


def _finding(problem: Problem, level: Level, hint: str) -> Finding:
    message = f"{problem.where}: {problem.message}" if problem.where else problem.message
    return Finding(level, problem.file, "configuration", message, problem.hint or hint)


def examine(found: Layers) -> Iterator[Finding]:
    """Yields the findings about each file, and about the search for files."""
    for note in found.notes:
        yield Finding(Level.WARNING, note.file, "configuration", note.message, note.hint)
    try:
        missing = [*found.missing(trust_store.read())]
    except TrustError:
        missing = []  # each file that needs trust says so
    for problem in missing:
        yield Finding(Level.ERROR, problem.file, "trust", f"{problem.message}, so no hook runs", problem.hint)
    for config in found.configs:
        yield _contents(config)
        for problem in found.warnings:
            if problem.file == str(config.path):
                yield _finding(problem, Level.WARNING, "remove it, or set what it needs")
        yield from _place(config.path)
        yield from _trust(config)


def _contents(config: Config) -> Finding:
    path, hooks = str(config.path), len(config.hooks)
    model = config.tables.get("model")
    if hooks or model is not None:
        message = f"{config.dialect} format, {hooks} hook{'s' if hooks != 1 else ''}"
        message += "" if model is None else f", and the model {model.shown()}"
        return Finding(Level.OK, path, "configuration", message)
    if not config.enabled:
        return Finding(Level.WARNING, path, "configuration", "no hook will run", "set hooks.enabled to true")
    return Finding(Level.WARNING, path, "configuration", "it has no hooks", "add one: picohook new")


def _place(path: Path) -> Iterator[Finding]:
    """Check whether others can replace the file. A file that they can write was refused when it was read."""
    if exposed := exposed_directory(path.parent):
        yield Finding(Level.WARNING, str(path), "permissions", exposed, f"chmod o-w {path.parent}")
    else:
        yield Finding(Level.OK, str(path), "permissions", "no other user can change it")


def exposed_directory(directory: Path) -> str:
    """Returns how others can replace files in a directory; empty if they cannot."""
    mode = directory.stat().st_mode
    if mode & stat.S_IWOTH and not mode & stat.S_ISVTX:
        return f"every user can replace files in {directory}"
    return ""


def exposed_file(path: str) -> tuple[str, str] | None:
    """Returns how others can change a file that a hook runs, and the way out; None if they cannot."""
    try:
        status = os.stat(path)
    except OSError:
        return None  # a missing file is another finding
    for how, hint in strangers(status):
        return f"{path} {how}", f"{hint} {path}" if hint.startswith("chmod") else f"{hint}: {path}"
    exposed = exposed_directory(Path(path).parent)
    return (exposed, f"chmod o-w {Path(path).parent}") if exposed else None


def _trust(config: Config) -> Iterator[Finding]:
    path = str(config.path)
    if not config.found:
        whose = {"system": "root's, in the layer `system`", "user": "yours, in the layer `user`"}.get(
            config.layer or "", "you named it"
        )
        yield Finding(Level.OK, path, "trust", f"{whose}: it needs no trust")
        return
    try:
        states = trust.states(config)
    except TrustError as error:
        for problem in error.problems:
            where = f"{problem.file}: {problem.where}" if problem.where else problem.file
            yield Finding(Level.ERROR, path, "trust", f"{where}: {problem.message}", problem.hint or _TRUST)
        return
    for file, against in states.items():
        if against:
            yield Finding(Level.ERROR, path, "trust", f"{file} {against}, so these hooks do not run", _TRUST)
        else:
            yield Finding(Level.OK, path, "trust", f"{file} is trusted as it is now")
    message = "trust covers these files only, not files that they import or start"
    yield Finding(Level.NOTE, path, "trust", message, "read those files too, and again when they change")
