// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// How an app service connection reaches the other device, at one moment.
public struct RemoteSystemConnectionInfo: Hashable, Sendable {
    /// Whether the path is direct, without the relay. A connection may move to another path at any time, so this may have changed since.
    /// False while the connection waits for a path, and for a stateless message, which travels as a command.
    public let isProximal: Bool

    /// Reads how a connection reaches the other device now. A closed connection has the last path of its session.
    public init(_ connection: AppServiceConnection) {
        isProximal = connection.isDirect
    }
}
