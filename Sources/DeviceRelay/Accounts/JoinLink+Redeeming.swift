// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
package import RelayProtocol
import RelayStorage

/// Redeems a join link for an endpoint, and replaces its stored tokens. A `JoinLinkAccessTokenProvider` returns them from then on.
/// - Parameter clientID: The app's name at the issuer, in reverse DNS form; see `JoinLinkAccessTokenProvider`.
/// - Throws: `linkInvalid` if the link was used or has expired, `otherRelay` if it leads to another relay than the
///   endpoint's. In both cases nothing is stored.
package func redeem(
    _ link: JoinLink,
    clientID: String,
    as endpoint: EndpointCredentials,
    http: HTTPRequestClient = HTTPRequestClient()
) async throws(AccountError) {
    guard link.relay == endpoint.relay else {
        throw AccountError(
            .otherRelay,
            message: "the link leads to another relay than this account's relay; add a separate account for it"
        )
    }
    // Parsing the link has already decided on plain HTTP.
    guard let url = URL(exactly: link.origin), let address = try? RelayAddress(url, allowsPlaintext: true) else {
        throw AccountError(.linkInvalid, message: "\(JoinLinkError.address)")
    }
    try await checkRelay(of: link, at: address, trust: endpoint.trust)
    let exchange = UnstoredExchange()
    do {
        // The storage lock is taken first: a storage failure must not use up the link.
        try await endpoint.tokens.withLock { tokens in
            _ = try await IssuerClient(endpoint, at: address, http: http).redeem(
                link.invite,
                clientID: clientID,
                scopes: AccessTokenScope.all,
                into: LoginReceiver(tokens: tokens),
                exchange
            )
        }
    } catch {
        var failure = AccountError(ofJoining: error)
        if exchange.wasSent, !((error as? IssuerClientError)?.isRefusal ?? false) {
            failure = AccountError(
                failure.code,
                message: "\(failure.message); this device can use the same link again",
                cause: failure.cause
            )
            failure.mayHaveUsedLink = true
        }
        throw failure
    }
}

/// Checks that the link's relay answers at its address, before the code goes there. Without TLS no key is pinned, and a relay that was set up
/// again, or another one at a reused address, would use up the code.
private func checkRelay(of link: JoinLink, at address: RelayAddress, trust: RelayTrust) async throws(AccountError) {
    let found: RelayID
    do throws(RequestFailure) {
        found = try await ControlChannelClient().identify(address, trust: trust)
    } catch {
        switch error {
        case .failed(let failure): throw AccountError(IssuerClientError.unreachable(failure))
        case .cancelled: throw AccountError(IssuerClientError.cancelled)
        }
    }
    guard found == link.relay else {
        throw AccountError(
            .otherRelay,
            message:
                "the link is for another relay than the one that answers at its address (\(found.label)…): its code was not sent there. Ask for a new link"
        )
    }
}

extension AccountError {
    fileprivate init(ofJoining error: any Error) {
        switch error {
        case IssuerClientError.refused(.invalidGrant):
            self.init(.linkInvalid, message: "the join link was already used, has expired, or was cut off; ask for a new one")
        case IssuerClientError.refused(.invalidClient):
            self.init(.accessTokenRequestFailed, message: "the client id must be a name in reverse DNS form, such as com.example.app")
        default: self.init(ofIssuing: error)
        }
    }

    init(ofIssuing error: any Error) {
        switch error {
        case let error as IssuerClientError: self.init(error)
        case let error as StorageError: self.init(error)
        case is CancellationError: self.init(.cancelled, message: "the task was cancelled")
        default: self.init(.unknown, message: "the account's tokens cannot be obtained", cause: error)
        }
    }
}
