"""PicoClaw's configuration."""

from __future__ import annotations

from ...extension import Dialect, Extension, Lazy

extension = Extension(
    name="picoclaw",
    tables={"picoclaw": Lazy("picohook.ext.picoclaw.table:PicoClawTable")},
    dialects={
        "picoclaw": Dialect(
            "PicoClaw",
            is_meant=Lazy("picohook.ext.picoclaw.dialect:is_meant"),
            read=Lazy("picohook.ext.picoclaw.dialect:read"),
            section="hooks",
        ),
    },
)
