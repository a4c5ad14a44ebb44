"""`Host`, the object that an agent has: the engine with configuration files, sessions, and whole tool and model calls."""

from __future__ import annotations

import functools
import os
from typing import TYPE_CHECKING, Any

from .engine.engine import Engine
from .engine.settings import Settings
from .errors import PicohookError
from .turns import model_call, tool_call

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping
    from typing import Self, Unpack

    from .blocking import BlockingHost
    from .config.document import PicoClaw
    from .config.layers import Layers
    from .config.reload.reloader import Reloader
    from .config.reload.source import Source
    from .engine.lifecycle import MountedHooks
    from .engine.settings import EngineSettings
    from .engine.status import Reloaded
    from .hooks.base import Hook
    from .model.payloads import LLMRequest, LLMResponse, ToolCall, ToolResult
    from .model.spec import HookSpec
    from .turns.session import Session


class HostSettings(Settings, total=False):
    """The settings of a host that has a configuration."""

    watch: bool
    """Reload the configuration whenever it changes."""
    control: str | os.PathLike[str] | None
    """The path of a Unix socket through which the running host can be inspected and controlled."""


class Host(Engine):
    """Starts hooks, asks them, tells them, and stops them.

    ::

        async with Host.from_config("picohook.toml") as host:
            outcome = await host.before_tool(ToolCall(tool="bash", arguments={"command": "ls"}))

    Entering starts all hooks at once, and waits until each can serve or its first start has failed. Leaving stops them all.
    """

    def __init__(
        self,
        hooks: Iterable[Hook | HookSpec] = (),
        *,
        _source: Source | None = None,
        watch: bool = False,
        control: str | os.PathLike[str] | None = None,
        **settings: Unpack[EngineSettings],
    ) -> None:
        if watch:
            from .config.reload.watch import require_watchfiles  # noqa: PLC0415 - an extra

            require_watchfiles()
            if _source is None:
                raise PicohookError(
                    "only a host that is made by `Host.from_config` or `discover` can watch its configuration"
                )
        super().__init__(hooks, **settings)
        self._source = _source
        self._reloader: Reloader | None = None
        self._watch = watch
        self._control = control

    @classmethod
    def from_config(
        cls, path: str | os.PathLike[str], *, picoclaw: PicoClaw | None = None, **settings: Unpack[HostSettings]
    ) -> Self:
        """A host with the hooks of a configuration file. Raises `ConfigError`; nothing is started yet.

        Naming the file is consent to run what it says. `picoclaw` is the version of PicoClaw that hooks are run for:
        "0.2.8" (the default), "0.2.9" or "0.2.9+edits". The other settings are those of `HostSettings`.
        """
        from .config import layers  # noqa: PLC0415 - hosts built in code do without parsers

        read = functools.partial(layers.named, path, picoclaw=picoclaw)
        return cls._of(read, [path], settings)

    @classmethod
    def discover(
        cls,
        directory: str | os.PathLike[str] | None = None,
        *,
        picoclaw: PicoClaw | None = None,
        **settings: Unpack[HostSettings],
    ) -> Self:
        """A host with the hooks of every configuration that is found: the user's own, and that of a project's directory.

        The directory is the current one unless another is named. Raises `ConfigError`, and its kind `TrustError` for a
        project's configuration that was never trusted, or has changed since: `picohook trust`. The settings are those of
        `from_config`.
        """
        from .config import layers  # noqa: PLC0415 - hosts built in code do without parsers

        here = os.path.abspath(directory or ".")
        read = functools.partial(layers.discover, here, picoclaw=picoclaw)
        return cls._of(read, layers.candidates(here), settings, trusted=False)

    @classmethod
    def _of(
        cls,
        read: Callable[[], Layers],
        places: Iterable[str | os.PathLike[str]],
        settings: HostSettings,
        *,
        trusted: bool = True,
    ) -> Self:
        from .config.reload.source import Source  # noqa: PLC0415 - hosts built in code do without

        source = Source(read, *places, asks_models=settings.get("complete") is None)
        config = source.read()
        if any(one.audit for one in config.configs):
            from .config.audit_logs import audit_logs  # noqa: PLC0415 - most keep none

            settings["listeners"] = (*audit_logs(config.configs), *settings.get("listeners", ()))
        return cls(
            config.hooks,
            timeouts=config.timeouts,
            model_of=source.model_of,
            verify=None if trusted else source.verify,
            _source=source,
            **settings,
        )

    @classmethod
    def blocking(
        cls, source: str | os.PathLike[str] | Iterable[Hook | HookSpec] | None = None, **settings: Any
    ) -> BlockingHost:
        """The same host for a synchronous program: `with Host.blocking(path_or_hooks) as host: host.before_tool(...)`.

        Without a path or hooks it has the hooks that `discover` finds.
        """
        from .blocking import BlockingHost  # noqa: PLC0415 - it needs a thread, most hosts do not

        if source is None:
            return BlockingHost(cls.discover(**settings))
        if isinstance(source, str | os.PathLike):
            return BlockingHost(cls.from_config(source, **settings))
        return BlockingHost(cls(source, **settings))

    async def _begin(self, mounted_hooks: MountedHooks, hooks: list[Hook]) -> None:
        if self._source is not None:
            from .config.reload.reloader import Reloader  # noqa: PLC0415 - hosts built in code do without

            self._reloader = Reloader(self._source, hooks, mounted_hooks)
        if self._control is not None:
            from .serve.control import open_control  # noqa: PLC0415 - for hosts that have one

            self.begin_task((await open_control(self, self._control, mounted_hooks.log)).run)
        await super()._begin(mounted_hooks, hooks)
        if self._watch:
            from .config.reload.watch import keep_watching  # noqa: PLC0415 - an extra

            self.begin_task(functools.partial(keep_watching, self, mounted_hooks.log))

    async def reload(self) -> Reloaded:
        """Read the configuration again and take it over, without losing a call.

        Returns when it is in force; replaced hooks may still answer chains that began before. A configuration that cannot be
        taken over is logged as an error, changes nothing, and raises `ConfigError`, or `HookCrashedError` for a new hook that
        is `required` and does not start. Cancelling it does not stop it half-way.
        """
        self._mounted.require_here()
        done = await self.begin_task(self.reloader.reload).result()
        self._changed(done)
        return done

    @property
    def reloader(self) -> Reloader:
        """Reads the configuration again. Raises `PicohookError` for a host that has none."""
        if self._reloader is None:
            raise PicohookError("only a running host that was made by `Host.from_config` can be reloaded")
        return self._reloader

    async def run_tool(self, call: ToolCall | Mapping[str, Any], execute: Callable[[ToolCall], Any]) -> ToolResult:
        """A whole tool call: before_tool, approve_tool, `execute(call)`, after_tool, with its events.

        A denied call returns a result that tells the model so. Raises `AbortTurnError`, `HardAbortError` or
        `PausedError` when hooks decide that.
        """
        return await tool_call.run_tool(self, call, execute)

    async def run_llm(
        self, request: LLMRequest | Mapping[str, Any], complete: Callable[[LLMRequest], Awaitable[Any]]
    ) -> LLMResponse:
        """A whole model call: before_llm, `complete(request)`, after_llm, with its events and the rounds that hooks ask for."""
        return await model_call.run_llm(self, request, complete, took=self.note_hard_abort)

    def session(self, session_id: str, **about: Any) -> Session:
        """A session with a user: `async with host.session("s1") as session, session.turn("hello") as turn: ...`.

        Takes the settings of `Session` by name: agent_id, channel, chat_id, context, deliver, show, and hooks: those of this
        session alone.
        """
        from .turns.session import Session  # noqa: PLC0415 - who asks single stages does without

        return Session(self, session_id, **about)
