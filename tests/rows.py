"""A test that is a loop over a table: one case, whose failure names the row."""

from __future__ import annotations

import contextlib
import functools
import inspect
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    Test = Callable[..., Any]


def each(names: str | tuple[str, ...], rows: Iterable[Any]) -> Callable[[Test], Test]:
    """Call the test with each row, where `pytest.mark.parametrize` makes a case of each. The rows share their fixtures."""
    names = (names,) if isinstance(names, str) else names
    table = [dict(zip(names, (row,) if len(names) == 1 else row, strict=True)) for row in rows]
    assert table, "a table without rows tries nothing"

    def over_all(test: Test) -> Test:
        @functools.wraps(test)
        def tried(*fixtures: Any, **named: Any) -> None:
            for row in table:
                with naming(row):
                    test(*fixtures, **named, **row)

        @functools.wraps(test)
        async def tried_on_a_loop(*fixtures: Any, **named: Any) -> None:
            for row in table:
                with naming(row):
                    await test(*fixtures, **named, **row)

        loop = tried_on_a_loop if inspect.iscoroutinefunction(test) else tried
        signature = inspect.signature(test)
        kept = [parameter for name, parameter in signature.parameters.items() if name not in names]
        loop.__signature__ = signature.replace(parameters=kept)  # type: ignore[attr-defined]
        return loop

    return over_all


@contextlib.contextmanager
def naming(row: dict[str, Any]) -> Iterator[None]:
    try:
        yield
    except BaseException as error:
        error.add_note(f"in the row {row}")
        raise
