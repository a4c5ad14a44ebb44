"""The error of a connection to NATS."""

from ...errors import PicohookError


class NatsError(PicohookError):
    """A message could not be sent over NATS."""

    def __init__(self, message: str, *, cause: str) -> None:
        super().__init__(message)
        self.cause = cause
        """unreachable, forbidden or too_large."""
