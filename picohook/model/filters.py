"""The filter of a hook: the payloads and events that it wants, by tool, model, channel, agent and fields."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from pydantic import ConfigDict, Field, JsonValue

from .apply_edit import alike
from .deferred import DeferredModel
from .expressions import PYTHON, Expression, globs

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .events import Event
    from .payloads import Payload


class Filter(DeferredModel):
    """Matches if every part that is set matches. A field that the payload or event lacks does not match."""

    model_config = ConfigDict(frozen=True)

    tool: str | None = Field(
        default=None, description='A tool\'s name; several as "a|b"; with * ? [] a glob; between slashes a regex.'
    )
    model: str | None = Field(default=None, description="The beginning of the model's name.")
    channel: str | None = Field(default=None, description="The channel's name.")
    agent: str | None = Field(default=None, description="The agent's id.")
    when: dict[str, JsonValue] = Field(default_factory=dict, description="Fields of the payload, or of its result.")

    @property
    def unreadable(self) -> str:
        """The reason why the pattern of `tool` cannot be read, so that it matches every tool; empty if it can."""
        return "" if self.tool is None else _expression(self.tool).problem

    @property
    def is_glob(self) -> bool:
        """Whether `tool` is names or globs, and no regular expression."""
        return self.tool is not None and not _is_expression(self.tool)

    def matches(self, payload: Payload) -> bool:
        """Whether a hook with this filter is asked about the payload."""
        fields = payload.__dict__
        result = fields.get("result")
        inside = {} if result is None else result.__dict__
        return self._holds(
            fields.get("tool"),
            fields.get("model"),
            payload.channel,
            payload.meta.agent_id,
            lambda name: inside.get(name, fields.get(name)),
        )

    def matches_event(self, event: Event) -> bool:
        """Whether a hook with this filter gets the event."""
        payload: Mapping[str, Any] = event.payload
        by_name = {_plain(name): value for name, value in payload.items()}
        return self._holds(
            payload.get("Tool"), payload.get("Model"), None, event.meta.agent_id, lambda name: by_name.get(_plain(name))
        )

    def _holds(self, tool: Any, model: Any, channel: str | None, agent: str, field: Any) -> bool:
        return (
            (self.tool is None or (isinstance(tool, str) and _expression(self.tool).matches(tool)))
            and (self.model is None or (isinstance(model, str) and model.startswith(self.model)))
            and self.channel in {None, channel}
            and self.agent in {None, agent}
            and all((value := field(name)) == wanted and alike(value, wanted) for name, wanted in self.when.items())
        )

    def never_has(self, fields: Mapping[str, Any], result: Mapping[str, Any]) -> list[str]:
        """The parts of this filter that no payload with these fields can match."""
        missing = [part for part in ("tool", "model") if getattr(self, part) is not None and part not in fields]
        return missing + [f"when.{name}" for name in self.when if name not in fields and name not in result]


def exact(names: str) -> str:
    """A pattern that matches only these pipe-separated names, whatever characters they have."""
    return f"/{'|'.join(re.escape(name) for name in names.split('|'))}/"


def _is_expression(pattern: str) -> bool:
    return len(pattern) > 1 and pattern.startswith("/") and pattern.endswith("/")


@lru_cache(maxsize=1024)
def _expression(pattern: str) -> Expression:
    if _is_expression(pattern):
        return Expression(pattern[1:-1], PYTHON, whole=True)
    return globs(pattern)


def _plain(name: str) -> str:
    return name.replace("_", "").lower()
