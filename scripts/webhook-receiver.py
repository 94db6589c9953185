#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The Device Relay project authors
"""A receiver of webhooks, for tests. It verifies each message with the package standardwebhooks.

usage: webhook-receiver.py PORT [NAME FILE]

With NAME it has TLS and a certificate of its own for that name, which it writes to FILE. Listens on 127.0.0.1:PORT and prints one JSON line for each request: `path`, `id`, `verified` (for each secret, in their order), `signatures`
(how many there are) and `message`. Commands on standard input, each answered by the line `{"done": …}`:
  secret WHSEC             one more secret
  answer STATUS [N=V]…     the answer from now on, with header fields; 204 at first
  once STATUS [N=V]…       the answer to the next request alone
  hold, release            keeps requests without an answer, and answers them
Runs until standard input ends.
"""
import datetime
import http.server
import json
import os
import ssl
import sys
import threading

import standardwebhooks
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

lock, free = threading.Lock(), threading.Event()
free.set()
secrets, answers, usual = [], [], [(204, [])]


def tls(name, file):
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    now = datetime.datetime.now(datetime.timezone.utc)
    certificate = (
        x509.CertificateBuilder(subject, subject, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1)).not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem = certificate.public_bytes(serialization.Encoding.PEM)
    with open(file + ".key", "wb", opener=lambda path, flags: os.open(path, flags, 0o600)) as private:
        private.write(key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()))
    with open(file, "wb") as public:
        public.write(pem)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(file, file + ".key")
    return context


def show(line):
    with lock:
        print(json.dumps(line), flush=True)


def verifies(secret, body, headers):
    try:
        standardwebhooks.Webhook(secret).verify(body, headers)
        return True
    except standardwebhooks.WebhookVerificationError:
        return False


class Receiver(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        headers = dict(self.headers.items())
        show({
            "path": self.path, "id": self.headers["webhook-id"], "verified": [verifies(each, body, headers) for each in secrets],
            "signatures": len(self.headers["webhook-signature"].split(" ")), "message": json.loads(body),
        })
        free.wait()
        status, fields = answers.pop(0) if answers else usual[0]
        try:
            self.send_response(status)
            for name, value in fields:
                self.send_header(name, value)
            # Whatever it says, nobody reads it.
            text = b"" if status == 204 else b"answer " * 20_000
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)
        except OSError:
            pass  # The sender has gone.

    def log_message(self, *_):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Receiver)
server.daemon_threads = True
if len(sys.argv) > 2:
    server.socket = tls(*sys.argv[2:]).wrap_socket(server.socket, server_side=True)
threading.Thread(target=server.serve_forever, daemon=True).start()
show({"done": "listen"})
for line in sys.stdin:
    word, *rest = line.split()
    if word == "secret":
        secrets.append(rest[0])
    elif word in ("answer", "once"):
        answer = (int(rest[0]), [tuple(each.split("=", 1)) for each in rest[1:]])
        if word == "answer":
            usual[0] = answer
        else:
            answers.append(answer)
    elif word == "hold":
        free.clear()
    elif word == "release":
        free.set()
    show({"done": word})
