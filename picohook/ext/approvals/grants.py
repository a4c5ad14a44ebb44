"""Grants: the later calls for which the yes of an approver counts too, and whether a call is one of them."""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import secrets
import shlex
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar, Union

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from ...errors import PicohookError
from ...wire.text import escape
from .world import command_words, git_is_named, is_no_wider, means_one_path, resolved, state_of_git

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from typing import Self

    from ...model.payloads import ToolCall

LASTS = 12 * 3600.0
"""The seconds for which a grant holds that says nothing about it."""
LONGEST = 366 * 86400.0
INERT = frozenset({"description"})
"""The arguments that only explain a call to people."""
ANYTHING = "anything"
T = TypeVar("T")
Where = tuple[str, str]
"""A scope, and the session, agent or project."""
Form = tuple[tuple[str, str], ...]
"""The arguments that may differ, each with its kind of shape."""


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class Under(_Strict):
    """A path in this directory."""

    under: Annotated[str, Field(min_length=1)]


class Starts(_Strict):
    """A command with these first words, and no further option."""

    starts: Annotated[list[str], Field(min_length=1)]


class Terms(_Strict):
    """A grant as an approver writes it. A field that is not known makes it no grant: it may have been a limit."""

    scope: Literal["session", "agent", "project"] = Field(alias="for")
    like: dict[str, Union[Under, Starts, Literal["anything"]]] = Field(default_factory=dict)
    times: int | None = Field(default=None, ge=1, le=10_000)
    seconds: float | None = Field(default=None, gt=0, le=LONGEST)

    @model_validator(mode="after")
    def _counts_equal_calls(self) -> Self:
        if self.times is not None and self.like:
            raise ValueError("`times` counts calls with equal arguments, so it is not beside `like`")
        return self

    @classmethod
    def read(cls, grant: Mapping[str, Any]) -> Terms:
        """Returns the terms. Raises `PicohookError` for what is no grant."""
        try:
            return cls.model_validate(dict(grant))
        except ValidationError as error:
            first = error.errors(include_url=False, include_context=False)[0]
            place = ".".join(map(str, first["loc"])) or "the grant"
            raise PicohookError(f"{place}: {first['msg']}") from None


@dataclass(frozen=True, slots=True)
class Grant:
    """A grant that was given: everything that a later call is compared with."""

    id: str
    hook: str
    mark: str
    """The hook, its program and the configuration under which it was given. See `GrantsPart`."""
    scope: str
    place: str
    tool: str
    arguments: str
    """The JSON of the arguments that have to be equal."""
    like: Mapping[str, Any]
    """The arguments that may differ, as on the wire. Directories are resolved."""
    world: str
    """See `Facts.world`."""
    given: float
    until: float
    by: str
    """The channel through which it was given."""
    left: int | None = None
    """The number of calls that it is still for; None if it is not counted."""
    number: int = 0
    """Its place in the order of changes of the store."""

    @property
    def form(self) -> Form:
        """The arguments that may differ, and the kinds of their shapes."""
        return tuple(
            (name, ANYTHING if shape == ANYTHING else next(iter(shape))) for name, shape in sorted(self.like.items())
        )

    @property
    def key(self) -> tuple[Any, ...]:
        """The key under which an `Index` finds it among the grants of its form."""
        return (_digest(self.arguments.encode()), *(_part(shape) for _, shape in sorted(self.like.items())))

    @property
    def shown(self) -> str:
        """One line for people: which calls it is for."""
        equal = json.loads(self.arguments)
        parts = [f"{name} = {_short(value)}" for name, value in equal.items()]
        parts += [f"{name} {_said(shape)}" for name, shape in sorted(self.like.items())]
        return escape(f"{self.tool}: {', '.join(parts) or 'no arguments'}")


_WHOLE = 120
"""The most characters of a value that a line shows."""


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _WHOLE else f"{text[:_WHOLE]}... ({len(text)} characters)"


