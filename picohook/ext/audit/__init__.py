"""The audit log: questions to hooks and their answers, in a file in which every later change can be detected."""

from ...extension import Command, Extension, Keyword, Lazy

extension = Extension(
    name="audit",
    tables={"audit": Lazy("picohook.ext.audit.table:AuditTable")},
    keywords={
        "audit": Keyword(
            Lazy("picohook.ext.audit.table:log_at"),
            "FILE",
            "Keep an audit log there: questions, answers and decisions, without payloads.",
        ),
    },
    commands={
        "audit": Command(Lazy("picohook.ext.audit.command:app"), "Check an audit log."),
    },
)
