"""A payload with its JSON bytes, encoded once for all hooks."""

from typing import Generic, Self, TypeVar

from pydantic import ValidationError

from ..errors import EncodeError, PicohookError
from ..protocol.codec import decode_own, encode
from .payloads import Payload

P = TypeVar("P", bound=Payload)

CHANGED = "it was changed in place while hooks were asked about it"
"""The error for a payload that is no longer the one that hooks saw."""
_COPIED = 1 << 16
"""The length of a JSON text from which on the system gives it pages of its own, and no memory to those that it has not used."""


class Encoded(Generic[P]):
    """A payload, and its JSON bytes for every hook."""

    __slots__ = ("_own", "_params", "payload")

    def __init__(self, payload: P, params: bytes | None = None, *, own: bool = False) -> None:
        """`own` says that no other code has the payload, so that none can change it in place."""
        self.payload = payload
        self._params = params
        self._own = own

    def params(self) -> bytes:
        """The payload as the params of a request. Raises `EncodeError`."""
        if self._params is None:
            data = encode(self.payload.wire())
            # Into the memory of its length: orjson reserves 4 KiB for a short text, and eight times its length for a long one.
            self._params = b"%b" % data if len(data) < _COPIED else data
        return self._params

    @classmethod
    def read(cls, kind: type[P], params: bytes) -> "Encoded[P] | None":
        """Returns the payload in the params of a request, a new object. None if they differ from the result of `params`.

        So they are valid, and say the same to every reader.
        """
        try:
            payload: P = kind.__pydantic_validator__.validate_json(params)  # as `model_validate_json`, sooner
        except ValidationError:
            return None
        made = cls(payload, params, own=True)
        return made if made.intact else None

    def lend(self) -> Self | None:
        """Returns this object, for a hook that uses the payload itself, and afterwards calls `restore` if it is not intact.

        None if other code has the payload.
        """
        return self if self._own else None

    def restore(self) -> None:
        """Undo the changes that were made in place, if it was lent."""
        if self._own:
            fresh = type(self.payload).model_validate(decode_own(self.params()))
            self.payload.__dict__.update(fresh.__dict__)

    @property
    def intact(self) -> bool:
        """Whether the payload still has these bytes. It does not if it was changed in place."""
        try:
            return self._params is None or encode(self.payload.wire()) == self._params
        except EncodeError:
            return False

    def deep_copy(self) -> "Encoded[P]":
        """A deep copy of the payload, with the same bytes. Raises `PicohookError` if the payload was changed in place."""
        own = Encoded(self.payload.deep_copy(), self._params)
        if self._params is None:
            self._params = own.params()
        elif not (self._own or own.intact):
            raise PicohookError(CHANGED)
        return own
