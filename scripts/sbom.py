#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The Device Relay project authors
"""Lists what the programs contain: packages, their versions and licences.

usage: sbom.py [--notices] VERSION COMMIT TIME LOCK-FILE CHECKOUTS
       sbom.py --check DOCUMENT LOCK-FILE PROGRAM...

Prints a document of SPDX 2.3 as JSON, or with --notices the texts of all licences. LOCK-FILE is a Package.resolved, CHECKOUTS the folder of
the sources that Swift has fetched for it, TIME seconds since 1970. A package without sources, or with an unknown licence, is an error.

With --check it compares such a document with the lock file, with the libraries that the packages of Debian excuse from lintian, and with
what the programs show of themselves.
"""
import datetime
import json
import pathlib
import re
import shutil
import subprocess
import sys

FOLDER = pathlib.Path(__file__).parent.parent / "packaging"

# Libraries in C that others contain: a file below the folder of such a package, or below that of Swift, the version in it, the name, the
# address, the name of the version there, the licence, and its text in packaging/licences, if the package has none. Yams has changed libyaml
# since 0.2.5, and says up to where. zlib's version has no name there.
CONTAINED = [
    ("Sources/*BoringSSL/hash.txt", r"revision (\w+)", "boringssl", "https://boringssl.googlesource.com/boringssl", "{}", "Apache-2.0", ""),
    ("Sources/*Zlib/**/*zlib.h", r'ZLIB_VERSION "([^"]+)"', "zlib", "https://github.com/madler/zlib", "", "Zlib", ""),
    (
        "Sources/CNIOLLHTTP/include/c_nio_llhttp.h",
        r"VERSION_MAJOR (\d+)\s.*VERSION_MINOR (\d+)\s.*VERSION_PATCH (\d+)",
        "llhttp",
        "https://github.com/nodejs/llhttp",
        "v{}",
        "MIT",
        "",
    ),
    ("Sources/CXKCP/vendored-sources.txt", r"-g(\w+)\)", "xkcp", "https://github.com/XKCP/XKCP", "{}", "NOASSERTION", ""),
    ("CHANGELOG.md", r"yaml/libyaml/compare/\w+\.\.\.(\w+)", "libyaml", "https://github.com/yaml/libyaml", "{}", "MIT", "libyaml.txt"),
    (
        "lib/swift/_foundation_unicode/uvernum.h",
        r'U_ICU_VERSION "([^"]+)"',
        "icu",
        "https://github.com/unicode-org/icu",
        "release-{}",
        "Unicode-3.0",
        "icu.txt",
    ),
]

