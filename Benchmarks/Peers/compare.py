# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The Device Relay project authors
"""Compares the relay and the SDK with NATS, mosquitto and openssl: servers on one core, clients on another, alternating, medians of rounds.
A round is repeated if other processes used the machine."""

import argparse
import collections
import contextlib
import json
import os
import pathlib
import socket
import ssl
import statistics
import subprocess
import sys
import time

from servers import (
    CLIENT_CORE, SERVER_CORE, TICKS, Failed, Mosquitto, NATS, Postgres, PushService, Relay, Splice, certificate, check_microseconds, cpu_seconds,
    free_port, load, public_key_work, resident_kib, start,
)

# The time of one P-256 verification on the machine for which the targets were set. Targets that are times or rates apply to that machine.
REFERENCE_MICROSECONDS = 34
GROUPS = ["tunnel", "sdk", "launch", "idle", "presence", "storm", "asleep", "growth", "bulk", "store"]


def progress(text):
    print(f"   {text}", file=sys.stderr, flush=True)


def busy_seconds():
    """The CPU time of all processes, with the time stolen by the hypervisor."""
    fields = [int(field) for field in pathlib.Path("/proc/stat").read_text().split("\n")[0].split()[1:]]
    user, nice, system, _, _, interrupt, soft, steal = fields[:8]
    return (user + nice + system + interrupt + soft + steal) / TICKS


