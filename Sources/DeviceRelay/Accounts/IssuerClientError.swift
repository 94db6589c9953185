// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol

/// Why a request to an issuer failed. It contains nothing from the request or response.
enum IssuerClientError: Error, Hashable {
    case cancelled
    case unreachable(DialFailure)
    /// The issuer is another server than the relay, and cannot be reached.
    case issuerUnreachable(DialFailure)
    /// The issuer rejected the request, with a code of RFC 6749 §5.2, RFC 6750 §3.1 or RFC 9449.
    case refused(Code)
    /// The login ended because this endpoint was revoked.
    case endpointRevoked
    /// Two devices used one join link, so the login of the first one has ended.
    case linkReused
    /// The issuer failed or is temporarily unavailable.
    /// - Parameter issuer: The URL of a provider; `nil` for the relay's own issuer.
    case unavailable(status: Int, issuer: String? = nil)
    /// The response violates a standard; the text names it.
    /// - Parameter issuer: The URL of a provider; `nil` for the relay or its own issuer.
    case malformed(String, issuer: String? = nil)
    /// A provider rejected the request because of how it knows this app: the client id or the redirect URI is not registered there, or
    /// the client is not public.
    case clientRefused(issuer: String, Code)
    /// The relay names no issuer at its own address.
    case noIssuer
    /// The relay does not name the wanted issuer, or names none.
    case issuerNotTrusted
    /// The issuer does not offer this way of signing in.
    case notOffered
    /// The user did not allow it.
    case denied
    /// The user did not decide in time.
    case expired
    /// A second program opened the address of the sign-in, so it is not known who signs in.
    case openedTwice
    /// Another program listens at the port of the redirect URI.
    case portInUse(Int)
    /// The app could not open the issuer's page.
    case pageNotOpened
    /// The endpoint's key failed to sign.
    case keyUnusable

    enum Code: String {
        case invalidRequest = "invalid_request"
        case invalidClient = "invalid_client"
        case invalidGrant = "invalid_grant"
        case unauthorizedClient = "unauthorized_client"
        case unsupportedGrantType = "unsupported_grant_type"
        case invalidScope = "invalid_scope"
        case invalidDPoPProof = "invalid_dpop_proof"
        case invalidToken = "invalid_token"
        case insufficientScope = "insufficient_scope"
        case accessDenied = "access_denied"
        case temporarilyUnavailable = "temporarily_unavailable"
        /// RFC 8628 §3.5.
        case authorizationPending = "authorization_pending"
        case slowDown = "slow_down"
        case expiredToken = "expired_token"
        case other
    }
}

extension IssuerClientError {
    /// Whether the issuer has decided against the request.
    var isRefusal: Bool {
        switch self {
        case .refused, .clientRefused, .endpointRevoked, .linkReused: true
        default: false
        }
    }

    /// Whether the login is over, so that the user has to sign in again.
    var isEndOfLogin: Bool { self == .refused(.invalidGrant) || self == .linkReused }
}

extension DialFailure {
    /// What happened, and what to do about it, for people.
    var advice: String {
        switch self {
        case .noRoute: "there is no way to the relay: this machine has no network, or no route to it"
        case .unreachable(let why): "the relay cannot be reached (\(why)); check the network and whether the relay runs"
        case .timedOut: "the relay did not answer in time; check its address, the network and the firewall"
        case .untrusted(.noCertificate): "the relay presents no certificate"
        case .untrusted(.otherKey(let relay)):
            "another relay (\(relay.label)…) answers at this address; check the address, or join again with a new link if the relay has a new key"
        case .untrusted(.authoritiesUnreadable):
            "the file of certificate authorities cannot be read, or holds no certificate in PEM form"
        case .untrusted(.notTrusted):
            "the relay's certificate is not trusted here: its authority is unknown, it has expired, or it is for another name"
        case .status(let status, _): StatusCause.message(status)
        case .protocolError(let what): "the server at this address is not a relay (\(what)); check the URL"
        }
    }
}

