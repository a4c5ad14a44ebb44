"""Answers in place of approvers, by the grants that they gave with an earlier yes."""

from __future__ import annotations

import hashlib
import os
import secrets
import threading
import time
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import anyio.to_thread
from pydantic import Field

from ...config.table import Table
from ...engine.part import Part
from ...errors import PicohookError
from ...model.decisions import Approve
from ...projects import hook_files
from ...wire.regular_files import read_regular
from ...wire.text import cut, escape, explain
from . import grants
from .grants import Facts, Grant, Index, Terms
from .grants_store import GrantStore, new_id

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Self

    from ...hooks.base import Hook
    from ...host import Host
    from ...model.payloads import Meta, ToolCall
    from ...model.trail import TrailEntry
    from .grants import Where

LOOKED = 1.0
"""Seconds after which a hook's program is looked at again."""
_HASHED = 1 << 20
"""The most bytes of a program whose content is part of a mark. Of a larger one, size and time are."""


class GrantsTable(Table):
    """Whether approvers may approve later calls, too."""

    user_only = True

    scopes: tuple[Literal["session", "agent", "project"], ...] = Field(
        default=("session", "agent", "project"), description="Where a grant may hold."
    )

    @classmethod
    def part(cls, tables: Sequence[Self]) -> GrantsPart:
        return GrantsPart(cls.allowed(tables))

    @classmethod
    def allowed(cls, tables: Sequence[Self]) -> frozenset[str]:
        """The scopes that all of these tables allow; none without a table."""
        every = [frozenset(one.scopes) for one in tables]
        return frozenset.intersection(*every) if every else frozenset()


def given(wanted: bool) -> GrantsTable:  # noqa: FBT001 - the value of a keyword of `Host`
    """The table for `Host(grants=True)`."""
    del wanted
    return GrantsTable()


