# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The Device Relay project authors
"""The compared servers, each with its own directory and pinned to the first core, and their clients, pinned to the second."""

import argparse
import contextlib
import http.client
import http.server
import json
import os
import pathlib
import random
import re
import resource
import shutil
import signal
import socket
import ssl
import subprocess
import tempfile
import threading
import time
import urllib.parse

SERVER_CORE = "0"
CLIENT_CORE = "1"
OPEN_FILES = 20_000
# The maximum number of measurements of one relay.
MEASUREMENTS = 300
TICKS = os.sysconf("SC_CLK_TCK")


class Failed(Exception):
    pass


def free_port():
    """A free port whose successor is free too, below the range of outgoing connections."""
    while True:
        port = random.randrange(10_000, 32_000)
        try:
            for number in (port, port + 1):
                with socket.socket() as probe:
                    probe.bind(("127.0.0.1", number))
            return port
        except OSError:
            continue


def start(command, core, **options):
    def prepare():
        resource.setrlimit(resource.RLIMIT_NOFILE, (OPEN_FILES, OPEN_FILES))

    pinned = ["taskset", "-c", core] if core else []
    return subprocess.Popen(pinned + [str(word) for word in command], preexec_fn=prepare, text=True, **options)


def finish(process, name, text=None):
    try:
        return process.communicate(text, timeout=120)[0]
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        raise Failed(f"{name} did not end within two minutes") from None


def cpu_seconds(pid):
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def resident_kib(pid):
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1])
    raise Failed(f"process {pid} is gone")


def options(name, text, add):
    """The options of a benchmark: its own, and those of all."""
    arguments = argparse.ArgumentParser(prog=f"scripts/{name}", description=text)
    arguments.add_argument("--products", type=pathlib.Path, help=argparse.SUPPRESS)
    arguments.add_argument("--check", action="store_true", help=argparse.SUPPRESS)
    add(arguments.add_argument)
    arguments.add_argument("--json", type=pathlib.Path, help="also writes the result to this file")
    return arguments.parse_args()


def first_link(products, relay):
    """The link for the first device of a new account."""
    relay.run("account", "add", "bench")
    text = subprocess.check_output(
        [products / "relayd", "invite", "bench", "--data-directory", relay.directory / "data"], text=True
    )
    return re.search(r"https?://\S+#relay=[^\s']+", text)[0] + "\n"


class Server:
    """A process with a port and a temporary directory."""

    core = SERVER_CORE
    # The time limit of the start, in seconds.
    patience = 10

    def __init__(self):
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="bench-peers-"))
        self.port = free_port()
        self.process = None

    def __enter__(self):
        try:
            self.launch()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        self.kill()
        shutil.rmtree(self.directory, ignore_errors=True)

    def launch(self):
        log = open(self.directory / "log", "a")
        self.process = start(self.command(), self.core, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        for _ in range(50 * self.patience):
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port)):
                return
            if self.process.poll() is not None:
                break
            time.sleep(0.02)
        raise Failed(f"{self.command()[0]} did not start: {(self.directory / 'log').read_text()[-2000:]}")

    def kill(self):
        if self.process and self.process.poll() is None:
            self.process.kill()
        if self.process:
            self.process.wait()

    @property
    def pid(self):
        return self.process.pid


def certificate(directory):
    """A certificate for this machine, and its key."""
    files = (directory / "certificate.pem", directory / "key.pem")
    command = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=localhost".split()
    subprocess.run(command + ["-out", files[0], "-keyout", files[1]], check=True, stderr=subprocess.DEVNULL)
    return files


class NATS(Server):
    protocol = "nats"

    def __init__(self, tls=False):
        super().__init__()
        self.tls = certificate(self.directory) if tls else None

    def command(self):
        flags = ["--tls", "--tlscert", self.tls[0], "--tlskey", self.tls[1]] if self.tls else []
        return ["nats-server", "-a", "127.0.0.1", "-p", self.port, *flags]


class Mosquitto(Server):
    protocol = "mqtt"

    def __init__(self, tls=False):
        super().__init__()
        # Without set_tcp_nodelay, mosquitto delays small messages.
        lines = [f"listener {self.port} 127.0.0.1", "allow_anonymous true", "set_tcp_nodelay true", "max_queued_messages 0", "user root"]
        if tls:
            chain, key = certificate(self.directory)
            lines += [f"certfile {chain}", f"keyfile {key}"]
        (self.directory / "configuration").write_text("\n".join(lines) + "\n")

    def command(self):
        return ["mosquitto", "-c", self.directory / "configuration"]


class Splice(Server):
    """Only the system calls of a relay."""

    protocol = "splice"

    def __init__(self, products):
        super().__init__()
        self.products = products

    def command(self):
        return [self.products / "splice", self.port]


