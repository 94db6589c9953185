// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Logging
import RelayProtocol

/// Sends this endpoint's statements about other endpoints, vouchers and revocations, to the relay. The journal keeps each one until the
/// relay has answered it.
final class PeerStatements {
    private let endpoint: EndpointContext
    private let link: any ControlSending
    private let clock: RelayClock

    init(_ endpoint: EndpointContext, link: any ControlSending, clock: RelayClock) {
        self.endpoint = endpoint
        self.link = link
        self.clock = clock
    }

    /// Sends a voucher: a signed statement that an endpoint belongs to the account, with its verification level.
    func vouch(for record: Signed<EndpointRecord>, _ knowledge: Voucher.VerificationLevel, completion: @escaping () -> Void) {
        let peer = record.payload.endpointID
        let voucher = Voucher(by: endpoint.id, for: record, knowledge: knowledge, time: clock.time)
        guard let signed = try? Signed(voucher, key: endpoint.identityKey) else { return completion() }
        store { try $0.addVoucher(for: peer) }
        link.requestPatiently(endpoint.loop) {
            .endpointApprove(.init(ref: $0, endpoint: peer, voucher: Blob(signed.encoded)))
        } answer: { [self] answer in
            if isAccepted(answer, "a voucher was not taken") { store { try $0.removeVoucher(for: peer) } }
            completion()
        }
    }

    /// Sends a stored revocation.
    func revoke(_ peer: EndpointID, with revocation: [UInt8], completion: @escaping (ControlAnswer) -> Void) {
        link.requestPatiently(endpoint.loop) {
            .endpointRevoke(.init(ref: $0, endpoint: peer, revocation: Blob(revocation)))
        } answer: { [self] answer in
            if isAccepted(answer, "a revocation was not taken") { store { try $0.setRevocationSent(peer) } }
            completion(answer)
        }
    }

    /// Whether the request is finished. Without an answer, or if the relay is unavailable, it is sent again on the next connection.
    private func isAccepted(_ answer: ControlAnswer, _ rejection: Logger.Message) -> Bool {
        switch answer {
        case .ok, .settled: return true
        case .connectionLost: return false
        case .failure(let failure):
            endpoint.logger.warning(rejection, metadata: ["code": "\(failure.code)"])
            return failure.code != .unavailable
        }
    }

    /// Stores data about a peer without waiting. A failure is only logged, because the data is received or requested again.
    func store(_ body: @escaping @Sendable (JournalTransaction) throws -> Void) {
        let logger = endpoint.logger
        endpoint.journal.write(body) { result in
            if case .failure = result { logger.error("the data about a peer cannot be stored") }
        }
    }
}