class GrantsPart(Part):
    """The grants that one host keeps and uses. All that touches the disk is in threads."""

    name = "grants"

    def __init__(self, scopes: Iterable[str] = ("session", "agent", "project"), directory: str | None = None) -> None:
        """`directory` is that of the user's grants by default."""
        self._scopes = frozenset(scopes)
        self._directory = directory
        self._index = Index()
        self._marks: dict[Hook, str] = {}
        self._here = secrets.token_hex(8)
        """Stands for this host in the marks of hooks that no file configures."""
        self._seen = self._number = 0
        self._looked = 0.0
        self._new: deque[tuple[float, ToolCall, Sequence[tuple[Hook, TrailEntry]]]] = deque()
        """The times and approved calls whose grants are not kept yet."""
        self._keeping = threading.Lock()
        self._lock = threading.Lock()
        """Only one thread uses the store at a time."""
        self.uses = 0

    async def open(self, host: Host) -> None:
        self._host = host
        await anyio.to_thread.run_sync(self._open)

    async def aclose(self) -> None:
        await self._keep_new()
        self._store.close()

    def status(self) -> Mapping[str, Any]:
        return {"grants": {"kept": len(self._index), "uses": self.uses}}

    def follow(self, tables: Sequence[Any]) -> None:
        self._scopes = GrantsTable.allowed(tables)
        self._marks = {}

    # Using.

    async def answer(self, call: ToolCall, approvers: Sequence[Hook]) -> Approve | None:
        """A yes if each of these approvers has given a grant for the call. None to have them all asked."""
        if not approvers:
            return None
        if self._new or self._keeping.locked():
            await self._keep_new()
        now = time.monotonic()
        changes = self._store.changes()
        if changes != self._seen or (len(self._index) and now - self._looked > LOOKED):
            await anyio.to_thread.run_sync(self._look, changes)
        if not len(self._index):
            return None
        places = self._places(call.meta)
        facts = Facts(call)
        names = [hook.name for hook in approvers]
        find = partial(self._find, approvers, facts, places)
        if (
            facts.names_git
            or self._index.reads_files(names, call.tool, places)
            or not self._marks.keys() >= {*approvers}
        ):
            found = await anyio.to_thread.run_sync(find)
        else:
            found = find()
        if found is None:
            return None
        counted = [grant.id for grant in found if grant.left is not None]
        if counted and not await anyio.to_thread.run_sync(self._use, counted):
            return None
        self.uses += 1
        return Approve(reason="; ".join(map(_said, found)))

    def _find(self, approvers: Sequence[Hook], facts: Facts, places: Sequence[Where]) -> list[Grant] | None:
        now = time.time()
        found = []
        for hook in approvers:
            mark = self._mark(hook)
            of_hook = self._index.find(hook.name, facts, places)
            usable = (
                one for one in of_hook if one.mark == mark != "" and one.given <= now < one.until and one.left != 0
            )
            grant = next(usable, None)
            if grant is None:
                return None
            found.append(grant)
        return found

    def _places(self, meta: Meta) -> list[Where]:
        """The session, agent and project of a call, as far as it has them."""
        project = self._project
        found = [("project", project)]
        if meta.session_key:
            found.append(("session", f"{project}\0{meta.session_key}"))
        if meta.agent_id:
            found.append(("agent", f"{project}\0{meta.agent_id}"))
        return [where for where in found if where[0] in self._scopes]

    # Giving.

    def granted(self, call: ToolCall, grants: Sequence[tuple[Hook, TrailEntry]]) -> None:
        self._new.append((time.time(), call, grants))
        self._host.begin_task(self._keep_new)

    async def _keep_new(self) -> None:
        """Keep the new grants. Returns when all that were given so far are kept, by whichever task."""
        await anyio.to_thread.run_sync(self._keep_all)

    def _keep_all(self) -> None:
        with self._keeping:
            while self._new:
                self._keep(*self._new.popleft())

    def _keep(self, now: float, call: ToolCall, yeses: Sequence[tuple[Hook, TrailEntry]]) -> None:
        for hook, entry in yeses:
            try:
                made = self._made(now, call, hook, entry)
                with self._lock:
                    self._store.give(made)
            except Exception as error:  # the call itself was approved in any case
                self._host.log.warning("a grant was not kept", hook=hook.name, tool=call.tool, why=explain(error))
            else:
                self._index.put(made)
                self._host.log.info("a grant is kept", grant=made.id, hook=hook.name, calls=made.shown)

    def _made(self, now: float, call: ToolCall, hook: Hook, entry: TrailEntry) -> Grant:
        terms = Terms.read(entry.grant or {})
        mark = self._mark(hook)
        place = dict(self._places(call.meta)).get(terms.scope)
        if not mark:
            raise PicohookError("it is a hook of one session, which ends with it")
        if terms.scope not in self._scopes:
            raise PicohookError(f"grants for {terms.scope} are not allowed here (grants.scopes)")
        if place is None:
            raise PicohookError(f"the call has no {terms.scope}")
        facts = Facts(call)
        like, arguments = grants.granted(terms, call, facts)
        made = Grant(
            new_id(),
            hook.name,
            mark,
            terms.scope,
            place,
            call.tool,
            arguments,
            like,
            facts.world,
            now,
            now + (terms.seconds or grants.LASTS),
            cut(escape(entry.reason), 200) or "its program",
            terms.times,
        )
        alone = Index()
        alone.put(made)
        if next(alone.find(hook.name, facts, [(terms.scope, place)]), None) is None:
            raise PicohookError("the call that was approved is not one that it is for")
        return made

    # In threads.

    def _open(self) -> None:
        self._project = os.path.realpath(os.getcwd())
        self._store = GrantStore(self._directory)
        self._look(self._store.changes())

    def _look(self, changes: int) -> None:
        """Take over what other programs have changed. The hooks' own programs are looked at again when they are needed."""
        with self._lock:
            self._seen = changes
            for grant, holds in self._store.since(self._number):
                self._number = grant.number
                if holds:
                    self._index.put(grant)
                else:
                    self._index.remove(grant.id)
        self._marks = {}
        self._looked = time.monotonic()

    def _use(self, counted: Sequence[str]) -> bool:
        with self._lock:
            return self._store.use(counted)

    def _mark(self, hook: Hook) -> str:
        """The hook, its program and the configuration, in one word; empty for a hook of a session.

        A grant holds for as long as this is the same.
        """
        marks = self._marks
        if hook not in marks:
            marks[hook] = self._read_mark(hook) if any(own is hook for own in self._host.hooks) else ""
        return marks[hook]

    def _read_mark(self, hook: Hook) -> str:
        spec = hook.spec
        known = [spec.fingerprint, self._host.config_digest if spec.source else f"{self._here} {id(hook)}"]
        for member in (one.examined for one in spec.members):
            files = (*hook_files.programs(member), *hook_files.arguments(member))
            known += [f"{path} {_content(path)}" for path in files]
        return hashlib.blake2b("\0".join(known).encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def _content(path: str) -> str:
    """What tells two states of a file apart."""
    try:
        status = os.stat(path)
        if status.st_size > _HASHED:
            return f"{status.st_ino} {status.st_size} {status.st_mtime_ns}"
        return hashlib.blake2b(read_regular(path, _HASHED), digest_size=16).hexdigest()
    except (OSError, ValueError):
        return ""


def _said(grant: Grant) -> str:
    when = time.strftime("%Y-%m-%d %H:%M", time.localtime(grant.given))
    return f"grant {grant.id} of {when}, by {grant.hook}: {grant.by}"
