"""The table of the kinds of hook."""

KINDS_OF_HOOK = {
    "command": "hooks.process.ProcessHook",
    "run": "hooks.command.command.CommandHook",
    "python": "hooks.python.PythonHook",
    "prompt": "ext.prompt.hook.PromptHook",
    "nats": "ext.nats.hook.NatsHook",
}
"""The kinds of hook. A configured hook sets one of these fields; beside it stands the class that is made from it."""
