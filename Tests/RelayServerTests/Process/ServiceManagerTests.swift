// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

#if os(Linux)
import Foundation
import RelayTesting
import Testing

/// What a service manager learns of a real relay.
@Suite(.timeLimit(.minutes(10))) struct ServiceManagerTests {
    /// In place of systemd: starts a relay, and prints what it says, and whether it serves by then.
    private static let manager = """
        import os, signal, socket, subprocess, sys, urllib.request
        name, port, program, data = sys.argv[1:]
        notices = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        notices.bind("\\0" + name[1:] if name[0] == "@" else name)
        relay = subprocess.Popen(
            [program, "serve", "--listen", f"127.0.0.1:{port}", "--tunnel-listen", "off", "--data-directory", data, "--log-level", "error"],
            env=os.environ | {"NOTIFY_SOCKET": name}, stdout=subprocess.DEVNULL,
        )
        print(notices.recv(100).decode(), urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz").status, flush=True)
        relay.send_signal(signal.SIGTERM)
        print(notices.recv(100).decode(), relay.wait())
        """

    private let place = FileManager.default.temporaryDirectory.appending(path: "manager-\(UUID().uuidString)")

    private func manage(_ name: String) async throws -> String {
        try FileManager.default.createDirectory(at: place, withIntermediateDirectories: false)
        defer { try? FileManager.default.removeItem(at: place) }
        let program = RelaydProcess.executable.path
        return try await ProcessRun.output(
            of: ["python3", "-c", Self.manager, name, "\(try FreePort.take())", program, place.path + "/data"]
        )
    }

    @Test func managerLearnsWhenTheRelayServes() async throws {
        let wanted = "READY=1 200\nSTOPPING=1 0"
        #expect(try await manage(place.path + "/notices").trimmingCharacters(in: .newlines) == wanted)
        #expect(try await manage("@\(place.lastPathComponent)").trimmingCharacters(in: .newlines) == wanted)
    }

    @Test(arguments: ["", "@", "/no/such/socket", String(repeating: "x", count: 4_000)]) func uselessAddressChangesNothing(name: String)
        async throws
    {
        let relayd = try await RelaydProcess()
        relayd.environment = ["NOTIFY_SOCKET": name]
        _ = try await relayd.start()
        #expect(try await relayd.stop() == 0)
    }

    /// A manager that starts it again must know that this is in vain.
    @Test(arguments: ["relay.sqlite", "issuer.sqlite"]) func databasesThatNeedAPersonHaveTheCodeOfWrongSettings(file: String) async throws {
        let relayd = try await RelaydProcess()
        _ = try await relayd.start()
        #expect(try await relayd.stop() == 0)
        let path = relayd.directory.appending(path: file)
        let newer =
            "import sqlite3, sys; d = sqlite3.connect(sys.argv[1]); d.execute('INSERT INTO grdb_migrations VALUES (?)', ['99 later']); d.commit()"
        try await ProcessRun.output(of: ["python3", "-c", newer, path.path])
        let serve = ["serve", "--listen", "127.0.0.1:0", "--tunnel-listen", "off", "--data-directory", relayd.directory.path]
        let tooNew = try await RelaydProcess.run(serve)
        #expect(tooNew.status == 2 && tooNew.error.contains("newer version"), "\(tooNew)")
        try Data("not a database, but a text of some length".utf8).write(to: path)
        let damaged = try await RelaydProcess.run(serve)
        #expect(file != "relay.sqlite" || damaged.status == 2, "\(damaged)")
    }
}
#endif
