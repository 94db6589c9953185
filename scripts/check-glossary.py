#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The Device Relay project authors

"""Checks that every name in the column *in code* of docs/glossary.md occurs in Sources."""

import glob
import re
import sys

words = set()
for path in glob.glob("Sources/**/*.swift", recursive=True):
    with open(path, encoding="utf-8") as source:
        words.update(re.findall(r"\w+", path + source.read()))

names = 0
status = 0
with open("docs/glossary.md", encoding="utf-8") as document:
    for number, line in enumerate(document, 1):
        cells = line.strip().strip("|").split("|")
        if not line.startswith("| ") or len(cells) < 4:
            continue
        for name in re.findall(r"`([^`]+)`", cells[2]):
            names += 1
            # For a member its own name, for a function the name without arguments.
            if name.split("(")[0].split(".")[-1] not in words:
                print(f"docs/glossary.md:{number}: there is no {name} in Sources", file=sys.stderr)
                status = 1
if names < 50:
    print(f"docs/glossary.md: only {names} names were found", file=sys.stderr)
    status = 1
sys.exit(status)
