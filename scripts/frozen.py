# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The Device Relay project authors
"""usage: frozen.py make|open PROGRAMS ARCHIVE
       frozen.py dump PROGRAMS ARCHIVE URI
make: freezes a database and two homes, as these programs leave them when the power fails, with launches that have not arrived.
open: goes on with them, with these programs and on the day on which they were made. Fails unless everything is still there, each launch
arrives once, and both devices go on without a new link. Programs of the same version must not change a database: the others could not open it.
dump: copies the database of an archive to an empty one of PostgreSQL, and writes beside the archive what `pg_dump` says of that.
"""

import contextlib
import json
import lzma
import os
import pathlib
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import tarfile
import tempfile
import time

# The homes and the tokens name it.
PORT = 29317
FILM = "https://films.example/"


class Failed(Exception):
    pass


class Place:
    """A folder with a relay and the homes of two devices."""

    def __init__(self, programs, folder, clock=0):
        self.programs, self.folder = programs, folder
        self.environment = {"PATH": os.environ["PATH"], "NO_FAKE_STAT": "1"}
        self.processes = []
        self.clock = ["faketime", "-m", "--exclude-monotonic", "-f", f"{clock:+d}"] if clock else []

    def _words(self, program, words, home):
        option = ["--home", self.folder / home] if home else []
        return [str(word) for word in [*self.clock, self.programs / program, *words, *option]]

    def _environment(self, home):
        """Each home is that of another person of this machine, so that they are two devices."""
        person = self.folder / "people" / (home or "operator")
        person.mkdir(parents=True, exist_ok=True)
        return self.environment | {"HOME": str(person)}

    def run(self, program, *words, home=None, input="", status=0):
        result = subprocess.run(
            self._words(program, words, home), env=self._environment(home), input=input, capture_output=True, text=True, timeout=60
        )
        if result.returncode != status:
            raise Failed(f"{program} {words[0]} ended with {result.returncode}: {result.stdout[-500:]}{result.stderr[-500:]}")
        return result.stdout

    def relay(self, home, *words, **options):
        return self.run("relay", *words, home=home, **options)

    def relayd(self, *words):
        return self.run("relayd", *words, "--data-directory", self.folder / "relayd")

    def start(self, program, *words, home=None, ready):
        log = open(self.folder / f"{program}-{len(self.processes)}.log", "w")
        process = subprocess.Popen(
            self._words(program, words, home), env=self._environment(home), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log,
            text=True, start_new_session=True,
        )
        self.processes.append(process)
        for line in process.stdout:
            if ready in line:
                return process
        raise Failed(f"{program} {words[0]} did not start: {pathlib.Path(log.name).read_text()[-500:]}")

    def serve(self):
        data = self.folder / "relayd"
        return self.start("relayd", "serve", "--data-directory", data, "--listen", f"127.0.0.1:{PORT}", ready=" ready at ")

    def host(self):
        return self.start("relay", "host", "--json", "--app", "com.example.player", "--scheme", "https", home="tv", ready='"hosting"')

    def agent(self):
        return self.start("relay", "agent", "--json", home="desk", ready='"ready"')

    def api(self, path, *arguments):
        socket = json.loads((self.folder / "desk" / "agent.json").read_text())["socket"]
        words = ["curl", "-s", "--fail-with-body", "--unix-socket", socket, f"http://relay{path}", *arguments]
        return json.loads(subprocess.run(words, capture_output=True, text=True, check=True, timeout=60).stdout)

    def end(self):
        for process in self.processes:
            # `faketime` starts the program as a child, which would go on without it.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def stop(process, number):
    process.send_signal(number)
    process.wait()


def make(place):
    relayd = place.serve()
    link = re.search(r"https?://\S+#relay=[^\s']+", place.relayd("invite", "me"))[0]
    place.relay("desk", "join", "--name", "desk", "--yes", input=link + "\n")
    place.relay("tv", "join", "--name", "tv", "--yes", input=place.relay("desk", "invite"))
    (place.folder / "desk" / "agent.yaml").write_text("name: desk\nopen: {ask: [x-frozen]}\n")
    host, agent = place.host(), place.agent()
    place.relay("desk", "launch", "tv", f"{FILM}1")
    token = place.api("/v1/tokens", "--json", '{"name":"script","scopes":["launch","commands"]}')["token"]["token"]
    place.api("/v1/webhooks", "--json", '{"url":"http://127.0.0.1:9/","types":["command.final"]}')
    place.relay("desk", "grants", "add", "--known", "--scheme", "x-frozen")
    quotas = {"endpointsPerAccount": 20}
    for name, value in quotas.items():
        place.relayd("account", "quota", "me", "--set", f"{name}={value}")
    stop(host, signal.SIGKILL)
    place.relay("desk", "launch", "tv", f"{FILM}2", "--no-wait", "--ttl", "86400")
    commands = json.loads(place.relay("desk", "commands", "--json"))["commands"]
    stop(relayd, signal.SIGKILL)
    # It is stored here, and nowhere else.
    place.api("/v1/launches", "--json", json.dumps({"device": "tv", "uri": f"{FILM}3", "ttl": 86400}))
    stop(agent, signal.SIGKILL)
    version = place.run("relay", "--version").split()[1]
    facts = {
        "version": version,
        "made": int(time.time()),
        "token": token,
        "commands": sorted(command["id"] for command in commands),
        "quotas": quotas,
    }
    for leftover in [*place.folder.glob("*.log"), *place.folder.rglob("*.sock")]:
        leftover.unlink()
    (place.folder / "facts.json").write_text(json.dumps(facts, indent=2) + "\n")


def opened(host):
    """The URI of the next launch that arrives."""
    for line in host.stdout:
        if "uri" in (event := json.loads(line)):
            return event["uri"]
    raise Failed("the host ended")


