# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The Device Relay project authors
"""Compares `relay send` and `relay fetch` with scp and magic-wormhole on this machine: a file of 1 GiB, and a folder of 10,000 small files.
All three encrypt end to end. `relay send` and `relay fetch` go through a relay on loopback, and `relay send` also directly, without the
relay. magic-wormhole has its own servers on loopback and connects directly. Rounds alternate, and the median counts. `relay send` returns
when everything is on the disk there; the others do not wait for the disk."""

import argparse
import contextlib
import filecmp
import json
import os
import pathlib
import random
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

from servers import Failed, Relay, Server, free_port, start

PATIENCE = 600


class FullSpeedRelay(Relay):
    """A relay that may use all cores."""

    core = None


class Peer:
    """A way to send a file or folder to an empty folder."""

    def __init__(self, directory):
        self.into = directory / self.name
        self.stack = contextlib.ExitStack()

    def __enter__(self):
        self.stack.__enter__()
        self.launch()
        return self

    def __exit__(self, *error):
        return self.stack.__exit__(*error)

    def background(self, command, **options):
        process = start(command, None, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **options)
        self.stack.callback(process.wait)
        self.stack.callback(process.terminate)
        return process

    def run(self, command, **options):
        done = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=PATIENCE, **options)
        if done.returncode != 0:
            raise Failed(f"{self.name}: {done.stdout[-500:]}{done.stderr[-500:]}")
        return done.stdout

    def measure(self, content):
        shutil.rmtree(self.into, ignore_errors=True)
        self.into.mkdir()
        os.sync()
        begin = time.monotonic()
        self.send(content)
        seconds = time.monotonic() - begin
        check(content, self.into / content.name)
        return seconds


def check(sent, received):
    """Ends the benchmark if what arrived is not what was sent."""
    if sent.is_file():
        same = filecmp.cmp(sent, received, shallow=False)
    else:
        names = sorted(path.name for path in sent.iterdir())
        same = filecmp.cmpfiles(sent, received, names, shallow=False)[0] == names
    if not same:
        raise Failed(f"{received} is not what was sent")


class RelaySend(Peer):
    name = "relay"
    nearby = "off"

    def __init__(self, directory, products):
        super().__init__(directory)
        self.products = products
        self.homes = directory / f"{self.name}-homes"

    def command(self, home, *words):
        # The key of the device is in the user's home.
        user = self.homes / home
        user.mkdir(parents=True, exist_ok=True)
        variables = [f"{name}={user}" for name in ("HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME")]
        variables.append(f"DEVICE_RELAY_NEARBY={self.nearby}")
        return ["env", *variables, self.products / "relay", *words, "--home", user / "relay"]

    def launch(self):
        self.join()
        self.into.mkdir(parents=True, exist_ok=True)
        receiver = self.background(self.command("receiver", "receive", "--into", self.into, "--json"))
        if '"ready"' not in receiver.stdout.readline():
            raise Failed("relay receive is not ready")

    def join(self):
        relay = self.relay = self.stack.enter_context(FullSpeedRelay(self.products))
        relay.run("account", "add", "bench")
        operator = [self.products / "relayd", "invite", "bench", "--data-directory", relay.directory / "data"]
        for home, invite in (("sender", operator), ("receiver", self.command("sender", "invite"))):
            link = re.search(r"http\S+invite=\S+", self.run(invite))[0]
            self.run(self.command(home, "join", "--name", home), input=link + "\n")

    def send(self, content):
        self.run(self.command("sender", "send", content, "receiver", "--json"))


class DirectSend(RelaySend):
    name = "direct"
    nearby = "known"

    def launch(self):
        super().launch()
        self.run(self.command("sender", "ping", "receiver", "--count", "1"))
        self.relay.kill()


class RelayFetch(RelaySend):
    name = "fetch"

    def __init__(self, directory, products):
        super().__init__(directory, products)
        self.shared = directory / "source"

    def launch(self):
        self.join()
        (self.homes / "sender" / "relay" / "agent.yaml").write_text(json.dumps({"files": {"folder": str(self.shared)}}))
        agent = self.background(self.command("sender", "agent", "--json"))
        if '"ready"' not in agent.stdout.readline():
            raise Failed("relay agent is not ready")

    def send(self, content):
        self.run(self.command("receiver", "fetch", "sender", content.name, "-r", "-o", self.into, "--json"))


class SecureShell(Server):
    core = None

    def command(self):
        for name in ("host", "key"):
            if not (self.directory / name).exists():
                words = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", self.directory / name]
                subprocess.run([str(word) for word in words], check=True)
        shutil.copy(self.directory / "key.pub", self.directory / "authorized")
        pathlib.Path("/run/sshd").mkdir(exist_ok=True)
        settings = {
            "HostKey": self.directory / "host", "AuthorizedKeysFile": self.directory / "authorized", "StrictModes": "no",
            "UsePAM": "no", "PidFile": "none", "ListenAddress": f"127.0.0.1:{self.port}", "PermitRootLogin": "yes",
            "Subsystem": "sftp internal-sftp",
        }
        options = [word for name, value in settings.items() for word in ("-o", f"{name}={value}")]
        return [shutil.which("sshd") or "/usr/sbin/sshd", "-D", "-e", "-f", "/dev/null", *options]


