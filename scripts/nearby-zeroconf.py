# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The Device Relay project authors
"""Advertises an instance of the service with python-zeroconf, and prints those that it finds, until SIGTERM.

Usage: nearby-zeroconf.py OWN-ADDRESS
"""

import signal
import socket
import sys
import threading

from zeroconf import IPVersion, ServiceBrowser, ServiceInfo, ServiceListener, Zeroconf

TYPE = "_device-relay._tcp.local."
end = threading.Event()


class Listener(ServiceListener):
    def add_service(self, zc, kind, name):
        while (info := zc.get_service_info(kind, name)) is None:
            if end.is_set():
                return
            print("no answer yet about", name, flush=True)
        texts = info.properties
        facts = f"v={texts[b'v'].decode()} n={len(texts[b'n'])} t0={len(texts[b't0'])}"
        for address in info.parsed_addresses(IPVersion.V4Only):
            print(f"found {address} port={info.port} {facts} {name.removesuffix('.' + TYPE)}", flush=True)

    def update_service(self, zc, kind, name):
        pass

    def remove_service(self, zc, kind, name):
        print("gone", name, flush=True)


signal.signal(signal.SIGTERM, lambda *_: end.set())
# The tests start it with most signals blocked.
signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
zc = Zeroconf(interfaces=[sys.argv[1]], ip_version=IPVersion.V4Only)
ServiceBrowser(zc, TYPE, Listener())
zc.register_service(
    ServiceInfo(
        TYPE,
        "zeroconf." + TYPE,
        port=4711,
        addresses=[socket.inet_aton(sys.argv[1])],
        properties={"v": "1", "n": bytes(12), "t0": bytes(32)},
        server="zeroconf-host.local.",
    )
)
print("registered", flush=True)
end.wait()
zc.close()
