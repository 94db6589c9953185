// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import Testing

@testable import RelayAgent

@Suite struct DownloadsFolderTests {
    private func folder(_ userDirectories: String?) throws -> String? {
        let home = FileManager.default.temporaryDirectory.appending(path: "downloads-\(UUID().uuidString)").path
        defer { try? FileManager.default.removeItem(atPath: home) }
        try FileManager.default.createDirectory(atPath: home + "/.config", withIntermediateDirectories: true)
        if let userDirectories { try Data(userDirectories.utf8).write(to: URL(filePath: home + "/.config/user-dirs.dirs")) }
        return DownloadsFolder.path(environment: ["HOME": home]).map { $0.replacing(home, with: "HOME") }
    }

    @Test func homeOfTheProcessCounts() throws {
        #expect(try folder(nil) == "HOME/Downloads")
        #expect(try folder("XDG_DESKTOP_DIR=\"$HOME/Desktop\"\n") == "HOME/Downloads")
        #expect(try folder("# comment\nXDG_DOWNLOAD_DIR=\"$HOME/T\u{E9}l\u{E9}chargements\"\n") == "HOME/T\u{E9}l\u{E9}chargements")
        #expect(try folder("XDG_DOWNLOAD_DIR=\"/data/in\"\n") == "/data/in")
        for value in ["", "\"", "\"\"", "\"relative\"", "/x"] {
            #expect(try folder("XDG_DOWNLOAD_DIR=\(value)") == "HOME/Downloads", "\(value)")
        }
    }
}
