"""PicoClaw's configuration."""

from typing import Literal, get_args

from ...extension import Dialect, Extension, Keyword, Lazy

PicoClaw = Literal["0.2.8", "0.2.9", "0.2.9+edits"]
"""The version of PicoClaw whose behaviour hooks expect. 0.2.9 stands for newer ones too; "+edits" lifts its before_llm rule."""

extension = Extension(
    name="picoclaw",
    tables={"picoclaw": Lazy("picohook.ext.picoclaw.table:PicoClawTable")},
    keywords={
        "picoclaw": Keyword(
            None,
            "VERSION",
            f"Run hooks as this PicoClaw does, whatever the file says: {', '.join(get_args(PicoClaw))}. 0.2.9 stands for"
            " newer versions too.",
            choices=get_args(PicoClaw),
        ),
    },
    dialects={
        "picoclaw": Dialect(
            "PicoClaw",
            is_meant=Lazy("picohook.ext.picoclaw.dialect:is_meant"),
            read=Lazy("picohook.ext.picoclaw.dialect:read"),
            section="hooks",
        ),
    },
)
