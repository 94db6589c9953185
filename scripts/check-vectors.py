# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The Device Relay project authors
"""Checks docs/vectors with an implementation of the protocol's structures that shares no code with the one in Swift.

Usage: check-vectors.py FOLDER. Prints how many vectors were checked; the first one that does not hold ends the program with status 1.
Needs cbor2 and cryptography (PyPI). cbor2 is a second reader of every message beside the strict one here.
"""

import base64
import datetime
import hashlib
import hmac
import ipaddress
import json
import math
import os
import re
import struct
import sys
import unicodedata
import uuid

import cbor2
from cryptography.exceptions import InvalidSignature, InvalidTag
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

checked = 0


class Refused(Exception):
    """Bytes that the protocol rejects, with the code from the documents."""

    def __init__(self, code):
        super().__init__(code)
        self.code = code


def expect(condition, *what):
    global checked
    checked += 1
    if not condition:
        sys.exit("does not hold: " + ", ".join(map(str, what)))


def refusal(work, *arguments):
    try:
        work(*arguments)
    except Refused as refused:
        return refused.code
    return None


# Values: protocol.md, section 1.


class Date(float):
    """Seconds since 1970."""


MAJORS = {0: "integer", 1: "integer", 2: "data", 3: "string", 4: "array", 5: "set"}


def kind(value):
    for kinds, name in (((bool,), "bool"), ((Date,), "date"), ((int,), "integer"), ((float,), "double"), ((str,), "string")):
        if isinstance(value, kinds):
            return name
    return {uuid.UUID: "uuid", bytes: "data", list: "array", dict: "set"}[type(value)]