def check(what, value, expected):
    if value != expected:
        raise Failed(f"{what}: {value!r} instead of {expected!r}")


def layouts(folder):
    """The migrations of each database. It reads a copy: who opens a database completes what a crash has left."""
    found = {}
    with tempfile.TemporaryDirectory() as name:
        copy = pathlib.Path(name) / "copy"
        shutil.copytree(folder, copy, ignore=lambda parent, names: [each for each in names if (pathlib.Path(parent) / each).is_socket()])
        for path in sorted(copy.rglob("*")):
            if path.is_file() and path.open("rb").read(16) == b"SQLite format 3\0":
                with contextlib.closing(sqlite3.connect(path)) as database:
                    rows = database.execute("SELECT identifier FROM grdb_migrations ORDER BY identifier")
                    found[str(path.relative_to(copy))] = [identifier for identifier, in rows]
    return found


def open_frozen(place, facts):
    place.serve()
    check("accounts", "me" in place.relayd("account", "list"), True)
    quotas = json.loads(place.relayd("account", "quota", "me", "--json"))["quotas"]
    check("quotas", {quota["name"]: quota["value"] for quota in quotas if quota["set"]}, facts.get("quotas", {}))
    check("used devices", [quota["used"] for quota in quotas if quota["name"] == "endpointsPerAccount"], [2])
    host = place.host()
    # A copy of a database counts as restored, so launches at the relay wait for their sender.
    place.agent()
    check("the launch at the relay", opened(host), f"{FILM}2")
    check("the launch in the journal", opened(host), f"{FILM}3")
    place.relay("desk", "launch", "tv", f"{FILM}4")
    check("the next launch", opened(host), f"{FILM}4")
    ids = {command["id"] for command in json.loads(place.relay("desk", "commands", "--json"))["commands"]}
    check("commands that are gone", set(facts["commands"]) - ids, set())
    devices = json.loads(place.relay("desk", "devices", "--json"))
    check("devices", [(device["name"], device["status"], device["new"]) for device in devices["devices"]], [("tv", "available", False)])
    bearer = ("-H", f"Authorization: Bearer {facts['token']}")
    check("commands for the token", len(place.api("/v1/commands", *bearer)["commands"]), 4)
    launch = place.api("/v1/launches", *bearer, "-H", "Prefer: wait=30", "--json", json.dumps({"device": "tv", "uri": f"{FILM}5"}))
    check("a launch by the token", launch["status"], "succeeded")
    check("the token's launch", opened(host), f"{FILM}5")
    check("webhooks", [webhook["url"] for webhook in place.api("/v1/webhooks")["webhooks"]], ["http://127.0.0.1:9/"])
    stored = [grant for grant in place.api("/v1/grants")["grants"] if grant["source"] != "settings"]
    check("grants", [grant["scheme"] for grant in stored], ["x-frozen"])
    place.relay("tv", "launch", "desk", "x-frozen:1", "--no-wait")
    # A device that comes now finds the account.
    place.relay("new", "join", "--name", "new", "--yes", input=place.relay("desk", "invite"))
    check("the new device's list", "tv" in place.relay("new", "devices"), True)


def dump(programs, archive, uri):
    with tempfile.TemporaryDirectory(prefix="frozen-") as name, tarfile.open(archive) as content:
        content.extractall(name)
        place = Place(programs, pathlib.Path(name))
        with contextlib.ExitStack() as stack:
            stack.callback(place.end)
            # A copy of a database counts as restored.
            stop(place.serve(), signal.SIGTERM)
        place.relayd("store", "copy", "--to", uri)
    text = subprocess.run(["pg_dump", "--no-owner", "--no-privileges", uri], capture_output=True, check=True, timeout=60).stdout
    # Newer programs add these, and older ones do not know them.
    text = b"".join(line for line in text.splitlines(keepends=True) if not line.startswith((b"\\restrict", b"\\unrestrict")))
    file = archive.with_name(archive.name.removesuffix(".tar.xz") + ".sql.xz")
    file.write_bytes(lzma.compress(text))
    print(f"made {file}")


def main():
    if sys.argv[1:2] == ["dump"] and len(sys.argv) == 5:
        return dump(pathlib.Path(sys.argv[2]).resolve(), pathlib.Path(sys.argv[3]), sys.argv[4])
    if len(sys.argv) != 4 or sys.argv[1] not in ("make", "open"):
        sys.exit(__doc__)
    programs, archive = pathlib.Path(sys.argv[2]).resolve(), pathlib.Path(sys.argv[3])
    with tempfile.TemporaryDirectory(prefix="frozen-") as name:
        folder = pathlib.Path(name)
        clock = 0
        if sys.argv[1] == "open":
            with tarfile.open(archive) as content:
                content.extractall(folder)
            facts = json.loads((folder / "facts.json").read_text())
            # An hour later.
            clock = facts["made"] + 3600 - int(time.time())
        place = Place(programs, folder, clock)
        with contextlib.ExitStack() as stack:
            stack.callback(place.end)
            if sys.argv[1] == "open":
                before = layouts(folder)
                open_frozen(place, facts)
                if archive.name == f"{place.run('relay', '--version').split()[1]}.tar.xz":
                    check("databases", len(before) >= 3, True)
                    after = layouts(folder)
                    check("the migrations of this version", {path: after.get(path) for path in before}, before)
                return
            make(place)
        with tarfile.open(archive, "w:xz") as content:
            for child in sorted(folder.iterdir()):
                content.add(child, child.name)
    print(f"made {archive}")


if __name__ == "__main__":
    try:
        main()
    except Failed as failure:
        sys.exit(f"error: {failure}")
