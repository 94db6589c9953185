# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The Device Relay project authors
"""Measures commands through the running agent beside those that connect by themselves: whole processes, in turns. Then 200 launches in a loop."""

import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import servers
from servers import Failed, Relay

# What is to be reached, in milliseconds.
BOUND = 25


class OrdinaryRelay(Relay):
    """A relay with its default limits, so that what they hold back is seen."""

    core = None

    def command(self):
        directory = self.directory / "data"
        return [self.products / "relayd", "serve", "--data-directory", directory, "--listen", f"127.0.0.1:{self.port}", "--log-level", "warning"]


class Person:
    """A home with a device."""

    def __init__(self, products, directory, name):
        self.products, self.name = products, name
        home = directory / name
        (home / "run").mkdir(parents=True, mode=0o700)
        self.environment = {
            "HOME": str(home), "PATH": os.environ["PATH"], "XDG_RUNTIME_DIR": str(home / "run"),
            "XDG_CONFIG_HOME": str(home), "XDG_DATA_HOME": str(home), "XDG_STATE_HOME": str(home),
        }
        self.processes = []

    def start(self, *words, **options):
        return subprocess.Popen([self.products / "relay", *words], env=self.environment, text=True, **options)

    def run(self, *words, input=None):
        process = self.start(*words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        output, errors = process.communicate(input, timeout=120)
        if process.returncode != 0:
            raise Failed(f"relay {words[0]}: {output[-300:]}{errors[-300:]}")
        return output

    def serve(self, *words, ready):
        process = self.start(*words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.processes.append(process)
        for line in process.stdout:
            if ready in line:
                return
        raise Failed(f"relay {words[0]} did not start")

    def end(self):
        for process in self.processes:
            process.kill()
            process.wait()


def timed(person, *words):
    begin = time.perf_counter()
    person.run(*words)
    return (time.perf_counter() - begin) * 1e3


def measured(options, relay, desk):
    times = {"through the agent": [], "by itself": []}
    for _ in range(options.rounds):
        times["through the agent"].append(timed(desk, "devices"))
        times["by itself"].append(timed(desk, "devices", "--no-agent"))
    figures = {}
    for way, all in times.items():
        figures[way] = {"medianMilliseconds": statistics.median(all), "maximumMilliseconds": max(all)}
        print(f"relay devices, {way}: median {statistics.median(all):.1f} ms, longest {max(all):.1f} ms, {len(all)} runs", flush=True)
    median = figures["through the agent"]["medianMilliseconds"]
    print(f"through the agent: median {median:.1f} ms (bound {BOUND}{'' if median <= BOUND else ', NOT KEPT'})")
    begin = time.perf_counter()
    launches = [timed(desk, "launch", "tv", f"https://films.example/{number}") for number in range(options.launches)]
    seconds = time.perf_counter() - begin
    figures["launches"] = {
        "count": len(launches), "seconds": seconds, "medianMilliseconds": statistics.median(launches), "maximumMilliseconds": max(launches)
    }
    print(
        f"{len(launches)} launches in a loop, each until it is opened: {seconds:.1f} s, median {statistics.median(launches):.1f} ms, "
        f"longest {max(launches):.1f} ms"
    )
    return figures


def main():
    def own(add):
        add("--rounds", type=int, default=100, help="runs of `relay devices` for each way; default: 100")
        add("--launches", type=int, default=200, help="default: 200")

    options = servers.options("bench-agent", __doc__, own)
    if options.check:
        return
    with tempfile.TemporaryDirectory(prefix="bench-agent-") as name, OrdinaryRelay(options.products) as relay:
        directory = pathlib.Path(name)
        desk, tv = Person(options.products, directory, "desk"), Person(options.products, directory, "tv")
        desk.run("join", "--name", "desk", "--yes", input=servers.first_link(options.products, relay))
        tv.run("join", "--name", "tv", "--yes", input=desk.run("invite"))
        try:
            tv.serve("host", "--app", "com.example.player", "--scheme", "https", ready="hosting")
            desk.serve("agent", ready="ready")
            figures = measured(options, relay, desk)
        finally:
            desk.end()
            tv.end()
        if options.json:
            options.json.write_text(json.dumps(figures, indent=2) + "\n")


if __name__ == "__main__":
    try:
        main()
    except Failed as failure:
        sys.exit(f"error: {failure}")
