"""Answers in place of approvers, by the grants that they gave with an earlier yes."""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import threading
import time
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import anyio.to_thread
from pydantic import Field

from ...config.table import Table
from ...engine.part import Part
from ...errors import PicohookError
from ...model.decisions import Approve
from ...projects import hook_files
from ...wire.regular_files import identity, read_regular
from ...wire.text import cut, escape, explain
from .grants import LASTS, Facts, Grant, Terms, form_of, key
from .grants_store import GrantStore, new_id

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
    from typing import Self

    from ...hooks.base import Hook
    from ...host import Host
    from ...model.payloads import Meta, ToolCall
    from ...model.trail import TrailEntry
    from ...wire.regular_files import Identity

MOST_KNOWN = 1000
"""The most answers, and the most places with their forms, that are known without another look."""
Keys = tuple[tuple[str, ...], ...]
"""For each approver, the keys that its grants may have."""
LOOKED = 1.0
"""Seconds after which a hook's program is looked at again."""
_HASHED = 1 << 20
"""The most bytes of a program whose content is part of a mark. Of a larger one, its state is."""


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


class _Mark(NamedTuple):
    """A hook, its program and the configuration, in one word, for which a grant holds."""

    word: str
    files: dict[str, Identity | None]
    """The states of the program's files when they were read."""
    looked: float


