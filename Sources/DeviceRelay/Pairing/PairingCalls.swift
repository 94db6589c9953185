// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

package import RelayProtocol

extension PairingRequest: AppServiceCall {
    package typealias Response = PairingAnswer
}

/// The service by which endpoints are paired, which one serves only while a person has made the device visible. It is described in
/// docs/protocol.md, section 9.
enum PairingCalls {
    static let info = AppServiceInfo(name: PairingRequest.service, appID: Greeting.info.appID)

    /// Who the caller is, once both sides have proved the code or the secret. The answer says the same of the other side.
    struct Introduce: AppServiceCall {
        static let type = "introduce"

        var introduction: PairingIntroduction

        typealias Response = PairingIntroduction
    }

    static func decode<Call: AppServiceCall>(_ call: Call.Type, _ message: ValueSet) throws -> Call {
        guard let decoded = try? ValueSetDecoder().decode(call, from: message) else { throw invalid }
        return decoded
    }

    static var invalid: AppServiceError { AppServiceError(.invalidMessage, message: "the message breaks the protocol of pairing") }
}

/// What paired endpoints tell each other of themselves.
struct PairingIntroduction: Codable, Hashable, Sendable {
    /// The signed endpoint record, in the anonymous account.
    var record: [UInt8]
    /// The signed registrations of its apps.
    var registrations: [[UInt8]]
}
