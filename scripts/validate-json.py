#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The Device Relay project authors

"""Validates what `relay --json` prints: `validate-json.py SCHEMA` reads lines of a definition's name, a tab and an object, and says what is wrong
with which; without anything wrong it says nothing. Needs jsonschema."""

import json
import sys

import jsonschema
import referencing

with open(sys.argv[1], encoding="utf-8") as file:
    schema = json.load(file)
jsonschema.Draft202012Validator.check_schema(schema)
registry = referencing.Registry().with_resource(schema["$id"], referencing.Resource.from_contents(schema))
for number, line in enumerate(sys.stdin, 1):
    name, text = line.rstrip("\n").split("\t", 1)
    # First as what it is said to be, then as anybody who has the schema alone would.
    for part in [{"$ref": f"{schema['$id']}#/$defs/{name}"}, {"$ref": schema["$id"]}]:
        for error in jsonschema.Draft202012Validator(part, registry=registry).iter_errors(json.loads(text)):
            print(f"line {number}, {name}: {error.json_path}: {error.message}")
