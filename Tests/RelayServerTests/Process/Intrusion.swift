// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import RelayProtocol

/// Everything that an endpoint of one account can say, aimed at what is another account's.
struct Intrusion {
    /// A kind of message. A new message does not compile until it has a kind, and a new kind not until it has an attack.
    enum Kind: String, CaseIterable {
        case hello, publish, unpublish, endpointUpdate, endpointApprove, endpointRevoke, leaving, notificationsRegister, watch, unwatch
        case commandSend, commandCancel, commandReceived, commandResult, commandAcknowledge, mailboxDrain, tunnelOpen, tunnelDecline
        case tunnelCandidates, authRefresh, identityLink

        init(_ message: EndpointMessage) {
            self =
                switch message {
                case .hello: .hello
                case .publish: .publish
                case .unpublish: .unpublish
                case .endpointUpdate: .endpointUpdate
                case .endpointApprove: .endpointApprove
                case .endpointRevoke: .endpointRevoke
                case .leaving: .leaving
                case .notificationsRegister: .notificationsRegister
                case .watch: .watch
                case .unwatch: .unwatch
                case .commandSend: .commandSend
                case .commandCancel: .commandCancel
                case .commandReceived: .commandReceived
                case .commandResult: .commandResult
                case .commandAcknowledge: .commandAcknowledge
                case .mailboxDrain: .mailboxDrain
                case .tunnelOpen: .tunnelOpen
                case .tunnelDecline: .tunnelDecline
                case .tunnelCandidates: .tunnelCandidates
                case .authRefresh: .authRefresh
                case .identityLink: .identityLink
                }
        }
    }

    enum Answer: Hashable {
        case refused(Set<ControlErrorCode>)
        /// The request is served, for the attacker's own account.
        case served
        /// A statement: nothing comes of it.
        case none
        case closed(UInt16)

        static func refused(_ codes: ControlErrorCode...) -> Answer { .refused(Set(codes)) }
    }

    let phone: WireEndpoint
    let pc: WireEndpoint
    let eve: WireEndpoint
    let role: EndpointMessage.Hello.Role
    /// From the phone to the PC; the first has its outcome, the others have not.
    let commands: [SealedCommand]
    /// The other account's token, not bound to a key.
    let stolenToken: String
    let ref = RequestRef(1_000_000) ?? .first

