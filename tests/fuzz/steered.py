"""One target under atheris: `python steered.py TARGET CORPUS [libFuzzer's options]`."""

import sys
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["picohook.protocol", "picohook.wire.text"]):
    from targets import SEEDS, TARGETS


def main():
    target, corpus, *options = sys.argv[1:]
    shape = b"\xff\x10\x00\x03\x07\x40\x01\xff" if target == "peer" else b""
    for place, seed in enumerate([*SEEDS, b"\n".join(SEEDS)]):
        (Path(corpus) / f"{place}").write_bytes(shape + seed + b"\n" * (target == "peer"))
    atheris.Setup([sys.argv[0], corpus, *options], TARGETS[target])
    atheris.Fuzz()


if __name__ == "__main__":
    main()
