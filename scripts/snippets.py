#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The Device Relay project authors

"""Checks that code blocks in the documentation equal compiled sources. With `--write`: copies the compiled code into the documents."""

import glob
import re
import sys
import textwrap

sources = [
    path
    for folder in ["DocumentationSnippets", "Tests/MainActorSnippets", "Tests/DeviceRelayTestingTests"]
    for path in glob.glob(f"{folder}/*.swift")
]
documents = glob.glob("Sources/*/Documentation.docc/*.md") + ["README.md", "docs/porting.md"]

snippets = {}
for path in sources:
    text = open(path, encoding="utf-8").read()
    for name, body in re.findall(r"^ *// snippet: ([\w-]+)\n(.*?)^ *// end$", text, re.S | re.M):
        snippets[name] = textwrap.dedent(body)

status = 0
used = set()
for path in documents:
    text = open(path, encoding="utf-8").read()

    def code(match):
        name = match.group(1)
        if name not in snippets:
            sys.exit(f"{path}: there is no snippet {name}")
        used.add(name)
        return f"<!-- snippet: {name} -->\n```swift\n{snippets[name]}```\n"

    fresh = re.sub(r"<!-- snippet: ([\w-]+) -->\n```swift\n.*?```\n", code, text, flags=re.S)
    if fresh != text:
        if "--write" in sys.argv:
            open(path, "w", encoding="utf-8").write(fresh)
        else:
            print(f"{path}: its code is not that of the snippets; run scripts/snippets.py --write", file=sys.stderr)
            status = 1
for name in sorted(set(snippets) - used):
    print(f"the snippet {name} stands in no document", file=sys.stderr)
    status = 1
sys.exit(status)
