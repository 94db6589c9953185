#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The Device Relay project authors
"""oidc-agent, a client of others (Debian: apt-get install oidc-agent-cli), gets tokens from the issuer of a running relay.

usage: oidc-agent.py ISSUER SET-UP-LINK DIRECTORY PORT

Signs in with a loopback redirect, and with the device grant. Prints one JSON line: the access tokens, `code` and `device`. The agent keeps its
files in DIRECTORY, and is redirected to the free PORT.
"""
import json
import os
import pathlib
import re
import signal
import subprocess
import sys

import requests

from pages import person

issuer, link, directory, port = sys.argv[1:]
scopes = "offline_access relay.device.read relay.device.register relay.command relay.push"
environment = os.environ | {"HOME": directory}
# Its folder in the home directory; it makes none itself.
pathlib.Path(directory, ".oidc-agent").mkdir()
browser = person(link)


def run(*command):
    ended = subprocess.run(command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120)
    if ended.returncode:
        sys.exit(f"{command} ended with {ended.returncode}: {ended.stdout}{ended.stderr}")
    return ended.stdout.strip()


def sign_in(name, client, port, flow, allow):
    """Configures an account at the agent; `allow` gets each line that it prints for its user."""
    generator = subprocess.Popen(
        ["oidc-gen", name, f"--issuer={issuer}", f"--client-id={client}", "--client-secret=", f"--redirect-uri=http://localhost:{port}",
         f"--scope={scopes}", f"--flow={flow}", "--no-url-call", "--prompt=none", "--pw-cmd=echo password",
         "--confirm-default"],
        env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )
    said = ""
    for line in generator.stdout:
        said += line
        allow(said)
    if generator.wait(timeout=120):
        sys.exit(f"oidc-gen {flow} failed: {said}")


def allow_app(said):
    if found := re.search(r"(http://\S+/authorize\?\S+)\n$", said):
        browser.open(found[1])
        requests.get(browser.submit("/authorize", stop="http://localhost:", decision="allow"), timeout=60).raise_for_status()


def allow_device(said):
    if found := re.search(r"([A-Z]{4}-[A-Z]{4})\n$", said):
        browser.open(f"{issuer}/device")
        browser.submit("/device", user_code=found[1])
        browser.submit("/device/decision", decision="allow")


started = run("oidc-agent")
environment |= dict(re.findall(r"(\w+)=([^;]+);", started))
try:
    client = requests.post(f"{issuer}/register", json={"redirect_uris": ["http://localhost"], "client_name": "oidc-agent"}, timeout=60).json()
    sign_in("code", client["client_id"], port, "code", allow_app)
    sign_in("device", "com.example.oidc-agent", port, "device", allow_device)
    tokens = {}
    for name in ["code", "device"]:
        first = run("oidc-token", name)
        # It refreshes.
        tokens[name] = run("oidc-token", "--force-new", name)
        assert tokens[name] != first, "the token is not new"
    print(json.dumps(tokens))
finally:
    os.kill(int(environment["OIDCD_PID"]), signal.SIGTERM)
