#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The Device Relay project authors
"""A person with Chromium (Debian: apt-get install chromium chromium-driver) uses the issuer's pages of a running relay.

usage: chromium.py ISSUER DIRECTORY SET-UP-LINK SET-UP-LINK

Everything happens twice: in English in a desktop window with the first link's account, and in German in a phone's window with the second one. The person chooses a
password, signs in by it, adds a passkey and signs in by it, lets a device and an app in, and uses a recovery code. Fails if a page does not do
what it should, breaks its own security policy, or is wider than its window. Prints one JSON line: the access tokens, `code` and `device`, of the
desktop's account. Screenshots and the browser's files go into DIRECTORY. ISSUER is at `localhost`, because browsers have no passkeys at addresses.
"""
import base64
import http.server
import json
import pathlib
import re
import socket
import subprocess
import sys
import threading
import time
import urllib.parse

import requests
from authlib.common.security import generate_token
from authlib.oauth2.rfc7636 import create_s256_code_challenge

issuer, directory, *links = sys.argv[1:]
directory = pathlib.Path(directory)
PASSWORD = "correct horse battery"
SCOPES = "offline_access relay.device.read relay.device.register relay.command relay.push"
DEVICE_CODE = "urn:ietf:params:oauth:grant-type:device_code"
ELEMENT = "element-6066-11e4-a52e-4f735466cecf"
PHONE = {"deviceMetrics": {"width": 320, "height": 740, "pixelRatio": 2, "touch": True, "mobile": True}}
WORDS = pathlib.Path(__file__).parent.parent / "Sources/ConsoleFiles/Web/i18n/pages"


class Chromium:
    """A browser, driven by WebDriver."""

    def __init__(self, driver, name, phone, languages):
        self.name, self.shots, self.language = name, 0, languages[:2]
        self.words = json.loads((WORDS / f"{self.language}.json").read_text())
        options = {
            # Tests may run as root, and in a container with a small /dev/shm. Its files are this test's own.
            "args": ["--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu", "--no-first-run", "--window-size=1100,900",
                     f"--user-data-dir={directory / name}"],
            "prefs": {"intl.accept_languages": languages},
        }
        if phone:
            options["mobileEmulation"] = PHONE
        self.session = driver
        capabilities = {"browserName": "chrome", "goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL"}}
        made = self.call("POST", "", {"capabilities": {"alwaysMatch": capabilities}})
        self.session = f"{driver}/{made['sessionId']}"

    def call(self, method, path, body=None):
        answer = requests.request(method, self.session + path, json=body if body is not None or method != "POST" else {}, timeout=120)
        value = answer.json()["value"]
        if not answer.ok:
            raise SystemExit(f"WebDriver {path}: {value['error']}: {value['message']}")
        return value

    def run(self, script):
        return self.call("POST", "/execute/sync", {"script": script, "args": []})

    def t(self, key, **values):
        """The words of a key in the browser's language."""
        return re.sub(r"\{(\w+)\}", lambda match: values[match[1]], self.words[key])

    def heading(self):
        return self.run("return document.readyState === 'complete' && document.querySelector('h1')?.innerText || ''")

    def text(self):
        return self.run("return document.body.innerText")

    def until(self, met, what):
        for _ in range(600):
            if met():
                return
            time.sleep(0.1)
        raise SystemExit(f"{self.name}: no {what} at {self.call('GET', '/url')}: {self.text()}")

    def page(self, heading, shot=None):
        """Waits for a page, checks it, and takes a picture of all of it."""
        self.until(lambda: self.heading() == heading, f"page {heading!r}")
        if self.call("GET", "/url").startswith(issuer):
            assert self.run("return document.documentElement.lang") == self.language, f"{self.name}: {heading!r} is in another language"
        wide = self.run("return [document.documentElement.scrollWidth, document.documentElement.clientWidth]")
        assert wide[0] <= wide[1], f"{self.name}: the page {heading!r} is {wide[0]} wide in a window of {wide[1]}"
        if shot:
            self.shots += 1
            picture = self.call("POST", "/goog/cdp/execute", {"cmd": "Page.captureScreenshot", "params": {"captureBeyondViewport": True}})
            (directory / f"{self.name}-{self.shots:02d}-{shot}.png").write_bytes(base64.b64decode(picture["data"]))

    def open(self, address):
        self.call("POST", "/url", {"url": address})

    def find(self, path):
        return self.call("POST", "/element", {"using": "xpath", "value": path})[ELEMENT]

    def click(self, label):
        """A button or link, which has to be visible."""
        element = self.find(f'//*[self::button or self::a][normalize-space()="{label}"]')
        self.call("POST", f"/element/{element}/click")

    def type(self, label, text):
        field = self.find(f'//label[starts-with(normalize-space(), "{label}")]//input')
        self.call("POST", f"/element/{field}/clear")
        self.call("POST", f"/element/{field}/value", {"text": text})

    def check_log(self):
        """No page broke its policy, and no script failed. A refused form is expected, and logged as a failed load."""
        for entry in self.call("POST", "/se/log", {"type": "browser"}):
            assert "the server responded with a status of 4" in entry["message"], f"{self.name}: {entry['message']}"

    def end(self):
        self.check_log()
        self.call("DELETE", "")


