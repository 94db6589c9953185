// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

public import RelayProtocol

/// A device of another person, or one without an account, that this one was just paired with. It belongs to the anonymous account.
public struct PairedDevice: Hashable, Sendable {
    /// The device's id.
    public let id: RemoteSystem.ID
    /// Its endpoint of the anonymous account.
    public let endpoint: EndpointID
    /// The name that it gives itself.
    public let name: String
    /// The kind of device, as it says.
    public let kind: RemoteSystemKind

    init(_ record: EndpointRecord) {
        id = RemoteSystem.ID(record.systemID)
        endpoint = record.endpointID
        name = record.name
        kind = RemoteSystemKind(rawValue: record.kind)
    }
}
