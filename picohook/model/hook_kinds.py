"""The table of the kinds of hook."""

KINDS_OF_HOOK = {
    "command": "hooks.process.ProcessHook",
    "run": "hooks.one_shot.command.CommandHook",
    "python": "hooks.python.PythonHook",
    "prompt": "hooks.one_shot.prompt.PromptHook",
    "nats": "hooks.nats.NatsHook",
}
"""The kinds of hook. A configured hook sets one of these fields; beside it stands the class that is made from it."""
