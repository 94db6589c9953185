# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The Device Relay project authors
"""usage: other-agent.py SOCKET INSTANCE VERSION
Answers `GET /v1` as an agent of a version does, and dies at every other request: it closes the connection without an answer. Prints each
request's line."""

import json
import os
import socket
import sys

path, instance, version = sys.argv[1:]
if os.path.exists(path):
    os.unlink(path)
listener = socket.socket(socket.AF_UNIX)
listener.bind(path)
os.chmod(path, 0o600)
listener.listen()
print("ready", flush=True)
while True:
    connection = listener.accept()[0]
    with connection:
        request = b""
        while b"\r\n\r\n" not in request and (part := connection.recv(65536)):
            request += part
        line = request.split(b"\r\n")[0].decode()
        print(line, flush=True)
        if line.startswith("GET /v1 "):
            body = json.dumps({"instance": instance, "version": version}).encode()
            head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
            connection.sendall(head.encode() + body)
