"""The table of a vendor, `vendor.toml` in its folder: its events, its files, and its agent.

A field of its JSON has a constant, or a word of `words.py` with a dollar sign.
"""

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field, field_validator

from ...model.spec import Settings


class Row(Settings):
    """One event: where its handlers are asked, which fields they read and write, and how the shim is asked."""

    name: str = ""
    """The vendor's name of the event: its key in the table."""
    stage: str = ""
    """The stage at which its handlers are asked; empty if they only observe, or never run."""
    kind: str = ""
    """The kind of event at which they run, if there is no stage."""
    why: str = ""
    """The reason why picohook does not support the event; empty if it does."""
    gate: bool = False
    """Whether its handlers can refuse something in the vendor's agent. In strict, a failure of such a handler is a refusal."""
    matched: str = ""
    """The field that matchers are compared with, or the fixed word for this event; empty if matchers are ignored."""
    once: bool = False
    """Whether it happens once a session, at the first prompt."""
    tools: tuple[str, ...] = ()
    """The tools of the common table that it is about, or "MCP" for those of servers; empty for all."""
    results: Literal["all", "good", "failed"] = "all"
    """The results that it is about."""
    needs: str = ""
    """A word without which it does not happen."""
    of_subagents: bool = True
    """Whether an event that is only observed happens in subagents, too."""
    reads: dict[str, Any] = Field(default_factory=dict)
    """The fields that its handlers read, beside the common ones, each with its word or constant."""
    files: dict[str, str] = Field(default_factory=dict)
    """Fields that have the text of a file, each with the word for its path."""
    writes: dict[str, str] = Field(default_factory=dict)
    """The fields that its handlers write, beside those for all events, each with the part of a `HandlerAnswer` that it is.

    It is empty for a field that `contract.py` reads.
    """
    verdicts: dict[str, str] = Field(default_factory=dict)
    """The words for verdicts, if they differ here from those at other events."""
    ends: bool = False
    """Whether `continue: false` counts. A vendor for which it counts at every event does without this."""
    text_is_context: bool = False
    """Whether output that is no JSON is context for the model."""
    blocks: str = ""
    """The effect of a block here, for people; empty if it has no effect."""
    replaces: Literal["", "text", "all"] = ""
    """Whether the reason of a block replaces a result: its text for the model, or all of it."""
    unsupported: dict[str, str] = Field(default_factory=dict)
    """Fields that picohook does not support, each with the reason."""
    on_failure: Literal["", "deny", "tell", "stop", "pass"] = ""
    """The shim's reaction to a missing answer: deny, the same with the reason on stdout, stop the agent, or let the call pass.

    Empty if it is not asked.
    """
    longest: float = float("inf")
    """The longest time-out that the agent gives the shim here, in seconds."""
    says: dict[str, dict[str, Any]] = Field(default_factory=dict)
    """The fields with which the shim says each part of a `HandlerAnswer`. A part that is absent cannot be said here."""

    @property
    def supported(self) -> bool:
        """Whether its handlers run."""
        return bool(self.stage or self.kind)

    @property
    def at(self) -> str:
        """The stage at which the shim asks hooks, or the kind of event that observers get."""
        return "session_start" if self.once else self.stage or self.kind


class Files(Settings):
    """The form of a vendor's hook files."""

    types: dict[str, str]
    """The types of handlers. Each type that picohook does not support has the reason, and the others an empty text."""
    keys: tuple[str, ...]
    """The keys of a handler that the agent knows."""
    group_keys: tuple[str, ...] = ("matcher", "hooks")
    layout: Literal["groups", "handlers", "both"] = "groups"
    """The members of an event's list: groups of handlers with one matcher, or handlers with a matcher each."""
    in_order: bool = False
    """Whether handlers always run one after the other."""
    once_each: bool = False
    """Whether only the first of handlers with the same name and command runs."""
    shell: Literal["", "bash", "login"] = ""
    """The shell of a command; `sh` if it is empty."""
    timeout: float = 600.0
    """The default timeout, in seconds."""
    timeouts: dict[str, float] = Field(default_factory=dict)
    """The default timeout at an event, or of a type of handler."""
    longest_timeouts: dict[str, float] = Field(default_factory=dict)
    """The longest timeout of some events."""
    shortest_timeout: float = 0.0
    unit: float = 1.0
    """The seconds of a timeout of 1."""
    most_blocks: int | None = None
    """How often a handler may keep a turn from ending, if it does not say it; None if all share a limit of 8 times in a row."""
    schemes: tuple[str, ...] = ("http", "https")
    """The schemes that the URL of a handler may have."""
    only_commands: tuple[str, ...] = ()
    """Events at which only commands run."""
    not_events: tuple[str, ...] = ()
    """Keys of `hooks` that are not events."""
    expands_env: bool = False
    """Whether variables in the values of `env` are replaced."""
    templates: dict[str, str] = Field(default_factory=dict)
    """Texts in commands that are replaced, each with the other text."""
    directories: tuple[str, ...]
    """The directories of a project that have its files."""
    beside_the_file: bool = False
    """Whether the handlers of any other file run in its directory."""
    env: dict[str, str] = Field(default_factory=dict)
    """Variables of handlers. A value may name {project}."""
    plugins: tuple[str, ...] = ()
    """The directories of a plugin that have its files."""
    plugin_env: dict[str, str] = Field(default_factory=dict)
    """Variables of a plugin's handlers. A value may name {project}, {plugin} and {data}, the directory for its data."""
    off: dict[str, bool] = Field(default_factory=dict)
    """The settings that switch all hooks off, each with its value. Here and below, a key of a table in a table has a dot."""
    disabled: str = ""
    """The key of a list of handlers that are switched off, each by its name, or by its command if it has none."""
    allowed_urls: str = ""
    """The key of a list of patterns of the URLs that handlers may have."""
    allowed_env: str = ""
    """The key of a list of the environment variables that headers may name."""
    has_version: bool = False
    """Whether files have a `version`, which is 1."""

    def known(self, handler: Mapping[str, Any]) -> dict[str, Any]:
        """The settings of a handler that the agent knows."""
        return {key: handler[key] for key in handler if key in self.keys}


