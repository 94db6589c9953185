// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

package import RelayProtocol

#if canImport(FoundationEssentials)
import FoundationEssentials
#else
import Foundation
#endif

/// Lets an endpoint into the account that a join link is for, and stores the tokens in the place of those that were there. A
/// `JoinLinkAccessTokenProvider` gives them out from then on.
/// - Parameter clientID: The app's name at the issuer, in reverse DNS form; see `JoinLinkAccessTokenProvider`.
/// - Throws: `linkInvalid` if the link was used or is over, `otherRelay` if it leads to another relay than the endpoint's. Nothing is
///   stored then.
package func redeem(
    _ link: JoinLink,
    clientID: String,
    as endpoint: EndpointCredentials,
    http: HTTPRequestClient = HTTPRequestClient()
) async throws(AccountError) {
    guard link.relay == endpoint.relay else {
        throw AccountError(
            .otherRelay,
            message: "the link leads to another relay than this account is at; add an account of its own for it"
        )
    }
    // Whoever read the link has decided on plain HTTP.
    guard let url = URL(string: link.origin), let address = try? RelayAddress(url, allowsPlaintext: true) else {
        throw AccountError(.linkInvalid, message: "\(JoinLinkError.address)")
    }
    do {
        // What cannot be stored must not use the link up, so the storage goes first.
        try await endpoint.tokens.withExclusiveAccess { tokens in
            tokens = try await IssuerClient(endpoint, at: address, http: http).redeem(
                link.invite,
                clientID: clientID,
                scopes: AccessTokenScope.all
            )
        }
    } catch {
        throw AccountError(ofJoining: error)
    }
}

extension AccountError {
    fileprivate init(ofJoining error: any Error) {
        switch error {
        case IssuerFailure.refused(.invalidGrant):
            self.init(.linkInvalid, message: "the join link was used or is over; ask for a new one")
        case IssuerFailure.refused(.invalidClient):
            self.init(.accessTokenRequestFailed, message: "the client id must be a name in reverse DNS form, such as com.example.app")
        default: self.init(ofIssuing: error)
        }
    }

    init(ofIssuing error: any Error) {
        switch error {
        case let error as IssuerFailure: self.init(error)
        case let error as StorageError: self.init(error)
        case is CancellationError: self.init(.cancelled, message: "the task was cancelled")
        default: self.init(.unknown, message: "the account's tokens cannot be got", cause: error)
        }
    }
}
