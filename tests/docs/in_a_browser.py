"""The site in a browser, as a reader has it: `make site` runs this."""

from __future__ import annotations

import shutil
import subprocess
import sys
from itertools import product
from pathlib import Path

import pytest
from selenium import webdriver
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.wait import WebDriverWait

from picohook import Deny, FunctionHook, Host, Recorder

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "docs/site"))


import pages  # noqa: E402 - it is in the directory added above

WIDTHS = (390, 768, 1280, 1920)
LOOK = """
const room = document.documentElement.clientWidth;
const scrolls = one => one && (["auto", "scroll"].includes(getComputedStyle(one).overflowX) || scrolls(one.parentElement));
const wide = [...document.querySelectorAll(".md-content *")].filter(one => one.getBoundingClientRect().right > room + 1);
const rows = new Set([...document.querySelectorAll(".md-tabs__item")].map(one => one.offsetTop));
const small = [...document.querySelectorAll(".md-content code")].filter(one => parseFloat(getComputedStyle(one).fontSize) < 12);
const cells = [...document.querySelectorAll(".md-content td")].filter(one => one.textContent.trim());
const squeezed = cells.filter(one => room < 600 ? getComputedStyle(one).display !== "block" : one.clientWidth < 40);
return [
  ...wide.filter(one => !scrolls(one.parentElement)).map(one => `too wide: ${one.outerHTML.slice(0, 80)}`),
  ...(rows.size > 1 ? ["a menu in two rows"] : []),
  ...squeezed.map(one => `a cell too narrow: ${one.textContent}`),
  ...small.map(one => `letters too small: ${one.textContent}`),
];
"""
"""What is wrong with a page on this screen. What is wider than the screen may be in something that scrolls by itself."""
PATIENCE = 30
FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
)


@pytest.fixture(scope="module")
def site():
    """The built site."""
    assert pages.build() == 0
    return pages.SITE


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    """A browser that notes what it loads."""
    programs = [shutil.which("chromium"), shutil.which("chromedriver")]
    if None in programs:
        pytest.skip("apt-get install chromium chromium-driver")
    options = webdriver.ChromeOptions()
    options.binary_location = programs[0]
    options.set_capability("goog:loggingPrefs", {"performance": "ALL", "browser": "ALL"})
    for flag in (*FLAGS, f"--user-data-dir={tmp_path_factory.mktemp('chromium')}"):
        options.add_argument(flag)
    with webdriver.Chrome(options=options, service=webdriver.ChromeService(programs[1])) as running:
        yield running


@pytest.mark.timeout(1200)
def test_no_page_is_wider_than_its_screen_and_code_can_be_read(site, browser):
    wrong = []
    for page in sorted(set(site.rglob("*.html")) - {site / "404.html"}):  # which a server shows, not a disk
        browser.get(page.as_uri())
        for width, scheme in product(WIDTHS, ("light", "dark")):
            media = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
            browser.execute_cdp_cmd("Emulation.setEmulatedMedia", media)
            screen = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < WIDTHS[1]}
            browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", screen)
            wrong += [f"{page.relative_to(site)} at {width}, {scheme}: {one}" for one in browser.execute_script(LOOK)]
    assert wrong == []


def test_a_site_on_a_disk_is_searched_and_asks_no_other_site(site, browser):
    browser.get((site / "index.html").as_uri())
    browser.execute_script("document.querySelector('.md-search__button').click()")
    field = "[...document.querySelectorAll('*')].map(one => one.shadowRoot?.querySelector('input')).find(one => one)"
    WebDriverWait(browser, PATIENCE).until(lambda driver: driver.execute_script(f"return {field}")).send_keys(
        "heartbeat"
    )
    links = field.replace("querySelector('input')", "querySelector('a[href*=\".html\"]')")
    WebDriverWait(browser, PATIENCE).until(lambda driver: driver.execute_script(f"return {links}"))
    asked = [entry["message"] for entry in browser.get_log("performance") if "requestWillBeSent" in entry["message"]]
    assert asked
    assert [one for one in asked if '"url":"http' in one] == []
    assert [entry for entry in browser.get_log("browser") if entry["level"] == "SEVERE"] == []


MARKUP = "</script><script>window.owned = 1</script><img src=x onerror='window.owned = 1'><!-- &"
STATE = "return [window.owned, document.querySelectorAll('img, iframe').length, document.querySelectorAll('summary').length]"


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """The page of a session with 20,000 calls, some of them with markup in every field."""
    folder = tmp_path_factory.mktemp("page")

    def guard(call):
        return Deny(f"no {MARKUP}") if call.arguments["n"] % 100 == 0 else None

    with Host.blocking(
        [FunctionHook(MARKUP, {"before_tool": guard})], listeners=[Recorder(folder / "r.jsonl")]
    ) as host:
        for n in range(20_000):
            host.before_tool({"tool": MARKUP if n % 100 == 0 else "bash", "arguments": {"n": n, MARKUP: MARKUP}})
    command = [sys.executable, "-m", "picohook", "trace", folder / "r.jsonl", "--html", folder / "page.html"]
    subprocess.run(command, check=True)
    return folder / "page.html"


@pytest.mark.timeout(600)
def test_the_page_of_a_session_is_searched_filtered_and_walked_and_nothing_in_it_runs(page, browser):
    browser.get_log("performance")
    browser.get_log("browser")
    browser.get(page.as_uri())
    count = "return document.getElementById('count').textContent"

    def wait_for(script, wanted):
        WebDriverWait(browser, PATIENCE).until(lambda driver: driver.execute_script(script) == wanted)

    wait_for(count, "20001 of 20001")
    verdict = "const one = document.getElementById('verdict'); one.value = 'deny_tool'; "
    browser.execute_script(verdict + "one.dispatchEvent(new Event('input', {bubbles: true}))")
    wait_for(count, "200 of 20001")
    browser.find_element("tag name", "body").send_keys("/")
    browser.switch_to.active_element.send_keys("700,")
    wait_for(count, "20 of 20001")
    browser.switch_to.active_element.send_keys(Keys.ESCAPE)
    browser.find_element("tag name", "body").send_keys("jj")
    browser.switch_to.active_element.send_keys(Keys.ENTER)
    wait_for("return document.querySelectorAll('details[open] .inside').length", 1)
    assert MARKUP in browser.find_element("css selector", "details[open]").text
    owned, loaded, shown = browser.execute_script(STATE)
    assert (owned, loaded) == (None, 0)
    assert shown <= 400
    for width, scheme in product((390, 1280), ("light", "dark")):
        media = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", media)
        screen = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < WIDTHS[1]}
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", screen)
        assert browser.execute_script("return document.documentElement.scrollWidth <= innerWidth + 1"), (width, scheme)
    asked = [entry["message"] for entry in browser.get_log("performance") if "requestWillBeSent" in entry["message"]]
    assert asked
    assert [one for one in asked if '"url":"http' in one] == []
    assert [entry for entry in browser.get_log("browser") if entry["level"] == "SEVERE"] == []
