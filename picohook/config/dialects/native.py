"""The native format, the same in TOML, YAML and JSON: `defaults`, and a table for each of the `hooks`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from pydantic import ConfigDict, Field, JsonValue, field_validator

from ...model.spec import (
    KINDS_OF_HOOK,
    Contain,
    HookSpec,
    OnFailure,
    RespondRule,
    RestartPolicy,
    Seconds,
    Settings,
    Size,
    Timeouts,
)
from ..checks import validate
from ..hooks import (
    KINDS,
    NOT_KEYS,
    STAGES,
    Contents,
    PicoClaw,
    check_dir,
    check_env,
    check_given,
    check_name,
    check_observe,
    of_version,
)
from ..model_endpoints import unencrypted
from ..problems import dotted, quoted
from ..warnings import of_hook

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from ..problems import KeyPath, Problems

_HOOK, _TIMEOUTS = HookSpec(), Timeouts()
_TIMES = ("observer_timeout", "interceptor_timeout", "approval_timeout", "hello_timeout")
_SAME = ("on_failure", "respond", "inherit_env", "max_line_bytes", "grace", "contain")


class Defaults(Settings):
    """What a hook does not set for itself."""

    observer_timeout: Seconds = Field(default=_TIMEOUTS.observer, description="Seconds; an awaited event.")
    interceptor_timeout: Seconds = Field(
        default=_TIMEOUTS.interceptor, description="Seconds; one question to an interceptor."
    )
    approval_timeout: Seconds = Field(default=_TIMEOUTS.approval, description="Seconds; one question to an approver.")
    hello_timeout: Seconds = Field(default=_TIMEOUTS.hello, description="Seconds; from a hook's start to its hello.")
    chain_budget: Seconds = Field(
        default=_TIMEOUTS.chain, description="Seconds; all interceptors of one stage together."
    )
    on_failure: OnFailure = _HOOK.on_failure
    respond: RespondRule = _HOOK.respond
    env: dict[str, str] = Field(default_factory=dict, description="Joined with each hook's own, which wins.")
    inherit_env: bool | tuple[str, ...] = _HOOK.inherit_env
    restart: RestartPolicy = Field(default_factory=RestartPolicy)
    max_line_bytes: int = Field(default=_HOOK.max_line_bytes, ge=1)
    grace: Seconds = _HOOK.grace
    contain: Contain = _HOOK.contain

    @property
    def timeouts(self) -> Timeouts:
        """Those that the host keeps, and looks up for a hook that has none of its own."""
        said = {name.removesuffix("_timeout"): getattr(self, name) for name in _TIMES if name in self.model_fields_set}
        if "chain_budget" in self.model_fields_set:
            said["chain"] = self.chain_budget
        return Timeouts(**said)

    def fold(self, hook: HookSpec) -> dict[str, Any]:
        """What of these the hook takes."""
        taken = {name: getattr(self, name) for name in _SAME if name in self.model_fields_set - hook.model_fields_set}
        if hook.guard:  # fails closed unless it says otherwise itself
            taken.pop("on_failure", None)
        restart = self.restart.model_dump(exclude_unset=True) | hook.restart.model_dump(exclude_unset=True)
        return taken | {"env": self.env | hook.env, "restart": RestartPolicy(**restart)}


class Audit(Settings):
    """A log of what hooks are asked and say, in which nothing can be changed unseen."""

    path: str = Field(min_length=1, description="The file, relative to this one; it is added to.")
    payloads: bool = Field(default=False, description="Whether it has payloads and texts, and not only their hashes.")
    required: bool = Field(default=False, description="true: what cannot be written there is not allowed.")
    max_size: Size | None = Field(default=None, gt=0, description="Bytes after which it goes on in a new file.")


class Model(Settings):
    """The model that hooks with a `prompt` ask, at an endpoint that speaks OpenAI's chat completions."""

    base_url: str = Field(description='Where it is: what comes before "/chat/completions".')
    name: str = Field(min_length=1, description="The model that is asked where a hook names none.")
    key_env: str | None = Field(default=None, description="The environment variable that has the key; none: no key.")
    timeout: Seconds = Field(default=60.0, description="Seconds; one request. A hook's own timeout ends it, too.")
    options: dict[str, JsonValue] = Field(
        default_factory=dict, description="What goes into every request: temperature, max_tokens, ..."
    )

    @field_validator("base_url")
    @classmethod
    def _is_an_endpoint(cls, url: str) -> str:
        try:
            parts = urlsplit(url)
            usable = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
        except ValueError:
            usable = False
        if not usable or any(ord(letter) <= ord(" ") for letter in url):
            raise ValueError('must be a URL, such as "https://api.openai.com/v1"')
        if parts.username is not None or parts.password is not None:
            raise ValueError("has a user or a password in it: a key is never in the file, key_env names its variable")
        if parts.query or parts.fragment:
            raise ValueError('is what comes before "/chat/completions", with nothing behind a "?" or a "#"')
        return url

    @field_validator("key_env")
    @classmethod
    def _is_a_variable(cls, name: str | None) -> str | None:
        if name is not None and not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
            raise ValueError('must be the name of an environment variable, such as "OPENAI_API_KEY", and not the key')
        return name

    @field_validator("options")
    @classmethod
    def _leave_room(cls, options: dict[str, JsonValue]) -> dict[str, JsonValue]:
        taken = sorted({"base_url", "api_key", "model", "messages", "timeout", "stream"} & options.keys())
        if taken:
            raise ValueError(f"has {', '.join(taken)}, which a request gets from elsewhere")
        return options


