// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

package import RelayProtocol

/// A scope of an access token at the relay.
package enum RelayScope: String, CaseIterable, Hashable, Sendable {
    /// Permits reading the account's endpoints.
    case deviceRead = "relay.device.read"
    /// Permits being an endpoint of the account, and approving or revoking others.
    case deviceRegister = "relay.device.register"
    /// Permits sending and receiving commands, and opening tunnels.
    case command = "relay.command"
    /// Permits wakes.
    case push = "relay.push"
}

extension EndpointMessage {
    /// The scope that a message needs.
    package var scope: RelayScope? {
        switch self {
        case .hello(let hello): hello.role == .host ? .deviceRegister : nil
        case .publish, .unpublish, .endpointUpdate, .endpointApprove, .endpointRevoke, .leaving, .identityLink: .deviceRegister
        case .watch: .deviceRead
        case .commandSend, .commandCancel, .commandReceived, .commandResult, .commandAcknowledge, .mailboxDrain, .tunnelOpen,
            .tunnelDecline, .tunnelCandidates:
            .command
        case .notificationsRegister: .push
        case .unwatch, .authRefresh: nil
        }
    }
}

extension TokenRejection {
    init(missing scope: RelayScope) {
        self.init(code: .insufficientScope, message: "this needs a token with the scope \(scope.rawValue)")
    }
}
