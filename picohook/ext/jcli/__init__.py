"""j-cli's configuration, and its contract with hooks."""

from ...extension import Dialect, Extension, Lazy

extension = Extension(
    name="jcli",
    public=("contract",),
    dialects={
        "jcli": Dialect(
            "j-cli",
            is_meant=Lazy("picohook.ext.jcli.dialect:is_meant"),
            read=Lazy("picohook.ext.jcli.dialect:read"),
            user_files=("~/.jdata/agent/hooks.yaml",),
            project_files=(".jcli/hooks.yaml",),
        ),
    },
)
