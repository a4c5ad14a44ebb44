"""Methods as rows of data: what is dispatched, and what `picohook schema protocol` tells of, is made of the same rows."""

from __future__ import annotations

import difflib
import functools
import warnings
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from .rpc import ERRORS, INVALID_PARAMS, METHOD_NOT_FOUND, RpcError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping

P = TypeVar("P", bound=BaseModel)

Schema = dict[str, Any]
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
        fields = list(self.params.model_fields)
        if given and issubclass(self.params, Params) and len(given) <= len(fields):
            named = dict(zip(fields, given, strict=False))
        elif given:
            raise RpcError(INVALID_PARAMS, f"{ERRORS[INVALID_PARAMS]}: they are an object, with names")
        try:
            return self.params.model_validate(named, strict=True)
        except ValidationError as error:
            raise _wrong(error, self.params) from None


def _wrong(error: ValidationError, model: type[BaseModel]) -> RpcError:
    from ..config.problems import Problems  # noqa: PLC0415 - for who makes mistakes
    from ..config.validate import explain  # noqa: PLC0415

    problems = Problems("params")
    explain(error, model, problems)
    said = "; ".join(str(problem).removeprefix("params: ") for problem in problems.found)
    told = {"problems": [asdict(problem) for problem in problems.found]}
    return RpcError(INVALID_PARAMS, f"{ERRORS[INVALID_PARAMS]}: {said}", told)


@functools.cache
def _library() -> Any:
    """Its import takes so long that it is done when the first client asks, in a thread."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of how it reads its own files
        import jsonrpcserver  # noqa: PLC0415

    return jsonrpcserver


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
                    return library.Success(functools.partial(method.do, context, method.read(given, named)))
                except RpcError as error:
                    return library.Error(error.code, str(error), error.data)

            return prepare

        self._entries = {name: entry(method) for name, method in self.methods.items()}

    def prepare(self, context: Any, request: Mapping[str, Any]) -> Callable[[], Awaitable[Any]]:
        """What does the request. Raises `RpcError`.

        The request is parsed and looked at already. Doing it is left to who asked: the library's own way of awaiting is
        asyncio's.
        """
        asked = request if request.get("id") is not None else {**request, "id": 0}
        reply: Any = _library().dispatch_to_serializable(
            asked, self._entries, context=context, deserializer=_as_it_is, validator=_no_more
        )
        if "result" in reply:
            return reply["result"]  # type: ignore[no-any-return]
        error = reply["error"]
        if error["code"] == METHOD_NOT_FOUND:
            raise RpcError(METHOD_NOT_FOUND, ERRORS[METHOD_NOT_FOUND] + self._meant(request["method"]))
        if error["code"] == INVALID_PARAMS:
            raise RpcError(INVALID_PARAMS, error["message"], error.get("data"))
        raise RuntimeError(error)

    def _meant(self, name: str) -> str:
        near = difflib.get_close_matches(name, self.methods, 1)
        return f": did you mean {near[0]!r}?" if near else ""


def _as_it_is(request: Any) -> Any:
    return request


def _no_more(_: Any) -> None:
    """It was looked at before."""
