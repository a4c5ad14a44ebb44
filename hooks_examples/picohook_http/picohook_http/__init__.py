"""Hooks at a URL."""

from picohook import Command, Extension, Lazy

extension = Extension(
    name="http",
    needs="0.1",
    kinds={"url": Lazy("picohook_http.hook:UrlSpec")},
    tables={"http": Lazy("picohook_http.table:HttpTable")},
    commands={"signature": Command(Lazy("picohook_http.command:app"), "Print the signature of a question.")},
)
