# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The Device Relay project authors
"""Machines that are network namespaces at one switch. Only root can make them."""

import contextlib
import os
import pathlib
import shlex
import subprocess

from servers import Failed, start


def ip(*words):
    subprocess.run(["ip", *(str(word) for word in words)], check=True)


class Network:
    """A switch with the address 10.77.0.1, which is this process's own namespace, and machines with 10.77.0.2 and following."""

    address = "10.77.0.1"

    def __init__(self, directory):
        self.directory = directory
        self.machines = []

    def __enter__(self):
        ip("link", "set", "lo", "up")
        ip("link", "add", "br0", "type", "bridge")
        # A switch forwards to all until a machine asks for less.
        ip("link", "set", "br0", "type", "bridge", "mcast_snooping", 0)
        ip("address", "add", f"{self.address}/16", "dev", "br0")
        ip("link", "set", "br0", "up")
        return self

    def __exit__(self, *_):
        for machine in self.machines:
            machine.end()

    def add(self, name, directory=None):
        """Adds a machine. Its home is in the directory."""
        number = len(self.machines)
        machine = Machine(name, number, (directory or self.directory) / name)
        self.machines.append(machine)
        machine.connect(f"10.77.{number // 250}.{number % 250 + 2}")
        return machine


class Machine:
    """A network namespace, with a home of its own."""

    def __init__(self, name, number, directory):
        self.name, self.number, self.directory = name, number, directory
        self.namespace = f"bench-{os.getpid()}-{number}"
        self.processes = []
        self.directory.mkdir(parents=True)

    def connect(self, address):
        self.address = address
        ip("netns", "add", self.namespace)
        ip("link", "add", f"port{self.number}", "type", "veth", "peer", "name", "eth0", "netns", self.namespace)
        ip("link", "set", f"port{self.number}", "master", "br0", "up")
        ip("-n", self.namespace, "link", "set", "lo", "up")
        ip("-n", self.namespace, "address", "add", f"{address}/16", "dev", "eth0")
        ip("-n", self.namespace, "link", "set", "eth0", "up")

    def isolate(self):
        """Lets the machine and others that are isolated send each other nothing; the switch itself stays in reach."""
        ip("link", "set", f"port{self.number}", "type", "bridge_slave", "isolated", "on")

    def end(self):
        for process in self.processes:
            process.kill()
            process.wait()
        subprocess.run(["ip", "netns", "delete", self.namespace], check=False)

    def start(self, *command, **options):
        """Starts a program on the machine. It ends with the machine."""
        variables = [f"{name}={self.directory}" for name in ("HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME")]
        inside = ["ip", "netns", "exec", self.namespace, "env", *variables, *command]
        process = start(inside, None, cwd=self.directory, **options)
        self.processes.append(process)
        return process

    def run(self, *command, input=None, check=True):
        """Runs a program to its end, and returns its output."""
        process = self.start(*command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        output, errors = process.communicate(input, timeout=600)
        self.processes.remove(process)
        if check and process.returncode != 0:
            raise Failed(f"{self.name}: {shlex.join(str(word) for word in command[:3])}: {output[-500:]}{errors[-500:]}")
        return output

    def shape(self, megabits):
        """Limits what the machine sends; 0 for no limit."""
        subprocess.run(["tc", "-n", self.namespace, "qdisc", "del", "dev", "eth0", "root"], stderr=subprocess.DEVNULL, check=False)
        if megabits:
            words = ["tc", "-n", self.namespace, "qdisc", "add", "dev", "eth0", "root", "tbf", "rate", f"{megabits}mbit", "burst", "256k"]
            subprocess.run([*words, "latency", "50ms"], check=True)

    def packets(self):
        """The numbers of packets that the machine has received and sent."""
        text = subprocess.check_output(["ip", "netns", "exec", self.namespace, "cat", "/proc/net/dev"], text=True)
        fields = next(line for line in text.splitlines() if "eth0" in line).split(":")[1].split()
        return int(fields[1]), int(fields[9])


def threads(pid):
    return pathlib.Path(f"/proc/{pid}/task").iterdir()


def thread_activity(pid):
    """How often each thread of a process has woken up, and its processor time in seconds."""
    all = {}
    for thread in threads(pid):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            lines = (thread / "status").read_text().splitlines()
            wakeups = next(int(line.split()[1]) for line in lines if line.startswith("voluntary_ctxt_switches"))
            all[thread.name] = wakeups, int((thread / "schedstat").read_text().split()[0]) / 1e9
    return all


def activity(pid):
    """How often the threads of a process have woken up, and their processor time in seconds."""
    wakeups, seconds = zip(*thread_activity(pid).values())
    return sum(wakeups), sum(seconds)
