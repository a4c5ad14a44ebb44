"""The client of `picohook shim`, which a vendor's agent starts for each event: `python -I -S client.py VENDOR EVENT ...`.

It is a separate file, because Python compiles the main program at each start, and keeps other modules compiled.
"""

import sys

if __name__ == "__main__":
    try:
        sys.path.insert(0, __file__.removesuffix("shim/client.py") + "alone")
        import ask_host  # type: ignore[import-not-found]
    except BaseException as error:  # on any error, the call is refused
        sys.stderr.write(f"picohook: {error}\n")
        sys.exit(1 if "pass" in sys.argv else 2)
    del sys.path[0]
    ask_host.main()