class Postgres(Server):
    """A PostgreSQL server on a Unix socket. Its processes run beside the clients, not on the core of the relay."""

    core = CLIENT_CORE

    def __init__(self):
        super().__init__()
        programs = sorted(pathlib.Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: int(path.parent.name))
        if not programs:
            raise Failed("PostgreSQL is not installed")
        self.programs = programs[-1]
        shutil.chown(self.directory, "postgres")
        self.run("initdb", "--auth=trust", "--username=relay", "--locale=C.UTF-8", "--encoding=UTF8", self.directory / "data")

    def command(self, program="postgres", *words):
        # It does not run as root.
        words = words or ("-D", self.directory / "data", "-k", self.directory, "-c", "listen_addresses=", "-c", "max_connections=200")
        return ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups", self.programs / program, *words]

    def run(self, program, *words):
        done = subprocess.run([str(word) for word in self.command(program, *words)], capture_output=True, text=True)
        if done.returncode != 0:
            raise Failed(done.stderr)

    def launch(self):
        log = open(self.directory / "log", "a")
        self.process = start(self.command(), self.core, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        for _ in range(50 * self.patience):
            with contextlib.suppress(Failed):
                return self.run("pg_isready", "-q", "-h", self.directory)
            time.sleep(0.02)
        raise Failed(f"PostgreSQL did not start: {(self.directory / 'log').read_text()[-2000:]}")

    def kill(self):
        # At a kill, its processes would remain.
        if self.process and self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
        if self.process:
            self.process.wait()

    def uri(self, name):
        """Of a database that is created."""
        self.run("createdb", "-h", self.directory, "-U", "relay", name)
        return f"postgres:///{name}?host={self.directory}&user=relay"


class Relay(Server):
    protocol = "tunnel"

    def __init__(self, products, tls=False, flags=(), store=None, first=None):
        """With a store, a node of a relay on PostgreSQL: the first one, or one beside it."""
        super().__init__()
        self.store, self.metrics = store, free_port()
        if first:
            (self.directory / "data").mkdir(mode=0o700)
            for name in ("relay.key", "issuer.key"):
                shutil.copy2(first.directory / "data" / name, self.directory / "data" / name)
        self.products = products
        self.tls = tls
        self.flags = flags
        self.url = f"{'https' if tls else 'http'}://127.0.0.1:{self.port}"
        self.people = self.directory / "people.json"
        self.id = None
        self.next_person = 0

    def command(self):
        # Raises the limits that protect a relay from its users.
        limits = [
            "commandsPerSecond=1000000", "publishesPerSecond=1000", "watchesPerSecond=1000", "tunnelOpensPerSecond=100000",
            "sessionsPerEndpoint=1000", "tunnelsPerPair=1000", "tunnelsPerNewcomer=1000", "tunnelsOfNewcomers=1000",
            "mailboxCommandsPerSender=1000", "mailboxBytesPerSender=67108864",
        ]
        return [
            self.products / "relayd", "serve", "--data-directory", self.directory / "data", "--log-level", "warning",
            # On a loopback address the relay would use plain HTTP.
            "--listen", f"{'0.0.0.0' if self.tls else '127.0.0.1'}:{self.port}", "--url", self.url,
            "--metrics-listen", f"127.0.0.1:{self.metrics}", *(["--store", self.store, "--node-url", self.url] if self.store else []),
            "--tunnel-listen", f"127.0.0.1:{self.port + 1}", "--unauthenticated-per-address", "100000",
            *[word for limit in limits for word in ("--limit", limit)], *self.flags,
        ]

    def launch(self):
        super().launch()
        for _ in range(50 * self.patience):
            text = (self.directory / "log").read_text()
            if " ready at " in text:
                self.id = text[text.index("relayd ") :].split()[1]
                return
            time.sleep(0.02)
        raise Failed("relayd is not ready")

    def wait_until_ready(self):
        while True:
            with contextlib.suppress(OSError, http.client.HTTPException):
                connection = http.client.HTTPConnection("127.0.0.1", self.port)
                connection.request("GET", "/readyz")
                if connection.getresponse().status == 200:
                    return
            time.sleep(0.01)

    def run(self, *words):
        """Runs a command of the relay beside it."""
        command = [self.products / "relayd", *words, "--data-directory", self.directory / "data"]
        done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
        if done.returncode != 0:
            raise Failed(done.stderr)
        return done.stdout

    def account(self, name):
        """Makes an account.
        Returns the code of a link to it."""
        self.run("account", "add", name)
        return self.run("invite", name).strip().rpartition("invite=")[2]

    def commits(self):
        connection = http.client.HTTPConnection("127.0.0.1", self.metrics)
        connection.request("GET", "/metrics")
        text = connection.getresponse().read().decode()
        return float(next(line for line in text.splitlines() if line.startswith("relay_store_commit_seconds_count")).split()[1])

    def invite(self, count):
        """Creates accounts for a crowd and for the measurements, with a token for each. The requests use many addresses, because the rate
        per address is limited."""
        if self.store:
            # The issuer's database is elsewhere, so the relay makes them, one by one.
            self.next_person, codes = 0, [self.account(f"Person {self.port} {number}") for number in range(count)]
        else:
            self.next_person, count = count, count + MEASUREMENTS
            command = ["accounts", "--data-directory", self.directory / "data", "--relay", self.url, "--relay-id", self.id, "--count", count]
            codes = self.run_benchmark(*command, target=False).split()
        people = []
        for number, code in enumerate(codes):
            form = {
                "grant_type": "urn:ietf:params:oauth:grant-type:pre-authorized_code",
                "client_id": "org.example.benchmarks",
                "pre-authorized_code": code,
            }
            source = (f"127.0.{1 + number // 2_500}.{1 + number // 10 % 250}", 0)
            if self.tls:
                context = ssl._create_unverified_context()
                connection = http.client.HTTPSConnection("127.0.0.1", self.port, context=context, source_address=source)
            else:
                connection = http.client.HTTPConnection("127.0.0.1", self.port, source_address=source)
            headers = {"Content-Type": "application/x-www-form-urlencoded"}
            connection.request("POST", "/auth/token", urllib.parse.urlencode(form), headers)
            answer = connection.getresponse()
            body = answer.read()
            if answer.status != 200:
                raise Failed(f"no token: {answer.status} {body[:200]}")
            people.append({"token": json.loads(body)["access_token"]})
            connection.close()
        self.people.write_text(json.dumps(people))

    def _benchmark(self, words, target):
        if target:
            target = ["--relay", self.url, "--relay-id", self.id, "--people", self.people, "--person", self.next_person]
            # An account has a limited number of endpoints, and those of earlier measurements remain.
            self.next_person += words[0] not in ("crowd", "sleepers")
        return [self.products / "RelayBenchmarks", words[0], *(target or []), *words[1:]]

    def run_benchmark(self, *words, target=True, core=CLIENT_CORE):
        process = start(self._benchmark(words, target), core, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL)
        output = finish(process, words[0])
        if process.returncode != 0:
            raise Failed(f"{words[0]} ended with {process.returncode}")
        return output

    def measure(self, *words, core=CLIENT_CORE):
        """Runs a measurement to its end."""
        return json.loads(self.run_benchmark(*words, core=core))

    @contextlib.contextmanager
    def benchmark(self, *words):
        """Runs a measurement in the background until it is stopped."""
        process = start(self._benchmark(words, True), CLIENT_CORE, stdout=subprocess.PIPE, stdin=subprocess.PIPE)
        try:
            yield process
        finally:
            process.kill()
            process.wait()


class PushService:
    """A push service that accepts every push, with the requests of Firebase Cloud Messaging."""

    def __init__(self):
        service = self
        self.count = 0

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                self.rfile.read(int(self.headers["Content-Length"]))
                answer = {"access_token": "access", "expires_in": 3600, "token_type": "Bearer"}
                if self.path != "/token":
                    service.count += 1
                    answer = {"name": "projects/benchmark/messages/1"}
                body = json.dumps(answer).encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True

    def __enter__(self):
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()

    @property
    def flags(self):
        """Those of a relay that uses it."""
        origin = f"http://127.0.0.1:{self.server.server_port}"
        return ["--push-address", f"fcm={origin}", "--push-address", f"fcmToken={origin}/token"]

    def add_credential(self, relay):
        key = subprocess.run("openssl genpkey -algorithm RSA".split(), check=True, capture_output=True, text=True).stdout
        account = {"project_id": "benchmark", "client_email": "relay@benchmark.iam.gserviceaccount.com", "private_key": key}
        file = relay.directory / "service-account.json"
        file.write_text(json.dumps(account))
        relay.run("app", "credential", "fcm", "default", "--service-account", file)


def check_microseconds(products):
    """What a core needs just now to check a P-256 signature."""
    return json.loads(subprocess.check_output(["taskset", "-c", CLIENT_CORE, products / "RelayBenchmarks", "speed"]))["checkMicroseconds"]


def public_key_work(products, seconds):
    """How many launches all cores could do if a launch were its public-key work and nothing else."""
    words = ["public-key-work", "--cores", str(os.cpu_count()), "--seconds", str(seconds)]
    return json.loads(subprocess.check_output([products / "RelayBenchmarks", *words]))


def load(server, products, **options):
    """The C load, against a server: pairs that ask and answer."""
    words = [products / "load", server.protocol, server.port + (server.protocol == "tunnel"), "--server", server.pid]
    words += [word for name, value in options.items() for word in (f"--{name}", value)]

    def run(tunnels=None):
        process = start(words, CLIENT_CORE, stdout=subprocess.PIPE, stdin=subprocess.PIPE)
        output = finish(process, "load", tunnels)
        if process.returncode != 0:
            raise Failed(f"load {server.protocol} ended with {process.returncode}")
        return json.loads(output)

    if server.protocol != "tunnel":
        return run()
    count = options.get("pairs", 1)
    with server.benchmark("tunnels", "--count", count) as opener:
        return run("".join(opener.stdout.readline() for _ in range(count)))
