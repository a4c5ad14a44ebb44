"""Which configurations found in project directories the user has said yes to, and to what exactly.

Trusted is a content, not a name: the bytes of the file, and of every project file that a command or its `trust` names. What
those import is not covered. Where it cannot be told which files a command runs (`runs`), it is not trusted at all.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import shlex
import stat
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import ConfigError, Problem, TrustError
from ..model.spec import python_file
from ..process.plan import ChangedError
from ..wire.regular_files import changed_at, identity, open_regular, too_large
from ..wire.text import escape
from . import files, runs
from .problems import Problems, quoted
from .warnings import place as place_in_file

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..model.spec import HookSpec
    from ..wire.regular_files import Identity
    from .load import Config

_HINT = "read it and the programs it names, then: picohook trust"
_AGAIN = "read what changed, then: picohook trust"

MOST_SCRIPT = 256 << 20
"""Bytes of a file that a command names."""
MOST_STORE = 16 << 20
SETTLED, SKEW, LOOKS = 20_000_000, 1_000_000_000, 20
"""Nanoseconds after which a change is sure to get another time; how far a file server's clock may be ahead; and tries."""

_WRITES = frozenset({">", ">>", ">|", "&>", "&>>"})

Digests = dict[str, str]


def fingerprint(config: Config) -> str:
    """One word for everything that trust in this configuration covers."""
    return _digest(json.dumps(_digests(config), sort_keys=True).encode())


def covered(config: Config) -> tuple[str, ...]:
    """The files that trust in this configuration covers: itself, and the project files that its commands name."""
    return tuple(_digests(config))


def trust(config: Config) -> None:
    """Remember this content as trusted. A damaged store is written anew. Raises `TrustError` for what cannot be trusted."""
    digests = _digests(config)
    try:
        known = _read_store()
    except TrustError:
        known = {}
    _write_store({**known, str(config.path): digests})


def untrust(path: str | os.PathLike[str]) -> bool:
    """Forget the configuration; whether it was trusted."""
    known = _read_store()
    was_trusted = known.pop(_key(path), None) is not None
    if was_trusted:
        _write_store(known)
    return was_trusted


def require_trust(config: Config) -> None:
    """Raise `TrustError` unless the configuration was named by somebody, or is trusted just as it is."""
    if config.found:
        trusted, now = _trusted(config), _digests(config)
        _compare(trusted, now, trusted.keys() | now.keys())


def states(config: Config) -> Digests:
    """For each file that trust in this configuration covers, or covered, what keeps it from being trusted; empty: nothing."""
    known, now = _read_store().get(str(config.path)), _digests(config)
    if known is None:
        return dict.fromkeys(now, "is not trusted yet")
    names = sorted(known.keys() | now.keys())
    return {name: "" if known.get(name) == now.get(name) else _change(name, known, now) for name in names}


def still_trusted(config: Config, spec: HookSpec) -> dict[str, Identity] | None:
    """The same for one hook that is about to be started, from what is on the disk now.

    Gives what tells the files that it runs, and their directories, from others that may be put in their places.
    """
    if not config.found:
        return None
    trusted = _trusted(config)
    here = str(config.path)
    looked_at, ways = _settled_look(config, spec)
    now = {here: _digest(_read(config.path))} | {name: digest for name, (digest, _) in looked_at.items()}
    gone = {name for name in trusted if any(runs.fits(name, glob, config.project) for glob in spec.trust or ())}
    _compare(trusted, now, {*now, *gone, *arguments(spec)})
    if now[here] != config.digest:
        raise TrustError([Problem(escape(here), "", "was read before it changed", "start again")])
    return ways | {os.path.normpath(name): found for name, (_, found) in looked_at.items()}


