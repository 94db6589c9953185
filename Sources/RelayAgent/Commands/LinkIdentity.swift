// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import Foundation

/// Gives this device's account one more identity: the user signs in at another issuer.
package struct LinkIdentity: Sendable {
    var issuer: String
    var clientID: String?
    var scopes: [String]
    var method: UserSignIn.Method?
    var redirectPort: UInt16?

    /// - Parameters:
    ///   - issuer: The issuer's URL, which the relay must trust.
    ///   - clientID: The client id at the issuer; `nil` for the one of this program, or one that it registers.
    ///   - scopes: The scopes of the issuer's API, instead of the relay's.
    ///   - method: How to sign in; `nil` for a browser if there is a display and a terminal, else a code.
    ///   - redirectPort: The port that a browser comes back to; `nil` for any that is free.
    package init(
        issuer: String,
        clientID: String? = nil,
        scopes: [String] = [],
        method: UserSignIn.Method? = nil,
        redirectPort: UInt16? = nil
    ) {
        self.issuer = issuer
        self.clientID = clientID
        self.scopes = scopes
        self.method = method
        self.redirectPort = redirectPort
    }

    package struct Result: AgentResult {
        package var event = "linked"
        package var profile: String
        package var issuer: String

        package func lines(_ style: Style) -> [String] { ["new devices can now sign in at \(style.show(issuer, .strong)), too"] }
    }

    package func run(_ context: AgentContext) async throws -> Result {
        let url = try UserSignIn.url(issuer)
        let user = UserSignIn(issuer: url, clientID: clientID, scopes: scopes, method: method, redirectPort: redirectPort)
        try await CancellationSignal.cancelling {
            try await context.withAccount { try await Self.run(on: $0, signingInBy: user.provider(context)) }
        }
        return Result(profile: context.account, issuer: url.absoluteString)
    }

    /// - Parameter provider: Lets the user sign in at the issuer.
    static func run(on local: LocalDevice, signingInBy provider: any AccessTokenProvider) async throws {
        try local.checkHasRelay()
        try await local.waitForDirectory()
        try await local.platform.accounts.link(local.account, signingInBy: provider)
    }
}
