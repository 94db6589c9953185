# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The Device Relay project authors
"""Reads our messages with cbor2 and writes messages with it.

Standard input: lines of `CBOR in hexadecimal, tab, the same message as JSON`. For each, cbor2 decodes the CBOR, the result is
compared with the JSON, and cbor2's canonical encoding of it is printed. Then as many messages that cbor2 generates are printed, in
the form of the input. A difference ends the program with status 1.
"""

import base64
import datetime
import json
import math
import random
import sys
import uuid

import cbor2

EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)
COUNT_OF_OWN = 500


def from_json(value):
    if isinstance(value, list):
        return [from_json(item) for item in value]
    if not isinstance(value, dict):
        return value
    if len(value) == 1:
        ((key, content),) = value.items()
        if key == "$int":
            return int(content)
        if key == "$double":
            return float(content.replace("Infinity", "inf"))
        if key == "$date":
            return EPOCH + datetime.timedelta(seconds=content)
        if key == "$uuid":
            return uuid.UUID(content)
        if key == "$data":
            return base64.b64decode(content, validate=True)
    return {key[1:] if key.startswith("$") else key: from_json(content) for key, content in value.items()}


def to_json(value):
    if isinstance(value, bool) or isinstance(value, str):
        return value
    if isinstance(value, int):
        return value if abs(value) < 2**53 else {"$int": str(value)}
    if isinstance(value, float):
        if math.isnan(value):
            return {"$double": "NaN"}
        return value if math.isfinite(value) else {"$double": "Infinity" if value > 0 else "-Infinity"}
    if isinstance(value, datetime.datetime):
        return {"$date": (value - EPOCH).total_seconds()}
    if isinstance(value, uuid.UUID):
        return {"$uuid": str(value)}
    if isinstance(value, bytes):
        return {"$data": base64.b64encode(value).decode()}
    if isinstance(value, list):
        return [to_json(item) for item in value]
    return {"$" + key if key.startswith("$") else key: to_json(content) for key, content in value.items()}


def same(left, right):
    if type(left) is not type(right):
        return False
    if isinstance(left, float):
        return left == right and math.copysign(1, left) == math.copysign(1, right) or math.isnan(left) and math.isnan(right)
    if isinstance(left, list):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, dict):
        return left.keys() == right.keys() and all(same(left[key], right[key]) for key in left)
    return left == right


def encode(message):
    return cbor2.dumps(message, canonical=True, datetime_as_timestamp=True).hex()


def own_value(generator, kind, depth):
    if kind == 0:
        return "".join(generator.choice("ab$é日😀\n\"") for _ in range(generator.randrange(30)))
    if kind == 1:
        return generator.random() < 0.5
    if kind == 2:
        return generator.choice([generator.randrange(-(2**63), 2**64), generator.randrange(-300, 300), 2**64 - 1, -(2**63)])
    if kind == 3:
        return generator.choice([generator.random(), float(generator.randrange(-5000, 5000)) / 8, math.inf, -math.inf, math.nan, -0.0, 1e300])
    if kind == 4:
        # 64ths of a second are exact in a double and in whole microseconds.
        return EPOCH + datetime.timedelta(microseconds=15625 * generator.randrange(-(10**11), 10**12))
    if kind == 5:
        return uuid.UUID(int=generator.getrandbits(128))
    if kind == 6:
        return generator.randbytes(generator.randrange(300))
    if kind == 7:
        kind = generator.randrange(9 if depth > 1 else 7)
        return [own_value(generator, kind, depth - 1) for _ in range(generator.randrange(6))]
    return own_message(generator, depth - 1)


def own_message(generator, depth):
    return {
        own_value(generator, 0, 0): own_value(generator, generator.randrange(9 if depth > 0 else 7), depth)
        for _ in range(generator.randrange(7))
    }


def main():
    for line in sys.stdin:
        encoded, _, text = line.rstrip("\n").partition("\t")
        message = cbor2.loads(bytes.fromhex(encoded))
        if not same(message, from_json(json.loads(text))):
            sys.exit(f"cbor2 reads {encoded} as {message!r}, the JSON is {text}")
        print(encode(message))
    generator = random.Random(2026)
    for _ in range(COUNT_OF_OWN):
        message = own_message(generator, 3)
        print(encode(message) + "\t" + json.dumps(to_json(message)))


main()
