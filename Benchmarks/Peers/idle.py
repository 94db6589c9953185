# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The Device Relay project authors
"""Measures what it costs to be there: an idle agent and its idle relay beside an idle syncthing, on machines that are network namespaces. With
--console a console is open at the agent."""

import contextlib
import json
import pathlib
import subprocess
import sys
import tempfile
import time

import servers
from machines import Network, thread_activity
from nearby import RelayAtTheSwitch
from servers import Failed, resident_kib

# What is to be reached, per minute.
BOUNDS = {"agent": 10, "relayd": 60}


def progress(text):
    print(f"   {text}", file=sys.stderr, flush=True)


def family(pid):
    """A process and those that it has started."""
    children = pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [pid, *(one for child in children for one in family(int(child)))]


def traffic(machine):
    """The bytes that the machine has received and sent."""
    text = subprocess.check_output(["ip", "netns", "exec", machine.namespace, "cat", "/proc/net/dev"], text=True)
    fields = next(line for line in text.splitlines() if "eth0" in line).split(":")[1].split()
    return int(fields[0]) + int(fields[8])


def joined(products, relay, machine):
    machine.run(products / "relay", "join", "--name", machine.name, "--yes", input=servers.first_link(products, relay))
    agent = machine.start(products / "relay", "agent", stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
    for line in agent.stdout:
        if line.startswith("ready"):
            return agent
    raise Failed("the agent did not start")


def syncthing(machine):
    log = open(machine.directory / "log", "w")
    home = machine.directory / "syncthing"
    process = machine.start("syncthing", "serve", "--no-browser", "--no-restart", "--home", home, stdout=log, stderr=log)
    for _ in range(300):
        if "Ready to synchronize" in (machine.directory / "log").read_text():
            return process
        time.sleep(0.1)
    raise Failed(f"syncthing did not start: {(machine.directory / 'log').read_text()[-500:]}")


@contextlib.contextmanager
def console(products, machine):
    """Follows the events of the agent as the console's page does."""
    socket = json.loads(next(machine.directory.rglob("agent.json")).read_text())["socket"]
    reader = machine.start(
        "curl", "-sN", "--unix-socket", socket, "http://relay/v1/events?types=command,device,transfer,ask", stdout=subprocess.DEVNULL
    )
    try:
        yield
    finally:
        reader.kill()
        reader.wait()


def measured(options, directory, network):
    phone, peer = network.add("phone"), network.add("peer")
    # What one says to its network is not traffic of the other.
    for machine in (phone, peer):
        machine.isolate()
    with RelayAtTheSwitch(options.products) as relay, contextlib.ExitStack() as stack:
        processes = {"agent": (joined(options.products, relay, phone), phone), "relayd": (relay.process, phone), "syncthing": (syncthing(peer), peer)}
        if options.console:
            stack.enter_context(console(options.products, phone))
        progress(f"{options.settle} s until announcements and retries have come to an end")
        time.sleep(options.settle)

        counted = {name: {} for name in processes}

        def state():
            """Threads end, and take their counts with them: what was seen of them stays."""
            for name, (process, _) in processes.items():
                for pid in family(process.pid):
                    counted[name].update(thread_activity(pid))
            return {
                name: (*map(sum, zip(*counted[name].values())), traffic(machine)) for name, (_, machine) in processes.items()
            }

        before, begin = state(), time.monotonic()
        progress(f"{options.seconds} s idle")
        while (left := begin + options.seconds - time.monotonic()) > 0:
            time.sleep(min(left, 2))
            after = state()
        minutes = (time.monotonic() - begin) / 60
        figures = {}
        for name, (process, _) in processes.items():
            wakeups, seconds, count = (last - first for first, last in zip(before[name], after[name]))
            figures[name] = {
                "wakeupsPerMinute": wakeups / minutes,
                "percentOfACore": seconds / minutes / 60 * 100,
                "bytesPerMinute": count / minutes,
                "residentKiB": sum(resident_kib(pid) for pid in family(process.pid)),
            }
        return figures


def main():
    def own(add):
        add("--seconds", type=int, default=3600, help="how long; default: 3600")
        add("--settle", type=int, default=90, help="how long to wait before, in seconds; default: 90")
        add("--console", action="store_true", help="with an open console at the agent")

    options = servers.options("bench-idle", __doc__, own)
    if options.check:
        return
    with tempfile.TemporaryDirectory(prefix="bench-idle-") as name, Network(pathlib.Path(name)) as network:
        figures = measured(options, pathlib.Path(name), network)
    print("           wake-ups/min   % of a core   bytes/min   resident MiB")
    for name, values in figures.items():
        bound = BOUNDS.get(name)
        note = "" if bound is None else f"   (bound {bound}{'' if values['wakeupsPerMinute'] <= bound else ', NOT KEPT'})"
        print(
            f"{name:<10}{values['wakeupsPerMinute']:>13.1f}{values['percentOfACore']:>14.4f}{values['bytesPerMinute']:>12.0f}"
            f"{values['residentKiB'] / 1024:>15.1f}{note}"
        )
    if options.json:
        options.json.write_text(json.dumps(figures, indent=2) + "\n")


if __name__ == "__main__":
    try:
        main()
    except Failed as failure:
        sys.exit(f"error: {failure}")