def sign_in(browser, password=PASSWORD):
    browser.type(browser.t("signIn.name"), browser.name)
    browser.type(browser.t("signIn.password"), password)
    browser.click(browser.t("signIn.do"))


def visit(browser, address, heading, shot=None):
    """Opens a page from elsewhere. Without TLS each visit begins signed out."""
    browser.open(address)
    browser.page(browser.t("signIn.title"))
    sign_in(browser)
    browser.page(heading, shot)


def sign_out(browser):
    browser.click(browser.t("account.signOut"))
    browser.page(browser.t("signIn.title"))


def set_up(browser, link):
    account = browser.t("account.title", name=browser.name)
    browser.open(link)
    browser.page(browser.t("setUp.title", name=browser.name), "set-up")
    browser.type(browser.t("password.new", characters="10"), PASSWORD)
    browser.type(browser.t("password.again"), "another password")
    browser.click(browser.t("password.set"))
    browser.until(lambda: browser.t("password.differ") in browser.text(), "objection")
    browser.page(browser.t("setUp.title", name=browser.name), "set-up-objection")
    browser.type(browser.t("password.new", characters="10"), PASSWORD)
    browser.type(browser.t("password.again"), PASSWORD)
    browser.click(browser.t("password.set"))
    browser.page(account)
    sign_out(browser)
    sign_in(browser, "wrong horse battery")
    browser.until(lambda: browser.t("signIn.wrong") in browser.text(), "objection")
    browser.page(browser.t("signIn.title"), "wrong-password")
    sign_in(browser)
    browser.page(account)


def passkey(browser):
    account = browser.t("account.title", name=browser.name)
    made = {"protocol": "ctap2", "transport": "internal", "hasResidentKey": True, "hasUserVerification": True, "isUserVerified": True}
    authenticator = browser.call("POST", "/webauthn/authenticator", made)
    # The person does not confirm the first time.
    verified = f"/webauthn/authenticator/{authenticator}/uv"
    browser.call("POST", verified, {"isUserVerified": False})
    browser.click(browser.t("passkey.add"))
    browser.until(lambda: browser.t("passkey.notUsed") in browser.text(), "message")
    browser.call("POST", verified, {"isUserVerified": True})
    browser.click(browser.t("passkey.add"))
    browser.until(lambda: browser.t("event.passkeyAdded") in browser.text(), "passkey")
    browser.page(account, "account")
    sign_out(browser)
    browser.page(browser.t("signIn.title"), "sign-in")
    browser.click(browser.t("passkey.signIn"))
    browser.page(account)
    credentials = browser.call("GET", f"/webauthn/authenticator/{authenticator}/credentials")
    assert [key["signCount"] for key in credentials] == [2], credentials
    sign_out(browser)


def poll(begun, client):
    return requests.post(
        f"{issuer}/token", timeout=60, data={"grant_type": DEVICE_CODE, "device_code": begun["device_code"], "client_id": client},
    ).json()


def device(browser, decision, done):
    """The person, who is signed out, opens the address that the device shows."""
    client = "com.example.television"
    begun = requests.post(
        f"{issuer}/device_authorization", timeout=60,
        data={"client_id": client, "scope": SCOPES, "device_name": "Television in the living room", "device_platform": "linux"},
    ).json()
    if decision == "device.allow":
        visit(browser, begun["verification_uri"], browser.t("device.title"), "code")
        browser.type(browser.t("device.code"), begun["user_code"].replace("-", " ").lower())
    else:
        # It was a QR code.
        visit(browser, begun["verification_uri_complete"], browser.t("device.title"))
    browser.click(browser.t("continue"))
    browser.page(browser.t("device.confirm.title"), "confirm")
    assert "Television in the living room" in browser.text() and client in browser.text()
    browser.click(browser.t(decision))
    browser.page(browser.t(done), "decided")
    return poll(begun, client)


def wrong_code(browser):
    visit(browser, f"{issuer}/device", browser.t("device.title"))
    browser.type(browser.t("device.code"), "BCDF-GHJK")
    browser.click(browser.t("continue"))
    browser.until(lambda: browser.t("device.unknownCode") in browser.text(), "objection")
    browser.page(browser.t("device.title"), "wrong-code")


class Server(http.server.ThreadingHTTPServer):
    def __init__(self, host):
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self.asked, self.cookies = [], []
        super().__init__((host, 0), Answer)
        threading.Thread(target=self.serve_forever, daemon=True).start()


class Answer(http.server.BaseHTTPRequestHandler):
    """An app's page at its loopback address."""

    def do_GET(self):
        self.server.asked.append(self.path)
        self.server.cookies += self.headers.get_all("Cookie", [])
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(b"<link rel='icon' href='data:,'><h1>Back in the app</h1>")

    def log_message(self, *_):
        pass


