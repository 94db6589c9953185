#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The Device Relay project authors
"""Starts Glewlwyd, an OpenID Connect provider of others (Debian: apt-get install glewlwyd), for tests against a real issuer.

usage: glewlwyd.py DIRECTORY PORT

Listens on the free PORT. Makes an SQLite database and an RSA key in DIRECTORY, adds the scopes of the relay, the user anna, a client that may use client credentials and
introspection, and the public client `relay` with the device grant. Prints one JSON line: issuer, client, secret, and an access token. Then it
reads commands, one a line, and answers each with an empty line:

revoke TOKEN   revokes a token at the issuer
device CODE    anna lets the device in that shows the code

Runs until standard input ends.
"""
import base64
import http.cookiejar
import json
import pathlib
import sqlite3
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request

directory, port = pathlib.Path(sys.argv[1]), sys.argv[2]
base = f"http://127.0.0.1:{port}"
scopes = ["relay.device.read", "relay.device.register", "relay.command", "relay.push"]
client, secret, password = "device-relay-test", "2e6a5fb7c94d4c1f", "correct horse battery"

database = sqlite3.connect(directory / "glewlwyd.sqlite")
database.executescript(pathlib.Path("/usr/share/dbconfig-common/data/glewlwyd/install/sqlite3").read_text())
database.close()
(directory / "glewlwyd.conf").write_text(f"""
port={port}
external_url="{base}"
login_url="login.html"
api_prefix="api"
static_files_path="/usr/share/glewlwyd/webapp/"
log_mode="file"
log_level="INFO"
log_file="{directory}/glewlwyd.log"
cookie_secure=0
session_expiration=3600
session_key="session"
admin_scope="g_admin"
profile_scope="g_profile"
user_module_path="/usr/lib/glewlwyd/user"
user_middleware_module_path="/usr/lib/glewlwyd/user_middleware"
client_module_path="/usr/lib/glewlwyd/client"
user_auth_scheme_module_path="/usr/lib/glewlwyd/scheme"
plugin_module_path="/usr/lib/glewlwyd/plugin"
use_secure_connection=false
secure_connection_key_file="/dev/null"
secure_connection_pem_file="/dev/null"
hash_algorithm="SHA512"
database = {{ type = "sqlite3" path = "{directory}/glewlwyd.sqlite" }};
""")
key = directory / "key.pem"
subprocess.run(["openssl", "genpkey", "-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048", "-out", key], check=True, capture_output=True)
public = subprocess.run(["openssl", "pkey", "-in", key, "-pubout"], check=True, capture_output=True, text=True).stdout

server = subprocess.Popen(["glewlwyd", f"--config-file={directory}/glewlwyd.conf"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)


class NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_):
        return None


def browser():
    return urllib.request.build_opener(urllib.request.HTTPCookieProcessor(http.cookiejar.CookieJar()), NoRedirect())


admin, anna = browser(), browser()


def call(path, value=None, form=None, headers={}, opener=admin, method=None):
    body, headers = None, dict(headers)
    if value is not None:
        body, headers["Content-Type"] = json.dumps(value).encode(), "application/json"
    if form is not None:
        body, headers["Content-Type"] = urllib.parse.urlencode(form).encode(), "application/x-www-form-urlencoded"
    with opener.open(urllib.request.Request(f"{base}/api{path}", data=body, headers=headers, method=method), timeout=20) as answer:
        text = answer.read()
    return json.loads(text) if text else None


def allow(code):
    """What Glewlwyd's pages do when anna signs in, allows the scopes, and enters the code."""
    call("/auth/", {"username": "anna", "password": password}, opener=anna)
    call("/auth/grant/relay/", {"scope": " ".join(["openid"] + scopes)}, opener=anna, method="PUT")
    try:
        anna.open(f"{base}/api/oidc/device?code={urllib.parse.quote(code)}&g_continue", timeout=20)
    except urllib.error.HTTPError as answer:
        assert answer.code == 302 and "prompt=deviceComplete" in answer.headers["Location"], answer.headers


try:
    for _ in range(100):
        try:
            admin.open(f"{base}/config", timeout=5)
            break
        except urllib.error.URLError:
            if server.poll() is not None:
                sys.exit("glewlwyd did not start: see glewlwyd.log")
            time.sleep(0.1)
    call("/auth/", {"username": "admin", "password": "password"})
    for name in scopes:
        call("/scope/", {"name": name, "display_name": name, "password_required": False, "scheme": {}})
    call("/mod/plugin/", {
        "module": "oidc", "name": "oidc", "display_name": "OpenID Connect",
        "parameters": {
            "iss": f"{base}/api/oidc", "jwt-type": "rsa", "jwt-key-size": "256", "key": key.read_text(), "cert": public,
            "access-token-duration": 600, "refresh-token-duration": 3600, "code-duration": 60, "refresh-token-rolling": True,
            "allow-non-oidc": True, "auth-type-code-enabled": True, "auth-type-client-enabled": True, "auth-type-refresh-enabled": True,
            "introspection-revocation-allowed": True, "introspection-revocation-allow-target-client": True,
            "auth-type-device-enabled": True, "device-authorization-expiration": 600, "device-authorization-interval": 1,
            "oauth-dpop-allowed": True, "oauth-dpop-iat-duration": 120,
            "introspection-revocation-auth-scope": [], "jwks-show": True, "scope": [], "additional-parameters": [], "claims": [],
        },
    })
    call("/client/", {
        "client_id": client, "name": client, "client_secret": secret, "password": secret, "confidential": True, "enabled": True,
        "scope": scopes, "authorization_type": ["client_credentials"], "redirect_uri": [], "token_endpoint_auth_method": ["client_secret_basic"],
    })
    call("/client/", {
        "client_id": "relay", "name": "relay", "confidential": False, "enabled": True, "scope": ["openid"] + scopes,
        "authorization_type": ["device_authorization", "refresh_token"], "redirect_uri": [], "token_endpoint_auth_method": ["none"],
    })
    call("/user/", {"username": "anna", "name": "Anna", "password": password, "enabled": True, "scope": ["g_profile", "openid"] + scopes})
    basic = {"Authorization": "Basic " + base64.b64encode(f"{client}:{secret}".encode()).decode()}
    token = call("/oidc/token/", form={"grant_type": "client_credentials", "scope": " ".join(scopes)}, headers=basic)["access_token"]
    print(json.dumps({"issuer": f"{base}/api/oidc", "client": client, "secret": secret, "token": token}), flush=True)
    for line in sys.stdin:
        command, argument = line.split()
        if command == "revoke":
            call("/oidc/revoke/", form={"token": argument}, headers=basic)
        else:
            allow(argument)
        print(flush=True)
finally:
    server.terminate()
    server.wait()
