"""The native dialect, the same in TOML, YAML and JSON: `defaults`, and a table for each of the `hooks`."""

import functools
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ConfigDict, Field, create_model

from .. import extensions
from ..model.spec import KINDS, HookSpec, RestartPolicy, Settings, Timeouts
from .checks import A_TABLE_EACH, validate
from .document import Config
from .hook_checks import EVENTS, STAGES, check_env, check_given, check_hook
from .problems import KeyPath, Problems, dotted, quoted
from .table import Table
from .warnings import unused_settings

_TIMES = {
    "observer_timeout": "observer",
    "interceptor_timeout": "interceptor",
    "approval_timeout": "approval",
    "hello_timeout": "hello",
    "chain_budget": "chain",
}
_SAME = ("on_failure", "respond", "inherit_env", "max_line_bytes", "grace", "contain", "session")


class _Shared(Settings):
    """Settings for hooks that do not set them."""

    env: dict[str, str] = Field(default_factory=dict, description="Added to each hook's own, which wins.")
    restart: RestartPolicy = Field(
        default_factory=RestartPolicy, description=HookSpec.model_fields["restart"].description
    )

    @property
    def timeouts(self) -> Timeouts:
        """The timeouts of the host, which a hook takes where it sets none."""
        return Timeouts(**{_TIMES[name]: getattr(self, name) for name in _TIMES.keys() & self.model_fields_set})

    def fold(self, hook: HookSpec) -> dict[str, Any]:
        """The settings that this hook takes from here."""
        fields, usual = type(hook).model_fields, HookSpec.model_fields
        own = {name for name in _SAME if fields[name].default != usual[name].default}  # of its kind
        if hook.guard:
            own.add("on_failure")
        names = self.model_fields_set - hook.model_fields_set - own
        taken = {name: getattr(self, name) for name in _SAME if name in names}
        restart = self.restart.model_dump(exclude_unset=True) | hook.restart.model_dump(exclude_unset=True)
        return taken | {"env": self.env | hook.env, "restart": RestartPolicy(**restart)}


_FIELDS = {name: Timeouts.model_fields[of] for name, of in _TIMES.items()}
_FIELDS |= {name: HookSpec.model_fields[name] for name in _SAME}
if TYPE_CHECKING:
    Defaults = _Shared
else:
    Defaults = create_model(
        "Defaults",
        __base__=_Shared,
        __doc__=_Shared.__doc__,
        **{name: (field.annotation, field) for name, field in _FIELDS.items()},
    )


class NativeFile(Settings):
    """The hooks that picohook runs, and the settings that they share."""

    model_config = ConfigDict(title="picohook configuration")

    schema_: str = Field("", alias="$schema", description="This schema, for editors. picohook ignores it.")
    defaults: Defaults = Field(default_factory=Defaults)
    hooks: dict[str, HookSpec] = Field(default_factory=dict, description="A table for each hook, by its name.")


def is_meant(document: dict[str, Any], _path: Path) -> bool:
    """Whether each of the document's hooks is a table that says where it is asked, which no other dialect has."""
    hooks = document.get("hooks")
    tables = hooks.values() if isinstance(hooks, dict) else ()
    return bool(tables) and all(
        isinstance(table, dict) and any(isinstance(table.get(key), list) for key in ("stages", "observe"))
        for table in tables
    )


def read(document: dict[str, Any], problems: Problems, config: Config) -> Config:
    """The configuration with the hooks and settings of a native file."""
    document = {**document, **config.given}
    tables = document.get("hooks", {})
    kinds = _tables(document, problems)
    # Each table of a hook is checked as one of its kind.
    given = {**document, "hooks": {}} if isinstance(tables, dict) else document
    file = validate(_file_with(tuple(kinds.items())), given, problems)
    if file is not None and not document.keys() - {"defaults"}:
        problems.add("", "has no hooks", "a hook is a table [hooks.NAME] with a command, and stages or observe")
    defaults = document.get("defaults")
    check_env(
        defaults.get("env") if isinstance(defaults, dict) else None, problems, ("defaults", "env"), found=config.found
    )
    tables = tables if isinstance(tables, dict) else {}
    hooks = {name: _hook(name, table, problems, found=config.found) for name, table in tables.items()}
    if file is None or problems.found:
        return config
    enabled = {name: hook for name, hook in hooks.items() if hook is not None and hook.enabled}
    unused = ((name, warning) for name, hook in enabled.items() for warning in unused_settings(hook, tables[name]))
    config = replace(
        config,
        hooks=tuple(_placed(name, hook, file.defaults, config.path.parent) for name, hook in enabled.items()),
        key_paths={name: dotted(("hooks", name)) for name in hooks},
        timeouts=file.defaults.timeouts,
        warnings=tuple(f"{dotted(('hooks', name))}.{warning}" for name, warning in unused),
    )
    return _with_tables(config, file, kinds, problems)


def check_of_caller(given: Mapping[str, Any], problems: Problems) -> None:
    """Raise `ConfigError` for a wrong value of a key that the caller gives in place of a file's own."""
    validate(_file_with(tuple(_tables(given, problems).items())), dict(given), problems)
    problems.check()


