#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The Device Relay project authors
"""An OpenID Connect provider that forgives nothing, for tests: each refresh token works once, and its second use ends the login. Its access
tokens count as old at once, so each command refreshes.

usage: strict-issuer.py PORT AUDIENCE [SCOPE]

With SCOPE it behaves as Microsoft Entra: it refuses `resource`, each request for tokens needs SCOPE beside `offline_access`, and its tokens
have the last part of SCOPE in `scp`. Listens on the free PORT of 127.0.0.1, and lets every device in. Prints one JSON line: issuer. Once it has read the line `hold`, it prints one
JSON line for each refresh, `{"refresh": "held"}` or `{"refresh": "refused"}`, and answers a held one when it has read a further line. Runs
until standard input ends.
"""
import base64
import http.server
import json
import os
import secrets
import sys
import threading
import time
import urllib.parse

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, utils

port, audience = int(sys.argv[1]), sys.argv[2]
api = sys.argv[3] if len(sys.argv) > 3 else None
issuer = f"http://127.0.0.1:{port}"
key = ec.generate_private_key(ec.SECP256R1())
lock, released, holds = threading.Lock(), threading.Semaphore(0), threading.Event()
refresh_tokens = {}  # token: whether it is the newest of the only login
scope = "relay.device.read relay.device.register relay.command relay.push offline_access"


def text(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def access_token():
    now = int(time.time())
    header = {"alg": "ES256", "typ": "at+jwt", "kid": "1"}
    claims = {"iss": issuer, "sub": "anna", "aud": audience, "client_id": "relay", "scope": scope, "iat": now, "exp": now + 600,
              "jti": secrets.token_urlsafe(8)}
    if api:
        claims["scp"] = api.rsplit("/", 1)[1]
        del claims["scope"]
    signed = ".".join(text(json.dumps(part).encode()) for part in (header, claims))
    r, s = utils.decode_dss_signature(key.sign(signed.encode(), ec.ECDSA(hashes.SHA256())))
    return signed + "." + text(r.to_bytes(32, "big") + s.to_bytes(32, "big"))


def tokens():
    refresh = secrets.token_urlsafe(32)
    for old in refresh_tokens:
        refresh_tokens[old] = False
    refresh_tokens[refresh] = True
    return {"access_token": access_token(), "token_type": "Bearer", "expires_in": 0, "refresh_token": refresh, "scope": scope}


class Handler(http.server.BaseHTTPRequestHandler):
    def log_message(self, *arguments):
        pass

    def answer(self, body, status=200):
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def do_GET(self):
        numbers = key.public_key().public_numbers()
        if self.path == "/jwks":
            return self.answer({"keys": [{"kty": "EC", "crv": "P-256", "kid": "1", "alg": "ES256", "use": "sig",
                                          "x": text(numbers.x.to_bytes(32, "big")), "y": text(numbers.y.to_bytes(32, "big"))}]})
        if self.path == "/.well-known/openid-configuration":
            return self.answer({"issuer": issuer, "token_endpoint": issuer + "/token", "jwks_uri": issuer + "/jwks",
                                "device_authorization_endpoint": issuer + "/device", "scopes_supported": ["openid", "profile", "offline_access"] if api else scope.split()})
        self.answer({"error": "not_found"}, 404)

    def do_POST(self):
        form = dict(urllib.parse.parse_qsl(self.rfile.read(int(self.headers["Content-Length"])).decode()))
        if api:
            asked = form.get("scope", "").split()
            redeems = form.get("grant_type", "").endswith("device_code")
            if "resource" in form or not redeems and not {api, "offline_access"} <= set(asked):
                return self.answer({"error": "invalid_target" if "resource" in form else "invalid_scope"}, 400)
            if any(one.startswith("relay.") for one in asked):
                return self.answer({"error": "invalid_scope"}, 400)
        # RFC 8707: each request names the relay.
        elif not form.get("resource", "").startswith("http://127.0.0.1:"):
            return self.answer({"error": "invalid_target"}, 400)
        if self.path == "/device":
            return self.answer({"device_code": "d", "user_code": "CODE", "verification_uri": issuer + "/page", "expires_in": 60,
                                "interval": 1})
        if form.get("grant_type") != "refresh_token":
            with lock:
                return self.answer(tokens())
        with lock:
            is_valid = refresh_tokens.get(form["refresh_token"], False)
            if is_valid:
                new = tokens()
            else:
                refresh_tokens.clear()
        if holds.is_set():
            print(json.dumps({"refresh": "held" if is_valid else "refused"}), flush=True)
        if not is_valid:
            return self.answer({"error": "invalid_grant"}, 400)
        if holds.is_set():
            released.acquire()
        self.answer(new)


server = http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler)
server.daemon_threads = True
threading.Thread(target=server.serve_forever, daemon=True).start()
print(json.dumps({"issuer": issuer}), flush=True)
for line in sys.stdin:
    if line.strip() == "hold":
        holds.set()
    else:
        released.release()
os._exit(0)
