// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import RelayTesting
import Testing

/// What earlier versions have left goes on with this one.
@Suite(.serialized, .timeLimit(.minutes(10))) struct FrozenVersionTests {
    /// The archives that `scripts/frozen.py` made with each released version.
    private static let archives: [URL] = {
        let folder = Project.root.appending(path: "Tests/Frozen")
        let files = (try? FileManager.default.contentsOfDirectory(at: folder, includingPropertiesForKeys: nil)) ?? []
        return files.filter { $0.lastPathComponent.hasSuffix(".tar.xz") }.sorted { $0.path < $1.path }
    }()

    private static let faketime = URL(filePath: "/usr/bin/faketime")

    @Test func everyVersionIsFrozen() throws {
        let stated = try #require(
            try Project.text("Sources/BuildVersion/BuildVersion.swift").firstMatch(of: /static let release = "([0-9.]+)"/)?.1
        )
        #expect(Self.archives.map(\.lastPathComponent).contains("\(stated).tar.xz"))
    }

    @Test(
        .enabled(if: FileManager.default.isExecutableFile(atPath: faketime.path), "needs Debian's package faketime"),
        arguments: archives
    ) func earlierDatabaseAndHomesGoOn(archive: URL) async throws {
        let script = Project.root.appending(path: "scripts/frozen.py").path
        let command = ["python3", script, "open", Project.products.path, archive.path]
        // Its port may be in use. Root can have a network of its own.
        let isAlone = geteuid() == 0
        let words = isAlone ? ["unshare", "--net", "sh", "-c", #"ip link set lo up && exec "$@""#, "sh"] + command : command
        let output = try await RelayProcess(
            words,
            executable: URL(filePath: "/usr/bin/env"),
            environment: ["PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"]
        ).finish()
        #expect(output.status == 0, "\(output.text)\(output.errorText)")
    }
}
