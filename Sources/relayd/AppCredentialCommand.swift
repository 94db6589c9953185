// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import ArgumentParser
import Foundation
import ProgramTexts
import RelayComposition
import RelayProtocol
import RelayServer

struct AppCredentialCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "credential",
        abstract: localized("Add and remove the push credentials of an app identity."),
        discussion: localized("Credentials are stored encrypted with the relay's key, and are never printed."),
        subcommands: [APNs.self, FCM.self, WNS.self, WebPush.self, Remove.self]
    )

    struct APNs: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "apns",
            abstract: localized("Add a signing key of Apple's push service.")
        )

        @Option(help: .text("The key's file, as Apple gives it (.p8).")) var signingKey: String
        @Option(help: .text("The key's id: 10 characters.")) var keyID: String
        @Option(help: .text("The team's id: 10 characters.")) var teamID: String
        @Option(help: .text("The app's bundle id.")) var topic: String
        @OptionGroup var options: AppOptions

        func run() async throws {
            let key = try readSecret(signingKey)
            guard StoredCredential.isSigningKey(key) else {
                throw ValidationError("\(signingKey) is not a P-256 key in PEM")
            }
            for (name, value) in [("--key-id", keyID), ("--team-id", teamID)] {
                guard value.utf8.count == 10, value.utf8.allSatisfy(isLetterOrDigit) else {
                    throw ValidationError("\(name) has 10 letters and digits")
                }
            }
            try await options.add(.apns(team: teamID, keyID: keyID, key: Secret(key), topic: topic))
        }
    }

    struct FCM: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "fcm",
            abstract: localized("Add a service account of Google's push service.")
        )

        @Option(help: .text("The service account's JSON file, as Google gives it.")) var serviceAccount: String
        @OptionGroup var options: AppOptions

        private struct File: Decodable {
            var projectID: String
            var clientEmail: String
            var privateKey: String

            enum CodingKeys: String, CodingKey {
                case projectID = "project_id"
                case clientEmail = "client_email"
                case privateKey = "private_key"
            }
        }

        func run() async throws {
            let text = try readSecret(serviceAccount)
            guard let file = try? JSONDecoder().decode(File.self, from: Data(text.utf8)) else {
                throw ValidationError("\(serviceAccount) is not a service account: it needs project_id, client_email and private_key")
            }
            try await options.add(.fcm(project: file.projectID, clientEmail: file.clientEmail, key: Secret(file.privateKey)))
        }
    }

    struct WNS: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "wns",
            abstract: localized("Add a client secret of Microsoft's push service."),
            discussion:
                localized(
                    "A UWP app has a package SID. An app with the Windows App SDK has a tenant and a client id. The two are not interchangeable."
                )
        )

        @Option(help: .text("The file of the client secret.")) var secretFile: String
        @Option(help: .text("The package SID of a UWP app.")) var packageSID: String?
        @Option(help: .text("The tenant of an app registration.")) var tenant: String?
        @Option(help: .text("The client id of an app registration.")) var clientID: String?
        @OptionGroup var options: AppOptions

        func run() async throws {
            let secret = Secret(try readSecret(secretFile).trimmingWhitespace)
            switch (packageSID, tenant, clientID) {
            case (let sid?, nil, nil): try await options.add(.wnsPackage(sid: sid, secret: secret))
            case (nil, let tenant?, let client?): try await options.add(.wnsAppSDK(tenant: tenant, client: client, secret: secret))
            default: throw ValidationError("give either --package-sid, or --tenant and --client-id")
            }
        }
    }

    struct WebPush: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "web-push",
            abstract: localized("Add a signing key for Web Push, UnifiedPush and ntfy (VAPID)."),
            discussion: localized(
                "Without --signing-key, a key is made. Apps subscribe with its public part, which `relayd app list` prints."
            )
        )

        @Option(help: .text("The contact for push services: a mailto: or https: URL at a public domain, such as mailto:me@example.org."))
        var contact: String
        @Option(help: .text("A P-256 key in PEM.")) var signingKey: String?
        @OptionGroup var options: AppOptions

        func run() async throws {
            guard PushContact.isPublic(contact) else {
                throw ValidationError("--contact must be a mailto: or https: URL at a public domain, such as mailto:me@example.org")
            }
            let key = try signingKey.map(readSecret) ?? StoredCredential.newSigningKey()
            guard StoredCredential.isSigningKey(key) else { throw ValidationError("\(signingKey ?? "the key") is no P-256 key in PEM") }
            try await options.add(.webPush(key: Secret(key), contact: contact))
        }
    }

    struct Remove: AsyncParsableCommand {
        static let configuration = CommandConfiguration(abstract: localized("Remove credentials. The relay stops using them at once."))

        @OptionGroup var options: AppOptions
        @Argument(help: .text("The credentials' id, as `relayd app list` prints it.")) var credential: String

        func run() async throws {
            try await options.change(.removeCredential(credential, app: options.domain))
        }
    }
}

extension AppOptions {
    fileprivate func add(_ credential: StoredCredential) async throws {
        try await change(.addCredential(Secret(credential), app: domain), .made)
    }
}

/// The maximum size of a file of credentials in bytes.
private let maximumFileBytes = 16 << 10

private func readSecret(_ path: String) throws -> String {
    guard let bytes = FileManager.default.contents(atPath: path), bytes.count <= maximumFileBytes,
        let text = String(validating: bytes, as: UTF8.self)
    else { throw ValidationError("\(path) cannot be read, or is not a text of at most \(maximumFileBytes) bytes") }
    return text
}

private func isLetterOrDigit(_ byte: UInt8) -> Bool {
    switch byte {
    case UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "A")...UInt8(ascii: "Z"), UInt8(ascii: "a")...UInt8(ascii: "z"): true
    default: false
    }
}

extension String {
    fileprivate var trimmingWhitespace: String {
        String(drop(while: \.isWhitespace).reversed().drop(while: \.isWhitespace).reversed())
    }
}
