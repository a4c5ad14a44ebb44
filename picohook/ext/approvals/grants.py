"""Grants: the later calls for which the yes of an approver counts too, and whether a call is one of them."""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import shlex
import time
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal, Union

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ...errors import PicohookError
from ...model.payloads import ToolCall
from ...protocol.codec import encode_ordered
from ...wire.text import escape
from .world import (
    command_words,
    git_is_named,
    is_harmless,
    path_at_once,
    resolved,
    resolved_for_all,
    state_of_git,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

LASTS = 12 * 3600.0
"""The seconds for which a grant holds that says nothing about it."""
LONGEST = 366 * 86400.0
INERT = frozenset({"description"})
"""The arguments that only explain a call to people."""
ANYTHING = "anything"
UNDER, STARTS = "under", "starts"
_WHOLE = 120
"""The most characters of a value that a line shows."""


Shape = Union[
    Annotated[dict[Literal["under"], Annotated[str, Field(min_length=1)]], Field(min_length=1)],
    Annotated[dict[Literal["starts"], Annotated[list[str], Field(min_length=1)]], Field(min_length=1)],
    Literal["anything"],
]
"""A path in this directory; a command with these first words, and no further option; any value."""


class Terms(BaseModel):
    """A grant as an approver writes it. A field that is not known makes it no grant: it may have been a limit."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    scope: Literal["session", "agent", "project"] = Field(alias="for")
    like: dict[str, Shape] = Field(default_factory=dict)
    times: int | None = Field(default=None, ge=1, le=10_000)
    seconds: float | None = Field(default=None, gt=0, le=LONGEST)

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
        if self.scope not in facts.scopes:
            raise PicohookError(f"the call has no {self.scope}: no later call can be of the same")
        shapes: dict[str, Any] = self.like
        like = {
            name: {UNDER: resolved(shape[UNDER], facts.cwd)} if UNDER in shape else shape
            for name, shape in shapes.items()
        }
        _ = facts.world
        if not facts.fit(like):
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
    def name(self) -> str:
        """Its id, and when it was given."""
        return f"grant {self.id} of {time.strftime('%Y-%m-%d %H:%M', time.localtime(self.given))}"

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


# Finding.


class MayWaitError(Exception):
    """The answer needs what may wait for a disk, a server or another program."""


class Facts:
    """One call, as grants are compared with it."""

    def __init__(self, call: ToolCall, *, at_once: bool = False) -> None:
        """With `at_once`, methods raise `MayWaitError` where they would have to wait."""
        self.call = call
        self.at_once = at_once
        cwd = call.context and call.context.get("cwd")
        self.cwd = cwd if isinstance(cwd, str) and os.path.isabs(cwd) else os.getcwd()
        self._paths: dict[str, str] = {}
        self._git = git_is_named(call.arguments)
        self._world = "" if self._git else self.cwd

    @property
    def scopes(self) -> dict[str, str]:
        """The name of the call's session and agent, as far as it has them, and of its project, by scope."""
        named = {"session": self.call.meta.session_key, "agent": self.call.meta.agent_id}
        return {**{scope: name for scope, name in named.items() if name}, "project": ""}

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
            self.may_wait()
            self._world = f"{self.cwd} {state_of_git(self.cwd)}"
        return self._world

    def may_wait(self) -> None:
        """Raise `MayWaitError` if the answer has to come at once."""
        if self.at_once:
            raise MayWaitError

    def key(self, start: str, names: Sequence[str]) -> bytes:
        """What grants with this start are found by, if the arguments with these names may differ. Raises as `world` does."""
        equal = self.call.arguments
        if names:
            equal = {name: value for name, value in equal.items() if name not in names}
        text = encode_ordered((start, names, self.world, equal))
        return hashlib.blake2b(text, digest_size=16).digest()

    def fit(self, like: Mapping[str, Any]) -> bool:
        """Whether the arguments that may differ have these shapes."""
        arguments = self.call.arguments
        for name, shape in like.items():
            if name not in arguments or (shape != ANYTHING and not self._has_shape(arguments[name], shape)):
                return False
        return True

    def _has_shape(self, value: Any, shape: Mapping[str, Any]) -> bool:
        if not isinstance(value, str):
            return False
        if UNDER in shape:
            path, inside = self._path(value), f"{shape[UNDER].rstrip('/')}/"
            return path.startswith(inside) and path != inside
        self.may_wait()
        words, first = command_words(value, self.cwd), shape[STARTS]
        if [*words[: len(first)]] != first:
            return False
        rest = words[len(first) :]
        is_option = any(word[:1] in {"-", "+"} for word in rest)
        return not rest or (not is_option and is_harmless(self.call.tool, self.call.arguments, value, self.cwd))

    def _path(self, value: str) -> str:
        """A path without links; empty if tools may understand it in different ways."""
        if (path := self._paths.get(value)) is None:
            path = path_at_once(value, self.cwd)
            if not path:
                self.may_wait()
                path = resolved_for_all(value, self.cwd)
            self._paths[value] = path
        return path


# Giving.


def require_grant(grant: Mapping[str, Any], call: bytes, about: Mapping[str, Any]) -> None:
    """Raise `PicohookError` unless the host of a waiting call can keep this grant for it."""
    terms = Terms.read(grant)
    if not about.get("grants"):
        raise PicohookError("its host keeps no grants: its configuration has no [grants]")
    terms.of(_facts_of(json.loads(call), about))


def _facts_of(call: Mapping[str, Any], about: Mapping[str, Any]) -> Facts:
    context = {"cwd": about.get("directory"), **(call.get("context") or {})}
    return Facts(ToolCall.model_validate({**call, "context": context}))


def offers(call: Mapping[str, Any], about: Mapping[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """The grants that a person may be offered for a waiting call, each with its text. The text says all that it is for."""
    facts = _facts_of(call, about)
    arguments = facts.call.arguments
    inert = dict.fromkeys(INERT & arguments.keys(), ANYTHING)
    likes: list[dict[str, Any]] = [inert]
    for name, value in arguments.items():
        if not isinstance(value, str):
            continue
        command = command_words(value, facts.cwd) if name in {"command", "cmd"} else None
        if command is not None and len(command) > 1:
            likes.append({name: {STARTS: [*command[:2]]}, **inert})
        elif name in {"path", "file_path", "notebook_path"}:
            others = dict.fromkeys(arguments.keys() - {name}, ANYTHING)
            likes.append({name: {UNDER: os.path.dirname(resolved(value, facts.cwd))}, **others})
    made = []
    for like, scope in itertools.product(likes, facts.scopes):
        grant = {"for": scope, **({"like": like} if like else {})}
        try:
            Terms.read(grant).of(facts)
        except PicohookError:
            continue  # it could never answer
        equal = {name: value for name, value in arguments.items() if name not in like}
        shown = Grant("", "", scope, "", facts.call.tool, equal, like, 0, 0, "").shown
        made.append((f"for this {scope}: {shown}", grant))
    return made
