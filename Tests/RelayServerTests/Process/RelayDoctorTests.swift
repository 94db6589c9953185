// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import RelayTesting
import Testing

/// `relayd doctor` beside real relays, well and ill.
@Suite(.timeLimit(.minutes(10))) final class RelayDoctorTests {
    private struct Report: Decodable {
        struct Check: Decodable, Hashable {
            var name: String
            var status: String
            var message: String
            var advice: String?
        }
        var checks: [Check]
        var exit: Int32

        func all(_ name: String) -> [Check] { checks.filter { $0.name == name } }
        func one(_ name: String) throws -> Check { try #require(all(name).first, "\(checks)") }
    }

    private let folder = FileManager.default.temporaryDirectory.appending(path: "doctor-\(UUID().uuidString)")

    init() throws { try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: false) }

    deinit { try? FileManager.default.removeItem(at: folder) }

    private func doctor(_ relayd: RelaydProcess, _ arguments: [String] = []) async throws -> Report {
        let all = ["doctor", "--json", "--data-directory", relayd.directory.path] + arguments
        let ended = try await RelaydProcess.run(all)
        let report = try JSONDecoder().decode(Report.self, from: Data(ended.output.utf8))
        #expect(ended.status == report.exit && ended.error.isEmpty, "\(ended)")
        #expect(report.exit == (report.checks.contains { $0.status == "failed" } ? 1 : 0))
        for check in report.checks where check.status != "ok" { #expect(check.advice?.isEmpty == false, "\(check)") }
        // The text has the same.
        let text = try await RelaydProcess.run(all.filter { $0 != "--json" })
        #expect(text.status == ended.status)
        let names = text.output.split(separator: "\n").filter { !$0.hasPrefix(" ") }.map {
            $0.split(separator: " ").prefix(2).map(String.init)
        }
        #expect(names == report.checks.map { [$0.status, $0.name] })
        return report
    }

    /// The settings of a plain relay on loopback.
    private func settings(_ relayd: RelaydProcess) -> [String] { ["--listen", relayd.host, "--tunnel-listen", "off"] }

    @Test func aRelayThatIsWellPassesAllChecks() async throws {
        let relayd = try await RelaydProcess(arguments: ["--tunnel-listen", "off"])
        _ = try await relayd.start()
        _ = try await relayd.run("backup", "--keep", "2", folder.path)
        let report = try await doctor(relayd, settings(relayd) + ["--backups", folder.path])
        #expect(report.exit == 0)
        #expect(report.checks.allSatisfy { $0.status == "ok" }, "\(report.checks)")
        let names = ["data", "relay", "database", "disk", "disk", "clock", "ports", "url", "proxy", "issuer", "push", "backup"]
        #expect(report.checks.map(\.name) == names)
        #expect(try report.one("proxy").message.contains("without a proxy"))
        #expect(try await relayd.stop() == 0)
    }

    @Test func whatIsMissingIsSaidWithoutMakingIt() async throws {
        let relayd = try await RelaydProcess()
        let none = try await doctor(relayd)
        #expect(none.checks.map(\.name) == ["data"] && none.exit == 1)
        #expect(!FileManager.default.fileExists(atPath: relayd.directory.path))
        _ = try await relayd.start()
        #expect(try await relayd.stop() == 0)
        let stopped = try await doctor(relayd)
        #expect(try stopped.one("relay").status == "failed")
        #expect(stopped.all("url").isEmpty && stopped.all("ports").isEmpty)
        #expect(try stopped.one("backup").status == "skipped")
        let missing = try await doctor(relayd, ["--backups", folder.path + "/disk"])
        #expect(try missing.one("backup").status == "failed" && missing.one("backup").message.contains("mkdir -m 700"))
    }

    @Test func aBackupThatIsOldOrBrokenIsNamed() async throws {
        let relayd = try await RelaydProcess()
        _ = try await relayd.start()
        let empty = try await doctor(relayd, ["--backups", folder.path])
        #expect(try empty.one("backup").status == "failed")
        // Backups of another relay are none of this one.
        let other = try await RelaydProcess()
        _ = try await other.start()
        _ = try await other.run("backup", "--keep", "1", folder.path)
        #expect(try await doctor(relayd, ["--backups", folder.path]).one("backup").message.contains("has no backup of this relay"))
        _ = try await relayd.run("backup", folder.path + "/mine.tar")
        #expect(try await doctor(relayd, ["--backups", folder.path]).one("backup").status == "ok")
        try Data("half".utf8).write(to: folder.appending(path: "broken.tar"))
        let broken = try await doctor(relayd, ["--backups", folder.path])
        #expect(try broken.one("backup").status == "warning" && broken.one("backup").message.contains("broken.tar"))
        for relay in [relayd, other] { #expect(try await relay.stop() == 0) }
    }

    /// The clock has gone back, or was ahead when the relay wrote.
    @Test(
        .enabled(if: FileManager.default.isExecutableFile(atPath: "/usr/bin/faketime"), "needs Debian's package faketime"),
        arguments: [("-3h", "warning", "ok"), ("-3d", "failed", "ok"), ("+3d", "ok", "warning"), ("+20d", "ok", "failed")]
    )
    func aWrongClockAndAnOldBackupShow(shift: String, clock: String, backup: String) async throws {
        let relayd = try await RelaydProcess()
        _ = try await relayd.start()
        #expect(try await relayd.stop() == 0)
        _ = try await relayd.run("backup", "--keep", "1", folder.path)
        let process = Process()
        process.executableURL = URL(filePath: "/usr/bin/faketime")
        process.arguments =
            [
                "-f", shift, RelaydProcess.executable.path, "doctor", "--json", "--data-directory", relayd.directory.path, "--backups",
                folder.path,
            ]
        // libfaketime would also shift the times of files.
        process.environment = ProcessInfo.processInfo.environment.merging(["NO_FAKE_STAT": "1"]) { $1 }
        let ended = try await ProcessRun.run(process)
        let report = try JSONDecoder().decode(Report.self, from: Data(ended.output.utf8))
        #expect(try report.one("clock").status == clock, "\(report.checks)")
        #expect(try report.one("backup").status == backup, "\(report.checks)")
    }

    #if os(Linux)
    @Test(.enabled(if: SmallDisk.isPossible)) func aDiskThatIsNearlyFullIsNamed() async throws {
        let relayd = try await RelaydProcess()
        _ = try await relayd.start()
        #expect(try await relayd.stop() == 0)
        let disk = try SmallDisk(megabytes: 8)
        let nearly = try await doctor(relayd, ["--backups", disk.directory.path]).all("disk")
        #expect(nearly.map(\.status) == ["ok", "failed"] && nearly[1].message.contains("MiB are free for the backups"), "\(nearly)")
        #expect(nearly[1].advice?.contains("du -xh") == true)
        try disk.fill()
        let full = try await doctor(relayd, ["--backups", disk.directory.path]).all("disk")
        #expect(full.map(\.status) == ["ok", "failed"] && full[1].message.hasPrefix("0 KiB are free"), "\(full)")
    }
    #endif

    @Test func aDamagedDatabaseIsNamed() async throws {
        let relayd = try await RelaydProcess()
        _ = try await relayd.start()
        #expect(try await relayd.stop() == 0)
        let file = relayd.directory.appending(path: "relay.sqlite")
        try Data(contentsOf: file).prefix(8_192).write(to: file)
        let report = try await doctor(relayd)
        #expect(try report.one("database").status == "failed")
        #expect(try report.one("database").advice?.contains("relayd restore") == true)
        // It is left as it was.
        #expect(try Data(contentsOf: file).count == 8_192)
    }

    @Test func aPortThatIsClosedAndOtherSettingsAreNamed() async throws {
        let relayd = try await RelaydProcess(arguments: ["--tunnel-listen", "off"])
        _ = try await relayd.start()
        let free = try FreePort.take()
        let closed = try await doctor(relayd, settings(relayd) + ["--metrics-listen", "127.0.0.1:\(free)"])
        #expect(try closed.one("ports").status == "failed" && closed.one("ports").message.contains("127.0.0.1:\(free)"))
        // A relay that runs with other settings than these.
        let other = try await doctor(relayd, settings(relayd) + ["--url", "http://127.0.0.1:\(free)"])
        #expect(try other.one("relay").status == "warning")
        #expect(try other.one("url").status == "failed")
        #expect(try await relayd.stop() == 0)
    }

    /// A URL that leads to another relay.
    @Test func anotherRelayAtTheURLIsNamed() async throws {
        let other = try await RelaydProcess()
        _ = try await other.start()
        let relayd = try await RelaydProcess(arguments: ["--url", other.origin])
        _ = try await relayd.start()
        let report = try await doctor(relayd, settings(relayd) + ["--url", other.origin])
        #expect(try report.one("url").status == "failed" && report.one("url").message.contains("another relay"), "\(report.checks)")
        for relay in [relayd, other] { #expect(try await relay.stop() == 0) }
    }

    // MARK: Proxies

    @Test(
        .enabled(if: Nginx.isPossible, "needs Debian's package nginx"),
        arguments: [(true, true, "ok"), (false, true, "failed"), (true, false, "failed")]
    )
    func whatAProxySaysOfItsClientsIsNamed(isTrusted: Bool, namesClients: Bool, status: String) async throws {
        let port = try FreePort.take()
        let arguments = ["--url", "http://127.0.0.1:\(port)"] + (isTrusted ? ["--trusted-proxy", "127.0.0.1"] : [])
        let relayd = try await RelaydProcess(arguments: arguments + ["--tunnel-listen", "off"])
        _ = try await relayd.start()
        let nginx = try Nginx(port: port, upstream: "server \(relayd.host);", namesClients: namesClients)
        try await nginx.wait {
            guard let socket = try? await TestSocket(port: port) else { return false }
            await socket.close()
            return true
        }
        let report = try await doctor(relayd, settings(relayd) + arguments)
        let check = try report.one("proxy")
        #expect(check.status == status, "\(report.checks)")
        if !isTrusted { #expect(check.advice?.contains("--trusted-proxy 127.0.0.1") == true, "\(check)") }
        if !namesClients { #expect(check.advice?.contains("X-Forwarded-For") == true, "\(check)") }
        #expect(try report.one("url").status == "ok")
        #expect(try await relayd.stop() == 0)
        withExtendedLifetime(nginx) {}
    }

    // MARK: Certificates

    /// A certificate for this name with a life of 90 days.
    private func certificate(_ name: String, from begin: String) async throws -> (certificate: String, key: String) {
        let (certificate, key) = (folder.path + "/certificate.pem", folder.path + "/key.pem")
        let process = Process()
        process.executableURL = URL(filePath: "/usr/bin/env")
        process.arguments = [
            "openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", certificate, "-subj", "/CN=test", "-addext",
            "subjectAltName=\(name)", "-days", "90",
        ]
        process.arguments = (begin.isEmpty ? [] : ["faketime", "-f", begin]) + (process.arguments ?? [])
        #expect(try await ProcessRun.run(process).status == 0)
        try FileManager.default.setAttributes([.posixPermissions: 0o600], ofItemAtPath: key)
        return (certificate, key)
    }

    @Test(
        .enabled(if: FileManager.default.isExecutableFile(atPath: "/usr/bin/faketime"), "needs Debian's package faketime"),
        arguments: [
            ("IP:127.0.0.1", "-1d", "ok", "ok"), ("IP:127.0.0.1", "-80d", "warning", "ok"), ("IP:127.0.0.1", "-100d", "failed", "failed"),
            ("DNS:other.example", "-1d", "failed", "failed"),
        ]
    )
    func theCertificateThatClientsSeeIsExamined(name: String, begin: String, status: String, url: String) async throws {
        let files = try await certificate(name, from: begin)
        let port = try FreePort.take()
        let arguments = ["--certificate-file", files.certificate, "--key-file", files.key, "--url", "https://127.0.0.1:\(port)"]
        let relayd = try await RelaydProcess(port: port, arguments: arguments + ["--tunnel-listen", "off"])
        _ = try await relayd.start()
        let report = try await doctor(relayd, settings(relayd) + arguments + ["--ca-file", files.certificate])
        // That of the file, and the one that is served.
        #expect(report.all("certificate").map(\.status) == [status, status], "\(report.checks)")
        #expect(try report.one("url").status == url, "\(report.checks)")
        // Without the authority, the URL is not trusted, and the advice says how to name it.
        let untrusted = try await doctor(relayd, settings(relayd) + arguments)
        #expect(try untrusted.one("url").status == "failed" && untrusted.one("url").advice?.contains("--ca-file") == true)
        #expect(try await relayd.stop() == 0)
    }

    @Test func theRelaysOwnKeyNeedsNoAuthority() async throws {
        let relayd = try await RelaydProcess(.ownCertificate, arguments: ["--tunnel-listen", "off"])
        _ = try await relayd.start()
        let arguments = ["--listen", "0.0.0.0:\(relayd.port)", "--url", relayd.origin, "--tunnel-listen", "off"]
        let report = try await doctor(relayd, arguments)
        #expect(try report.one("url").status == "ok" && report.one("certificate").status == "ok", "\(report.checks)")
        #expect(try report.one("certificate").message.contains("own key"))
        // The relay that runs says what it shows, whatever the settings of the command.
        let other = try await doctor(relayd)
        #expect(try other.one("url").status == "ok" && other.one("certificate") == report.one("certificate"), "\(other.checks)")
        #expect(try await relayd.stop() == 0)
    }

    /// A URL that leads past its proxy: no link pins the key there, and nothing could have renewed its certificate.
    @Test func theRelaysOwnKeyInPlaceOfAProxysIsNamed() async throws {
        let arguments = ["--listen", "127.0.0.1:\(try FreePort.take())", "--tunnel-listen", "off"]
        let relayd = try await RelaydProcess(.ownCertificate, arguments: arguments)
        _ = try await relayd.start()
        let check = try await doctor(relayd, arguments + ["--url", relayd.origin]).one("certificate")
        #expect(check.status == "failed" && check.message.contains("own key") && check.advice?.contains("proxy") == true, "\(check)")
        #expect(check.advice?.contains("renewed") == false)
        #expect(try await relayd.stop() == 0)
    }

    // MARK: Services of others

    @Test func anIssuerThatDoesNotAnswerIsNamed() async throws {
        let relayd = try await RelaydProcess()
        _ = try await relayd.start()
        let file = folder.appending(path: "issuers.json")
        func report(_ url: String) async throws -> Report {
            try Data(#"{"issuers": [{"issuer": "\#(url)", "audience": "https://relay.example"}]}"#.utf8).write(to: file)
            return try await doctor(relayd, settings(relayd) + ["--issuers-file", file.path])
        }
        // The relay's own issuer is one like any other.
        #expect(try await report("\(relayd.origin)/auth").one("issuer").status == "ok")
        let closed = try await report("http://127.0.0.1:\(try FreePort.take())")
        #expect(try closed.one("issuer").status == "failed" && closed.one("issuer").message.contains("no connection"))
        let wrong = try await report("\(relayd.origin)/nothing")
        #expect(try wrong.one("issuer").status == "failed")
        try Data("{".utf8).write(to: file)
        #expect(try await doctor(relayd, settings(relayd) + ["--issuers-file", file.path]).one("issuer").status == "failed")
        #expect(try await relayd.stop() == 0)
    }

    @Test func pushCredentialsThatCannotBeUsedAreNamed() async throws {
        let relayd = try await RelaydProcess()
        _ = try await relayd.start()
        #expect(try await doctor(relayd).one("push").message.contains("no push credentials"))
        _ = try await relayd.run("app", "credential", "web-push", "default", "--contact", "mailto:me@example.org")
        #expect(try await doctor(relayd).one("push").message == "1 push credential can be used")
        // A key that is none, and a domain without a proof.
        let account = folder.appending(path: "account.json")
        try Data(#"{"project_id": "p", "client_email": "e@example.org", "private_key": "canary-no-key"}"#.utf8).write(to: account)
        _ = try await relayd.run("app", "credential", "fcm", "default", "--service-account", account.path)
        _ = try await relayd.run("app", "add", "apps.example.org")
        _ = try await relayd.run("app", "credential", "web-push", "apps.example.org", "--contact", "mailto:me@example.org")
        let report = try await doctor(relayd)
        let pushes = report.all("push")
        #expect(pushes.map(\.status) == ["failed", "warning"], "\(pushes)")
        #expect(pushes.first?.message.hasPrefix("fcm ") == true && pushes.last?.advice == "relayd app verify apps.example.org")
        #expect(!"\(report)".contains("canary"))
        #expect(try await relayd.stop() == 0)
    }

    @Test(.enabled(if: PostgresServer.isPossible)) func aPostgreSQLServerSaysWhetherItHasAStandby() async throws {
        let places = try RelayNodes(1)
        let arguments = places.arguments(0, store: try await PostgresServer.shared.makeURI())
        let relayd = try await RelaydProcess(port: places.ports[0], arguments: arguments)
        _ = try await relayd.start()
        let report = try await doctor(relayd, settings(relayd) + arguments)
        // The tests' server has no standby.
        #expect(
            try report.one("database").status == "warning" && report.one("database").message.hasPrefix("PostgreSQL "),
            "\(report.checks)"
        )
        #expect(try report.one("backup").status == "skipped" && report.one("push").status == "ok")
        #expect(try await relayd.stop() == 0)
        let gone = try await doctor(relayd, settings(relayd) + ["--store", "postgres://nobody@127.0.0.1:1/none"])
        #expect(try gone.one("database").status == "failed")
    }
}
