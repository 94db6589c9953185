// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

package import RelayProtocol

/// What an access token can allow at the relay.
package enum RelayScope: String, CaseIterable, Hashable, Sendable {
    /// To see the account's endpoints.
    case deviceRead = "relay.device.read"
    /// To be one of the account's endpoints, and to say which others are.
    case deviceRegister = "relay.device.register"
    /// To send and take commands, and to open tunnels.
    case command = "relay.command"
    /// To be woken.
    case push = "relay.push"
}

extension EndpointMessage {
    /// The scope that a message needs.
    package var scope: RelayScope? {
        switch self {
        case .hello(let hello): hello.role == .host ? .deviceRegister : nil
        case .publish, .unpublish, .endpointUpdate, .endpointApprove, .endpointRevoke, .leaving: .deviceRegister
        case .watch: .deviceRead
        case .commandSend, .commandCancel, .commandReceived, .commandResult, .commandAcknowledge, .tunnelOpen, .tunnelDecline: .command
        case .notificationsRegister: .push
        case .unwatch, .authRefresh: nil
        }
    }
}

extension TokenRefusal {
    init(missing scope: RelayScope) {
        self.init(code: .insufficientScope, message: "this needs a token with the scope \(scope.rawValue)")
    }
}
