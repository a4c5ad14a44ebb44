"""The settings of a hook: one schema for the native configuration, for hooks mounted in code, and for listings."""

import functools
import hashlib
import shlex
from collections.abc import Iterable
from enum import StrEnum
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, NamedTuple, Self, TypeAlias

from pydantic import (
    AfterValidator,
    BeforeValidator,
    ConfigDict,
    Field,
    WithJsonSchema,
    create_model,
    model_validator,
)

from ..errors import Problem
from ..wire import words
from .deferred import DeferredModel
from .filters import Filter
from .stages import MODES, STAGES

Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=1)]


def _bytes(value: Any) -> Any:
    """A size in bytes, from a number, or from a text with a unit, such as "512M". Raises `ValueError`."""
    if not isinstance(value, str):
        return value
    unit = _UNITS.get(value[-1:].upper(), 0)
    if not unit or not value[:-1].isdecimal():
        raise ValueError('must be a number of bytes, or a text with K, M, G or T, such as "512M"')
    return int(value[:-1]) * unit


def _check_globs(globs: tuple[str, ...]) -> tuple[str, ...]:
    for glob in globs:
        steps = glob.split("/")
        if {"", ".", ".."} & set(steps) or "\0" in glob:
            raise ValueError('must be globs relative to the project, such as "hooks/*.py"')
        is_mixed = any("**" in step and step != "**" for step in steps)
        if len(glob) > LONGEST_GLOB or steps.count("**") > MOST_DEEP or is_mixed:
            raise ValueError('must be simple globs, with "**" at most twice, and for whole directories')
    return globs


def _require_text(value: str) -> str:
    if not value.strip():
        raise ValueError("is empty")
    if "\0" in value:
        raise ValueError("holds a NUL character")
    return value


def _no_shell_string(value: Any) -> Any:
    if isinstance(value, str):
        msg = f"give a list, one element an argument: {value.split()!r}".replace("'", '"')
        raise ValueError(msg)
    return tuple(value) if isinstance(value, list) else value  # strict validation refuses a list from a validator


def _require_program(value: tuple[str, ...]) -> tuple[str, ...]:
    if value and not value[0]:
        raise ValueError("the program's name is empty")
    if any("\0" in argument for argument in value):
        raise ValueError("an argument holds a NUL character")
    return value


def _require_function(value: str) -> str:
    module, colon, function = value.partition(":")
    if not colon or not all(part.isidentifier() for part in f"{module}.{function}".split(".")):
        raise ValueError('must be "module:function"')
    return value


Text = Annotated[str, AfterValidator(_require_text)]
Program = Annotated[tuple[str, ...], BeforeValidator(_no_shell_string), AfterValidator(_require_program)]
"""A program and its arguments; empty for none."""
Function = Annotated[str, AfterValidator(_require_function)]
Globs = Annotated[tuple[str, ...], Field(max_length=64), AfterValidator(_check_globs)]
"""Globs for files of a project."""

_UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
Size = Annotated[
    int,
    Field(ge=1, le=1 << 62),
    BeforeValidator(_bytes),
    WithJsonSchema({"anyOf": [{"type": "integer", "minimum": 1}, {"type": "string", "pattern": "^[0-9]+[KMGTkmgt]$"}]}),
]
Contain = Literal["best", "required", "sweep", "group"]
Stdio = Literal["pipe", "socket"]
ProcessSession = Literal["shared", "own"]
if TYPE_CHECKING:
    StageName: TypeAlias = str
else:
    StageName = Literal[tuple(STAGES)]

Layer = Literal["builtin", "system", "user", "project", "session"]
SYSTEM_SHARE = 0.5
"""The part of a chain's time that the system's hooks may take together, from the first of them on. The rest is for others."""

LONGEST_GLOB, MOST_DEEP = 512, 2
"""The most characters of a glob, and how often it may have `**`."""
OF_SESSION = "@session"
"""The names of a session's own hooks end in this, and no other names do."""

