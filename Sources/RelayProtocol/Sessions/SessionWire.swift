// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// The constants of version 1 of the session protocol. Configurable values are in `Limits`.
package enum SessionWire {
    /// The ALPN protocol of the TLS handshake.
    package static let applicationProtocol = "device-relay/1"
    /// The version that this code supports.
    package static let version = 1
    /// The size of a frame header.
    package static let headerBytes = 14
    /// A longer message is announced, and its bytes wait for a grant.
    package static let inlineBytes = 32 << 10
    /// The bytes that one side may send on a connection before the other has taken them, headers included.
    package static let windowBytes = 256 << 10
    /// Credit is returned in steps of at least this size. The rest of the window holds any frame, so that withheld credit
    /// never blocks a sender whose messages were taken.
    package static let creditStep = windowBytes / 4
    /// The size limit of the map before a message, and of the settings.
    package static let metadataBytes = 4 << 10
    /// The size limit of the text beside a code.
    package static let textBytes = 1 << 10
    /// The size limit of a frame of a type that may be skipped.
    package static let skippedBytes = 64 << 10
    /// The limit of replies to the peer that are not written yet. Beyond it the session ends.
    package static let unflushedReplies = 4_096

    /// The name of the feature by which a session goes on over another stream.
    package static let moveFeature = "move"
    /// The frames that one side keeps until the other has acknowledged them, in bytes with about 128 for each frame. Beyond it the side
    /// sends no more. The sessions of a peer, 8 at most, so keep 4 MiB.
    package static let keptBytes = 512 << 10
    /// The received bytes and frames after which a side acknowledges them, and the longest delay otherwise.
    package static let ackBytes = 64 << 10
    package static let ackFrames = 256 as UInt64
    package static let ackInterval = Duration.milliseconds(200)
    /// How long a session without a stream waits for another one.
    package static let pathInterval = Duration.seconds(30)

    /// The number of unanswered pings after which the session ends.
    package static let unansweredPings = 2
    /// The deadline for an answer when a newer session with the same peer exists.
    package static let probeInterval = Duration.seconds(2)
    /// How long a closed connection waits for the peer to receive the last responses.
    package static let closingInterval = Duration.seconds(60)
    /// How far ahead the deadline of granted bodies may lie, for all bodies of a session together.
    package static let stalledInterval = Duration.seconds(60)
    /// How long announced responses wait for a grant.
    package static let grantInterval = Duration.seconds(30)
    /// The time by which each KiB of a granted body extends the deadline: a rate of 4 KiB/s is enough.
    package static let bodyKiBTime = Duration.milliseconds(250)
}

/// The intervals of pings and idle timeouts. Each side uses its own.
package struct SessionTiming: Hashable, Sendable {
    /// The silence before a ping, without and with requests that wait for the peer.
    package var quietInterval = Duration.seconds(45)
    package var busyInterval = Duration.seconds(15)
    /// The idle time after which a session without connections ends: if it had connections, and if it has had none.
    package var idleInterval = Duration.seconds(60)
    package var unusedInterval = Duration.seconds(60)

    package init() {}
}
