# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The Device Relay project authors
"""Counts the instructions outside the kernel that a sealed launch costs the relay. Unlike time, they hardly depend on other load. Two
relays run under callgrind, one with more launches: the difference is the cost of these launches."""

import argparse
import contextlib
import json
import pathlib
import re
import signal
import subprocess
import sys
import tempfile

from servers import Failed, Relay

# Launches of each sender.
FEW, MANY = 3, 13


class CountedRelay(Relay):
    patience = 60

    def __init__(self, products, profile):
        super().__init__(products)
        self.profile = profile
        self.stripped = self.directory / "relayd"

    def launch(self):
        # Valgrind 3.19 cannot read the compiler's debugging information.
        subprocess.run(["objcopy", "--strip-debug", self.products / "relayd", self.stripped], check=True)
        super().launch()

    def command(self):
        options = [f"--callgrind-out-file={self.profile}", f"--log-file={self.directory / 'valgrind'}"]
        return ["valgrind", "--tool=callgrind", *options, self.stripped, *super().command()[1:]]

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(timeout=60)
        except subprocess.TimeoutExpired:
            raise Failed("the relay did not end within a minute") from None


def count(products, launches, profile):
    with CountedRelay(products, profile) as relay:
        relay.invite(1)
        done = int(relay.measure("relay-launches", "--count", launches)["launches"])
        relay.stop()
    summary = profile.exists() and re.search(r"^(?:summary|totals): (\d+)", profile.read_text(), re.MULTILINE)
    if not summary:
        raise Failed("callgrind counted nothing")
    return int(summary[1]), done


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


def main():
    parser = argparse.ArgumentParser(prog="scripts/count-instructions", description=__doc__)
    parser.add_argument("--products", type=pathlib.Path, help=argparse.SUPPRESS)
    parser.add_argument("--functions", type=int, default=0, metavar="COUNT", help="print so many functions that cost most, too")
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE", help="write the counts there")
    options = parser.parse_args()
    # Without products, only the arguments are checked.
    if not options.products:
        return
    with tempfile.TemporaryDirectory() as directory:
        profiles = [pathlib.Path(directory) / name for name in ("few", "many")]
        few, many = (count(options.products, launches, profile) for launches, profile in zip((FEW, MANY), profiles))
        launches = many[1] - few[1]
        each = (many[0] - few[0]) / launches
        costs = {}
        if options.functions:
            before, after = map(functions, profiles)
            costs = {name: (total - before.get(name, 0)) / launches for name, total in after.items()}
            costs = dict(sorted(costs.items(), key=lambda cost: -cost[1])[: options.functions])
    if options.json:
        options.json.write_text(json.dumps({"instructionsPerLaunch": each, "functions": costs}) + "\n")
    print(f"{each:,.0f} instructions for each of {launches:,} launches")
    for name, cost in costs.items():
        print(f"{cost:9,.0f}  {cost / each:5.1%}  {name}")


if __name__ == "__main__":
    with contextlib.suppress(BrokenPipeError):
        try:
            main()
        except (Failed, subprocess.CalledProcessError) as error:
            sys.exit(f"error: {error}")
