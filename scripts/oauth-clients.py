#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The Device Relay project authors
"""Authlib, an OAuth client library of others, uses the issuer of a running relay.

usage: oauth-clients.py ISSUER SET-UP-LINK

Signs in with the code grant and PKCE, and with the device grant; refreshes, uses an old refresh token, and revokes. Fails if the issuer does not
answer as the standards say. Needs Python's authlib and requests (scripts/test installs them).
"""
import http.server
import sys
import threading
import urllib.parse

import requests
from authlib.common.security import generate_token
from authlib.integrations.base_client.errors import OAuthError
from authlib.integrations.requests_client import OAuth2Session

from pages import Browser, person

issuer, link = sys.argv[1:]
DEVICE_CODE = "urn:ietf:params:oauth:grant-type:device_code"
browser = person(link)
metadata = requests.get(f"{issuer}/.well-known/openid-configuration", timeout=60).json()
assert metadata["issuer"] == issuer, metadata
assert metadata == requests.get(f"{issuer}/.well-known/oauth-authorization-server", timeout=60).json()


def refused(action, *codes):
    try:
        answer = action()
    except OAuthError as error:
        assert error.error in codes, error
        return error.error
    raise AssertionError(f"served: {answer}")


def register(**more):
    answer = requests.post(
        metadata["registration_endpoint"],
        json={"redirect_uris": ["http://127.0.0.1/done"], "client_name": "Authlib", "token_endpoint_auth_method": "none"} | more, timeout=60,
    )
    assert answer.status_code == 201, answer.text
    return answer.json()["client_id"]


class App:
    """A native app that waits for its answer at a loopback address."""

    def __init__(self, scope):
        answers = self.answers = []

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                answers.append(self.path)
                self.send_response(200)
                self.end_headers()

            def log_message(self, *_):
                pass

        self.server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
        self.redirect = f"http://127.0.0.1:{self.server.server_port}/done"
        self.session = OAuth2Session(
            register(), None, token_endpoint_auth_method="none", scope=scope, redirect_uri=self.redirect, code_challenge_method="S256",
        )
        self.verifier = generate_token(48)

    def ask(self, decision="allow"):
        """The person decides in the browser.

        Returns the address at which the app gets the answer.
        """
        address, self.state = self.session.create_authorization_url(metadata["authorization_endpoint"], code_verifier=self.verifier)
        browser.open(address)
        location = browser.submit("/authorize", stop=self.redirect, decision=decision)
        # The browser follows it while the app waits.
        threading.Thread(target=requests.get, args=(location,), kwargs={"timeout": 60}, daemon=True).start()
        self.server.handle_request()
        answer = self.redirect.removesuffix("/done") + self.answers.pop()
        # RFC 9207.
        assert urllib.parse.parse_qs(urllib.parse.urlsplit(answer).query)["iss"] == [issuer], answer
        return answer

    def fetch(self, answer, verifier=None):
        return self.session.fetch_token(
            metadata["token_endpoint"], authorization_response=answer, state=self.state, code_verifier=verifier or self.verifier,
        )

    def refresh(self, token):
        return self.session.refresh_token(metadata["token_endpoint"], refresh_token=token)


# Code grant with PKCE. Clients of OpenID Connect ask for `openid`; the answer says that it was not granted.
app = App("openid offline_access relay.command")
answer = app.ask()
refused(lambda: app.fetch(answer, generate_token(48)), "invalid_grant")
token = app.fetch(answer)
assert token["token_type"] == "Bearer" and token["scope"] == "offline_access relay.command", token
assert "error=access_denied" in app.ask("deny")

# Refresh: the token changes, the previous one returns the same successor for a while, and an older one ends the login.
first = token["refresh_token"]
second = app.refresh(first)["refresh_token"]
assert second != first
assert app.refresh(first)["refresh_token"] == second, "the answer to a repeated request differs"
third = app.refresh(second)["refresh_token"]
refused(lambda: app.refresh(first), "invalid_grant")
refused(lambda: app.refresh(third), "invalid_grant")

# A code that is used again ends the login that it began.
app = App("offline_access relay.command")
answer = app.ask()
token = app.fetch(answer)
refused(lambda: app.fetch(answer), "invalid_grant")
refused(lambda: app.refresh(token["refresh_token"]), "invalid_grant")

# Revocation (RFC 7009).
app = App("offline_access relay.command")
token = app.fetch(app.ask())
answer = app.session.revoke_token(metadata["revocation_endpoint"], token["refresh_token"], token_type_hint="refresh_token")
assert answer.status_code == 200, answer.text
refused(lambda: app.refresh(token["refresh_token"]), "invalid_grant")

# Device grant (RFC 8628).
session = OAuth2Session("com.example.television", None, token_endpoint_auth_method="none")


def device(decision):
    begun = requests.post(
        metadata["device_authorization_endpoint"], timeout=60,
        data={"client_id": session.client_id, "scope": "offline_access relay.push", "device_name": "TV", "device_platform": "linux"},
    ).json()
    poll = lambda: session.fetch_token(metadata["token_endpoint"], grant_type=DEVICE_CODE, device_code=begun["device_code"])
    if decision is None:
        refused(poll, "authorization_pending")
        refused(poll, "slow_down")
        return None
    browser.open(begun["verification_uri_complete"])
    browser.submit("/device")
    assert "TV" in browser.text and session.client_id in browser.text
    browser.submit("/device/decision", decision=decision)
    return poll


device(None)
refused(device("deny"), "access_denied")
poll = device("allow")
token = poll()
assert token["scope"] == "offline_access relay.push", token
assert session.refresh_token(metadata["token_endpoint"], refresh_token=token["refresh_token"])["access_token"] != token["access_token"]
print("ok")
