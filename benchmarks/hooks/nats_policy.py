"""A hook for workers that continues, in the worker's own process."""


async def check(call: object) -> None:
    """Continue."""
