"""Grants: the later calls for which the yes of an approver counts too, and whether a call is one of them."""

from __future__ import annotations

import functools
import hashlib
import itertools
import json
import os
import shlex
import time
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal, Union

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from ...errors import PicohookError
from ...model.payloads import ToolCall
from ...wire.text import escape
from .world import command_words, git_is_named, is_harmless, means_one_path, resolved, state_of_git

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from typing import Self

LASTS = 12 * 3600.0
"""The seconds for which a grant holds that says nothing about it."""
LONGEST = 366 * 86400.0
INERT = frozenset({"description"})
"""The arguments that only explain a call to people."""
ANYTHING = "anything"
UNDER, STARTS = "under", "starts"
_in_order = json.JSONEncoder(sort_keys=True).encode  # `json.dumps` makes a new one each time
_WHOLE = 120
"""The most characters of a value that a line shows."""


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

    def of(self, facts: Facts) -> dict[str, Any]:
        """The arguments that may differ from those of this call, with directories resolved.

        Raises `PicohookError` if the grant is not for the call itself, or could never answer for one like it.
        """
        like: dict[str, Any] = {}
        for name, shape in self.like.items():
            if name not in facts.arguments:
                raise PicohookError(f"like.{name}: the call has no such argument")
            like[name] = shape if isinstance(shape, str) else shape.model_dump()
            if isinstance(shape, Under):
                like[name] = {UNDER: resolved(shape.under, facts.cwd)}
        _ = facts.world
        if key("", like, facts) not in facts.keys("", form_of(like)):
            raise PicohookError("the call that was approved is not one that it is for")
        return like


@dataclass(frozen=True, slots=True)
class Grant:
    """A grant that was given."""

    id: str
    hook: str
    scope: str
    place: str
    """The session, agent or project."""
    tool: str
    arguments: Mapping[str, Any]
    """The arguments that have to be equal."""
    like: Mapping[str, Any]
    """The arguments that may differ, as on the wire. Directories are resolved."""
    given: float
    until: float
    by: str
    """The channel through which it was given."""
    left: int | None = None
    """The number of calls that it is still for; None if it is not counted."""

    @property
    def shown(self) -> str:
        """One line for people: which calls it is for."""
        parts = [f"{name} = {_short(value)}" for name, value in sorted(self.arguments.items())]
        parts += [f"{name} {_said(shape)}" for name, shape in sorted(self.like.items())]
        return escape(f"{self.tool}: {', '.join(parts) or 'no arguments'}")

    def wire(self) -> dict[str, Any]:
        """The JSON for programs."""
        own = asdict(self)
        times = {name: time.strftime("%Y-%m-%dT%H:%M:%S%z", time.localtime(own[name])) for name in ("given", "until")}
        named = {"id": own.pop("id"), "calls": self.shown, "for": own.pop("scope")}
        return {**named, **own, **times, "place": self.place.replace("\0", " ")}


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _WHOLE else f"{text[:_WHOLE]}... ({len(text)} characters)"


def _said(shape: Any) -> str:
    if shape == ANYTHING:
        return "is anything"
    return f"is in {shape[UNDER]}" if UNDER in shape else f"is a command that starts with: {shlex.join(shape[STARTS])}"


# Finding. A grant has one key. A call has the keys of all grants that could be for it.


def form_of(like: Mapping[str, Any]) -> str:
    """The arguments that may differ, each with its kind of shape: all grants of a form have comparable keys."""
    return json.dumps(
        [(name, shape if shape == ANYTHING else next(iter(shape))) for name, shape in sorted(like.items())]
    )


@functools.lru_cache(maxsize=256)
def _read(form: str) -> list[tuple[str, str]]:
    return json.loads(form)  # type: ignore[no-any-return] # as `form_of` wrote it


def key(start: str, like: Mapping[str, Any], facts: Facts) -> str:
    """The key of a grant for calls like this one."""
    parts = (shape if shape == ANYTHING else next(iter(shape.values())) for _, shape in sorted(like.items()))
    return "\n".join((facts.head(start, form_of(like)), *map(json.dumps, parts)))


