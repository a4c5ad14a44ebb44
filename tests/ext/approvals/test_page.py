"""The page's endpoints: who may read and answer, and what a link can do."""

from __future__ import annotations

import json
import re
import socket
from html import unescape
from pathlib import Path

import pytest
from rows import each
from starlette.testclient import TestClient

from picohook.ext.approvals.page import MOST_BYTES, MOST_SHOWN, Page, place_of
from picohook.ext.approvals.queue import Answer, Queue

from .conftest import a_call

TOKEN = "t" * 32
KNOWN = {"Authorization": f"Bearer {TOKEN}"}
HARM = json.dumps(
    {
        "tool": "</pre><script>document.title='run'</script>",
        "arguments": {"a\"'><img src=x onerror=x>": "\x1b[2J\u202e&<b>"},
    }
).encode()


@pytest.fixture
def place():
    with socket.create_server(("127.0.0.1", 0)) as bound:
        yield place_of(bound, "127.0.0.1", encrypted=False)


@pytest.fixture
def page(state, place):
    """The page, as a browser on this machine asks it."""
    own = Queue()
    client = TestClient(Page(own, TOKEN).app(*place), base_url=place[0])
    client.place = place[0]
    yield client
    client.close()
    own.close()


@pytest.fixture
def put(queue, host):
    def put(*calls, lasts=60.0, **about):
        made = [a_call(call, lasts, **about) for call in calls or (a_call().call,)]
        for one in made:
            host.exchange([one])
        return [one.id for one in made]

    return put


def listed(page, since=""):
    return page.get("/calls", params={"since": since}, headers=KNOWN).json()


def test_the_page_itself_holds_nothing_and_runs_nothing_of_others(page, put):
    put(HARM)
    for path in ("/", "/page.js", "/page.css"):
        response = page.get(path)
        assert response.status_code == 200
        assert "script>document" not in response.text
        policy = response.headers["content-security-policy"]
        assert policy.startswith("default-src 'none'; script-src 'self'")
        assert "unsafe" not in policy
        assert not re.search(r"https?://", response.text)
        assert "set-cookie" not in response.headers


@each("said", [{}, {"Authorization": "Bearer x"}, {"Authorization": f"Basic {TOKEN}"}, {"Cookie": f"token={TOKEN}"}])
def test_without_the_token_nothing_is_read_or_answered(page, queue, put, said):
    [call] = put()
    assert page.get("/calls", headers=said).status_code == 401
    assert page.get(f"/calls?token={TOKEN}", headers=said).status_code == 401
    assert page.get(f"/call/{call}", headers=said).status_code == 403
    assert page.post(f"/call/{call}", data={"answer": "yes"}, headers=said).status_code == 403
    assert queue.find(call).is_waiting


@each(
    "said",
    [
        {"Host": "evil.example"},
        {"Host": "evil.example:80"},
        {"Host": "127.0.0.1"},
        {"Host": ""},
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1:1"},
        {"Sec-Fetch-Site": "cross-site", "Origin": "https://evil.example"},
        {"Sec-Fetch-Site": "same-site", "Origin": "http://localhost:1"},
    ],
)
def test_another_sites_page_and_a_name_that_was_bound_anew_are_refused_even_with_the_token(page, queue, put, said):
    [call] = put()
    key = queue.signature(call)
    for method, path in (
        ("GET", "/calls"),
        ("POST", f"/call/{call}"),
        ("GET", "/"),
        ("POST", f"/call/{call}?key={key}"),
    ):
        body = "answer=yes" if method == "POST" else None
        assert page.request(method, path, headers={**KNOWN, **said}, content=body).status_code == 403
    assert queue.find(call).is_waiting


def test_a_form_of_another_site_is_refused_even_if_it_names_no_origin(page, queue, put):
    [call] = put()
    path, cross = f"/call/{call}?key={queue.signature(call)}", {"Sec-Fetch-Site": "cross-site"}
    assert page.post(path, content="answer=yes", headers=cross).status_code == 403
    assert page.get(path, headers=cross).status_code == 200  # a link in a chat only shows
    assert queue.find(call).is_waiting