KINDS = {
    "command": "picohook.hooks.process:ProcessHook",
    "run": "picohook.hooks.command:CommandHook",
    "python": "picohook.hooks.python:PythonHook",
}
"""The core's kinds of hook: the key that says what a hook runs, and the class of the hook. Extensions have more."""


class OnFailure(StrEnum):
    """The consequence of an interceptor's failure. An approver's failure is always a denial."""

    CONTINUE = "continue"
    DENY = "deny"
    ABORT = "abort"


class RespondRule(StrEnum):
    """The tools that a hook may answer without approval."""

    OWN = "own"
    APPROVE = "approve"
    FORBID = "forbid"


class Settings(DeferredModel):
    """A frozen group of settings. An unknown name is an error."""

    model_config = ConfigDict(frozen=True)


class RestartPolicy(Settings):
    """The number of starts after which the host gives up a process."""

    max_starts: int = Field(
        default=5, ge=1, description="After more starts within the window it is FAILED, until reset."
    )
    window: Seconds = Field(default=60.0, description="Seconds over which starts are counted.")


class Limits(Settings):
    """Limits on a hook's processes. A hook does not start if the machine cannot enforce a limit."""

    memory: Size | None = Field(default=None, description="The most address space of each process, in bytes.")
    cpu_seconds: Count | None = Field(default=None, description="The most processor time of each process, in seconds.")
    open_files: Count | None = Field(default=None, description="The most descriptors of each process.")
    file_size: Size | None = Field(default=None, description="The size of the largest file that it may write.")
    processes: Count | None = Field(default=None, description="The most processes and threads, all together.")


class Sandbox(Settings):
    """The files and the network that a hook may use. A hook does not start if the machine cannot enforce this."""

    read_only: tuple[str, ...] = Field(
        default=("/",), description="Paths that it may read and run, relative to its dir."
    )
    writable: tuple[str, ...] = Field(default=(), description="Paths that it may also write.")
    network: bool = Field(default=False, description="Whether it has a network.")


class Canary(Settings):
    """A tool call that a gate must deny. It is asked about it without calling the tool."""

    tool: str = Field(min_length=1, description="The tool's name.")
    arguments: dict[str, Any] = Field(default_factory=dict, description="The arguments of the call.")


class Parts(Settings):
    """The intervals at which a hook is asked about parts of a response, and the amount of them that the user sees."""

    characters: int = Field(default=64, ge=1, description="New characters before it is asked again.")
    interval: float = Field(
        default=0.1, ge=0, allow_inf_nan=False, description="Seconds before it is asked again, at the least."
    )
    window: int = Field(default=256, ge=0, description="Characters at the end that the user does not see yet.")

    def along_with(self, other: "Parts") -> "Parts":
        """Returns the settings for two hooks that are asked together: the larger values."""
        return Parts(**{name: max(value, getattr(other, name)) for name, value in self})


class Timeouts(Settings):
    """Timeouts in seconds: the defaults for hooks that do not set their own."""

    observer: Seconds = Field(default=0.5, description="Seconds to wait for an event to be written.")
    interceptor: Seconds = Field(default=5.0, description="Seconds for one question to an interceptor.")
    approval: Seconds = Field(default=60.0, description="Seconds for one question to an approver.")
    hello: Seconds = Field(default=5.0, description="Seconds from a hook's start to its hello.")
    chain: Seconds = Field(default=30.0, description="Seconds for all interceptors of one stage together.")


class Service(NamedTuple):
    """A service that a hook asks, as the configuration names it."""

    title: str
    """The service, for people; empty if the configuration names none."""
    problem: Problem | None
    """The reason why it cannot be asked."""


