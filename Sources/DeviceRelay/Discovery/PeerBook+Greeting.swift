// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol

/// What known endpoints say themselves, without the relay.
extension PeerBook {
    /// The revocations of endpoints that were never known here, which known endpoints may add in one process.
    static let maximumRevokedStrangers = 256

    /// Takes the record and the registrations that a known endpoint has sent. What is older or invalid changes nothing.
    mutating func greeted(by endpoint: EndpointID, record: [UInt8], registrations: [[UInt8]]) -> [Action] {
        guard isConfirmed(endpoint), !isRefused(endpoint), endpoint != own else { return [] }
        do throws(RecordError) {
            return try renew(record, registrations, of: endpoint)
        } catch {
            report(.recordRefused(endpoint, error))
            return []
        }
    }

    /// Takes the signed revocations that a known endpoint has sent. One that does not count here is dropped. One by an endpoint that nobody
    /// has verified holds until the relay lists the endpoint.
    mutating func heard(_ revocations: [[UInt8]]) -> [Action] {
        revocations.flatMap { bytes -> [Action] in
            guard let statement = try? Unverified<Revocation>(decoding: bytes) else { return [] }
            let (endpoint, signer) = (statement.payload.endpoint, statement.payload.revoker)
            guard endpoint != own, !isRefused(endpoint) else { return [] }
            let isStranger = record(of: endpoint) == nil && !isConfirmed(endpoint)
            guard !isStranger || revokedStrangers < Self.maximumRevokedStrangers else { return [] }
            let isFinal = signer == endpoint || knowledge(of: signer) == .verified
            let actions = isFinal ? revoke(by: statement) : shutOut(by: statement)
            if isStranger, actions != nil { revokedStrangers += 1 }
            return actions ?? []
        }
    }
}