def _settled_look(config: Config, spec: HookSpec) -> tuple[dict[str, tuple[str, Identity]], dict[str, Identity]]:
    """What is looked at, once it is older than the steps of a file system's clock: a later change has another time.

    Raises `ChangedError` where that does not come.
    """
    for _ in range(LOOKS):
        began = time.time_ns()
        looked_at = _look(config, spec)
        ways = _ways(looked_at)
        found = (*ways.values(), *(one for _, one in looked_at.values()))
        ages = [began - changed_at(one) for one in found if len(one) > len(("device", "inode"))]
        if not any(-SKEW < age < SETTLED for age in ages):
            return looked_at, ways
        time.sleep(SETTLED / 1e9)
    raise ChangedError(spec.name)


def _ways(names: Iterable[str]) -> dict[str, Identity]:
    """For each directory and link on the ways to these files, which one it is."""
    ways: dict[str, Identity] = {}
    for path in {path for name in names for path in (os.path.normpath(name), os.path.realpath(name))}:
        for step in map(str, (path, *Path(path).parents)):
            if step not in ways:
                status = os.lstat(step)
                is_link = stat.S_ISLNK(status.st_mode)
                ways[step] = identity(status) if is_link else (status.st_dev, status.st_ino)
    return ways


def _trusted(config: Config) -> Digests:
    known = _read_store().get(str(config.path))
    if known is None:
        raise TrustError([Problem(escape(str(config.path)), "", "was found here and is not trusted yet", _HINT)])
    return known


def _compare(trusted: Digests, now: Digests, names: Iterable[str]) -> None:
    changed = sorted(name for name in names if trusted.get(name) != now.get(name))
    if changed:
        raise TrustError(Problem(escape(name), "", _change(name, trusted, now), _AGAIN) for name in changed)


def _change(name: str, trusted: Digests, now: Digests) -> str:
    if name not in now:
        return "is gone since it was trusted"
    return "changed since it was trusted" if name in trusted else "is run now, and was not when this was trusted"


def _digests(config: Config) -> Digests:
    """Of what was read, not of what the file holds by now."""
    digests = {str(config.path): config.digest}
    problems: list[Problem] = []
    for spec in config.hooks:
        try:
            digests |= {name: digest for name, (digest, _) in _look(config, spec).items()}
        except TrustError as error:
            problems += error.problems
    if problems:
        raise TrustError(problems)
    return digests


def scripts(config: Config, spec: HookSpec) -> tuple[str, ...]:
    """The project files that a hook runs, as far as its settings name them."""
    words = [name for name in (*arguments(spec), *runs.programs(spec)) if runs.inside(name, config.project)]
    found = {name: None for name in words if os.path.isfile(name)}
    if config.found and spec.source == str(config.path):
        found |= dict.fromkeys(_named(config, spec))
    return tuple(found)


def _named(config: Config, spec: HookSpec) -> list[str]:
    try:
        return runs.named(spec, config.project)
    except ValueError as error:
        glob, why = error.args
        where = f"{_place(config, spec)}.trust"
        raise TrustError([Problem(escape(str(config.path)), where, f"{quoted(glob)} {why}")]) from None


def _look(config: Config, spec: HookSpec) -> dict[str, tuple[str, Identity]]:
    """For each project file that a hook runs, its digest, and which one it is. Raises `TrustError`."""
    here, where = escape(str(config.path)), _place(config, spec)
    why = runs.unclear(spec, config.project)
    if why:
        message = f"it cannot be told which files of the project it runs: {escape(why)}"
        raise TrustError([Problem(here, where, message, runs.HINT)])
    looked_at = {}
    for name in scripts(config, spec):
        try:
            looked_at[name] = _digest_file(name)
        except OSError as error:
            problem = Problem(escape(name), "", f"cannot be read, so it cannot be trusted: {error.strerror}")
            raise TrustError([problem]) from None
    return looked_at


def _place(config: Config, spec: HookSpec) -> str:
    known = any(one.name == spec.name for one in config.hooks)
    return place_in_file(config, spec) if known else escape(f"hook {spec.name}")


