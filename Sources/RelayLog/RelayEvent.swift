// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

package import Logging

/// What happens to accounts and devices, for the operator. Each event is one line of the log. No event contains a secret, a URI or a
/// message.
package enum RelayEvent: Hashable, Sendable {
    /// How a person or a device signs in.
    package enum Method: String, CaseIterable, Sendable {
        case password, passkey, recoveryCode, setUpLink, joinLink, deviceCode, browser
    }

    /// Why a sign-in failed.
    package enum Failure: String, CaseIterable, Sendable {
        /// The name, password, passkey, code or link is wrong, was used, or has expired.
        case wrongCredentials
        /// The address or the account has failed too often, or the relay is busy.
        case tooManyAttempts
        /// The request is not as the method needs it: for example its proof is wrong, or its form has expired.
        case invalidRequest
        /// The relay could not decide: its log has the error.
        case serverError
    }

    /// Who revoked an endpoint, or made an account.
    package enum Actor: Codable, Hashable, Sendable {
        case `operator`
        /// The account's owner, on the account page.
        case owner
        /// Another endpoint of the account, or the endpoint itself.
        case endpoint(String)
        /// An issuer whose identities get accounts.
        case issuer(String)
        /// The relay's first start.
        case firstStart
    }

    /// - Parameters:
    ///   - account: The account's name.
    ///   - app: The app, as it names itself.
    case signedIn(account: String, Method, address: String, app: String = "")
    /// - Parameter account: The account's name; empty if the method has none, or if no account has the name that was given.
    case signInFailed(account: String, Method, address: String, Failure)
    /// A new endpoint.
    case joined(account: String, device: String, endpoint: String, address: String, invitedBy: String?)
    /// An endpoint that was not let in.
    case refused(endpoint: String, address: String, code: String)
    case approved(account: String, endpoint: String, by: String)
    case revoked(account: String, endpoint: String, by: Actor)
    case accountAdded(account: String, by: Actor)
    case accountRemoved(account: String, by: Actor)
    /// - Parameter endpoint: The endpoint that linked it; `nil` if the operator did.
    case identityLinked(account: String, issuer: String, endpoint: String?)
    case identityRemoved(account: String, issuer: String, endpoint: String?)
    /// An operator's command.
    /// - Parameter failure: Why it failed, as the operator was told.
    case administered(command: String, account: String?, failure: String?)

    /// The constant text of its line.
    package var message: String {
        switch self {
        case .signedIn: "signed in"
        case .signInFailed: "sign-in failed"
        case .joined: "device joined"
        case .refused: "device refused"
        case .approved: "device approved"
        case .revoked: "device revoked"
        case .accountAdded: "account added"
        case .accountRemoved: "account removed"
        case .identityLinked: "identity linked"
        case .identityRemoved: "identity removed"
        case .administered(_, _, nil): "operator command"
        case .administered: "operator command failed"
        }
    }

    package var level: Logger.Level {
        switch self {
        case .signedIn, .joined, .refused: .info
        case .signInFailed, .approved, .revoked, .accountAdded, .accountRemoved, .identityLinked, .identityRemoved, .administered: .notice
        }
    }

    /// The values of its line.
    package var fields: [String: String] {
        switch self {
        case .signedIn(let account, let method, let address, let app):
            ["account": account, "method": method.rawValue, "address": address].merging(app.isEmpty ? [:] : ["app": app]) { $1 }
        case .signInFailed(let account, let method, let address, let failure):
            ["method": method.rawValue, "address": address, "reason": failure.rawValue]
                .merging(account.isEmpty ? [:] : ["account": account]) { $1 }
        case .joined(let account, let device, let endpoint, let address, let inviter):
            ["account": account, "device": device, "endpoint": endpoint, "address": address]
                .merging(inviter.map { ["invitedBy": $0] } ?? [:]) { $1 }
        case .refused(let endpoint, let address, let code): ["endpoint": endpoint, "address": address, "reason": code]
        case .approved(let account, let endpoint, let other): ["account": account, "endpoint": endpoint, "by": other]
        case .revoked(let account, let endpoint, let actor): ["account": account, "endpoint": endpoint, "by": actor.text]
        case .accountAdded(let account, let actor), .accountRemoved(let account, let actor): ["account": account, "by": actor.text]
        case .identityLinked(let account, let issuer, let endpoint), .identityRemoved(let account, let issuer, let endpoint):
            ["account": account, "issuer": issuer].merging(endpoint.map { ["endpoint": $0] } ?? [:]) { $1 }
        case .administered(let command, let account, let failure):
            ["command": command].merging(account.map { ["account": $0] } ?? [:]) { $1 }
                .merging(failure.map { ["reason": $0] } ?? [:]) { $1 }
        }
    }
}

extension RelayEvent.Actor {
    fileprivate var text: String {
        switch self {
        case .operator: "operator"
        case .owner: "owner"
        case .endpoint(let label): label
        case .issuer(let url): url
        case .firstStart: "first start"
        }
    }
}
