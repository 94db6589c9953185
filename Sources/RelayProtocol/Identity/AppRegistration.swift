// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// The description of an app by its endpoint, signed by the endpoint's identity key.
package struct AppRegistration: SignedPayload {
    package static let purpose = Purpose.appRegistration

    /// A URI scheme for which an app accepts launches.
    package struct Scheme: Codable, Hashable, Sendable {
        /// In lower case.
        package var name: String
        /// Whether it is the device's default handler for the scheme.
        package var isDefault: Bool

        package init(name: String, isDefault: Bool = false) {
            self.name = name
            self.isDefault = isDefault
        }
    }

    /// An app service that an app offers.
    package struct Service: Codable, Hashable, Sendable {
        package var name: String
        /// The ids of the apps that may call it; `nil` for all apps.
        package var allowedApps: [String]?

        package init(name: String, allowedApps: [String]? = nil) {
            self.name = name
            self.allowedApps = allowedApps
        }
    }

    /// Grows with every change.
    package var version: UInt64
    package var account: String
    package var endpoint: EndpointID
    package var appID: String
    package var displayName: String
    package var attributes: [String: String]
    package var schemes: [Scheme]
    package var services: [Service]
    /// The cross-device app identity that it belongs to, such as a domain; `nil` if it has none.
    package var identity: String?
    /// The ids of the apps of other identities that may use it; has an effect only with an identity.
    package var allowedApps: [String]?
    /// Whether it accepts commands that the relay can read.
    package var acceptsUnencryptedCommands: Bool

    package init(
        version: UInt64,
        account: String,
        endpoint: EndpointID,
        appID: String,
        displayName: String,
        attributes: [String: String] = [:],
        schemes: [Scheme] = [],
        services: [Service] = [],
        identity: String? = nil,
        allowedApps: [String]? = nil,
        acceptsUnencryptedCommands: Bool = false
    ) {
        self.version = version
        self.account = account
        self.endpoint = endpoint
        self.appID = appID
        self.displayName = displayName
        self.attributes = attributes
        self.schemes = schemes
        self.services = services
        self.identity = identity
        self.allowedApps = allowedApps
        self.acceptsUnencryptedCommands = acceptsUnencryptedCommands
    }

    package func validate(limits: Limits) throws(RecordError) {
        try limits.checkVersion(version)
        try limits.checkIdentifier(account, field: "account")
        try limits.checkIdentifier(appID, field: "appID")
        try limits.checkDisplayName(displayName, field: "displayName", mayBeEmpty: true)
        try limits.checkField(.attributesPerApp, attributes.count)
        try limits.checkField(.schemesPerApp, schemes.count)
        try limits.checkField(.servicesPerApp, services.count)
        if let identity { try limits.checkIdentifier(identity, field: "identity") }
        for app in allowedApps ?? [] { try limits.checkIdentifier(app, field: "allowedApps") }
        for key in attributes.keys { try limits.checkIdentifier(key, field: "attributes") }
        for scheme in schemes where !LaunchURI.isScheme(scheme.name) { throw .invalidField("schemes") }
        guard Set(schemes.map(\.name)).count == schemes.count else { throw .invalidField("schemes") }
        guard Set(services.map(\.name)).count == services.count else { throw .invalidField("services") }
        for service in services {
            try limits.checkField(.serviceNameBytes, service.name.utf8.count)
            try limits.checkIdentifier(service.name, field: "services")
            for app in service.allowedApps ?? [] { try limits.checkIdentifier(app, field: "services") }
        }
    }
}

extension Signed<AppRegistration> {
    /// Decodes a registration and checks that the record's endpoint signed it.
    package init(verifying encoded: [UInt8], from record: EndpointRecord, limits: Limits = Limits()) throws(RecordError) {
        try self.init(verifying: encoded, endpoint: record.endpointID, account: record.account, key: record.identityKey, limits: limits)
    }

    /// Decodes a registration and checks that the account's endpoint signed it with its identity key.
    package init(
        verifying encoded: [UInt8],
        endpoint: EndpointID,
        account: String,
        key: SigningPublicKey,
        limits: Limits = Limits()
    ) throws(RecordError) {
        try limits.checkField(.appRegistrationBytes, encoded.count)
        try self.init(verifying: encoded, limits: limits) { (_) throws(RecordError) in key }
        guard payload.endpoint == endpoint else { throw .wrongEndpoint }
        guard payload.account == account else { throw .wrongAccount }
    }
}
