// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayLog
import RelayProtocol

/// Reports events to the operator.
extension IssuerContext {
    /// Runs a sign-in, and reports its success or failure to the operator.
    /// - Parameters:
    ///   - account: The name that was given, if the method has one.
    ///   - client: The networks of the client.
    ///   - name: Returns the account of a sign-in that succeeded.
    ///   - body: Returns `nil` if the credentials are wrong.
    func signingIn<Result: Sendable>(
        by method: RelayEvent.Method,
        account: String = "",
        from client: ClientNetworks,
        app: String = "",
        name: (Result) async -> String,
        _ body: () async throws(OAuthError) -> Result?
    ) async throws(OAuthError) -> Result? {
        let address = client.shown
        let result: Result?
        do throws(OAuthError) {
            result = try await body()
        } catch {
            // A device that polls before its user has decided has not failed.
            if ![.authorizationPending, .slowDown].contains(error.code) {
                events(.signInFailed(account: await known(account), method, address: address, .init(error)))
            }
            throw error
        }
        if let result {
            events(.signedIn(account: await name(result), method, address: address, app: app))
        } else {
            events(.signInFailed(account: await known(account), method, address: address, .wrongCredentials))
        }
        return result
    }

    /// Returns the name if an account has it, otherwise an empty text. Any other name may be a password that was typed into the wrong
    /// field.
    private func known(_ text: String) async -> String {
        guard let name = AccountName(text) else { return "" }
        let user = try? await store.read { try $0.user(named: name) }
        return (user ?? nil)?.name ?? ""
    }

    /// Runs a sign-in of a browser, and reports its success or failure to the operator.
    func signingIn(
        by method: RelayEvent.Method,
        account: String = "",
        _ visit: Visit,
        _ body: () async throws(OAuthError) -> SignedInBrowser?
    ) async throws(OAuthError) -> SignedInBrowser? {
        try await signingIn(
            by: method,
            account: account,
            from: visit.networks,
            app: visit.agent,
            name: { await self.account(of: $0.subject) },
            body
        )
    }
}

extension ClientNetworks {
    /// The address for the log. Limits count an IPv4 address as a network of one address.
    var shown: String { smallest.utf8.suffix(3).elementsEqual("/32".utf8) ? String(smallest.dropLast(3)) : smallest }
}

extension RelayEvent.Failure {
    init(_ error: OAuthError) {
        self =
            switch (error.status, error.code) {
            case (429, _), (503, _): .tooManyAttempts
            case (500..., _): .serverError
            case (_, .invalidGrant), (_, .accessDenied), (_, .expiredToken): .wrongCredentials
            default: .invalidRequest
            }
    }
}

extension TokenRequest {
    /// Returns how a device signs in with a grant; `nil` for other grants, such as the refresh of a login.
    static func method(ofGrant type: String?) -> RelayEvent.Method? {
        switch type {
        case preAuthorizedCode: .joinLink
        case deviceCode: .deviceCode
        case "authorization_code": .browser
        default: nil
        }
    }
}
