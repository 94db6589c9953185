// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// An endpoint that is not approved yet, with the facts by which a person decides.
///
/// Only the fingerprint words prove something: they are those that the new device itself shows. The endpoint chose its name, kind and
/// platform, and the relay states how it joined.
public struct NewEndpoint: Hashable, Sendable, Identifiable {
    /// The endpoint.
    public let id: EndpointID
    /// The device that it is on.
    public let systemID: RemoteSystem.ID
    /// The account, by the app's id of that account.
    public let accountID: String
    /// The name of its device, at most 64 characters. It has no control and no bidirectional characters; it may have markup.
    public let deviceName: String
    /// The kind of its device.
    public let kind: RemoteSystemKind
    /// The operating system.
    public let platform: RemoteSystemPlatform
    /// When and from which address it joined, and by whose invitation; `nil` if the relay does not say.
    public let joining: RemoteSystemJoining?
    /// The name of the known device whose invitation it used; `nil` if there is none, or if that device is not known either.
    public let inviterName: String?
    /// The words to compare with those on the new device.
    public let fingerprint: FingerprintWords
}

extension DeviceDirectory {
    /// The endpoints that are not confirmed, the earliest first; `nil` while an enumeration is running, because the endpoints that vouch
    /// for a listed one may follow.
    package var newEndpoints: [NewEndpoint]? {
        guard isComplete else { return nil }
        let new = endpoints.values.filter { !$0.isConfirmed }
        func order(_ endpoint: Endpoint) -> (Int64, EndpointID) { (endpoint.joining?.time.count ?? .max, endpoint.id) }
        return new.sorted { order($0) < order($1) }.map { endpoint in
            let inviter = endpoint.joining?.invitedBy.flatMap { endpoints[$0] }
            return NewEndpoint(
                id: endpoint.id,
                systemID: endpoint.systemID,
                accountID: account,
                deviceName: endpoint.record.name,
                kind: RemoteSystemKind(rawValue: endpoint.record.kind),
                platform: RemoteSystemPlatform(rawValue: endpoint.record.platform),
                joining: endpoint.publicJoining,
                inviterName: inviter.flatMap { $0.isConfirmed ? $0.record.name : nil },
                fingerprint: endpoint.fingerprint
            )
        }
    }
}

extension DeviceDirectory.Endpoint {
    /// The words for its keys.
    package var fingerprint: FingerprintWords { FingerprintWords(endpoint: id, system: record.systemID) }
}
