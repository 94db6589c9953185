// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import Foundation
import RelayProtocol

/// How the user of a command signs in: in a browser, or with a code for another device.
package struct UserSignIn: Sendable {
    package enum Method: Sendable { case device, browser }

    var issuer: URL?
    var clientID: String?
    /// The scopes of the issuer's API, instead of the relay's.
    var scopes: [String] = []
    /// `nil` for a browser if there is a display and a terminal, else a code.
    var method: Method?
    /// The port that a browser comes back to; `nil` for any that is free.
    var redirectPort: UInt16?

    static func url(_ text: String) throws -> URL {
        guard let url = URL(exactly: text), url.scheme != nil, url.host != nil else {
            throw AgentError("issuerInvalid", "'\(DisplayText.sanitized(text))' is not the URL of an issuer", .usage)
        }
        return url
    }

    func provider(_ context: AgentContext) -> any AccessTokenProvider {
        let (console, profile) = (context.console, context.account)
        // With JSON both are results, so that a program can show them.
        @Sendable func show(_ event: Login.Event) {
            if console.isJSON {
                try? console.print(event)
            } else {
                let style = Style(hasColours: false, translation: console.translation)
                for line in event.lines(style) { console.log(style.rendered(line)) }
            }
        }
        let method = method ?? (!console.isJSON && console.isInteractive && URIOpener.hasDisplay ? .browser : .device)
        switch method {
        case .device:
            return DeviceGrantAccessTokenProvider(clientID: clientID ?? Membership.clientID, issuer: issuer, apiScopes: scopes) { prompt in
                show(
                    Login.Event(
                        event: .code,
                        profile: profile,
                        url: prompt.verificationURI.absoluteString,
                        userCode: prompt.userCode,
                        urlWithCode: prompt.verificationURIComplete?.absoluteString,
                        expires: prompt.expires
                    )
                )
            }
        case .browser:
            let open: @Sendable (URL) async throws -> Void = { url in
                show(Login.Event(event: .page, profile: profile, url: url.absoluteString))
                // The user can open the address without help, too.
                _ = await URIOpener(command: nil, environment: ProgramEnvironment()).open(try LaunchURI(url)) {}
            }
            guard let clientID else { return BrowserAccessTokenProvider(registeringAs: "relay", issuer: issuer, open: open) }
            return BrowserAccessTokenProvider(
                clientID: clientID,
                issuer: issuer,
                apiScopes: scopes,
                redirectPort: redirectPort ?? 0,
                open: open
            )
        }
    }
}