def arguments(spec: HookSpec) -> list[str]:
    """Each element of the command, or word of the shell's, as the path that it would be; or the file of a function."""
    words = list(spec.command)
    if spec.run is not None:
        words = _words(spec.run)
    elif spec.python is not None:
        file = python_file(spec)
        words = _module_files(spec.python.partition(":")[0]) if file is None else [str(file)]
    return [str(Path(spec.dir or "") / word) for word in words]


def _module_files(name: str) -> list[str]:
    """The files that an import of this module may run: of the current directory, if Python looks there. Imports nothing."""
    package, *rest = name.split(".")
    try:
        found = importlib.util.find_spec(package)
    except (ImportError, ValueError):
        return []
    files = [] if found is None or found.origin is None else [found.origin]
    for place in (found and found.submodule_search_locations) or ():
        for depth in range(1, len(rest) + 1):
            inner = Path(place, *rest[:depth])
            files += [str(path) for path in (inner.with_suffix(".py"), inner / "__init__.py") if path.is_file()]
    return files


def _words(shell: str) -> list[str]:
    """Its words, but for those that only name what is written: what a hook leaves behind is not what it runs."""
    lexer = shlex.shlex(shell, posix=True, punctuation_chars=True)
    lexer.whitespace_split, lexer.commenters = True, ""
    try:
        words = list(lexer)
    except ValueError:  # a quote that is not closed: the shell will say so
        return shell.split()
    return [word for before, word in zip(["", *words], words, strict=False) if before not in _WRITES]


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _digest_file(name: str) -> tuple[str, Identity]:
    """Of its bytes and of where they really are: the same bytes elsewhere have other neighbours to import. And which one."""
    path = os.path.realpath(name)
    digest = hashlib.sha256(os.fsencode(path) + b"\0")
    descriptor, _ = open_regular(path)
    try:
        left = MOST_SCRIPT + 1
        while left and (block := os.read(descriptor, min(left, 1 << 20))):
            digest.update(block)
            left -= len(block)
        if not left:
            raise too_large(MOST_SCRIPT)
        return digest.hexdigest(), identity(os.fstat(descriptor))
    finally:
        os.close(descriptor)


def _key(path: str | os.PathLike[str]) -> str:
    return str(Path(os.path.realpath(Path(path).parent)) / Path(path).name)


def store() -> Path:
    """The file in which trust is kept."""
    import platformdirs  # noqa: PLC0415 - only for a configuration that was found

    return platformdirs.user_config_path("picohook") / "trust.json"


def _read_store() -> dict[str, Digests]:
    path = store()
    if not os.path.lexists(path):
        return {}
    data = _read(path)
    try:
        document: Any = json.loads(data)
    except (ValueError, RecursionError):
        document = None
    if not _is_store(document):
        problem = Problem(escape(str(path)), "", "is damaged, so nothing is trusted", "picohook trust writes it anew")
        raise TrustError([problem])
    return dict(document)


def _read(path: Path) -> bytes:
    try:
        return files.read(path, Problems(str(path)), MOST_STORE if path == store() else files.MOST)
    except ConfigError as error:
        raise TrustError(error.problems) from None


def _is_store(document: Any) -> bool:
    return isinstance(document, dict) and all(
        isinstance(digests, dict) and all(isinstance(digest, str) for digest in digests.values())
        for digests in document.values()
    )


def _write_store(known: dict[str, Digests]) -> None:
    path = store()
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor, new = tempfile.mkstemp(dir=path.parent, prefix="trust-")  # 0600 from the start
        try:
            with os.fdopen(descriptor, "w", encoding="ascii") as file:
                json.dump(known, file, indent=2)
                file.flush()
                os.fsync(file.fileno())
            Path(new).replace(path)
        except BaseException:
            Path(new).unlink()
            raise
    except OSError as error:
        raise ConfigError([Problem(escape(str(path)), "", f"cannot be written: {error.strerror}")]) from None
