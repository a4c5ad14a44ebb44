"""Methods as rows of data: what is dispatched, and what `picohook schema protocol` tells of, is made of the same rows."""

from __future__ import annotations

import difflib
import functools
import inspect
import warnings
from dataclasses import asdict, dataclass, field
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from .rpc import ERRORS, INVALID_PARAMS, METHOD_NOT_FOUND, RpcError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping

P = TypeVar("P", bound=BaseModel)

Schema = dict[str, Any]
_NONE: Mapping[str, Any] = {}
TRUE: Schema = {"const": True}


class Params(BaseModel):
    """What a method takes. A param named wrongly is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class NoParams(Params):
    """Nothing."""


@dataclass(frozen=True, slots=True)
class Method:
    """One method."""

    name: str
    about: str
    do: Callable[[Any, Any], Awaitable[Any]]
    """Called with the state of the client's connection and the params."""
    params: type[BaseModel] = NoParams
    result: Schema = field(default_factory=lambda: TRUE)
    """JSON Schema."""
    errors: tuple[int, ...] = ()
    """Its own codes, beside those that every method has."""

    def read(self, given: tuple[Any, ...], named: Mapping[str, Any]) -> BaseModel:
        """The params. Raises `RpcError`, which names what is wrong."""
        if given:
            fields = list(self.params.model_fields)
            if not issubclass(self.params, Params) or len(given) > len(fields):
                raise RpcError(INVALID_PARAMS, f"{ERRORS[INVALID_PARAMS]}: they are an object, with names")
            named = dict(zip(fields, given, strict=False))
        try:
            return self.params.model_validate(named, strict=True)
        except ValidationError as error:
            raise _wrong(error, self.params) from None


def _wrong(error: ValidationError, model: type[BaseModel]) -> RpcError:
    from ..config.checks import explain  # noqa: PLC0415
    from ..config.problems import Problems  # noqa: PLC0415 - for who makes mistakes
    from ..model.failure_policy import JSON_WORDS  # noqa: PLC0415

    problems = Problems("params")
    explain(error, model, problems, words=JSON_WORDS)
    said = "; ".join(str(problem).removeprefix("params: ") for problem in problems.found)
    told = {"problems": [asdict(problem) for problem in problems.found]}
    return RpcError(INVALID_PARAMS, f"{ERRORS[INVALID_PARAMS]}: {said}", told)


@functools.cache
def _library() -> SimpleNamespace:
    """The dispatcher of one request, of jsonrpcserver. Parsing, validation and batches, which lie around it, are done here."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of how it reads its own files
        from jsonrpcserver import Error, Success  # noqa: PLC0415 - it takes a quarter of a second
        from jsonrpcserver.dispatcher import dispatch_request  # noqa: PLC0415
        from jsonrpcserver.request import Request  # noqa: PLC0415

    return SimpleNamespace(error=Error, success=Success, dispatch=dispatch_request, request=Request)


class Table:
    """The methods of one kind of connection."""

    def __init__(self, methods: Iterable[Method]) -> None:
        self.methods = {method.name: method for method in methods}
        self._entries: dict[str, Any] = {}

    @property
    def loaded(self) -> bool:
        """Whether it can dispatch."""
        return bool(self._entries)

    def load(self) -> None:
        """Get ready to dispatch. It takes a while, and may be done in a thread."""
        library = _library()

        def entry(method: Method) -> Callable[..., Any]:
            # What the library raises or catches is told to the client or logged: so nothing is raised through it.
            def prepare(context: Any, /, *given: Any, **named: Any) -> Any:
                try:
                    return library.success(functools.partial(method.do, context, method.read(given, named)))
                except RpcError as error:
                    return library.error(error.code, str(error), error.data)

            prepare.__signature__ = signature  # type: ignore[attr-defined] # which the library would make at each call
            return prepare

        signature = inspect.signature(_anything)
        self._entries = {name: entry(method) for name, method in self.methods.items()}

    def prepare(self, context: Any, request: Mapping[str, Any]) -> Callable[[], Awaitable[Any]]:
        """What does the request, which is parsed and looked at already. Raises `RpcError`.

        Doing it is left to who asked: the library's own way of awaiting is asyncio's.
        """
        library = _library()
        asked = library.request(request["method"], request.get("params", _NONE), None)
        _, done = library.dispatch(self._entries, context, asked)
        error = getattr(done, "_error", None)
        if error is None:
            return done._value.result  # type: ignore[no-any-return] # noqa: SLF001 - as the library itself reads it
        if error.code == METHOD_NOT_FOUND:
            raise RpcError(METHOD_NOT_FOUND, ERRORS[METHOD_NOT_FOUND] + self._meant(request["method"]))
        if error.code == INVALID_PARAMS:
            raise RpcError(INVALID_PARAMS, error.message, error.data)
        raise RuntimeError(error.message)

    def _meant(self, name: str) -> str:
        near = difflib.get_close_matches(name, self.methods, 1)
        return f": did you mean {near[0]!r}?" if near else ""


def _anything(*_: Any, **__: Any) -> None:
    """Takes what it is given."""