def own_seconds(others):
    """The CPU time of this process, of its finished children, and of the given running processes."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system + sum(cpu_seconds(other.pid) for other in others)


class Bench:
    def __init__(self, products, rounds, quick):
        self.products, self.rounds, self.quick = products, rounds, quick
        self.figures = {}
        self.rows = []
        # For the current group: the verification time beside each measurement, and whether other processes always use the machine.
        self.checks, self.is_busy = [], False

    # MARK: Measurement

    def undisturbed(self, what, measure, servers, attempts, rest=0):
        """Repeats a measurement while other processes use more than a tenth of a core, and returns the least disturbed result. Before each
        attempt it waits `rest` seconds."""
        results = []
        for attempt in range(attempts):
            time.sleep(rest)
            check = check_microseconds(self.products)
            begin, busy, own = time.monotonic(), busy_seconds(), own_seconds(servers)
            result = measure()
            others = (busy_seconds() - busy) - (own_seconds(servers) - own)
            share = others / (time.monotonic() - begin)
            results.append((share, check, result))
            if share < 0.1:
                break
            progress(f"{what}: others took {share:.0%} of a core{'; again' if attempt < attempts - 1 else ''}")
        share, check, result = min(results, key=lambda result: result[0])
        self.checks.append(check)
        if share >= 0.1:
            progress(f"{what}: kept although others took {share:.0%}")
        self.is_busy = self.is_busy or share >= 0.1
        return result

    def in_turns(self, what, measures, servers=(), turns=1):
        """The median result of each measurement. Measurements alternate, and short ones run several times in a round. A disturbed one is
        repeated at most three times. If that fails once, alternating measurements in the rest of the group are not repeated, because the
        disturbance affects all of them equally."""
        rounds = {name: [] for name in measures}
        count = self.rounds * turns
        for number in range(count):
            attempts = 1 if self.quick or self.is_busy and len(measures) > 1 else 4
            # Rotates the order, so that each one is first equally often.
            first = number % len(measures)
            for name, measure in [*measures.items()][first:] + [*measures.items()][:first]:
                progress(f"{what}: {name}, round {number + 1} of {count}")
                rounds[name].append(self.undisturbed(f"{what}, {name}", measure, servers, attempts))
        return {
            name: {key: statistics.median(result[key] for result in results) for key in results[0]} for name, results in rounds.items()
        }

    def row(self, what, ours, peers, unit, target="", key=None, value=None, met=None):
        """Adds a row to the table, and with a key a figure to the JSON file."""
        first = next(iter(peers.values()), None)
        if value is None:
            value = ours / first if first else ours
        self.rows.append((what, ours, peers, unit, target, "", met))
        if key:
            self.figures[key] = {"value": value, "ours": ours, "peer": first}

    def absolute(self, what, ours, unit, bound=None, key=None, floor=None):
        """Adds a row for a figure without a peer: measured here, and scaled to the speed of the machine for which its bound was set. The
        floor is the best possible result here, with the name of its measurement."""
        factor = statistics.median(self.checks) / REFERENCE_MICROSECONDS
        is_rate = unit == "/s"
        scaled = ours * factor if is_rate else ours / factor

        def keeps(value):
            return None if bound is None else value >= bound if is_rate else value <= bound

        target = "" if bound is None else f"{'≥' if is_rate else '≤'} {bound:,}"
        at_reference = number(scaled) + {None: "", True: ", yes", False: ", NO"}[keeps(scaled)]
        floor = floor or {}
        self.rows.append((what, ours, floor, unit, target, at_reference, keeps(ours)))
        if key:
            self.figures[key] = {"value": ours, "ours": ours, "peer": next(iter(floor.values()), None)}

    @property
    def seconds(self):
        return 0.3 if self.quick else 3

    @contextlib.contextmanager
    def relay(self, people=1, tls=False):
        with Relay(self.products, tls) as relay:
            relay.invite(people)
            yield relay

    # MARK: Groups

    def tunnel(self):
        with self.relay() as relay, NATS() as nats, Mosquitto() as mosquitto, Splice(self.products) as splice:
            # The last one shows the lower bound.
            servers = {"relayd": relay, "nats-server": nats, "mosquitto": mosquitto, "system calls alone": splice}

            def compare(what, turns=1, **options):
                measures = {
                    name: lambda server=server: load(server, self.products, seconds=self.seconds / min(turns, 3), **options)
                    for name, server in servers.items()
                }
                results = self.in_turns(what, measures, servers.values(), turns)
                return results.pop("relayd"), results

            def row(what, field, unit, options, target="", key=None, met=None):
                ours, peers = options
                values = {name: peer[field] for name, peer in peers.items()}
                self.row(what, ours[field], values, unit, target, key, met=met and met(ours[field], values))

            # The slowest percentile is never steady, so the time is divided into many short rounds.
            turns = 1 if self.quick else 5
            one = compare("128 B, 1 in flight", turns, size=128)
            row("tunnel, 128 B, round trip p50", "p50Microseconds", "µs", one, "≤ NATS", "tunnel.rttRatioNATS", lambda a, b: a <= b["nats-server"])
            row("tunnel, 128 B, round trip p99", "p99Microseconds", "µs", one, "≤ NATS", None, lambda a, b: a <= b["nats-server"])
            cells = {(1, 256): "tunnel.cpuRatioNATS", (64, 4): None, (500, 1): None}
            for (pairs, inflight), key in cells.items():
                name = f"{pairs} pair{'s' if pairs > 1 else ''} × {inflight} in flight"
                many = compare(name, size=128, pairs=pairs, inflight=inflight)
                row(f"tunnel, 128 B, {name}", "messagesPerSecond", "/s", many)
                row("— server CPU", "cpuSecondsPerMillionMessages", "s per million", many, "≤ 0.5 NATS", key, lambda a, b: a <= b["nats-server"] / 2)
            bulk = compare("64 KiB, 16 in flight", turns, size=65536, reply=1, inflight=16)
            row(
                "tunnel, 64 KiB", "megabytesPerSecond", "MB/s", bulk, "≥ 4 NATS, 1.5 mosquitto", "tunnel.bulkRatioNATS",
                lambda a, b: a >= 4 * b["nats-server"] and a >= 1.5 * b["mosquitto"],
            )
            row("— server CPU", "cpuSecondsPerMillionMessages", "s per million", bulk)

    def sdk(self):
        with self.relay() as relay:
            seconds = ["--seconds", self.seconds]
            one = self.in_turns(
                "SDK call and bare tunnel, 1 in flight",
                {
                    "sdk": lambda: relay.measure("calls", *seconds),
                    "tunnel": lambda: load(relay, self.products, seconds=self.seconds, size=128),
                },
                [relay],
            )
            ours, bare = one["sdk"]["p50Microseconds"], one["tunnel"]["p50Microseconds"]
            self.row("SDK call, 128 B, round trip p50", ours, {"tunnel": bare}, "µs", "≤ 2 tunnel", "sdk.rttRatioTunnel", met=ours <= 2 * bare)
            calls = {"sdk": lambda: relay.measure("calls", "--inflight", 256, *seconds)}
            many = self.in_turns("SDK calls, 256 in flight", calls, [relay], turns=1 if self.quick else 3)
            rate = many["sdk"]["callsPerSecond"]
            self.absolute("SDK calls, 128 B, 256 in flight", rate, "/s", 100_000, "sdk.callsPerSecond")

    def launch(self):
        with self.relay() as relay:
            seconds = ["--seconds", self.seconds]
            one = self.in_turns("launches, 1 in flight", {"sdk": lambda: relay.measure("launches", *seconds)}, [relay])["sdk"]
            self.absolute("launch, p50", one["p50Milliseconds"], "ms", 5, "launch.p50Milliseconds")
            self.absolute("launch, p99", one["p99Milliseconds"], "ms")
            spread = ["--senders", 4, "--targets", 4, "--inflight", 64]
            # The devices use both cores: a launch is mostly their work, and needs little of the relay's time.
            many = self.in_turns("launches, 64 in flight", {"sdk": lambda: relay.measure("launches", *spread, *seconds, core=None)}, [relay])
            keys = self.in_turns("their public-key work", {"all cores": lambda: public_key_work(self.products, self.seconds)})
            floor = {"public-key work alone": keys["all cores"]["perSecond"]}
            self.absolute("launches, 64 in flight", many["sdk"]["perSecond"], "/s", 1_500, "launch.perSecond", floor)
            count = ["--count", 20 if self.quick else 150]
            part = {"relay": lambda: relay.measure("relay-launches", *count)}
            alone = self.in_turns("the relay's part", part, [relay], turns=1 if self.quick else 3)
            rate = alone["relay"]["perSecond"]
            self.absolute("launches sealed beforehand, 64 in flight", rate, "/s", 5_000, "launch.relayPerSecond")

    def store(self):
        """Launches that were sealed beforehand, on SQLite, on PostgreSQL, and on PostgreSQL beside a second node with the same load."""
        count = ["--count", 20 if self.quick else 150]
        # Each measurement has an account of its own, also a repeated one.
        people = 4 * self.rounds

        def cost(relay):
            before = relay.commits()
            result = relay.measure("relay-launches", "--server", relay.pid, *count)
            launches = result["launches"]
            commits = (relay.commits() - before) / launches
            return {"cpu": result["serverSeconds"] / launches * 1e6, "commits": commits, "perSecond": result["perSecond"]}

        def beside(first, second):
            with second.benchmark("relay-launches", "--count", 100_000):
                return cost(first)

        with Postgres() as database, self.relay() as sqlite, Relay(self.products, store=database.uri("one")) as one:
            one.invite(people)
            with Relay(self.products, store=database.uri("two")) as first, Relay(self.products, store=first.store, first=first) as second:
                first.invite(people)
                second.invite(people)
                measures = {"SQLite": lambda: cost(sqlite), "PostgreSQL": lambda: cost(one), "two nodes": lambda: beside(first, second)}
                results = self.in_turns("launches by store", measures, [sqlite, one, first, second, database])
        ours, peer, two = results["PostgreSQL"], results["SQLite"], results["two nodes"]
        ratio = ours["cpu"] / peer["cpu"]
        self.row("relay CPU per launch, PostgreSQL", ours["cpu"], {"SQLite": peer["cpu"]}, "µs", "≤ 1.5", "store.cpuRatio", ratio, ratio <= 1.5)
        ratio = two["cpu"] / ours["cpu"]
        self.row("relay CPU per launch, of two nodes", two["cpu"], {"one node": ours["cpu"]}, "µs", "within 10 %", met=0.9 <= ratio <= 1.1)
        self.row("commits per launch, PostgreSQL", ours["commits"], {"SQLite": peer["commits"]}, "")
        self.row("launches sealed beforehand, PostgreSQL", ours["perSecond"], {"SQLite": peer["perSecond"]}, "/s")

    @property
    def crowd_size(self):
        return 200 if self.quick else 10_000

    @contextlib.contextmanager
    def crowd(self, relay, count=None):
        count = count or self.crowd_size
        with relay.benchmark("crowd", "--count", count) as crowd:
            up = json.loads(crowd.stdout.readline())
            progress(f"{count} endpoints are up after {up['seconds']:.1f} s {up['errors'] or ''}")
            yield crowd

    def idle(self):
        for tls, key, target in ((False, "idle.kibPerEndpoint", 10), (True, "idle.kibPerEndpointTLS", 28)):
            kind = "TLS" if tls else "plain"
            with self.relay(self.crowd_size // 10, tls) as relay:
                before = resident_kib(relay.pid)
                with self.crowd(relay):
                    time.sleep(2)
                    ours = (resident_kib(relay.pid) - before) / self.crowd_size
            peers = {}
            for server in (NATS(tls), Mosquitto(tls)):
                with server:
                    progress(f"idle clients of {server.protocol}, {kind}")
                    peers[server.command()[0]] = self.idle_clients(server, tls)
            self.row(f"memory per idle endpoint, {kind}", ours, peers, "KiB", f"≤ {target} KiB", key, value=ours, met=ours <= target)

    def idle_clients(self, server, tls):
        greetings = {
            "nats": b'CONNECT {"verbose":false}\r\nSUB inbox.%d 1\r\nPING\r\n',
            "mqtt": None,
        }
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        # The cost per connection is constant, and 10,000 TLS connections one by one take minutes.
        count = min(self.crowd_size, 2_000)
        before, clients = resident_kib(server.pid), []
        for number in range(count):
            client = socket.create_connection(("127.0.0.1", server.port))
            if server.protocol == "nats":
                # The server sends first, and TLS follows.
                while b"\n" not in client.recv(4096):
                    pass
            if tls:
                client = context.wrap_socket(client)
            if server.protocol == "nats":
                client.sendall(greetings["nats"] % number)
                while b"PONG" not in client.recv(4096):
                    pass
            else:
                name = b"c%d" % number
                client.sendall(bytes([0x10, 12 + len(name)]) + b"\0\4MQTT\4\2\0\0" + bytes([0, len(name)]) + name)
                if client.recv(4)[3:] != b"\0":
                    raise Failed("mosquitto refused a client")
                topic = b"inbox/%d" % number
                client.sendall(bytes([0x82, 5 + len(topic)]) + b"\0\1" + bytes([0, len(topic)]) + topic + b"\0")
                client.recv(5)
            clients.append(client)
        time.sleep(2)
        took = (resident_kib(server.pid) - before) / count
        for client in clients:
            client.close()
        return took

    def presence(self):
        with self.relay() as relay:
            rounds = ["--rounds", 3 if self.quick else 30]
            result = self.in_turns("presence", {"sdk": lambda: relay.measure("discovery", *rounds)}, [relay])["sdk"]
            for name, key in (("added", "presence.addedMilliseconds"), ("away", "presence.awayMilliseconds")):
                what = "publish to `added` at a watcher" if name == "added" else "kill -9 to true presence"
                self.absolute(f"{what}, p50", result[f"{name}P50Milliseconds"], "ms", 10, key)
                self.absolute("— p99", result[f"{name}P99Milliseconds"], "ms")

    def storm(self):
        with self.relay(self.crowd_size // 10) as relay, self.crowd(relay) as crowd:
            time.sleep(2)
            before = resident_kib(relay.pid)
            errors = collections.Counter()

            def storm():
                print("away", file=crowd.stdin, flush=True)
                time.sleep(0.1)
                relay.kill()
                time.sleep(2.5)
                relay.launch()
                ready = time.monotonic()
                print("there", file=crowd.stdin, flush=True)
                up = json.loads(crowd.stdout.readline())
                seconds = time.monotonic() - ready
                progress(f"all back after {seconds:.1f} s {up['ends']}, errors: {up['errors']}")
                # Includes the errors of measurements that are discarded.
                errors.update(up["errors"])
                return seconds

            # An endpoint does not count a connection as a success if it lasts less than half a minute.
            count, attempts, rest = (1, 1, 2) if self.quick else (self.rounds, 3, 32)
            seconds = [
                self.undisturbed(f"storm {number + 1} of {count}", storm, [relay, crowd], attempts, rest) for number in range(count)
            ]
            time.sleep(2)
            after = resident_kib(relay.pid)
        self.absolute(f"{self.crowd_size:,} endpoints come back", max(seconds), "s", 15, "storm.seconds")
        self.row("— refused or given up meanwhile", errors.total(), {}, "", "0", met=not errors)
        self.row("— memory after, against before", after / 1024, {"before": before / 1024}, "MiB", "as before", met=after <= 1.1 * before)

    def asleep(self):
        """A relay that starts while 10 commands wait for each of many sleeping endpoints, and these endpoints when they come back."""
        count, devices, commands = self.crowd_size, 40, 10
        with PushService() as push, Relay(self.products, flags=push.flags) as relay:
            relay.invite(-(-count // devices))
            push.add_credential(relay)

            def restart():
                relay.kill()
                begin = time.monotonic()
                relay.launch()
                relay.wait_until_ready()
                return time.monotonic() - begin

            restart()
            time.sleep(5)
            empty = resident_kib(relay.pid)
            with relay.benchmark("sleepers", "--count", count, "--devices", devices, "--commands", commands) as sleepers:
                filled = json.loads(sleepers.stdout.readline())
                progress(f"{filled['commands']:,.0f} commands wait after {filled['seconds']:.0f} s; {push.count:,} wakes")
                starts = [restart() for _ in range(self.rounds)]
                # From 75 s on the relay searches for wakes that were lost with the process before.
                time.sleep(5 if self.quick else 90)
                memory, before = resident_kib(relay.pid), cpu_seconds(relay.pid)
                begin, window = time.monotonic(), 2 if self.quick else 60
                time.sleep(window)
                idle = (cpu_seconds(relay.pid) - before) / (time.monotonic() - begin)

                def wake():
                    print("wake", file=sleepers.stdin, flush=True)
                    return json.loads(sleepers.stdout.readline())

                back = self.undisturbed("sleepers come back", wake, [relay, sleepers], 1)
                progress(f"{back['commands']:,.0f} commands were handled after {back['seconds']:.1f} s")
        waiting = f"{count * commands:,} commands wait for {count:,}"
        self.absolute(f"start while {waiting}", max(starts), "s", 2, "asleep.startSeconds")
        self.absolute("— processor time then, of a second", idle, "s", 0.02, "asleep.idleShare")
        self.row("— memory, against an empty relay", memory / 1024, {"empty": empty / 1024}, "MiB", key="asleep.memory")
        self.absolute(f"{count:,} sleepers come back and handle them", back["seconds"], "s", key="asleep.drainSeconds")
        missing = count * commands - back["commands"]
        self.row("— errors and missing commands", back["errors"] + missing, {}, "", "0", met=back["errors"] + missing == 0)

    def beside(self, relay, measure):
        """Measures the idle cost of the relay, so that a measurement can subtract it. The crowd's pings come in waves, so it is measured
        just before and just after."""

        def share():
            begin, before = time.monotonic(), cpu_seconds(relay.pid)
            time.sleep(1 if self.quick else 2)
            return (cpu_seconds(relay.pid) - before) / (time.monotonic() - begin)

        before = share()
        return measure(lambda: (before + share()) / 2)

    def beside_crowds(self, sizes):
        """The cost of a message and of a launch, by the size of the crowd."""
        with contextlib.ExitStack() as stack:
            relays, crowds = {}, []
            for size in sizes:
                relays[size] = stack.enter_context(self.relay(max(1, size // 10)))
                crowds.append(stack.enter_context(self.crowd(relays[size], size)))
            time.sleep(1 if self.quick else 5)

            def message(relay, rest):
                # With few pairs and many messages in flight, the cost of a message depends mostly on how many of them one read returns.
                result = load(relay, self.products, seconds=self.seconds / 3, size=128, pairs=64, inflight=4)
                return {"cost": result["cpuSecondsPerMillionMessages"] - rest() * 1e6 / result["messagesPerSecond"]}

            def launch(relay, rest):
                result = relay.measure("relay-launches", "--server", relay.pid, "--count", 20 if self.quick else 100)
                return {"cost": (result["serverSeconds"] - rest() * result["seconds"]) / result["launches"] * 1e6}

            def costs(measure):
                measures = {size: lambda relay=relay: self.beside(relay, lambda rest: measure(relay, rest)) for size, relay in relays.items()}
                results = self.in_turns(f"{measure.__name__} beside others", measures, [*relays.values(), *crowds])
                return {size: result["cost"] for size, result in results.items()}

            return {"message": costs(message), "launch": costs(launch)}

    def growth(self):
        """Medians over several sets of relays, one for each size of the crowd: two processes of one program differ constantly by up to a
        tenth. The relays of a set alternate, because the speed of a machine drifts."""
        sizes = [10, 100, 200] if self.quick else [10, 1_000, 10_000]
        sets = [self.beside_crowds(sizes) for _ in range(1 if self.quick else 5)]
        costs = {
            what: {size: statistics.median(each[what][size] for each in sets) for size in sizes} for what in ("message", "launch")
        }
        ratios = {}
        for what, unit in (("message", "s per million"), ("launch", "µs")):
            *few, last = costs[what].values()
            ratios[what] = last / few[0]
            met = all(0.9 <= cost / few[0] <= 1.1 for cost in costs[what].values())
            peers = {f"{size:,}": cost for size, cost in zip(sizes, few)}
            self.row(f"relay CPU per {what}, {sizes[-1]:,} others", last, peers, unit, "within 10 %", met=met)
        worst = max(ratios, key=lambda what: abs(ratios[what] - 1))
        self.figures["growth.cpuRatio"] = {"value": ratios[worst], "ours": costs[worst][sizes[-1]], "peer": costs[worst][sizes[0]]}

    def bulk(self):
        total = 64 if self.quick else 1_024
        with self.relay() as relay:
            chain, key = certificate(relay.directory)
            result = self.in_turns(
                f"{total} MiB",
                {"sdk": lambda: relay.measure("bulk", "--total", total), "openssl": lambda: self.openssl(chain, key, total)},
                [relay],
            )
        ours, peer = result["sdk"]["megabytesPerSecond"], result["openssl"]["megabytesPerSecond"]
        self.row("app service, 256 KiB answers", ours, {"openssl pipe": peer}, "MB/s", "≥ 0.5", "bulk.ratioTLS", met=ours >= peer / 2)

    def openssl(self, chain, key, total):
        port = free_port()
        words = ["openssl", "s_server", "-accept", f"127.0.0.1:{port}", "-cert", chain, "-key", key, "-quiet", "-naccept", "1"]
        count = 0
        # The server ends with its standard input.
        server = start(words, SERVER_CORE, stdout=subprocess.PIPE, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL)
        time.sleep(0.5)
        source = start(["dd", "if=/dev/zero", "bs=256k", f"count={total * 4}"], CLIENT_CORE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        words = ["openssl", "s_client", "-connect", f"127.0.0.1:{port}", "-quiet"]
        begin = time.monotonic()
        client = start(words, CLIENT_CORE, stdin=source.stdout, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while count < total << 20 and (part := os.read(server.stdout.fileno(), 1 << 20)):
            count += len(part)
        took = time.monotonic() - begin
        for process in (client, source, server):
            process.kill()
            process.wait()
        if count < total << 20:
            raise Failed(f"openssl brought {count} bytes")
        return {"megabytesPerSecond": count / took / 1e6}


def number(value):
    if value >= 1000:
        return f"{value:,.0f}"
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def table(rows):
    yield "| what | ours | peers | unit | ratio | target | met | at the targets' speed |"
    yield "| --- | --- | --- | --- | --- | --- | --- | --- |"
    for what, ours, peers, unit, target, at_reference, met in rows:
        shown = ", ".join(f"{name} {number(peer)}" for name, peer in peers.items())
        ratio = ", ".join(number(ours / peer) for peer in peers.values() if peer)
        yield f"| {what} | {number(ours)} | {shown} | {unit} | {ratio} | {target} | {'' if met is None else 'yes' if met else 'NO'} | {at_reference} |"


def main():
    parser = argparse.ArgumentParser(prog="scripts/bench-peers")
    parser.add_argument("--products", type=pathlib.Path, help=argparse.SUPPRESS)
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE", help="write the figures there")
    parser.add_argument("--only", nargs="+", choices=GROUPS, default=GROUPS, metavar="GROUP", help=", ".join(GROUPS))
    parser.add_argument("--rounds", type=int, default=3, help="default: 3")
    parser.add_argument("--quick", action="store_true", help="show only that everything runs; the figures say nothing")
    parser.add_argument("--check", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if os.cpu_count() < 2:
        sys.exit("bench-peers: needs two cores, one for servers and one for clients")
    if options.check:
        return
    bench = Bench(options.products, 1 if options.quick else options.rounds, options.quick)
    failures = []
    checks = []
    for group in options.only:
        bench.checks, bench.is_busy = [], False
        try:
            getattr(bench, group)()
        except Failed as failure:
            failures.append(f"{group}: {failure}")
        checks += bench.checks
    if checks:
        slowest, fastest, median = max(checks), min(checks), statistics.median(checks)
        bench.row("a P-256 signature checked, by one core", median, {"the targets' machine": REFERENCE_MICROSECONDS}, "µs", key="machine.checkRatio")
        progress(f"a signature was checked in {fastest:.0f} to {slowest:.0f} µs, {REFERENCE_MICROSECONDS} µs where the targets were set")
    print("\n".join(table(bench.rows)))
    if options.json:
        options.json.write_text(json.dumps(bench.figures, indent=2) + "\n")
    if failures:
        sys.exit("bench-peers: " + "; ".join(failures))


main()