class Shim(Settings):
    """The vendor's agent, as the shim sees it."""

    title: str = ""
    """Its name, if it is another than that of its hook files."""
    user_file: str
    """The user's hook file, from `~`."""
    project_file: str
    home: str = ""
    """The environment variable that replaces the directory of `user_file`."""
    runs: tuple[str, ...]
    """The dialects of the files whose hooks the agent runs itself, so that the shim does not."""
    opens: str
    """A text for people: when the agent lets a call pass although the shim has not answered."""
    asks: bool = True
    """Whether a hook can let the agent ask its user about a call."""
    asks_about_changed: bool = True
    """Whether the agent then runs the call as hooks have changed it."""
    texts: tuple[str, ...] = ()
    """The fields of a tool's output that have its text, if the output is a table of the vendor's own."""
    also: dict[str, str] = Field(default_factory=dict)
    """Fields that only the agent itself sends, with their words."""
    file: dict[str, Any] = Field(default_factory=dict)
    """The other keys of a new hook file."""
    entry: dict[str, Any]
    """The handler in the hook file."""
    closed: dict[str, Any] = Field(default_factory=dict)
    """More of it at an event where a missing answer refuses."""


class VendorTable(Settings):
    """The table of one system with its hooks."""

    title: str
    version: str
    """The version of the contract that picohook follows."""
    events: dict[str, Row]

    @field_validator("events")
    @classmethod
    def _named(cls, events: dict[str, Row]) -> dict[str, Row]:
        return {name: row.model_copy(update={"name": name}) for name, row in events.items()}

    common: dict[str, Any]
    """The fields that all handlers read, each with its word or constant."""
    answers: dict[str, str] = Field(default_factory=dict)
    """The fields that all handlers may write, each with the part of a `HandlerAnswer` that it is."""
    inside: str = ""
    """The field of an answer that has the fields of the event; empty if they are beside the others."""
    verdicts: dict[str, str] = Field(default_factory=lambda: {word: word for word in ("allow", "deny", "ask")})
    """The words for verdicts in answers."""
    renamed: dict[str, str] = Field(default_factory=dict)
    """Earlier names of fields, which handlers may still use in answers."""
    unsupported: dict[str, str]
    """Fields, settings of a file and environment variables that picohook does not support, each with the reason."""
    env: dict[str, str] = Field(default_factory=dict)
    """Environment variables that tell handlers of the event, with their words."""
    language: Literal["javascript", "rust"] = "javascript"
    """The language of expressions in matchers."""
    lists: str = ""
    """The expression for a matcher that is a list of names; empty if none is."""
    earlier_names: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    """Other names of tools that matchers may have."""
    tools: dict[str, str] = Field(default_factory=dict)
    """Its names for the tools of the common table, where they differ."""
    tool_fields: dict[str, dict[str, str]] = Field(default_factory=dict)
    """Its names for the fields of these tools, where they differ."""
    more_tools: dict[str, str] = Field(default_factory=dict)
    """More tools of its own, each with the tool of the common table that it is."""
    server_tools: str = ""
    """The form of the name of a server's tool, if it is not `mcp__SERVER__TOOL`."""
    hides: tuple[str, ...] = ()
    """Beginnings of names of environment variables that handlers do not inherit."""
    files: Files
    shim: Shim
    says: dict[str, dict[str, Any]] = Field(default_factory=dict)
    """The fields with which the shim says a part of a `HandlerAnswer` at every event."""