def _said(shape: Any) -> str:
    if shape == ANYTHING:
        return "is anything"
    if "under" in shape:
        return f"is in {shape['under']}"
    return f"is a command that starts with: {shlex.join(shape['starts'])}"


def _part(shape: Any) -> Any:
    if shape == ANYTHING:
        return ANYTHING
    return shape["under"] if "under" in shape else tuple(shape["starts"])


def _digest(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=16).digest()


def equal_part(arguments: Mapping[str, Any], differing: Iterable[str]) -> str:
    """The JSON of the arguments without those that may differ."""
    kept = dict(arguments)
    for name in differing:
        kept.pop(name, None)
    return json.dumps(kept, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


class Facts:
    """One call, as grants are compared with it. What is expensive is read once, when it is needed."""

    def __init__(self, call: ToolCall) -> None:
        self.tool = call.tool
        self.arguments = call.arguments
        cwd = (call.context or {}).get("cwd")
        self.cwd = cwd if isinstance(cwd, str) and os.path.isabs(cwd) else os.getcwd()
        self._read: dict[Any, Any] = {}

    def keys(self, form: Form) -> Iterator[tuple[Any, ...]]:
        """Yields each key of a grant of this form that is for the call."""
        choices = [self._parts(name, kind) for name, kind in form]
        if all(choices):
            names = tuple(name for name, _ in form)
            digest = self._once(
                names, lambda: _digest(equal_part(self.arguments, names).encode("utf-8", "surrogatepass"))
            )
            yield from ((digest, *chosen) for chosen in itertools.product(*choices))

    def _parts(self, name: str, kind: str) -> Sequence[Any]:
        """The shapes of this kind that the argument has."""
        value = self.arguments.get(name)
        if kind == ANYTHING:
            return [ANYTHING] if name in self.arguments else []
        if not isinstance(value, str):
            return []
        if kind == "under":
            return self._once(
                (name, kind), lambda: _above(resolved(value, self.cwd)) if means_one_path(value, self.cwd) else []
            )
        return self._once((name, kind), lambda: _beginnings(command_words(value)))

    @property
    def world(self) -> str:
        """The directory in which the call would run, and the state of git's configuration if the call names git."""
        return self._once("world", lambda: f"{self._git()} {self.cwd}")

    @property
    def names_git(self) -> bool:
        """Whether a text in the arguments names git."""
        return bool(self._named)

    @property
    def _named(self) -> str:
        return self._once("git", lambda: git_is_named(self.arguments))

    def _git(self) -> str:
        if self._named == "elsewhere":
            return secrets.token_hex(16)  # equal to no other
        return state_of_git(self.cwd) if self._named else ""

    def allows(self, grant: Grant) -> bool:
        """Whether the call, which has a key of the grant, is one that it is for. May read files."""
        if grant.world != self.world:
            return False
        begun = {name: shape["starts"] for name, shape in grant.like.items() if shape != ANYTHING and "starts" in shape}
        return all(is_no_wider(self.tool, self.arguments, name, first, self.cwd) for name, first in begun.items())

    def _once(self, key: Any, read: Callable[[], T]) -> T:
        if key not in self._read:
            self._read[key] = read()
        found: T = self._read[key]
        return found


def _above(path: str) -> list[str]:
    """The directories that a path is in."""
    found = []
    while (parent := os.path.dirname(path)) != path:
        found.append(path := parent)
    return found


def _beginnings(command: Sequence[str] | None) -> list[tuple[str, ...]]:
    """The first words of a command that a grant may name: all further ones are no options."""
    found = []
    for length in range(len(command or ()), 0, -1):
        assert command is not None
        found.append(tuple(command[:length]))
        if command[length - 1][:1] in {"-", "+"}:
            break
    return found


@dataclass
class Index:
    """Finds grants for a call, in a time that does not grow with their number. It can be used by several threads."""

    _by: dict[tuple[str, str, str, str], dict[Form, dict[tuple[Any, ...], dict[str, Grant]]]] = field(
        default_factory=dict
    )
    """By hook, tool, scope and place; by form; by key; by id."""
    _all: dict[str, Grant] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __len__(self) -> int:
        return len(self._all)

    def put(self, grant: Grant) -> None:
        """Add a grant, or replace it."""
        with self._lock:
            self._all[grant.id] = grant
            of_hook = self._by.setdefault((grant.hook, grant.tool, grant.scope, grant.place), {})
            of_hook.setdefault(grant.form, {}).setdefault(grant.key, {})[grant.id] = grant

    def remove(self, grant_id: str) -> None:
        """Remove a grant, if it is there."""
        with self._lock:
            grant = self._all.pop(grant_id, None)
            if grant is None:
                return
            path = grant.hook, grant.tool, grant.scope, grant.place
            of_key = self._by[path][grant.form][grant.key]
            del of_key[grant_id]
            if not of_key:
                del self._by[path][grant.form][grant.key]

    def reads_files(self, hooks: Iterable[str], tool: str, places: Iterable[Where]) -> bool:
        """Whether a grant for calls like these compares paths or commands."""
        kinds = {kind for form in self._forms(hooks, tool, places) for _, kind in form}
        return bool(kinds - {ANYTHING})

    def _forms(self, hooks: Iterable[str], tool: str, places: Iterable[Where]) -> list[Form]:
        with self._lock:
            return [form for hook in hooks for where in places for form in self._by.get((hook, tool, *where), ())]

    def find(self, hook: str, facts: Facts, places: Iterable[Where]) -> Iterator[Grant]:
        """Yields the grants of this hook that are for the call, those that are not counted first. May read files."""
        found: list[Grant] = []
        for where in places:
            with self._lock:
                of_hook = [*self._by.get((hook, facts.tool, *where), {}).items()]
            for form, by_key in of_hook:
                for key in facts.keys(form):
                    with self._lock:
                        found += by_key.get(key, {}).values()
        found.sort(key=lambda grant: grant.left is not None)
        return (grant for grant in found if facts.allows(grant))


def granted(terms: Terms, call: ToolCall, facts: Facts) -> tuple[dict[str, Any], str]:
    """The shapes with resolved directories, and the JSON of the other arguments.

    Raises `PicohookError` if the call itself is not one that the grant is for.
    """
    like: dict[str, Any] = {}
    for name, shape in terms.like.items():
        if name not in call.arguments:
            raise PicohookError(f"like.{name}: the call has no such argument")
        like[name] = shape if isinstance(shape, str) else shape.model_dump()
        if isinstance(shape, Under):
            like[name] = {"under": resolved(shape.under, facts.cwd)}
    return like, equal_part(call.arguments, like)


def offers(call: ToolCall) -> list[tuple[str, dict[str, Any]]]:
    """The grants that a person may be offered for this call, each with its text. The text says all that it is for."""
    arguments, facts = call.arguments, Facts(call)
    inert = dict.fromkeys(INERT & arguments.keys(), ANYTHING)
    likes: list[dict[str, Any]] = [inert]
    for name, value in arguments.items():
        if not isinstance(value, str):
            continue
        command = command_words(value) if name in {"command", "cmd"} else None
        if command is not None and len(command) > 1:
            likes.append({name: {"starts": command[:2]}, **inert})
        elif name in {"path", "file_path", "notebook_path"}:
            others = dict.fromkeys(arguments.keys() - {name}, ANYTHING)
            likes.append({name: {"under": os.path.dirname(resolved(value, facts.cwd))}, **others})
    made = []
    for like in likes:
        equal = json.loads(equal_part(arguments, like))
        for scope in ("session", "project"):
            shown = Grant("", "", "", scope, "", call.tool, json.dumps(equal), like, "", 0, 0, "").shown
            made.append((f"for this {scope}: {shown}", {"for": scope, **({"like": like} if like else {})}))
    return made
