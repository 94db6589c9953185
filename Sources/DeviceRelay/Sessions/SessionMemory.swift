// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

package import RelayProtocol

/// The memory that the peers of an endpoint can make it hold in sessions. Four budgets have `assemblyBytesPerSession` for all sessions of a
/// peer and `assemblyBytesPerEndpoint` for all.
///
/// They are four, so that nothing waits in a circle: a large request waits to be decoded until others are done; a handler, which holds its
/// decoded request, may wait for the response to a request of its own; that response waits for nothing but its bytes and its decoding, which
/// needs no more memory of these; and an encoded answer waits for its receiver, where it is such a response. A circle is left to handlers of
/// two devices that send each other large requests: like all that wait for each other's handlers, they end by their time-outs.
///
/// All that the sessions of one peer can hold, by the default limits:
///
/// | what | at most |
/// | --- | --- |
/// | large requests that arrive or wait to be decoded | 32 MiB |
/// | large responses that arrive or wait to be decoded | 32 MiB |
/// | requests that are decoded and not done, counted as they lie in memory | 32 MiB |
/// | answers that are encoded and have not left | 32 MiB, and 256 KiB of small ones for each session |
/// | errors that have not left | 4 MiB for each session |
/// | requests that are not done, and their messages of up to 32 KiB that no handler has taken | 32 MiB |
/// | requests of this side's app, and what the app keeps of messages | the app's |
///
/// What has 32 MiB for a peer has 128 MiB for all peers together; of sessions there are 8 with a peer and 64 in all. A handler's result that
/// waits to be encoded is the service's: `respond` runs 32 handlers of a service at once for a session, unless the app wants more.
package struct SessionMemory: Sendable {
    /// Large requests that arrive, until they are decoded.
    package let requests: SharedBudget
    /// Large responses that arrive, until they are decoded.
    package let responses: SharedBudget
    /// Decoded requests, until they are done.
    package let decoded: SharedBudget
    /// Encoded answers, until they have left.
    package let answers: SharedBudget
    /// Requests that are not done, and their small messages, until a handler takes them. A request without room is refused: its sender may send
    /// within its window without asking.
    package let pending = SharedBudget(whole: 128 << 20, part: 32 << 20)

    package init(limits: Limits = Limits()) {
        func budget() -> SharedBudget {
            SharedBudget(whole: limits[.assemblyBytesPerEndpoint], part: limits.assemblyBytesPerPeer)
        }
        (requests, responses, decoded, answers) = (budget(), budget(), budget(), budget())
    }

    /// The least that is free of one of the first four. Of the last each session keeps some.
    package var freeBytes: Int { min(requests.free, responses.free, decoded.free, answers.free) }

    /// What the sessions of a peer share.
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

    /// Of a decoded request, what counts as part of the request itself.
    static let freeDecodedBytes = 4 << 10
    /// A message of so many bytes may stay where it is until its request is done: a number of them is bounded by the number of requests.
    static let smallBytes = 1 << 10
    /// One of so many never needs more than `freeDecodedBytes`.
    static let tinyBytes = 128
}