class HookSpec(Settings):
    """One hook.

    `HookSpec(...)` and `HookSpec.model_validate` return the class of the hook's kind: with a key of an extension, a subclass.
    """

    SET_ELSEWHERE: ClassVar[dict[str, str]] = dict.fromkeys(
        ("name", "layer", "source", "depth", "tables"), "a hook's name is its key"
    )
    """The fields that a hook's own table in a file cannot set, and what sets them."""

    waits_for_person: ClassVar[bool] = False
    """Whether such a hook may wait for a person, so that only its own timeout limits it."""

    name: str = Field(default="", description="Unique; set by the key in a configuration file.")
    layer: Layer | None = Field(default=None, exclude=True, description="Set by its origin.")
    source: str = Field(default="", exclude=True, description="The file it comes from.")
    depth: int = Field(default=0, exclude=True, description="How many directories its project is in.")
    tables: dict[str, Any] = Field(
        default_factory=dict,
        exclude=True,
        description="The tables that it wants and that count for it, each with its file.",
    )
    command: Program = Field(default=(), description="The program and its arguments, which keeps running.")
    run: Text | None = Field(default=None, description="A shell command, run for each question.")
    python: Function | None = Field(
        default=None, description='A function of the host\'s own process: "module:function".'
    )
    fallback: str | None = Field(
        default=None, description="The hook of the same file that decides if this one fails, except at approve_tool."
    )
    stages: tuple[StageName, ...] = Field(default=(), description="The stages at which it is asked.")
    observe: tuple[str, ...] = Field(default=(), description='The event kinds that it observes; "*" for all.')
    events: Literal["legacy", "runtime"] = Field(default="legacy", description="The dialect of its events.")
    priority: int = Field(default=100, description="Lower numbers are asked first.")
    timeout: Seconds | None = Field(default=None, description="Seconds for one question, except at approve_tool.")
    approval_timeout: Seconds | None = Field(default=None, description="Seconds for one question at approve_tool.")
    hello_timeout: Seconds | None = Field(
        default=None, description="Seconds from its start to its answer to hook.hello."
    )
    timeouts: dict[StageName, Seconds] = Field(default_factory=dict, description="Seconds for one question, by stage.")
    on_failure: OnFailure = Field(default=OnFailure.CONTINUE, description="What its failure does to the call.")
    provides: tuple[str, ...] = Field(default=(), description="Tools that it may answer without approval.")
    respond: RespondRule = Field(default=RespondRule.OWN, description="The tools that it may answer.")
    may_edit: tuple[Literal["tools", "system", "messages"], ...] = Field(
        default=("tools", "system", "messages"), description="The parts of a before_llm request that it may change."
    )
    env: dict[str, str] = Field(default_factory=dict, description="Variables to add to its environment.")
    inherit_env: bool | tuple[str, ...] = Field(
        default=False, description="The host's variables that it inherits too, by name; true: all."
    )
    dir: str | None = Field(default=None, description="Its working directory.")
    restart: RestartPolicy = Field(default_factory=RestartPolicy, description="When its process is given up.")
    required: bool = Field(default=False, description="Whether the host needs it to start.")
    filter: Filter | None = Field(default=None, description="The payloads and events that it wants; by default all.")
    after: tuple[str, ...] = Field(default=(), description="Hooks that are asked before it.")
    guard: bool = Field(default=False, description="Whether it is asked again if the call changed after it.")
    stream: bool | Parts = Field(
        default=False, description="Whether it is asked about parts of a response, too, while the model writes."
    )
    max_in_flight: int | None = Field(default=None, ge=1, description="The most requests at once; the others wait.")
    retry: int = Field(default=0, ge=0, le=100, description="How often a failed interceptor is asked again.")
    overlap: bool = Field(default=True, description="Whether old and new process may run together at a reload.")
    enabled: bool = Field(default=True, description="Whether it is used.")
    max_line_bytes: int = Field(default=words.MAX_LINE, ge=1, description="Bytes of the longest line it may write.")
    grace: Seconds = Field(default=2.0, description="Seconds from the end of its stdin to TERM, and from TERM to KILL.")
    contain: Contain = Field(
        default="best", description="The containment that it needs; without it, the hook does not start."
    )
    stdio: Stdio = Field(
        default="pipe",
        description="The kind of its standard input and output. Another process cannot open a socket.",
    )
    session: ProcessSession = Field(
        default="shared",
        description="The session of its process: the host's, without its terminal, or one of its own.",
    )
    limits: Limits | None = Field(default=None, description="Limits on its processes.")
    sandbox: Sandbox | None = Field(
        default=None, description="The files and the network that it may use; by default all."
    )
    trust: Globs | None = Field(
        default=None,
        description="Globs for the project's files that it runs, if its command does not name them; [] for none.",
    )
    canary: Canary | None = Field(
        default=None, exclude=True, description="A tool call that it must deny, for picohook doctor and proofs of life."
    )

    def __new__(cls, *_: Any, **settings: Any) -> Self:
        return super().__new__(cls.with_keys(settings))

    @classmethod
    def model_validate(cls, obj: Any, **options: Any) -> Self:
        """The settings, as an object of their kind's class. Raises `ValidationError`."""
        kind = cls.with_keys(obj) if isinstance(obj, dict) else cls
        return super(HookSpec, kind).model_validate(obj, **options)

    @classmethod
    def with_keys(cls, keys: Iterable[str]) -> type[Self]:
        """The class of a hook with these keys: this one, or that of the kind that one of the keys names.

        It has the keys that extensions add to every hook. Raises `PicohookError` if two packages have one of the keys.
        """
        others = [key for key in keys if key not in cls.model_fields]
        if not others:
            return cls
        from ..extensions import find  # a program whose hooks have none does without the rows

        found = [find("kinds", key) for key in others if cls is HookSpec]
        kind: type[Self] = next((one.load() for one in found if one is not None), cls)
        more = [key for key in others if key not in kind.model_fields and find("hook_keys", key) is not None]
        if more:
            kind = _with_hook_keys(kind, *sorted(more))
        return kind

    @model_validator(mode="after")
    def _one_kind(self) -> "HookSpec":
        kinds = [kind for kind in dict.fromkeys((*KINDS, self.kind)) if getattr(self, kind, None)]
        if len(kinds) > 1:
            from ..extensions import every

            raise ValueError(f"has {' and '.join(kinds)}: a hook is one of {', '.join((*KINDS, *every('kinds')))}")
        return self

    @model_validator(mode="after")
    def _implied_defaults(self) -> "HookSpec":
        if self.guard and "on_failure" not in self.model_fields_set:
            object.__setattr__(self, "on_failure", OnFailure.DENY)
        if self.events == "legacy" and any(kind in words.RUNTIME_KINDS for kind in self.observe):
            object.__setattr__(self, "events", "runtime")
        return self

    def timeout_at(self, stage: str, defaults: Timeouts, *, approves: bool) -> float:
        """The hook's timeout at a stage: the one for this stage, else the one for its kind of stage, else the default."""
        own = self.timeouts.get(stage)
        kind = self.approval_timeout if approves else self.timeout
        return own or kind or (defaults.approval if approves else defaults.interceptor)

    @property
    def parts(self) -> Parts | None:
        """The settings by which it is asked about parts of a response; None if it is not asked."""
        return Parts() if self.stream is True else self.stream or None

    @property
    def runs(self) -> str:
        """Its command, or the other thing that it runs, as text."""
        program = getattr(self, self.kind)
        return shlex.join(program) if isinstance(program, tuple) else program

    @property
    def kind(self) -> str:
        """The kind of hook: the key that says what it runs. A class of another kind returns its own."""
        return next((kind for kind in KINDS if getattr(self, kind)), "command")

    def make(self) -> Any:
        """Returns the hook, a `picohook.Hook` that was not mounted yet. A class of another kind returns its own."""
        module, _, name = KINDS[self.kind].partition(":")
        return getattr(import_module(module), name)(self)

    @property
    def is_run_anew(self) -> bool:
        """Whether it is run anew for each question and each event."""
        return self.run is not None

    @property
    def members(self) -> "tuple[HookSpec, ...]":
        """The settings of its parts: itself alone, unless it is a group of handlers."""
        return (self,)

    @property
    def wants(self) -> tuple[str, ...]:
        """The keys of the configuration's tables that it needs. They may be in another file than the hook."""
        return ()

    def service(self) -> Service | None:
        """The service that it asks, such as a model; None if it asks none."""
        return None

    @property
    def examined(self) -> "HookSpec":
        """The settings in which the files that it runs are looked for."""
        return self

    @property
    def settings_files(self) -> tuple[str, ...]:
        """The files that it is written in, beside `source`."""
        return ()

    @property
    def fingerprint(self) -> str:
        """A digest of the settings, the same in every process."""
        return hashlib.sha256(f"{type(self).__name__} {self.model_dump_json()}".encode()).hexdigest()[:32]

    @property
    def modes(self) -> tuple[str, ...]:
        """The modes that `hook.hello` names."""
        asked = tuple(mode for mode, stages in MODES.items() if any(stage in self.stages for stage in stages))
        return ((words.OBSERVE,) if self.observe else ()) + asked

    @property
    def asked_at(self) -> tuple[StageName, ...]:
        """The stages at which the hook is asked."""
        return self.stages

    @property
    def kinds(self) -> frozenset[str]:
        """The event kinds that the hook observes, by their legacy names."""
        if any(kind in words.EVERY_KIND for kind in self.observe):
            return frozenset(words.EVENT_KINDS)
        return frozenset(words.RUNTIME_KINDS.get(kind, kind) for kind in self.observe)


