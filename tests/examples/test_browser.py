"""web_approval.py in a real browser, as the person who clicks has it."""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import anyio
import anyio.to_thread
import pytest
from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.wait import WebDriverWait

from picohook import ToolCall

from .conftest import needed

pytestmark = [pytest.mark.anyio, pytest.mark.one_worker("browser")]  # one worker starts the browser

PATIENCE = 30
INSTALL = "apt-get install chromium chromium-driver"
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]

HARM = "</pre><script>document.title='run'</script><img src=x onerror=\"document.title='run'\"> &amp; \x1b[2J \u202e caf\u00e9"
CALL = ToolCall(tool=f"bash {HARM}", arguments={"command": f"rm {HARM}"})


@pytest.fixture(scope="module")
def anyio_backend():
    """What is tried here is the page: one loop will do."""
    return "asyncio", {"use_uvloop": False}


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    chromium, driver = (needed(program, INSTALL) for program in ("chromium", "chromedriver"))
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for flag in (*FLAGS, f"--user-data-dir={tmp_path_factory.mktemp('chromium')}"):
        options.add_argument(flag)
    with webdriver.Chrome(options=options, service=webdriver.ChromeService(driver)) as running:
        yield running


class Person:
    """Somebody at the browser. Each of their acts is done in a thread, while the host goes on."""

    def __init__(self, browser):
        self.browser = browser

    async def opens(self, url):
        await anyio.to_thread.run_sync(self.browser.get, url)

    async def sees(self, calls):
        """The calls on the page, once there are so many."""

        def look(browser):
            shown = browser.find_elements(By.TAG_NAME, "article")
            return len(shown) == calls and (shown or True)

        wait = WebDriverWait(self.browser, PATIENCE, poll_frequency=0.05)
        return await anyio.to_thread.run_sync(wait.until, look)

    async def clicks(self, button, reason=""):
        def act():
            self.browser.find_element(By.NAME, "reason").send_keys(reason)
            if button:
                self.browser.find_element(By.XPATH, f"//button[.='{button}']").click()

        await anyio.to_thread.run_sync(act)

    async def is_lured_to(self, target):
        def act():
            self.browser.find_element(By.TAG_NAME, "button").click()
            WebDriverWait(self.browser, PATIENCE, poll_frequency=0.05).until(lambda seen: seen.current_url == target)

        await anyio.to_thread.run_sync(act)


@pytest.fixture
def person(browser):
    first, *others = browser.window_handles
    for window in others:
        browser.switch_to.window(window)
        browser.close()
    browser.switch_to.window(first)
    browser.get("about:blank")
    return Person(browser)


ACTS = {
    ("Approve", ""): (True, ""),
    ("Deny", ""): (False, "the user said no"),
    ("Deny", "caf\u00e9 first"): (False, "the user said: caf\u00e9 first"),
    ("", f"not now{Keys.ENTER}"): (False, "the user said: not now"),
}


async def test_a_click_decides(web_approval, person):
    host, url = web_approval
    outcomes = []

    async def ask():
        outcomes.append(await host.approve_tool(ToolCall(tool="bash", arguments={"command": "ls"})))

    await person.opens(url)
    await person.sees(calls=0)
    for act, decided in ACTS.items():
        async with anyio.create_task_group() as group:
            group.start_soon(ask)
            await person.sees(calls=1)  # without a reload by hand
            await person.clicks(*act)
        await person.sees(calls=0)
        assert (outcomes[-1].approved, outcomes[-1].reason) == decided


async def test_the_page_shows_the_models_text_and_runs_none_of_it(web_approval, person):
    host, url = web_approval
    async with anyio.create_task_group() as group:
        group.start_soon(host.approve_tool, CALL)
        await person.opens(url)
        [call] = await person.sees(calls=1)
        tool, arguments = (call.find_element(By.TAG_NAME, name).text for name in ("h2", "pre"))
        shown = HARM.replace("\x1b", r"\x1b").replace("\u202e", r"\u202e")
        assert tool == f"bash {shown}"
        assert "<script>document.title='run'</script>" in arguments
        assert person.browser.find_elements(By.TAG_NAME, "img") == []
        assert person.browser.title == "(1) Approve"
        await person.clicks("Deny")


@pytest.mark.parametrize("web_approval", [5], indirect=True)
async def test_a_page_that_is_closed_approves_nothing(web_approval, person):
    host, url = web_approval
    outcomes = []

    async def ask():
        outcomes.append(await host.approve_tool(CALL))

    person.browser.switch_to.new_window("tab")
    async with anyio.create_task_group() as group:
        group.start_soon(ask)
        await person.opens(url)
        await person.sees(calls=1)
        person.browser.close()
    person.browser.switch_to.window(person.browser.window_handles[0])
    await person.opens(url)
    await person.sees(calls=0)
    [outcome] = outcomes
    assert (outcome.approved, outcome.reason) == (False, "hook person failed: no answer within 5 s (approval_timeout)")


class Elsewhere(BaseHTTPRequestHandler):
    """Another site's page, with a form for the hook."""

    form = ""

    def do_GET(self):
        data = f'<form method="post" {self.form}<button>Win</button></form>'.encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *arguments):
        pass


@pytest.fixture
def elsewhere():
    with ThreadingHTTPServer(("127.0.0.1", 0), Elsewhere) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()
        thread.join()


async def test_a_page_of_another_origin_approves_nothing(web_approval, person, elsewhere, monkeypatch):
    """Whether it knows nothing, the page's address, or the call too."""
    host, url = web_approval
    outcomes = []

    async def ask():
        outcomes.append(await host.approve_tool(CALL))

    async with anyio.create_task_group() as group:
        group.start_soon(ask)
        await person.opens(url)
        [call] = await person.sees(calls=1)
        key = call.find_element(By.NAME, "call").get_attribute("value")
        for target, known in ((url.rsplit("/", 2)[0] + "/", "0"), (url, "0"), (url, key)):
            monkeypatch.setattr(
                Elsewhere,
                "form",
                f'action="{target}decide"><input name="call" value="{known}"><input name="approved" value="yes">',
            )
            await person.opens(elsewhere)
            await person.is_lured_to(f"{target}decide")
            await person.opens(url)
            await person.sees(calls=1)
            assert outcomes == []
        await person.clicks("Deny")
    assert [outcome.approved for outcome in outcomes] == [False]