class Facts:
    """One call, as grants are compared with it."""

    def __init__(self, call: ToolCall) -> None:
        self.tool = call.tool
        self.arguments = call.arguments
        cwd = (call.context or {}).get("cwd")
        self.cwd = cwd if isinstance(cwd, str) and os.path.isabs(cwd) else os.getcwd()
        self._git = git_is_named(call.arguments)
        self._world = "" if self._git else self.cwd
        self._heads: dict[str, str] = {}

    @property
    def world(self) -> str:
        """The directory in which the call would run, and the state of git's configuration if the call names git.

        Raises `PicohookError` if that state cannot be told, so that no grant could ever answer.
        """
        if not self._world:
            if self._git == "elsewhere":
                raise PicohookError(
                    "the call leads git to other files than those of its directory: no grant can answer"
                )
            self._world = f"{self.cwd} {state_of_git(self.cwd)}"
        return self._world

    def is_quick(self, forms: Iterable[tuple[str, str]]) -> bool:
        """Whether the keys of these forms are found without reading a command, git's files, or links elsewhere."""
        return not self._git and all(
            kind == ANYTHING or (kind == UNDER and self._is_inside(self.arguments.get(name)))
            for _, form in forms
            for name, kind in _read(form)
        )

    def _is_inside(self, path: Any) -> bool:
        return isinstance(path, str) and os.path.normpath(os.path.join(self.cwd, path)).startswith(f"{self.cwd}/")

    def keys(self, start: str, form: str) -> list[str]:
        """The keys of the grants of this form that are for the call. May read files. Raises as `world` does."""
        parts = [self._parts(name, kind) for name, kind in _read(form)]
        if not all(parts):
            return []
        head = self.head(start, form)
        return ["\n".join((head, *chosen)) for chosen in itertools.product(*parts)]

    def head(self, start: str, form: str) -> str:
        """What all keys of this form have in common: the call without the arguments that may differ."""
        if form not in self._heads:
            left = dict(self.arguments)
            for name, _ in _read(form):
                left.pop(name, None)
            fixed = _in_order([self.world, left]).encode()
            self._heads[form] = f"{form} {hashlib.blake2b(fixed, digest_size=16).hexdigest()}"
        return f"{start} {self._heads[form]}"

    def _parts(self, name: str, kind: str) -> list[str]:
        """The shapes of this kind that the argument has."""
        value = self.arguments.get(name)
        if kind == ANYTHING:
            return [f'"{ANYTHING}"'] if name in self.arguments else []
        if not isinstance(value, str):
            return []
        if kind == UNDER:
            above = _above(resolved(value, self.cwd)) if means_one_path(value, self.cwd) else ()
            return [json.dumps(one) for one in above]
        words = command_words(value) or ()
        harmless = words and is_harmless(self.tool, self.arguments, value, self.cwd)
        return [json.dumps(one) for one in _beginnings(words) if harmless or len(one) == len(words)]


def _above(path: str) -> Iterator[str]:
    """Yields the directories that a path is in."""
    while (parent := os.path.dirname(path)) != path:
        yield (path := parent)


def _beginnings(command: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """Yields the first words of a command that a grant may name: all further ones are no options."""
    for length in range(len(command), 0, -1):
        yield command[:length]
        if command[length - 1][:1] in {"-", "+"}:
            break


# Giving.


def require_grant(grant: Mapping[str, Any], call: bytes, about: Mapping[str, Any]) -> None:
    """Raise `PicohookError` unless the host of a waiting call can keep this grant for it."""
    terms = Terms.read(grant)
    if not about.get("grants"):
        raise PicohookError("its host keeps no grants: its configuration has no [grants]")
    terms.of(_facts_of(json.loads(call), about))


def _facts_of(call: Mapping[str, Any], about: Mapping[str, Any]) -> Facts:
    context = {"cwd": about.get("directory"), **(call.get("context") or {})}
    return Facts(ToolCall(tool=call["tool"], arguments=call["arguments"], context=context))


def offers(call: Mapping[str, Any], about: Mapping[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """The grants that a person may be offered for a waiting call, each with its text. The text says all that it is for."""
    facts = _facts_of(call, about)
    arguments = facts.arguments
    inert = dict.fromkeys(INERT & arguments.keys(), ANYTHING)
    likes: list[dict[str, Any]] = [inert]
    for name, value in arguments.items():
        if not isinstance(value, str):
            continue
        command = command_words(value) if name in {"command", "cmd"} else None
        if command is not None and len(command) > 1:
            likes.append({name: {STARTS: [*command[:2]]}, **inert})
        elif name in {"path", "file_path", "notebook_path"}:
            others = dict.fromkeys(arguments.keys() - {name}, ANYTHING)
            likes.append({name: {UNDER: os.path.dirname(resolved(value, facts.cwd))}, **others})
    made = []
    for like, scope in itertools.product(likes, ("session", "project")):
        grant = {"for": scope, **({"like": like} if like else {})}
        try:
            Terms.read(grant).of(facts)
        except PicohookError:
            continue  # it could never answer
        equal = {name: value for name, value in arguments.items() if name not in like}
        made.append((f"for this {scope}: {Grant('', '', scope, '', facts.tool, equal, like, 0, 0, '').shown}", grant))
    return made
