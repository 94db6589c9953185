# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The Device Relay project authors
"""Speaks to a running relay with independent WebSocket implementations: `websockets` and `wsproto`.

usage: websockets-exchange.py HOST:PORT [SEED]

Tests accepted and rejected handshakes, fragmented messages, pings, every close code, large and invalid messages, random conversations of
`wsproto` in random pieces, and frames that a client must not send. A difference ends the program with status 1.
"""

import contextlib
import json
import random
import socket
import struct
import sys

from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect
from wsproto import ConnectionType, WSConnection
from wsproto.events import AcceptConnection, CloseConnection, Ping, Pong, Request, TextMessage
from wsproto.frame_protocol import FrameProtocol, Opcode

HOST, PORT = sys.argv[1].rsplit(":", 1)
GENERATOR = random.Random(int(sys.argv[2]) if len(sys.argv) > 2 else 2026)
SUBPROTOCOL = "device-relay.v1"
URL = f"ws://{HOST}:{PORT}/v1/connect"
PATIENCE = 120
# A message of an unknown type without a request reference, which the relay ignores.
NOISE = json.dumps({"type": "noise", "text": "a é 日 😀"}, ensure_ascii=False)


def check(is_right, what):
    if not is_right:
        sys.exit(f"websockets-exchange: {what}")


@contextlib.contextmanager
def dial(**options):
    options = {"subprotocols": [SUBPROTOCOL], "open_timeout": PATIENCE, "close_timeout": PATIENCE, "ping_interval": None, **options}
    with connect(options.pop("url", URL), **options) as client:
        check(client.subprotocol == SUBPROTOCOL, f"subprotocol {client.subprotocol}")
        check(json.loads(client.recv(PATIENCE))["type"] == "challenge", "no challenge")
        yield client


def is_alive(client):
    return client.ping(b"alive").wait(PATIENCE)


def closed_with(client):
    """Skips messages, and returns the relay's close code."""
    try:
        while True:
            client.recv(PATIENCE)
    except ConnectionClosed as closed:
        return closed.rcvd and closed.rcvd.code


def handshakes():
    with dial() as client:
        # Compression was offered, and must not be used.
        check(not client.protocol.extensions, "an extension was agreed on")
        check(is_alive(client), "no pong")
    refused = [
        (400, {"subprotocols": ["chat"]}),
        (403, {"origin": "https://elsewhere.example"}),
        (404, {"url": f"ws://{HOST}:{PORT}/v1/nothing"}),
        (421, {"url": f"ws://elsewhere.example:{PORT}/v1/connect"}),
    ]
    for status, options in refused:
        try:
            with dial(sock=socket.create_connection((HOST, int(PORT)), PATIENCE), **options):
                pass
        except InvalidStatus as answer:
            check(answer.response.status_code == status, f"{options}: {answer.response.status_code}, not {status}")
        else:
            check(False, f"{options}: not refused")


