// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

@testable import RelayProtocol

/// An endpoint with all its keys.
struct TestEndpoint {
    var account = "account-1"
    let identityKey = P256SigningKey()
    let systemKey = P256SigningKey()
    let agreementKey = P256AgreementKey()
    var name = "Living room"

    var id: EndpointID { EndpointID(identityKey.publicKey) }

    func record(version: UInt64 = 1, name: String? = nil, agreementKey: P256AgreementKey? = nil) throws -> EndpointRecord {
        try EndpointRecord(
            version: version,
            account: account,
            identityKey: identityKey.publicKey,
            systemKey: systemKey,
            agreementKey: (agreementKey ?? self.agreementKey).publicKey,
            name: name ?? self.name,
            kind: "desktop",
            platform: "linux",
            manufacturer: "ACME",
            model: "One"
        )
    }

    func signedRecord(version: UInt64 = 1, name: String? = nil) throws -> Signed<EndpointRecord> {
        try Signed(try record(version: version, name: name), key: identityKey)
    }

    func registration(version: UInt64 = 1, appID: String = "com.example.player") -> AppRegistration {
        AppRegistration(
            version: version,
            account: account,
            endpoint: id,
            appID: appID,
            displayName: "Player",
            attributes: ["version": "3"],
            schemes: [.init(name: "https", isDefault: true), .init(name: "film")],
            services: [.init(name: "remote-control", allowedApps: ["com.example.remote"]), .init(name: "open")]
        )
    }
}

/// The error that a closure throws, if it has this type.
func error<Failure: Error, Result>(of type: Failure.Type, from work: () throws -> Result) -> Failure? {
    do {
        _ = try work()
        return nil
    } catch {
        return error as? Failure
    }
}
