// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// What an HTTP status means where the relay, or its issuer, should have answered otherwise. Often it comes from a server in front of it: a
/// reverse proxy, or the login page of a network. All statuses become causes here, and nowhere else.
package enum StatusCause: Hashable, Sendable {
    /// Too many requests: the relay or its proxy takes no more from this network for some time.
    case limited
    /// A proxy answers, and the relay behind it does not. A relay that starts or stops answers 503 itself.
    case notRunning
    /// The relay, or its proxy, has failed.
    case failed
    /// The network wants its users to sign in (RFC 6585 §6).
    case networkSignIn
    /// Another server answers, or the proxy passes something else on.
    case notARelay

    package init(_ status: Int) {
        self =
            switch status {
            case 429: .limited
            // 520 to 527 and 530 are those of Cloudflare for an origin that does not answer.
            case 502, 503, 504, 520...527, 530: .notRunning
            case 511: .networkSignIn
            case 500...599: .failed
            default: .notARelay
            }
    }

    /// For people.
    package static func message(_ status: Int) -> String {
        switch StatusCause(status) {
        case .limited: "the relay, or a proxy in front of it, limits the requests from this network (HTTP 429); try again in a minute"
        case .notRunning: "the relay does not run behind its proxy, or is starting or stopping (HTTP \(status)); check that relayd runs"
        case .failed: "the relay, or a proxy in front of it, has failed (HTTP \(status)); its log says why"
        case .networkSignIn: "this network wants you to sign in first (HTTP 511): open any page in a browser"
        case .notARelay: "the server at this address is not a relay (HTTP \(status)); check the URL"
        }
    }
}
