"""What tests of the kinds of hook share."""

from __future__ import annotations

from typing import Any

from endpoint import with_nonce

from picohook import Timeouts

FAR = Timeouts(interceptor=60, approval=60, hello=60, chain=600)
"""Nothing that a test waits for takes so long: what has failed by then has not failed by waiting."""


class Model:
    """A `complete` by script: each answer once and in order; what it was asked is kept.

    An answer is a text, or the fields beside the nonce.
    """

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.prompts: list[str] = []
        self.models: list[str | None] = []

    async def __call__(self, prompt: str, model: str | None) -> str:
        self.prompts.append(prompt)
        self.models.append(model)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return with_nonce(prompt, **answer) if isinstance(answer, dict) else answer
