// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol

/// The reason why a request is rejected. Thrown in a transaction, it rolls back the writes.
struct Rejection: Error, Hashable {
    var code: ControlErrorCode
    var message: String
    var limit: ExceededLimit?
    var retryAfter: Milliseconds?

    init(_ code: ControlErrorCode, _ message: String, limit: ExceededLimit? = nil, retryAfter: Milliseconds? = nil) {
        self.code = code
        self.message = message
        self.limit = limit
        self.retryAfter = retryAfter
    }

    init(exceeding exceeded: LimitExceeded) {
        self.init(.limitExceeded, exceeded.description, limit: ExceededLimit(exceeded))
    }

    init(_ error: RecordError) {
        switch error {
        case .badSignature, .wrongAccount, .wrongEndpoint, .notPartOfSystem:
            self.init(.signatureInvalid, "it is not signed by this endpoint for this account")
        case .outdated, .versionReused: self = .outdated
        case .limitExceeded(let exceeded): self.init(exceeding: exceeded)
        case .malformed: self.init(.malformed, "it cannot be read")
        case .invalidField(let field): self.init(.malformed, "\(field) has a value that is not allowed")
        }
    }

    /// Converts the error of a failed transaction into an answer.
    init(_ error: any Error) {
        self = error as? Rejection ?? Rejection(.unavailable, "the relay cannot store anything now", retryAfter: 1_000)
    }

    /// The node does not know whether it still serves the account.
    static let outOfTouch = Rejection(.unavailable, "the relay cannot reach its database now", retryAfter: 1_000)

    static let outdated = Rejection(.recordOutdated, "the relay has this version with other content, or a newer one")

    func failure(_ ref: RequestRef) -> RelayMessage.Failure {
        RelayMessage.Failure(ref: ref, code: code, message: message, limit: limit, retryAfter: retryAfter)
    }
}

extension Rejection {
    init(_ error: CommandError) {
        switch error {
        case .limitExceeded(let exceeded):
            self.init(.commandTooLarge, exceeded.description, limit: ExceededLimit(exceeded))
        case .unknownSuite: self.init(.unsupported, "the command is of a suite that this relay does not know")
        case .badSignature, .wrongAccount, .wrongRelay, .wrongTarget, .wrongSender:
            self.init(.signatureInvalid, "the command is not signed by this endpoint for this account and relay")
        default: self.init(.malformed, "the command cannot be read")
        }
    }

    static let notEstablished = Rejection(
        .notEstablished,
        "only the account's first endpoint, or one that a known one has approved, may revoke endpoints of other devices: approve this "
            + "endpoint on a known device, or revoke at the relay (`relayd endpoint revoke`)"
    )
}