class SecureCopy(Peer):
    name = "scp"

    def launch(self):
        self.server = self.stack.enter_context(SecureShell())

    def send(self, content):
        directory = self.server.directory
        options = ["-i", directory / "key", "-P", self.server.port, "-o", "StrictHostKeyChecking=no"]
        options += ["-o", "UserKnownHostsFile=/dev/null", "-q", "-r", "-p"]
        self.run(["scp", *options, content, f"127.0.0.1:{self.into}"])


class Wormhole(Peer):
    name = "wormhole"

    def __init__(self, directory, programs):
        super().__init__(directory)
        self.programs = programs
        self.scratch = directory / "wormhole-server"

    def launch(self):
        self.scratch.mkdir()
        self.mailbox, self.transit = free_port(), free_port()
        twist = self.programs / "twist"
        self.background([twist, "wormhole-mailbox", f"--port=tcp:{self.mailbox}:interface=127.0.0.1"], cwd=self.scratch)
        self.background([twist, "transitrelay", f"--port=tcp:{self.transit}:interface=127.0.0.1"], cwd=self.scratch)
        for port in (self.mailbox, self.transit):
            deadline = time.monotonic() + 20
            while subprocess.run(["bash", "-c", f"exec 3<>/dev/tcp/127.0.0.1/{port}"], stderr=subprocess.DEVNULL).returncode:
                if time.monotonic() > deadline:
                    raise Failed("the servers of magic-wormhole did not start")
                time.sleep(0.1)

    def send(self, content):
        code = f"{random.randrange(1, 1 << 30)}-bench-mark"
        program = [
            self.programs / "wormhole", "--relay-url", f"ws://127.0.0.1:{self.mailbox}/v1",
            "--transit-helper", f"tcp:127.0.0.1:{self.transit}",
        ]
        sender = start([*program, "send", "--hide-progress", "--code", code, content], None, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.run([*program, "receive", "--hide-progress", "--accept-file", code], cwd=self.into)
        sender.wait(timeout=PATIENCE)


def make_contents(directory, size, files):
    source = directory / "source"
    folder = source / "files"
    folder.mkdir(parents=True)
    with open(source / "large", "wb") as large:
        for _ in range(size >> 20):
            large.write(random.randbytes(1 << 20))
    for number in range(files):
        (folder / f"file {number:05}").write_bytes(random.randbytes(random.randrange(1, 16 << 10)))
    return {"large": source / "large", "files": folder}


def main():
    arguments = argparse.ArgumentParser(prog="scripts/bench-sharing", description=__doc__)
    arguments.add_argument("--products", type=pathlib.Path, help=argparse.SUPPRESS)
    arguments.add_argument("--wormhole", type=pathlib.Path, help=argparse.SUPPRESS)
    arguments.add_argument("--check", action="store_true", help=argparse.SUPPRESS)
    arguments.add_argument("--rounds", type=int, default=3, help="default: 3")
    arguments.add_argument("--quick", action="store_true", help="only shows that everything runs")
    arguments.add_argument("--json", type=pathlib.Path, help="also writes the result to this file")
    options = arguments.parse_args()
    if options.check:
        return
    size, files = (16 << 20, 100) if options.quick else (1 << 30, 10_000)
    with tempfile.TemporaryDirectory(prefix="bench-sharing-") as name, contextlib.ExitStack() as stack:
        directory = pathlib.Path(name)
        contents = make_contents(directory, size, files)
        ours = [way(directory, options.products) for way in (RelaySend, DirectSend, RelayFetch)]
        others = [SecureCopy(directory)]
        if options.wormhole:
            others.append(Wormhole(directory, options.wormhole))
        peers = ours + others
        for peer in peers:
            stack.enter_context(peer)
        result = {}
        for content, path in contents.items():
            seconds = {peer.name: [] for peer in peers}
            for number in range(1 if options.quick else options.rounds):
                for peer in peers:
                    print(f"   {content}: {peer.name}, round {number + 1}", file=sys.stderr, flush=True)
                    seconds[peer.name].append(peer.measure(path))
            result[content] = {name: statistics.median(values) for name, values in seconds.items()}
        for content, medians in result.items():
            print(f"{content}: " + ", ".join(f"{name} {seconds:.2f} s" for name, seconds in medians.items()))
            fastest = min(medians[peer.name] for peer in others)
            for peer in ours:
                to_fastest, to_scp = fastest / medians[peer.name], medians["scp"] / medians[peer.name]
                kept = "kept" if to_fastest >= 1 and to_scp >= 0.8 else "NOT KEPT"
                print(f"    {peer.name}: {to_fastest:.2f} of the faster peer's rate (bound 1), {to_scp:.2f} of scp's (bound 0.8): {kept}")
        if options.json:
            options.json.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    try:
        main()
    except Failed as failure:
        sys.exit(f"error: {failure}")
