# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The Device Relay project authors
"""Measures direct paths on one machine with network namespaces: launches and calls beside those through the relay, the first device that is
seen, 1 GiB beside openssl, and what an idle device costs in a network of 50 beside Avahi's daemon. Rounds alternate, and medians count."""

import argparse
import contextlib
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import time

from machines import Network, activity
from servers import CLIENT_CORE, Failed, Relay, certificate, start

GROUPS = ["launch", "call", "first", "bulk", "idle"]


def progress(text):
    print(f"   {text}", file=sys.stderr, flush=True)


class Bench:
    def __init__(self, options, directory, network):
        self.products, self.quick = options.products, options.quick
        self.rounds = 1 if options.quick else options.rounds
        self.directory, self.network = directory, network
        self.figures = {}

    def row(self, key, value, bound, text):
        met = value <= bound if bound else None
        self.figures[key] = {"value": value, "bound": bound}
        print(f"{text}: {value:.3g}" + (f" (bound {bound}{'' if met else ', NOT KEPT'})" if bound else ""), flush=True)

    def measured(self, *words, direct):
        """Runs a measurement at a relay of its own, which is killed before a direct one begins."""
        with Relay(self.products) as relay:
            relay.invite(1)
            command = relay._benchmark([words[0], *(["--direct"] if direct else []), *words[1:]], True)
            process = start(command, CLIENT_CORE, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            try:
                if direct:
                    if '"ready"' not in process.stdout.readline():
                        raise Failed(f"{words[0]} did not begin")
                    relay.kill()
                output = process.communicate("\n" if direct else None, timeout=120)[0]
                if process.returncode != 0:
                    raise Failed(f"{words[0]} ended with {process.returncode}")
                return json.loads(output)
            finally:
                process.kill()
                process.wait()

    def in_turns(self, what, measures):
        values = {name: [] for name in measures}
        for number in range(self.rounds):
            for name, measure in measures.items():
                progress(f"{what}: {name}, round {number + 1} of {self.rounds}")
                values[name].append(measure())
        return {name: statistics.median(all) for name, all in values.items()}

    def pair(self, key, words, figure, bound, text):
        ways = {
            "direct": lambda: self.measured(*words, direct=True)[figure],
            "relay": lambda: self.measured(*words, direct=False)[figure],
        }
        medians = self.in_turns(key, ways)
        unit = re.search("M(illi|icro)seconds", figure)[0].lower()
        print(f"{key}: direct {medians['direct']:.3f}, through the relay {medians['relay']:.3f} {unit}")
        self.row(key, medians["direct"] / medians["relay"], bound, text)

    # MARK: Groups

    def launch(self):
        seconds = 1 if self.quick else 4
        words = ["launches", "--seconds", seconds]
        self.pair("launch", words, "p50Milliseconds", 0.6, "launch until the verified receipt, p50, to that through the relay")

    def call(self):
        seconds = 1 if self.quick else 4
        words = ["calls", "--seconds", seconds]
        self.pair("call", words, "p50Microseconds", 0.9, "call, round trip p50, to that through the tunnel")

    def first(self):
        value = self.measured("first-device", "--rounds", 3 if self.quick else 20, direct=True)
        print(f"first: p99 {value['p99Milliseconds']:.0f} ms")
        self.row("first", value["p50Milliseconds"], 400, "start until the first device, p50, in ms")

    def join(self, relay, machines):
        """Joins machines to one account."""
        relay.run("account", "add", "bench")
        link = subprocess.check_output(
            [self.products / "relayd", "invite", "bench", "--data-directory", relay.directory / "data"], text=True
        )
        for number, machine in enumerate(machines):
            link = re.search(r"https?://\S+#relay=[^\s']+", link)[0]
            machine.run(self.products / "relay", "join", "--name", machine.name, "--yes", input=link + "\n")
            if number + 1 < len(machines):
                link = self.invite(machines[0])

    def invite(self, machine):
        while True:
            try:
                return machine.run(self.products / "relay", "invite")
            except Failed as failure:
                if "429" not in str(failure):
                    raise
                # The relay limits invitations.
                time.sleep(5)

    def agent(self, machine):
        agent = machine.start(self.products / "relay", "agent", stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
        for line in agent.stdout:
            if line.startswith("ready"):
                return agent
        raise Failed(f"the agent of {machine.name} did not start")

    def bulk(self):
        """Files are in memory, so that the network is measured and not the disk."""
        size = (64 if self.quick else 1024) << 20
        with contextlib.ExitStack() as stack:
            memory = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-nearby-", dir="/dev/shm")))
            sender, receiver = self.network.add("sender", memory), self.network.add("receiver", memory)
            relay = stack.enter_context(RelayAtTheSwitch(self.products))
            self.join(relay, [receiver, sender])
            self.agent(receiver)
            sender.run(self.products / "relay", "ping", "receiver", "--count", 1)
            relay.kill()
            file = memory / "content"
            with open(file, "wb") as output:
                for _ in range(size >> 20):
                    output.write(os.urandom(1 << 20))
            chain, key = certificate(memory)

            def ours():
                begin = time.monotonic()
                sender.run(self.products / "relay", "send", file, "receiver", "--json")
                seconds = time.monotonic() - begin
                self.check(file, receiver.directory / "Downloads" / "content")
                return seconds

            def peer(hashes=False):
                """With hashes it does what we do: both sides compute the SHA-256, in processes of their own."""
                target, sums = receiver.directory / "openssl", [memory / "sum-sent", memory / "sum-received"]
                target.touch()
                digest = "openssl dgst -sha256 -r"
                output = f"| tee {target} | {digest} > {sums[1]}" if hashes else f"> {target}"
                # The server ends with its standard input.
                server = receiver.start(
                    "sh", "-c", f"openssl s_server -accept 4433 -cert {chain} -key {key} -quiet -naccept 1 {output}",
                    stdin=subprocess.PIPE, stderr=subprocess.DEVNULL,
                )
                while not receiver.run("ss", "-tlnH", "sport", "=", ":4433").strip():
                    time.sleep(0.01)
                begin = time.monotonic()
                client = sender.start(
                    "sh", "-c", f"exec openssl s_client -connect {receiver.address}:4433 -quiet < {file}", stderr=subprocess.DEVNULL
                )
                hashing = sender.start("sh", "-c", f"{digest} < {file} > {sums[0]}" if hashes else ":")
                while target.stat().st_size < size:
                    if client.poll() is not None:
                        raise Failed("openssl has ended early")
                    time.sleep(0.001)
                arrived = time.monotonic()
                server.stdin.close()
                for process in (server, hashing):
                    process.wait(timeout=60)
                hashed = time.monotonic()
                client.kill()
                client.wait()
                self.check(file, target)
                if not hashes:
                    return arrived - begin
                if sums[0].read_text() != sums[1].read_text():
                    raise Failed("openssl has received another SHA-256")
                return hashed - begin

            ways = {"relay send": ours, "openssl": peer, "openssl with SHA-256": lambda: peer(hashes=True)}
            for key_name, megabits, bound in (("shaped", 1000, 1 / 0.95), ("unshaped", 0, 1 / 0.9)):
                sender.shape(megabits)
                medians = self.in_turns(f"bulk, {key_name}", ways)
                rates = {name: size / seconds / 1e6 for name, seconds in medians.items()}
                print(f"bulk, {key_name}: " + ", ".join(f"{name} {rate:.0f} MB/s" for name, rate in rates.items()))
                ours_to = {name: medians["relay send"] / seconds for name, seconds in medians.items()}
                self.row(f"bulk-{key_name}", ours_to["openssl"], round(bound, 3), f"{size >> 20} MiB, {key_name}, time to openssl's")
                self.row(f"bulk-{key_name}-sha256", ours_to["openssl with SHA-256"], None, "time to that of openssl with SHA-256")

    def check(self, sent, received):
        if subprocess.run(["cmp", "-s", sent, received]).returncode != 0:
            raise Failed(f"{received} is not what was sent")
        received.unlink()

    def idle(self):
        """One machine of 50 idles, with Avahi's daemon beside its agent. Another one looks for devices every second."""
        count, seconds = (5, 20) if self.quick else (50, 120)
        with contextlib.ExitStack() as stack:
            machines = [self.network.add(f"device{number}") for number in range(count)]
            relay = stack.enter_context(RelayAtTheSwitch(self.products))
            progress(f"idle: {count} devices join")
            self.join(relay, machines)
            agents = [self.agent(machine) for machine in machines]
            avahi = self.avahi(machines[0])
            looker = machines[-1]
            for key, looks in (("quiet", False), ("looking", True)):
                # Announcements come to an end.
                time.sleep(5 if self.quick else 30)
                progress(f"idle: {seconds} s, {key}")
                before = [activity(process.pid) for process in (agents[0], avahi)], self.sent(machines[0]), machines[0].packets()
                end = time.monotonic() + seconds
                rounds = 0
                while time.monotonic() < end:
                    if looks:
                        # A command that starts asks the network.
                        looker.run(self.products / "relay", "devices", "--json")
                        rounds += 1
                    time.sleep(1)
                after = [activity(process.pid) for process in (agents[0], avahi)], self.sent(machines[0]), machines[0].packets()
                wakeups = [after[0][index][0] - before[0][index][0] for index in (0, 1)]
                cpu = [(after[0][index][1] - before[0][index][1]) * 1e3 for index in (0, 1)]
                sent = [after[1][index] - before[1][index] for index in (0, 1)]
                heard = after[2][0] - before[2][0]
                print(f"idle, {key}, {seconds} s, {rounds} looks: packets heard {heard}; the agent's and Avahi's: "
                      f"packets sent {sent[0]} and {sent[1]}, wake-ups {wakeups[0]} and {wakeups[1]}, processor {cpu[0]:.1f} and {cpu[1]:.1f} ms")
                for name, values in (("packets", sent), ("wakeups", wakeups), ("cpu", cpu)):
                    self.figures[f"idle-{key}-{name}"] = {"ours": values[0], "peer": values[1], "bound": 2}

    def avahi(self, machine):
        """Avahi's daemon, which publishes a service. Its multicast packets are counted by its user."""
        configuration, services = machine.directory / "avahi.conf", machine.directory / "services"
        configuration.write_text("[server]\nuse-ipv4=yes\nuse-ipv6=yes\nenable-dbus=no\n[wide-area]\nenable-wide-area=no\n[rlimits]\n")
        services.mkdir()
        (services / "other.service").write_text(
            "<?xml version='1.0'?><service-group><name>other</name><service><type>_device-relay._tcp</type><port>4711</port>"
            "<txt-record>v=1</txt-record></service></service-group>"
        )
        for rule in (
            "add table inet count", "add chain inet count output { type filter hook output priority 0; }",
            "add rule inet count output udp dport 5353 meta skuid avahi counter",
            "add rule inet count output udp dport 5353 meta skuid != avahi counter",
        ):
            machine.run("nft", rule)
        script = (
            f"mkdir -p /run/avahi-daemon && mount -t tmpfs tmpfs /run/avahi-daemon && chown avahi:avahi /run/avahi-daemon && "
            f"mount --bind {services} /etc/avahi/services && "
            f"exec avahi-daemon --no-chroot --no-rlimits -f {configuration}"
        )
        log = open(machine.directory / "avahi.log", "w")
        daemon = machine.start("unshare", "--mount", "sh", "-c", script, stdout=log, stderr=log)
        for _ in range(200):
            if "successfully established" in (machine.directory / "avahi.log").read_text():
                return daemon
            time.sleep(0.1)
        raise Failed((machine.directory / "avahi.log").read_text()[-500:])

    def sent(self, machine):
        """The multicast DNS packets that our agent and Avahi have sent."""
        packets = re.findall(r"counter packets (\d+)", machine.run("nft", "list", "table", "inet", "count"))
        return int(packets[1]), int(packets[0])


class RelayAtTheSwitch(Relay):
    """A relay as a person starts it, which all machines reach."""

    core = None

    def command(self):
        directory = self.directory / "data"
        return [self.products / "relayd", "serve", "--data-directory", directory, "--listen", Network.address, "--log-level", "warning"]

    def launch(self):
        log = open(self.directory / "log", "a")
        self.process = start(self.command(), self.core, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        for _ in range(50 * self.patience):
            if " ready at " in (self.directory / "log").read_text():
                return
            time.sleep(0.02)
        raise Failed(f"relayd is not ready: {(self.directory / 'log').read_text()[-500:]}")


def main():
    arguments = argparse.ArgumentParser(prog="scripts/bench-nearby", description=__doc__)
    arguments.add_argument("--products", type=pathlib.Path, help=argparse.SUPPRESS)
    arguments.add_argument("--check", action="store_true", help=argparse.SUPPRESS)
    arguments.add_argument("--only", nargs="+", choices=GROUPS, default=GROUPS, metavar="GROUP", help=f"of {', '.join(GROUPS)}")
    arguments.add_argument("--rounds", type=int, default=5, help="default: 5")
    arguments.add_argument("--quick", action="store_true", help="only shows that everything runs")
    arguments.add_argument("--json", type=pathlib.Path, help="also writes the result to this file")
    options = arguments.parse_args()
    if options.check:
        return
    with tempfile.TemporaryDirectory(prefix="bench-nearby-") as name, Network(pathlib.Path(name)) as network:
        # A switch without machines has no carrier.
        network.add("neighbour")
        bench = Bench(options, pathlib.Path(name), network)
        for group in options.only:
            getattr(bench, group)()
        if options.json:
            options.json.write_text(json.dumps(bench.figures, indent=2) + "\n")


if __name__ == "__main__":
    try:
        main()
    except Failed as failure:
        sys.exit(f"error: {failure}")
