// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// The numbers that version 1 of the session protocol fixes. What can be set is in `Limits`.
package enum SessionWire {
    /// Chosen in the TLS handshake (ALPN).
    package static let applicationProtocol = "device-relay/1"
    /// The version that this code speaks.
    package static let version = 1
    /// Every frame begins with a header of this size.
    package static let headerBytes = 14
    /// A longer message is announced, and its bytes wait for a grant.
    package static let inlineBytes = 32 << 10
    /// What one side may send on a connection before the other has taken it; headers count.
    package static let windowBytes = 256 << 10
    /// Credit is returned in steps of at least this. The rest of the window holds any frame, so that a step that is not
    /// yet reached never holds up a sender whose messages were taken.
    package static let creditStep = windowBytes / 4
    /// The map before a message, and the settings.
    package static let metadataBytes = 4 << 10
    /// The text beside a code.
    package static let textBytes = 1 << 10
    /// A frame of a type that may be skipped.
    package static let skippedBytes = 64 << 10
    /// Frames that answer a peer and have not left yet. A peer that goes on without reading its answers is cut off there.
    package static let unflushedReplies = 4_096

    /// Pings without an answer after which the peer is given up.
    package static let unansweredPings = 2
    /// How long a session has to show life when there is a newer one with the same peer.
    package static let probeInterval = Duration.seconds(2)
    /// How long a closed connection waits for the peer to fetch the last responses.
    package static let closingInterval = Duration.seconds(60)
    /// How far ahead granted bodies may be paid for, all of a session together.
    package static let stalledInterval = Duration.seconds(60)
    /// How long announced answers wait for a grant.
    package static let grantInterval = Duration.seconds(30)
    /// What a KiB of a granted body pays for: 4 KiB/s are enough to go on.
    package static let bodyKiBTime = Duration.milliseconds(250)
}

/// When a side of a session looks after its peer, and when it is done. Each side goes by its own.
package struct SessionTiming: Hashable, Sendable {
    /// Silence before a ping, without and with requests that wait for the peer.
    package var quietInterval = Duration.seconds(45)
    package var busyInterval = Duration.seconds(15)
    /// A session without connections ends after this: one that had some, and one that has had none yet.
    package var idleInterval = Duration.seconds(60)
    package var unusedInterval = Duration.seconds(60)

    package init() {}
}