# What shows in a program that it contains a library, and in a group the beginning of its version. The release build links zlib of the system,
# too, but takes no function of it.
SHOWN = [
    ("boringssl", rb"BoringSSL"),
    ("curl", rb"libcurl/([0-9.]+)"),
    ("icu", rb"icudt([0-9]+)[bl]"),
    ("libyaml", rb"did not find expected <stream-start>"),
    ("llhttp", rb"c_nio_llhttp"),
    ("sqlite", rb"SQLite format 3\0"),
    ("xkcp", rb"XKCP"),
    ("zlib", rb" (?:de|in)flate ([0-9.]+) Copyright"),
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


def heads(folder):
    """The comments in sources whose licence asks to be shown with a program, and one file of each."""
    asks = re.compile(r"in binary form|binary distributions include|included in all copies")
    comments = re.compile(r"/\*(.*?)\*/|((?:^[ \t]*//[^\n]*\n)+)", re.DOTALL | re.MULTILINE)
    found = {}
    for one in sorted(one for one in folder.glob("Sources/**/*.*") if one.suffix in [".c", ".h", ".S", ".swift"]):
        for comment in comments.finditer(one.read_text(errors="replace")):
            lines = re.sub(r"(?m)^[ \t]*(?://+|\*)?[ \t]?|[ \t]+$", "", comment[1] or comment[2])
            text = lines.strip("-=\n ")
            if "copyright" in text.lower() and asks.search(" ".join(text.split())):
                found.setdefault(text, one.relative_to(folder))
    return found


def contained(name, folder):
    """What a package contains."""
    for pattern, mark, inside, address, revision, expression, text in CONTAINED:
        for one in folder.glob(pattern):
            found = re.search(mark, one.read_text(), re.DOTALL)
            if found:
                number = ".".join(found.groups())
                tag = revision.format(number.replace(".", "-") if inside == "icu" else number)
                yield f"{inside}-of-{name}", number, tag, address, expression, [FOLDER / "licences" / text] if text else []


def parts():
    """Each package: name, version, revision, address, licence, texts."""
    for pin in sorted(json.loads(pathlib.Path(lock).read_text())["pins"], key=lambda one: one["identity"]):
        address, state = pin["location"].removesuffix(".git"), pin["state"]
        folder = pathlib.Path(checkouts) / address.rsplit("/", 1)[-1]
        found = texts(folder) if folder.is_dir() else []
        if not found:
            raise SystemExit(f"sbom.py: {folder} has no licence: build first")
        yield pin["identity"], state["version"], state["revision"], address, licence(found[0].read_text(), folder), found
        yield from contained(pin["identity"], folder)
    # scripts/install links it into the programs.
    number = re.search(r'SQLITE_VERSION +"([^"]+)"', pathlib.Path("/usr/include/sqlite3.h").read_text())[1]
    yield "sqlite", number, number, "", "blessing", []
    # Its library is linked into the programs.
    swift = shutil.which("swift")
    shown = re.search(r"Swift version (\S+)", subprocess.run([swift, "--version"], check=True, capture_output=True, text=True).stdout)[1]
    folder = pathlib.Path(swift).resolve().parents[1]
    text = folder / "share/swift/LICENSE.txt"
    yield "swift", shown, f"swift-{shown}-RELEASE", "https://github.com/swiftlang/swift", licence(text.read_text(), text), [text]
    yield from contained("swift", folder)


def notices():
    for name, number, _, address, _, found in parts():
        for one in found:
            inside = "" if one is found[0] else f" ({'/'.join(one.parts[len(found[0].parent.parts):])})"
            yield notice(name, number, inside, address, one.read_text(errors="replace").strip())
        if "-of-" not in name and address and name != "swift":
            for text, one in heads(pathlib.Path(checkouts) / address.rsplit("/", 1)[-1]).items():
                yield notice(name, number, f" ({one})", address, text)


def notice(name, number, inside, address, text):
    return f"{'=' * 80}\n{name} {number}{inside}\n{address}\n{'=' * 80}\n\n{text}\n"


def package(name, number, revision, address, expression, copyright):
    """A package of the document."""
    found = {
        "SPDXID": f"SPDXRef-{name}",
        "name": name,
        "versionInfo": number,
        "downloadLocation": f"git+{address}@{revision}" if address and revision else "NOASSERTION",
        "filesAnalyzed": False,
        "licenseConcluded": expression,
        "licenseDeclared": expression,
        "copyrightText": copyright,
    }
    if address.startswith("https://github.com/"):
        path = address.removeprefix("https://")
        locator = f"pkg:swift/{path}@{number}"
        if "-of-" in name:
            locator = f"pkg:{path.replace('.com', '', 1).lower()}@{revision or number}"
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


def check(document, lock, *programs):
    """Each fault of a document."""
    versions = {}
    for one in json.loads(pathlib.Path(document).read_text())["packages"]:
        versions.setdefault(one["name"].split("-of-")[0], []).append(one["versionInfo"])
    for pin in json.loads(pathlib.Path(lock).read_text())["pins"]:
        if pin["state"]["version"] not in versions.get(pin["identity"], []):
            yield f"it lacks {pin['identity']} {pin['state']['version']}"
    for name in [one[2] for one in CONTAINED] + ["sqlite", "swift"]:
        if name not in versions:
            yield f"it lacks {name}"
    for path in FOLDER.glob("debian/*/overrides"):
        for name in re.findall(r"^\S+ embedded-library (\S+)", path.read_text(), re.MULTILINE):
            if name not in versions:
                yield f"it lacks {name}, which {path} names"
    for program in programs:
        data = pathlib.Path(program).read_bytes()
        for name, mark in SHOWN:
            for found in {one[1].decode() if one.re.groups else "" for one in re.finditer(mark, data)}:
                if not any(re.match(rf"{re.escape(found)}(?![0-9])", number) or not found for number in versions.get(name, [])):
                    yield f"it lacks {' '.join(filter(None, [name, found]))}, which is in {program}"


arguments = sys.argv[1:]
if arguments[:1] == ["--check"]:
    faults = list(check(*arguments[1:]))
    sys.exit("".join(f"sbom.py: {fault}\n" for fault in faults).strip() if faults else 0)
prints_notices = arguments[:1] == ["--notices"]
version, commit, time, lock, checkouts = arguments[prints_notices:]
if prints_notices:
    print("\n".join(notices()), end="")
else:
    print(json.dumps(document(), indent=2))
