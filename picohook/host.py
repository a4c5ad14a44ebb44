"""`Host`, an agent's interface to its hooks: the engine with configuration files, sessions, and whole tool and model calls."""

from __future__ import annotations

import functools
import os
from typing import TYPE_CHECKING, Any, TypedDict, cast

from .calls.caller import PAUSE_LASTS, Caller, CallSettings
from .engine.engine import Engine, EngineSettings, Settings
from .engine.used_pauses import USERS_FILE
from .errors import PicohookError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
    from typing import Never, Self, Unpack

    from .blocking import BlockingHost
    from .config.parts import MadeParts
    from .config.table import Table
    from .engine.lifecycle import MountedHooks
    from .engine.status import Reloaded
    from .engine.used_pauses import UsedPauses
    from .ext.picoclaw import PicoClaw
    from .ext.prompt.model import Complete
    from .ext.proof.prover import ProofOfLife
    from .hooks.base import Hook
    from .model.proof import Proof
    from .model.spec import HookSpec
    from .observe.log import Log
    from .process.spawn import HostSpawner
    from .projects.layers import Layers
    from .projects.source import Source
    from .reload.reloader import Reloader
    from .sessions.session import Session
    from .transport.reactor import Reactor


class ExtensionSettings(TypedDict, total=False):
    """The keywords of built-in extensions."""

    audit: str | os.PathLike[str] | None
    """The file of an audit log to keep, besides those of the configuration."""
    complete: Complete | None
    """Asks the model for hooks with a `prompt`. Without it, they ask the model that the configuration names."""
    control: str | os.PathLike[str] | None
    """The path of a Unix socket through which the running host can be inspected and controlled."""
    grants: bool
    """Whether to keep the grants of approvers, besides what the configuration says."""
    otel: bool
    """Whether to send traces and metrics with OpenTelemetry, as the program has set it up."""
    picoclaw: PicoClaw | None
    """For a host with a configuration: the version of PicoClaw that its hooks are run for, whatever the files say."""
    prometheus: str | int | None
    """[HOST:]PORT, where the host answers `GET /metrics`: on this machine alone without HOST."""
    proof_of_life: ProofOfLife | None
    """Proofs of life to give, besides those of the configuration."""
    record: str | os.PathLike[str] | None
    """The file of a record to write."""
    wire: bool
    """Whether to show the raw lines of each process on stderr."""


class HostSettings(Settings, ExtensionSettings, total=False):
    """The settings of a host with a configuration."""

    retry_limit: int
    """The number of further rounds that hooks may ask for in one turn: 3."""
    used_pauses: UsedPauses | None
    """Remembers the paused turns that were resumed: a file of this user. With None, no turn can be resumed."""
    pause_lasts: float
    """Seconds in which a paused turn can be resumed: 3600."""
    watch: bool
    """Whether to reload the configuration when it changes."""


class MadeSettings(EngineSettings, ExtensionSettings, total=False):
    """The settings of a host that is made in code."""


