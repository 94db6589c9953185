// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

package import RelayProtocol

/// The budgets of the memory that peers can occupy in an endpoint's sessions. Each of the first four budgets has `assemblyBytesPerPeer` for
/// all sessions of a peer and `assemblyBytesPerEndpoint` for all peers.
///
/// There are four budgets to prevent a deadlock. A large request waits to be decoded until other requests end. A handler, which holds its
/// decoded request, may wait for the response to a request of its own. That response waits only for its bytes and its decoding, which needs
/// no more memory of these budgets. An encoded response waits only for its receiver. One cycle remains: handlers of two devices that send
/// each other large requests. Like all handlers that wait for each other, they end by their timeouts.
///
/// The maximum memory of all sessions of one peer, with the default limits:
///
/// | memory | maximum |
/// | --- | --- |
/// | large requests that arrive or wait to be decoded | 32 MiB |
/// | large responses that arrive or wait to be decoded | 32 MiB |
/// | decoded requests that are not finished, by their size in memory | 32 MiB |
/// | encoded responses that have not left | 32 MiB, and 256 KiB of small ones for each session |
/// | errors that have not left | 4 MiB for each session |
/// | frames that the peer has not acknowledged | 512 KiB for each session |
/// | pending requests, and their messages of up to 32 KiB that no handler has taken | 32 MiB |
/// | requests of this side's app, and messages that the app keeps | determined by the app |
///
/// A budget with 32 MiB for a peer has 128 MiB for all peers together. There are at most 8 sessions with a peer and 64 in total. A
/// handler's result that waits to be encoded belongs to the service: `respond` runs 32 handlers of a service at once for a session, unless
/// the app requests more.
package struct SessionMemory: Sendable {
    /// Large requests that arrive, until they are decoded.
    package let requests: SharedBudget
    /// Large responses that arrive, until they are decoded.
    package let responses: SharedBudget
    /// Decoded requests, until they are finished.
    package let decoded: SharedBudget
    /// Encoded responses, until they have left.
    package let answers: SharedBudget
    /// Pending requests, and their small messages until a handler takes them. A request without room is rejected, because its sender may
    /// send it without asking, within its window.
    package let pending = SharedBudget(whole: 128 << 20, part: 32 << 20)

    package init(limits: Limits = Limits()) {
        func budget() -> SharedBudget {
            SharedBudget(whole: limits[.assemblyBytesPerEndpoint], part: limits.assemblyBytesPerPeer)
        }
        (requests, responses, decoded, answers) = (budget(), budget(), budget(), budget())
    }

    /// The smallest free amount of the first four budgets. The fifth is left out, because each session keeps a part of it.
    package var freeBytes: Int { min(requests.free, responses.free, decoded.free, answers.free) }

    /// The shares of a peer, for all its sessions.
    func share(of peer: EndpointID) -> Share {
        Share(
            requests: requests.share(of: peer),
            responses: responses.share(of: peer),
            decoded: decoded.share(of: peer),
            answers: answers.share(of: peer),
            pending: pending.share(of: peer)
        )
    }

    /// A peer's shares.
    struct Share: Sendable {
        let requests: SharedBudget.Share
        let responses: SharedBudget.Share
        let decoded: SharedBudget.Share
        let answers: SharedBudget.Share
        let pending: SharedBudget.Share

        subscript(arriving kind: SessionFrame.MessageKind) -> SharedBudget.Share { kind == .request ? requests : responses }
    }

    /// The part of a decoded request that counts as part of the request's fixed amount.
    static let freeDecodedBytes = 4 << 10
    /// A message up to this size stays in memory until its request ends. The number of requests bounds the total.
    static let smallBytes = 1 << 10
    /// A message up to this size never needs more than `freeDecodedBytes` when it is decoded.
    static let tinyBytes = 128
}