class Reader:
    def __init__(self, data):
        self.data, self.place, self.count = data, 0, 0

    def take(self, count):
        if count > len(self.data) - self.place:
            raise Refused("truncated")
        self.place += count
        return self.data[self.place - count : self.place]

    def head(self):
        first = self.take(1)[0]
        major, low = first >> 5, first & 31
        if low < 24:
            return major, low, low
        if low == 31 and major in (2, 3, 4, 5, 7):
            raise Refused("indefiniteLength")
        if low > 27:
            raise Refused("unsupportedType")
        width = 1 << (low - 24)
        argument = int.from_bytes(self.take(width), "big")
        if major != 7 and argument < (24 if width == 1 else 1 << (8 * width // 2)):
            raise Refused("notShortest")
        return major, low, argument

    def value(self, depth):
        self.count += 1
        if self.count > 1 << 21:
            raise Refused("tooManyValues")
        major, low, argument = self.head()
        if major == 0:
            return argument
        if major == 1:
            if argument >= 1 << 63:
                raise Refused("integerOutOfRange")
            return -1 - argument
        if major == 2:
            return self.take(argument)
        if major == 3:
            return self.text(argument)
        if major in (4, 5):
            if depth > 32:
                raise Refused("tooDeep")
            if argument > len(self.data) - self.place:
                raise Refused("truncated")
            return self.array(argument, depth) if major == 4 else self.set(argument, depth)
        if major == 6:
            return self.tagged(argument, depth)
        return self.simple(low, argument)

    def text(self, count):
        try:
            return self.take(count).decode("utf-8", "strict")
        except UnicodeDecodeError:
            raise Refused("invalidText")

    def array(self, count, depth):
        values = []
        for _ in range(count):
            values.append(self.value(depth + 1))
            if kind(values[-1]) != kind(values[0]):
                raise Refused("mixedArray")
        return values

    def set(self, count, depth):
        values, last = {}, None
        for _ in range(count):
            start = self.place
            major, _, argument = self.head()
            if major != 3:
                raise Refused("nonStringKey")
            key = self.text(argument)
            encoded = self.data[start : self.place]
            if last is not None and encoded <= last:
                raise Refused("duplicateKey" if encoded == last else "unsortedKey")
            last = encoded
            values[key] = self.value(depth + 1)
        return values

    def tagged(self, tag, depth):
        if tag not in (1, 37):
            raise Refused("unknownTag")
        content = self.value(depth)
        if tag == 37:
            if kind(content) != "data" or len(content) != 16:
                raise Refused("invalidTagContent")
            return uuid.UUID(bytes=content)
        if kind(content) not in ("integer", "double"):
            raise Refused("invalidTagContent")
        if kind(content) == "double" and not math.isfinite(content):
            raise Refused("dateNotFinite")
        date = Date(content)
        if encode(date)[1:] != encode(content):
            raise Refused("notShortest")
        return date

    def simple(self, low, argument):
        if low in (20, 21):
            return low == 21
        if low not in (25, 26, 27):
            raise Refused("unsupportedType")
        width = 1 << (low - 24)
        raw = argument.to_bytes(width, "big")
        number = struct.unpack({2: ">e", 4: ">f", 8: ">d"}[width], raw)[0]
        if encode(number)[1:] != raw:
            raise Refused("notShortest")
        return number


def decode(data):
    """A value set, or the code with which its bytes are rejected."""
    reader = Reader(data)
    major = data[0] >> 5 if data else None
    if major is not None and major != 5:
        raise Refused("notAValueSet")
    message = reader.value(1)
    if reader.place != len(data):
        raise Refused("trailingBytes")
    return message


def head(major, argument):
    if argument < 24:
        return bytes([major << 5 | argument])
    for code, width in ((24, 1), (25, 2), (26, 4), (27, 8)):
        if argument < 1 << (8 * width):
            return bytes([major << 5 | code]) + argument.to_bytes(width, "big")
    raise ValueError(argument)


def encode(value):
    name = kind(value)
    if name == "bool":
        return b"\xf5" if value else b"\xf4"
    if name == "integer":
        return head(0, value) if value >= 0 else head(1, -1 - value)
    if name == "date":
        whole = float(value).is_integer() and abs(value) < 1 << 53
        return b"\xc1" + encode(int(value) if whole else float(value))
    if name == "double":
        if math.isnan(value):
            return b"\xf9\x7e\x00"
        for form, code in ((">e", 0xF9), (">f", 0xFA)):
            try:
                packed = struct.pack(form, value)
            except OverflowError:
                continue
            if struct.unpack(form, packed)[0] == value:
                return bytes([code]) + packed
        return b"\xfb" + struct.pack(">d", value)
    if name == "string":
        return head(3, len(value.encode())) + value.encode()
    if name == "data":
        return head(2, len(value)) + value
    if name == "uuid":
        return b"\xd8\x25\x50" + value.bytes
    if name == "array":
        return head(4, len(value)) + b"".join(map(encode, value))
    entries = sorted((encode(key), encode(content)) for key, content in value.items())
    return head(5, len(entries)) + b"".join(key + content for key, content in entries)


def from_json(value):
    if isinstance(value, list):
        values = [from_json(item) for item in value]
        if len({kind(item) for item in values}) > 1:
            raise Refused("mixedArray")
        return values
    if value is None:
        raise Refused("unsupportedType")
    if not isinstance(value, dict):
        if kind(value) == "integer" and not -(2**63) <= value < 2**64:
            raise Refused("integerOutOfRange")
        return value
    tags = [key for key in value if key.startswith("$") and not key.startswith("$$")]
    if not tags:
        return {key[1:] if key.startswith("$$") else key: from_json(content) for key, content in value.items()}
    if len(value) > 1 or tags[0] not in ("$int", "$double", "$date", "$uuid", "$data"):
        raise Refused("unknownTag")
    tag, content = tags[0], value[tags[0]]
    if tag == "$date" and kind(content) in ("integer", "double"):
        return Date(content)
    if isinstance(content, str):
        if tag == "$int" and re.fullmatch("0|-?[1-9][0-9]*", content):
            return int(content)
        if tag == "$double" and content in ("NaN", "Infinity", "-Infinity"):
            return float(content.replace("Infinity", "inf"))
        if tag == "$uuid":
            return uuid.UUID(content)
        if tag == "$data":
            return strict_base64(content)
    raise Refused("invalidTagContent")


def strict_base64(text):
    try:
        data = base64.b64decode(text, validate=True)
    except ValueError:
        raise Refused("invalidTagContent")
    if base64.b64encode(data).decode() != text:
        raise Refused("invalidTagContent")
    return data


def unpadded(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def from_unpadded(text):
    if not re.fullmatch("[A-Za-z0-9_-]*", text) or len(text) % 4 == 1:
        raise Refused("malformed")
    data = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    if unpadded(data) != text:
        raise Refused("malformed")
    return data


def parse_json(text):
    def pairs(items):
        keys = [key for key, _ in items]
        if len(set(keys)) != len(keys):
            raise Refused("duplicateKey")
        return dict(items)

    def number(text):
        if math.isinf(float(text)):
            raise Refused("numberOutOfRange")
        return float(text)

    def constant(text):
        raise Refused("invalidSyntax")

    try:
        value = json.loads(text, object_pairs_hook=pairs, parse_float=number, parse_constant=constant)
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise Refused("invalidText")
    except ValueError:
        raise Refused("invalidSyntax")
    if not isinstance(value, dict):
        raise Refused("notAValueSet")
    return from_json(value)


def as_cbor2_reads(value):
    """The value as cbor2 decodes it."""
    name = kind(value)
    if name == "date":
        epoch = datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)
        try:
            return epoch + datetime.timedelta(seconds=float(value))
        except OverflowError:
            return None
    if name == "array":
        return [as_cbor2_reads(item) for item in value]
    if name == "set":
        return {key: as_cbor2_reads(content) for key, content in value.items()}
    return value


def same(left, right):
    if isinstance(left, float) and isinstance(right, float):
        return struct.pack(">d", left) == struct.pack(">d", right) or math.isnan(left) and math.isnan(right)
    if isinstance(left, list):
        return isinstance(right, list) and len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, dict):
        return isinstance(right, dict) and left.keys() == right.keys() and all(same(left[key], right[key]) for key in left)
    return type(left) is type(right) and left == right


def check_values(file):
    for vector in file["valid"]:
        data = bytes.fromhex(vector["cbor"])
        value = decode(data)
        expect(encode(value) == data, "values", vector["name"], "encoding")
        expect(encode(parse_json(vector["json"])) == data, "values", vector["name"], "JSON")
        read = as_cbor2_reads(value)
        # Python cannot represent dates beyond the year 9999.
        if not any(content is None for content in read.values()):
            expect(same(cbor2.loads(data), read), "values", vector["name"], "cbor2")
    for vector in file["refusedCBOR"]:
        expect(refusal(decode, bytes.fromhex(vector["cbor"])) == vector["error"], "values", vector["name"], vector["error"])
    for vector in file["refusedJSON"]:
        # Python's own reader has one error for all invalid JSON.
        found = refusal(parse_json, vector["json"])
        expect(found in (vector["error"], "invalidSyntax"), "values", vector["name"], vector["error"], "found", found)


# Keys and signatures: section 2.

SPKI = bytes.fromhex("3059301306072a8648ce3d020106082a8648ce3d030107034200")
ORDER = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551


def sha256(data):
    return hashlib.sha256(data).digest()


def identifier(spki):
    return base64.b32encode(sha256(spki)).decode().rstrip("=").lower()


def is_identifier(text):
    return isinstance(text, str) and re.fullmatch("[a-z2-7]{51}[aq]", text) is not None


def id_bytes(text):
    return base64.b32decode(text.upper() + "====")


def is_key(spki):
    if not isinstance(spki, bytes) or len(spki) != 91 or not spki.startswith(SPKI + b"\x04"):
        return False
    try:
        serialization.load_der_public_key(spki)
        return True
    except ValueError:
        return False


def is_signed(spki, statement, signature):
    if len(signature) != 64:
        return False
    r, s = int.from_bytes(signature[:32], "big"), int.from_bytes(signature[32:], "big")
    try:
        key = serialization.load_der_public_key(spki)
        key.verify(encode_dss_signature(r, s), statement, ec.ECDSA(hashes.SHA256()))
        return True
    except InvalidSignature:
        return False


def statement(purpose, message):
    return b"device-relay/1 " + purpose.encode() + b"\0" + message


def check_keys(file):
    for key in file["keys"]:
        private = ec.derive_private_key(int(key["private"], 16), ec.SECP256R1())
        point = private.public_key().public_bytes(serialization.Encoding.X962, serialization.PublicFormat.UncompressedPoint)
        expect(point.hex() == key["point"], "keys", key["name"], "point")
        expect((SPKI + point).hex() == key["spki"], "keys", key["name"], "spki")
        expect(identifier(SPKI + point) == key["id"], "keys", key["name"], "id")
        expect(sha256(point)[:16].hex() == key["keyID"], "keys", key["name"], "keyID")
    return {key["name"]: key for key in file["keys"]}


def is_word(text):
    return isinstance(text, str) and re.fullmatch("[!-~]{1,256}", text) is not None


def is_display(text, may_be_empty):
    # Characters are grapheme clusters; in these vectors each is one code point.
    if len(text) > 64 or len(text.encode()) > 16 * 64:
        raise Refused("limitExceeded")
    for character in text:
        category = unicodedata.category(character)
        if category in ("Cc", "Zl", "Zp") or category == "Cf" and character not in "\u200c\u200d":
            return False
    visible = any(not c.isspace() and unicodedata.category(c) != "Cf" and c != "\u2800" for c in text)
    return visible or may_be_empty and text == ""


FIELDS = {
    "endpointRecord": {
        "version": "integer", "account": "string", "identityKey": "key", "systemKey": "key", "systemSignature": "data",
        "agreementKey": "point", "linkKey": "point?", "name": "string", "kind": "string", "platform": "string", "manufacturer": "string?", "model": "string?",
        "invitationProof": "data?",
    },
    "appRegistration": {
        "version": "integer", "account": "string", "endpoint": "id", "appID": "string", "displayName": "string", "attributes": "set",
        "schemes": "array", "services": "array", "acceptsUnencryptedCommands": "bool",
    },
    "voucher": {
        "account": "string", "voucher": "id", "endpoint": "id", "system": "id", "recordVersion": "integer", "record": "digest",
        "knowledge": "string", "time": "integer",
    },
    "revocation": {"account": "string", "revoker": "id", "endpoint": "id", "time": "integer"},
    "receipt": {
        "command": "digest", "sender": "id", "target": "id", "outcome": "set", "reply": "digest?", "highest": "integer?", "time": "integer",
    },
    "header": {
        "suite": "integer", "id": "string", "account": "string", "relay": "id", "sender": "id", "target": "id", "senderApp": "string?",
        "targetApp": "string", "keyID": "data", "kind": "string", "number": "integer", "firstNumber": "integer?",
        "created": "integer", "expires": "integer",
    },
}
PURPOSES = {
    "endpointRecord": "endpoint record", "appRegistration": "app registration", "voucher": "voucher", "revocation": "revocation",
    "receipt": "receipt",
}
# The reason of each outcome: none, a text, an optional text, or one of these.
OUTCOMES = {
    "succeeded": None, "declined": "text?", "unsupported": None, "expired": None, "cancelled": None, "failed": "text",
    "indeterminate": ("interrupted", "timedOut", "forgotten", "targetLost"),
}


def fits(value, form):
    if form == "id":
        return is_identifier(value)
    if form == "key":
        return is_key(value)
    if form == "point":
        return isinstance(value, bytes) and is_key(SPKI + value)
    if form == "digest":
        return isinstance(value, bytes) and len(value) == 32
    return kind(value) == form


def form_of(body, name):
    """Rejects a body with missing fields or wrong types."""
    for field, form in FIELDS[name].items():
        optional, form = form.endswith("?"), form.rstrip("?")
        if field not in body and not optional or field in body and not fits(body[field], form):
            raise Refused("malformed")
    if name == "voucher" and body["knowledge"] not in ("verified", "firstSeen"):
        raise Refused("malformed")
    if name == "receipt":
        outcome = body["outcome"].get("outcome")
        if not isinstance(outcome, str) or outcome not in OUTCOMES:
            raise Refused("malformed")
        form, reason = OUTCOMES[outcome], body["outcome"].get("reason")
        if form == "text?" and reason is None:
            return
        if form in ("text", "text?") and not isinstance(reason, str) or isinstance(form, tuple) and reason not in form:
            raise Refused("malformed")


def open_envelope(encoded, name):
    try:
        envelope = decode(encoded)
        body = decode(envelope.get("body", b"") if isinstance(envelope.get("body"), bytes) else b"")
    except Refused:
        raise Refused("malformed")
    if set(envelope) != {"body", "signature"} or not isinstance(envelope["signature"], bytes):
        raise Refused("malformed")
    form_of(body, name)
    return body, envelope["body"], envelope["signature"]


def need(condition, code="invalidField"):
    if not condition:
        raise Refused(code)


def is_version(number):
    return 1 <= number < 1 << 53


def membership(account, endpoint):
    return account.encode() + b"\0" + id_bytes(endpoint)


def validate(body, name):
    if name in ("endpointRecord", "appRegistration"):
        need(is_version(body["version"]))
    if name == "voucher":
        need(is_version(body["recordVersion"]))
    if name != "receipt":
        need(is_word(body["account"]))
    if name == "endpointRecord":
        need(is_display(body["name"], False) and is_word(body["kind"]) and is_word(body["platform"]))
        need(is_display(body.get("manufacturer", ""), True) and is_display(body.get("model", ""), True))
        need(len(body.get("invitationProof", bytes(32))) == 32)
        message = membership(body["account"], identifier(body["identityKey"]))
        signed = is_signed(body["systemKey"], statement("system membership", message), body["systemSignature"])
        need(signed, "notPartOfSystem")
    if name == "appRegistration":
        need(is_word(body["appID"]) and is_display(body["displayName"], True))
        for field in ("attributes", "schemes", "services"):
            need(len(body[field]) <= 32, "limitExceeded")
        schemes = [scheme["name"] for scheme in body["schemes"]]
        need(all(map(is_word, body["attributes"])) and len(set(schemes)) == len(schemes))
        need(all(re.fullmatch("[a-z][a-z0-9+.-]{0,63}", scheme) for scheme in schemes))
        for service in body["services"]:
            need(len(service["name"].encode()) <= 128, "limitExceeded")
            need(all(map(is_word, [service["name"]] + service.get("allowedApps", []))))
    if name == "voucher":
        need(body["voucher"] != body["endpoint"])
    if name == "receipt":
        if body["outcome"]["outcome"] in ("declined", "failed"):
            need(len(body["outcome"].get("reason", "").encode()) <= 1024)
        need(is_version(body.get("highest", 1)))


def read_signed(encoded, name, key):
    body, raw, signature = open_envelope(encoded, name)
    need(is_signed(body["identityKey"] if key is None else key, statement(PURPOSES[name], raw), signature), "badSignature")
    validate(body, name)
    return body


def take_statement(encoded, name, key, account, record=None):
    """The reader's result for a statement that `key` must have signed."""
    signer = identifier(key)
    body = read_signed(encoded, name, None if name == "endpointRecord" else key)
    if name == "endpointRecord":
        need(identifier(body["identityKey"]) == signer, "wrongEndpoint")
    if name == "appRegistration":
        need(body["endpoint"] == signer, "wrongEndpoint")
    if name == "revocation":
        need(body["revoker"] == signer, "wrongEndpoint")
    if name == "voucher":
        newcomer = read_signed(record, "endpointRecord", None)
        need(body["voucher"] == signer and body["endpoint"] == identifier(newcomer["identityKey"]), "wrongEndpoint")
    need(body["account"] == account, "wrongAccount")
    if name == "voucher":
        need(body["system"] == identifier(newcomer["systemKey"]), "notPartOfSystem")
        need(newcomer["version"] >= body["recordVersion"], "outdated")
        need(newcomer["version"] > body["recordVersion"] or body["record"] == sha256(record), "versionReused")
    return body


def check_identity(file, keys):
    account = file["account"]
    for vector in file["valid"]:
        name, label = vector["kind"], ("identity", vector["kind"], vector["name"])
        key = bytes.fromhex(keys[vector["signer"]]["spki"])
        record = bytes.fromhex(vector.get("record", ""))
        take_statement(bytes.fromhex(vector["encoded"]), name, key, account, record)
        body, signature = bytes.fromhex(vector["body"]), bytes.fromhex(vector["signature"])
        expect(encode(from_json(vector["fields"])) == body, *label, "fields")
        expect(encode({"body": body, "signature": signature}).hex() == vector["encoded"], *label, "envelope")
        expect(vector["purpose"] == "device-relay/1 " + PURPOSES[name], *label, "purpose")
        expect(is_signed(key, statement(PURPOSES[name], body), signature), *label, "signature")
        expect(same(cbor2.loads(body), as_cbor2_reads(decode(body))), *label, "cbor2")
        if name == "endpointRecord":
            expect(membership(account, keys[vector["signer"]]["id"]).hex() == vector["membership"], *label, "membership")
    for vector in file["refused"]:
        key, record = bytes.fromhex(keys[vector["signer"]]["spki"]), bytes.fromhex(vector.get("record", ""))
        found = refusal(take_statement, bytes.fromhex(vector["encoded"]), vector["kind"], key, account, record)
        expect(found == vector["error"], "identity", vector["name"], vector["error"], "found", found)
    for sequence in file["sequences"]:
        version, known = 0, None
        for index, step in enumerate(sequence["steps"]):
            body = read_signed(bytes.fromhex(step["encoded"]), "endpointRecord", None)
            error = None
            if body["version"] < version:
                error = "outdated"
            elif body["version"] == version and body != known:
                error = "versionReused"
            else:
                version, known = body["version"], body
            expect(error == step.get("error"), "identity", sequence["name"], index)


# Invitations, hello and DPoP: section 2 and issuer.md.


def parse_link(text):
    need(len(text.encode()) <= 2048, "tooLong")
    need("#" in text, "noFragment")
    address, fragment = text.split("#", 1)
    members = {}
    for member in fragment.split(","):
        key, found, content = member.partition("=")
        if found:
            need(key not in members, "repeatedMember")
            members[key] = content
    need("relay" in members and "invite" in members, "missing")
    need(is_identifier(members["relay"]), "member")
    need("by" not in members or is_identifier(members["by"]), "member")
    need(not address.startswith("http://"), "plainHTTP")
    need(address.startswith("https://"), "scheme")
    match = re.fullmatch(r"https://([A-Za-z0-9.-]{1,255}|\[[0-9a-fA-F:.]+\])(?::([0-9]+))?/?", address)
    need(match and (match[2] is None or 0 < int(match[2]) < 65536), "address")
    for secret in ("invite", "proof"):
        need(secret not in members or re.fullmatch("[A-Za-z0-9_-]{1,256}", members[secret]), "member")
    need("by" not in members or "proof" in members, "missing")
    return address.rstrip("/"), members


def proquint(number):
    consonants, vowels = "bdfghjklmnprstvz", "aiou"
    return "".join(
        (consonants[number >> shift & 15] if is_consonant else vowels[number >> shift & 3])
        for shift, is_consonant in ((12, True), (10, False), (6, True), (4, False), (0, True))
    )


def check_fingerprints(file):
    by_name, ids = {}, {}
    for vector in file["fingerprints"]:
        hashed = statement("fingerprint", id_bytes(vector["endpoint"]) + id_bytes(vector["system"]))
        expect(hashed.hex() == vector["statement"], "fingerprint", "statement", vector["name"])
        words = "-".join(proquint(number) for number in struct.unpack(">5H", hashlib.sha256(hashed).digest()[:10]))
        expect(words == vector["words"], "fingerprint", vector["name"])
        by_name[vector["name"]] = (id_bytes(vector["endpoint"]), words)
        ids[vector["name"]] = vector["endpoint"]
    for vector in file["codes"]:
        pair = sorted([by_name[vector["own"]], by_name[vector["other"]]])
        expect(" ".join(words for _, words in pair) == vector["code"], "code", vector["own"], vector["other"])
    by_text = [sorted([vector["own"], vector["other"]], key=lambda name: ids[name]) for vector in file["codes"]]
    by_bytes = [sorted([vector["own"], vector["other"]], key=lambda name: by_name[name]) for vector in file["codes"]]
    expect(by_text != by_bytes, "codes", "no pair of ids sorts otherwise as text")


def check_nearby(file, keys):
    def private(name):
        return ec.derive_private_key(int(keys[name]["private"], 16), ec.SECP256R1())

    for vector in file["pairs"]:
        ids = {name: id_bytes(keys[name]["id"]) for name in vector["identities"]}
        salt = b"".join(sorted(ids.values()))
        expect(salt.hex() == vector["salt"], "nearby", "salt")
        for own in (0, 1):
            secret = private(vector["links"][own]).exchange(ec.ECDH(), private(vector["links"][1 - own]).public_key())
            derived = {
                purpose: HKDF(hashes.SHA256(), 32, salt, f"device-relay/1 nearby {purpose}".encode()).derive(secret)
                for purpose in ("tag", "knock", "candidates")
            }
            expect(all(derived[purpose].hex() == vector[purpose + "Key"] for purpose in derived), "nearby", "keys")
            for tag in vector["tags"]:
                made = hmac.digest(derived["tag"], bytes.fromhex(tag["nonce"]) + ids[tag["advertiser"]], "sha256")[:4]
                expect(made.hex() == tag["tag"], "nearby", "tag")
            for knock in vector["knocks"]:
                text = b"DRL1" + bytes.fromhex(knock["challenge"]) + bytes([knock["kind"]]) + bytes.fromhex(knock["nonce"])
                text += ids[knock["dialer"]] + ids[knock["listener"]]
                expect(text.hex() == knock["statement"], "nearby", "statement")
                expect(hmac.digest(derived["knock"], text, "sha256").hex() == knock["proof"], "nearby", "proof")
            for told in vector["candidates"]:
                data = bytes.fromhex(told["tunnel"]) + ids[told["sender"]]
                expect(data.hex() == told["associatedData"], "candidates", "associated data")
                sealed = bytes.fromhex(told["sealed"])
                expect(sealed[:12].hex() == told["nonce"], "candidates", "nonce")
                content = AESGCM(derived["candidates"]).decrypt(sealed[:12], sealed[12:], data)
                expect(content.hex() == told["content"], "candidates", "content")
                addresses = [ipaddress.ip_address(address).packed for address in told["addresses"]]
                expect(read_candidates(content) == (told["port"], addresses), "candidates", "fields")
                expect(encode({"port": told["port"], "addresses": addresses}) == content, "candidates", "encoding")
            for refused in vector["refusedCandidates"]:
                sealed, data = bytes.fromhex(refused["sealed"]), bytes.fromhex(refused["tunnel"]) + ids[refused["sender"]]
                try:
                    read_candidates(AESGCM(derived["candidates"]).decrypt(sealed[:12], sealed[12:], data))
                except (InvalidTag, ValueError, Refused):
                    continue
                expect(False, "candidates", refused["name"])


def read_candidates(content):
    fields = decode(content)
    port, addresses = fields.get("port"), fields.get("addresses")
    need(isinstance(port, int) and 1024 <= port < 1 << 16 and isinstance(addresses, list) and len(addresses) <= 8)
    need(all(isinstance(address, bytes) and len(address) in (4, 16) for address in addresses))
    return port, addresses


# Pairing without an account: section 9.


def parse_place(text):
    address, dash, port = text.partition("-")
    need(dash and re.fullmatch("[1-9][0-9]{3,4}", port) and 1024 <= int(port) < 65536, "member")
    try:
        address = ipaddress.ip_address(address)
    except ValueError:
        raise Refused("member")
    need(getattr(address, "scope_id", None) is None, "member")
    address = getattr(address, "ipv4_mapped", None) or address
    refused = address.is_loopback or address.is_link_local or address.is_multicast or address.is_unspecified
    need(not refused and str(address) != "255.255.255.255", "member")
    return address, int(port)


def parse_pairing_link(text):
    need(len(text.encode()) <= 1024, "tooLong")
    need(text.startswith("device-relay-pair:"), "scheme")
    rest = text.removeprefix("device-relay-pair:")
    need(rest.startswith("#"), "noFragment")
    members = {}
    for member in rest[1:].split(","):
        name, found, content = member.partition("=")
        need(found, "noMember")
        members.setdefault(name, []).append(content)
    for name in ("id", "secret", "at"):
        need(name in members, "missing")
        need(name == "at" or len(members[name]) == 1, "repeatedMember")
    need(is_identifier(members["id"][0]), "member")
    try:
        secret = from_unpadded(members["secret"][0])
    except Refused:
        raise Refused("member")
    need(len(secret) == 16, "member")
    need(len(members["at"]) <= 8, "tooManyAddresses")
    return members["id"][0], secret, [parse_place(place) for place in members["at"]]


def check_pairing(file, keys):
    def ids(vector):
        return id_bytes(keys[vector["caller"]]["id"]) + id_bytes(keys[vector["shower"]]["id"])

    for vector in file["commitments"]:
        text = statement("pairing code", bytes([vector["role"], vector["round"], vector["bit"]]) + ids(vector))
        expect(text.hex() == vector["statement"], "pairing", "statement of a commitment")
        made = hmac.digest(bytes.fromhex(vector["nonce"]), text, "sha256")
        expect(made.hex() == vector["commitment"], "pairing", "commitment", vector["round"], vector["role"])
    for vector in file["proofs"]:
        text = statement("pairing secret", bytes([vector["role"]]) + ids(vector))
        expect(text.hex() == vector["statement"], "pairing", "statement of a proof")
        expect(hmac.digest(bytes.fromhex(vector["secret"]), text, "sha256").hex() == vector["proof"], "pairing", "proof")
    typed = re.compile("( *[0-9]){4} *-?( *[0-9]){4} *")
    for vector in file["codes"]:
        digits = re.sub("[ -]", "", vector["typed"])
        expect(typed.fullmatch(vector["typed"]), "pairing", "typed code", vector["typed"])
        expect(digits[:4] + " " + digits[4:] == vector["shown"], "pairing", "shown code", vector["typed"])
        expect(f"{int(digits):027b}" == vector["bits"], "pairing", "bits", vector["typed"])
    for code in file["refusedCodes"]:
        expect(not typed.fullmatch(code), "pairing", "refused code", code)
    for vector in file["links"]:
        name, secret, places = parse_pairing_link(vector["link"])
        expect((name, secret.hex()) == (vector["id"], vector["secret"]), "pairing link", vector["name"])
        expect([{"address": place.packed.hex(), "port": port} for place, port in places] == vector["places"], "pairing link", vector["name"])
        written = f"device-relay-pair:#id={name},secret={unpadded(secret)}" + "".join(f",at={place}-{port}" for place, port in places)
        expect(written == vector["written"], "pairing link", vector["name"], "text")
    for vector in file["refusedLinks"]:
        found = refusal(parse_pairing_link, vector["link"])
        expect(found == vector["error"], "pairing link", vector["name"], vector["error"], "found", found)


def check_invitations(file):
    def proof(vector):
        return hmac.digest(bytes.fromhex(vector["secret"]), statement("invitation", id_bytes(vector["endpoint"])), "sha256").hex()

    for vector in file["invitations"]:
        expect(statement("invitation", id_bytes(vector["endpoint"])).hex() == vector["statement"], "invitation", "statement")
        expect(proof(vector) == vector["proof"], "invitation", "proof")
        origin, members = parse_link(vector["link"])
        expect(origin == vector["origin"], "invitation", "origin")
        expect(all(members[name] == vector[name] for name in ("relay", "invite", "by")), "invitation", "members")
        expect(from_unpadded(members["proof"]).hex() == vector["secret"], "invitation", "secret")
    for vector in file["refusedProofs"]:
        expect(proof(vector) != vector["proof"], "invitation", vector["name"])
    for vector in file["refusedLinks"]:
        found = refusal(parse_link, vector["link"])
        expect(found == vector["error"], "link", vector["name"], vector["error"], "found", found)


def check_hello(file, keys):
    for vectors, valid in ((file["valid"], True), (file["refused"], False)):
        for vector in vectors:
            message = encode(
                {
                    "relay": vector["relay"], "origin": vector["origin"], "nonce": bytes.fromhex(vector["nonce"]),
                    "token": sha256(vector["token"].encode()), "record": sha256(bytes.fromhex(vector["record"])),
                }
            )
            expect(message.hex() == vector["statement"], "hello", vector["name"], "statement")
            key = bytes.fromhex(keys[vector["signer"]]["spki"])
            signed = is_signed(key, statement("hello", message), bytes.fromhex(vector["signature"]))
            expect(signed == valid, "hello", vector["name"])


def take_proof(vector):
    parts = vector["proof"].split(".")
    need(len(parts) == 3, "malformed")
    header, claims, signature = (from_unpadded(part) for part in parts)
    try:
        header, claims = json.loads(header), json.loads(claims)
    except ValueError:
        raise Refused("malformed")
    need(header.get("typ") == "dpop+jwt", "malformed")
    need(header.get("alg") == "ES256", "algorithm")
    jwk = header["jwk"]
    need(jwk.get("kty") == "EC" and jwk.get("crv") == "P-256", "malformed")
    spki = SPKI + b"\x04" + from_unpadded(jwk["x"]) + from_unpadded(jwk["y"])
    need(is_key(spki), "malformed")
    need(is_signed(spki, ".".join(parts[:2]).encode(), signature), "signature")
    need(1 <= len(claims["jti"].encode()) <= 256, "malformed")
    need(claims["htm"] == vector["method"], "method")
    need(claims["htu"] == vector["url"], "url")
    need(abs(claims["iat"] * 1000 - vector["time"]) <= 60_000, "time")
    if "accessToken" in vector:
        need(claims.get("ath") == unpadded(sha256(vector["accessToken"].encode())), "accessToken")
    return spki, jwk


def check_dpop(file, keys):
    for vector in file["valid"]:
        spki, jwk = take_proof(vector)
        expect(spki.hex() == keys[vector["signer"]]["spki"], "dpop", vector["name"], "key")
        members = json.dumps({name: jwk[name] for name in ("crv", "kty", "x", "y")}, separators=(",", ":"))
        expect(unpadded(sha256(members.encode())) == vector["thumbprint"], "dpop", vector["name"], "thumbprint")
        parts = vector["proof"].split(".")
        expect([unpadded(vector[part].encode()) for part in ("header", "claims")] == parts[:2], "dpop", vector["name"], "parts")
    for vector in file["refused"]:
        expect(refusal(take_proof, vector) == vector["error"], "dpop", vector["name"], vector["error"])


# Sealed commands: section 3, and RFC 9180 with DHKEM(P-256, HKDF-SHA256), HKDF-SHA256, AES-256-GCM.


def extract(suite, salt, label, material):
    return hmac.digest(salt or bytes(32), b"HPKE-v1" + suite + label + material, "sha256")


def expand(suite, key, label, info, count):
    labeled = count.to_bytes(2, "big") + b"HPKE-v1" + suite + label + info
    output, block, index = b"", b"", 1
    while len(output) < count:
        block = hmac.digest(key, block + labeled + bytes([index]), "sha256")
        output, index = output + block, index + 1
    return output[:count]


def hpke(private, point, encapsulated, recipient, info):
    """AES-GCM's key and nonce for the first message."""
    kem, suite = b"KEM\x00\x10", b"HPKE\x00\x10\x00\x01\x00\x02"
    shared = private.exchange(ec.ECDH(), ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), point))
    secret = expand(kem, extract(kem, b"", b"eae_prk", shared), b"shared_secret", encapsulated + recipient, 32)
    context = b"\0" + extract(suite, b"", b"psk_id_hash", b"") + extract(suite, b"", b"info_hash", info)
    scheduled = extract(suite, secret, b"secret", b"")
    return AESGCM(expand(suite, scheduled, b"key", context, 32)), expand(suite, scheduled, b"base_nonce", context, 12)