extension IssuerClientError {
    /// Advice for users.
    var advice: String {
        switch self {
        case .cancelled: "the task was cancelled"
        case .unreachable(let failure): failure.advice
        case .issuerUnreachable(.unreachable(let why)): "the issuer cannot be reached (\(why)); check the network"
        case .issuerUnreachable(.timedOut): "the issuer did not answer in time; check the network"
        case .issuerUnreachable(.untrusted): "the issuer's certificate is not trusted on this device"
        case .issuerUnreachable: "the server at the issuer's address is not an issuer; check the address with the relay's operator"
        case .refused(.invalidDPoPProof):
            "the issuer does not take this device's proof of its key; check that a proxy leaves the relay's host name as it is"
        case .refused(let code): "the issuer refused the request (\(code.rawValue)); begin again"
        case .clientRefused(let issuer, let code):
            "\(issuer) does not accept this app (\(code.rawValue)): register it there as a public client, which has no secret, with this way of signing in and the redirect URI http://127.0.0.1/signed-in"
        case .endpointRevoked: "this device was revoked; remove the account and join again"
        case .linkReused:
            "two devices used one join link, so the login of the first one has ended; each device needs a link of its own"
        case .unavailable(let status, nil): "the relay's issuer cannot answer: \(StatusCause.message(status))"
        case .unavailable(let status, let issuer?): "\(issuer) cannot answer: \(StatusCause.message(status))"
        case .malformed(let what, nil): "the relay's issuer sent an invalid answer (\(what)); update the relay"
        case .malformed(let what, let issuer?):
            "\(issuer) sent an answer that this program does not understand (\(what)); report it to the provider's operator"
        case .noIssuer: "the relay has no built-in issuer; sign in with the provider that its operator names"
        case .issuerNotTrusted: "the relay does not accept logins of this issuer; ask its operator which ones it accepts"
        case .notOffered: "the issuer does not offer this way of signing in to this app; use another way"
        case .denied: "the user did not allow this device"
        case .expired: "this device was not allowed in time; begin again"
        case .portInUse(let port): "port \(port) of this machine is in use; stop the program that listens there, or sign in with a code"
        case .openedTwice:
            "the address of the sign-in was opened twice, perhaps by another user of this machine; begin again, and open it in one browser only"
        case .pageNotOpened: "the issuer's page could not be opened in a browser; sign in with a code instead"
        case .keyUnusable: "this device's key cannot be used; unlock the device and try again, or remove the account and join again"
        }
    }
}

extension AccessTokenError {
    init(_ failure: IssuerClientError) {
        switch failure {
        case .cancelled: self.init(.cancelled, message: failure.advice)
        case .unreachable(.unreachable), .unreachable(.timedOut), .issuerUnreachable(.unreachable), .issuerUnreachable(.timedOut):
            self.init(.networkNotAvailable, message: failure.advice)
        case .refused(.invalidGrant):
            self.init(.signInRequired, message: "the login has ended or was revoked; sign in again, or join again with a new link")
        case .expired: self.init(.signInRequired, message: failure.advice)
        case .endpointRevoked: self.init(.endpointRevoked, message: failure.advice)
        case .linkReused: self.init(.linkReused, message: failure.advice)
        case .refused(.invalidDPoPProof), .unreachable, .issuerUnreachable, .unavailable, .malformed:
            self.init(.serviceFailed, message: failure.advice)
        case .refused, .clientRefused, .noIssuer, .issuerNotTrusted, .notOffered, .denied, .openedTwice:
            self.init(.declined, message: failure.advice)
        case .keyUnusable, .pageNotOpened, .portInUse: self.init(.unknown, message: failure.advice)
        }
    }
}

extension AccountError {
    init(_ failure: IssuerClientError) {
        switch failure {
        case .cancelled: self.init(.cancelled, message: failure.advice)
        case .unreachable(.unreachable), .unreachable(.timedOut), .issuerUnreachable(.unreachable), .issuerUnreachable(.timedOut):
            self.init(.networkNotAvailable, message: failure.advice)
        case .unreachable(.untrusted): self.init(.otherRelay, message: failure.advice)
        case .linkReused: self.init(.linkInvalid, message: failure.advice)
        case .unreachable, .issuerUnreachable, .unavailable, .malformed: self.init(.serviceFailed, message: failure.advice)
        case .refused, .clientRefused, .endpointRevoked, .noIssuer, .issuerNotTrusted, .notOffered, .denied, .expired, .pageNotOpened,
            .openedTwice:
            self.init(.accessTokenRequestFailed, message: failure.advice)
        case .keyUnusable, .portInUse: self.init(.unknown, message: failure.advice)
        }
    }
}
