#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The Device Relay project authors
"""A receiver of webhooks, for tests. It verifies each message with the package standardwebhooks.

usage: webhook-receiver.py PORT

Listens on 127.0.0.1:PORT and prints one JSON line for each request: `path`, `id`, `verified` (for each secret, in their order), `signatures`
(how many there are) and `message`. Commands on standard input, each answered by the line `{"done": …}`:
  secret WHSEC             one more secret
  answer STATUS [N=V]…     the answer from now on, with header fields; 204 at first
  once STATUS [N=V]…       the answer to the next request alone
  hold, release            keeps requests without an answer, and answers them
Runs until standard input ends.
"""
import http.server
import json
import sys
import threading

import standardwebhooks

lock, free = threading.Lock(), threading.Event()
free.set()
secrets, answers, usual = [], [], [(204, [])]


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
