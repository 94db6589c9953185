// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// How an app service connection was closed.
public struct AppServiceClosedStatus: Hashable, Sendable, CustomStringConvertible {
    private enum Name: String {
        case completed, cancelled, resourceLimitsExceeded, remoteSystemUnavailable, unknown
    }

    private let name: Name

    /// One side finished.
    public static let completed = Self(name: .completed)
    /// The other side's app or system cancelled the connection.
    public static let cancelled = Self(name: .cancelled)
    /// A limit was reached.
    public static let resourceLimitsExceeded = Self(name: .resourceLimitsExceeded)
    /// The connection to the other device was lost.
    public static let remoteSystemUnavailable = Self(name: .remoteSystemUnavailable)
    /// The reason is unknown.
    public static let unknown = Self(name: .unknown)

    /// The status's name.
    public var description: String { name.rawValue }
}

/// The end of an app service connection.
public struct AppServiceClosure: Hashable, Sendable, CustomStringConvertible {
    /// How the connection was closed.
    public let status: AppServiceClosedStatus
    /// Details for users. It may be empty.
    public let message: String

    package init(_ status: AppServiceClosedStatus, _ message: String = "") {
        self.status = status
        self.message = message
    }

    /// Status and message.
    public var description: String { message.isEmpty ? "\(status)" : "\(status): \(message)" }

    /// The error that pending and later calls on the connection receive.
    package var error: AppServiceError {
        let isLost = status == .remoteSystemUnavailable
        let code: AppServiceError.Code = isLost ? .remoteSystemUnavailable : .appServiceConnectionClosed
        return AppServiceError(code, message: "the connection is closed (\(self)); open another")
    }
}
