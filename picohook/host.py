"""`Host`, an agent's interface to its hooks: the engine with configuration files, sessions, and whole tool and model calls."""

from __future__ import annotations

import functools
import os
from typing import TYPE_CHECKING, Any

from .calls import model_call, tool_call
from .engine.engine import Engine
from .engine.settings import Settings
from .errors import PicohookError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping
    from typing import Never, Self, Unpack

    from .blocking import BlockingHost
    from .calls.model_call import Complete, DecidedRequest, Show
    from .calls.tool_call import DecidedCall, OnPause, ToolRun
    from .config.document import PicoClaw
    from .engine.lifecycle import MountedHooks
    from .engine.settings import EngineSettings
    from .engine.status import Reloaded
    from .hooks.base import Hook
    from .model.payloads import LLMRequest, LLMResponse, ToolCall, ToolResult
    from .model.spec import HookSpec
    from .projects.layers import Layers
    from .projects.source import Source
    from .reload.reloader import Reloader
    from .sessions.session import Session


class HostSettings(Settings, total=False):
    """The settings of a host with a configuration."""

    watch: bool
    """Whether to reload the configuration when it changes."""
    control: str | os.PathLike[str] | None
    """The path of a Unix socket through which the running host can be inspected and controlled."""


class Host(Engine):
    """Starts hooks, asks them, sends them events, and stops them.

    ::

        async with Host.from_config("picohook.toml") as host:
            outcome = await host.before_tool(ToolCall(tool="bash", arguments={"command": "ls"}))

    Entering it starts all hooks at once, and waits until each is ready or its first start has failed. Leaving it stops them.
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
        if isinstance(hooks, str | os.PathLike):
            raise PicohookError(f"Host takes hooks, not a file: Host.from_config({os.fspath(hooks)!r}) reads it")
        if watch:
            from .reload.watch import require_watchfiles  # noqa: PLC0415 - an extra

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
        picoclaw: PicoClaw | None = None,
        _system: bool = True,
        **settings: Unpack[HostSettings],
    ) -> Self:
        """A host with the hooks of a configuration file, and with the system's. Raises `ConfigError`. No hook is started yet.

        Naming the file is consent to run its hooks. `picoclaw` is the version of PicoClaw that the hooks are run for:
        "0.2.8" (the default), "0.2.9" or "0.2.9+edits". The other settings are those of `HostSettings`.
        """
        from .projects import layers, system_layer  # noqa: PLC0415 - hosts built in code do without parsers

        read = functools.partial(layers.named, path, picoclaw=picoclaw, system=_system)
        return cls._of(read, [path, *system_layer.candidates()], settings)

    @classmethod
    def discover(
        cls,
        directory: str | os.PathLike[str] | None = None,
        *,
        picoclaw: PicoClaw | None = None,
        without: Collection[str] = (),
        required: bool = False,
        _system: bool = True,
        **settings: Unpack[HostSettings],
    ) -> Self:
        """A host with the hooks of the system's and the user's own configuration, and of the project around a directory.

        The default is the current directory. Raises `ConfigError`, and its subclass `TrustError` for a project's configuration
        that was never trusted, or has changed or gone since then: use `picohook trust`. A host without any hook logs a warning;
        with `required`, this raises `ConfigError`. The files of the dialects `without`, such as "claude", are left out. The
        settings are those of `from_config`.
        """
        from .projects import layers  # noqa: PLC0415 - hosts built in code do without parsers

        here = layers.start_of(directory)
        read = functools.partial(
            layers.discover, here, picoclaw=picoclaw, without=without, required=required, system=_system
        )
        return cls._of(read, layers.candidates(here, without=without), settings, trusted=False)

    @classmethod
    def _of(
        cls,
        read: Callable[[], Layers],
        places: Iterable[str | os.PathLike[str]],
        settings: HostSettings,
        *,
        trusted: bool = True,
    ) -> Self:
        from .projects.source import Source  # noqa: PLC0415 - hosts built in code do without

        source = Source(read, *places, asks_models=settings.get("complete") is None)
        config = source.layers = source.read()
        if any(one.audit for one in config.configs):
            from .ext.audit.logs import audit_logs  # noqa: PLC0415 - most keep none

            settings["listeners"] = (*audit_logs(config.configs), *settings.get("listeners", ()))
        return cls(
            config.hooks,
            timeouts=config.timeouts,
            proof_of_life=config.proof_of_life,
            model_of=source.model_of,
            verify=None if trusted else source.verify,
            _source=source,
            **settings,
        )

    @classmethod
    def blocking(
        cls, source: str | os.PathLike[str] | Iterable[Hook | HookSpec] | None = None, **settings: Any
    ) -> BlockingHost:
        """A host for a synchronous program: `with Host.blocking(path_or_hooks) as host: host.before_tool(...)`.

        Without a path or hooks it has the hooks that `discover` finds. Raises as `from_config` and `discover` do.
        """
        from .blocking import BlockingHost  # noqa: PLC0415 - it needs a thread, most hosts do not

        if source is None:
            return BlockingHost(cls.discover(**settings))
        if isinstance(source, str | os.PathLike):
            return BlockingHost(cls.from_config(source, **settings))
        return BlockingHost(cls(source, **settings))

    async def _begin(self, mounted_hooks: MountedHooks, hooks: list[Hook]) -> None:
        if self._source is not None:
            from .reload.reloader import Reloader  # noqa: PLC0415 - hosts built in code do without

            self._reloader = Reloader(self._source, hooks, mounted_hooks, self._prover)
        if self._control is not None:
            from .ext.control.control import open_control  # noqa: PLC0415 - for hosts that have one

            self.begin_task((await open_control(self, self._control, mounted_hooks.log)).run)
        await super()._begin(mounted_hooks, hooks)
        if self._watch:
            from .reload.watch import keep_watching  # noqa: PLC0415 - an extra

            self.begin_task(functools.partial(keep_watching, self, mounted_hooks.log))

    async def reload(self) -> Reloaded:
        """Read the configuration again and apply it, without losing a call. Returns the changes.

        It returns when the new configuration is in force; replaced hooks may still answer chains that began before. If the
        configuration cannot be applied, this logs an error, changes nothing, and raises `ConfigError`, or `HookCrashedError`
        for a new hook that is `required` and does not start. Cancellation does not stop a reload half-way.
        """
        self._mounted.require_here()
        done = await self.begin_task(self.reloader.reload).result()
        self._changed(done)
        for call in tuple(self.on_mounted):
            call()
        return done

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

    async def decide(
        self,
        call: ToolCall | Mapping[str, Any],
        *,
        known: DecidedCall | None = None,
        on_pause: OnPause | None = None,
    ) -> DecidedCall:
        """The half of a tool call before the tool: before_tool and approve_tool, with their events.

        The tool is to run with `call` of the decision, unless the decision has a `result` for the model already. `known` is an
        earlier decision. If it is about the same call it holds again, and no hook is asked. `on_pause` is called when a hook
        pauses, and returns the decision in its place, or raises an error. Raises `AbortTurnError`, `HardAbortError` or
        `PausedError` if a hook decides that.
        """
        return await tool_call.decide(self, call, known=known, on_pause=on_pause)

    async def conclude(self, decided: DecidedCall, result: Any, **ran: Unpack[ToolRun]) -> ToolResult:
        """The half of a tool call after the tool: after_tool, with its event. Returns the result for the model.

        `result` is what the tool returned or the exception that it raised, and `ran` says how it ran. The hooks are those of
        the host, session or turn that decided. Raises `PicohookError` for a call that was not to run, is concluded
        already, or is not the one that ran. Raises `AbortTurnError`, `HardAbortError` or `PausedError` if a hook decides that.
        """
        return await decided.conclude(result, **ran)

    async def run_tool(self, call: ToolCall | Mapping[str, Any], execute: Callable[[ToolCall], Any]) -> ToolResult:
        """Make a whole tool call: `decide`, `execute(call)` and `conclude`.

        Returns the tool's result; for a denied call, a result that tells the model of the denial. Raises `AbortTurnError`,
        `HardAbortError` or `PausedError` if a hook decides that.
        """
        return await tool_call.run_tool(self, call, execute)

    async def decide_llm(self, request: LLMRequest | Mapping[str, Any]) -> DecidedRequest:
        """The half of a model call before the model: before_llm, with its event.

        The model is to be sent the `request` of the decision, unless the decision has a `response` already. Raises
        `AbortTurnError`, `HardAbortError` or `PausedError` if a hook decides that, and `RetryLimitError` after too many rounds.
        """
        return await model_call.decide_llm(self, request)

    async def conclude_llm(
        self, decided: DecidedRequest, response: LLMResponse | Mapping[str, Any]
    ) -> LLMResponse | None:
        """The half of a model call after the model: after_llm, with its event. Returns the response as hooks leave it.

        Returns None if a hook asks for another round. Then the model is to be sent the decision's new `request`, and this is
        concluded again. Raises as `decide_llm` does, and `PicohookError` for a request that was not to be sent or is concluded
        already.
        """
        return await decided.conclude(response)

    async def run_llm(
        self, request: LLMRequest | Mapping[str, Any], complete: Complete, *, stream: Show | None = None
    ) -> LLMResponse:
        """Make a whole model call: `decide_llm`, `complete(request)` and `conclude_llm`.

        Calls the model again if a hook asks for another round. Returns the last response. Raises as `decide_llm` does.

        `stream` shows the user a piece of text. With it, `complete` may be an async generator that yields pieces of text, and
        at the end its whole message if that has more than the text. The user sees each piece as soon as hooks allow it.
        """
        return await model_call.run_llm(self, request, complete, stream)

    def session(self, session_id: str, **about: Any) -> Session:
        """A session with a user: `async with host.session("s1") as session, session.turn("hello") as turn: ...`.

        Takes the settings of `Session` by name: agent_id, channel, chat_id, context, deliver, show, and `hooks`, the hooks of
        this session alone.
        """
        from .sessions.session import Session  # noqa: PLC0415 - programs that ask single stages do not need it

        return Session(self, session_id, **about)