def private_key(key):
    return ec.derive_private_key(int(key["private"], 16), ec.SECP256R1())


def unseal(recipient, encapsulated, ciphertext, info, data):
    try:
        cipher, nonce = hpke(private_key(recipient), encapsulated, encapsulated, bytes.fromhex(recipient["point"]), info)
        return cipher.decrypt(nonce, ciphertext, data)
    except (InvalidTag, ValueError):
        raise Refused("cannotOpen")


def check_seal(seal, keys, *label):
    recipient, ephemeral = keys[seal["recipient"]], keys[seal["ephemeral"]]
    point, encapsulated = bytes.fromhex(recipient["point"]), bytes.fromhex(ephemeral["point"])
    expect(encapsulated.hex() == seal["key"], *label, "encapsulated key")
    cipher, nonce = hpke(private_key(ephemeral), point, encapsulated, point, seal["info"].encode())
    data = bytes.fromhex(seal["associatedData"])
    expect(cipher.encrypt(nonce, bytes.fromhex(seal["plain"]), data).hex() == seal["ciphertext"], *label, "ciphertext")
    opened = unseal(recipient, encapsulated, bytes.fromhex(seal["ciphertext"]), seal["info"].encode(), data)
    expect(opened.hex() == seal["plain"], *label, "plain")


