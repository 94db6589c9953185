// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// Why an app service connection was not opened. Codes 1 to 11 are the original's connection statuses; own codes start at
/// 64. Unknown codes are kept, so that a newer peer can define more.
package struct SessionRejectionCode: RawRepresentable, Hashable, Sendable {
    package let rawValue: UInt16

    package init(rawValue: UInt16) { self.rawValue = rawValue }

    /// The device has no such app.
    package static let appNotInstalled = Self(rawValue: 1)
    /// The app does not answer now; it may answer later.
    package static let appUnavailable = Self(rawValue: 2)
    /// The app has no such service.
    package static let appServiceUnavailable = Self(rawValue: 3)
    /// The reason is unknown.
    package static let unknown = Self(rawValue: 4)
    /// The device cannot be reached.
    package static let remoteSystemUnavailable = Self(rawValue: 5)
    /// The service is not open to the calling app, or to other devices.
    package static let remoteSystemNotSupportedByApp = Self(rawValue: 6)
    /// The caller may not use the service.
    package static let notAuthorized = Self(rawValue: 7)
    /// The caller's authentication failed.
    package static let authenticationError = Self(rawValue: 8)
    /// The target has no network.
    package static let networkNotAvailable = Self(rawValue: 9)
    /// A policy of the target forbids it.
    package static let disabledByPolicy = Self(rawValue: 10)
    /// A service that the target needs does not answer.
    package static let webServiceUnavailable = Self(rawValue: 11)
    /// A limit of the target is reached.
    package static let resourceLimitsExceeded = Self(rawValue: 64)
    /// The session accepts no new connections; a new session is possible.
    package static let sessionEnding = Self(rawValue: 65)
    /// The caller's time limit passed before the service answered.
    package static let timedOut = Self(rawValue: 66)
}

/// Why a request got no response. Codes 1 to 10 are the original's response statuses; own codes start at 64.
package struct SessionFailureCode: RawRepresentable, Hashable, Sendable {
    package let rawValue: UInt16

    package init(rawValue: UInt16) { self.rawValue = rawValue }

    /// The service failed or did not answer.
    package static let failure = Self(rawValue: 1)
    /// A limit of the target is reached.
    package static let resourceLimitsExceeded = Self(rawValue: 2)
    /// The reason is unknown.
    package static let unknown = Self(rawValue: 3)
    /// The device cannot be reached.
    package static let remoteSystemUnavailable = Self(rawValue: 4)
    /// The message exceeds the target's limit.
    package static let messageTooLarge = Self(rawValue: 5)
    /// The connection is closed.
    package static let appServiceConnectionClosed = Self(rawValue: 6)
    /// The caller's authentication failed.
    package static let authenticationError = Self(rawValue: 7)
    /// The target has no network.
    package static let networkNotAvailable = Self(rawValue: 8)
    /// A policy of the target forbids it.
    package static let disabledByPolicy = Self(rawValue: 9)
    /// A service that the target needs does not answer.
    package static let webServiceUnavailable = Self(rawValue: 10)
    /// The request's time limit passed.
    package static let timedOut = Self(rawValue: 64)
    /// The message could not be decoded.
    package static let invalidMessage = Self(rawValue: 65)
    /// The app is no longer available.
    package static let appUnavailable = Self(rawValue: 66)
}

/// Why a connection was closed. The codes are the original's closed statuses.
package struct SessionClosureCode: RawRepresentable, Hashable, Sendable {
    package let rawValue: UInt16

    package init(rawValue: UInt16) { self.rawValue = rawValue }

    /// The other side has finished.
    package static let completed = Self(rawValue: 0)
    /// The other side, its app or its system cancelled the connection.
    package static let cancelled = Self(rawValue: 1)
    /// A limit of the other side was reached.
    package static let resourceLimitsExceeded = Self(rawValue: 2)
    /// The reason is unknown.
    package static let unknown = Self(rawValue: 3)
}

/// A code with a text for people. The text is cut to 1 KiB.
package struct SessionReason<Code: RawRepresentable<UInt16> & Hashable & Sendable>: Hashable, Sendable {
    package let code: Code
    package let message: String

    package init(_ code: Code, _ message: String = "") {
        self.code = code
        self.message = message.cut(toUTF8: SessionWire.textBytes)
    }

    var encodedSize: Int { 2 + message.utf8.count }
}

package typealias SessionRejection = SessionReason<SessionRejectionCode>
package typealias SessionFailure = SessionReason<SessionFailureCode>
package typealias SessionClosure = SessionReason<SessionClosureCode>

extension String {
    /// The longest prefix of whole characters within the given number of bytes.
    func cut(toUTF8 count: Int) -> String {
        guard utf8.count > count else { return self }
        var end = utf8.index(startIndex, offsetBy: count)
        while end > startIndex, end.samePosition(in: self) == nil { end = utf8.index(before: end) }
        return String(self[..<end])
    }
}
