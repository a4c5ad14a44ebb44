"""A hook file of another agent, as `[[foreign]]` names it."""

from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from ...config.problems import quoted
from ...model.spec import Contain, Globs, Limits, Sandbox, Settings
from .dialects import NAMES
from .tools import ToolAlias


def _known(dialect: str) -> str:
    if dialect not in NAMES:
        raise ValueError(f"{quoted(dialect)} is not one of {', '.join(NAMES)}")
    return dialect


class ForeignFile(Settings):
    """A hook file of another agent, which is run as it is."""

    file: str = Field(min_length=1, description="The file, relative to this one.")
    dialect: Annotated[str, AfterValidator(_known), Field(json_schema_extra={"enum": list(NAMES)})] | None = Field(
        default=None, description="Whose file it is; by default, what its place and its form show."
    )
    failures: Literal["strict", "vendor"] = Field(
        default="strict", description="strict: a gate that fails denies; vendor: it fails as it does in that agent."
    )
    tools: dict[str, ToolAlias] = Field(
        default_factory=dict, description="What the agent's own tools are for the file."
    )
    trust: Globs | None = Field(default=None, description="The project's files that its commands run.")
    inherit_env: bool | tuple[str, ...] | None = Field(
        default=None,
        description="The host's variables that its commands inherit; by default all, if the user named it.",
    )
    priority: int = Field(default=100, description="Lower numbers are asked first.")
    limits: Limits | None = Field(default=None, description="Limits of each handler.")
    sandbox: Sandbox | None = Field(default=None, description="The files and the network of each handler.")
    contain: Contain = Field(default="best", description="The containment of each handler.")