DAY = 86_400_000
COMMAND_ID = re.compile("[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")
URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]{0,63}:[A-Za-z0-9\-._~:/?#\[\]@!$&'()*+,;=%]*")


def is_uri(text):
    return isinstance(text, str) and URI.fullmatch(text) is not None


def take_command(encoded, file, keys):
    try:
        envelope = decode(encoded)
        header_bytes = envelope.get("header")
        header = decode(header_bytes) if isinstance(header_bytes, bytes) else None
    except Refused:
        raise Refused("malformed")
    need(set(envelope) == {"header", "key", "body", "signature"} and header is not None, "malformed")
    need(all(isinstance(content, bytes) for content in envelope.values()), "malformed")
    need(len(envelope["key"]) == 65 and len(envelope["signature"]) == 64, "malformed")
    need(kind(header.get("suite", "")) == "integer", "malformed")
    need(header["suite"] == 1, "unknownSuite")
    form_of(header, "header")
    words = [header["account"], header["targetApp"], header.get("senderApp", "x")]
    need(all(map(is_word, words)) and header["kind"] in ("launch", "message") and len(header["keyID"]) == 16, "malformed")
    need(COMMAND_ID.fullmatch(header["id"]), "malformed")
    need(is_version(header["number"]) and 0 <= header["created"] < header["expires"] < 1 << 53, "malformed")
    need(1 <= header.get("firstNumber", 1) and header.get("firstNumber", 0) < header["number"], "malformed")
    need(header["account"] == file["account"], "wrongAccount")
    need(header["relay"] == file["relay"], "wrongRelay")
    need(header["target"] == keys[file["target"]]["id"], "wrongTarget")
    need(header["sender"] == keys[file["sender"]]["id"], "wrongSender")
    message = header_bytes + envelope["key"] + envelope["body"]
    signed = is_signed(bytes.fromhex(keys[file["sender"]]["spki"]), statement("command", message), envelope["signature"])
    need(signed, "badSignature")
    need(header["expires"] - header["created"] <= 28 * DAY, "livesTooLong")
    need(file["time"] < header["expires"], "expired")
    recipient = keys["pc.agreement"]
    need(header["keyID"].hex() == recipient["keyID"], "unknownKey")
    plain = unseal(recipient, envelope["key"], envelope["body"], b"device-relay/1 command", header_bytes)
    try:
        body = decode(plain)
    except Refused:
        raise Refused("malformedBody")
    if header["kind"] == "launch":
        need(is_uri(body.get("uri")) and is_uri(body.get("fallbackURI", "a:")), "malformedBody")
    else:
        need(isinstance(body.get("service"), str) and isinstance(body.get("message"), dict), "malformedBody")
    return header, body


def take_reply(encoded, command, keys):
    try:
        envelope = decode(encoded)
    except Refused:
        raise Refused("malformed")
    need(set(envelope) == {"keyID", "key", "body"} and all(isinstance(item, bytes) for item in envelope.values()), "malformed")
    need(len(envelope["keyID"]) == 16 and len(envelope["key"]) == 65, "malformed")
    recipient = keys["phone.agreement"]
    need(envelope["keyID"].hex() == recipient["keyID"], "unknownKey")
    plain = unseal(recipient, envelope["key"], envelope["body"], b"device-relay/1 reply", sha256(command))
    try:
        return decode(plain)
    except Refused:
        raise Refused("malformedBody")


def take_receipt(encoded, command, reply, file, keys):
    try:
        body = read_signed(encoded, "receipt", bytes.fromhex(keys[file["target"]]["spki"]))
    except Refused as refused:
        raise Refused("badSignature" if refused.code == "badSignature" else "malformed")
    need(body["command"] == sha256(command), "wrongCommand")
    need(body["sender"] == keys[file["sender"]]["id"], "wrongSender")
    need(body["target"] == keys[file["target"]]["id"], "wrongTarget")
    need(body.get("reply") == (sha256(reply) if reply is not None else None), "wrongCommand")
    return body


def check_commands(file, keys):
    blobs = {vector["name"]: bytes.fromhex(vector["encoded"]) for vector in file["commands"]}
    for vector in file["commands"]:
        label, blob = ("command", vector["name"]), blobs[vector["name"]]
        header, body = take_command(blob, file, keys)
        expect(encode(from_json(vector["header"])) == encode(header), *label, "header")
        expect(encode(header).hex() == vector["headerBytes"] == vector["seal"]["associatedData"], *label, "header's bytes")
        expect(encode(from_json(vector["body"])) == encode(body) == bytes.fromhex(vector["seal"]["plain"]), *label, "body")
        check_seal(vector["seal"], keys, *label)
        parts = {"header": vector["headerBytes"], "key": vector["seal"]["key"], "body": vector["seal"]["ciphertext"], "signature": vector["signature"]}
        expect(encode({name: bytes.fromhex(part) for name, part in parts.items()}) == blob, *label, "blob")
        expect(sha256(blob).hex() == vector["digest"], *label, "digest")
    seen = set()
    for vector in file["receipts"]:
        label, reply = ("receipt", vector["name"]), vector.get("reply")
        reply_bytes = bytes.fromhex(reply["encoded"]) if reply else None
        body = take_receipt(bytes.fromhex(vector["encoded"]), blobs[vector["command"]], reply_bytes, file, keys)
        expect(encode(from_json(vector["fields"])) == encode(body) == bytes.fromhex(vector["body"]), *label, "fields")
        seen.add((body["outcome"]["outcome"], body["outcome"].get("reason") is not None))
        signature = bytes.fromhex(vector["signature"])
        expect(encode({"body": encode(body), "signature": signature}).hex() == vector["encoded"], *label, "envelope")
        if reply:
            message = take_reply(reply_bytes, blobs[vector["command"]], keys)
            expect(encode(message) == encode(from_json(reply["message"])), *label, "reply")
            expect(sha256(reply_bytes).hex() == reply["digest"], *label, "reply's digest")
            check_seal(reply["seal"], keys, *label)
    expected = {(outcome, form is not None) for outcome, form in OUTCOMES.items()} | {("declined", False)}
    expect(expected <= seen, "receipt", "every outcome", expected - seen)
    for vector in file["refused"]:
        data, command = bytes.fromhex(vector["encoded"]), blobs.get(vector.get("command"))
        if vector["kind"] == "command":
            found = refusal(take_command, data, file, keys)
        elif vector["kind"] == "reply":
            found = refusal(take_reply, data, command, keys)
        else:
            reply = bytes.fromhex(vector["reply"]) if "reply" in vector else None
            found = refusal(take_receipt, data, command, reply, file, keys)
        expect(found == vector["error"], vector["kind"], vector["name"], vector["error"], "found", found)


# The control channel: section 5.


def size(value):
    """The nesting depth of a JSON value, and the number of its values, including keys."""
    depth, count, level = 0, 0, [value]
    while level:
        count += len(level) + sum(len(item) for item in level if isinstance(item, dict))
        level = [item for item in level if isinstance(item, (dict, list))]
        depth += 1 if level else 0
        level = [inner for item in level for inner in (item.values() if isinstance(item, dict) else item)]
    return depth, count


def take_frame(data):
    """A message, or the code with which the channel is closed."""
    need(b"\0" not in data and not data.startswith(b"\xef\xbb\xbf"), 1007)
    try:
        message = json.loads(data.decode("utf-8", "strict"))
    except (ValueError, RecursionError):
        raise Refused(1007)
    need(isinstance(message, dict) and isinstance(message.get("type"), str), 1007)
    depth, count = size(message)
    need(depth <= 512 and count <= 4096, 1007)
    return message


# The types of fields from the page's tables: `?` marks an optional field; base64 has a minimum and maximum of bytes, or a limit.
RECORD, VOUCHER, RECEIPT = "base64 1 8192", "base64 1 1024", "base64 1 4096"
INTRODUCTION = {"record": RECORD, "vouchers?": [VOUCHER]}
PRESENCE = {"state": "text", "reason": "text", "since?": "ms", "expectedWithin?": "ms", "wakeable?": "flag"}
JOINING = {"time": "ms", "invitedBy?": "id", "address?": "text"}
LIMIT = {"name": "text", "allowed": "integer", "requested": "integer"}
ENTRANCE = {"tunnel": "tunnel", "token": "base64 32 32", "urls": ["text"]}
CANDIDATES = {"tunnel": "tunnel", "candidates": "base64 1 1024"}
REGISTRATION = "base64 limit 16384"
COMMAND, REPLY = "base64 limit 262144", "base64 limit 262144"
MESSAGES = {
    "endpoint": {
        "hello": {
            "version": "integer", "token": "text", "record": RECORD, "origin": "text", "signature": "base64 64 64", "role": "text",
            "instance": "base64 16 16", "features": ["text"],
        },
        "publish": {"ref": "ref", "registration": REGISTRATION},
        "unpublish": {"ref": "ref", "appID": "text"},
        "endpoint.update": {"ref": "ref", "record": RECORD},
        "endpoint.approve": {"ref": "ref", "endpoint": "id", "voucher": VOUCHER},
        "endpoint.revoke": {"ref": "ref", "endpoint": "id", "revocation": VOUCHER},
        "leaving": {"ref": "ref", "reason": "text"},
        "identity.link": {"ref": "ref", "token": "text"},
        "notifications.register": {"ref": "ref", "appID": "text", "displayName": "text", "channel": {"type": "text"}},
        "watch": {"ref": "ref"},
        "unwatch": {"ref": "ref"},
        "command.send": {"ref": "ref", "command": COMMAND, "again?": "flag"},
        "command.cancel": {"ref": "ref", "id": "command"},
        "command.received": {"sender": "id", "id": "command"},
        "command.result": {"ref": "ref", "sender": "id", "id": "command", "receipt": RECEIPT, "reply?": REPLY},
        "command.acknowledge": {"id": "command"},
        "mailbox.drain": {"ref": "ref"},
        "tunnel.open": {"ref": "ref", "target": "id", "timeout": "ms"},
        "tunnel.decline": {"tunnel": "tunnel"},
        "tunnel.candidates": CANDIDATES,
        "auth.refresh": {"ref": "ref", "token": "text"},
    },
    "relay": {
        "challenge": {"nonce": "base64 32 32", "relay": "id", "time": "ms", "versions": ["integer"], "features": ["text"]},
        "welcome": {"limits": {}, "intervals": {"ping": "ms", "dead": "ms"}, "urls": ["text"], "features": ["text"]},
        "rejected": {"code": "text", "message": "text", "retry": "flag", "retryAfter?": "ms", "limit?": LIMIT, "account?": "text"},
        "ok": {"ref": "ref", "result?": {"state?": "text", "tunnel?": "tunnel", "waking?": "flag"}},
        "error": {
            "ref": "ref", "code": "text", "message": "text", "limit?": LIMIT, "retryAfter?": "ms", "time?": "ms", "mayHaveRun?": "flag",
            "highest?": "ref",
        },
        "endpoint.added": {
            "endpoint": "id", "introduction": INTRODUCTION, "registrations": [REGISTRATION], "presence": PRESENCE, "joining?": JOINING,
        },
        "endpoint.updated": {"endpoint": "id", "introduction?": INTRODUCTION, "registrations?": [REGISTRATION], "presence?": PRESENCE},
        "endpoint.removed": {"endpoint": "id", "revoked": "flag", "revocation?": VOUCHER},
        "enumeration.completed": {},
        "notifications.state": {"appID": "text", "state": "text"},
        "identity.changed": {"change": "text", "issuer": "text", "endpoint?": "id", "time": "ms"},
        "command": {"command": COMMAND, "sender?": INTRODUCTION, "received?": "flag"},
        "command.cancel": {"sender": "id", "id": "command"},
        "command.settled": {"ref": "ref", "sender": "id", "id": "command"},
        "command.status": {"id": "command", "state": "text", "attestedBy?": "text", "receipt?": RECEIPT, "reply?": REPLY, "outcome?": "text",
                           "channel?": "text", "expectedWithin?": "ms"},
        "tunnel.offer": {"entrance": ENTRANCE, "opener": INTRODUCTION},
        "tunnel.ready": {"entrance": ENTRANCE},
        "tunnel.failed": {"tunnel": "tunnel", "code": "text", "message": "text", "retryAfter?": "ms"},
        "tunnel.candidates": CANDIDATES,
        "auth.expiring": {"expires": "ms"},
        "auth.invalidated": {"code": "text", "message": "text"},
        "replaced": {},
        "restarting": {"after": "ms", "spread": "ms"},
    },
}
# The channel types of notifications.register.
CHANNELS = {
    "apns": {"token": "text", "environment": "text"}, "fcm": {"token": "text"}, "wns": {"token": "text"},
    "webPush": {"token": "text", "publicKey": "base64 65 65", "secret": "base64 16 16"}, "polling": {"interval?": "ms"},
}


def is_integer(value, least):
    return isinstance(value, int) and not isinstance(value, bool) and least <= value < 1 << 53


def check_field(value, form):
    if isinstance(form, list):
        need(isinstance(value, list), "malformed")
        for item in value:
            check_field(item, form[0])
    elif isinstance(form, dict):
        need(isinstance(value, dict), "malformed")
        check_fields(value, form)
    elif form.startswith("base64"):
        need(isinstance(value, str), "malformed")
        _, least, most = form.split()
        count = len(value) // 4 * 3 - value[-2:].count("=")
        if least == "limit":
            need(count <= int(most), "limitExceeded")
        else:
            need(int(least) <= count <= int(most), "malformed")
        need(refusal(strict_base64, value) is None, "malformed")
    else:
        fitting = {
            "ref": lambda: is_integer(value, 1),
            "ms": lambda: is_integer(value, 0),
            "integer": lambda: is_integer(value, -(2**53) + 1),
            "flag": lambda: isinstance(value, bool),
            "text": lambda: isinstance(value, str),
            "id": lambda: is_identifier(value),
            "command": lambda: isinstance(value, str) and COMMAND_ID.fullmatch(value) is not None,
            "tunnel": lambda: isinstance(value, str) and re.fullmatch("[0-9a-f]{32}", value) is not None,
        }
        need(fitting[form](), "malformed")


def check_fields(message, fields):
    for name, form in fields.items():
        value = message.get(name.rstrip("?"))
        if value is None:
            need(name.endswith("?"), "malformed")
        else:
            check_field(value, form)


def check_message(message, side):
    check_fields(message, MESSAGES[side][message["type"]])
    if message["type"] == "notifications.register":
        check_fields(message["channel"], CHANNELS[message["channel"]["type"]])
    if message["type"] == "command.status" and message["state"] == "final":
        if message.get("attestedBy") == "target":
            need("receipt" in message, "malformed")
        else:
            known = (("expired", None), ("cancelled", None), ("indeterminate", "targetLost"))
            need(message.get("attestedBy") == "relay" and (message.get("outcome"), message.get("reason")) in known, "malformed")


def judge(data, side):
    """The receiver's reaction to a frame that is not a valid message; empty for a valid one."""
    try:
        message = take_frame(data)
    except Refused as refused:
        return {"closes": refused.code}
    fields, ref = MESSAGES[side].get(message["type"]), message.get("ref")
    can_be_answered = side == "endpoint" and is_integer(ref, 1)
    if fields is None:
        return {"answers": "unknownType"} if can_be_answered else {"isIgnored": True}
    error = refusal(check_message, message, side)
    if error is None:
        return {}
    if can_be_answered and "ref" in fields:
        return {"answers": error}
    return {"closes": 1007 if error == "malformed" else 1009}


def check_control(file, identity, commands, keys):
    challenge, hello = None, None
    pc, account = bytes.fromhex(keys["pc.identity"]["spki"]), identity["account"]
    blobs = {vector["encoded"] for vector in commands["commands"] + commands["receipts"]}
    seen = {"endpoint": set(), "relay": set()}
    for vector in file["valid"]:
        label = ("control", vector["from"], vector["name"])
        message = take_frame(vector["frame"].encode())
        expect(message["type"] == vector["type"], *label)
        expect(judge(vector["frame"].encode(), vector["from"]) == {}, *label, "fields")
        seen[vector["from"]].add(message["type"])
        introduction = message.get("introduction") or message.get("opener") or (message.get("sender") if message["type"] == "command" else None)
        if introduction:
            record = strict_base64(introduction["record"])
            body = read_signed(record, "endpointRecord", None)
            expect(identifier(body["identityKey"]) == message.get("endpoint", identifier(body["identityKey"])), *label, "endpoint")
            for voucher in introduction.get("vouchers", []):
                take_statement(strict_base64(voucher), "voucher", pc, account, record)
        if "revocation" in message:
            body = take_statement(strict_base64(message["revocation"]), "revocation", pc, account)
            expect(body["endpoint"] == message["endpoint"], *label, "revocation")
        if message["type"] == "publish":
            take_statement(strict_base64(message["registration"]), "appRegistration", pc, account)
        for name in ("command", "receipt"):
            if isinstance(message.get(name), str):
                expect(strict_base64(message[name]).hex() in blobs, *label, name)
        if message["type"] == "challenge":
            challenge = message
        if message["type"] == "hello":
            hello = message
    expect(all(seen[side] == set(MESSAGES[side]) for side in seen), "control", "every message")
    record = strict_base64(hello["record"])
    message = encode(
        {
            "relay": challenge["relay"], "origin": hello["origin"], "nonce": strict_base64(challenge["nonce"]),
            "token": sha256(hello["token"].encode()), "record": sha256(record),
        }
    )
    key = read_signed(record, "endpointRecord", None)["identityKey"]
    expect(is_signed(key, statement("hello", message), strict_base64(hello["signature"])), "control", "the hello answers the challenge")
    for vector in file["refused"]:
        expected = {name: vector[name] for name in ("closes", "answers", "isIgnored") if name in vector}
        found = judge(bytes.fromhex(vector["frame"]), vector["from"])
        expect(expected and found == expected, "control", vector["name"], expected, "found", found)


# Sessions: section 6.

TYPES = "settings open opened refused request response error data grant cancel window ping pong close goaway ack moved".split()
LENGTHS = [
    (1, 4096), (2, 4098), (0, 0), (2, 1026), (2, 36866), (2, 36866), (2, 1026), (1, 32768), (0, 0), (0, 0), (4, 4), (8, 8), (8, 8), (2, 1026),
    (6, 1030), (8, 8), (8, 8),
]
SUBJECTS = [0, 1, 1, 1, 2, 2, 2, 2, 2, 2, 1, 0, 0, 1, 0, 0, 0]
FLAGS = {8: 3, 9: 2}
ERRORS = dict(
    enumerate(
        (
            "invalidFrame frameTooLarge unknownFrameType invalidMetadata settingsExpected versionUnsupported invalidConnection invalidRequest "
            "unexpectedFrame"
        ).split(),
        1,
    )
) | {20: "invalidMove"}


def frame_bytes(kind_number, flags, connection, request, body):
    return struct.pack(">IBBII", len(body), kind_number, flags, connection, request) + body


def read_map(data):
    try:
        return decode(data)
    except Refused:
        raise Refused("invalidMetadata")


def read_metadata(body):
    count = int.from_bytes(body[:2], "big")
    need(count <= 4096, "frameTooLarge")
    need(count <= len(body) - 2, "invalidFrame")
    return read_map(body[2 : 2 + count]) if count else {}, body[2 + count :]


def take_session(data):
    """The TLS client's result for a stream from the start of a session. Raises the violated rule."""
    place, settings, opened = 0, False, set()
    highest = 0
    while place + 14 <= len(data):
        length, number, flags, connection, request = struct.unpack(">IBBII", data[place : place + 14])
        if not 1 <= number <= 17:
            need(number >= 0x80, "unknownFrameType")
            need(length <= 65536, "frameTooLarge")
            place += 14 + length
            continue
        low, high = LENGTHS[number - 1]
        need(length <= high, "frameTooLarge")
        subject = SUBJECTS[number - 1]
        need(length >= low and flags & ~FLAGS.get(number, 0) == 0, "invalidFrame")
        need((connection != 0) == (subject > 0) and (request != 0) == (subject > 1), "invalidFrame")
        body = data[place + 14 : place + 14 + length]
        place += 14 + length
        if len(body) < length:
            return
        name, rest, metadata = TYPES[number - 1], b"", {}
        if name == "settings":
            metadata = read_map(body)
            need(kind(metadata.get("version", "")) == "integer" and metadata["version"] >= 0, "invalidMetadata")
            limits = metadata.get("limits", {})
            known = [limits[limit] for limit in ("messageBytes", "connectionsPerSession", "requestsPerConnection") if limit in limits]
            need(all(kind(limit) == "integer" and limit >= 1 for limit in known), "invalidMetadata")
            session = metadata.get("session", bytes(16))
            need(kind(session) == "data" and len(session) == 16, "invalidMetadata")
            move = [metadata[key] for key in ("move", "received") if key in metadata]
            need(len(move) in (0, 2) and all(kind(number) == "integer" and number >= 0 for number in move), "invalidMetadata")
            need(not move or "session" in metadata, "invalidMetadata")
        elif name in ("open", "request", "response"):
            metadata, rest = read_metadata(body)
            if name == "open":
                need(rest == b"" and isinstance(metadata.get("service"), str), "invalidMetadata")
                need(all(isinstance(metadata.get(key, ""), str) for key in ("package", "caller")), "invalidMetadata")
            elif "length" in metadata:
                need(metadata["length"] > 32768 and rest == b"", "invalidMetadata")
            need(len(rest) <= 32768, "frameTooLarge")
        elif name == "window":
            need(body != bytes(4), "invalidFrame")
        elif name in ("refused", "error", "close", "goaway"):
            try:
                body[6 if name == "goaway" else 2 :].decode("utf-8", "strict")
            except UnicodeDecodeError:
                raise Refused("invalidFrame")
        if name == "settings":
            need(not settings, "settingsExpected")
            need(metadata["version"] >= 1, "versionUnsupported")
            need("move" not in metadata, "invalidMove")
            settings = True
            continue
        need(settings, "settingsExpected")
        need(name not in ("ack", "moved"), "unexpectedFrame")
        if name == "open":
            need(connection % 2 == 0 and connection > highest, "invalidConnection")
            highest = connection
            opened.add(connection)
        elif subject > 0:
            need(connection in opened, "invalidConnection")
            need(name == "close", "unexpectedFrame")


def check_session(file):
    for vector in file["frames"]:
        label = ("session", vector["name"])
        metadata = encode(from_json(vector["metadata"])) if "metadata" in vector else b""
        body = metadata if vector["typeName"] == "settings" else b""
        if vector["typeName"] in ("open", "request", "response"):
            body = len(metadata).to_bytes(2, "big") + metadata
        if "lastConnection" in vector:
            body += vector["lastConnection"].to_bytes(4, "big")
        if "code" in vector:
            body += vector["code"].to_bytes(2, "big") + vector["text"].encode()
        if "credit" in vector:
            body += vector["credit"].to_bytes(4, "big")
        body += bytes.fromhex(vector.get("value", "") + vector.get("message", ""))
        frame = frame_bytes(vector["type"], vector["flags"], vector["connection"], vector["request"], body)
        expect(frame.hex() == vector["frame"], *label)
        expect(TYPES[vector["type"] - 1] == vector["typeName"], *label, "name")
        low, high = LENGTHS[vector["type"] - 1]
        expect(low <= len(body) <= high, *label, "length")
    for vector in file["streams"]:
        found = refusal(take_session, bytes.fromhex(vector["bytes"]))
        expect(found == vector.get("errorName"), "session", vector["name"], vector.get("errorName"), "found", found)
        expect(found is None or ERRORS[vector["error"]] == found, "session", vector["name"], "code")
    for vector in file["prefaces"]:
        expect("44525431" + vector["tunnel"] + vector["token"] == vector["bytes"], "preface")


def main():
    def read(name):
        with open(os.path.join(sys.argv[1], name + ".json"), encoding="utf-8") as file:
            return json.load(file)

    keys = check_keys(read("keys"))
    identity = read("identity")
    check_values(read("values"))
    check_identity(identity, keys)
    check_fingerprints(read("fingerprints"))
    check_nearby(read("nearby"), keys)
    check_pairing(read("pairing"), keys)
    check_invitations(read("invitations"))
    check_hello(read("hello"), keys)
    check_dpop(read("dpop"), keys)
    commands = read("commands")
    check_commands(commands, keys)
    check_control(read("control"), identity, commands, keys)
    check_session(read("session"))
    print(checked)


main()