class NativeFile(Settings):
    """The hooks that picohook runs, and what they have in common."""

    model_config = ConfigDict(title="picohook configuration")

    schema_: str = Field("", alias="$schema", description="For editors; not looked at.")
    defaults: Defaults = Field(default_factory=Defaults)
    hooks: dict[str, HookSpec] = Field(default_factory=dict, description="One table each, by the hook's name.")
    audit: Audit | None = Field(default=None, description="Where an audit log is kept; none: nowhere.")
    model: Model | None = Field(default=None, description="Which model prompt hooks ask.")
    picoclaw: PicoClaw | None = Field(
        default=None, description="The version of PicoClaw that the hooks are written for: its events, its before_llm."
    )


def read(
    document: dict[str, Any], problems: Problems, directory: Path, *, found: bool, version: PicoClaw | None = None
) -> Contents:
    """The hooks of a native file that lies in this directory; `version` wins over its own `picoclaw`."""
    file = validate(NativeFile, document, problems)
    if "hooks" not in document and file and file.model is None:
        problems.add("", "has no hooks", "a hook is a table [hooks.NAME] with a command, and stages or observe")
    _check(document, problems, found=found)
    if file is None or problems.found:
        return Contents((), Timeouts())
    version = version or file.picoclaw
    tables = document.get("hooks", {})
    settings = {
        name: {**file.defaults.fold(hook), **of_version(version, tables[name]), "name": name, "source": problems.file}
        for name, hook in file.hooks.items()
    }
    return Contents(
        tuple(
            _placed(hook.model_copy(update=settings[name]), directory)
            for name, hook in file.hooks.items()
            if hook.enabled
        ),
        file.defaults.timeouts,
        warnings=tuple(
            f"{dotted(('hooks', name))}.{doubt}"
            for name, hook in file.hooks.items()
            if hook.enabled
            for doubt in of_hook(hook, document["hooks"][name])
        )
        + _of_model(file.model),
        model=file.model,
        audit=file.audit and file.audit.model_copy(update={"path": str(directory / file.audit.path)}),
        picoclaw=version,
    )


def _of_model(model: Model | None) -> tuple[str, ...]:
    if model is None or not unencrypted(model):
        return ()
    with_key = " and the key" if model.key_env else ""
    return (f"model.base_url: what hooks ask{with_key} goes over the network as plain text (use https)",)


def _placed(hook: HookSpec, directory: Path) -> HookSpec:
    command = hook.command
    if command and "/" in command[0]:
        command = (str(directory / command[0]), *command[1:])
    return hook.model_copy(update={"command": command, "dir": str(directory / (hook.dir or ""))})


def _check(document: Mapping[str, Any], problems: Problems, *, found: bool) -> None:
    """On the document itself: what its types say against one key hides no mistake in another."""
    check_env(_table(document.get("defaults")).get("env"), problems, ("defaults", "env"), found=found)
    for name, table in _table(document.get("hooks")).items():
        at: KeyPath = ("hooks", name)
        check_name(name, problems, at)
        if not isinstance(table, dict):
            continue
        for key in NOT_KEYS & table.keys():
            problems.add((*at, key), "is not for a file to say: a hook is named by its key", "leave it out")
        if table.keys() <= HookSpec.model_fields.keys():  # else a misspelt one may be what is missing
            check_given(table, problems, at, kinds=tuple(KINDS_OF_HOOK))
        check_observe(table.get("observe"), problems, (*at, "observe"))
        check_env(table.get("env"), problems, (*at, "env"), found=found)
        check_dir(table.get("dir"), problems, (*at, "dir"))
        stages = table["stages"] if isinstance(table.get("stages"), list) else []
        for index, stage in enumerate(stages[: 2 * len(STAGES)]):  # one of so many is named twice, or is none
            if stage in stages[:index]:
                problems.add((*at, "stages", index), f"{quoted(stage)} is named twice")
        if table.get("guard") is True and "before_tool" not in stages and all(stage in STAGES for stage in stages):
            problems.add((*at, "guard"), "guards nothing: its stages do not name before_tool")


def _table(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def schema() -> dict[str, Any]:
    """The JSON Schema of this format."""
    made = {"$schema": "https://json-schema.org/draft/2020-12/schema", **NativeFile.model_json_schema()}
    hook = made["$defs"]["HookSpec"]
    for key in NOT_KEYS:
        del hook["properties"][key]
    hook["properties"]["observe"]["items"] = {"enum": sorted(KINDS)}
    hook["properties"]["command"]["minItems"] = 1
    hook["oneOf"] = [{"required": [kind]} for kind in KINDS_OF_HOOK]
    hook["anyOf"] = [{"required": [key], "properties": {key: {"minItems": 1}}} for key in ("stages", "observe")]
    made["anyOf"] = [{"required": ["hooks"]}, {"required": ["model"]}]
    return made
