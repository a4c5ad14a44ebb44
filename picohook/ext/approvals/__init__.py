"""Approvals by people: grants for later calls."""

from __future__ import annotations

from ...extension import Command, Extension, Keyword, Lazy

extension = Extension(
    name="approvals",
    tables={"grants": Lazy("picohook.ext.approvals.grants_part:GrantsTable")},
    keywords={"grants": Keyword(Lazy("picohook.ext.approvals.grants_part:given"))},
    commands={
        "grants": Command(
            Lazy("picohook.ext.approvals.grants_command:app"), "List grants of approvers, and revoke them."
        ),
    },
)
