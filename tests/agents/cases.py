"""Answers of a hook before a tool, for every agent: what it prints, its exit code, and what it writes to stderr.

In the texts, EVENT is the agent's name of the event, and CHANGED is the shell's input with another command, as JSON.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping


class Answer(NamedTuple):
    """What a hook does when it is asked."""

    stdout: str = ""
    code: int = 0
    """Its exit code; -9 if it kills itself."""
    stderr: str = ""

    def of(self, event: str, changed: Mapping[str, Any]) -> Answer:
        """The answer for an event, with this changed input of the shell."""
        return Answer(
            self.stdout.replace("EVENT", event).replace("CHANGED", json.dumps(changed)),
            self.code,
            self.stderr.replace("EVENT", event),
        )


def _inner(fields: str, event: str = '"EVENT"', more: str = "") -> str:
    return '{{{}"hookSpecificOutput": {{"hookEventName": {}{}}}}}'.format(more, event, fields and ", " + fields)


def _decides(word: str, reason: str = ', "permissionDecisionReason": "why"', more: str = "", top: str = "") -> str:
    return _inner(f'"permissionDecision": {word}{reason}{more}', more=top)


DENY = _decides('"deny"')
ALLOW = _decides('"allow"')
TOP_DENY = '{"permissionDecision": "deny", "permissionDecisionReason": "why"}'
BLOCK = '{"decision": "block", "reason": "why"}'
_REASON = '"permissionDecisionReason": "why"'
_WORDS = ("allow", "deny", "ask", "defer", "approve", "block", "Deny", "DENY", " deny", "deny ", "no", "")
_BOM = "\ufeff"

ANSWERS: dict[str, Answer] = {
    # Exit codes.
    "nothing": Answer(),
    "exit 1": Answer(code=1, stderr="why"),
    "exit 2": Answer(code=2, stderr="why"),
    "exit 2, silent": Answer(code=2),
    "exit 2, blank stderr": Answer(code=2, stderr=" \n"),
    "exit 2, stdout only": Answer("why", 2),
    "exit 3": Answer(code=3, stderr="why"),
    "exit 126": Answer(code=126, stderr="why"),
    "exit 127": Answer(code=127, stderr="why"),
    "exit 255": Answer(code=255, stderr="why"),
    "killed": Answer(code=-9),
    "exit 1, text": Answer("text", 1),
    # Exit codes beside an answer.
    **{f"exit {code}, deny": Answer(DENY, code) for code in (1, 2, 3, 127, -9)},
    **{f"exit {code}, deny, stderr": Answer(DENY, code, "why") for code in (1, 2)},
    **{f"exit {code}, allow": Answer(ALLOW, code) for code in (1, 2, 3, -9)},
    **{f"exit {code}, allow, stderr": Answer(ALLOW, code, "why") for code in (1, 2)},
    **{f"exit {code}, ask": Answer(_decides('"ask"'), code) for code in (1, 2)},
    **{f"exit {code}, changed": Answer(_decides('"allow"', more=', "updatedInput": CHANGED'), code) for code in (1, 2)},
    **{f"exit {code}, block": Answer(BLOCK, code) for code in (1, 2, 3)},
    **{f"exit {code}, top deny": Answer(TOP_DENY, code) for code in (1, 2)},
    **{f"exit {code}, continue false": Answer('{"continue": false}', code) for code in (1, 2)},
    **{f"exit {code}, {{}}": Answer("{}", code) for code in (1, 2)},
    **{f"exit {code}, broken": Answer('{"decision": ', code) for code in (1, 2)},
    # Text that is no object.
    "text": Answer("deny"),
    "text, stderr": Answer("deny", 0, "deny"),
    "[]": Answer("[]"),
    "[deny]": Answer(f"[{DENY}]"),
    "null": Answer("null"),
    "true": Answer("true"),
    "false": Answer("false"),
    "string": Answer('"deny"'),
    "{}": Answer("{}"),
    "object in a string": Answer('"{\\"decision\\": \\"deny\\", \\"reason\\": \\"why\\"}"'),
    # The decision at the top.
    **{f"decision {word!r}": Answer(f'{{"decision": "{word}", "reason": "why"}}') for word in _WORDS},
    **{
        f"decision {word!r}, no reason": Answer(f'{{"decision": "{word}"}}')
        for word in ("allow", "deny", "ask", "block", "approve")
    },
    "decision block, empty reason": Answer('{"decision": "block", "reason": ""}'),
    "decision block, blank reason": Answer('{"decision": "block", "reason": " "}'),
    "decision block, null reason": Answer('{"decision": "block", "reason": null}'),
    "decision block, reason 1": Answer('{"decision": "block", "reason": 1}'),
    "decision deny, reason 1": Answer('{"decision": "deny", "reason": 1}'),
    "decision null": Answer('{"decision": null, "reason": "why"}'),
    "decision false": Answer('{"decision": false, "reason": "why"}'),
    "decision 1": Answer('{"decision": 1, "reason": "why"}'),
    "decision [deny]": Answer('{"decision": ["deny"], "reason": "why"}'),
    "decision {behavior: deny}": Answer('{"decision": {"behavior": "deny"}}'),
    # permissionDecision, nested.
    **{f"nested {word!r}": Answer(_decides(f'"{word}"')) for word in _WORDS},
    **{f"nested {word!r}, no reason": Answer(_decides(f'"{word}"', "")) for word in ("allow", "deny", "ask", "defer")},
    "nested deny, empty reason": Answer(_decides('"deny"', ', "permissionDecisionReason": ""')),
    "nested deny, blank reason": Answer(_decides('"deny"', ', "permissionDecisionReason": " "')),
    "nested deny, null reason": Answer(_decides('"deny"', ', "permissionDecisionReason": null')),
    "nested deny, reason 1": Answer(_decides('"deny"', ', "permissionDecisionReason": 1')),
    "nested deny, reason at the top": Answer(_decides('"deny"', "", top='"reason": "why", ')),
    "nested null": Answer(_decides("null")),
    "nested false": Answer(_decides("false")),
    "nested {behavior: deny}": Answer(_inner('"decision": {"behavior": "deny", "message": "why"}')),
    "nested decision deny": Answer(_inner('"decision": "deny", "reason": "why"')),
    # permissionDecision, at the top.
    **{f"top {word!r}": Answer(f'{{"permissionDecision": "{word}", {_REASON}}}') for word in _WORDS},
    **{f"top {word!r}, no reason": Answer(f'{{"permissionDecision": "{word}"}}') for word in ("allow", "deny", "ask")},
    "top null": Answer('{"permissionDecision": null}'),
    "top false": Answer('{"permissionDecision": false}'),
    "top deny, reason 1": Answer('{"permissionDecision": "deny", "permissionDecisionReason": 1}'),
    "top deny, reason null": Answer('{"permissionDecision": "deny", "permissionDecisionReason": null}'),
    # Two places.
    "top deny, nested allow": Answer(
        _decides('"allow"', top='"permissionDecision": "deny", "permissionDecisionReason": "why", ')
    ),
    "top allow, nested deny": Answer(_decides('"deny"', top='"permissionDecision": "allow", ')),
    "top ask, nested allow": Answer(_decides('"allow"', top='"permissionDecision": "ask", ')),
    "top null, nested deny": Answer(_decides('"deny"', top='"permissionDecision": null, ')),
    **{
        f"decision {word}, nested {inner}": Answer(
            _decides(f'"{inner}"', top=f'"decision": "{word}", "reason": "why", ')
        )
        for word, inner in (
            ("block", "allow"),
            ("block", "ask"),
            ("deny", "allow"),
            ("approve", "deny"),
            ("approve", "ask"),
            ("allow", "deny"),
            ("ask", "allow"),
            ("no", "deny"),
        )
    },
    "decision block, nested context": Answer(
        _inner('"additionalContext": "CONTEXT"', more='"decision": "block", "reason": "why", ')
    ),
    "decision block, nested null": Answer('{"decision": "block", "reason": "why", "hookSpecificOutput": null}'),
    "decision block, nested {}": Answer('{"decision": "block", "reason": "why", "hookSpecificOutput": {}}'),
    "decision block, nested []": Answer('{"decision": "block", "reason": "why", "hookSpecificOutput": []}'),
    "decision block, nested text": Answer('{"decision": "block", "reason": "why", "hookSpecificOutput": "x"}'),
    # The name of the event.
    "no event name, deny": Answer(f'{{"hookSpecificOutput": {{"permissionDecision": "deny", {_REASON}}}}}'),
    "no event name, allow": Answer(f'{{"hookSpecificOutput": {{"permissionDecision": "allow", {_REASON}}}}}'),
    "no event name, changed": Answer(
        '{"hookSpecificOutput": {"permissionDecision": "allow", "updatedInput": CHANGED}}'
    ),
    **{
        f"event name {name}, {word}": Answer(_inner(f'"permissionDecision": "{word}", {_REASON}', name))
        for name in ('"PostToolUse"', '"pretooluse"', '"Unknown"', '""', "null", "1")
        for word in ("deny", "ask")
    },
    "event name PostToolUse, changed": Answer(
        _inner('"permissionDecision": "allow", "updatedInput": CHANGED', '"PostToolUse"')
    ),
    "event name PostToolUse, block": Answer(_inner("", '"PostToolUse"', more='"decision": "block", "reason": "why", ')),
    # Changed inputs.
    **{
        f"changed by {name}, {word}": Answer(_inner(f'"permissionDecision": "{word}", {_REASON}, "{name}": CHANGED'))
        for name in ("updatedInput", "modifiedArgs", "tool_input")
        for word in ("allow", "ask", "deny")
    },
    **{
        f"changed by {name} alone": Answer(_inner(f'"{name}": CHANGED'))
        for name in ("updatedInput", "modifiedArgs", "tool_input")
    },
    **{
        f"changed by top {name}": Answer(f'{{"{name}": CHANGED}}')
        for name in ("updatedInput", "modifiedArgs", "tool_input")
    },
    **{
        f"changed by top {name}, {word}": Answer(f'{{"permissionDecision": "{word}", {_REASON}, "{name}": CHANGED}}')
        for name in ("updatedInput", "modifiedArgs")
        for word in ("allow", "ask", "deny")
    },
    "changed by both at the top": Answer(
        '{"permissionDecision": "allow", "modifiedArgs": {}, "updatedInput": CHANGED}'
    ),
    "changed, decision approve": Answer(_inner('"updatedInput": CHANGED', more='"decision": "approve", ')),
    "changed, decision block": Answer(_inner('"updatedInput": CHANGED', more='"decision": "block", "reason": "why", ')),
    "changed, decision allow": Answer(_inner('"tool_input": CHANGED', more='"decision": "allow", ')),
    **{
        f"changed to {value}": Answer(_inner(f'"permissionDecision": "allow", {_REASON}, "{name}": {value}'))
        for value in ("null", '"x"', "[]", "{}", "1")
        for name in ("updatedInput",)
    },
    **{
        f"top changed to {value}": Answer(f'{{"permissionDecision": "allow", "modifiedArgs": {value}}}')
        for value in ("null", '"x"', "[]", "{}", "1")
    },
    **{
        f"tool_input {value}": Answer(_inner(f'"tool_input": {value}', more='"decision": "allow", '))
        for value in ("null", '"x"', "[]", "{}", "1")
    },
    # continue.
    "continue false": Answer('{"continue": false}'),
    "continue false, reason": Answer('{"continue": false, "stopReason": "why"}'),
    "continue false, allow": Answer(_decides('"allow"', top='"continue": false, ')),
    "continue false, deny": Answer(_decides('"deny"', top='"continue": false, ')),
    "continue false, approve": Answer('{"continue": false, "decision": "approve"}'),
    "continue false, changed": Answer(_decides('"allow"', more=', "updatedInput": CHANGED', top='"continue": false, ')),
    **{
        f"continue {value}, deny": Answer(_decides('"deny"', top=f'"continue": {value}, '))
        for value in ("null", '"false"', "0", "true")
    },
    **{f"continue {value}": Answer(f'{{"continue": {value}}}') for value in ("null", '"false"', "0", "true")},
    # A key twice.
    "decision twice, block last": Answer('{"decision": "approve", "decision": "block", "reason": "why"}'),
    "decision twice, block first": Answer('{"decision": "block", "decision": "approve", "reason": "why"}'),
    "decision twice, deny last": Answer('{"decision": "allow", "decision": "deny", "reason": "why"}'),
    "decision twice, deny first": Answer('{"decision": "deny", "decision": "allow", "reason": "why"}'),
    "nested twice, deny last": Answer(
        _decides('"allow"', ', "permissionDecision": "deny", "permissionDecisionReason": "why"')
    ),
    "nested twice, deny first": Answer(
        _decides('"deny"', ', "permissionDecision": "allow", "permissionDecisionReason": "why"')
    ),
    "top twice, deny last": Answer('{"permissionDecision": "allow", "permissionDecision": "deny"}'),
    "top twice, deny first": Answer('{"permissionDecision": "deny", "permissionDecision": "allow"}'),
    "reason twice, deny": Answer(_decides('"deny"', f", {_REASON}, {_REASON}")),
    "other key twice, deny": Answer(_decides('"deny"', top='"systemMessage": "a", "systemMessage": "b", ')),
    "hookSpecificOutput twice": Answer(f'{{"hookSpecificOutput": {{}}, {DENY[1:]}'),
    # Around the object.
    "BOM, deny": Answer(_BOM + DENY),
    "BOM, block": Answer(_BOM + BLOCK),
    "BOM, top deny": Answer(_BOM + TOP_DENY),
    "BOM, text": Answer(_BOM + "deny"),
    "two BOMs, deny": Answer(_BOM * 2 + DENY),
    "BOM after a line, deny": Answer("\n" + _BOM + DENY),
    **{
        f"{name}, {word}": Answer(around.replace("@", text))
        for name, around in {
            "blank lines": "\n\n \t@\r\n\n",
            "no-break space": "\u00a0@",
            "vertical tab": "\v@",
            "line separator": "\u2028@",
            "text before": "warning: something\n@",
            "text before, same line": "warning: @",
            "text after": "@\ndone",
            "text after, same line": "@ done",
            "object before": "{}\n@",
            "object after": "@\n{}",
            "twice": "@\n@",
            "comment before": "// x\n@",
            "NUL after": "@\0",
            "fence": "```json\n@\n```",
            "progress before": '{"type": "progress", "message": "x"}\n@',
            "progress after": '@\n{"type": "progress", "message": "x"}',
        }.items()
        for word, text in (("deny", DENY), ("block", BLOCK), ("top deny", TOP_DENY))
    },
    "progress with deny": Answer(f'{{"type": "progress", "permissionDecision": "deny", {_REASON}}}'),
    # Inside the object.
    **{
        f"{name}, {word}": Answer(text.replace("{", f"{{{more}, ", 1))
        for name, more in {
            "unknown field": '"unknown": 1',
            "suppressOutput": '"suppressOutput": true',
            "suppressOutput text": '"suppressOutput": "yes"',
            "systemMessage": '"systemMessage": "hello"',
            "systemMessage 1": '"systemMessage": 1',
            "stopReason": '"stopReason": "why"',
            "stopReason 1": '"stopReason": 1',
            "NaN": '"unknown": NaN',
            "1e999": '"unknown": 1e999',
            "huge integer": f'"unknown": {"9" * 400}',
            "half surrogate": '"unknown": "\\ud800"',
            "bad escape": '"unknown": "\\x"',
            "newline in a string": '"unknown": "\n"',
            "deep": f'"unknown": {"[" * 200}{"]" * 200}',
            "very deep": f'"unknown": {"[" * 3000}{"]" * 3000}',
            "__proto__": '"__proto__": {"decision": "approve"}',
            "additionalContext": '"additionalContext": "CONTEXT"',
        }.items()
        for word, text in (("deny", DENY), ("block", BLOCK), ("top deny", TOP_DENY))
    },
    **{
        f"inner {name}, deny": Answer(_decides('"deny"', more=f", {more}"))
        for name, more in {
            "unknown field": '"unknown": 1',
            "additionalContext": '"additionalContext": "CONTEXT"',
            "additionalContext 1": '"additionalContext": 1',
            "updatedInput text": '"updatedInput": "x"',
            "updatedInput null": '"updatedInput": null',
            "modifiedArgs text": '"modifiedArgs": "x"',
            "retry": '"retry": true',
        }.items()
    },
    "trailing comma, deny": Answer(DENY[:-1] + ",}"),
    "single quotes, deny": Answer(DENY.replace('"', "'")),
    "comment inside, deny": Answer(DENY.replace("{", "{/* x */", 1)),
    "half an object, deny": Answer(DENY[:-1]),
    "half surrogate in the reason, deny": Answer(_decides('"deny"', ', "permissionDecisionReason": "\\ud800"')),
    "long reason, deny": Answer(_decides('"deny"', f', "permissionDecisionReason": "{"w" * 200_000}"')),
    "snake case, deny": Answer('{"hook_specific_output": {"hook_event_name": "EVENT", "permission_decision": "deny"}}'),
    "upper case key, deny": Answer('{"Decision": "deny", "reason": "why"}'),
    # On stderr.
    "stderr, deny": Answer("", 0, DENY),
    "stderr, block": Answer("", 0, BLOCK),
    "stderr, decision deny": Answer("", 0, '{"decision": "deny", "reason": "why"}'),
    "stderr beside text, decision deny": Answer("text", 0, '{"decision": "deny", "reason": "why"}'),
    "stderr beside blank, decision deny": Answer(" \n", 0, '{"decision": "deny", "reason": "why"}'),
    "stderr beside {}, decision deny": Answer("{}", 0, '{"decision": "deny", "reason": "why"}'),
    "stderr beside a BOM, decision deny": Answer(_BOM, 0, '{"decision": "deny", "reason": "why"}'),
    "exit 1, stderr, decision deny": Answer("", 1, '{"decision": "deny", "reason": "why"}'),
    "exit 2, stderr, decision allow": Answer("", 2, '{"decision": "allow", "reason": "why"}'),
    "exit 3, stderr, decision allow": Answer("", 3, '{"decision": "allow", "reason": "why"}'),
    # The words of others.
    "permission deny": Answer('{"permission": "deny"}'),
    "cancel": Answer('{"cancel": true}'),
    "ok false": Answer('{"ok": false, "reason": "why"}'),
    "behavior deny": Answer('{"behavior": "deny", "message": "why"}'),
    "action deny_tool": Answer('{"action": "deny_tool", "reason": "why"}'),
    # Texts.
    "context": Answer(_inner('"additionalContext": "CONTEXT"')),
    "context, allow": Answer(_decides('"allow"', more=', "additionalContext": "CONTEXT"')),
    "top context": Answer('{"additionalContext": "CONTEXT"}'),
    "message": Answer('{"systemMessage": "CONTEXT"}'),
    "deny, context": Answer(_decides('"deny"', more=', "additionalContext": "CONTEXT"')),
}

MATCHERS: tuple[str | None, ...] = (
    None,
    "",
    "*",
    " ",
    "SHELL",
    "WRITE",
    " SHELL",
    "SHELL ",
    "\tSHELL\n",
    "SHELL|Other",
    "Other|SHELL",
    "Other | SHELL",
    "Other, SHELL",
    "Other,SHELL",
    "SHELL,Other",
    "SHELL|",
    "|SHELL",
    "||",
    "|",
    ",",
    "SHELL|WRITE",
    "Bash",
    "bash",
    "BASH",
    "Shell",
    "Write",
    "Edit",
    "Edit|Write",
    "Task",
    "run_shell_command",
    "exec_command",
    "^SHELL$",
    "^(SHELL)$",
    "SHELL.*",
    ".*",
    ".+",
    ".",
    "^",
    "$",
    "^$",
    "\\w+",
    "\\S",
    "\\bSHELL\\b",
    "\\d",
    "\\p{L}+",
    "[[:alpha:]]+",
    "[a-zA-Z_]+",
    "[a-zA-Z_]*",
    "(?i)shell|bash",
    "(?:SHELL)",
    "(?<n>SHELL)",
    "(?P<n>SHELL)",
    "(?=SHELL)",
    "^(?!Other).*",
    "(?<=Other)SHELL",
    "(S|s|B|b|r|e).*\\1",
    "ash",
    "Bas",
    "sh",
    "SHELL*",
    "SHELL+",
    "SHELL(touch *)",
    "Bash(touch:*)",
    "SHELL-x",
    "SHELL x",
    "SHELL.x",
    "SHELL?",
    "!SHELL",
    "~SHELL",
    "[",
    "]",
    "(",
    ")",
    "{",
    "}",
    "\\",
    "+",
    "?",
    "**",
    "*SHELL",
    "*sh*",
    "a{2,1}",
    "[z-a]",
    "[]",
    "[^]",
    "SHELL[",
    "Other[",
    "Other(",
    "\\x",
    "\\u0042ash",
    "\\A",
    "SHELL\\Z",
    "SHELL\\z",
    "x{1001}",
    "mcp__.*",
    "mcp__memory",
    "\u00a0SHELL",
    "SHELL\u00e9",
    "é",
    "null",
)
"""Matchers of a tool. SHELL and WRITE are the agent's names of the tools that run a command and that write a file."""

PROMPTS: tuple[str, ...] = (
    "nothing",
    "exit 1",
    "exit 2",
    "exit 2, silent",
    "exit 3",
    "exit 127",
    "killed",
    "exit 1, block",
    "exit 2, block",
    "exit 1, continue false",
    "text",
    "{}",
    "decision 'allow'",
    "decision 'approve'",
    "decision 'deny'",
    "decision 'ask'",
    "decision 'block'",
    "decision 'block', no reason",
    "decision block, blank reason",
    "decision block, reason 1",
    "nested 'deny'",
    "top 'deny'",
    "event name PostToolUse, block",
    "decision block, nested context",
    "continue false",
    "continue false, reason",
    "continue false, approve",
    "decision twice, block last",
    "decision twice, block first",
    "BOM, block",
    "text before, block",
    "text after, block",
    "twice, block",
    "unknown field, block",
    "systemMessage 1, block",
    "very deep, block",
    "stderr, decision deny",
)
"""The answers that are tried about a prompt, too. Each takes a start of the program."""
