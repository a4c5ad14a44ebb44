"""The kind of hook `url = "https://..."`."""

import hashlib
import hmac
import os

import httpx
from pydantic import Field

import picohook


def signature(key: str, body: bytes) -> str:
    """The value of the header `X-Signature`."""
    return hmac.new(key.encode(), body, hashlib.sha256).hexdigest()


def client(_host: picohook.HostServices) -> httpx.AsyncClient:
    """The connections of one host. Its `aclose` is called when the hooks have ended."""
    return httpx.AsyncClient(timeout=None)  # the time limit of a question ends it


class UrlSpec(picohook.HookSpec):
    """A hook at a URL: each question is posted there, and the response is the decision."""

    url: str = Field(pattern="^https?://", description="Where questions are posted.")
    key_env: str = Field(default="", description="With url: set by the table [http].")
    on_failure: picohook.OnFailure = Field(default=picohook.OnFailure.DENY, description="The consequence of a failure.")

    @property
    def kind(self) -> str:
        return "url"

    def make(self) -> "UrlHook":
        return UrlHook(self)


class UrlHook(picohook.Hook):
    """Posts each question to the URL."""

    in_process = False
    takes_bytes = True
    spec: UrlSpec

    def problem(self, _host: picohook.HostServices) -> picohook.Problem | None:
        lacks = self.spec.key_env not in os.environ
        return picohook.Problem(self.spec.source, f"hooks.{self.name}.key_env", "it is not set") if lacks else None

    def open(self, host: picohook.HostServices) -> None:
        self._http = host.shared(client)

    async def handle(self, question: picohook.Question[picohook.Payload]) -> picohook.Decision:
        body = question.shared.params()
        headers = {"X-Stage": question.stage.name, "X-Signature": signature(os.environ[self.spec.key_env], body)}
        with question.time_limit():
            try:
                response = (await self._http.post(self.spec.url, content=body, headers=headers)).raise_for_status()
            except httpx.HTTPError as error:
                raise picohook.HookUnavailableError(str(error), cause="unreachable", hook=self.name) from error
        return picohook.decision_in(question.stage, response.content)
