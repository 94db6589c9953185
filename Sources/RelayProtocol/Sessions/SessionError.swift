// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// The rule that a peer broke, or why it was given up. The session ends; the number goes out in `goaway`.
package enum SessionError: UInt16, Error, CaseIterable, Sendable {
    /// A frame whose length, flags, ids or body do not fit its type.
    case invalidFrame = 1
    /// A body above its type's limit.
    case frameTooLarge = 2
    /// A type below 0x80 that is not known.
    case unknownFrameType = 3
    /// A metadata map that is not CBOR of the accepted form, lacks a key, or has a value of the wrong kind.
    case invalidMetadata = 4
    /// The first frame was not `settings`, or a later one was.
    case settingsExpected = 5
    /// No version in common.
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
    /// Credit for more than was used.
    case windowOverflow = 12
    /// Data of a body that was not granted.
    case dataNotGranted = 13
    /// Data beyond the announced length, or an end before or without it.
    case bodyLengthMismatch = 14
    /// Answers pile up because the peer goes on without reading them.
    case tooManyReplies = 15
    /// No answer to pings.
    case timedOut = 16
    /// Granted bodies, and none of their bytes for a minute.
    case bodyStalled = 17
    /// Announced answers, and for half a minute neither a grant nor room for the bytes of those that were granted.
    case answersStalled = 18
}
