#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The Device Relay project authors
"""A person uses the console of a running agent in Chromium (Debian: apt-get install chromium chromium-driver).

usage: console.py SCENE SETUP

SCENE is one of the functions below. SETUP is a file of JSON: `relay` is the program, `folder` is for the browser's files and the screenshots,
and `devices` has for `desk` and `tv` what their commands need: `environment` and `home`. Desk runs the agent whose console it is, TV is the
other device. `process` is the agent's id, and `names` are the names of devices that are on the account, too.

Fails if the console does not do what it should. In every scene, no page may break its own policy, have a fault in a script, or ask another
place for anything.
"""
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import threading

import axe_core_python
from selenium import webdriver
from selenium.common.exceptions import StaleElementReferenceException
from selenium.webdriver import ActionChains, Keys
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait

setup = json.loads(pathlib.Path(sys.argv[2]).read_text())
AXE = (pathlib.Path(axe_core_python.__file__).parent / "axe.min.js").read_text()
LINK = "https://films.example/42"
WORDS = pathlib.Path(__file__).parent.parent / "Sources/ConsoleFiles/Web/i18n"

# Runs before each page: it keeps what is not allowed, counts clicks, and answers a request in the moment in which it appears.
WATCH = """
window.seen = { violations: [], clicks: 0, asks: 0 };
document.addEventListener("securitypolicyviolation", (event) => seen.violations.push(`${event.violatedDirective} ${event.blockedURI}`));
addEventListener("unhandledrejection", (event) => seen.violations.push(String(event.reason)));
addEventListener("error", (event) => seen.violations.push(event.message ?? "a file is missing"));
addEventListener("click", (event) => { if (event.isTrusted) seen.clicks += 1; }, true);
new MutationObserver((changes) => {
    for (const { addedNodes } of changes) for (const each of addedNodes) {
        if (!each.matches?.("section.ask")) continue;
        seen.asks += 1;
        seen.appeared = performance.now();
        if (sessionStorage.hasty) for (const button of each.querySelectorAll("button")) button.click();
    }
}).observe(document, { childList: true, subtree: true });
"""

# Makes the console's words longer and foreign: `[!!! Ðëvïçëš ~~~ !!!]`, with values in ⟦⟧. Keeps what the agent says, which is no word.
PSEUDO = r"""
(() => {
    const fetch = window.fetch;
    const LETTERS = { a: "á", b: "ƀ", c: "ç", d: "ð", e: "ë", f: "ƒ", g: "ğ", h: "ħ", i: "ï", j: "ĵ", k: "ķ", l: "ł", m: "ɱ", n: "ñ", o: "ö",
        p: "þ", q: "ɋ", r: "ř", s: "š", t: "ŧ", u: "ü", v: "ṽ", w: "ŵ", x: "ẋ", y: "ý", z: "ž" };
    const CODES = ["action", "answer", "code", "kind", "principal", "reason", "source", "status", "type"];
    const foreign = (text) => text.replace(/[a-z]/gi, (letter) => {
        const changed = LETTERS[letter.toLowerCase()];
        return letter === letter.toLowerCase() ? changed : changed.toUpperCase();
    });
    const pseudo = (text) => {
        const parts = text.split(/(\{\w+\}|`[^`]*`)/).map((part) =>
            part.startsWith("{") ? `⟦${part}⟧` : part.startsWith("`") ? part : foreign(part));
        return `[!!! ${parts.join("")}${" ~~~".repeat(Math.ceil(text.length / 10))} !!!]`;
    };
    window.said = new Set();
    const keep = (value) => {
        // The console may begin a sentence with what the agent said, and it names devices in the place of their ids.
        if (typeof value === "string") {
            for (const part of value.split(/`|'?\b[a-z2-7]{52}\b'?/)) said.add(part.trim()).add(part.charAt(0).toUpperCase() + part.slice(1));
        } else if (Array.isArray(value)) value.forEach(keep);
        else if (value) for (const [key, each] of Object.entries(value)) if (!CODES.includes(key)) keep(each);
    };
    window.fetch = async (address, ...options) => {
        const answer = await fetch(address, ...options);
        if (!String(address).startsWith("i18n/")) {
            if (answer.headers.get("Content-Type")?.includes("json")) keep(await answer.clone().json().catch(() => undefined));
            return answer;
        }
        const words = await answer.json();
        return Response.json(Object.fromEntries(Object.entries(words).map(([key, text]) => [key, pseudo(text)])));
    };
})();
"""

# Returns the texts that people see or hear and that are neither words of the catalogue nor what the agent said, and how many are words.
FORGOTTEN = r"""
const escaped = (text) => text.replace(/[.*+?^${}()|[\]\\/]/g, "\\$&");
const values = [...said].sort((first, second) => second.length - first.length).filter((each) => /[a-z]/i.test(each));
const spoken = values.length ? new RegExp(`(?<!\\p{L})(${values.map(escaped).join("|")})(?!\\p{L})`, "gu") : /$^/g;
const NUMBER = /\d[\d.,]*\s?(ms|s|sec|min|hr|day|days|byte|kB|MB|GB|TB)\b/g;
const isForgotten = (text) => /[A-Za-z]{2,}/.test(text.replace(/⟦[^⟧]*⟧/g, "").replace(spoken, "").replace(NUMBER, ""));
const isShown = (element) => element?.checkVisibility() && !element.closest("code, pre, time, textarea, .product");
const texts = [];
const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
while (walk.nextNode()) if (isShown(walk.currentNode.parentElement)) texts.push(walk.currentNode.data);
for (const name of ["aria-label", "title", "alt"]) {
    for (const element of document.querySelectorAll(`body [${name}]`)) if (isShown(element)) texts.push(element.getAttribute(name));
}
texts.push(document.title);
return [texts.filter(isForgotten), texts.filter((text) => text.includes("[!!!")).length];
"""


