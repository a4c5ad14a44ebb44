"""Makes the parts of a host, from the tables of its configuration and from its keywords."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from .. import extensions
from ..engine.engine import Engine
from ..engine.part import Part
from .table import Table

Tables = Mapping[str, Sequence[Table]]


def keys_of_files(keywords: Mapping[str, Any]) -> dict[str, Any]:
    """Those of the extensions' keywords that take the place of keys of a configuration's files."""
    found = {name: extensions.find("keywords", name) for name in keywords}
    return {name: keywords[name] for name, keyword in found.items() if keyword is not None and keyword.part is None}


class MadeParts:
    """The parts that a host's tables and keywords ask for. Raises `TypeError` for a keyword that no extension has."""

    def __init__(self, tables: Tables, keywords: Mapping[str, Any]) -> None:
        self._given: dict[str, Table] = {}
        """The tables that keywords gave, by their keys."""
        self.of_keywords: list[Part] = []
        for name, value in keywords.items():
            keyword = extensions.find("keywords", name)
            if keyword is None:
                raise TypeError(
                    f"Host() got an unexpected keyword argument {name!r}{extensions.hint('keywords', name)}"
                )
            if keyword.part is None:
                raise TypeError(f"{name} is for Host.from_config and Host.discover: it is a key of configuration files")
            if value is not None and value is not False:
                made = keyword.part.load()(value)
                if isinstance(made, Part):
                    self.of_keywords.append(made)
                else:
                    self._given[name] = made
        self._of_tables = self._parts(self._with_given(tables))

    @property
    def all(self) -> list[Part]:
        """The parts of keywords, and those of tables."""
        return [*self.of_keywords, *self._of_tables.values()]

    @asynccontextmanager
    async def reloading(self, host: Engine, tables: Tables) -> AsyncIterator[None]:
        """Open the parts that the tables ask for and that the host lacks. After the block, each part follows its tables.

        If the block raises, the new parts are closed, and no part follows.
        """
        tables = self._with_given(tables)
        new = self._parts({key: tables[key] for key in tables.keys() - self._of_tables.keys()})
        async with AsyncExitStack() as opened:
            for part in new.values():
                await host.parts.add(host, part)
                opened.push_async_callback(host.parts.remove, host, part)
            yield
            opened.pop_all()
        for part in new.values():
            await part.started()
        for key, part in self._of_tables.items():
            part.follow(tables.get(key, ()))
        self._of_tables |= new

    async def on_demand(self, host: Engine, key: str) -> Any:
        """The part of a table, made now if no file has the table."""
        if key not in self._of_tables:
            part = extensions.find("tables", key).load().part(())
            await host.parts.add(host, part)
            self._of_tables[key] = part
        return self._of_tables[key]

    def _with_given(self, tables: Tables) -> dict[str, Sequence[Table]]:
        """The tables of the files, and after them those of keywords."""
        return {**tables, **{key: (*tables.get(key, ()), table) for key, table in self._given.items()}}

    def _parts(self, tables: Tables) -> dict[str, Part]:
        made = {key: type(of_key[0]).part(of_key) for key, of_key in sorted(tables.items())}
        return {key: part for key, part in made.items() if part is not None}
