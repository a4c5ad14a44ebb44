"""The page in a real browser, as the person who reads and clicks has it."""

from __future__ import annotations

import json
import os
import shutil
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from program import read_line
from selenium import webdriver
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.wait import WebDriverWait

from picohook.ext.approvals.queue import Answer, Queue

from .conftest import a_call

pytestmark = pytest.mark.one_worker("browser")  # one worker starts the browser

PATIENCE = 30
FLAGS = [
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
LS = a_call().call
HARM = "</pre><script>document.title='run'</script><img src=x onerror=\"document.title='run'\"> &amp; \x1b[2J \u202e caf\u00e9"
HARMFUL = json.dumps({"tool": f"bash {HARM}", "arguments": {HARM: HARM}}).encode()


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    programs = [shutil.which("chromium"), shutil.which("chromedriver")]
    if None in programs:
        pytest.skip("apt-get install chromium chromium-driver")
    options = webdriver.ChromeOptions()
    options.binary_location = programs[0]
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    for flag in (*FLAGS, f"--user-data-dir={tmp_path_factory.mktemp('chromium')}"):
        options.add_argument(flag)
    with webdriver.Chrome(options=options, service=webdriver.ChromeService(programs[1])) as running:
        yield running


@pytest.fixture
def queue(project):
    made = Queue(str(project.home / ".local/state/picohook/approvals"))
    yield made
    made.close()


@pytest.fixture
def put(queue):
    host = Queue(queue.directory, present=True)

    def put(*calls):
        made = [a_call(call, hook="person") for call in calls]
        for one in made:
            host.exchange([one])
        return [one.id for one in made]

    yield put
    host.close()


@pytest.fixture
def url(project, queue):
    """The address of the page, which a program of its own serves."""
    with project.start("approvals", "--web") as serving:
        yield read_line(serving.stdout).strip()
        serving.terminate()


class Person:
    """Somebody at the browser."""

    def __init__(self, browser):
        self.browser = browser

    def wait(self, condition):
        return WebDriverWait(self.browser, PATIENCE, poll_frequency=0.05).until(lambda _: condition())

    def sees(self, calls):
        """The calls on the page, once there are so many."""

        def look():
            shown = self.browser.find_elements(By.TAG_NAME, "article")
            return len(shown) == calls and (shown or True)

        return self.wait(look)

    def types(self, *keys):
        ActionChains(self.browser).send_keys(*keys).perform()

    @property
    def told(self):
        return self.browser.find_element(By.ID, "said").text

    @property
    def focused(self):
        return self.browser.execute_script("return document.activeElement.closest('.call')?.dataset.id")

    def waits_until_it_is_read(self):
        """A key counts once a call has been in focus for a moment."""
        self.browser.execute_script("focused = 0")


@pytest.fixture
def person(browser):
    first, *others = browser.window_handles
    for window in others:
        browser.switch_to.window(window)
        browser.close()
    browser.switch_to.window(first)
    browser.get("about:blank")
    browser.get_log("browser")
    browser.get_log("performance")
    return Person(browser)


def test_clicks_decide_and_calls_come_and_go_without_a_reload(url, person, put, queue):
    person.browser.get(url)
    person.sees(calls=0)
    person.wait(lambda: person.browser.find_element(By.TAG_NAME, "h1").text == "No call waits for you")
    for button, reason, answer in (
        ("yes", "", (True, "")),
        ("no", "", (False, "")),
        ("no", "caf\u00e9", (False, "caf\u00e9")),
    ):
        [call] = put(LS)
        [card] = person.sees(calls=1)
        card.find_element(By.NAME, "reason").send_keys(reason)
        card.find_element(By.CSS_SELECTOR, f"button[value={button}]").click()
        person.sees(calls=0)
        assert (queue.find(call).answer.yes, queue.find(call).answer.reason) == answer
    assert queue.find(call).answer.by == "the page, from 127.0.0.1"


def test_enter_in_the_reason_is_a_no(url, person, put, queue):
    [call] = put(LS)
    person.browser.get(url)
    [card] = person.sees(calls=1)
    card.find_element(By.NAME, "reason").send_keys(f"not now{Keys.ENTER}")
    person.sees(calls=0)
    assert queue.find(call).answer == Answer(False, "not now", "the page, from 127.0.0.1")


def test_the_keyboard_alone_is_enough_and_a_key_that_was_meant_for_the_call_before_does_nothing(
    url, person, put, queue
):
    calls = put(LS, LS, LS, LS)
    person.browser.get(url)
    person.sees(calls=4)
    person.types("y")  # no call is in focus
    person.types("j", "j", "k")
    assert person.focused == calls[0]
    person.waits_until_it_is_read()
    person.types("yy")
    person.sees(calls=3)
    person.wait(lambda: person.focused == calls[1])
    assert queue.find(calls[1]).answer is None
    person.waits_until_it_is_read()
    person.types("n")
    person.sees(calls=2)
    person.wait(lambda: person.focused == calls[2])
    person.waits_until_it_is_read()
    person.types("r")
    person.types("yn", Keys.ENTER)
    person.sees(calls=1)
    said = [queue.find(call).answer for call in calls]
    assert [one and (one.yes, one.reason) for one in said] == [(True, ""), (False, ""), (False, "yn"), None]
    person.types(Keys.TAB, Keys.TAB, Keys.TAB)
    assert person.browser.execute_script("return document.activeElement.value") in {"no", "yes", ""}


def test_the_page_shows_the_models_text_and_runs_none_of_it(url, person, put):
    put(HARMFUL)
    person.browser.get(url)
    [card] = person.sees(calls=1)
    shown = HARM.replace("\x1b", r"\x1b").replace("\u202e", r"\u202e")
    assert card.find_element(By.TAG_NAME, "h2").text == f"bash {shown}"
    assert card.find_element(By.TAG_NAME, "h3").text == shown
    assert card.find_element(By.TAG_NAME, "pre").text == shown
    assert person.browser.find_elements(By.TAG_NAME, "img") == []
    assert person.browser.title == "(1) Approvals"


def test_the_first_answer_counts_and_others_see_it(url, person, put, queue):
    [call] = put(LS)
    person.browser.get(url)
    person.sees(calls=1)
    queue.answer(call, Answer(False, "", "the terminal 3, by ann"))
    person.sees(calls=0)
    person.wait(lambda: person.told == f"{call} was answered already: no, by the terminal 3, by ann")


def test_what_is_typed_stays_when_other_calls_come_and_go(url, person, put, queue):
    first, second = put(LS, LS)
    person.browser.get(url)
    _, card = person.sees(calls=2)
    card.find_element(By.NAME, "reason").send_keys("half a rea")
    queue.answer(first, Answer(True, "", ""))
    put(LS)
    ids = "return [...document.querySelectorAll('article')].map((one) => one.dataset.id)"
    person.wait(lambda: person.browser.execute_script(ids)[0] == second)
    person.types("son")
    assert card.find_element(By.NAME, "reason").get_attribute("value") == "half a reason"


def test_the_address_loses_the_token_which_is_in_no_request_and_no_cookie(url, person, put):
    put(LS)
    person.browser.get(url)
    person.sees(calls=1)
    place, _, token = url.partition("#")
    assert person.browser.current_url == place
    assert person.browser.get_cookies() == []
    person.browser.refresh()  # the tab still knows it
    person.sees(calls=1)
    entries = [json.loads(entry["message"])["message"] for entry in person.browser.get_log("performance")]
    asked = [one["params"]["request"]["url"] for one in entries if one["method"] == "Network.requestWillBeSent"]
    assert asked
    assert [one for one in asked if not one.startswith(place) or token in one] == []
    assert [entry for entry in person.browser.get_log("browser") if entry["level"] == "SEVERE"] == []
    person.browser.execute_script("sessionStorage.clear()")
    person.browser.refresh()
    person.wait(lambda: "the token is missing" in person.browser.find_element(By.TAG_NAME, "h1").text)
    person.sees(calls=0)


class Elsewhere(BaseHTTPRequestHandler):
    """Another site's page, which knows the address, the call, and its signed link."""

    page = ""

    def do_GET(self):
        data = self.page.encode()
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


def test_a_page_of_another_origin_neither_reads_nor_answers(url, person, put, queue, elsewhere):
    [call] = put(LS)
    place, _, token = url.partition("#")
    link = f"{place}call/{call}?key={queue.signature(call)}"
    script = f"""
      const headers = {{ Authorization: "Bearer {token}" }}, body = '{{"yes": true, "reason": ""}}';
      const tries = [
        fetch("{place}calls", {{ headers }}),
        fetch("{place}calls/{call}", {{ method: "POST", body, headers }}),
        fetch("{link}", {{ method: "POST", body: "answer=yes", mode: "no-cors" }}),
        fetch("{link}").then((response) => response.text()),
      ];
      Promise.allSettled(tries).then((all) => {{ document.title = all.map((one) => one.status).join(" "); }});
    """
    form = f'<form method="post" action="{link}"><button name="answer" value="yes">Win</button></form>'
    frame = f'<iframe src="{link}"></iframe>'
    Elsewhere.page = f"<!doctype html><title>x</title>{form}{frame}<script>{script}</script>"
    person.browser.get(elsewhere)
    person.wait(lambda: person.browser.title.count(" ") == 3)
    assert person.browser.title == "rejected rejected rejected rejected"
    person.browser.find_element(By.TAG_NAME, "button").click()
    person.wait(lambda: person.browser.current_url == link)
    assert "not for other sites" in person.browser.page_source
    assert queue.find(call).is_waiting


def test_a_name_that_was_bound_anew_to_this_machine_reads_nothing(url, person, put):
    put(LS)
    port = url.rpartition("/")[0].rpartition(":")[2]
    person.browser.get(
        f"http://rebound.localhost:{port}/#{url.partition('#')[2]}"
    )  # browsers resolve it to this machine
    assert "not for other sites" in person.browser.page_source
    assert person.sees(calls=0) is True


def test_a_link_answers_without_a_script(url, person, put, queue):
    [call] = put(HARMFUL)
    place = url.partition("#")[0]
    link = f"{place}call/{call}?key={queue.signature(call)}"
    person.browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        person.browser.get(link)
        [card] = person.sees(calls=1)
        card.find_element(By.NAME, "reason").send_keys("no thanks")
        card.find_element(By.CSS_SELECTOR, "button[value=no]").click()
        person.wait(lambda: "waits no more" in person.browser.page_source)
    finally:
        person.browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})
    assert queue.find(call).answer == Answer(False, "no thanks", "a link, from 127.0.0.1")


