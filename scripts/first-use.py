#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The Device Relay project authors
"""A person opens a set-up link in Chromium (Debian: apt-get install chromium chromium-driver) and chooses a password.

usage: first-use.py SET-UP-LINK PASSWORD|warning

Nothing is clicked that accepts an untrusted certificate. With `warning`, the browser has to show its warning instead of the page. The browser's
files are in HOME, and it reads the authorities of the NSS database there.
"""
import pathlib
import subprocess
import sys
import time

import requests

link, password = sys.argv[1:]
ELEMENT = "element-6066-11e4-a52e-4f735466cecf"
profile = pathlib.Path.home() / "chromium"


def call(method, path, body=None):
    answer = requests.request(method, session + path, json=body if body is not None or method != "POST" else {}, timeout=120)
    value = answer.json()["value"]
    if not answer.ok:
        raise RuntimeError(f"WebDriver {path}: {value['error']}: {value['message']}")
    return value


def run(script):
    return call("POST", "/execute/sync", {"script": script, "args": []})


def until(heading):
    for _ in range(600):
        if run("return document.readyState === 'complete' && document.querySelector('h1')?.innerText || ''").startswith(heading):
            return
        # The system may configure the network still.
        if "ERR_NETWORK_CHANGED" in run("return document.body?.innerText || ''"):
            call("POST", "/refresh", {})
        time.sleep(0.1)
    raise SystemExit(f"no page {heading!r}: {run('return document.body.innerText')}")


def fill(name, text):
    element = call("POST", "/element", {"using": "css selector", "value": f"input[name={name}]"})[ELEMENT]
    call("POST", f"/element/{element}/value", {"text": text})


driver = subprocess.Popen(["chromedriver", "--port=9515"], stdout=subprocess.DEVNULL)
try:
    session = "http://127.0.0.1:9515"
    for _ in range(300):
        try:
            requests.get(session + "/status", timeout=5)
            break
        except requests.ConnectionError:
            time.sleep(0.1)
    # Tests may run as root, and in a container with a small /dev/shm.
    arguments = ["--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu", "--no-first-run", f"--user-data-dir={profile}"]
    options = {"args": arguments, "prefs": {"intl.accept_languages": "en"}}
    made = call(
        "POST",
        "/session",
        {"capabilities": {"alwaysMatch": {"browserName": "chrome", "acceptInsecureCerts": False, "goog:chromeOptions": options}}},
    )
    session += f"/session/{made['sessionId']}"
    try:
        try:
            call("POST", "/url", {"url": link})
            warning = ""
        except RuntimeError as error:
            warning = str(error)
        if password == "warning":
            shown = warning or run("return document.body.innerText")
            if "ERR_CERT_AUTHORITY_INVALID" not in shown:
                raise SystemExit(f"there is no warning: {shown}")
        else:
            if warning:
                raise SystemExit(warning)
            until("Welcome, ")
            fill("password", password)
            fill("repeated", password)
            run("document.querySelector('form[action$=\"/setup\"] button').click()")
            until("Account ")
    finally:
        call("DELETE", "")
finally:
    # It inherits which signals are ignored, and may ignore SIGTERM.
    driver.kill()
    driver.wait()
