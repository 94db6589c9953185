// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// The protocol rule that a peer broke, or why it was disconnected. The session ends, and `goaway` carries the number.
package enum SessionError: UInt16, Error, CaseIterable, Sendable {
    /// A frame whose length, flags, ids or body do not fit its type.
    case invalidFrame = 1
    /// A body above its type's limit.
    case frameTooLarge = 2
    /// An unknown type below 0x80.
    case unknownFrameType = 3
    /// A metadata map that is not CBOR of the accepted form, lacks a key, or has a value of the wrong kind.
    case invalidMetadata = 4
    /// The first frame is not `settings`, or a later frame is.
    case settingsExpected = 5
    /// The sides have no common version.
    case versionUnsupported = 6
    /// A connection id of the wrong parity, one that does not grow, or one that was never opened.
    case invalidConnection = 7
    /// A request number that does not grow, or that was never used.
    case invalidRequest = 8
    /// A frame that does not fit the state of its connection or request.
    case unexpectedFrame = 9
    /// More requests in flight, on a connection or in the session, than agreed.
    case tooManyRequests = 10
    /// More bytes than the connection's window held.
    case windowExceeded = 11
    /// More credit than was used.
    case windowOverflow = 12
    /// Data of a body that has no grant.
    case dataNotGranted = 13
    /// Data beyond the announced length, or the last slice does not end exactly there.
    case bodyLengthMismatch = 14
    /// The peer causes replies without reading them.
    case tooManyReplies = 15
    /// The peer did not answer pings.
    case timedOut = 16
    /// Granted bodies whose data did not arrive for a minute.
    case bodyStalled = 17
    /// For half a minute, no announced response got a grant and no granted one made progress.
    case answersStalled = 18
    /// A count of handled frames that goes back, or of more frames than were sent.
    case invalidCount = 19
    /// A move of an unknown session, or one whose number does not grow.
    case invalidMove = 20
}
