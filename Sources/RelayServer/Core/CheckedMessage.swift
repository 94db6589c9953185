// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol

/// A message after the checks that need only its own bytes: signatures and account. The key and account of an endpoint never change, so
/// these checks need no rows and no account state, and run outside the lock.
indirect enum CheckedMessage: Sendable {
    case publish(EndpointMessage.Publish)
    case update(EndpointMessage.EndpointUpdate, Signed<EndpointRecord>)
    case approve(EndpointMessage.EndpointApprove, Signed<Voucher>)
    case revoke(EndpointMessage.EndpointRevoke)
    case send(EndpointMessage.CommandSend, SealedCommand)
    case result(EndpointMessage.CommandResult, CommandReceipt)
    /// Needs no check at this point.
    case other(EndpointMessage)
    case refused(RelayMessage.Failure)
    case ignored

    /// - Parameter mayRelay: Whether messages pass that no transaction checks.
    init(_ message: EndpointMessage, on channel: AccountChannel, rules: RelayRules, mayRelay: Bool = true) {
        if !mayRelay, message.isRelayed {
            self = message.ref.map { .refused(Rejection.outOfTouch.failure($0)) } ?? .ignored
            return
        }
        if channel.role == .client, message.isForHosts {
            let rejection = Rejection(.notAuthorized, "only a host channel may do that")
            self = message.ref.map { .refused(rejection.failure($0)) } ?? .ignored
            return
        }
        let limits = rules.limits
        do throws(RecordError) {
            switch message {
            case .publish(let request):
                try channel.check(request, limits: limits)
                self = .publish(request)
            case .endpointUpdate(let request): self = .update(request, try channel.record(request, limits: limits))
            case .endpointApprove(let request): self = .approve(request, try channel.voucher(request, limits: limits))
            case .endpointRevoke(let request):
                try channel.check(request)
                self = .revoke(request)
            case .commandResult(let request): self = .result(request, try channel.receipt(request, limits: limits))
            case .commandSend(let request): self = channel.command(request, rules: rules)
            default: self = .other(message)
            }
        } catch {
            self = message.ref.map { .refused(Rejection(error).failure($0)) } ?? .ignored
        }
    }
}

extension AccountChannel {
    fileprivate func check(_ request: EndpointMessage.Publish, limits: Limits) throws(RecordError) {
        let bytes = request.registration.bytes
        // A stored registration was verified before; after a restart of the relay all endpoints publish theirs again.
        guard !verifiedRegistrations.contains(Digest256(hashing: bytes)) else { return }
        _ = try Signed<AppRegistration>(verifying: bytes, endpoint: endpoint, account: account.rawValue, key: identityKey, limits: limits)
    }

    fileprivate func record(_ request: EndpointMessage.EndpointUpdate, limits: Limits) throws(RecordError) -> Signed<EndpointRecord> {
        let record = try Signed<EndpointRecord>(verifying: request.record.bytes, limits: limits)
        guard record.payload.endpointID == endpoint else { throw .wrongEndpoint }
        guard record.payload.account == account.rawValue else { throw .wrongAccount }
        return record
    }

    fileprivate func voucher(_ request: EndpointMessage.EndpointApprove, limits: Limits) throws(RecordError) -> Signed<Voucher> {
        let voucher = try Signed<Voucher>(verifying: request.voucher.bytes, limits: limits) { (_) throws(RecordError) in identityKey }
        guard voucher.payload.voucher == endpoint, voucher.payload.endpoint == request.endpoint else { throw .wrongEndpoint }
        guard voucher.payload.account == account.rawValue else { throw .wrongAccount }
        return voucher
    }

    fileprivate func check(_ request: EndpointMessage.EndpointRevoke) throws(RecordError) {
        let revocation = try Signed<Revocation>(
            verifying: request.revocation.bytes,
            by: endpoint,
            key: identityKey,
            account: account.rawValue
        )
        guard revocation.payload.endpoint == request.endpoint else { throw .wrongEndpoint }
    }

    /// Leaves the receipt's signature to the sender. Only the target writes on this channel, and it could sign any content.
    fileprivate func receipt(_ request: EndpointMessage.CommandResult, limits: Limits) throws(RecordError) -> CommandReceipt {
        let receipt = try Unverified<CommandReceipt>(decoding: request.receipt.bytes).payload
        try receipt.validate(limits: limits)
        guard receipt.sender == request.sender, receipt.target == endpoint else { throw .wrongEndpoint }
        guard receipt.reply == request.reply.map({ Digest256(hashing: $0.bytes) }) else { throw .badSignature }
        return receipt
    }

    /// Leaves the command's signature to the target. Expiry is checked after the lookup, because identical bytes get the same answer.
    fileprivate func command(_ request: EndpointMessage.CommandSend, rules: RelayRules) -> CheckedMessage {
        do throws(CommandError) {
            let command = try SealedCommand(decoding: request.command.bytes, limits: rules.limits)
            let recipient = SealedCommand.Recipient(account: account.rawValue, relay: rules.relay, endpoint: command.header.target)
            try command.check(for: recipient, from: endpoint)
            return .send(request, command)
        } catch {
            var failure = Rejection(error).failure(request.ref)
            failure.mayHaveRun = request.history != .new
            return .refused(failure)
        }
    }
}

extension EndpointMessage {
    /// Whether another endpoint is told of it, though nothing of it is stored.
    var isRelayed: Bool {
        switch self {
        case .tunnelOpen, .tunnelCandidates: true
        default: false
        }
    }

    /// Client channels watch, send and dial, say what a person decides about endpoints, and withdraw the app of a process that has ended.
    /// Only the host channel publishes and receives commands.
    fileprivate var isForHosts: Bool {
        switch self {
        case .publish, .leaving, .notificationsRegister, .commandReceived, .commandResult, .mailboxDrain: true
        case .hello, .unpublish, .endpointUpdate, .endpointApprove, .endpointRevoke, .watch, .unwatch, .commandSend, .commandCancel,
            .commandAcknowledge, .tunnelOpen, .tunnelDecline, .tunnelCandidates, .authRefresh, .identityLink:
            false
        }
    }
}