def relay(device, *arguments):
    """A command on a device, as a process."""
    its = setup["devices"][device]
    return subprocess.Popen([setup["relay"], *arguments, "--home", its["home"]], env=its["environment"], stdin=subprocess.DEVNULL,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def run(device, *arguments):
    """What a command prints."""
    process = relay(device, *arguments)
    output, errors = process.communicate(timeout=60)
    assert process.returncode == 0, f"relay {arguments[0]}: {errors}"
    return output.strip()


def link():
    return run("desk", "console", "--print").splitlines()[0]


def devices():
    """The ids of the other devices, by name."""
    return {each["name"]: each["id"] for each in json.loads(run("desk", "devices", "--json"))["devices"]}


class Wire:
    """The browser's way to the agent's port: one that a test can cut."""

    def __init__(self, port):
        self.port, self.open = port, []
        self.mend()

    def mend(self):
        # The agent has this port at 127.0.0.1 alone.
        self.listener = socket.create_server(("127.0.0.2", self.port))
        threading.Thread(target=self.accept, args=[self.listener], daemon=True).start()

    def accept(self, listener):
        while True:
            try:
                near = listener.accept()[0]
            except OSError:
                return
            try:
                far = socket.create_connection(("127.0.0.1", self.port))
            except OSError:
                # The agent has ended.
                near.close()
                continue
            self.open += [near, far]
            for source, target in [(near, far), (far, near)]:
                threading.Thread(target=self.copy, args=[source, target], daemon=True).start()

    @staticmethod
    def copy(source, target):
        try:
            while data := source.recv(65_536):
                target.sendall(data)
            target.shutdown(socket.SHUT_WR)
        except OSError:
            pass

    def cut(self):
        for each in [self.listener, *self.open]:
            try:
                each.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
            each.close()
        self.open = []


class Page:
    """The console in a browser without a connection to any other place."""

    all = []

    def __init__(self, wire=None):
        options = Options()
        options.binary_location = "/usr/bin/chromium"
        # Tests may run as root, and in a container with a small /dev/shm. Its files are this test's own.
        for each in ["--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu", "--no-first-run", "--lang=en",
                     "--disable-background-networking", "--disable-component-update", f"--user-data-dir={setup['folder']}/browser"]:
            options.add_argument(each)
        if wire:
            options.add_argument(f"--host-resolver-rules=MAP 127.0.0.1:{wire.port} 127.0.0.2:{wire.port}")
        options.add_experimental_option("prefs", {"intl.accept_languages": "en-US,en"})
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        # With the path of the driver, nothing looks for one elsewhere.
        self.driver = webdriver.Chrome(options=options, service=Service("/usr/bin/chromedriver"))
        Page.all.append(self)
        self.cdp("Page.addScriptToEvaluateOnNewDocument", source=WATCH)
        self.look(1280, 900, False)

    def cdp(self, command, **values):
        return self.driver.execute_cdp_cmd(command, values)

    def look(self, width, height, dark):
        self.cdp("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 500)
        self.cdp("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])

    def js(self, script, *arguments):
        return self.driver.execute_script(script, *arguments)

    def until(self, met, what):
        """Waits for a thing, and returns it."""
        def look(_):
            try:
                return met()
            except StaleElementReferenceException:
                return False
        try:
            return WebDriverWait(self.driver, 30, 0.05).until(look)
        except Exception as error:
            raise SystemExit(f"no {what} at {self.view()}: {self.text()}") from error

    def text(self):
        return self.js("return document.body.innerText")

    def view(self):
        return self.js("return location.hash")

    def says(self, text):
        self.until(lambda: text in self.text(), repr(text))

    def says_no(self, text):
        self.until(lambda: text not in self.text(), f"page without {text!r}")

    def is_drawn(self):
        """Whether the view is there."""
        return self.js("return !!document.querySelector('main h1') && !document.querySelector('main [aria-busy=true]')")

    def open(self, address):
        """Opens a link of `relay console`, and waits for the view."""
        self.driver.get(address)
        self.until(self.is_drawn, "view")

    def go(self, view):
        """Goes to a view by its address."""
        self.js("location.hash = arguments[0]", f"#/{view}")
        self.until(lambda: self.view() == f"#/{view}" and self.is_drawn(), f"view {view}")

    def find(self, label, within="main"):
        """What can be pressed and has this text or name."""
        found = [each for each in self.driver.find_elements(By.CSS_SELECTOR, f"{within} :is(a, button, summary, input, select, textarea)")
                 if each.is_displayed() and (each.text == label or each.accessible_name == label)]
        return found[0] if found else None

    def press(self, label, within="main"):
        self.until(lambda: self.find(label, within), f"{label!r}").click()

    def focused(self):
        return self.driver.switch_to.active_element

    def keys(self, *keys):
        ActionChains(self.driver).send_keys(*keys).perform()

    def retype(self, text):
        """Replaces what a field has, and sends its form."""
        ActionChains(self.driver).key_down(Keys.CONTROL).send_keys("a").key_up(Keys.CONTROL).send_keys(text, Keys.ENTER).perform()

    def tab_to(self, label):
        """Goes there by the keyboard, as far as it takes. Each stop has to be seen."""
        for _ in range(60):
            self.keys(Keys.TAB)
            element = self.focused()
            if element.tag_name == "body":
                continue
            shown = self.js("""
                const style = getComputedStyle(arguments[0]), box = arguments[0].getBoundingClientRect();
                return arguments[0].matches(":focus-visible") && style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 2
                    && box.bottom > 0 && box.top < innerHeight && box.width > 0""", element)
            assert shown, f"the focus is not seen on {element.accessible_name!r}"
            if element.accessible_name == label:
                return element
        raise SystemExit(f"the keyboard does not reach {label!r}: {self.text()}")

    def check_width(self, what):
        wide, window = self.js("return [document.documentElement.scrollWidth, document.documentElement.clientWidth]")
        assert wide <= window, f"{what} is {wide} wide in a window of {window}"

    def check_access(self, what):
        """Everybody can use it: axe-core finds nothing."""
        self.js(AXE)
        found = self.driver.execute_async_script("axe.run().then(arguments[arguments.length - 1])")["violations"]
        assert not found, f"{what}: " + "; ".join(f"{each['id']} at {[node['target'] for node in each['nodes']]}" for each in found)

    def shot(self, name):
        self.driver.save_screenshot(f"{setup['folder']}/{name}.png")

    def check_log(self, origins, refused=()):
        """No fault, no report of the policy, and no other place.

        refused: The ends of the addresses that may answer with a refusal, which the browser logs.
        """
        violations = self.js("return window.seen?.violations ?? []")
        assert not violations, violations
        for entry in self.driver.get_log("browser"):
            address = entry["message"].split(" ")[0]
            if "Failed to load resource" in entry["message"] and address.endswith(tuple(refused)):
                continue
            # The browser's own pages.
            if address.startswith("chrome://"):
                continue
            raise SystemExit(f"the browser says: {entry['message']}")
        asked = 0
        for entry in self.driver.get_log("performance"):
            message = json.loads(entry["message"])["message"]
            if message["method"] != "Network.requestWillBeSent":
                continue
            address = message["params"]["request"]["url"]
            if address.startswith(("data:", "chrome:", "about:")):
                continue
            assert address.startswith(tuple(f"{each}/" for each in origins)), f"the page asks {address}"
            asked += 1
        assert asked, "no request was seen"

    def end(self, *origins, refused=()):
        self.check_log(origins, refused)
        self.driver.quit()


def origin(address):
    return address.split("/#")[0]


def launch():
    """From the link to a launch on the other device in three clicks, and the same by the keyboard alone."""
    page, first = Page(), link()
    page.open(first)
    assert "#key" not in page.js("return location.href")
    page.until(lambda: page.find("Open a link on TV"), "way to the TV").click()
    page.until(lambda: page.find("Link"), "field").send_keys(LINK)
    page.press("Open")
    page.says("Opened on TV")
    page.says("signed by TV")
    clicks = page.js("return seen.clicks")
    assert clicks <= 3, f"{clicks} clicks"
    # The history has it, and the audit, too.
    page.press("History", "nav")
    page.says(LINK)
    page.says("Opened on TV")
    page.press("Activity", "nav")
    page.says("Send a link")
    assert LINK not in page.text()
    # By the keyboard.
    page.open(link())
    page.tab_to("Open a link on TV")
    page.keys(Keys.ENTER)
    page.until(lambda: page.focused().accessible_name == "Link", "focus on the field")
    page.keys("films", Keys.ENTER)
    page.says("A whole link begins with its scheme")
    assert page.focused().accessible_name == "Link" and page.focused().get_attribute("aria-invalid") == "true"
    page.retype("javascript:alert(1)")
    page.until(lambda: page.driver.find_elements(By.CSS_SELECTOR, "[role=alert]"), "refusal")
    page.retype(f"{LINK}?again")
    page.until(lambda: page.focused().text == "The link for TV", "focus on the progress")
    page.says("Opened on TV")
    assert f"{LINK}?again" in page.driver.find_element(By.CSS_SELECTOR, "main section").text, "the result does not name its link"
    # What became of one link does not stand below the failure of the next one.
    page.js("document.querySelector('[name=uri]').focus()")
    page.retype("javascript:alert(1)")
    page.until(lambda: page.driver.find_elements(By.CSS_SELECTOR, "[role=alert]"), "refusal")
    page.says_no("Opened on TV")
    # Each view of the navigation takes the focus to its heading, and is left again by the keyboard.
    for name in ["History", "Requests", "Access", "Activity", "Diagnosis", "Devices"]:
        # From the beginning of the page.
        page.js("document.querySelector('.skip').focus()")
        page.tab_to(name)
        page.keys(Keys.ENTER)
        page.until(lambda: page.focused().tag_name == "h1" and page.focused().text == name, f"focus on {name}")
        page.until(page.is_drawn, f"view {name}")
        assert page.js("return document.title").startswith(f"{name} ·")
    page.end(origin(first), refused=["/v1/launches", "/v1/webhooks"])


def views():
    """Each view in a wide and a narrow window, light and dark."""
    page, first = Page(), link()
    page.open(first)
    page.go("open")
    page.until(lambda: page.find("Link"), "field").send_keys(LINK)
    page.press("Open")
    page.says("Opened on TV")
    tv = devices()["TV"]
    names = ["devices", f"device/{tv}", "open", "call", f"files/{tv}", "history", "requests", "access", "activity", "add", "diagnosis"]
    for width, dark in [(1280, False), (1280, True), (360, False), (360, True), (320, False)]:
        page.look(width, 900, dark)
        for name in names:
            what = f"{name} at {width}, {'dark' if dark else 'light'}"
            page.go(name)
            if name == "diagnosis":
                page.says("The relay's key")
            if name == "add" and width == 360:
                # What an invitation shows.
                for kind in ["computer", "phone or browser"]:
                    page.press(f"Make an invitation for a {kind}")
                page.until(lambda: len(page.driver.find_elements(By.CSS_SELECTOR, ".ways pre")) >= 2, "invitations")
                page.until(lambda: page.driver.find_elements(By.CSS_SELECTOR, ".qr"), "code")
            page.check_width(what)
            if width != 320:
                page.check_access(what)
            page.shot(f"{name.split('/')[0]}-{width}-{'dark' if dark else 'light'}")
    page.press("Sign out", "header")
    page.says("This page is not signed in")
    page.check_access("signed out")
    page.check_width("signed out")
    page.end(origin(first), refused=["/v1/webhooks", f"/v1/files/{tv}"])


def asks():
    """Another device asks to open a link here."""
    page, first = Page(), link()
    page.open(first)
    page.until(lambda: page.find("Open a link on TV"), "devices")

    def asked(uri):
        """TV launches, and the request appears."""
        process = relay("tv", "launch", "Desk", uri)
        page.until(lambda: page.driver.find_elements(By.CSS_SELECTOR, "section.ask"), "request")
        page.says(uri)
        return process

    def ended(process, status):
        _, errors = process.communicate(timeout=60)
        assert process.returncode == status, f"the launch ended with {process.returncode}: {errors}"

    def patiently(label):
        page.until(lambda: page.js("return performance.now() - seen.appeared > 600"), "time to read")
        page.press(label, "section.ask")

    # Nothing is preselected, and no answer counts in the moment in which the request appears.
    page.js("sessionStorage.hasty = 1; document.querySelector('h1').focus()")
    first_launch = asked(f"{LINK}?once")
    page.js("delete sessionStorage.hasty")
    card = page.driver.find_element(By.CSS_SELECTOR, "section.ask")
    assert page.js("return !arguments[0].contains(document.activeElement)", card), "an answer has the focus"
    assert not card.find_elements(By.CSS_SELECTOR, ".primary, [autofocus], [aria-pressed], :checked")
    assert [each.text for each in card.find_elements(By.TAG_NAME, "button")] == ["Allow once", "Always from this device", "No"]
    assert page.find("Requests1", "nav") or page.find("Requests 1 request waits for an answer", "nav"), "no number in the navigation"
    page.check_access("a request")
    page.check_width("a request")
    page.shot("request")
    assert len(json.loads(run("desk", "asks", "--json"))["asks"]) == 1 and first_launch.poll() is None, "a hasty answer was taken"
    patiently(f"Allow once: {LINK}?once, from TV")
    ended(first_launch, 0)
    page.until(lambda: not page.driver.find_elements(By.CSS_SELECTOR, "section.ask"), "page without the request")
    assert page.focused().tag_name == "h1", f"the focus is on {page.focused().tag_name} after an answer"
    # Always: the next launch needs no question.
    page.go("requests")
    second = asked(f"{LINK}?always")
    # As many as before is spoken, too.
    spoken = "return document.getElementById('says').textContent"
    page.until(lambda: page.js(spoken) == "1 request waits for an answer", "announcement")
    patiently("Always allow this from TV")
    ended(second, 0)
    page.go("access")
    page.says("TV · opens https: links")
    page.says("From an answer")
    # What happens shows itself in a view that is open.
    page.go("activity")
    newest = "return document.querySelector('main .row').innerText"
    assert "Send a link" not in page.js(newest) or "You" not in page.js(newest), page.js(newest)
    ended(relay("tv", "launch", "Desk", f"{LINK}?seen"), 0)
    run("desk", "launch", "TV", LINK)
    page.until(lambda: "Send a link" in page.js(newest) and "You" in page.js(newest), "entry of what was done")
    page.go("access")
    count = page.js("return seen.asks")
    ended(relay("tv", "launch", "Desk", f"{LINK}?granted"), 0)
    assert page.js("return seen.asks") == count, "there was a question"
    # The grant is taken back; then there is a question again, which No ends.
    page.press("Remove what TV may do")
    page.says("Ask again for TV?")
    # A question ends with its view.
    page.driver.back()
    page.until(lambda: not page.driver.find_elements(By.TAG_NAME, "dialog"), "end of the question")
    page.go("access")
    page.press("Remove what TV may do")
    page.says("Ask again for TV?")
    dialog = page.driver.find_element(By.TAG_NAME, "dialog")
    assert page.focused().tag_name == "h2", "an answer has the focus"
    page.check_access("a question")

    def confirm():
        button = page.find("Remove", "dialog")
        if button:
            button.click()
        return "TV · opens https: links" not in page.text() and not page.driver.find_elements(By.TAG_NAME, "dialog")
    assert dialog.is_displayed()
    page.until(confirm, "removal")
    page.until(lambda: page.focused().tag_name == "h1", "focus on the heading")
    page.go("requests")
    third = asked(f"{LINK}?no")
    patiently(f"No: {LINK}?no, from TV")
    ended(third, 6)
    opened = pathlib.Path(setup["folder"], "opened").read_text().splitlines()
    assert opened == [f"{LINK}?{each}" for each in ["once", "always", "seen", "granted"]], opened
    page.end(origin(first), refused=["/v1/webhooks"])


def tabs():
    """More tabs than a browser has connections to one agent: all follow it, also when the one that reads for them is closed."""
    page, first = Page(), link()
    page.open(first)
    for _ in range(7):
        page.driver.switch_to.new_window("tab")
        page.cdp("Page.addScriptToEvaluateOnNewDocument", source=WATCH)
        page.open(link())
    handles = page.driver.window_handles
    readers = page.driver.execute_async_script("navigator.locks.query().then(({ held, pending }) => arguments[0]([held.length, pending.length]))")
    assert readers == [1, 7], readers

    def everywhere(check):
        for each in page.driver.window_handles:
            page.driver.switch_to.window(each)
            check()

    def asked(uri):
        """TV launches, and the request appears in a tab that reads no events, above its view."""
        page.driver.switch_to.window(page.driver.window_handles[-1])
        process = relay("tv", "launch", "Desk", uri)
        page.says(uri)
        page.until(lambda: page.js("return document.title").startswith("(1) "), "number in the title")

        def allow():
            # The first click gives the window the focus, and is no answer so soon after it.
            button = page.find(f"Allow once: {uri}, from TV", "section.ask")
            if button:
                button.click()
            return process.poll() is not None
        page.until(allow, "answer")
        _, errors = process.communicate(timeout=60)
        assert process.returncode == 0, errors
        everywhere(lambda: page.until(lambda: not page.driver.find_elements(By.CSS_SELECTOR, "section.ask"), "end of the request"))
        everywhere(lambda: page.until(lambda: not page.js("return document.title").startswith("("), "title without a number"))

    page.go("history")
    asked(f"{LINK}?tabs")
    # All tabs have seen it.
    everywhere(lambda: page.until(lambda: page.js("return seen.asks") == 1, "request in each tab"))
    page.driver.switch_to.window(handles[0])
    page.driver.close()
    page.driver.switch_to.window(handles[-1])
    page.until(lambda: page.driver.execute_async_script("navigator.locks.query().then(({ held }) => arguments[0](held.length))") == 1, "reader")
    asked(f"{LINK}?next")
    # A session that ends is noticed by its tab, which reads no events.
    page.driver.switch_to.window(handles[-1])
    page.go("access")
    before = len(page.driver.find_elements(By.XPATH, "//button[.='Sign it out']"))
    page.press("Sign Another tab of this console out")
    page.until(lambda: page.find("Sign it out", "dialog"), "question")
    page.until(lambda: not page.driver.find_elements(By.TAG_NAME, "dialog") or page.find("Sign it out", "dialog").click(), "answer")
    page.until(lambda: len(page.driver.find_elements(By.XPATH, "//button[.='Sign it out']")) == before - 1, "end of the session")
    page.end(origin(first), refused=["/v1/webhooks"])


# Answers for the agent: `answers[path]` is a JSON text, `never`, or a function that changes the agent's own answer.
ANSWERS = r"""
(() => {
    const fetch = window.fetch, wait = window.setTimeout;
    window.answers = {};
    window.sent = {};
    window.setTimeout = (action, time, ...values) => wait(action, window.impatient && time >= 30_000 ? 50 : time, ...values);
    window.fetch = async (address, options) => {
        const answer = answers[address];
        sent[address] = options?.body;
        if (answer === undefined) return fetch(address, options);
        if (answer === "never") return new Promise((resolve, reject) => {
            options.signal.addEventListener("abort", () => reject(options.signal.reason));
        });
        if (typeof answer === "string") return new Response(answer, { headers: { "Content-Type": "application/json" } });
        const own = await (await fetch(address, options)).json();
        answer(own);
        return Response.json(own);
    };
})();
"""


def answers():
    """What the agent seldom answers, or what is hard to bring about."""
    page, first = Page(), link()
    page.cdp("Page.addScriptToEvaluateOnNewDocument", source=ANSWERS)
    page.open(first)
    tv = devices()["TV"]
    other = "z" + tv[1:]

    def answer(path, script):
        page.js(f"answers[arguments[0]] = {script}", path)

    # Two devices of one name.
    answer("/v1/devices?all=true", f"""(own) => {{
        const id = {json.dumps(other)};
        const tv = own.devices.find(({{ name }}) => name === "TV");
        for (const app of tv.apps) app.services = ["echo", "files"];
        own.devices.push({{ ...tv, id, kind: "tablet", status: "unavailable", reason: "connectionLost", since: "2026-01-01T10:00:00Z" }});
        const endpoint = own.endpoints.find(({{ device }}) => device === tv.id);
        for (const first of "xy") own.endpoints.push({{ ...endpoint, id: first + endpoint.id.slice(1), device: id, new: true }});
    }}""")
    page.go("history")
    page.go("devices")
    page.says(f"TV (Tablet, {other[:8]})")
    page.says(f"TV (Desktop, {tv[:8]})")
    page.check_access("devices of one name")
    # An approval is for the whole device.
    page.go(f"device/{other}")
    page.says("2 new installations on this device wait")
    for gap in page.js("""
        return [...document.querySelectorAll(".compared")].slice(0, -1).map((each) => {
            const [words, buttons] = [".expected", ".buttons"].map((name) => each.querySelector(name).getBoundingClientRect());
            const next = each.nextElementSibling.querySelector(".expected").getBoundingClientRect();
            return [buttons.top - words.bottom, next.top - buttons.bottom];
        })"""):
        assert gap[1] > 0 and gap[0] > 0, gap
    page.press("They are the same")
    page.says("This approves all 2 new installations")
    page.keys(Keys.ESCAPE)
    page.until(lambda: not page.driver.find_elements(By.TAG_NAME, "dialog"), "end of the question")
    page.press("They differ: revoke it")
    page.says(f"Revoke TV (Tablet, {other[:8]})?")
    page.keys(Keys.ESCAPE)
    page.until(lambda: not page.driver.find_elements(By.TAG_NAME, "dialog"), "end of the question")
    # A message goes as it is typed, and the answer comes so.
    page.go(f"call?device={tv}")
    control = chr(0x202E)
    page.js("answers['/v1/calls'] = arguments[0]",
            f'{{"deviceName": "TV", "answer": {{"large": 12345678901234567890, "one": 1.0, "text": "a{control}b"}}}}')
    field = page.driver.find_element(By.TAG_NAME, "textarea")
    page.js("arguments[0].value = arguments[1]", field, '{"large": 98765432109876543210, "one": 1.0}')
    page.press("Call")
    page.says("12345678901234567890")
    page.says('"one": 1.0')
    assert r'"a\u202eb"' in page.text() and control not in page.text(), "a control of the direction is shown"
    assert '"message":{"large": 98765432109876543210, "one": 1.0}' in page.js("return sent['/v1/calls']"), page.js("return sent['/v1/calls']")
    # A folder of several pages.
    def names(begin, more):
        entries = [{"name": f"{index:04}", "kind": "file", "size": 1, "modified": "2026-01-01T10:00:00Z"}
                   for index in range(begin, begin + 1_000)]
        return json.dumps({"device": tv, "deviceName": "TV", "app": "x", "path": "", "entries": entries, "more": more})
    page.js("answers[arguments[0]] = arguments[1]; answers[`${arguments[0]}?after=0999`] = arguments[2]",
            f"/v1/files/{tv}", names(0, True), names(1_000, False))
    page.go(f"files/{tv}")
    page.says("1,000 entries are shown, and there are more")
    page.js("[...document.querySelectorAll('main button')].at(-1).click()")
    page.says_no("there are more")
    assert page.js("return document.querySelectorAll('.rows > li').length") == 2_000
    assert page.focused().accessible_name == "Save 1000", page.focused().accessible_name
    # A device that is away, and an end of the wait.
    answer(f"/v1/files/{other}", '"never"')
    page.js("location.hash = arguments[0]", f"#/files/{other}")
    page.says("is not online now (Offline since")
    page.press("Cancel")
    page.until(lambda: page.view() == f"#/device/{other}", "device")
    # A link that was never at the relay.
    page.js("""
        const change = answers["/v1/devices?all=true"];
        answers["/v1/devices?all=true"] = (own) => { change(own); own.current = false; };
        const command = { id: "1", command: "1", status: "stored", ended: false, endpoint: "x", app: "x",
            sent: "2026-01-01T10:00:00Z", expires: "2026-01-02T10:00:00Z" };
        answers["/v1/launches"] = JSON.stringify(command);
        answers["/v1/commands/1"] = JSON.stringify({ ...command, status: "succeeded", ended: true, attested: { by: "target" } });""")
    page.go(f"open?device={tv}")
    page.until(lambda: page.find("Link"), "field").send_keys(LINK, Keys.ENTER)
    page.says("Opened on TV")
    steps = page.js("return [...document.querySelectorAll('.steps li')].map((each) => each.textContent)")
    assert steps == ["Stored here", f"On TV (Desktop, {tv[:8]})"], steps
    # A device that goes away while it is looked at leaves a heading, which has the focus.
    page.go(f"device/{other}")
    page.js("document.querySelector('h1').focus(); answers['/v1/devices?all=true'] = () => {}")
    page.js("new BroadcastChannel('device-relay.events').postMessage({ type: 'reset' })")
    page.says("This device is gone")
    assert page.focused().tag_name == "h1" and page.focused().text == "This device is gone", page.focused().text
    # An agent that says nothing.
    answer("/v1/grants", '"never"')
    answer("/v1/devices?all=true", '"never"')
    page.js("window.impatient = true; location.hash = '#/devices'")
    page.says("The agent does not answer, although it can be reached")
    page.end(origin(first), refused=["/v1/webhooks"])


def session():
    """A key used twice, a reload, the sign-out, and an agent that ends and comes back."""
    page, first = Page(), link()
    page.open(first)
    page.says("TV")
    page.driver.refresh()
    page.until(page.is_drawn, "view after a reload")
    page.says("TV")
    # A second page uses the same key: both are told.
    page.driver.switch_to.new_window("tab")
    page.cdp("Page.addScriptToEvaluateOnNewDocument", source=WATCH)
    page.open(first)
    page.says("This link was opened twice")
    page.says("This page is not signed in")
    page.check_access("a key used twice")
    page.driver.close()
    page.driver.switch_to.window(page.driver.window_handles[0])
    page.says("This link was opened twice")
    page.driver.refresh()
    page.says("This page is not signed in")
    assert "used twice" in relay("desk", "console", "--print").communicate(timeout=60)[1]
    # A wrong key.
    page.driver.get(f"{origin(first)}/#key=AAAAAAAAAAAAAAAAAAAAAA")
    page.says("This link was used before, or is too old")
    # The session ends with the sign-out, also behind the page.
    page.open(link())
    page.says("TV")
    token = page.js("return sessionStorage['device-relay.token']")
    page.press("Sign out", "header")
    page.says("This page is not signed in")
    assert page.js("return sessionStorage.length") == 0
    status = page.driver.execute_async_script("""
        fetch("/v1/devices", { headers: { Authorization: `Bearer ${arguments[0]}` } }).then(({ status }) => arguments[1](status))""", token)
    assert status == 401, status
    page.driver.refresh()
    page.says("This page is not signed in")
    # The connection to the agent breaks, and comes back.
    page.end(origin(first), refused=["/v1/console/sessions", "/v1/devices", "/v1/devices?all=true", "/v1/asks", "/v1/events"])
    first = link()
    wire = Wire(int(origin(first).rsplit(":", 1)[1]))
    page = Page(wire=wire)
    page.open(first)
    page.says("TV")
    wire.cut()
    page.says("The agent does not answer")
    page.check_access("a lost agent")
    page.press("History", "nav")
    page.until(lambda: page.find("Try again"), "way out")
    assert "fault" not in page.text()
    wire.mend()
    page.until(lambda: not page.js("return document.getElementById('lost').hasChildNodes()"), "end of the loss")
    page.press("Try again")
    page.says("What is on its way")
    page.press("Devices", "nav")
    page.says("TV")
    # The agent ends, and its sessions with it. Another one has a new link for the same tab.
    os.kill(setup["process"], signal.SIGTERM)
    page.says("The agent does not answer")
    page.says("relay console")
    page.press("Sign out", "header")
    page.says("This page is not signed in")
    agent = relay("desk", "agent", "--json")
    for line in agent.stdout:
        if '"ready"' in line:
            break
    try:
        second = link()
        page.open(second)
        page.says("TV")
        page.end(origin(first), origin(second),
                 refused=["/v1/events", "/v1/asks", "/v1/devices?all=true", "/views/history.js", "/v1/console/sessions/current"])
    finally:
        agent.terminate()
        agent.communicate(timeout=60)


def hostile():
    """Names that would be more than text."""
    page, first = Page(), link()
    page.open(first)
    names = setup["names"]
    page.until(lambda: all(any(name in each for each in page.js(
        "return [...document.querySelectorAll('main .device .name')].map((each) => each.textContent)")) for name in names), "names")
    tags = set()
    known = devices()
    assert set(names) <= set(known), f"{names} {list(known)}"
    for name in names:
        page.go(f"device/{known[name]}")
        assert page.js("return document.querySelector('h1').textContent") == name
        assert page.js("return document.title").startswith(name.strip()), page.js("return document.title")
        page.go(f"open?device={known[name]}&uri={LINK}")
        assert page.js("return document.querySelector('[name=device] option:checked').textContent") == name
        page.press("Open")
        page.says(f"Opened on {name}")
        tags |= set(page.js("return [...document.querySelectorAll('main *')].map((each) => each.localName)"))
    page.go(f"diagnosis?device={known[names[0]]}")
    page.says(names[0])
    # The address decides about the view alone.
    for address in ["#/__proto__", "#/constructor/x", "#/%E0%A4%A/%", "#/device/<img src=x onerror=alert(1)>", "#/files/..%2f..%2f/%00",
                    "#/open?uri=javascript:alert(1)&device=x", "#/toString?x=" + "y" * 10_000]:
        page.js("location.hash = arguments[0]", address)
        page.until(page.is_drawn, f"view {address[:40]}")
        tags |= set(page.js("return [...document.querySelectorAll('main *')].map((each) => each.localName)"))
    page.go("history")
    for name in names:
        page.says(f"To {name}")
    page.go("activity")
    for name in names:
        page.says(name)
    tags |= set(page.js("return [...document.querySelectorAll('main *')].map((each) => each.localName)"))
    assert not tags & {"img", "script", "iframe", "b", "u", "object", "style"}, tags
    assert page.js("return document.querySelectorAll('script').length") == 1
    assert page.js("return window.hit === undefined && window.name === ''"), "a name was executed"
    page.end(origin(first), refused=["/v1/files/..%2F..%2F/%00", "/v1/files/..%2F..%2F"])


VIEWS = ["devices", "device/{tv}", "open", "call", "files/{tv}", "history", "requests", "access", "activity", "add", "diagnosis"]


def languages():
    """The console in the languages of its readers."""
    page = Page()
    agent, origins = page.js("return navigator.userAgent"), set()
    tv = devices()["TV"]
    english = {each["message"].replace("`", "").lower() for each in json.loads(run("desk", "doctor", "--json"))["checks"]}
    # What the browser asks for, the words that it gets, and the language of times.
    for asked, language, locale in [("de-AT,fr", "de", "de-AT"), ("zh-CN,en", "zh", "zh-CN"), ("ja,fr-CH,en", "fr", "fr-CH"),
                                    ("zh-TW,de", "de", "de"), ("ja", "en", "en")]:
        words = json.loads((WORDS / f"{language}.json").read_text())
        page.cdp("Network.setUserAgentOverride", userAgent=agent, acceptLanguage=asked)
        first = link()
        origins.add(origin(first))
        # A new link alone would not load the page again.
        page.driver.get("about:blank")
        page.open(first)
        assert page.js("return document.documentElement.lang") == language, asked
        assert page.js("return document.querySelector('h1').textContent") == words["view.devices"], asked
        assert page.js("return document.querySelector('.skip').textContent") == words["page.skip"], asked
        files = page.js("return performance.getEntriesByType('resource').map(({ name }) => name).filter((name) => name.includes('i18n'))")
        assert [each.rsplit("/", 1)[1] for each in files] == [f"{language}.json"], files
        for view in VIEWS if locale in ["de-AT", "zh-CN", "fr-CH"] else ["access"]:
            page.go(view.format(tv=tv))
            if view == "diagnosis" and language != "en":
                page.until(lambda: page.driver.find_elements(By.CSS_SELECTOR, ".hops"), "result")
                shown = [each.text.lower() for each in page.driver.find_elements(By.CSS_SELECTOR, "main .rows .meta")]
                assert len(shown) > 3 and not english & set(shown), f"{english & set(shown)} in {language}"
            for width in [1280, 320]:
                page.look(width, 900, False)
                page.check_width(f"{view} in {language} at {width}")
            if view == "access":
                page.check_access(f"{view} in {language}")
                times = page.js("""
                    const format = new Intl.DateTimeFormat(arguments[0], { dateStyle: "medium", timeStyle: "short" });
                    return [...document.querySelectorAll("main time")].map((each) => [each.title, format.format(new Date(each.dateTime))])""",
                                locale)
                assert times and all(shown == wanted for shown, wanted in times), times
            page.shot(f"{view.split('/')[0]}-{language}")
        page.look(1280, 900, False)
    page.end(*origins, refused=["/v1/webhooks", f"/v1/files/{tv}"])


def words():
    """Every text is a word of the catalogue, or what the agent says: found by words that no person would write. They are long, and fit."""
    page, first = Page(), link()
    page.cdp("Page.addScriptToEvaluateOnNewDocument", source=PSEUDO)
    tv, seen = devices()["TV"], 0

    def check(what):
        nonlocal seen
        forgotten, count = page.js(FORGOTTEN)
        assert not forgotten, f"{what} has texts that are not in the catalogue: {forgotten}"
        assert count > 3, f"{what} has {count} words"
        seen += count
        for width in [320, 1280]:
            page.look(width, 900, False)
            page.check_width(f"{what} at {width}")

    page.open(first)
    check("devices")
    # The check finds what is forgotten.
    page.js("document.querySelector('main').append('Forgotten')")
    assert page.js(FORGOTTEN)[0] == ["Forgotten"], page.js(FORGOTTEN)[0]
    page.go("open")
    page.until(lambda: page.driver.find_elements(By.NAME, "uri"), "field")[0].send_keys("films", Keys.ENTER)
    check("a wrong link")
    page.retype(LINK)
    page.until(lambda: page.driver.find_elements(By.CSS_SELECTOR, "main .state.good"), "outcome")
    check("a link")
    for view in VIEWS:
        page.go(view.format(tv=tv))
        if view == "add":
            for button in page.driver.find_elements(By.CSS_SELECTOR, ".ways button"):
                button.click()
            page.until(lambda: page.driver.find_elements(By.CSS_SELECTOR, ".qr"), "code")
        if view == "diagnosis":
            page.until(lambda: page.driver.find_elements(By.CSS_SELECTOR, ".hops"), "result")
        for details in page.driver.find_elements(By.CSS_SELECTOR, "main details"):
            page.js("arguments[0].open = true", details)
        check(view)
        page.shot(f"{view.split('/')[0]}-pseudo")
    # Questions.
    page.go("requests")
    process = relay("tv", "launch", "Desk", LINK)
    page.until(lambda: page.driver.find_elements(By.CSS_SELECTOR, "section.ask"), "request")
    check("a request")
    page.until(lambda: page.js("return performance.now() - seen.appeared > 600"), "time to read")
    page.until(lambda: page.driver.find_elements(By.CSS_SELECTOR, "section.ask button"), "answers")[1].click()
    process.communicate(timeout=60)
    assert process.returncode == 0, process.returncode
    page.go("access")
    check("a grant")
    page.until(lambda: page.driver.find_elements(By.CSS_SELECTOR, "main button.destructive"), "removal")[0].click()
    page.until(lambda: page.driver.find_elements(By.CSS_SELECTOR, "dialog"), "question")
    check("a question")
    page.keys(Keys.ESCAPE)
    for name in ["history", "activity"]:
        page.go(name)
        check(name)
    page.driver.find_element(By.CSS_SELECTOR, "header button").click()
    page.until(lambda: page.driver.find_elements(By.CSS_SELECTOR, "main .slim"), "end of the session")
    check("signed out")
    assert seen > 200, f"{seen} words were seen"
    page.end(origin(first), refused=["/v1/webhooks", f"/v1/files/{tv}"])


try:
    {each.__name__: each for each in [launch, views, asks, tabs, answers, session, hostile, languages, words]}[sys.argv[1]]()
finally:
    # A browser outlives its program.
    for each in Page.all:
        each.driver.quit()
