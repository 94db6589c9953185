// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

package import RelayProtocol

/// The limits that a device sets for its app service sessions and its storage. Where two devices differ, a session uses the lower value.
/// A value below 1 or above 2^30 is replaced by the nearest one. The relay sets all other limits.
public struct DeviceLimits: Hashable, Sendable {
    /// The same, with the defaults of those that a device does not set.
    package private(set) var all = Limits()

    /// The defaults.
    public init() {}

    /// A message to or from an app service, encoded, in bytes. The default is 16 MiB.
    public var messageBytes: Int {
        get { all[.messageBytes] }
        set { all[.messageBytes] = newValue }
    }

    /// App service connections of one session, in both directions together. The default is 256.
    public var connectionsPerSession: Int {
        get { all[.connectionsPerSession] }
        set { all[.connectionsPerSession] = newValue }
    }

    /// Unanswered requests of one connection and direction. The default is 1,024.
    public var requestsPerConnection: Int {
        get { all[.requestsPerConnection] }
        set { all[.requestsPerConnection] = newValue }
    }

    /// Unanswered requests of one session and direction, over all its connections. The default is 4,096.
    public var requestsPerSession: Int {
        get { all[.requestsPerSession] }
        set { all[.requestsPerSession] = newValue }
    }

    /// The bytes that all sessions with one device may hold. Large incoming messages, decoded requests and unsent answers each have a budget
    /// of this size. The default is 32 MiB.
    public var assemblyBytesPerSession: Int {
        get { all[.assemblyBytesPerSession] }
        set { all[.assemblyBytesPerSession] = newValue }
    }

    /// The same over all devices. One device gets at most a quarter of what the others leave. The default is 128 MiB.
    public var assemblyBytesPerEndpoint: Int {
        get { all[.assemblyBytesPerEndpoint] }
        set { all[.assemblyBytesPerEndpoint] = newValue }
    }

    /// Launches and messages in this device's storage that have not ended. The default is 1,000.
    public var mailboxCommands: Int {
        get { all[.mailboxCommands] }
        set { all[.mailboxCommands] = newValue }
    }
}
