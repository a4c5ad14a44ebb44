"""Reads bundles as configurations, and keeps the last good bundle.

A bundle adds remote hooks, and removes nothing. It cannot name a program, a function or a prompt, and it sets nothing of local
hooks or of the host. Its hooks are in the layer `central`, before those of the user, so local hooks see what its hooks changed.
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import ConfigError, Problem
from ..model.spec import HookSpec, NatsSettings, RespondRule, Timeouts
from ..transport.nats import bundle as bundles
from ..wire.text import escape
from . import files
from .dialects import native
from .document import Config
from .problems import Problems, quoted
from .tables import BundleTable

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..transport.nats.bundle import Bundle

KIND = "nats"
"""The kind of hook that a bundle may name."""
SETTINGS = frozenset(
    {
        KIND,
        "after",
        "approval_timeout",
        "canary",
        "enabled",
        "filter",
        "guard",
        "may_edit",
        "max_in_flight",
        "on_failure",
        "priority",
        "retry",
        "stages",
        "stream",
        "timeout",
        "timeouts",
    }
)
"""The settings of a hook that a bundle may have. Without `fallback`: a fallback is not asked by itself."""
_RUNS = {"command": "a program", "run": "a shell command", "python": "a function", "prompt": "a prompt"}


class KeptBundle:
    """The last good bundle of a host, in a file. Hosts of one user may share it."""

    def __init__(self, config: Config) -> None:
        """`config` is the configuration that asks for bundles."""
        assert config.bundle is not None
        assert config.nats is not None
        self.table = table = config.bundle
        self.connection = config.nats
        self.tenant = tenant = config.nats.tenant
        self.path = Path(table.file) if table.file else _default_path(tenant, table.name)

    @property
    def is_missing(self) -> bool:
        """Whether no bundle was ever accepted."""
        return not os.path.lexists(self.path)

    def verify(self, data: bytes, place: str) -> Bundle:
        """Read a bundle that a trusted key signed for this host. Raises `ConfigError`."""
        return bundles.verify(data, place, keys=self.table.keys, tenant=self.tenant, name=self.table.name)

    def read(self) -> Bundle | None:
        """The bundle that is kept; None if there is none. Raises `ConfigError`, also if it is not signed as it has to be."""
        return None if (data := self._data()) is None else self.verify(data, str(self.path))

    def require_newer(self, bundle: Bundle, place: str) -> None:
        """Raise `ConfigError` if the bundle is older than the one that is kept, or another one with its version."""
        data = self._data()  # its version counts even if its key is no longer trusted
        bundles.require_newer(bundle, None if data is None else bundles.read(data, str(self.path)), place)

    def keep(self, bundle: Bundle) -> None:
        """Keep a bundle in the place of the one before. Raises `ConfigError`."""
        with files.place(self.path) as place:  # another host may keep a newer one meanwhile
            self.require_newer(bundle, str(bundle))
            if self._data() != bundle.data:
                place.replace(bundle.data, mode=0o600)

    def _data(self) -> bytes | None:
        if not os.path.lexists(self.path):
            return None
        return files.read(self.path, Problems(str(self.path)), bundles.MOST)


def kept_bundle(configs: Iterable[Config]) -> KeptBundle | None:
    """The kept bundle that one of the configurations asks for; None if none asks for one."""
    for config in configs:
        if config.bundle is not None:
            return KeptBundle(config)
    return None


def central_config(configs: Iterable[Config], update: Bundle | None = None) -> Config | None:
    """The configuration in the bundle that one of these configurations asks for; None if none is kept yet.

    `update` is taken instead of the one that is kept. Raises `ConfigError`.
    """
    configs = list(configs)
    kept = kept_bundle(configs)
    if kept is None:
        return None
    bundle = update or kept.read()
    return None if bundle is None else read(bundle, next(one for one in configs if one.bundle is not None))


def require_bundle(configs: Iterable[Config], problem: str = "") -> None:
    """Raise `ConfigError` if one of the configurations needs a bundle and none is in force. `problem` says why."""
    configs = list(configs)
    kept = kept_bundle(configs)
    if kept is None or not kept.table.required or any(config.layer == "central" for config in configs):
        return
    file = next(str(config.path) for config in configs if config.bundle is not None)
    message = "is required, and no bundle was ever taken over" + (f": {problem}" if problem else "")
    raise ConfigError([Problem(escape(file), "nats.bundle", message, "picohook nats pull fetches it")])


def check(bundle: Bundle, file: Path) -> None:
    """Raise `ConfigError` with every mistake in a bundle that was made from this file. The signature is not checked."""
    local = Config(
        path=file,
        project=file.parent,
        work=file.parent,
        dialect="native",
        digest="",
        found=False,
        timeouts=Timeouts(),
        nats=NatsSettings(tenant=bundle.tenant),
        bundle=BundleTable(keys=(bundle.key,), name=bundle.name),
    )
    read(bundle, local, place=str(file))


def read(bundle: Bundle, local: Config, *, place: str = "") -> Config:
    """The configuration in a bundle. `local` is the one that asks for it. Raises `ConfigError` with every mistake in it."""
    problems = Problems(place or str(bundle))
    _check(bundle.config, problems)
    problems.check()
    empty = replace(
        local,
        path=kept_path(local),
        dialect="native",
        digest=bundle.hash,
        found=False,
        timeouts=Timeouts(),
        hooks=(),
        key_paths={},
        warnings=(),
        layer="central",
        audit=None,
        model=None,
        events=None,
        bundle=None,
    )
    config = native.read(_with_connection(bundle.config, local), problems, empty)
    problems.check()
    assert local.bundle is not None
    own = {
        "layer": "central",
        "source": str(config.path),
        "respond": RespondRule.FORBID,
        "hello_timeout": local.bundle.wait,
    }
    hooks = tuple(spec.model_copy(update=own) for spec in config.hooks)
    return replace(config, hooks=hooks)


def kept_path(local: Config) -> Path:
    """The file in which the last good bundle of this configuration is kept."""
    return KeptBundle(local).path


def _with_connection(document: dict[str, Any], local: Config) -> dict[str, Any]:
    connection = {} if local.nats is None else {"nats": local.nats.model_dump(mode="json", exclude_unset=True)}
    return {**document, **connection}


def _check(document: dict[str, Any], problems: Problems) -> None:
    for key in sorted(document.keys() - {"hooks"}):
        problems.add((key,), "cannot be in a bundle", "a bundle has hooks, and sets nothing else")
    hooks = document.get("hooks")
    if not isinstance(hooks, dict):
        problems.add(("hooks",), "must be a table", 'of hooks such as {"policy": {"nats": "policy", "stages": [...]}}')
        return
    for name, table in hooks.items():
        at = ("hooks", name)
        if not isinstance(table, dict):
            problems.add(at, "must be a table")
            continue
        for key in sorted(table.keys() & HookSpec.model_fields.keys() - SETTINGS):
            if key in _RUNS:
                message, hint = f"cannot be in a bundle, which never names {_RUNS[key]} to run on a host", "serve it"
                problems.add((*at, key), message, f"{hint} with `picohook worker`, and name it with {KIND}")
            else:
                problems.add((*at, key), "cannot be set in a bundle")
        if not isinstance(table.get(KIND), str) and not table.keys() & _RUNS.keys():
            problems.add(at, f"has no {KIND}: a bundle has remote hooks alone")
        after = table.get("after")
        for other in after if isinstance(after, list) else []:
            if other not in hooks:
                problems.add((*at, "after"), f"{quoted(other)} is not a hook of the bundle")


def _default_path(tenant: str, name: str) -> Path:
    import platformdirs  # noqa: PLC0415 - only where no file is named

    from ..transport.nats.subjects import token  # noqa: PLC0415

    return platformdirs.user_state_path("picohook") / "bundles" / f"{token(tenant)}-{token(name)}.json"
