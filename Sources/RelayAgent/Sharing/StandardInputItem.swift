// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import Foundation
import RelayProtocol
import RelayStorage

/// Standard input as something to send: a short text as a text, anything else as a file. Its size must be known before it is sent, so it is
/// copied to the disk first.
final class StandardInputItem: Sendable {
    private let name: String?
    private let folder = OneShot<String>()

    /// - Parameter name: The name of the file; `nil` sends a short text as a text.
    init(name: String?) { self.name = name }

    func read(textBytes: Int) async throws -> NearShareItem {
        let input = StandardInput()
        var beginning: [UInt8] = []
        while beginning.count <= textBytes {
            guard let more = try await input.some(most: textBytes + 1 - beginning.count) else { break }
            beginning += more
        }
        let isWhole = beginning.count <= textBytes
        if name == nil, isWhole {
            guard !beginning.isEmpty else { throw AgentError("inputEmpty", "standard input is empty", .usage) }
            if let text = String(validating: beginning, as: UTF8.self) { return .text(text) }
        }
        let file = try newFile()
        var offset = Int64(0)
        var next: [UInt8]? = beginning
        do {
            while let bytes = next {
                try file.file.write(bytes, at: offset)
                offset += Int64(bytes.count)
                next = isWhole ? nil : try await input.some(most: 1 << 20)
            }
        } catch let error as SystemError {
            throw AgentError(error, file.path)
        }
        return .file(atPath: file.path)
    }

    private func newFile() throws(AgentError) -> (file: OpenFile, path: String) {
        guard let name = EntryName(name ?? "standard-input") else {
            throw AgentError("nameInvalid", "'\(name ?? "")' cannot be a file's name", .usage)
        }
        let place = FileManager.default.temporaryDirectory.path
        // A folder for this user alone, because the name of the file in it is sent.
        var template = Array("\(place)/relay-send-XXXXXX".utf8CString)
        guard let made = mkdtemp(&template) else { throw AgentError(SystemError(), place) }
        let path = String(cString: made)
        folder.settle(path)
        do throws(SystemError) {
            let folder = try OpenFile.folder(at: path)
            return (try folder.open(name, O_RDWR | O_CREAT | O_EXCL, mode: 0o600), "\(path)/\(name.text)")
        } catch {
            throw AgentError(error, path)
        }
    }

    /// Removes the copy.
    func remove() { if let path = folder.value { try? FileManager.default.removeItem(atPath: path) } }
}
