# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The Device Relay project authors
"""Prints the sender and the bytes of each multicast DNS packet that it hears, for some seconds.

Usage: mdns-listen.py OWN-ADDRESS SECONDS
"""

import socket
import sys
import time

sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
sock.bind(("", 5353))
sock.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, socket.inet_aton("224.0.0.251") + socket.inet_aton(sys.argv[1]))
print("listening", flush=True)
end = time.monotonic() + float(sys.argv[2])
while (left := end - time.monotonic()) > 0:
    sock.settimeout(left)
    try:
        packet, (sender, _) = sock.recvfrom(9000)
        print(sender, packet.hex(), flush=True)
    except TimeoutError:
        break
