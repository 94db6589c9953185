// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

public import Foundation
import RelayProtocol

/// What a user needs to let this device in: a page to open on any device, and a code to enter there. Show it to the user of this
/// device only.
public struct DeviceGrantPrompt: Hashable, Sendable {
    /// The app's id of the account.
    public let accountID: String
    /// The code to enter on the page: at most 64 characters.
    public let userCode: String
    /// The page.
    public let verificationURI: URL
    /// The page with the code filled in, for a link or a QR code; `nil` if the issuer has none.
    public let verificationURIComplete: URL?
    /// When the code expires, by the local clock.
    public let expires: Date
}

/// Signs a user in on another device (RFC 8628): this device shows a code, the user enters it in a browser anywhere and allows this
/// device. For televisions, command lines and machines without a browser.
///
/// It asks the user if the account has no login, or the login has ended. Later it returns the stored tokens, and refreshed ones.
/// Tokens are bound to the endpoint's key if the issuer supports it (RFC 9449).
public final class DeviceGrantAccessTokenProvider: LinkAccepting, FreshSigningIn {
    /// The app's client id at the issuer.
    public let clientID: String

    private let choice: IssuerChoice
    private let prompt: @Sendable (DeviceGrantPrompt) async -> Void
    private let logins: StoredLogins
    /// Waits for a number of milliseconds.
    private let sleep: @Sendable (Int64) async throws -> Void

    /// - Parameters:
    ///   - clientID: The app's client id at the issuer. The relay's own issuer accepts a name in reverse DNS form, such as
    ///     `com.example.player`; see `JoinLinkAccessTokenProvider`.
    ///   - issuer: The issuer's URL, which the relay must trust; `nil` for the relay's own issuer, or else the first that it names.
    ///   - apiScopes: Scopes that take the place of the relay's at another issuer; see `BrowserAccessTokenProvider`.
    ///   - prompt: Shows the code. It returns at once; the sign-in goes on until the user has decided or the code expires.
    public convenience init(
        clientID: String,
        issuer: URL? = nil,
        apiScopes: [String] = [],
        prompt: @escaping @Sendable (DeviceGrantPrompt) async -> Void
    ) {
        self.init(
            clientID: clientID,
            issuer: issuer,
            apiScopes: apiScopes,
            http: HTTPRequestClient(),
            sleep: { try await Task.sleep(for: .milliseconds($0)) },
            prompt: prompt
        )
    }

    package init(
        clientID: String,
        issuer: URL? = nil,
        apiScopes: [String] = [],
        http: HTTPRequestClient,
        sleep: @escaping @Sendable (Int64) async throws -> Void,
        prompt: @escaping @Sendable (DeviceGrantPrompt) async -> Void
    ) {
        self.clientID = clientID
        self.choice = issuer.map { .named($0.absoluteString) } ?? .any
        self.prompt = prompt
        self.sleep = sleep
        logins = StoredLogins(http: http, userScopes: apiScopes)
    }

    /// The stored token if more than a third of its life remains, else a refreshed one, else that of a new login.
    /// - Throws: `declined` if the user does not allow it, `signInRequired` if the user does not answer in time.
    public func accessToken(for request: AccessTokenRequest) async throws(AccessTokenError) -> AccessToken {
        try await logins.accessToken(for: request) { [self] client, _, store in try await signIn(request, client, into: store) }
    }

    /// Marks the stored access token as expired. The login remains.
    public func accessTokenInvalidated(_ request: AccessTokenRequest) async { await logins.invalidate(request) }

    package func freshToken(for request: AccessTokenRequest) async throws(AccessTokenError) -> AccessToken {
        try await logins.freshToken(for: request) { [self] issuer in try await signIn(request, issuer, into: NoReceiver()) }
    }

    private func signIn(
        _ request: AccessTokenRequest,
        _ client: IssuerClient,
        into store: some TokenReceiver
    ) async throws -> StoredTokens {
        let issuer = try await client.discover(choice)
        let authorization = try await client.authorizeDevice(at: issuer, clientID: clientID, request)
        let start = ContinuousClock.now
        func now() -> Int64 { (ContinuousClock.now - start).milliseconds }
        var polling = DeviceGrantPolling(life: authorization.expiresIn, interval: authorization.interval)
        await prompt(
            DeviceGrantPrompt(
                accountID: request.accountID,
                userCode: authorization.userCode,
                verificationURI: authorization.page,
                verificationURIComplete: authorization.pageWithCode,
                expires: Date(timeIntervalSince1970: Double(client.endpoint.now() + polling.ends) / 1_000)
            )
        )
        var step = polling.begin()
        while true {
            switch step {
            case .ask(let time):
                try await sleep(max(0, time - now()))
                do {
                    return try await client.redeem(device: authorization.deviceCode, at: issuer, clientID: clientID, into: store)
                } catch let error as IssuerClientError {
                    guard let answer = DeviceGrantPolling.Answer(error) else { throw error }
                    step = polling.answered(answer, now: now())
                }
            case .end(.denied): throw IssuerClientError.denied
            case .end: throw IssuerClientError.expired
            }
        }
    }
}

extension DeviceGrantPolling.Answer {
    /// `nil` for an error that ends the sign-in.
    fileprivate init?(_ error: IssuerClientError) {
        switch error {
        case .refused(.authorizationPending): self = .pending
        case .refused(.slowDown): self = .slowDown
        case .refused(.accessDenied): self = .denied
        case .refused(.expiredToken): self = .expired
        case .unreachable(.unreachable), .unreachable(.timedOut), .issuerUnreachable(.unreachable), .issuerUnreachable(.timedOut),
            .unreachable(.protocolError), .issuerUnreachable(.protocolError), .unavailable:
            self = .unavailable
        default: return nil
        }
    }
}
