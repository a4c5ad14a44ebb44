"""Becomes web_approval.py, and leaves a child behind that is the person at its page: one who says no to every call."""

from __future__ import annotations

import os
import re
import sys
import urllib.parse
import urllib.request


def open_page(url, **form):
    body = urllib.parse.urlencode(form).encode() if form else None
    with urllib.request.urlopen(url, body, timeout=60) as reply:
        return reply.read().decode()


def person(url):
    while True:
        page = open_page(url)
        for call in re.findall('name="call" value="([0-9a-f]+)"', page):
            open_page(f"{url}decide", call=call)
        open_page(f"{url}changes?since={re.search('since=([0-9]+)', page)[1]}")


said, to_child = os.pipe()
if os.fork():
    os.dup2(to_child, 2)
    os.execv(sys.argv[1], sys.argv[1:])
os.close(to_child)
for stream in (0, 1):
    os.close(stream)  # the hook's alone
with open(said, encoding="utf-8") as lines:
    for line in lines:
        sys.stderr.write(line)
        if "http://" in line:
            try:
                person(line.split()[-1])
            except OSError:
                pass  # the hook has ended, and its page with it