def test_it_fits_a_phone_and_has_a_light_and_a_dark_form(url, person, put):
    put(LS, json.dumps({"tool": "x" * 500, "arguments": {"y" * 500: "z" * 5000}}).encode())
    person.browser.get(url)
    person.sees(calls=2)
    back = {}
    for scheme in ("light", "dark"):
        media = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
        person.browser.execute_cdp_cmd("Emulation.setEmulatedMedia", media)
        for width in (320, 390, 1280):
            screen = {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": width < 500}
            person.browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", screen)
            root = "document.documentElement"
            assert person.browser.execute_script(f"return {root}.scrollWidth - {root}.clientWidth") == 0
        back[scheme] = person.browser.execute_script("return getComputedStyle(document.body).backgroundColor")
    person.browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    assert back["light"] != back["dark"]


def test_a_page_whose_program_has_ended_says_so(project, queue, person):
    with project.start("approvals", "--web") as serving:
        person.browser.get(read_line(serving.stdout).strip())
        person.wait(lambda: person.browser.find_element(By.TAG_NAME, "h1").text == "No call waits for you")
        serving.terminate()
        serving.wait()
    person.wait(lambda: "does not answer" in person.browser.find_element(By.TAG_NAME, "h1").text)
    assert [name for name in os.listdir(queue.directory) if name.endswith(".alive")] == []
