// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

package import RelayProtocol

/// Checks in a `hello` what needs no token.
package struct HelloCheck: Sendable {
    package static let versions = [1]

    package var relay: RelayID
    package var limits: Limits

    package init(relay: RelayID, limits: Limits) {
        self.relay = relay
        self.limits = limits
    }

    /// - Parameters:
    ///   - nonce: the channel's challenge.
    ///   - isOwnOrigin: whether the origin that was dialled is the relay's.
    package func record(
        of hello: EndpointMessage.Hello,
        nonce: [UInt8],
        isOwnOrigin: Bool
    ) throws(RelayMessage.Rejected) -> Signed<EndpointRecord> {
        guard Self.versions.contains(hello.version) else {
            throw RelayMessage.Rejected(
                code: .versionUnsupported,
                message: "this relay speaks version \(Self.versions.map(String.init).joined(separator: ", "))",
                retry: false
            )
        }
        let record: Signed<EndpointRecord>
        do throws(RecordError) {
            record = try Signed<EndpointRecord>(verifying: hello.record.bytes, limits: limits)
        } catch {
            throw Self.rejected(error)
        }
        guard isOwnOrigin else {
            throw RelayMessage.Rejected(
                code: .wrongOrigin,
                message: "the origin that was dialled is none of this relay's; if it is meant to be, name it with --url",
                retry: false
            )
        }
        let statement = HelloStatement(
            relay: relay,
            origin: hello.origin,
            nonce: nonce,
            token: hello.token.exposed,
            record: hello.record.bytes
        )
        // The signature does not tell which of these differs.
        guard statement.isSigned(hello.signature.bytes, by: record.payload.identityKey) else {
            throw RelayMessage.Rejected(
                code: .signatureInvalid,
                message: "the signature is not over this relay's id, the origin, this channel's challenge, the token and the record",
                retry: false
            )
        }
        return record
    }

    private static func rejected(_ error: RecordError) -> RelayMessage.Rejected {
        if case .limitExceeded(let exceeded) = error {
            return RelayMessage.Rejected(
                code: .limitExceeded,
                message: exceeded.description,
                retry: false,
                limit: ExceededLimit(exceeded)
            )
        }
        let reason =
            switch error {
            case .badSignature: "its signature does not hold"
            case .notPartOfSystem: "its device's key did not sign for this endpoint"
            case .invalidField(let field): "its field \(field) holds what it may not"
            default: "it cannot be read"
            }
        return RelayMessage.Rejected(code: .recordInvalid, message: "the endpoint record: \(reason)", retry: false)
    }
}
