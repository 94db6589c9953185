# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The Device Relay project authors
"""A neighbour that copies the advertisements it hears, floods the network, and speaks with whoever dials it.

Usage: nearby-attack.py OWN-ADDRESS VICTIM-ADDRESS. It prints "copied" once it advertises, and what it reached after SIGTERM.
"""

import os
import random
import signal
import socket
import struct
import sys
import threading
import time

own, victim = sys.argv[1:3]
GROUP = ("224.0.0.251", 5353)
TYPE = [b"_device-relay", b"_tcp", b"local"]


def name(labels):
    return b"".join(bytes([len(label)]) + label for label in labels) + b"\0"


def record(labels, kind, data, flush=True, life=120):
    return name(labels) + struct.pack(">HHIH", kind, 0x8001 if flush else 1, life, len(data)) + data


def read_name(packet, at):
    labels, end = [], None
    for _ in range(64):
        length = packet[at]
        if length >= 0xC0:
            end = end or at + 2
            at = struct.unpack_from(">H", packet, at)[0] & 0x3FFF
        elif length == 0:
            return labels, end or at + 1
        else:
            labels.append(packet[at + 1 : at + 1 + length])
            at += 1 + length
    raise ValueError("a loop")


def records(packet):
    questions, *counts = struct.unpack_from(">4H", packet, 4)
    at = 12
    for _ in range(questions):
        at = read_name(packet, at)[1] + 4
    for _ in range(sum(counts)):
        labels, at = read_name(packet, at)
        kind, _, _, length = struct.unpack_from(">HHIH", packet, at)
        yield labels, kind, at + 10, packet[at + 10 : at + 10 + length]
        at += 10 + length


def announce(texts, port):
    message = b""
    count = 0
    for number, text in enumerate(texts):
        instance, host = [b"copy%d" % number] + TYPE, [b"host%d" % number, b"local"]
        message += record(TYPE, 12, name(instance), flush=False)
        message += record(instance, 33, struct.pack(">HHH", 0, 0, port) + name(host)) + record(instance, 16, text)
        message += record(host, 1, socket.inet_aton(own))
        count += 4
    return struct.pack(">6H", 0, 0x8400, 0, count, 0, 0) + message


heard_text, victim_port = set(), []
knocks, bytes_after = [], []
sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
sock.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_TTL, 255)
sock.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton(own))
sock.bind(("", 5353))
sock.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, socket.inet_aton("224.0.0.251") + socket.inet_aton(own))
listener = socket.create_server((own, 0))


def hear():
    while True:
        packet, (sender, _) = sock.recvfrom(9000)
        if sender != victim:
            continue
        try:
            for labels, kind, at, data in records(packet):
                if kind == 16 and labels[1:] == TYPE:
                    heard_text.add(data)
                if kind == 33 and labels[1:] == TYPE:
                    victim_port.append(struct.unpack_from(">H", packet, at + 4)[0])
        except (ValueError, IndexError, struct.error):
            pass


def serve():
    """Relays the challenge of the victim to the dialer, and keeps what the dialer answers."""
    while True:
        dialer, _ = listener.accept()
        dialer.settimeout(5)
        try:
            with socket.create_connection((victim, victim_port[-1]), 3) as real:
                real.settimeout(3)
                challenge = real.recv(20)
            # The victim's connection is closed: its challenge is worth nothing any more.
            dialer.sendall(challenge)
            knocks.append(dialer.recv(100))
            dialer.sendall(b"\0")
            bytes_after.append(dialer.recv(1000))
        except OSError:
            pass
        finally:
            dialer.close()


def replay():
    """Presents what dialers sent to the victim itself."""
    for knock in knocks + [b"DRL1\0" + bytes(40), b"GET / HTTP/1.1\r\n\r\n", os.urandom(45), b""]:
        try:
            with socket.create_connection((victim, victim_port[-1]), 3) as real:
                real.settimeout(5)
                real.recv(20)
                real.sendall(knock)
                if real.recv(1):
                    return False
        except OSError:
            pass
    return True


def stop(*_):
    # A handshake begins with a TLS record (22) that names no certificate yet: a dialer sends it to whoever accepts its knock. It gets no answer.
    print("no handshake" if all(data[:1] in (b"", b"\x16") for data in bytes_after) else "a dialer said more", flush=True)
    print("no answer to a replayed knock" if replay() else "a replayed knock was answered", flush=True)
    os._exit(0)


signal.signal(signal.SIGTERM, stop)
# The tests start it with most signals blocked.
signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
threading.Thread(target=hear, daemon=True).start()
threading.Thread(target=serve, daemon=True).start()
# A question, so that the victim's advertisement is heard.
sock.sendto(struct.pack(">6H", 0, 0, 1, 0, 0, 0) + name(TYPE) + struct.pack(">HH", 12, 1), GROUP)
while not (heard_text and victim_port):
    time.sleep(0.05)
print("copied", flush=True)
while True:
    sock.sendto(announce(list(heard_text) * 4, listener.getsockname()[1]), GROUP)
    # Nonsense, loops, and instances of nobody.
    for _ in range(20):
        sock.sendto(os.urandom(random.randrange(1, 1400)), GROUP)
    sock.sendto(struct.pack(">6H", 0, 0x8400, 0, 1, 0, 0) + b"\xc0\x0c\0\x0c\0\1\0\0\0\x78\0\2\xc0\x0c", GROUP)
    texts = [b"\x03v=1" + bytes([14]) + b"n=" + os.urandom(12) + bytes([35]) + b"t0=" + os.urandom(32) for _ in range(20)]
    sock.sendto(announce(texts, 9), GROUP)
    time.sleep(0.1)