def conversations():
    with dial() as client:
        for cuts in range(1, 12):
            bounds = [len(NOISE) * number // cuts for number in range(cuts + 1)]
            client.send(NOISE[start:end] for start, end in zip(bounds, bounds[1:]))
            check(client.ping(bytes(range(cuts))).wait(PATIENCE), f"no pong after {cuts} fragments")
        client.send(NOISE + " " * ((32 << 10) - len(NOISE.encode())))
        check(is_alive(client), "a message of the limit was not taken")
    for code in [1000, 1001, 3000, 4000, 4999]:
        with dial() as client:
            client.close(code, "é" * 60)
        check(client.protocol.close_rcvd and client.protocol.close_rcvd.code == code, f"close {code}")
    ends = [(1003, b"\0"), (1007, "["), (1007, "{"), (1007, "[" * 30_000), (1009, " " * ((32 << 10) + 1)), (1002, '{"type":"watch","ref":1}')]
    for code, message in ends:
        with dial() as client:
            client.send(message)
            found = closed_with(client)
        check(found == code, f"{message[:30]}: {found}, not {code}")


class LowLevel:
    """A wsproto client that can send its bytes in arbitrary pieces."""

    def __init__(self):
        self.socket = socket.create_connection((HOST, int(PORT)), PATIENCE)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.machine = WSConnection(ConnectionType.CLIENT)
        self.events = self.machine.events()
        self.socket.sendall(self.machine.send(Request(host=f"{HOST}:{PORT}", target="/v1/connect", subprotocols=[SUBPROTOCOL])))
        check(isinstance(self.next(), AcceptConnection), "not accepted")
        self.text()

    def next(self):
        while True:
            for event in self.machine.events():
                return event
            data = self.socket.recv(65_536)
            self.machine.receive_data(data or None)

    def text(self):
        text = ""
        while True:
            event = self.next()
            check(isinstance(event, TextMessage), f"{event}")
            text += event.data
            if event.message_finished:
                return json.loads(text)

    def send_in_pieces(self, data):
        while data:
            count = GENERATOR.choice([1, 2, 7, 100, len(data)])
            self.socket.sendall(data[:count])
            data = data[count:]

    def close_code(self):
        while True:
            event = self.next()
            if isinstance(event, CloseConnection):
                return event.code


def random_conversations():
    for _ in range(30):
        client = LowLevel()
        data = b""
        pings = []
        for _ in range(GENERATOR.randrange(1, 20)):
            pieces = GENERATOR.randrange(1, 6)
            bounds = [0] + sorted(GENERATOR.randrange(len(NOISE) + 1) for _ in range(pieces - 1)) + [len(NOISE)]
            for piece in range(pieces):
                text = NOISE[bounds[piece] : bounds[piece + 1]]
                data += client.machine.send(TextMessage(text, message_finished=piece == pieces - 1))
                if GENERATOR.random() < 0.5:
                    pings.append(GENERATOR.randbytes(GENERATOR.randrange(126)))
                    data += client.machine.send(Ping(pings[-1]))
                if GENERATOR.random() < 0.3:
                    data += client.machine.send(Pong(b"nobody asked"))
        pings.append(b"the last one")
        data += client.machine.send(Ping(pings[-1]))
        client.send_in_pieces(data)
        # A newer ping replaces an unanswered one (RFC 6455 section 5.5.3), but pongs must keep the order of the pings.
        answered = None
        while answered != pings[-1]:
            event = client.next()
            check(isinstance(event, Pong), f"{event}")
            answered = bytes(event.payload)
            check(answered in pings, "a pong that no ping asked for, or out of order")
            while pings[0] != answered:
                pings.pop(0)
        client.socket.sendall(client.machine.send(CloseConnection(4000, "done")))
        check(client.close_code() == 4000, "close 4000")
        client.socket.close()


def violations():
    text = NOISE.encode()
    client_frames = FrameProtocol(client=True, extensions=[])
    server_frames = FrameProtocol(client=False, extensions=[])

    def serialised(opcode, payload=b"", fin=True, reserved=0):
        # A private method, because the public ones write valid frames only.
        frame = bytearray(client_frames._serialize_frame(opcode, payload, fin))
        frame[0] |= reserved
        return bytes(frame)

    cases = [
        (1002, "a frame as servers write it", server_frames.send_data(text.decode())),
        (1002, "a ping as servers write it", server_frames.ping()),
        (1002, "a reserved bit", serialised(Opcode.TEXT, text, reserved=0x40)),
        (1002, "a ping in fragments", serialised(Opcode.PING, fin=False)),
        (1002, "a continuation of nothing", serialised(Opcode.CONTINUATION, text)),
        (1002, "text within text", serialised(Opcode.TEXT, b"{", fin=False) + serialised(Opcode.TEXT, b"}")),
        (1002, "a close code that nobody may send", serialised(Opcode.CLOSE, struct.pack("!H", 1005))),
        (1007, "a close reason that is not UTF-8", serialised(Opcode.CLOSE, struct.pack("!H", 1000) + b"\xff")),
        (1007, "text that is not UTF-8", serialised(Opcode.TEXT, b'{"type":"\xff"}')),
    ]
    for code, name, data in cases:
        client = LowLevel()
        client.send_in_pieces(data)
        found = client.close_code()
        client.socket.close()
        check(found == code, f"{name}: {found}, not {code}")


for part in [handshakes, conversations, random_conversations, violations]:
    part()
