// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

package import RelayProtocol

/// The memory that the peers of an endpoint can make it hold in sessions. Each of the three has `assemblyBytesPerSession` for all sessions of
/// a peer and `assemblyBytesPerEndpoint` for all. They are three, so that none who has some of one waits for more of the same.
///
/// All that one session can hold, by the default limits:
///
/// | what | at most |
/// | --- | --- |
/// | large messages that arrive or wait to be decoded | 32 MiB |
/// | requests that are decoded and not done, counted as they lie in memory | 32 MiB, and 4 KiB of each request |
/// | answers that are encoded and have not left | 32 MiB, and 256 KiB of small ones |
/// | messages of 1 to 32 KiB that no handler has taken | 256 KiB a connection, 64 MiB |
/// | 4,096 requests with what is small of their messages | about 30 MiB |
/// | requests of this side's app, and what the app keeps of messages | the app's |
///
/// The first three are for all sessions of a peer together, and have 128 MiB each for all peers. A handler's result that waits for its turn
/// to be encoded is the service's: `respond` runs 32 handlers of a service at once for a session, unless the app wants more.
package struct SessionMemory: Sendable {
    /// Large messages that arrive, until they are decoded.
    package let arriving: SharedBudget
    /// Decoded requests, until they are done.
    package let decoded: SharedBudget
    /// Encoded answers, until they have left.
    package let answers: SharedBudget

    package init(limits: Limits = Limits()) {
        func budget() -> SharedBudget {
            SharedBudget(whole: limits[.assemblyBytesPerEndpoint], part: limits.assemblyBytesPerPeer)
        }
        (arriving, decoded, answers) = (budget(), budget(), budget())
    }

    /// The least that is free of one of them.
    package var freeBytes: Int { min(arriving.free, decoded.free, answers.free) }

    /// What the sessions of a peer share.
    func share(of peer: EndpointID) -> Share {
        Share(arriving: arriving.share(of: peer), decoded: decoded.share(of: peer), answers: answers.share(of: peer))
    }

    /// A peer's shares.
    struct Share: Sendable {
        let arriving: SharedBudget.Share
        let decoded: SharedBudget.Share
        let answers: SharedBudget.Share
    }

    /// Of a decoded request, what counts as part of the request itself.
    static let freeDecodedBytes = 4 << 10
    /// A message of so many bytes may stay where it is until its request is done: a number of them is bounded by the number of requests.
    static let smallBytes = 1 << 10
    /// One of so many never needs more than `freeDecodedBytes`.
    static let tinyBytes = 128
}
