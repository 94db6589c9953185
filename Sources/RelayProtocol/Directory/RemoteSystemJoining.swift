// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

public import Foundation

/// How an endpoint joined the account. It is the relay's statement and proves nothing; it helps a user to decide whether
/// to confirm a device.
public struct RemoteSystemJoining: Hashable, Sendable {
    /// When the relay first saw it, by the relay's clock.
    public let time: Date
    /// The network address of its first connection.
    public let address: String?
    /// The endpoint whose invitation it used; `nil` for an invitation by the relay's operator, or a sign-in.
    public let invitedBy: EndpointID?
    /// Whether the endpoint that invited it has been revoked since.
    public let isInviterRevoked: Bool

    package init(_ joining: Joining, isInviterRevoked: Bool) {
        time = Date(timeIntervalSince1970: Double(joining.time.count) / 1_000)
        address = joining.address
        invitedBy = joining.invitedBy
        self.isInviterRevoked = isInviterRevoked
    }
}
