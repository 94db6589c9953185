// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

extension DeviceDirectory {
    /// Combines the endpoints of a system id into a device; `nil` if none of them publishes an app.
    func aggregate(_ id: RemoteSystem.ID, hidesLocalApp: Bool) -> RemoteSystem? {
        let members = endpoints(of: id)
        let publishers = members.filter { !$0.registrations.isEmpty && !(hidesLocalApp && $0.isLocal) }
        let confirmed = members.filter(\.isConfirmed)
        // An unconfirmed endpoint cannot rename a known device or make it look available.
        guard let representative = (confirmed.isEmpty ? members : confirmed).first,
            let best = (publishers.contains(where: \.isConfirmed) ? publishers.filter(\.isConfirmed) : publishers).best
        else {
            return nil
        }
        return RemoteSystem(
            id: id,
            accountID: account,
            displayName: representative.record.name,
            kind: RemoteSystemKind(rawValue: representative.record.kind),
            platform: RemoteSystemPlatform(rawValue: representative.record.platform),
            manufacturer: representative.record.manufacturer,
            model: representative.record.model,
            presence: best.presence,
            apps: publishers.flatMap { $0.apps(in: account) }.sorted { ($0.appID, $0.endpoint) < ($1.appID, $1.endpoint) },
            isNew: confirmed.isEmpty,
            isVerified: confirmed.contains(where: \.isVerified),
            joining: representative.publicJoining,
            isLocal: members.contains(where: \.isLocal),
            isAvailableByProximity: publishers.contains { $0.isConfirmed && $0.presence(on: .nearby) != nil }
        )
    }

    /// The endpoints of a device, sorted by id, so that the same endpoint always provides its name.
    func endpoints(of system: RemoteSystem.ID) -> [Endpoint] {
        endpoints.filter { $0.value.systemID == system }.sorted { $0.key < $1.key }.map(\.value)
    }
}

extension DeviceDirectory.Endpoint {
    package var publicJoining: RemoteSystemJoining? {
        joining.map { RemoteSystemJoining($0, isInviterRevoked: isInviterRevoked) }
    }

    func apps(in account: String) -> [RemoteSystemApp] {
        registrations.map { registration in
            RemoteSystemApp(
                id: RemoteSystemApp.ID(endpoint: id, appID: registration.appID),
                systemID: systemID,
                accountID: account,
                displayName: registration.displayName,
                attributes: registration.attributes,
                schemes: registration.schemes.map(\.name),
                appServices: registration.services.map { AppServiceInfo(name: $0.name, appID: registration.appID) },
                identity: registration.identity,
                allowedApps: registration.allowedApps ?? [],
                presence: presence,
                isNew: !isConfirmed,
                isVerified: isVerified,
                joining: publicJoining
            )
        }
    }
}

extension [DeviceDirectory.Endpoint] {
    /// The endpoint with the best presence; the first one if several are equal.
    var best: DeviceDirectory.Endpoint? {
        self.min { $0.presence.isBetter(than: $1.presence) }
    }
}