class GrantsPart(Part):
    """The grants that one host keeps and uses. The event loop only asks for rows: other files are read in threads."""

    name = "grants"

    def __init__(self, scopes: Iterable[str] = ("session", "agent", "project")) -> None:
        self._scopes = frozenset(scopes)
        self._marks: dict[Hook, _Mark] = {}
        self._here = secrets.token_hex(8)
        """Stands for this host in the marks of hooks that no file configures."""
        self._new: deque[tuple[float, ToolCall, Sequence[tuple[Hook, TrailEntry]]]] = deque()
        """The times and approved calls whose grants are not kept yet."""
        self._writing = threading.Lock()
        self._store: GrantStore
        self._is_open = False
        self._version: tuple[int, int] | None = None
        """The state of the file in which the next two were found."""
        self._known: dict[Keys, tuple[Approve, float, float]] = {}
        """The yes for keys, and the times between which it holds."""
        self._forms: dict[tuple[tuple[str, ...], str, str, str], list[list[tuple[str, str]]]] = {}
        """For the names of approvers, a tool, session and agent: the forms of each one's grants."""
        self.uses = 0

    async def open(self, host: Host) -> None:
        self._host = host
        await anyio.to_thread.run_sync(self._open)
        self._is_open = True

    def _open(self) -> None:
        self._project = os.path.realpath(os.getcwd())
        self._store = GrantStore()

    async def aclose(self) -> None:
        await self._keep_new()
        self._is_open = False
        self._store.close()

    def status(self) -> Mapping[str, Any]:
        return {"grants": {"kept": self._store.count() if self._is_open else 0, "uses": self.uses}}

    def follow(self, tables: Sequence[Any]) -> None:
        self._scopes, self._marks, self._version = GrantsTable.allowed(tables), {}, None

    # Using.

    def answer(self, call: ToolCall, approvers: Sequence[Hook]) -> Awaitable[Approve | None] | Approve | None:
        """A yes if each of these approvers has given a grant for the call. None to have them all asked.

        It comes at once if such a call was answered before, the file of grants is the same, and no other has to be read.
        """
        if self._new or self._writing.locked():
            return self._once_kept(call, approvers)
        version = self._store.version()
        if version != self._version:
            self._version, self._known, self._forms = version, {}, {}
        forms = self._forms_of(call, approvers)
        if not (forms and all(forms.values())):
            return None
        facts = Facts(call)
        read = partial(self._keys, facts, forms)
        if not (all(map(self._is_marked, forms)) and all(map(facts.is_quick, forms.values()))):
            return self._look(read, [*forms])
        yes, begin, end = self._known.get(keys := read(), (None, 0.0, 0.0))
        if yes is None or not begin <= time.time() < end:
            return self._look(keys, [*forms])
        self.uses += 1
        return yes

    async def _once_kept(self, call: ToolCall, approvers: Sequence[Hook]) -> Approve | None:
        await self._keep_new()
        answer = self.answer(call, approvers)
        return answer if answer is None or isinstance(answer, Approve) else await answer

    def _forms_of(self, call: ToolCall, approvers: Sequence[Hook]) -> dict[Hook, list[tuple[str, str]]]:
        """For each approver, the forms of its grants that may be for the call, each with the start of their keys."""
        meta = call.meta
        names = tuple(hook.name for hook in approvers)  # and not the hooks, which would be kept alive
        spot = (names, call.tool, meta.session_key, meta.agent_id)
        if spot not in self._forms:
            places = self._places(meta).items()
            if len(self._forms) >= MOST_KNOWN:
                self._forms.clear()
            self._forms[spot] = [
                self._store.forms([_start(hook, call, *place) for place in places]) for hook in approvers
            ]
        return dict(zip(approvers, self._forms[spot], strict=True))

    async def _look(self, keys: Keys | Callable[[], Keys], approvers: Sequence[Hook]) -> Approve | None:
        """Look for grants with these keys, and use those that are counted. Note the answer of others until the file changes."""
        keys = keys if isinstance(keys, tuple) else await anyio.to_thread.run_sync(keys)
        found = [self._store.find(of_hook) for of_hook in keys]
        used = [grant for grant in found if grant is not None]
        if len(used) < len(approvers):
            return None
        counted = [grant.id for grant in used if grant.left is not None]
        try:
            if counted:
                await anyio.to_thread.run_sync(self._use, counted)
        except PicohookError:
            return None
        said = (f"{grant.shown}, by {hook.name}: {grant.by}" for hook, grant in zip(approvers, used, strict=True))
        yes = Approve(reason="; ".join(said))
        if not counted and len(self._known) < MOST_KNOWN:
            self._known[keys] = yes, max(grant.given for grant in used), min(grant.until for grant in used)
        self.uses += 1
        return yes

    def _use(self, counted: Sequence[str]) -> None:
        with self._writing:
            self._store.use(counted)

    def _keys(self, facts: Facts, forms: Mapping[Hook, Sequence[tuple[str, str]]]) -> Keys:
        """For each approver, the keys of its grants that are for the call; none if it cannot be told which call it is."""
        every = []
        for hook, own in forms.items():
            mark = self._mark(hook)
            try:
                every.append(tuple(one for start, form in own for one in facts.keys(mark + start, form) if mark))
            except PicohookError:
                return ()
        return tuple(every)

    def _places(self, meta: Meta) -> dict[str, str]:
        """The session, agent and project of a call, as far as it has them, by scope."""
        project = self._project
        found = {"project": project}
        if meta.session_key:
            found["session"] = f"{project}\0{meta.session_key}"
        if meta.agent_id:
            found["agent"] = f"{project}\0{meta.agent_id}"
        return {scope: place for scope, place in found.items() if scope in self._scopes}

    # Giving.

    def granted(self, call: ToolCall, grants: Sequence[tuple[Hook, TrailEntry]]) -> None:
        self._new.append((time.time(), call, grants))
        self._host.begin_task(self._keep_new)

    async def _keep_new(self) -> None:
        """Keep the new grants. Returns when all that were given so far are kept, by whichever task."""
        await anyio.to_thread.run_sync(self._keep_all)

    def _keep_all(self) -> None:
        log = self._host.log
        with self._writing:
            while self._new:
                now, call, yeses = self._new.popleft()
                for hook, entry in yeses:
                    try:
                        made = self._give(now, call, hook, entry)
                    except Exception as error:  # the call itself was approved in any case
                        log.warning("a grant was not kept", hook=hook.name, tool=call.tool, why=explain(error))
                    else:
                        log.info("a grant is kept", grant=made.id, hook=hook.name, calls=made.shown)

    def _give(self, now: float, call: ToolCall, hook: Hook, entry: TrailEntry) -> Grant:
        terms = Terms.read(entry.grant or {})
        mark, places = self._mark(hook), self._places(call.meta)
        if not mark:
            raise PicohookError("it is a hook of one session, which ends with it")
        if terms.scope not in self._scopes:
            raise PicohookError(f"grants for {terms.scope} are not allowed here (grants.scopes)")
        if terms.scope not in places:
            raise PicohookError(f"the call has no {terms.scope}")
        facts = Facts(call)
        like = terms.of(facts)
        equal = {name: value for name, value in call.arguments.items() if name not in like}
        place, until = places[terms.scope], now + (terms.seconds or LASTS)
        by = cut(escape(entry.reason), 200) or "its program"
        made = Grant(new_id(), hook.name, terms.scope, place, call.tool, equal, like, now, until, by, terms.times)
        start = _start(hook, call, terms.scope, place)
        self._store.give(made, key(mark + start, like, facts), start, form_of(like))
        return made

    # Marks.

    def _is_marked(self, hook: Hook) -> bool:
        """Whether the hook's mark is known, and its files are as they were. Looks at them at most once a second."""
        mark, now = self._marks.get(hook), time.monotonic()
        if mark is None:
            return False
        if now - mark.looked > LOOKED:
            if any(_state(path) != state for path, state in mark.files.items()):
                return False
            self._marks[hook] = mark._replace(looked=now)
        return True

    def _mark(self, hook: Hook) -> str:
        """The hook's mark, which stays the same as long as its grants hold; empty for a hook of a session. May read files."""
        if not self._is_marked(hook):
            if all(one is not hook for one in self._host.hooks):
                return ""
            self._marks = {one: mark for one, mark in self._marks.items() if one in self._host.hooks}
            self._marks[hook] = self._read_mark(hook)
        return self._marks[hook].word

    def _read_mark(self, hook: Hook) -> _Mark:
        spec = hook.spec
        known = [spec.fingerprint, self._host.config_digest if spec.source else f"{self._here} {id(hook)}"]
        members = [one.examined for one in spec.members]
        paths = [path for one in members for path in (*hook_files.programs(one), *hook_files.arguments(one))]
        files = {path: _state(path) for path in paths}  # before they are read, so that a later change is seen
        known += [f"{path} {_content(path)}" for path in paths]
        word = hashlib.blake2b("\0".join(known).encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
        return _Mark(word, files, time.monotonic())


def _start(hook: Hook, call: ToolCall, scope: str, place: str) -> str:
    """The start of the keys of a hook's grants for a tool in a place."""
    return json.dumps((hook.name, call.tool, scope, place))


def _state(path: str) -> Identity | None:
    try:
        return identity(os.stat(path))
    except (OSError, ValueError):
        return None


def _content(path: str) -> str:
    """What tells two contents of a file apart."""
    try:
        return hashlib.blake2b(read_regular(path, _HASHED), digest_size=16).hexdigest()
    except (OSError, ValueError):
        return f"{_state(path)}"  # of a large one
