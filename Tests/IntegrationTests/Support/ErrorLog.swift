// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation

/// The error output of a process, in a file.
final class ErrorLog {
    let handle: FileHandle
    private let url = FileManager.default.temporaryDirectory.appending(path: "errors-\(UUID().uuidString)")

    init() throws {
        guard FileManager.default.createFile(atPath: url.path, contents: nil) else { throw CocoaError(.fileWriteUnknown) }
        handle = try FileHandle(forWritingTo: url)
    }

    deinit { try? FileManager.default.removeItem(at: url) }

    var text: String { (try? String(contentsOf: url, encoding: .utf8)) ?? "" }

    func contains(_ words: String) async throws {
        while !text.contains(words) { try await Task.sleep(for: .milliseconds(50)) }
    }
}