class _KeyedSpec:
    """The settings of a hook with the keys that extensions add."""

    KIND: ClassVar[type[HookSpec]]
    HOOK_KEYS: ClassVar[tuple[str, ...]]

    def make(self) -> Any:
        from ..extensions import find

        made = self.KIND.make(self)  # type: ignore[arg-type] # it is one
        for key in self.HOOK_KEYS:
            made = find("hook_keys", key).apply.load()(made, getattr(self, key))
        return made

    def __reduce__(self) -> Any:  # its class has no name from which it could be imported
        return _blank, (self.KIND, *self.HOOK_KEYS), self.__getstate__()


@functools.cache
def _with_hook_keys(kind: type[HookSpec], *keys: str) -> Any:
    """The settings of this kind, with keys that extensions add to every hook."""
    from ..extensions import find

    rows = {key: find("hook_keys", key) for key in keys}
    fields: dict[str, Any] = {key: (row.type.load(), Field(description=row.description)) for key, row in rows.items()}
    made: Any = create_model(kind.__name__, __base__=(_KeyedSpec, kind), __module__=kind.__module__, **fields)
    made.KIND, made.HOOK_KEYS = kind, keys
    return made


def _blank(kind: type[HookSpec], *keys: str) -> HookSpec:
    made: HookSpec = HookSpec.__new__(_with_hook_keys(kind, *keys))
    return made


def python_file(spec: HookSpec) -> Path | None:
    """The file that `python` names in the hook's directory; None if there is no such file."""
    if spec.python is None or spec.dir is None:
        return None
    module = Path(spec.dir, *spec.python.partition(":")[0].split("."))
    return next((file for file in (module.with_suffix(".py"), module / "__init__.py") if file.is_file()), None)


class WholeModeSpec(HookSpec):
    """The settings of a hook that names modes. If it names one stage of a mode, it is asked at all stages of that mode."""

    @property
    def asked_at(self) -> tuple[StageName, ...]:
        """The stages of its modes. At a stage that it does not know, it may answer "method not found"."""
        return tuple(stage for mode in self.modes for stage in MODES.get(mode, ()))
