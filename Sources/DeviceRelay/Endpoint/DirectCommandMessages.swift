// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol

/// The messages of the service `commands`: commands and their results on direct sessions. They are described in docs/protocol.md, section 8.
enum DirectCommandMessages {
    static let info = AppServiceInfo(name: "commands", appID: Greeting.info.appID)

    /// From the sender of a command to its target.
    struct Offer: AppServiceCall {
        static let type = "offer"

        /// The sealed command.
        var command: [UInt8]
        /// Whether the sender knows that the target has stored it.
        var isReceived: Bool
        var isCancelled: Bool
        /// The sender's time, in milliseconds since 1970.
        var time: Int64

        struct Response: Codable, Sendable {
            var state: State
            /// With `answered`.
            var receipt: [UInt8]?
            var reply: [UInt8]?

            var result: JournalTransaction.Result? { receipt.map { .init(receipt: $0, reply: reply) } }
        }

        enum State: String, Codable, Sendable {
            /// The target has stored the command.
            case received
            /// It has ended.
            case answered
            /// The target cannot take it now, for example for lack of room.
            case later
        }
    }

    /// From the sender of a command to its target: the outcome is stored.
    struct Settled: AppServiceCall {
        static let type = "settled"

        var id: String

        struct Response: Codable, Sendable {}
    }

    /// From the target of a command to its sender. It is answered once the outcome is stored.
    struct Result: AppServiceCall {
        static let type = "result"

        var id: String
        var receipt: [UInt8]
        var reply: [UInt8]?

        struct Response: Codable, Sendable {}
    }

    static func decode<Call: AppServiceCall>(_ call: Call.Type, _ message: ValueSet) throws -> Call {
        guard let decoded = try? ValueSetDecoder().decode(call, from: message) else { throw invalid }
        return decoded
    }

    static var invalid: AppServiceError { AppServiceError(.invalidMessage, message: "the message breaks the protocol of commands") }
}