def test_a_call_is_listed_as_data_and_answered_once(page, queue, put):
    [call] = put(HARM)
    now = listed(page)
    assert (now["count"], [one["id"] for one in now["calls"]]) == (1, [call])
    html = now["calls"][0]["html"]
    assert "<script>document" not in html
    assert "<img" not in html
    assert "&lt;script&gt;document" in html
    assert r"\x1b[2J\u202e&amp;&lt;b&gt;" in html
    answered = page.post(f"/call/{call}", data={"answer": "no", "reason": " use git mv "}, headers=KNOWN)
    assert answered.status_code == 200
    assert queue.find(call).answer == Answer(False, "use git mv", "the page, from testclient")
    again = page.post(f"/call/{call}", data={"answer": "yes"}, headers=KNOWN)
    assert (again.status_code, again.json()["error"]) == (
        409,
        f"{call} was answered already: no, by the page, from testclient",
    )
    assert page.get(f"/call/{call}", headers=KNOWN).json()["end"] == again.json()["error"]
    assert listed(page, now["version"])["calls"] == []


NO_ANSWERS = ["", "answer=", "answer=true", "answer=YES", "yes=yes", '{"yes": true}', "answer", "\udcff=1"]


@each("body", [*NO_ANSWERS, "answer=yes&reason=" + "x" * MOST_BYTES])
def test_what_is_no_clear_answer_is_none(page, queue, put, body):
    [call] = put()
    path, key = link(queue, call)
    for by in ({"headers": KNOWN}, {"params": key}):
        assert page.post(path, content=body.encode("utf-8", "surrogateescape"), **by).status_code == 400
    assert queue.find(call).is_waiting


def test_a_change_by_anybody_ends_the_wait_for_one(page, queue, put):
    [first] = put()
    before = listed(page)
    [second] = put()
    after = listed(page, before["version"])
    assert [one["id"] for one in after["calls"]] == [first, second]
    queue.answer(first, Answer(True, "", ""))
    assert [one["id"] for one in listed(page, after["version"])["calls"]] == [second]


def test_a_flood_is_cut_and_counted(page, put):
    calls = put(*[a_call().call] * (MOST_SHOWN + 5))
    now = listed(page)
    assert (now["count"], [one["id"] for one in now["calls"]]) == (MOST_SHOWN + 5, calls[:MOST_SHOWN])


def link(queue, call, **more):
    return f"/call/{call}", {"key": queue.signature(call), **more}


def test_a_link_shows_one_call_and_only_a_post_answers_it_once(page, queue, put):
    call, other = put(HARM, a_call().call)
    path, key = link(queue, call)
    for _ in range(3):
        shown = page.get(path, params=key)
        assert "A call waits for you" in shown.text
        assert other not in shown.text
        assert "<script" not in shown.text
        assert page.head(path, params=key).status_code == 200
    assert queue.find(call).is_waiting
    done = page.post(path, params=key, content="answer=no&reason=caf%C3%A9")
    assert f"{call} was answered already: no, by a link, from testclient" in done.text
    assert queue.find(call).answer.reason == "caf\u00e9"
    assert page.post(path, params=key, content="answer=yes").status_code == 409
    assert "waits no more" in page.get(path, params=key).text
    assert queue.find(call).answer.yes is False
    assert queue.find(other).is_waiting