def _tables(document: Mapping[str, Any], problems: Problems) -> dict[str, type[Table]]:
    """The extensions' tables that the document has, by their keys. If a key is unknown, all tables that there are."""
    others = sorted(document.keys() - NativeFile.model_fields.keys() - {"$schema"})
    found = {key: extensions.find("tables", key) for key in others}
    for key in others:
        for broken in extensions.others()[1] if found[key] is None else ():
            problems.add((key,), f"may be a table of {broken.package}, which cannot be used: {broken.why}")
    if None in found.values():
        found = extensions.every("tables")
    return {key: found[key].load() for key in sorted(found)}


@functools.cache
def _file_with(tables: tuple[tuple[str, type[Table]], ...]) -> type[NativeFile]:
    """The model of a file that may have these tables, too."""
    fields: dict[str, Any] = {}
    for key, table in tables:
        kind: Any = table.model_fields[table.bare].annotation if table.bare else table
        fields[key] = (kind | None, Field(default=None, description=table.__doc__))
    return create_model("NativeFile", __base__=NativeFile, __doc__=NativeFile.__doc__, **fields)


def _with_tables(config: Config, file: NativeFile, kinds: Mapping[str, type[Table]], problems: Problems) -> Config:
    """The configuration with the tables of extensions, and with what they change."""
    tables = {}
    for key, kind in kinds.items():
        if (value := getattr(file, key)) is not None:
            if kind.user_only and config.found:
                problems.add((key,), "is not for a project's file", "set it in your own configuration")
            table = kind(**{kind.bare: value}) if kind.bare else value
            tables[key] = table.placed(config.path.parent)
    config = replace(config, tables=tables)
    for table in tables.values():
        config = table.apply(config, problems)
    return config


def _hook(name: str, table: Any, problems: Problems, *, found: bool) -> HookSpec | None:
    """The hook of a table. The table itself is checked, too. So a wrong type in one key does not hide mistakes in others."""
    at: KeyPath = ("hooks", name)
    if not isinstance(table, dict):
        problems.add(at, f"must be a table of keys and values, not {quoted(table)}", A_TABLE_EACH)
        check_hook(name, {}, problems, at, found=found)
        return None
    kind = HookSpec.with_keys(table)
    hook = validate(kind, table, problems, at)
    check_hook(name, table, problems, at, found=found)
    for key in kind.SET_ELSEWHERE.keys() & table.keys():
        problems.add((*at, key), f"cannot be set in a file: {kind.SET_ELSEWHERE[key]}", "leave it out")
    if table.keys() <= kind.model_fields.keys():  # otherwise the missing key may only be misspelt
        kinds = (*KINDS, *(kind.model_fields.keys() - HookSpec.model_fields.keys()))
        usual = kind.model_fields["stages"].default  # a kind may be for one stage
        check_given({"stages": usual or None, **table}, problems, at, kinds=kinds)
    stages = table["stages"] if isinstance(table.get("stages"), list) else []
    for index, stage in enumerate(stages[: 2 * len(STAGES)]):  # a longer list names a stage twice, or an unknown one
        if stage in stages[:index]:
            problems.add((*at, "stages", index), f"{quoted(stage)} is named twice")
    if table.get("guard") is True and "before_tool" not in stages and all(stage in STAGES for stage in stages):
        problems.add((*at, "guard"), "has no effect: its stages do not name before_tool")
    return hook


def _placed(name: str, hook: HookSpec, defaults: Defaults, directory: Path) -> HookSpec:
    """The hook with the settings that it takes from elsewhere."""
    command = hook.command
    if command and "/" in command[0]:
        command = (str(directory / command[0]), *command[1:])
    own = {"name": name, "command": command, "dir": str(directory / (hook.dir or ""))}
    return hook.model_copy(update=defaults.fold(hook) | own)


def schema() -> dict[str, Any]:
    """The JSON Schema of this format."""
    tables = {key: table.load() for key, table in sorted(extensions.every("tables").items())}
    model = _file_with(tuple(tables.items()))
    made = {"$schema": "https://json-schema.org/draft/2020-12/schema", **model.model_json_schema()}
    hook = made["$defs"]["HookSpec"]
    hook["description"] = hook["description"].partition("\n")[0]
    hook["oneOf"] = [{"required": [key]} for key in (*KINDS, *extensions.every("kinds"))]
    left_out = {*HookSpec.SET_ELSEWHERE}
    for kind in (
        *(kind.load() for kind in extensions.every("kinds").values()),
        HookSpec.with_keys(extensions.every("hook_keys")),
    ):
        own = kind.model_json_schema()
        made["$defs"] = own.get("$defs", {}) | made["$defs"]
        hook["properties"] = own["properties"] | hook["properties"]
        left_out |= {*kind.SET_ELSEWHERE}
    for key in left_out:
        del hook["properties"][key]
    hook["properties"]["observe"]["items"] = {"enum": sorted(EVENTS)}
    hook["properties"]["command"]["minItems"] = 1
    hook["anyOf"] = [{"required": [key], "properties": {key: {"minItems": 1}}} for key in ("stages", "observe")]
    kinds = extensions.every("kinds").items()
    hook["anyOf"] += [{"required": [key]} for key, kind in kinds if kind.load().model_fields["stages"].default]
    made["anyOf"] = [{"required": [key]} for key in ("hooks", *tables)]
    return made
