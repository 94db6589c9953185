#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The Device Relay project authors

"""Checks that every replacement in docs/porting.md is a public declaration. The arguments are the directories of symbol graphs."""

import glob
import json
import re
import sys

declared = set()
for directory in sys.argv[1:]:
    for path in glob.glob(f"{directory}/*.symbols.json"):
        with open(path, encoding="utf-8") as graph:
            declared.update(".".join(symbol["pathComponents"]) for symbol in json.load(graph)["symbols"])
# The document may name a function without its arguments.
declared |= {name.split("(")[0] for name in declared}

names = 0
status = 0
with open("docs/porting.md", encoding="utf-8") as document:
    for number, line in enumerate(document, 1):
        # The first column of a table has the original's names.
        text = line.split("|", 2)[2] if line.startswith("| ") else line
        for name in re.findall(r"`([A-Z]\w*(?:\.\w+)*(?:\([\w:]*\))?)`", text):
            if name.startswith("MCD") or name == "DeviceRelay":
                continue
            names += 1
            if name not in declared:
                print(f"docs/porting.md:{number}: there is no {name}", file=sys.stderr)
                status = 1
if names < 100:
    print(f"docs/porting.md: only {names} names were found", file=sys.stderr)
    status = 1
sys.exit(status)
