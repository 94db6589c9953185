#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The Device Relay project authors
"""A network of its own in which a domain has an HTTPS server and a name server. For the tests of `relayd app`.

usage: app-domain.py DOMAIN RELAYD

Reads a JSON object for each line, and answers each with a line:
{"files": {"/path": "text"}, "texts": ["TXT record"]}  sets what the domain publishes;
{"run": ["argument"]}  runs RELAYD, and answers {"status": 0, "output": "", "error": ""}.
Only root can make networks.
"""

import datetime
import http.server
import json
import os
import ssl
import subprocess
import sys
import tempfile
import threading

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

files = {}


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        text = files.get(self.path)
        self.send_response(404 if text is None else 200)
        body = (text or "").encode()
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def certificate(folder, domain):
    """A certificate for the domain that signs itself, as the only one that the network trusts."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, domain)])
    now = datetime.datetime.now(datetime.timezone.utc)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(domain)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    path = os.path.join(folder, "domain.pem")
    with open(path, "wb") as file:
        file.write(made.public_bytes(serialization.Encoding.PEM))
        file.write(
            key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
        )
    return path


def mount(folder, path, text):
    source = os.path.join(folder, os.path.basename(path))
    with open(source, "w") as file:
        file.write(text)
    subprocess.run(["mount", "--bind", source, os.path.realpath(path)], check=True)


def name_server(folder, domain, texts):
    records = [f"--txt-record={domain},{text}" for text in texts]
    command = ["dnsmasq", "--keep-in-foreground", "--no-resolv", "--no-hosts", "--conf-file=/dev/null", "--user=root"]
    command += [f"--pid-file={folder}/dnsmasq.pid", "--listen-address=127.0.0.1", f"--address=/{domain}/127.0.0.1"] + records
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    # It answers as soon as the port is bound.
    while process.poll() is None:
        with open("/proc/net/udp") as sockets:
            if ":0035 " in sockets.read():
                break
    return process


def main():
    domain, relayd = sys.argv[1], sys.argv[2]
    if os.environ.get("DEVICE_RELAY_OWN_NETWORK") is None:
        os.environ["DEVICE_RELAY_OWN_NETWORK"] = "1"
        os.environ["PATH"] += ":/usr/sbin:/sbin"
        os.execvp("unshare", ["unshare", "--net", "--mount", sys.executable] + sys.argv)
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    with tempfile.TemporaryDirectory() as folder:
        pem = certificate(folder, domain)
        with open(pem) as file:
            mount(folder, "/etc/ssl/certs/ca-certificates.crt", file.read())
        mount(folder, "/etc/hosts", f"127.0.0.1 localhost {domain}\n")
        mount(folder, "/etc/resolv.conf", "nameserver 127.0.0.1\noptions timeout:2 attempts:1\n")
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(pem)
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 443), Handler)
        server.socket = context.wrap_socket(server.socket, server_side=True)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        names = name_server(folder, domain, [])
        try:
            for line in sys.stdin:
                request = json.loads(line)
                answer = {}
                if "run" in request:
                    ended = subprocess.run([relayd] + request["run"], capture_output=True, text=True)
                    answer = {"status": ended.returncode, "output": ended.stdout, "error": ended.stderr}
                else:
                    files.clear()
                    files.update(request.get("files", {}))
                    names.kill()
                    names.wait()
                    names = name_server(folder, domain, request.get("texts", []))
                print(json.dumps(answer), flush=True)
        finally:
            names.kill()


main()
