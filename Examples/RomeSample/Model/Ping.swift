// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import Foundation

/// The original's test message: the answer repeats the date and the target.
struct Ping: AppServiceCall {
    struct Response: Codable, Sendable {
        var kind: String
        var created: Date
        var target: String

        enum CodingKeys: String, CodingKey {
            case kind = "Type"
            case created = "CreationDate"
            case target = "TargetId"
        }
    }

    static let type = "ping"
    var created: Date
    var target: String

    enum CodingKeys: String, CodingKey {
        case created = "CreationDate"
        case target = "TargetId"
    }

    /// The answer of the service `pingpong`.
    static func answer(_ message: ValueSet) throws -> ValueSet {
        guard message["Type"]?.string == type else { throw AppServiceError(.invalidMessage, message: "this service answers pings only") }
        var answer = message
        answer["Type"] = "pong"
        return answer
    }
}

/// The message of the service `echo`, which returns its text.
enum Echo {
    static let most = 1_000

    static func message(_ text: String) -> ValueSet { ["request": .string(text)] }

    static func answer(_ message: ValueSet) throws -> ValueSet {
        guard let text = message["request"]?.string else { throw AppServiceError(.invalidMessage, message: "an echo needs a text") }
        guard text.utf8.count <= most else { throw AppServiceError(.messageTooLarge, message: "an echo has at most \(most) bytes") }
        return ["response": .string(text)]
    }
}
