"""Answers in place of approvers, by the grants that they gave with an earlier yes."""

import hashlib
import json
import os
import secrets
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Self, TypeVar

import anyio.to_thread

from ...config.table import Table
from ...engine.part import Part
from ...errors import PicohookError
from ...hooks.base import Hook
from ...host import Host
from ...model.decisions import Approve
from ...model.payloads import ToolCall
from ...model.trail import TrailEntry
from ...process.quick_threads import QuickThreads
from ...projects import hook_files
from ...wire.regular_files import Identity, identity
from ...wire.text import cut, escape, explain
from .grants import Facts, Grant, MayWaitError, Terms
from .grants_store import GrantStore

T = TypeVar("T")

THREADS = 4
"""The most threads that look for grants at once. What they wait for may never answer."""
MOST_KNOWN = 1000
"""The most answers of the file that are known without another look."""
KNOWN_FOR = 1.0
"""Seconds after which the file and the hooks' programs are looked at again, also if no change was seen."""
Found = list[tuple[Grant, Approve]]
"""Grants, each with its yes."""


class GrantsTable(Table):
    """Whether approvers may approve later calls, too."""

    user_only = True

    @classmethod
    def part(cls, _tables: Sequence[Self]) -> "GrantsPart":
        return GrantsPart()


def given(_wanted: bool) -> GrantsTable:  # noqa: FBT001 - the value of a keyword of `Host`
    """The table for `Host(grants=True)`."""
    return GrantsTable()


class _Known:
    """What is known as long as something is in this state. Threads that look note it here."""

    def __init__(self, state: object = None) -> None:
        self.state = state
        self.files: dict[str, Identity | None] = {}
        """Files whose states are part of it."""
        self._known: dict[object, Any] = {}

    def get(self, facts: Facts, key: object, look: Callable[..., T], *given: Any) -> T:
        """What the look finds, or has found. Raises `MayWaitError` if the answer about this call has to come at once."""
        if (found := self._known.get(key)) is None:
            facts.may_wait()
            found = look(*given)
            if len(self._known) < MOST_KNOWN:
                self._known[key] = found
        return found

    def are_files_unchanged(self) -> bool:
        """Whether the files are still in these states."""
        return not self.files or all(_state(path) == state for path, state in [*self.files.items()])