def app(browser, name, host, decision="app.allow"):
    """An app of this computer, whose answer goes to the host. The person is signed in."""
    server = Server(host.strip("[]"))
    redirect = f"http://{host}:{server.server_port}/done"
    client = requests.post(f"{issuer}/register", json={"redirect_uris": [f"http://{host}/done"], "client_name": name}, timeout=60).json()
    verifier, state = generate_token(48), generate_token(20)
    fields = {
        "response_type": "code", "client_id": client["client_id"], "redirect_uri": redirect, "scope": SCOPES, "state": state,
        "code_challenge": create_s256_code_challenge(verifier), "code_challenge_method": "S256",
    }
    # A request that is not right leads to the app by a click alone.
    browser.open(f"{issuer}/authorize?" + urllib.parse.urlencode(fields | {"response_type": "token"}))
    browser.page(browser.t("app.refused.title"), "app-error" if host == "[::1]" else None)
    assert not server.asked, server.asked
    browser.click(browser.t("app.refused.back", place=browser.t("app.place.loopback")))
    browser.page("Back in the app")
    assert urllib.parse.parse_qs(urllib.parse.urlsplit(server.asked.pop(0)).query)["error"] == ["unsupported_response_type"]
    visit(browser, f"{issuer}/authorize?" + urllib.parse.urlencode(fields), browser.t("app.title"), "app" if host == "[::1]" else None)
    browser.click(browser.t(decision))
    browser.page("Back in the app")
    # The app may be another user's: browsers send cookies to all ports of a host.
    for path in ["/auth/account", "/auth/login", "/"]:
        browser.open(f"http://{host}:{server.server_port}{path}")
        browser.page("Back in the app")
    assert not server.cookies, server.cookies
    query = urllib.parse.parse_qs(urllib.parse.urlsplit(next(path for path in server.asked if path.startswith("/done"))).query)
    server.shutdown()
    assert query["state"] == [state] and query["iss"] == [issuer], query
    if decision != "app.allow":
        assert query["error"] == ["access_denied"], query
        return None
    token = requests.post(f"{issuer}/token", timeout=60, data={
        "grant_type": "authorization_code", "code": query["code"][0], "redirect_uri": redirect, "client_id": client["client_id"],
        "code_verifier": verifier,
    }).json()
    assert set(token["scope"].split()) == set(SCOPES.split()), token
    return token


def recovery(browser):
    account = browser.t("account.title", name=browser.name)
    visit(browser, f"{issuer}/account", account, "account-in-use")
    browser.click(browser.t("account.codes.make"))
    browser.page(browser.t("recovery.codes.title"), "recovery-codes")
    codes = re.findall(r"\b[A-Z]{4}(?:-[A-Z]{4}){3}\b", browser.text())
    assert len(codes) == 10, codes
    browser.click(browser.t("recovery.codes.back"))
    browser.page(account)
    sign_out(browser)
    browser.click(browser.t("signIn.lost"))
    browser.page(browser.t("recovery.title"), "recover")
    browser.type(browser.t("signIn.name"), browser.name)
    browser.type(browser.t("recovery.code"), codes[3])
    browser.click(browser.t("continue"))
    browser.page(browser.t("setUp.title", name=browser.name))
    browser.type(browser.t("password.new", characters="10"), PASSWORD + " staple")
    browser.type(browser.t("password.again"), PASSWORD + " staple")
    browser.click(browser.t("password.set"))
    browser.page(account)
    browser.click(browser.t("account.remove"))
    browser.page(browser.t("removal.title", name=browser.name), "delete")


driver = subprocess.Popen(["chromedriver", "--port=0"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
port = next(found[1] for line in driver.stdout if (found := re.search(r"successfully on port (\d+)", line)))
try:
    threading.Thread(target=driver.stdout.read, daemon=True).start()
    tokens = []
    # German has the longest words.
    for name, languages, link in zip(["desktop", "phone"], ["en-US,en", "de-AT,en"], links, strict=True):
        browser = Chromium(f"http://127.0.0.1:{port}/session", name, name == "phone", languages)
        set_up(browser, link.replace("127.0.0.1", "localhost"))
        passkey(browser)
        allowed = device(browser, "device.allow", "device.done.title")
        denied = device(browser, "deny", "device.denied.title")
        assert denied["error"] == "access_denied", denied
        wrong_code(browser)
        codes = [app(browser, f"An app at {host}", host) for host in ["[::1]", "127.0.0.1", "localhost"]]
        app(browser, "Denied", "[::1]", "deny")
        recovery(browser)
        browser.end()
        tokens.append({"code": codes[0]["access_token"], "device": allowed["access_token"]})
    print(json.dumps(tokens[0]))
finally:
    # It ends its browsers.
    requests.get(f"http://127.0.0.1:{port}/shutdown", timeout=60)
    driver.wait()
