// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

package import RelayProtocol

/// Checks the parts of a `hello` that need no token. The core checks the record: it can skip a record that it has verified before.
package struct HelloCheck: Sendable {
    package static let versions = [ProtocolVersion.current]

    package var relay: RelayID

    package init(relay: RelayID) { self.relay = relay }

    /// - Parameters:
    ///   - nonce: the channel's challenge.
    ///   - isOwnOrigin: whether an origin is the relay's own.
    package func record(
        of hello: EndpointMessage.Hello,
        nonce: [UInt8],
        isOwnOrigin: Bool
    ) throws(RelayMessage.Rejected) -> Unverified<EndpointRecord> {
        guard Self.versions.contains(hello.version) else {
            throw RelayMessage.Rejected(
                code: .versionUnsupported,
                message: "this relay speaks version \(Self.versions.map(String.init).joined(separator: ", "))",
                retry: false
            )
        }
        let record: Unverified<EndpointRecord>
        do throws(RecordError) {
            record = try Unverified(decoding: hello.record.bytes)
        } catch {
            throw RelayMessage.Rejected(error)
        }
        guard isOwnOrigin else {
            throw RelayMessage.Rejected(
                code: .wrongOrigin,
                message: "the dialled origin is not one of this relay's origins; if it should be one, add it with --url",
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
        // The signature does not show which of these differs.
        guard statement.isSigned(hello.signature.bytes, by: record.payload.identityKey) else {
            throw RelayMessage.Rejected(
                code: .signatureInvalid,
                message: "the signature does not cover this relay's id, the origin, this channel's challenge, the token and the record",
                retry: false
            )
        }
        return record
    }
}

extension RelayMessage.Rejected {
    /// The rejection of a hello with an invalid record.
    init(_ error: RecordError) {
        if case .limitExceeded(let exceeded) = error {
            self.init(code: .limitExceeded, message: exceeded.description, retry: false, limit: ExceededLimit(exceeded))
            return
        }
        let reason =
            switch error {
            case .badSignature: "its signature is not valid"
            case .notPartOfSystem: "its device's key did not sign for this endpoint"
            case .invalidField(let field): "its field \(field) has a value that is not allowed"
            default: "it cannot be read"
            }
        self.init(code: .recordInvalid, message: "the endpoint record: \(reason)", retry: false)
    }
}
