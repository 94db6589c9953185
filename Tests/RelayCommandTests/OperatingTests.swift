// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import RelayTesting
import Testing

#if os(Linux)
/// Whether there is what the page's commands need.
private let areProgramsThere: Bool = [
    "/usr/bin/caddy", "/usr/sbin/nginx", "/usr/bin/promtool", "/usr/bin/curl", "/usr/bin/openssl",
].allSatisfy { FileManager.default.isExecutableFile(atPath: $0) }

/// An operator with two machines, by the text of docs/operating.md alone: its files are written where it says, and its commands run in its
/// order. Scripts stand for apt-get, systemd and users of the system, and take the units of the package; folders of the test stand for those
/// below / . `scripts/check-packages` installs the packages themselves, and runs their backups, by systemd.
@Suite(
    .serialized,
    .timeLimit(.minutes(10)),
    .enabled(
        if: TestMachine.isPossible && areProgramsThere,
        "root alone makes networks; needs Debian's packages iproute2, nftables, caddy, nginx, prometheus, curl and openssl"
    )
)
struct OperatingTests {
    /// What the page has in fences, in its order.
    private enum Block {
        case file(path: String, text: String)
        case commands(String)
    }

    private static func blocks() throws -> [(heading: String, block: Block)] {
        try Project.fences(of: "docs/operating.md").map { fence in
            if fence.isTyped { return (fence.heading, .commands(fence.code)) }
            let path = try #require(fence.introduction.firstMatch(of: /`(\/[^`]+)`:$/), "\(fence.language) below \(fence.heading)").1
            return (fence.heading, .file(path: String(path), text: fence.code))
        }
    }

    /// A machine of the operator.
    private final class Machine {
        let machine: TestMachine
        let address: String

        init(_ machine: TestMachine, _ address: String) throws {
            (self.machine, self.address) = (machine, address)
            let directory = machine.directory
            try machine.name(address, "relay.example")
            for folder in [
                "bin", "etc/prometheus", "etc/fail2ban/filter.d", "etc/caddy", "etc/nginx/conf.d", "var/lib", "var/backups",
            ] {
                try FileManager.default.createDirectory(at: directory.appending(path: folder), withIntermediateDirectories: true)
            }
            for folder in ["deploy", "docs", "packaging"] {
                try FileManager.default.createSymbolicLink(
                    at: directory.appending(path: folder),
                    withDestinationURL: Project.root.appending(path: folder)
                )
            }
            for (name, text) in OperatingTests.scripts {
                let file = directory.appending(path: "bin/\(name)")
                try Data("#!/bin/bash\nset -e\n\(text)\n".utf8).write(to: file)
                try FileManager.default.setAttributes([.posixPermissions: 0o755], ofItemAtPath: file.path)
            }
            try write(
                "etc/nginx/nginx.conf",
                """
                user root;
                pid \(directory.path)/nginx.pid;
                events { worker_connections 256; }
                http {
                    access_log off;
                    \(["client_body", "proxy", "fastcgi", "uwsgi", "scgi"].map { "\($0)_temp_path \(directory.path)/\($0);" }.joined())
                    include \(directory.path)/etc/nginx/conf.d/*.conf;
                }
                """
            )
        }

        /// What the text says, below the folder of this machine.
        func moved(_ text: String) -> String {
            ["/etc/", "/var/"].reduce(text) { $0.replacing($1, with: machine.directory.path + $1) }
        }

        func write(_ path: String, _ text: String) throws {
            let file = machine.directory.appending(path: path)
            try FileManager.default.createDirectory(at: file.deletingLastPathComponent(), withIntermediateDirectories: true)
            try Data(text.utf8).write(to: file)
        }

        func install(_ path: String, _ text: String) throws {
            // No public authority knows this machine.
            let options = path.hasSuffix("Caddyfile") ? "{\n\tlocal_certs\n\tskip_install_trust\n}\n" : ""
            try write(String(path.dropFirst()), options + moved(text))
        }

