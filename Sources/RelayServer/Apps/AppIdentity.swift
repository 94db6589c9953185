// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// A cross-device app identity: the apps of one publisher on different platforms, under a domain that the publisher owns. The original
/// calls the domain the cross-platform app id. Push credentials belong to it.
package struct AppIdentity: Hashable, Sendable {
    /// The identity of the apps that no other one contains. It needs no proof.
    package static let defaultID = "default"
    /// The maximum number of app ids for each platform, and of credentials for each push type, as in the original.
    package static let maximumEntries = 10
    /// The maximum number of identities of a relay.
    package static let maximumCount = 1_000

    /// An app on one platform.
    package struct App: Hashable, Sendable, CustomStringConvertible {
        /// A platform by the name that it has in the original's file `cross-platform-app-identifiers`.
        package enum Platform: String, CaseIterable, Sendable {
            case android, ios, linux, macos, web
            case windowsUniversal = "windows_universal"
            case windowsWin32 = "windows_win32"
        }

        package var platform: Platform
        /// The app id with which endpoints register, such as a bundle identifier.
        package var id: String

        package init(_ platform: Platform, id: String) {
            self.platform = platform
            self.id = id
        }

        /// Reads `PLATFORM=ID`.
        package init?(parsing text: String) {
            guard let separator = text.utf8.firstIndex(of: UInt8(ascii: "=")),
                let platform = Platform(rawValue: String(text[..<separator]))
            else { return nil }
            let id = String(text[text.utf8.index(after: separator)...])
            guard (1...Self.maximumBytes).contains(id.utf8.count), id.utf8.allSatisfy({ (0x21...0x7E).contains($0) }) else { return nil }
            self.init(platform, id: id)
        }

        /// The maximum length of an app id in bytes.
        package static let maximumBytes = 200

        package var description: String { "\(platform.rawValue)=\(id)" }
    }

    /// A domain in lower-case letters, or `default`.
    package var id: String
    /// Ordered by platform and id.
    package var apps: [App]
    /// Those that were added since the domain was last proven.
    package var unproven: Set<App>
    /// The random text of a DNS record that proves the domain.
    package var proof: String
    /// When the domain was proven for the other apps: milliseconds since 1970; `nil` if it is not.
    package var verified: Int64?
    package var created: Int64

    package init(
        id: String,
        apps: [App] = [],
        unproven: Set<App> = [],
        proof: String,
        verified: Int64? = nil,
        created: Int64
    ) {
        self.id = id
        self.apps = apps
        self.unproven = unproven
        self.proof = proof
        self.verified = verified
        self.created = created
    }

    /// Whether its credentials may be used.
    package var isUsable: Bool { id == Self.defaultID || verified != nil }

    /// The apps for which the domain is proven.
    package var provenApps: [App] { verified == nil ? [] : apps.filter { !unproven.contains($0) } }

    /// Whether the domain is proven for an app, on any platform.
    package func proves(_ appID: String) -> Bool { provenApps.contains { $0.id.utf8.elementsEqual(appID.utf8) } }

    /// The normal form of a domain; `nil` if the text is none.
    package static func domain(_ text: String) -> String? {
        // Other letters, such as the Kelvin sign, have ASCII letters in lower case.
        guard text.utf8.count <= 253, text.utf8.allSatisfy({ $0 < 0x80 }) else { return nil }
        let domain = text.lowercased()
        let labels = domain.utf8.split(separator: UInt8(ascii: "."), omittingEmptySubsequences: false)
        let isValid = labels.allSatisfy { label in
            (1...63).contains(label.count) && label.first != UInt8(ascii: "-") && label.last != UInt8(ascii: "-")
                && label.allSatisfy { (0x30...0x39).contains($0) || (0x61...0x7A).contains($0) || $0 == UInt8(ascii: "-") }
        }
        // A last label of digits makes an address.
        let isName = labels.last?.contains { !(0x30...0x39).contains($0) } ?? false
        return isValid && isName && labels.count > 1 ? domain : nil
    }
}

/// The token of a push credential as several nodes share it.
package struct PushTokenRow: Hashable, Sendable {
    /// It grows with each change, from 1.
    package var version: Int64
    /// Encrypted with the relay's key.
    package var sealed: [UInt8]

    package init(version: Int64, sealed: [UInt8]) { (self.version, self.sealed) = (version, sealed) }

    /// - Parameter credential: The id of the credential.
    package static func label(of credential: String) -> String { "push token \(credential)" }
}

/// Push credentials as they are stored.
package struct CredentialRow: Hashable, Sendable {
    /// Random.
    package var id: String
    /// The identity that it belongs to.
    package var identity: String
    /// The push type.
    package var type: String
    /// What the operator may see of it, such as a key id.
    package var label: String
    /// Encrypted with the relay's key.
    package var sealed: [UInt8]
    /// Milliseconds since 1970.
    package var created: Int64

    package init(id: String, identity: String, type: String, label: String, sealed: [UInt8], created: Int64) {
        self.id = id
        self.identity = identity
        self.type = type
        self.label = label
        self.sealed = sealed
        self.created = created
    }
}