def test_a_link_is_for_its_call_alone_and_only_until_it_ends(page, queue, put):
    call, other, [late] = *put(a_call().call, a_call().call), put(lasts=-1)
    _, key = link(queue, call)
    for wrong in (key, {"key": ""}, {}, {"key": "\u00e9"}, {"key": key["key"][:-1]}):
        assert page.post(f"/call/{other}", params=wrong, content="answer=yes").status_code == 403
        assert page.get(f"/call/{other}", params=wrong).status_code == 403
    path, key = link(queue, late)
    assert page.post(path, params=key, content="answer=yes").status_code == 409
    assert "was not answered in time" in page.get(path, params=key).text
    assert queue.find(call).is_waiting
    assert page.get("/call/unknown", params={"key": queue.signature("unknown")}).status_code == 409


def test_all_of_a_large_call_can_be_read(page, queue, put):
    [call] = put(
        json.dumps({"tool": "write", "arguments": {"content": "<b>\u202e" + "x" * (10 << 20) + "END"}}).encode()
    )
    html = listed(page)["calls"][0]["html"]
    assert "too large to be shown here" in html
    path, key = link(queue, call, whole="")
    assert f"{path}?key={key['key']}&amp;whole" in html
    whole = page.get(path, params=key)
    assert whole.headers["content-type"].startswith("text/plain")
    assert whole.text.endswith('END"}}')


def test_a_host_hands_out_links_to_a_page_that_is_open(page, queue, host):
    assert queue.link("a") == ""
    host.serve(page.place)
    assert queue.link("a") == f"{page.place}call/a?key={queue.signature('a')}"
    assert len({queue.signature(call) for call in ("a", "b", "ab")}) == 3


def test_a_page_is_asked_for_by_its_own_names_only():
    with socket.create_server(("127.0.0.1", 0)) as bound:
        port = bound.getsockname()[1]
        address, names = place_of(bound, "desk.example", encrypted=True)
    assert address == f"https://desk.example:{port}/"
    assert names == {f"{name}:{port}" for name in ("desk.example", "127.0.0.1", "localhost")}


def test_no_file_of_the_page_names_another_site():
    from picohook.ext.approvals import page as module

    files = [file for file in Path(module.FILES).rglob("*") if file.is_file()]
    assert len(files) == 4
    for file in files:
        assert not re.search(r"https?:|//[a-z]+\.", file.read_text("utf-8")), file


def offered(html):
    """The values of the choices that a card has for a yes."""
    return [unescape(value) for value in re.findall(r'<option value="([^"]*)">', html)]


def test_a_yes_is_for_the_later_calls_that_a_person_chooses(page, queue, put):
    one, two = put(), put()
    first, second = put(grants=True)[0], put(grants=True)[0]
    without, _, card, _ = (call["html"] for call in listed(page)["calls"])
    assert offered(without) == []
    this_alone, for_project, *_ = offered(card)
    assert (this_alone, json.loads(for_project)) == ("", {"for": "project"})
    body = {"answer": "yes", "grant": for_project}
    assert page.post(f"/call/{first}", data=body, headers=KNOWN).status_code == 200
    assert page.post(f"/call/{second}?key={queue.signature(second)}", data=body).status_code == 200
    assert [queue.find(call).answer.grant for call in (first, second)] == [{"for": "project"}] * 2
    assert queue.find(one[0]).is_waiting
    assert queue.find(two[0]).is_waiting


@each("grant", ['{"for": "project", "like": {"command": "anything"}}', "{}", "[", "null", '{"for": "session"} '])
def test_a_yes_for_calls_that_were_not_offered_is_no_answer(page, queue, put, grant):
    [call] = put()
    assert page.post(f"/call/{call}", data={"answer": "yes", "grant": grant}, headers=KNOWN).status_code == 409
    assert (
        page.post(f"/call/{call}?key={queue.signature(call)}", data={"answer": "yes", "grant": grant}).status_code
        == 409
    )
    assert queue.find(call).is_waiting


def test_a_no_grants_nothing(page, queue, put):
    [call] = put(grants=True)
    said = {"answer": "no", "grant": '{"for": "session"}'}
    assert page.post(f"/call/{call}", data=said, headers=KNOWN).status_code == 200
    assert queue.find(call).answer.grant is None
