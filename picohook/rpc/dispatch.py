"""Dispatch: finds the method of a request in a table, and reads its params.

One table of methods feeds both dispatchers. `Dispatcher` looks the method up itself.
`LibraryDispatcher` uses jsonrpcserver, except for methods for which that takes too long.
"""

import functools
import warnings
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any, TypeAlias, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from ..errors import ConfigError
from ..wire.did_you_mean import nearest
from .jsonrpc import INTERNAL_ERROR, INVALID_PARAMS, METHOD_NOT_FOUND, RpcError

M = TypeVar("M", bound=BaseModel)
Call: TypeAlias = Callable[[], Awaitable[Any]]
"""A request's call, ready to be made. Its result is the result of the response."""
MOST_PARAMS = 100


class Params(BaseModel):
    """The params of a method. This class has none. An unknown name is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid")


@dataclass(frozen=True, slots=True)
class Method:
    """A method that can be called."""

    name: str
    call: Callable[..., Awaitable[Any]]
    """Called with the context of the client's connection and the params."""
    params: type[BaseModel] = Params

    def bind(self, context: Any, params: Mapping[str, Any] | list[Any]) -> Call:
        """The call with these params. Raises `RpcError` for wrong params."""
        return functools.partial(self.call, context, self.read(params))

    def read(self, params: Mapping[str, Any] | list[Any]) -> BaseModel:
        """The params as their model. Raises `RpcError`."""
        if isinstance(params, list) and params:
            names = list(self.params.model_fields)
            if not issubclass(self.params, Params) or len(params) > len(names):
                raise RpcError.because(INVALID_PARAMS, "they have to be an object, with names")
            params = dict(zip(names, params, strict=False))
        return validated(self.params, params)


def validated(model: type[M], values: Mapping[str, Any] | list[Any]) -> M:
    """The values as this model. Raises `RpcError`, which names the wrong ones."""
    if isinstance(values, dict) and len(values) > MOST_PARAMS:
        raise RpcError.because(INVALID_PARAMS, f"no method has more than {MOST_PARAMS} params")
    try:
        return model.model_validate(values or {}, strict=True)
    except ValidationError as error:
        raise _invalid(error, model) from None


def _invalid(error: ValidationError, model: type[BaseModel]) -> RpcError:
    from ..config.checks import explain  # here and below: only a wrong request needs them
    from ..config.problems import Problems
    from ..model.failure_policy import JSON_WORDS

    problems = Problems("params")
    with suppress(ConfigError):  # it stops after many
        explain(error, model, problems, words=JSON_WORDS)
    why = "; ".join(str(problem).removeprefix("params: ") for problem in problems.found)
    return RpcError.because(INVALID_PARAMS, why, {"problems": [asdict(problem) for problem in problems.found]})


class Dispatcher:
    """Dispatches to the methods of a table."""

    def __init__(self, methods: Iterable[Method]) -> None:
        self.methods = {method.name: method for method in methods}

    def dispatch(self, context: Any, request: Mapping[str, Any]) -> Call:
        """Returns the call of a request that has been parsed and checked. Raises `RpcError`."""
        method = self.methods.get(request["method"])
        if method is None:
            raise self._not_found(request["method"])
        return method.bind(context, request.get("params", {}))

    def _not_found(self, name: str) -> RpcError:
        if near := nearest(name, self.methods):
            return RpcError.because(METHOD_NOT_FOUND, f"did you mean {near!r}?")
        return RpcError(METHOD_NOT_FOUND)


class LibraryDispatcher(Dispatcher):
    """Dispatches through jsonrpcserver, except for the methods named `direct`.

    The library finds the method and binds the params. The connection calls the method, because the library awaits only on
    asyncio. The connection also parses lines and batches, because the library refuses a whole batch for one wrong request.
    """

    def __init__(self, methods: Iterable[Method], *, direct: Collection[str] = ()) -> None:
        super().__init__(methods)
        self._direct = {name: self.methods[name] for name in direct}
        self._library: Callable[..., Any]

    def load(self) -> None:
        """Import the library. This takes a quarter of a second, and may be done in a thread."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # about how it reads its own files
            from jsonrpcserver import Error, Success, dispatch_to_serializable

        def function(method: Method) -> Callable[..., Any]:
            def bind(context: Any, /, *given: Any, **named: Any) -> Any:
                # No error is raised through the library, which would log it and send it to the client.
                try:
                    return Success(method.bind(context, [*given] or named))
                except RpcError as error:
                    return Error(error.code, str(error), error.data)

            return bind

        functions = {name: function(method) for name, method in self.methods.items()}

        # The library gets the request as a value, since it has been parsed and checked.
        self._library = functools.partial(
            dispatch_to_serializable, methods=functions, deserializer=_unchanged, validator=_unchanged
        )

    def dispatch(self, context: Any, request: Mapping[str, Any]) -> Call:
        method = self._direct.get(request["method"])
        if method is not None:
            return method.bind(context, request.get("params", {}))
        response = self._library({**request, "id": None}, context=context)  # a notification would have no response
        error = response.get("error")
        if error is None:
            call: Call = response["result"]
            return call
        if error["code"] == METHOD_NOT_FOUND:
            raise self._not_found(request["method"])
        if error["code"] == INTERNAL_ERROR:
            raise RuntimeError(error["data"])
        raise RpcError(error["code"], error["message"], error["data"])


def _unchanged(request: Any) -> Any:
    return request
