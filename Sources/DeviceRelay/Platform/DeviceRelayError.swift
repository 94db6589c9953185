// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

public import RelayProtocol

/// An error of the SDK: a code for programs, and a message for people. Two errors are equal if their codes are, unless the type compares
/// more.
public protocol DeviceRelayError: Error, Hashable, CustomStringConvertible {
    /// The kinds of failure of one area. A later version may add some.
    associatedtype Code: Hashable, Sendable, CustomStringConvertible
    /// The kind of failure.
    var code: Code { get }
    /// What happened and what to do about it, without secrets.
    var message: String { get }
    /// The underlying error, if it says more. It may contain secrets of the app's own code, so `description` leaves it out.
    var cause: (any Error)? { get }
}

extension DeviceRelayError {
    /// Errors of an area that has no causes.
    public var cause: (any Error)? { nil }

    /// The code and the message.
    public var description: String { "\(code): \(message)" }

    /// Compares the codes.
    public static func == (left: Self, right: Self) -> Bool { left.code == right.code }

    /// Consistent with `==`.
    public func hash(into hasher: inout Hasher) { hasher.combine(code) }
}

/// It compares also the messages, which name devices.
extension RemoteSystemWatcherError: DeviceRelayError {}

/// It compares all values.
extension ValueSetError: DeviceRelayError {
    /// What is wrong, and where.
    public var message: String { "the message is not valid: \(description)" }
}
