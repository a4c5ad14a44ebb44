"""Approvals by people: the queue of this user with the commands that answer, and grants for later calls."""

from ...extension import Command, Extension, Keyword, Lazy

extension = Extension(
    name="approvals",
    uses=("guards",),
    kinds={
        "approver": Lazy("picohook.ext.approvals.spec:QueueSpec"),
        "ask": Lazy("picohook.ext.approvals.spec:AskSpec"),
    },
    tables={"grants": Lazy("picohook.ext.approvals.grants_part:GrantsTable")},
    keywords={"grants": Keyword(Lazy("picohook.ext.approvals.grants_part:given"))},
    commands={
        "approvals": Command(
            Lazy("picohook.ext.approvals.command:app"), "Show what waits for a person, and answer it."
        ),
        "grants": Command(
            Lazy("picohook.ext.approvals.command:grants_app"), "List grants of approvers, and revoke them."
        ),
    },
)
