// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import RelayProtocol

/// The app service `clipboard`: other known devices write to this machine's clipboard, or also read it.
struct ClipboardService: Sendable {
    static let name = "clipboard"

    /// What others may do.
    enum Access: String, Hashable, Sendable, CaseIterable {
        case nothing
        case write
        /// Also read what this machine's person has copied.
        case all
    }

    enum Problem: String, Codable, Sendable {
        /// The settings do not permit it.
        case notAllowed
    }

    struct Write: AppServiceCall {
        static let type = "write"
        var text: String
        struct Response: Codable, Sendable {}
    }

    struct Read: AppServiceCall {
        static let type = "read"
        struct Response: Codable, Sendable {
            var text: String?
            var problem: Problem?
        }
    }

    let clipboard: Clipboard
    let access: Access

    var service: AppService {
        AppService(Self.name) { connection, _ in try await connection.respond { try await answer($0.message) } }
    }

    private func answer(_ message: ValueSet) async throws -> ValueSet {
        do {
            switch message["Type"]?.string {
            case Write.type:
                guard let text = message["text"]?.string, text.utf8.count <= Clipboard.maximumBytes else {
                    throw AppServiceError(.invalidMessage, message: "'text' must be a text of at most \(Clipboard.maximumBytes) bytes")
                }
                try await clipboard.write(text)
                return [:]
            case Read.type:
                guard access == .all else { return ["problem": .string(Problem.notAllowed.rawValue)] }
                return ["text": .string(try await clipboard.read())]
            default: throw AppServiceError(.invalidMessage, message: "'Type' must be write or read")
            }
        } catch let error as AgentError {
            throw AppServiceError(.failure, message: error.message)
        }
    }
}
