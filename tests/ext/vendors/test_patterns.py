"""Expressions of other languages, and permission rules."""

from __future__ import annotations

import pytest
from rows import each

from picohook.ext.vendors.patterns import javascript, path_glob, rust
from picohook.ext.vendors.permission_rule import fires


@each(
    ("pattern", "text", "found"),
    [
        ("^Bash$", "Bash", True),
        ("^Bash$", "Bash\n", False),
        (r"(?<a>x)y", "xy", True),
        (r"\d", "٣", False),
        ("[^]", "\n", True),
        ("[]", "x", False),
        ("[^]*[a]", "]]a", True),
        (r"\_\<\A", "_<A", True),
        (r"\bcafé\b", "a café ", False),
        (".", "\u2028", False),
        (r"^[\w-.]+$", "a-b.c", True),
        (r"^[\W]+$", "é", True),
        (r"[[]", "[", True),
        (r"mcp__.*__(read|write)", "mcp__fs__write", True),
        (r"a{2}", "aa", True),
        (r"a\/b", "a/b", True),
    ],
)
def test_an_expression_of_javascript_means_what_it_means_there(pattern, text, found):
    assert (javascript(pattern).problem, javascript(pattern).matches(text)) == ("", found)


@each("pattern", ["(", ")", "[", "*", "(?P<a>x)", "(?i)x", "a++", "(?<=a)b", r"(?<a>x)\k<a>"])
def test_what_cannot_be_read_as_javascript_matches_everything(pattern):
    assert javascript(pattern).problem
    assert javascript(pattern).matches("zzz")


@pytest.mark.parametrize(
    ("pattern", "text", "found"),
    [("(?i)bash", "Bash", True), ("^Bash$", "Bash\n", False), ("(?P<a>x)", "x", True), (r"\z", "", True)],
)
def test_an_expression_of_rust_means_what_it_means_there(pattern, text, found):
    assert (rust(pattern).problem, rust(pattern).matches(text)) == ("", found)


@pytest.mark.parametrize("pattern", ["(", "(?=a)", "^(?!mcp__).*", "(?<!a)b", r"(a)\1"])
def test_what_cannot_be_read_as_rust_matches_everything(pattern):
    assert rust(pattern).problem
    assert rust(pattern).matches("zzz")


def test_E1_no_glob_of_a_path_backtracks():
    assert not path_glob("/" + "**/" * 12 + "x").matches("/a" * 500)


@pytest.mark.parametrize(
    ("glob", "path", "found"),
    [
        ("/p/src/**", "/p/src/a/b.py", True),
        ("/p/src/*", "/p/src/a.py", True),
        ("/p/*.py", "/p/a/b.py", False),
        ("/p/**/b.py", "/p/b.py", True),
        ("/p/src", "/p/src/a.py", True),
        ("/p/src", "/p/srcs", False),
    ],
)
def test_a_glob_of_a_path(glob, path, found):
    assert path_glob(glob).matches(path) is found


@each(
    ("rule", "line", "does"),
    [
        ("Bash", "ls", True),
        ("Bash(git push)", "git push", True),
        ("Bash(git push)", "git push -f", False),
        ("Bash(git push:*)", "git push -f", True),
        ("Bash(git *)", "git", True),
        ("Bash(git *)", "gitk", False),
        ("Bash(rm:*)", "ls && rm -rf x", True),
        ("Bash(rm:*)", "ls | xargs; rm x", True),
        ("Bash(rm:*)", "FOO=1 BAR='a b' rm x", True),
        ("Bash(rm:*)", "echo $(rm x)", True),
        ("Bash(rm:*)", "echo `rm x`", True),
        ("Bash(rm:*)", "echo 'rm x'", False),
        ("Bash(git push:*)", "git $SUB", True),
        ("Bash(git push:*)", "git pull", False),
        ("Bash(rm:*)", "echo 'open", True),
        ("Bash(rm:*)", "(rm x)", True),
        ("Bash(* --force)", "git push --force", True),
        ("Bash(git * --force *)", "git push --force origin", True),
        ("Bash(git * --force *)", "git push --forced", False),
        ("Bash(a*b*c*d*e)", "abcd" * 2000, False),
        ("Bash(rm:*)", "x" * 20_000, True),
        ("Edit", "ls", False),
        ("Bash(cat /etc/passwd)", "cat /etc/passwd > x", True),
        *(
            ("Bash(rm *)", line, True)
            for line in (
                "if true; then rm -rf x; fi",
                "for f in a b; do rm x; done",
                "f() { rm x; }; f",
                "case a in a) rm x;; esac",
                "timeout -k 1 5 rm x",
                "sudo rm x",
                "time rm x",
                "cat <(rm x)",
                "\\rm x",
                "'rm' x",
                "r''m x",
                "r\\\nm x",
                ">out rm x",
                "A=(1 2) B=a\\ b rm x",
                "# it's\nrm x # it's",
                "cat <<E\nit's\nE\nrm x # '",
            )
        ),
        ("Bash(git push *)", "git  push x", True),
        ("Bash(rm *)", "git commit -m 'a; rm x' # it", True),
        ("Bash(rm *)", "git commit -m 'a; rm x'", False),
        ("Bash(rm *)", "if true; then ls 2>&1; fi", False),
    ],
)
def test_a_rule_about_a_command_line_errs_towards_running(rule, line, does):
    assert fires(rule, "Bash", {"command": line}, "/p") is does


@pytest.mark.parametrize(
    ("rule", "tool", "path", "does"),
    [
        ("Edit(src/**)", "Write", "/p/sub/src/a.py", True),
        ("Edit(/src/**)", "Edit", "/p/sub/src/a.py", True),
        ("Edit(//etc/**)", "Edit", "/etc/passwd", True),
        ("Edit(src/**)", "Edit", "/p/src/a.py", False),
        ("Read(*.env)", "Read", "/p/sub/x/.env", True),
        ("Read(src/*)", "Edit", "/p/sub/src/a", False),
        ("Edit(**/src/**)", "Edit", "/p/sub/a/src/b", True),
    ],
)
def test_a_rule_about_a_path_is_relative_to_the_directory(rule, tool, path, does):
    assert fires(rule, tool, {"file_path": path}, "/p/sub") is does


@pytest.mark.parametrize(
    ("rule", "tool", "given", "does"),
    [
        ("mcp__git", "mcp__git__push", {}, True),
        ("mcp__git__*", "mcp__git__push", {}, True),
        ("mcp__git__push", "mcp__git__pull", {}, False),
        ("WebFetch(domain:example.com)", "WebFetch", {"url": "https://example.com/x"}, True),
        ("WebFetch(domain:example.com)", "WebFetch", {"url": "https://example.org/x"}, False),
        ("Other(whatever)", "Other", {}, True),
        ("Bash(x)", "Bash", {}, True),
        ("Edit(x)", "Edit", {}, True),
    ],
)
def test_a_rule_about_anything_else(rule, tool, given, does):
    assert fires(rule, tool, given, "/p") is does
