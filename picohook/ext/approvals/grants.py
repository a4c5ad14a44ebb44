"""Grants: the later calls for which the yes of an approver counts too, and whether a call is one of them."""

import contextlib
import hashlib
import itertools
import json
import os
import secrets
import shlex
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Annotated, Any, Literal, Self, Union

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ...errors import PicohookError
from ...model.payloads import ToolCall
from ...protocol.codec import encode_ordered
from ...wire.text import escape
from .world import command_words, git_is_named, is_harmless, path_at_once, resolved, resolved_for_all, state_of_git

LASTS = 12 * 3600.0
"""The seconds for which a grant holds that says nothing about it."""
LONGEST = 366 * 86400.0
INERT = frozenset({"description"})
"""The arguments that only explain a call to people."""
ANYTHING, UNDER, STARTS = "anything", "under", "starts"
_WHOLE = 120
"""The most characters of a value that a line shows."""

Shape = Union[
    Annotated[dict[Literal["under"], Annotated[str, Field(min_length=1)]], Field(min_length=1)],
    Annotated[dict[Literal["starts"], Annotated[list[str], Field(min_length=1)]], Field(min_length=1)],
    Literal["anything"],
]
"""A path in this directory; a command with these first words, and no further option; any value."""


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
        equal = self.without(names) if names else self.call.arguments
        text = encode_ordered((start, names, self.world, equal))
        return hashlib.blake2b(text, digest_size=16).digest()

    def without(self, names: Sequence[str] | Mapping[str, Any]) -> dict[str, Any]:
        """The arguments but those with these names."""
        return {name: value for name, value in self.call.arguments.items() if name not in names}

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
        rest = words[len(first) :]
        if [*words[: len(first)]] != first or any(word[:1] in {"-", "+"} for word in rest):
            return False
        return not rest or is_harmless(self.call.tool, self.call.arguments, value, self.cwd)

    def _path(self, value: str) -> str:
        """A path without links; empty if tools may understand it in different ways."""
        if (path := self._paths.get(value)) is None:
            path = path_at_once(value, self.cwd)
            if not path:
                self.may_wait()
                path = resolved_for_all(value, self.cwd)
            self._paths[value] = path
        return path


@dataclass(frozen=True, slots=True)
class Grant:
    """A grant that was given."""

    id: str
    hook: str
    scope: str
    place: str
    """The project, and in it the session or agent."""
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
        return {**named, **own, **times}


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _WHOLE else f"{text[:_WHOLE]}... ({len(text)} characters)"


def _said(shape: Any) -> str:
    if shape == ANYTHING:
        return "is anything"
    return f"is in {shape[UNDER]}" if UNDER in shape else f"is a command that starts with: {shlex.join(shape[STARTS])}"


class Terms(BaseModel):
    """A grant as an approver writes it. A field that is not known makes it no grant: it may have been a limit."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    scope: Literal["session", "agent", "project"] = Field(alias="for")
    like: dict[str, Shape] = Field(default_factory=dict)
    times: int | None = Field(default=None, ge=1, le=10_000)
    seconds: float | None = Field(default=None, gt=0, le=LONGEST)

    @classmethod
    def read(cls, grant: Mapping[str, Any]) -> Self:
        """Returns the terms. Raises `PicohookError` for what is no grant."""
        try:
            return cls.model_validate(dict(grant))
        except ValidationError as error:
            first = error.errors(include_url=False, include_context=False)[0]
            place = ".".join(map(str, first["loc"])) or "the grant"
            raise PicohookError(f"{place}: {first['msg']}") from None

    def given(self, facts: Facts, hook: str = "", project: str = "", by: str = "") -> Grant:
        """Returns the grant with this call.

        Raises `PicohookError` if it is not for the call itself, or could never answer for one like it.
        """
        if self.scope not in facts.scopes:
            raise PicohookError(f"the call has no {self.scope}: no later call can be of the same")
        shapes: dict[str, Any] = self.like
        like = {
            name: {UNDER: resolved(shape[UNDER], facts.cwd)} if UNDER in shape else shape
            for name, shape in shapes.items()
        }
        if facts.world and not facts.fit(like):
            raise PicohookError("the call that was approved is not one that it is for")
        made, place = secrets.token_hex(4), f"{project} {facts.scopes[self.scope]}".strip()
        now, equal = time.time(), facts.without(like)
        until = now + (self.seconds or LASTS)
        return Grant(made, hook, self.scope, place, facts.call.tool, equal, like, now, until, by, self.times)


# For the queue: grants for a call that waits, and what its host has told about it.


def require_grant(grant: Mapping[str, Any], call: bytes, about: Mapping[str, Any]) -> None:
    """Raise `PicohookError` unless the host of a waiting call can keep this grant for it."""
    terms = Terms.read(grant)
    if not about.get("grants"):
        raise PicohookError("its host keeps no grants: its configuration has no [grants]")
    terms.given(_facts_of(json.loads(call), about))


def offers(call: Mapping[str, Any], about: Mapping[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """The grants that a person may be offered for a waiting call, each with its text. The text says all that it is for."""
    facts = _facts_of(call, about)
    arguments = facts.call.arguments
    inert = dict.fromkeys(INERT & arguments.keys(), ANYTHING)
    likes: list[dict[str, Any]] = [inert]
    for name, value in arguments.items():
        if name in {"command", "cmd"} and isinstance(value, str):
            if len(words := command_words(value, facts.cwd)) > 1:
                likes.append({name: {STARTS: [*words[:2]]}, **inert})
        elif name in {"path", "file_path", "notebook_path"} and isinstance(value, str):
            others = dict.fromkeys(arguments.keys() - {name}, ANYTHING)
            likes.append({name: {UNDER: os.path.dirname(resolved(value, facts.cwd))}, **others})
    made = []
    for like, scope in itertools.product(likes, facts.scopes):
        grant = {"for": scope, **({"like": like} if like else {})}
        with contextlib.suppress(PicohookError):  # it could never answer
            made.append((f"for this {scope}: {Terms.read(grant).given(facts).shown}", grant))
    return made


def _facts_of(call: Mapping[str, Any], about: Mapping[str, Any]) -> Facts:
    context = {"cwd": about.get("directory"), **(call.get("context") or {})}
    return Facts(ToolCall.model_validate({**call, "context": context}))
