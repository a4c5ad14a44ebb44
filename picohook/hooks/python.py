"""A hook that is a Python function, which the configuration names."""

import hashlib
import importlib.util
import inspect
import os
import sys
from collections.abc import Coroutine
from dataclasses import replace
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType
from typing import Any

import anyio

from ..errors import HookCrashedError, HookError, HookTimeoutError, PicohookError
from ..model.decisions import Decision
from ..model.spec import HookSpec, python_file
from ..process.plan import ChangedError
from ..wire.did_you_mean import nearest
from ..wire.regular_files import read_regular
from ..wire.text import explain
from .base import HookStatus, HostServices, Question
from .function import FunctionHook
from .queued_events import QueuedEventsHook

_LONGEST = 16 << 20
"""The most bytes of a source file."""
_SLOW = "it is still being imported"


class PythonHook(FunctionHook):
    """`python = "module:function"`: a file beside the configuration, else an installed module.

    The file is imported anew at each mount, under a unique module name, so it cannot be confused with another module. The
    function is called with the payload of each stage and with events. In place of a function, an object or a class can be named
    that has methods with the names of the stages, and `on_event`. If the import fails, every question is a failure.
    """

    def __init__(self, spec: HookSpec) -> None:
        placed = spec if spec.layer else spec.model_copy(update={"layer": "user"})
        QueuedEventsHook.__init__(self, placed)
        self._handlers = {}
        self._on_event = None
        self._error: HookError | None = None

    def open(self, host: HostServices) -> None:
        super().open(host)
        self._loaded = anyio.Event()
        self._importing = anyio.CancelScope()

    async def run(self) -> None:
        with self._importing:
            await self._find()
        self._loaded.set()
        await super().run()

    def stop(self) -> None:
        super().stop()
        self._importing.cancel()

    async def _find(self) -> None:
        try:
            target = await self._call(self._load)
            self._handlers = {stage: _handler(target, stage) for stage in self.spec.stages}
            self._on_event = _handler(target, "on_event") if self.spec.observe else None
        except Exception as error:  # a user's code can raise anything
            why = str(error) if isinstance(error, PicohookError) else explain(error)
            self._error = HookCrashedError(f"{self.spec.python} cannot be used: {why}", hook=self.name)
            self._host.log.error("cannot be used", why=why)

    async def started(self) -> None:
        with anyio.move_on_after(self.spec.hello_timeout or self._host.timeouts.hello):
            await self._loaded.wait()

    @property
    def error(self) -> HookError | None:
        return self._error if self._loaded.is_set() else HookTimeoutError(_SLOW, hook=self.name)

    def handle(self, question: Question[Any]) -> Coroutine[Any, Any, Decision]:
        if self._loaded.is_set() and self._error is None:
            return super().handle(question)
        return self._handle_when_loaded(question)

    async def _handle_when_loaded(self, question: Question[Any]) -> Decision:
        with question.time_limit(_SLOW):
            await self._loaded.wait()
        if self._error is not None:
            raise self._error.with_traceback(None)
        return await super().handle(question)

    def status(self) -> HookStatus:
        status, error = super().status(), self.error
        return status if error is None else replace(status, state="failed", last_error=str(error))

    def _load(self) -> Any:
        assert self.spec.python is not None
        verify = self._host.verify or (lambda _: None)
        seen = verify(self.spec)
        name, _, path = self.spec.python.partition(":")
        file = python_file(self.spec)
        # The files were the same before and after the read, so the source that was read is the one that was verified.
        source = b"" if file is None else read_regular(file, _LONGEST)
        found: Any = importlib.import_module(name) if file is None else None
        if seen is not None and verify(self.spec) != seen:
            raise ChangedError(self.name)
        if file is not None:
            found = _import_source(file, source)
        for step in path.split("."):
            if not hasattr(found, step):
                near = nearest(step, dir(found))
                hint = f" (did you mean {near}?)" if near else ""
                raise PicohookError(f"{name if file is None else file.name} has no {step}{hint}")
            found = getattr(found, step)
        return found() if inspect.isclass(found) else found


def _import_source(file: Path, source: bytes) -> ModuleType:
    """Runs the verified source. The file is not read again, and no cache is used."""
    name = f"picohook_hook_{hashlib.sha256(os.fsencode(file)).hexdigest()[:16]}"
    package = [str(file.parent)] if file.name == "__init__.py" else None
    loader = SourceFileLoader(name, str(file))
    found = importlib.util.spec_from_file_location(name, file, loader=loader, submodule_search_locations=package)
    assert found is not None
    module = importlib.util.module_from_spec(found)
    sys.modules[name] = module  # dataclasses and pickle look up their module there
    exec(loader.source_to_code(source, str(file)), module.__dict__)  # noqa: S102 - it is a hook of the configuration
    return module


def _handler(target: Any, name: str) -> Any:
    handler = getattr(target, name, target)
    if not callable(handler):
        raise TypeError(f"it has no {name}, and cannot be called")
    return handler