        /// Runs commands of the page, or others in the same place.
        func run(_ commands: String, environment: [String: String] = [:]) async throws -> CommandOutput {
            let set = environment.map { "export \($0.key)='\($0.value)'" }.joined(separator: "\n")
            let beginning = """
                set -eo pipefail
                export PATH=$HOME/bin:$PATH RELAYD_CONFIG=$HOME/etc/relayd/relayd.json
                [ ! -e roots.pem ] || export SSL_CERT_FILE=$HOME/roots.pem CURL_CA_BUNDLE=$HOME/roots.pem
                \(set)
                """
            try Data("\(beginning)\n\(moved(commands))".utf8).write(to: machine.directory.appending(path: "commands"))
            return try await machine.run("bash commands")
        }

        /// Adds an authority to those that clients on this machine trust.
        func trust(_ certificate: URL) throws {
            let roots = machine.directory.appending(path: "roots.pem")
            let old = (try? String(contentsOf: roots, encoding: .utf8)) ?? ""
            try Data((old + String(contentsOf: certificate, encoding: .utf8)).utf8).write(to: roots)
        }

        var caddyRoot: URL { machine.directory.appending(path: ".local/share/caddy/pki/authorities/local/root.crt") }

        func journal() throws -> String { try String(contentsOf: machine.directory.appending(path: "journal"), encoding: .utf8) }
    }

