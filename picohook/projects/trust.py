"""Trust: which configurations of projects may run, and with which contents of their files.

Trust covers the bytes of the configuration, and of each project file that a hook's command or `trust` names. Files that those
import are not covered. A hook whose command does not show which files it runs (`hook_files`) cannot be trusted.
"""

import hashlib
import os
import stat
import time
from collections.abc import Iterable
from pathlib import Path

from ..config import dialects, files
from ..config.document import Config
from ..config.problems import Problems, quoted
from ..errors import ConfigError, Problem, TrustError
from ..model.spec import HookSpec
from ..process.plan import ChangedError
from ..wire.regular_files import Identity, changed_at, identity, open_regular, too_large
from ..wire.text import escape
from . import hook_files, trust_store
from .trust_store import Digests

_READ_FIRST = "read it and the programs it names, then: picohook trust"

MOST_SCRIPT = 256 << 20
"""The most bytes of a file that a command names."""
SETTLED, SKEW, LOOKS = 20_000_000, 1_000_000_000, 20
"""Nanoseconds after which a change surely gets a later time, nanoseconds that a file server may be ahead, and tries."""


def covered(config: Config) -> tuple[str, ...]:
    """The files that trust in this configuration covers. Raises `TrustError` if it cannot be trusted."""
    return tuple(_digests(config))


def trust(config: Config) -> None:
    """Trust this content. A damaged store is replaced. Raises `TrustError` if the configuration cannot be trusted."""
    digests = _digests(config)
    with trust_store.changed() as replace:
        try:
            known = trust_store.read()
        except trust_store.NewerStoreError:
            raise
        except TrustError:
            known = {}
        replace({**known, str(config.path): digests})


def untrust(path: str | os.PathLike[str]) -> bool:
    """Stop trusting this file. Returns whether it was trusted. Raises `TrustError` and `ConfigError`."""
    real = Path(os.path.realpath(Path(path).parent)) / Path(path).name
    if str(real) not in trust_store.read():
        return False
    with trust_store.changed() as replace:
        known = trust_store.read()
        known.pop(str(real), None)
        replace(known)
    return True


def require_trust(config: Config) -> None:
    """Raise `TrustError` unless the user named the configuration, or trusts its present content."""
    if config.found:
        trusted, now = _trusted(config), _digests(config)
        _compare(trusted, now, trusted.keys() | now.keys())


def states(config: Config) -> Digests:
    """For each file that trust covers or covered, the reason why it is not trusted; empty if it is. Raises `TrustError`."""
    known, now = trust_store.read().get(str(config.path)), _digests(config)
    if known is None:
        return dict.fromkeys(now, "is not trusted yet")
    names = sorted(known.keys() | now.keys())
    return {name: "" if known.get(name) == now.get(name) else _change(name, known, now) for name in names}


def still_trusted(config: Config, spec: HookSpec) -> dict[str, Identity] | None:
    """Raise `TrustError` unless a hook that is about to be started is trusted with the present content of its files.

    Returns the identity of each file that the hook runs, and of the directories above, or None if no trust is needed. The
    start uses them to notice a file that was replaced meanwhile.
    """
    if not config.found:
        return None
    trusted = _trusted(config)
    here = str(config.path)
    looked_at, parents = _settled_look(config, spec)
    try:
        data = files.read(config.path, Problems(here))
    except ConfigError as error:
        raise TrustError(error.problems) from None
    now = {here: hashlib.sha256(data).hexdigest()} | {name: digest for name, (digest, _) in looked_at.items()}
    gone = {
        name for name in trusted if any(hook_files.matches(name, glob, config.project) for glob in spec.trust or ())
    }
    _compare(
        trusted,
        now,
        {
            *now,
            *gone,
            *(word for one in _examined(spec) for word in hook_files.arguments(one)),
        },
    )
    if now[here] != config.digest:
        raise TrustError([Problem(escape(here), "", "changed after it was read", "start again")])
    return parents | {os.path.normpath(name): found for name, (_, found) in looked_at.items()}


def _settled_look(config: Config, spec: HookSpec) -> tuple[dict[str, tuple[str, Identity]], dict[str, Identity]]:
    """The hook's files, and the directories above them, once all are older than a step of the file system's clock.

    Any later change then gets another time. Raises `ChangedError` if files do not stop changing.
    """
    for _ in range(LOOKS):
        began = time.time_ns()
        looked_at = _look(config, spec)
        parents = _parents(looked_at)
        found = (*parents.values(), *(one for _, one in looked_at.values()))
        ages = [began - changed_at(one) for one in found if len(one) > len(("device", "inode"))]
        if not any(-SKEW < age < SETTLED for age in ages):
            return looked_at, parents
        time.sleep(SETTLED / 1e9)
    raise ChangedError(spec.name)


