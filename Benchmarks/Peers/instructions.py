# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The Device Relay project authors
"""Counts the instructions outside the kernel, and the allocations, of a sealed launch at the relay, of an endpoint that connects, publishes
and watches there, and of a call at both its endpoints together. Unlike time, they hardly depend on other load. Each is run under callgrind
twice, the second time with more of them: the difference is their cost. On PostgreSQL, that includes what a node does in the meantime, such
as its beats, and a call is not counted, because it uses no database."""

import argparse
import contextlib
import itertools
import json
import pathlib
import re
import signal
import subprocess
import sys
import tempfile

from servers import Failed, Postgres, Relay

# Launches of each sender, endpoints, and calls.
LAUNCHES = (3, 13)
ENDPOINTS = (50, 250)
CALLS = (500, 2_500)
ALLOCATING = {"malloc", "calloc", "realloc", "posix_memalign", "aligned_alloc"}


def strip(program, copy):
    """Valgrind 3.19 cannot read the compiler's debugging information."""
    subprocess.run(["objcopy", "--strip-debug", program, copy], check=True)


class CountedRelay(Relay):
    patience = 60

    def __init__(self, products, profile, store=None):
        super().__init__(products, store=store)
        self.profile = profile
        self.stripped = self.directory / "relayd"

    def launch(self):
        strip(self.products / "relayd", self.stripped)
        super().launch()

    def command(self):
        return [*callgrind(self.profile, self.directory / "valgrind"), self.stripped, *super().command()[1:]]

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(timeout=60)
        except subprocess.TimeoutExpired:
            raise Failed("the relay did not end within a minute") from None


class CountedCalls(Relay):
    """A relay, at which the programs that call are counted."""

    def __init__(self, products, profile):
        super().__init__(products)
        self.profile = profile

    def _benchmark(self, words, target):
        program, *rest = super()._benchmark(words, target)
        if words[0] != "calls":
            return [program, *rest]
        strip(program, self.directory / "calls")
        return [*callgrind(self.profile, self.directory / "valgrind"), self.directory / "calls", *rest]


def callgrind(profile, log):
    return ["valgrind", "--tool=callgrind", f"--callgrind-out-file={profile}", f"--log-file={log}"]


def launches(products, count, profile, store):
    with CountedRelay(products, profile, store) as relay:
        relay.invite(1)
        done = int(relay.measure("relay-launches", "--count", count)["launches"])
        relay.stop()
    return done


def endpoints(products, count, profile, store):
    with CountedRelay(products, profile, store) as relay:
        # As many people in both runs, because those cost something too.
        relay.invite(max(ENDPOINTS) // 10)
        with relay.benchmark("crowd", "--count", count) as crowd:
            crowd.stdout.readline()
        relay.stop()
    return count


def calls(products, count, profile, _):
    with CountedCalls(products, profile) as relay:
        relay.invite(1)
        relay.measure("calls", "--count", count)
    return count


def totals(profile):
    """The instructions and the allocations of a run."""
    text = profile.read_text() if profile.exists() else ""
    summary = re.search(r"^(?:summary|totals): (\d+)", text, re.MULTILINE)
    if not summary:
        raise Failed("callgrind counted nothing")
    names, callee, allocations = {}, None, 0
    for line in text.splitlines():
        # A name stands at its first use only.
        if match := re.match(r"c?fn=\((\d+)\)(?: (.*))?$", line):
            if match[2]:
                names[match[1]] = match[2]
            callee = names[match[1]]
        elif line.startswith("calls=") and callee in ALLOCATING:
            allocations += int(line[6:].split()[0])
    return int(summary[1]), allocations


def functions(profile):
    """The instructions of each function, without its callees."""
    command = ["callgrind_annotate", "--threshold=100", profile]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    text = subprocess.run(["swift", "demangle", "-compact"], input=text, capture_output=True, text=True, check=True).stdout
    found = {}
    for line in text.splitlines():
        if match := re.match(r"\s*([\d,]+) \(\s*[\d.]+%\)\s+[^:]*:(.*?)(?: \[[^\]]*\])?$", line):
            found[match[2]] = found.get(match[2], 0) + int(match[1].replace(",", ""))
    return found


@contextlib.contextmanager
def stores(kind):
    """Gives the store of each further relay; None for SQLite."""
    if kind == "sqlite":
        yield itertools.repeat(None)
    else:
        with Postgres() as database:
            yield (database.uri(f"relay{number}") for number in itertools.count())


def main():
    parser = argparse.ArgumentParser(prog="scripts/count-instructions", description=__doc__)
    parser.add_argument("--products", type=pathlib.Path, help=argparse.SUPPRESS)
    parser.add_argument(
        "--store", choices=["sqlite", "postgres"], default="sqlite", help="where the relay stores what it has (default: %(default)s)"
    )
    parser.add_argument("--functions", type=int, default=0, metavar="COUNT", help="print so many functions that cost a launch most, too")
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE", help="write the counts there")
    options = parser.parse_args()
    # Without products, only the arguments are checked.
    if not options.products:
        return
    kinds = [("launch", launches, LAUNCHES), ("endpoint", endpoints, ENDPOINTS), ("call", calls, CALLS)]
    results, costs = {}, {}
    for what, run, counts in kinds if options.store == "sqlite" else kinds[:2]:
        with tempfile.TemporaryDirectory() as directory, stores(options.store) as store:
            profiles = [pathlib.Path(directory) / name for name in ("few", "many")]
            few, many = (run(options.products, count, profile, next(store)) for count, profile in zip(counts, profiles))
            before, after = map(totals, profiles)
            each = [(end - begin) / (many - few) for begin, end in zip(before, after)]
            results[what] = {"instructions": each[0], "allocations": each[1]}
            print(f"{each[0]:,.0f} instructions and {each[1]:,.1f} allocations for each {what}, of {many - few:,}", flush=True)
            if what == "launch" and options.functions:
                before, after = map(functions, profiles)
                costs = {name: (total - before.get(name, 0)) / (many - few) for name, total in after.items()}
                costs = dict(sorted(costs.items(), key=lambda cost: -cost[1])[: options.functions])
                for name, cost in costs.items():
                    print(f"{cost:9,.0f}  {cost / each[0]:5.1%}  {name}")
    if options.json:
        options.json.write_text(json.dumps({"store": options.store, "each": results, "functionsOfALaunch": costs}) + "\n")


if __name__ == "__main__":
    with contextlib.suppress(BrokenPipeError):
        try:
            main()
        except (Failed, subprocess.CalledProcessError) as error:
            sys.exit(f"error: {error}")