    /// A process that has ended may still be listed, but has no program any more.
    private static let scripts = [
        // What the package has, and what its postinst does. Settings that are there stay.
        "apt-get": #"""
        units=$HOME/usr/lib/systemd/system settings=$HOME/etc/relayd/relayd.json
        put() { sed -e "s|/etc/|$HOME/etc/|g" -e "s|/var/|$HOME/var/|g" -e 's|/usr/bin/||g' "$1" >"$2"; }
        mkdir -p "$units" "${settings%/*}"
        mkdir -p -m 700 "$HOME/var/lib/relayd" "$HOME/var/backups/relayd"
        for unit in "$HOME"/packaging/relayd*.service "$HOME"/packaging/relayd*.timer; do put "$unit" "$units/${unit##*/}"; done
        [ -e "$settings" ] || put "$HOME/packaging/relayd.json" "$settings"
        systemctl start relayd
        """#,
        "chown": "exit 0",
        "runuser": #"while [ "$1" != -- ]; do shift; done; shift; exec "$@""#,
        "journalctl": #"tail -n 20 "$HOME/journal""#,
        "nginx": #"exec /usr/sbin/nginx -p "$HOME" -e "$HOME/nginx.log" -c "$HOME/etc/nginx/nginx.conf" "$@""#,
        "systemctl": #"""
        units=$HOME/usr/lib/systemd/system
        lives() { readlink "/proc/$1/exe" >/dev/null; }
        end() { [ ! -e "$HOME/$1.pid" ] || { pid=$(cat "$HOME/$1.pid"); kill "$pid" || true; while lives "$pid"; do sleep 0.1; done; rm -f "$HOME/$1.pid"; }; }
        # Foundation waits for a process until nothing has the descriptors that it has passed.
        alone() { for file in /proc/self/fd/*; do file=${file##*/}; [ "$file" -le 2 ] || eval "exec $file>&-"; done; exec setsid "$@"; }
        output() { if grep -q ^StandardOutput=null "$units/$1.service" 2>/dev/null; then echo /dev/null; else echo "$HOME/journal"; fi; }
        # Without a setting of its own, standard error goes where standard output goes.
        errors() { if grep -q ^StandardError=journal "$units/$1.service" 2>/dev/null; then echo "$HOME/journal"; else output "$1"; fi; }
        background() { local name=$1; shift; (alone "$@" >>"$(output "$name")" 2>>"$(errors "$name")" </dev/null) & echo $! >"$HOME/$name.pid"; }
        commands() { sed -n 's/^ExecStart=//p' "$units/$1"; }
        settings() { sed -n 's/^Environment=//p' "$units/$1"; }
        await() { until curl --silent --fail --insecure "$1" >/dev/null; do lives "$(cat "$HOME/$2.pid")"; sleep 0.1; done; }
        case "$*" in
        'start relayd' | 'restart relayd')
            end relayd
            background relayd env $(settings relayd.service) $(commands relayd.service)
            await http://127.0.0.1:8080/readyz relayd ;;
        'stop relayd') end relayd ;;
        'reload relayd') kill -HUP "$(cat "$HOME/relayd.pid")" ;;
        'enable --now relayd-'*.timer) [ -e "$units/$3" ] && [ -e "$units/${3%.timer}.service" ] ;;
        'start relayd-'*.service) commands "$2" | while read -r line; do env $(settings "$2") sh -c "$line" </dev/null; done ;;
        'reload caddy')
            end caddy
            background caddy caddy run --config "$HOME/etc/caddy/Caddyfile" --adapter caddyfile
            await https://relay.example/healthz caddy ;;
        'reload nginx')
            end caddy
            (alone nginx >>"$HOME/journal" 2>&1 </dev/null)
            until [ -s "$HOME/nginx.pid" ]; do sleep 0.1; done
            await https://relay.example/healthz nginx ;;
        *) echo "no such command: $*" >&2; exit 64 ;;
        esac
        """#,
    ]

    private struct Report: Decodable {
        struct Check: Decodable {
            var name: String
            var status: String
            var message: String
            var advice: String?
        }
        var checks: [Check]
        var exit: Int32
    }

    private static func doctor(_ machine: Machine) async throws -> Report {
        let ended = try await machine.run("relayd doctor --backups /var/backups/relayd --json")
        let report = try JSONDecoder().decode(Report.self, from: Data(ended.text.utf8))
        #expect(report.exit == ended.status)
        for check in report.checks where check.status == "failed" || check.status == "warning" { #expect(check.advice != nil, "\(check)") }
        return report
    }

    private static func faults(_ report: Report) -> [String] {
        report.checks.filter { $0.status != "ok" }.map { "\($0.name) \($0.status): \($0.message)" }
    }

    /// A device of Bert on a machine.
    private struct Device {
        let machine: Machine
        let name: String

        func relay(_ words: String, input: String? = nil) async throws -> CommandOutput {
            let set = "export XDG_CONFIG_HOME=$HOME/\(name) DEVICE_RELAY_HOME=$HOME/\(name)/home"
            return try await machine.run("\(set)\n{ relay \(words)\n}\(input.map { " <<< '\($0)'" } ?? " </dev/null")")
        }
    }

    /// `scripts/check-packages` follows what is under these headings.
    private static let followedElsewhere = ["Another folder"]

    @Test func commandsOfThePageWorkInOrderWithScriptsForSystemd() async throws {
        let machines = try TestMachine.network()
        let (a, b) = (try Machine(machines.0, "10.20.30.1"), try Machine(machines.1, "10.20.30.2"))
        let (pc, phone) = (Device(machine: a, name: "pc"), Device(machine: a, name: "phone"))
        var (host, counts): (RelayProcess?, [String: Int]) = (nil, [:])
        func reach() async throws {
            var ping = try await phone.relay("ping pc --count 1")
            // After a restart of the relay, the other device comes back by itself.
            while ping.status == 5 { ping = try await phone.relay("ping pc --count 1") }
            #expect(ping.status == 0, "\(ping.text) \(ping.errorText)")
        }
        for (heading, block) in try Self.blocks() {
            // The other machine comes after what the page says of the first one.
            guard heading != "Restore on another machine", !Self.followedElsewhere.contains(heading) else { continue }
            switch block {
            case .file(let path, let text):
                try a.install(path, text)
                if path.hasSuffix("nginx/conf.d/relayd.conf") { try await Self.certify(a) }
            case .commands(let commands):
                counts[heading, default: 0] += 1
                let endpoint = commands.contains("$ENDPOINT") ? try await Self.endpoint("phone", a) : ""
                let ended = try await a.run(commands, environment: endpoint.isEmpty ? [:] : ["ENDPOINT": endpoint])
                #expect(ended.status == (heading == "Is all of it right?" ? 1 : 0), "\(heading): \(ended.text) \(ended.errorText)")
                switch heading {
                case "Install": if counts[heading] == 3 { #expect(ended.text.contains("https://relay.example/auth/setup?token=")) }
                case "Caddy":
                    try a.trust(a.caddyRoot)
                    #expect(Self.faults(try await Self.doctor(a)).map { $0.prefix(14) } == ["backup failed:"])
                    _ = try await a.run("relayd account add Carl")
                    let link = try await a.run("relayd invite Carl")
                    #expect(try await pc.relay("join --name pc", input: link.text).status == 0)
                    host = try machines.0.start(
                        "export SSL_CERT_FILE=$HOME/roots.pem XDG_CONFIG_HOME=$HOME/pc DEVICE_RELAY_HOME=$HOME/pc/home; exec relay host --json"
                    )
                    _ = try await host?.line { _ in true }
                    #expect(try await phone.relay("join --name phone", input: try await pc.relay("invite").text).status == 0)
                    try await reach()
                case "nginx":
                    #expect(Self.faults(try await Self.doctor(a)).map { $0.prefix(14) } == ["backup failed:"])
                    try await reach()
                case "Is all of it right?":
                    #expect(ended.text.contains("backup") && ended.text.contains("-> "), "\(ended.text)")
                case "Backups": #expect(Self.faults(try await Self.doctor(a)).isEmpty)
                case "A device is lost":
                    // `relay devices` would show what it knew last.
                    let lost = try await phone.relay("invite")
                    #expect(lost.status == 3 && lost.errorText.contains("revoked"), "\(lost.text) \(lost.errorText)")
                default: break
                }
            }
        }
        // No link is in the journal.
        let journal = try a.journal()
        #expect(journal.contains("relay started"))
        for secret in ["token=", "/#relay="] { #expect(!journal.contains(secret), "\(secret)") }
        #expect(counts["When something happens"] == nil && counts["A device is lost"] == 1 && counts.count >= 12, "\(counts)")

        // Another device, which the backup knows; then the machine is lost.
        let tablet = Device(machine: a, name: "tablet")
        #expect(try await tablet.relay("join --name tablet", input: try await pc.relay("invite").text).status == 0)
        _ = try await a.run("systemctl start relayd-backup.service")
        _ = try await a.run("systemctl stop relayd; nginx -s quit")
        for (heading, block) in try Self.blocks()
        where heading == "Install" || heading == "Caddy" || heading == "Restore on another machine" {
            switch block {
            case .file(let path, let text): try b.install(path, text)
            case .commands(let commands):
                if commands.contains("account set-up") || heading == "Caddy" { continue }
                if heading != "Install" { try Self.copyBackups(from: a, to: b) }
                let ended = try await b.run(commands)
                if heading == "Install" {
                    #expect(ended.status == 0, "\(ended.errorText)")
                } else {
                    // No proxy runs yet, and the doctor says so.
                    #expect(ended.status == 1 && ended.text.contains("restored relay"), "\(ended.text) \(ended.errorText)")
                }
            }
        }
        #expect(try await b.run("systemctl reload caddy").status == 0)
        try b.trust(b.caddyRoot)
        #expect(Self.faults(try await Self.doctor(b)).isEmpty)
        // The name leads to the new machine, whose proxy has another authority.
        try machines.0.name(b.address, "relay.example")
        try a.trust(b.caddyRoot)
        host?.send(SIGTERM)
        _ = await host?.finish()
        let again = try machines.0.start(
            "export SSL_CERT_FILE=$HOME/roots.pem XDG_CONFIG_HOME=$HOME/pc DEVICE_RELAY_HOME=$HOME/pc/home; exec relay host --json"
        )
        _ = try await again.line { _ in true }
        let ping = try await tablet.relay("ping pc --count 1")
        #expect(ping.status == 0, "\(ping.text) \(ping.errorText)")
        again.send(SIGTERM)
        _ = await again.finish()
        for machine in [a, b] { _ = try await machine.run("systemctl stop relayd") }
    }

    private static func endpoint(_ name: String, _ machine: Machine) async throws -> String {
        struct Listed: Decodable { var id: String, name: String }
        let listed = try await machine.run("relayd endpoint list --json")
        let all = try JSONDecoder().decode([Listed].self, from: Data(listed.text.utf8))
        return try #require(all.first { $0.name == name }).id
    }

    private static func copyBackups(from a: Machine, to b: Machine) throws {
        let (source, target) = ("\(a.machine.directory.path)/var/backups/relayd", "\(b.machine.directory.path)/var/backups/relayd")
        for name in try FileManager.default.contentsOfDirectory(atPath: source) {
            try FileManager.default.copyItem(atPath: "\(source)/\(name)", toPath: "\(target)/\(name)")
        }
    }

    /// As certbot leaves a certificate.
    private static func certify(_ machine: Machine) async throws {
        let made = try await machine.run(
            """
            mkdir -p /etc/letsencrypt/live/relay.example && cd /etc/letsencrypt/live/relay.example
            openssl req -x509 -newkey rsa:2048 -nodes -keyout ca.key -out ca.pem -subj '/CN=Test' -days 90
            openssl req -newkey rsa:2048 -nodes -keyout privkey.pem -out request.pem -subj '/CN=relay.example'
            printf 'subjectAltName=DNS:relay.example\\n' > names
            openssl x509 -req -in request.pem -CA ca.pem -CAkey ca.key -CAcreateserial -days 90 -extfile names -out own.pem
            cat own.pem ca.pem > fullchain.pem
            """
        )
        #expect(made.status == 0, "\(made.errorText)")
        try machine.trust(machine.machine.directory.appending(path: "etc/letsencrypt/live/relay.example/ca.pem"))
    }

    /// By systemd's own checker. The page shows no unit: there is one source.
    @Test(.enabled(if: FileManager.default.isExecutableFile(atPath: "/usr/bin/systemd-analyze"), "needs Debian's package systemd"))
    func systemdTakesTheUnits() async throws {
        for case (_, .file(let path, _)) in try Self.blocks() {
            #expect(!path.hasSuffix(".service") && !path.hasSuffix(".timer"), "\(path)")
        }
        let files = FileManager.default
        let folder = files.temporaryDirectory.appending(path: "units-\(UUID().uuidString)")
        try files.createDirectory(at: folder, withIntermediateDirectories: false)
        defer { try? files.removeItem(at: folder) }
        let packaging = Project.root.appending(path: "packaging")
        let names = try files.contentsOfDirectory(atPath: packaging.path).sorted().filter { name in
            name.hasPrefix("relayd") && (name.hasSuffix(".service") || name.hasSuffix(".timer"))
        }
        #expect(
            names == ["relayd-backup.service", "relayd-backup.timer", "relayd-doctor.service", "relayd-doctor.timer", "relayd.service"]
        )
        for name in names {
            // The programs need not be installed here.
            let text = try String(contentsOf: packaging.appending(path: name), encoding: .utf8)
            try Data(text.replacing("/usr/bin/relayd", with: "/usr/bin/env relayd").utf8).write(to: folder.appending(path: name))
        }
        let process = Process()
        process.executableURL = URL(filePath: "/usr/bin/systemd-analyze")
        process.arguments = ["verify", "--man=no"] + names.map { folder.appending(path: $0).path }
        let ended = try await ProcessRun.run(process)
        #expect(ended.status == 0 && ended.error.isEmpty, "\(ended)")
    }
}
#endif
