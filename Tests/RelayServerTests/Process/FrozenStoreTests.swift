// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

#if Postgres
import Foundation
import RelayTesting
import Testing

/// What earlier versions have left in PostgreSQL goes on with this one. `scripts/frozen.py dump` made the files.
@Suite(.timeLimit(.minutes(10)), .enabled(if: PostgresServer.isPossible)) struct FrozenStoreTests {
    private static let folder = URL(filePath: #filePath).appending(path: "../../../Frozen").standardizedFileURL
    private static let dumps = ((try? FileManager.default.contentsOfDirectory(atPath: folder.path)) ?? []).filter {
        $0.hasSuffix(".sql.xz")
    }
    .sorted()

    @Test func everyVersionIsFrozen() async throws {
        let version = try await RelaydProcess.run(["--version"]).output.split(separator: " ")[1]
        #expect(Self.dumps.contains("\(version).sql.xz"))
    }

    @Test(arguments: dumps) func earlierDatabaseGoesOn(dump: String) async throws {
        let server = try await PostgresServer.shared
        let place = FileManager.default.temporaryDirectory.appending(path: "frozen-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: place, withIntermediateDirectories: false)
        defer { try? FileManager.default.removeItem(at: place) }
        // The key of the relay is in the archive of the same version.
        let archive = Self.folder.appending(path: dump.replacing(".sql.xz", with: ".tar.xz")).path
        try await ProcessRun.output(of: ["tar", "-xf", archive, "-C", place.path])
        let directory = place.appending(path: "relayd").path
        let uri = try await server.makeURI()
        try await server.load(try await ProcessRun.output(of: ["xz", "-dc", Self.folder.appending(path: dump).path]), into: uri)
        let store = ["--store", uri, "--data-directory", directory]
        let accounts = try await RelaydProcess.run(["account", "list"] + store)
        #expect(accounts.status == 0 && accounts.output.contains("me  2 endpoints, endpointsPerAccount 20"), "\(accounts)")
        let check = try await RelaydProcess.run(["store", "check"] + store)
        #expect(check.status == 0 && check.output.contains("1 accounts, 2 endpoints"), "\(check)")
        // What migrations made is what a new database has.
        let fresh = try await server.makeURI()
        let other = try await RelaydProcess(arguments: ["--store", fresh])
        _ = try await other.start()
        #expect(try await other.stop() == 0)
        #expect(try await server.layout(of: uri) == server.layout(of: fresh))
    }
}
#endif
