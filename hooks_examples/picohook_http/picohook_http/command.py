"""`picohook signature`: what a server compares with the header `X-Signature`."""

import os

import typer

from .hook import signature

app = typer.Typer()


@app.command()
def sign(key_env: str) -> None:
    """Print the signature of the question on stdin, by the key in this environment variable."""
    print(signature(os.environ[key_env], typer.get_binary_stream("stdin").read()))