def _parents(names: Iterable[str]) -> dict[str, Identity]:
    """The identity of each directory above these files, and of each link to them."""
    parents: dict[str, Identity] = {}
    for path in {path for name in names for path in (os.path.normpath(name), os.path.realpath(name))}:
        for step in map(str, (path, *Path(path).parents)):
            if step not in parents:
                status = os.lstat(step)
                is_link = stat.S_ISLNK(status.st_mode)
                parents[step] = identity(status) if is_link else (status.st_dev, status.st_ino)
    return parents


def _trusted(config: Config) -> Digests:
    known = trust_store.read().get(str(config.path))
    if known is None:
        raise TrustError([Problem(escape(str(config.path)), "", "was found here and is not trusted yet", _READ_FIRST)])
    return known


def _compare(trusted: Digests, now: Digests, names: Iterable[str]) -> None:
    changed = sorted(name for name in names if trusted.get(name) != now.get(name))
    if changed:
        hint = "read what changed, then: picohook trust"
        raise TrustError(Problem(escape(name), "", _change(name, trusted, now), hint) for name in changed)


def _change(name: str, trusted: Digests, now: Digests) -> str:
    if name not in now:
        return "is gone since it was trusted"
    return "changed since it was trusted" if name in trusted else "is run now, and was not when this was trusted"


def _digests(config: Config) -> Digests:
    """The digests of the configuration as it was read, and of its project files as they are now."""
    digests = {str(config.path): config.digest}
    problems = Problems()
    for spec in config.hooks:
        with problems.gathered():
            digests |= {name: digest for name, (digest, _) in _look(config, spec).items()}
    problems.check(TrustError)
    return digests


def scripts(config: Config, spec: HookSpec) -> tuple[str, ...]:
    """The project files that a hook runs, as far as its settings name them."""
    words = [word for one in _examined(spec) for word in (*hook_files.arguments(one), *hook_files.programs(one))]
    found = {name: None for name in words if hook_files.inside(name, config.project) and os.path.isfile(name)}
    found |= dict.fromkeys(spec.settings_files)
    if config.found and spec.source == str(config.path):
        try:
            found |= dict.fromkeys(hook_files.named_files(spec, config.project))
        except ValueError as error:
            glob, why = error.args
            problem = Problem(escape(spec.source), f"{_key_path(config, spec)}.trust", f"{quoted(glob)} {why}")
            raise TrustError([problem]) from None
    return tuple(found)


def _examined(spec: HookSpec) -> list[HookSpec]:
    """The settings of all that a hook runs, in which its files are looked for."""
    return [member.examined for member in spec.members]


def _key_path(config: Config, spec: HookSpec) -> str:
    """The hook's key path in the file, or only its name if it has another name on the host."""
    return config.key_paths.get(spec.name, escape(f"hook {spec.name}"))


def _look(config: Config, spec: HookSpec) -> dict[str, tuple[str, Identity]]:
    """For each project file that a hook runs, its digest and identity. Raises `TrustError`."""
    why = next(
        filter(None, (hook_files.unclear(one, config.project) for one in _examined(spec))),
        "",
    )
    if why:
        message = f"its command does not tell which files of the project it runs: {escape(why)}"
        hint = hook_files.hint(dialects.find(config.dialect).trust_in)
        raise TrustError([Problem(escape(str(config.path)), _key_path(config, spec), message, hint)])
    looked_at = {}
    for name in scripts(config, spec):
        try:
            looked_at[name] = _digest_file(name)
        except OSError as error:
            problem = Problem(escape(name), "", f"cannot be read, so it cannot be trusted: {error.strerror}")
            raise TrustError([problem]) from None
    return looked_at


def _digest_file(name: str) -> tuple[str, Identity]:
    """The digest of a file, and its identity. The digest includes its real path, on which its imports depend."""
    path = os.path.realpath(name)
    digest = hashlib.sha256(os.fsencode(path) + b"\0")
    with open(open_regular(path)[0], "rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
            if file.tell() > MOST_SCRIPT:
                raise too_large(MOST_SCRIPT)
        return digest.hexdigest(), identity(os.fstat(file.fileno()))
