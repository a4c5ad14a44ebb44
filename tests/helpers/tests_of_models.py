"""What tests of `[model]` write into configurations."""

from __future__ import annotations

import json

ASK = """
[hooks.asks]
prompt = "Is {{tool_name}} harmless?"
stages = ["before_tool"]
"""


def model_table(endpoint, **settings):
    """The table of a model at this endpoint."""
    options = settings.pop("options", None)
    lines = {"base_url": endpoint.url, "name": "m1", **settings}
    text = "".join(f"{key} = {json.dumps(value)}\n" for key, value in lines.items())
    if options:
        text += "options = { " + ", ".join(f"{key} = {json.dumps(value)}" for key, value in options.items()) + " }\n"
    return f"[model]\n{text}"