class GrantsPart(Part):
    """The grants that one host keeps and uses. The event loop answers only what is known at once, and threads do the rest."""

    name = "grants"

    def __init__(self) -> None:
        self._is_wanted = True
        self._here = secrets.token_hex(8)
        """Stands for this host in the marks of hooks that no file configures."""
        self._store: GrantStore
        self._marks, self._grants = _Known(), _Known()
        """The marks of hooks in one configuration, and the grants in one state of their file."""
        self._until = 0.0
        self.uses = 0

    async def open(self, host: Host) -> None:
        self._host = host
        await anyio.to_thread.run_sync(self._open)
        self._threads = QuickThreads(THREADS)

    def _open(self) -> None:
        self._project = os.path.realpath(os.getcwd())
        self._store = GrantStore()

    async def aclose(self) -> None:
        try:
            await self._threads.run(self._store.close)
        finally:
            self._threads.close()

    def status(self) -> Mapping[str, Any]:
        return {"grants": {"uses": self.uses}}

    def follow(self, tables: Sequence[Any]) -> None:
        self._is_wanted = bool(tables)

    # Using.

    def answer(self, call: ToolCall, approvers: Sequence[Hook]) -> Awaitable[Approve | None] | Approve | None:
        """A yes if each of these approvers has given a grant for the call. None to have them all asked.

        It comes at once if such a call was answered before, the file of grants is the same, and nothing has to be waited for.
        """
        if not self._is_wanted:
            return None
        version, config, now = self._store.version(), self._host.config_digest, time.monotonic()
        if config != self._marks.state or now > self._until or not self._marks.are_files_unchanged():
            self._grants, self._marks, self._until = _Known(), _Known(config), now + KNOWN_FOR
        if version != self._grants.state:
            self._grants = _Known(version)
        known, facts = self._grants, Facts(call, at_once=True)
        try:
            return self._yes(self._find(facts, approvers, known))
        except MayWaitError:
            return self._look(facts, approvers, known)

    async def _look(self, facts: Facts, approvers: Sequence[Hook], known: _Known) -> Approve | None:
        facts.at_once = False
        return self._yes(await self._threads.run(self._find_and_use, facts, approvers, known))

    def _find_and_use(self, facts: Facts, approvers: Sequence[Hook], known: _Known) -> Found:
        while True:
            found = self._find(facts, approvers, known)
            counted = [grant.id for grant, _ in found if grant.left is not None]
            if not counted or self._store.use(counted):
                return found
            known = _Known()  # another host has used one up meanwhile

    def _yes(self, found: Found) -> Approve | None:
        if not found:
            return None
        self.uses += 1
        if len(found) == 1:
            return found[0][1]
        return Approve(reason="; ".join(yes.reason for _, yes in found))

    def _find(self, facts: Facts, approvers: Sequence[Hook], known: _Known) -> Found:
        """A grant of each approver for the call; none if one of them has given none."""
        found, now, call = [], time.time(), facts.call
        for hook in approvers:
            fits = None
            spot = (hook, call.tool, call.meta.session_key, call.meta.agent_id)
            for start, names in known.get(facts, spot, self._forms, facts, hook):
                key = facts.key(start, names)
                for one in known.get(facts, key, self._with_key, key):
                    if one[0].given <= now < one[0].until and facts.fit(one[0].like):
                        fits = one if fits is None or one[0].left is None else fits
            if fits is None:
                return []
            if fits[0].left is not None:
                facts.may_wait()
            found.append(fits)
        return found

    def _forms(self, facts: Facts, hook: Hook) -> list[tuple[str, list[str]]]:
        """For each start of the keys of this hook's grants that may be for the call, the arguments that may differ."""
        marks = self._marks
        mark = marks.get(facts, hook, self._mark, hook, marks.files)
        starts = [self._start(mark, hook, facts, scope) for scope in facts.scopes] if mark else []
        return self._store.forms(starts)

    def _with_key(self, key: bytes) -> Found:
        return [(one, Approve(reason=f"{one.name}, by {one.hook}: {one.by}")) for one in self._store.find(key)]

    def _start(self, mark: str, hook: Hook, facts: Facts, scope: str) -> str:
        """The start of the keys of a hook's grants for a tool in a session, for an agent or in the project."""
        return json.dumps((mark, hook.name, facts.call.tool, scope, self._project, facts.scopes[scope]))

    # Giving.

    async def granted(self, call: ToolCall, grants: Sequence[tuple[Hook, TrailEntry]]) -> None:
        await self._threads.run(self._keep, call, grants)

    def _keep(self, call: ToolCall, grants: Sequence[tuple[Hook, TrailEntry]]) -> None:
        log = self._host.log
        for hook, entry in grants:
            try:
                made = self._give(call, hook, entry)
            except Exception as error:  # the call itself was approved in any case
                log.warning("a grant was not kept", hook=hook.name, tool=call.tool, why=explain(error))
            else:
                log.info("a grant is kept", grant=made.id, hook=hook.name, calls=made.shown)

    def _give(self, call: ToolCall, hook: Hook, entry: TrailEntry) -> Grant:
        if not self._is_wanted:
            raise PicohookError("the configuration has no [grants]")
        if not (mark := self._mark(hook, {})):
            raise PicohookError("it is a hook of one session, which ends with it")
        facts, by = Facts(call), cut(escape(entry.reason), 200) or "its program"
        made = Terms.read(entry.grant or {}).given(facts, hook.name, self._project, by)
        start = self._start(mark, hook, facts, made.scope)
        self._store.give(made, facts.key(start, sorted(made.like)), start)
        return made

    def _mark(self, hook: Hook, files: dict[str, Identity | None]) -> str:
        """The hook, its program and the configuration for which a grant holds, in one word; empty for a hook of a session.

        Notes the states of the program's files. A state that is known stays, because other marks were made with it.
        """
        if all(one is not hook for one in self._host.hooks):
            return ""
        config = self._host.config_digest if hook.spec.source else f"{self._here} {id(hook)}"
        members = [one.examined for one in hook.spec.members]
        paths = [path for one in members for path in (*hook_files.programs(one), *hook_files.arguments(one))]
        states = {path: _state(path) for path in paths}
        for path, state in states.items():
            files.setdefault(path, state)
        known = [hook.spec.fingerprint, config, *(f"{path} {state}" for path, state in states.items())]
        return hashlib.blake2b("\0".join(known).encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def _state(path: str) -> Identity | None:
    try:
        return identity(os.stat(path))
    except (OSError, ValueError):
        return None
