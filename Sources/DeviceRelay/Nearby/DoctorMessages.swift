// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol

/// The messages of the service `doctor`, by which two devices of an account find out what hinders direct connections. They are described in
/// docs/protocol.md, section 8.
enum DoctorMessages {
    static let info = AppServiceInfo(name: "doctor", appID: Greeting.info.appID)

    /// Where the endpoint is, and its clock.
    struct Look: AppServiceCall {
        static let type = "look"

        struct Response: Codable, Sendable {
            /// The system's time, in milliseconds since 1970.
            var time: Int64
            /// The hour of its tags.
            var hour: UInt32
            /// Whether it uses the local network.
            var isUsed: Bool
            /// Where it listens.
            var port: UInt16?
            var addresses: [[UInt8]]
        }
    }

    /// Asks to listen for a packet, which the caller sends from now on.
    struct Hear: AppServiceCall {
        static let type = "hear"

        var nonce: [UInt8]

        struct Response: Codable, Sendable {
            var isHeard: Bool
        }
    }

    /// Asks to send a packet.
    struct Say: AppServiceCall {
        static let type = "say"

        var nonce: [UInt8]

        struct Response: Codable, Sendable {
            /// Whether the sender hears it itself.
            var isHeard: Bool
        }
    }

    /// Asks to dial the caller.
    struct Dial: AppServiceCall {
        static let type = "dial"

        var port: UInt16
        var addresses: [[UInt8]]

        struct Response: Codable, Sendable {
            var reports: [DialReport]
        }
    }

    static func decode<Call: AppServiceCall>(_ call: Call.Type, _ message: ValueSet) throws -> Call {
        guard let decoded = try? ValueSetDecoder().decode(call, from: message) else { throw invalid }
        return decoded
    }

    static var invalid: AppServiceError { AppServiceError(.invalidMessage, message: "the message breaks the protocol of the doctor") }
}
