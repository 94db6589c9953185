#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The Device Relay project authors

"""Validates the output of `relay --json`: `validate-json.py SCHEMA` reads lines with the name of a definition, a tab and an object, and
prints the errors. Needs jsonschema."""

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
    # Against the named definition first, then against the whole schema, as a user of the schema would validate.
    for part in [{"$ref": f"{schema['$id']}#/$defs/{name}"}, {"$ref": schema["$id"]}]:
        for error in jsonschema.Draft202012Validator(part, registry=registry).iter_errors(json.loads(text)):
            print(f"line {number}, {name}: {error.json_path}: {error.message}")
