#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The Device Relay project authors
"""Lists what the programs contain: packages, their versions and licences.

usage: sbom.py [--notices] VERSION COMMIT TIME LOCK-FILE CHECKOUTS

Prints a document of SPDX 2.3 as JSON, or with --notices the texts of all licences. LOCK-FILE is a Package.resolved, CHECKOUTS the folder of
the sources that Swift has fetched for it, TIME seconds since 1970. A package without sources, or with an unknown licence, is an error.
"""
import datetime
import json
import pathlib
import re
import shutil
import subprocess
import sys

arguments = sys.argv[1:]
prints_notices = arguments[:1] == ["--notices"]
version, commit, time, lock, checkouts = arguments[prints_notices:]

# Libraries in C that packages contain, whose faults are theirs: a file, the version in it, the name, the address.
CONTAINED = [
    ("Sources/*BoringSSL/hash.txt", r"revision (\w+)", "boringssl", "https://boringssl.googlesource.com/boringssl"),
    ("Sources/*Zlib/**/*zlib.h", r'ZLIB_VERSION "([^"]+)"', "zlib", "https://github.com/madler/zlib"),
]


def licence(text, where):
    """The SPDX expression of a licence's text."""
    words = " ".join(text.split())
    if "Apache License Version 2.0" in words:
        return "Apache-2.0 WITH Swift-exception" if "Runtime Library Exception" in words else "Apache-2.0"
    if "Permission is hereby granted, free of charge, to any person obtaining a copy of this software" in words:
        return "MIT"
    raise SystemExit(f"sbom.py: {where} has a licence that this script does not know")


def texts(folder):
    """The licences and notices of a package: its own first, then those of what it contains. Tests are not in the programs."""
    found = [one for one in folder.rglob("*") if re.fullmatch(r"(LICEN[SC]E|NOTICE|COPYING)(\.(txt|md))?", one.name, re.IGNORECASE)]
    found = [one for one in found if one.is_file() and not {"Tests", "Benchmarks", "Examples", ".git"} & set(one.relative_to(folder).parts)]
    return sorted(found, key=lambda one: (len(one.parts), str(one)))


def parts():
    """Each package: name, version, revision, address, licence, texts."""
    for pin in sorted(json.loads(pathlib.Path(lock).read_text())["pins"], key=lambda one: one["identity"]):
        address, state = pin["location"].removesuffix(".git"), pin["state"]
        folder = pathlib.Path(checkouts) / address.rsplit("/", 1)[-1]
        found = texts(folder) if folder.is_dir() else []
        if not found:
            raise SystemExit(f"sbom.py: {folder} has no licence: build first")
        yield pin["identity"], state["version"], state["revision"], address, licence(found[0].read_text(), folder), found
        for pattern, mark, inside, source in CONTAINED:
            for one in folder.glob(pattern):
                number = re.search(mark, one.read_text())[1]
                yield f"{inside}-of-{pin['identity']}", number, number, source, "NOASSERTION", []
    # scripts/install links it into the programs.
    number = re.search(r'SQLITE_VERSION +"([^"]+)"', pathlib.Path("/usr/include/sqlite3.h").read_text())[1]
    yield "sqlite", number, number, "", "blessing", []
    # Its library is linked into the programs.
    swift = shutil.which("swift")
    shown = re.search(r"Swift version (\S+)", subprocess.run([swift, "--version"], check=True, capture_output=True, text=True).stdout)[1]
    text = pathlib.Path(swift).resolve().parents[1] / "share/swift/LICENSE.txt"
    yield "swift", shown, f"swift-{shown}-RELEASE", "https://github.com/swiftlang/swift", licence(text.read_text(), text), [text]


def notices():
    for name, number, _, address, _, found in parts():
        for one in found:
            inside = "" if one is found[0] else f" ({'/'.join(one.parts[len(found[0].parent.parts):])})"
            yield f"{'=' * 80}\n{name} {number}{inside}\n{address}\n{'=' * 80}\n\n{one.read_text(errors='replace').strip()}\n"


def package(name, number, revision, address, expression, copyright):
    """A package of the document."""
    found = {
        "SPDXID": f"SPDXRef-{name}",
        "name": name,
        "versionInfo": number,
        "downloadLocation": f"git+{address}@{revision}" if address else "NOASSERTION",
        "filesAnalyzed": False,
        "licenseConcluded": expression,
        "licenseDeclared": expression,
        "copyrightText": copyright,
    }
    if address.startswith("https://github.com/"):
        locator = f"pkg:swift/{address.removeprefix('https://')}@{number}"
        found["externalRefs"] = [{"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl", "referenceLocator": locator}]
    return found


def document():
    own = package("device-relay", version, commit, "", "Apache-2.0", "The Device Relay project authors")
    others = [package(*one[:5], "NOASSERTION") for one in parts()]
    created = datetime.datetime.fromtimestamp(int(time), datetime.timezone.utc)
    return {
        "spdxVersion": "SPDX-2.3",
        "dataLicense": "CC0-1.0",
        "SPDXID": "SPDXRef-DOCUMENT",
        "name": f"device-relay-{version}",
        "documentNamespace": f"https://spdx.org/spdxdocs/device-relay-{version}-{commit}",
        "creationInfo": {"created": created.strftime("%Y-%m-%dT%H:%M:%SZ"), "creators": ["Tool: scripts/sbom.py"]},
        "packages": [own, *others],
        "relationships": [
            {"spdxElementId": "SPDXRef-DOCUMENT", "relationshipType": "DESCRIBES", "relatedSpdxElement": own["SPDXID"]},
            *(
                {"spdxElementId": own["SPDXID"], "relationshipType": "DEPENDS_ON", "relatedSpdxElement": one["SPDXID"]}
                for one in others
            ),
        ],
    }


if prints_notices:
    print("\n".join(notices()), end="")
else:
    print(json.dumps(document(), indent=2))