class Host(Engine, Caller):
    """Starts hooks, asks them, sends them events, and stops them.

    ::

        async with Host.from_config("picohook.toml") as host:
            outcome = await host.before_tool(ToolCall(tool="bash", arguments={"command": "ls"}))

    Entering it starts all hooks at once, and waits until each is ready or its first start has failed. Leaving it stops them.
    Making it raises `PicohookError` for a file in place of hooks, and for `watch` without a configuration.
    """

    def __init__(
        self,
        hooks: Iterable[Hook | HookSpec] = (),
        *,
        _source: Source | None = None,
        _tables: Mapping[str, Sequence[Table]] | None = None,
        watch: bool = False,
        retry_limit: int = 3,
        used_pauses: UsedPauses | None = USERS_FILE,
        pause_lasts: float = PAUSE_LASTS,
        **settings: Unpack[MadeSettings],
    ) -> None:
        if isinstance(hooks, str | os.PathLike):
            raise PicohookError(f"Host takes hooks, not a file: Host.from_config({os.fspath(hooks)!r}) reads it")
        if watch:
            from .reload.watch import require_watchfiles  # an extra

            require_watchfiles()
            if _source is None:
                raise PicohookError(
                    "only a host that is made by `Host.from_config` or `discover` can watch its configuration"
                )
        keywords = _of_extensions(settings)
        own = cast("EngineSettings", {name: value for name, value in settings.items() if name not in keywords})
        self._made: MadeParts | None = None
        if keywords or _tables is not None:
            from .config.parts import MadeParts  # a host of hooks alone does without

            self._made = MadeParts(_tables or {}, keywords)
            own["parts"] = (*self._made.all, *own.get("parts", ()))
        super().__init__(hooks, **own)
        self.settings = CallSettings(retry_limit, used_pauses, pause_lasts)
        self._source = _source
        self._reloader: Reloader | None = None
        self._watch = watch

    if not TYPE_CHECKING:  # for type checkers, `with` has no such method

        def __enter__(self) -> Never:
            raise PicohookError(
                "a Host is entered by `async with`; without an event loop, use `with Host.blocking(...)`"
            )

        __exit__ = __enter__

    @classmethod
    def from_config(
        cls,
        path: str | os.PathLike[str],
        *,
        _system: bool = True,
        **settings: Unpack[HostSettings],
    ) -> Self:
        """A host with the hooks of a configuration file, and with the system's. Raises `ConfigError`. No hook is started yet.

        Naming the file is consent to run its hooks. The settings are those of `HostSettings`.
        """
        from .projects import layers, system_layer  # hosts built in code do without parsers

        read = functools.partial(layers.named, path, system=_system)
        return cls._of(read, [path, *system_layer.candidates()], settings)

    @classmethod
    def discover(
        cls,
        directory: str | os.PathLike[str] | None = None,
        *,
        without: Collection[str] = (),
        required: bool = False,
        _system: bool = True,
        **settings: Unpack[HostSettings],
    ) -> Self:
        """A host with the hooks of the system's and the user's own configuration, and of the project around a directory.

        The default is the current directory. Raises `ConfigError`, and its subclass `TrustError` for a project's configuration
        that was never trusted, or has changed or gone since then: use `picohook trust`. A host without any hook logs a warning;
        with `required`, this raises `ConfigError`. The files of the dialects `without` are left out. The
        settings are those of `from_config`.
        """
        from .projects import layers  # hosts built in code do without parsers

        here = layers.start_of(directory)
        read = functools.partial(layers.discover, here, without=without, required=required, system=_system)
        return cls._of(read, layers.candidates(here, without=without), settings, trusted=False)

    @classmethod
    def _of(
        cls,
        read: Callable[..., Layers],
        places: Iterable[str | os.PathLike[str]],
        settings: HostSettings,
        *,
        trusted: bool = True,
    ) -> Self:
        from .config.parts import keys_of_files
        from .projects.source import Source  # hosts built in code do without

        given = keys_of_files(_of_extensions(settings))
        source = Source(functools.partial(read, given=given), *places)
        config = source.layers = source.read()
        return cls(
            config.hooks,
            timeouts=config.timeouts,
            verify=None if trusted else source.verify,
            _source=source,
            _tables=config.tables,
            **cast("HostSettings", {name: value for name, value in settings.items() if name not in given}),
        )

    @classmethod
    def blocking(
        cls, source: str | os.PathLike[str] | Iterable[Hook | HookSpec] | None = None, **settings: Any
    ) -> BlockingHost:
        """A host for a synchronous program: `with Host.blocking(path_or_hooks) as host: host.before_tool(...)`.

        Without a path or hooks it has the hooks that `discover` finds. Raises as `from_config` and `discover` do.
        """
        from .blocking import BlockingHost  # it needs a thread, most hosts do not

        if source is None:
            return BlockingHost(cls.discover(**settings))
        if isinstance(source, str | os.PathLike):
            return BlockingHost(cls.from_config(source, **settings))
        return BlockingHost(cls(source, **settings))

    def _new_spawner(self, reactor: Reactor, log: Log) -> HostSpawner:
        try:
            from .contain.tiers import Containment  # only a host that runs needs it
        except ModuleNotFoundError as error:
            if error.name != "picohook.contain":
                raise
            return super()._new_spawner(reactor, log)
        return Containment(reactor, log)

    async def _begin(self, mounted_hooks: MountedHooks, hooks: list[Hook]) -> None:
        if (made := self._made) is not None and self._source is not None:
            from .reload.reloader import Reloader  # hosts built in code do without

            follow = lambda layers: made.reloading(self, layers.tables)  # noqa: E731
            self._reloader = Reloader(self._source, hooks, mounted_hooks, follow)
        await super()._begin(mounted_hooks, hooks)
        if self._watch:
            from .reload.watch import keep_watching  # an extra

            self.begin_task(functools.partial(keep_watching, self, mounted_hooks.log))

    async def reload(self) -> Reloaded:
        """Read the configuration again and apply it, without losing a call. Returns the changes.

        It returns when the new configuration is in force; replaced hooks may still answer chains that began before. If the
        configuration cannot be applied, this logs an error, changes nothing, and raises `ConfigError`, or `HookCrashedError`
        for a new hook that is `required` and does not start. Cancellation does not stop a reload half-way.
        """
        self._mounted.require_here()
        done = await self.begin_task(self.reloader.reload).result()
        self._listeners.changed(done)
        for call in tuple(self.on_mounted):
            call()
        return done

    async def prove_life(self) -> tuple[Proof, ...]:
        """Ask the hooks now about harmful calls that they must deny. Returns a proof for each call. No tool is called.

        The calls are those of `proof_of_life`, and each hook's own `canary`, about which it is asked alone. Without any, it is
        `bash` with `rm -rf /`. A call that is not denied, or is denied only because a hook failed, is logged, and emits the
        event `error`.
        """
        if self._made is None:
            from .config.parts import MadeParts

            self._made = MadeParts({}, {})
        prover = await self._made.on_demand(self, "proof_of_life")
        proofs: tuple[Proof, ...] = await prover.prove()
        return proofs

    @property
    def config_digest(self) -> str:
        """The digest of the configuration files that are in force; empty for a host that was made in code."""
        return "" if self._source is None else self._source.layers.digest

    @property
    def reloader(self) -> Reloader:
        """The object that reads the configuration again. Raises `PicohookError` for a host without a configuration."""
        if self._reloader is None:
            raise PicohookError("only a running host that was made by `Host.from_config` can be reloaded")
        return self._reloader

    def session(self, session_id: str, **about: Any) -> Session:
        """A session with a user: `async with host.session("s1") as session, session.turn("hello") as turn: ...`.

        Takes the settings of `Session` by name: agent_id, channel, chat_id, context, deliver, show, and `hooks`, the hooks of
        this session alone.
        """
        from .sessions.session import Session  # programs that ask single stages do not need it

        return Session(self, session_id, **about)


_OWN = (EngineSettings.__annotations__ | HostSettings.__annotations__).keys() - ExtensionSettings.__annotations__.keys()


def _of_extensions(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The keywords of extensions among the settings: all that the core does not have."""
    return {name: value for name, value in settings.items() if name not in _OWN}