    func attempts(_ kind: Kind) throws -> [(EndpointMessage, Answer)] {
        let (done, waiting) = (commands[0], commands[1])
        switch kind {
        case .hello:
            let challenge = RelayMessage.Challenge(
                nonce: Blob(Array(repeating: 0, count: 32)),
                relay: waiting.header.relay,
                time: 0,
                versions: [1],
                features: []
            )
            return [(try pc.hello(to: challenge, role: role), .closed(1002))]
        case .publish:
            return try [pc.registration("org.example.player"), eve.registration("org.example.player", account: pc.account)].map {
                (.publish(.init(ref: ref, registration: Blob($0.encoded))), ofHosts(.refused(.signatureInvalid)))
            }
        case .unpublish: return [(.unpublish(.init(ref: ref, appID: "org.example.player")), .served)]
        case .endpointUpdate:
            return try [pc.record(version: 9), eve.record(version: 9, account: pc.account)].map {
                (.endpointUpdate(.init(ref: ref, record: Blob($0.encoded))), .refused(.signatureInvalid))
            }
        case .endpointApprove:
            return try [(eve.account, ControlErrorCode.notFound), (pc.account, .signatureInvalid)].map { account, code in
                let voucher = Voucher(by: eve.id, for: try pc.record(account: account), time: 1)
                let signed = try Signed(voucher, key: eve.identityKey)
                return (.endpointApprove(.init(ref: ref, endpoint: pc.id, voucher: Blob(signed.encoded))), .refused(code))
            }
        case .endpointRevoke:
            return try [(eve.account, ControlErrorCode.notFound), (pc.account, .signatureInvalid)].map { account, code in
                let revocation = try eve.revocation(of: pc, account: account)
                return (.endpointRevoke(.init(ref: ref, endpoint: pc.id, revocation: revocation)), .refused(code))
            }
        case .leaving: return [(.leaving(.init(ref: ref, reason: .signedOut)), ofHosts(.served))]
        case .notificationsRegister:
            let request = EndpointMessage.NotificationsRegister(
                ref: ref,
                appID: "org.example.player",
                displayName: "P",
                channel: .polling(interval: nil)
            )
            return [(.notificationsRegister(request), ofHosts(.served))]
        case .watch: return [(.watch(.init(ref: ref)), .served)]
        case .unwatch: return [(.unwatch(.init(ref: ref)), .served)]
        case .commandSend:
            let own = try eve.launch("film:1", on: pc, number: 1)
            let foreign = try eve.launch("film:1", on: pc, number: 1, account: pc.account)
            // The relay's database is young, so a repeated command to any unknown endpoint waits until that endpoint connects.
            return [
                (waiting, .signatureInvalid, .signatureInvalid), (own, .targetUnknown, .unavailable),
                (foreign, .signatureInvalid, .signatureInvalid),
            ].flatMap { (command: SealedCommand, first: ControlErrorCode, again: ControlErrorCode) in
                [(false, first), (true, again)].map { isAgain, code in
                    (.commandSend(.init(ref: ref, command: Blob(command.encoded), again: isAgain)), .refused(code))
                }
            }
        case .commandCancel: return [(.commandCancel(.init(ref: ref, id: waiting.header.id)), .refused(.notFound))]
        case .commandReceived: return [(.commandReceived(.init(sender: phone.id, id: waiting.header.id)), .none)]
        case .commandResult:
            // What the PC would sign, the same signed by another, and one that names that other as the target.
            let (id, known) = (waiting.header.id, waiting.descriptor)
            let forged = CommandDescriptor(
                id: id,
                lane: CommandLane(sender: phone.id, target: eve.id, appID: known.lane.appID),
                number: known.number,
                created: known.created,
                expires: known.expires,
                digest: known.digest,
                size: known.size
            )
            return try [
                (known, pc.identityKey, ControlErrorCode.signatureInvalid), (known, eve.identityKey, .signatureInvalid),
                (forged, eve.identityKey, .notFound),
            ].map { command, key, code in
                let receipt = try Signed(CommandReceipt(for: command, outcome: .succeeded, time: 1), key: key)
                let request = EndpointMessage.CommandResult(ref: ref, sender: phone.id, id: id, receipt: Blob(receipt.encoded))
                return (.commandResult(request), ofHosts(.refused(code)))
            }
        case .commandAcknowledge: return [(.commandAcknowledge(.init(id: done.header.id)), .none)]
        case .mailboxDrain: return [(.mailboxDrain(.init(ref: ref)), ofHosts(.served))]
        // A relay without tunnels says so.
        case .tunnelOpen:
            return [(.tunnelOpen(.init(ref: ref, target: pc.id, timeout: 1)), .refused(.notFound, .unsupported))]
        case .tunnelDecline:
            var random = SystemRandomNumberGenerator()
            return [(.tunnelDecline(.init(tunnel: TunnelID(using: &random))), .none)]
        case .tunnelCandidates:
            var random = SystemRandomNumberGenerator()
            return [(.tunnelCandidates(.init(tunnel: TunnelID(using: &random), candidates: Blob([1]))), .none)]
        case .authRefresh:
            return [
                (.authRefresh(.init(ref: ref, token: Secret(stolenToken))), .refused(.wrongAccount)),
                (.authRefresh(.init(ref: ref, token: Secret(pc.token))), .refused(.tokenBoundToOtherKey)),
            ]
        case .identityLink:
            return [
                (.identityLink(.init(ref: ref, token: Secret(stolenToken))), .refused(.wrongAccount, .loginTooOld, .tokenNotBound)),
                (.identityLink(.init(ref: ref, token: Secret(pc.token))), .refused(.tokenBoundToOtherKey)),
            ]
        }
    }

    /// A client may not say it at all.
    private func ofHosts(_ answer: Answer) -> Answer { role == .host ? answer : .refused(.notAuthorized) }
}
