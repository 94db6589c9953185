#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The Device Relay project authors
"""Writes a manual page for each command of a program, from the program's own help.

usage: manual.py PROGRAM SECTION VERSION DATE FOLDER

The pages are FOLDER/PROGRAM.SECTION, FOLDER/PROGRAM-COMMAND.SECTION and so on. DATE is of the form 2026-01-31.
"""
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

program, section, version, date, folder = sys.argv[1:]
name = pathlib.Path(program).name


def escaped(text):
    """Text that roff shows as it is."""
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return re.sub(r"^([.'])", r"\\&\1", text, flags=re.MULTILINE)


def prose(text):
    """Text with `code` in bold."""
    return re.sub(r"`([^`]+)`", r"\\fB\1\\fR", escaped(text))


def spelling(argument):
    """How an argument is written: each name, and the value."""
    value = f"\\fI{escaped(argument['valueName'])}\\fR"
    if argument["kind"] == "positional":
        return value
    names = [("--" if one["kind"] == "long" else "-") + one["name"] for one in argument["names"]]
    written = ", ".join(f"\\fB{escaped(one)}\\fR" for one in sorted(names, key=len))
    return written if argument["kind"] == "flag" else f"{written} {value}"


def usage(argument):
    """The argument in a synopsis."""
    text = spelling(argument).split(", ")[-1] + (" ..." if argument["isRepeating"] else "")
    return f"[{text}]" if argument["isOptional"] else text


def page(command, path, parents):
    """The page of one command, as roff."""
    title = "-".join(path)
    arguments = [one for one in command.get("arguments", []) if one["shouldDisplay"]]
    positional = [one for one in arguments if one["kind"] == "positional"]
    options = [one for one in arguments if one["kind"] != "positional"]
    commands = shown(command)
    abstract = command.get("abstract", "").removesuffix(".")
    lines = [
        f'.TH "{escaped(title.upper())}" "{section}" "{date}" "Device Relay {escaped(version)}" "Device Relay"',
        '.\\" Made by scripts/manual.py.',
        ".SH NAME",
        f"{escaped(title)} \\- {prose(abstract)}",
        ".SH SYNOPSIS",
        f".B {escaped(' '.join(path))}",
        *(["\\fIcommand\\fR ..."] if commands else []),
        *(["[\\fIoption\\fR ...]"] if options and not commands else []),
        *map(usage, positional),
    ]
    if discussion := command.get("discussion"):
        lines.append(".SH DESCRIPTION")
        # Lines that begin with spaces, or have a column, are examples: they keep their form.
        for line in discussion.splitlines():
            lines += [prose(line).strip() or ".PP"] if not re.match(r"\s|\S+: +\S", line) else [".br", prose(line)]
    for heading, some in (("ARGUMENTS", positional), ("OPTIONS", options)):
        if some:
            lines.append(f".SH {heading}")
        for one in some:
            text = one.get("abstract", "")
            if "defaultValue" in one and "efault" not in text:
                text = f"{text} The default is {one['defaultValue']}.".strip()
            lines += [".TP", spelling(one), prose(text) or "\\&"]
    if commands:
        lines.append(".SH COMMANDS")
    for one in commands:
        lines += [".TP", f"\\fB{escaped(title + '-' + one['commandName'])}\\fR({section})", prose(one.get("abstract", "")) or "\\&"]
    others = {"relay": [("relayd", 8)], "relayd": [("relay", 1)]}[name] if len(path) == 1 else [(parents[-1], section)]
    lines += [".SH SEE ALSO", ", ".join(f"\\fB{escaped(one)}\\fR({number})" for one, number in others)]
    return "\n".join(lines) + "\n"


def shown(command):
    """The subcommands with pages of their own."""
    return [one for one in command.get("subcommands", []) if one["shouldDisplay"] and one["commandName"] != "help"]


def write(command, path, parents=()):
    (pathlib.Path(folder) / f"{'-'.join(path)}.{section}").write_text(page(command, path, parents))
    for one in shown(command):
        write(one, path + [one["commandName"]], (*parents, "-".join(path)))


with tempfile.TemporaryDirectory() as home:
    # The program asks for no file of this user.
    dump = subprocess.run(
        [os.path.abspath(program), "--experimental-dump-help"], env={"HOME": home}, check=True, capture_output=True, timeout=60
    ).stdout
os.makedirs(folder, exist_ok=True)
write(json.loads(dump)["command"], [name])
