# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The Device Relay project authors
"""Reads Web Push requests with http_ece and py-vapid.

The argument is a file with one request a line, as JSON: `authorization` and `body` as they came, the subscriber's `private` key and
`secret`, and what is to be found: `content`, `audience`, `contact`. A difference ends the program with status 1.
"""

import base64
import json
import sys

import http_ece
from cryptography.hazmat.primitives.asymmetric import ec
from py_vapid import Vapid02


def decode(text):
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def check(request):
    key = ec.derive_private_key(int.from_bytes(decode(request["private"]), "big"), ec.SECP256R1())
    body = decode(request["body"])
    content = http_ece.decrypt(body, private_key=key, auth_secret=decode(request["secret"]), version="aes128gcm")
    if content.decode() != request["content"]:
        return "the content differs"
    if not Vapid02.verify(request["authorization"]):
        return "the VAPID signature is wrong"
    token = request["authorization"].split(" t=", 1)[1].split(",", 1)[0]
    claims = json.loads(decode(token.split(".")[1]))
    if claims["aud"] != request["audience"] or claims["sub"] != request["contact"] or not isinstance(claims["exp"], int):
        return f"the claims differ: {sorted(claims)}"
    # What was sent is no other's to read.
    try:
        http_ece.decrypt(body, private_key=key, auth_secret=bytes(16), version="aes128gcm")
    except http_ece.ECEException:
        return None
    return "another secret opens it"


for number, line in enumerate(open(sys.argv[1], encoding="utf-8")):
    problem = check(json.loads(line))
    if problem:
        print(f"request {number}: {problem}", file=sys.stderr)
        sys.exit(1)
