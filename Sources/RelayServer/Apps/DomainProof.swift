// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import RelayProtocol

/// Proves that the owner of a domain consents to the apps of an identity. One of three is enough:
/// - `https://DOMAIN/.well-known/device-relay.json` lists the apps: `{"apps": [{"platform": "ios", "id": "com.example.app"}]}`;
/// - the original's `https://DOMAIN/cross-platform-app-identifiers` lists them: `[{"platform": "ios", "application": "com.example.app"}]`;
/// - a TXT record of the domain is `device-relay=PROOF`, for any apps.
package struct DomainProof: Sendable {
    package enum Way: String, Codable, Sendable, CaseIterable {
        case file = "device-relay.json"
        case originalFile = "cross-platform-app-identifiers"
        case dns
    }

    /// The domain is not proven. The description says what each way lacks.
    package struct Failure: Error, Hashable, CustomStringConvertible {
        package let description: String
    }

    private struct Contents: Decodable {
        struct App: Decodable {
            var platform: String
            var id: String
        }
        var apps: [App]
    }

    private struct OriginalApp: Decodable {
        var platform: String
        var application: String
    }

    package static let recordPrefix = "device-relay="

    private let texts: @Sendable (_ domain: String) async -> [[UInt8]]

    package init() { self.init { await DNSTexts.query($0) } }

    init(texts: @escaping @Sendable (_ domain: String) async -> [[UInt8]]) { self.texts = texts }

    /// - Returns: How the domain is proven.
    package func check(_ identity: AppIdentity) async throws(Failure) -> Way {
        // At the same time: each takes up to ten seconds.
        async let file = problem(of: identity, .file)
        async let originalFile = problem(of: identity, .originalFile)
        async let dns = problem(of: identity, .dns)
        let problems = [(Way.file, await file), (.originalFile, await originalFile), (.dns, await dns)]
        if let (way, _) = problems.first(where: { $0.1 == nil }) { return way }
        throw Failure(description: problems.compactMap(\.1).joined(separator: "; "))
    }

    /// - Returns: `nil` if the domain is proven.
    private func problem(of identity: AppIdentity, _ way: Way) async -> String? {
        switch way {
        case .file:
            return await problem(of: identity, path: "/.well-known/device-relay.json") { bytes in
                try JSONDecoder().decode(Contents.self, from: Data(bytes)).apps.map { ($0.platform, $0.id) }
            }
        case .originalFile:
            return await problem(of: identity, path: "/cross-platform-app-identifiers") { bytes in
                try JSONDecoder().decode([OriginalApp].self, from: Data(bytes)).map { ($0.platform, $0.application) }
            }
        case .dns:
            let expected = Array((Self.recordPrefix + identity.proof).utf8)
            return await texts(identity.id).contains(expected) ? nil : "no TXT record of \(identity.id) is the text of this relay"
        }
    }

    private func problem(
        of identity: AppIdentity,
        path: String,
        _ decode: ([UInt8]) throws -> [(platform: String, id: String)]
    ) async -> String? {
        guard let url = IssuerURL("https://\(identity.id)\(path)") else { return "\(identity.id) is no host name" }
        let answer: IssuerHTTPClient.Answer
        do {
            answer = try await IssuerHTTPClient().send(to: url)
        } catch {
            return "\(url) cannot be read (\(IssuerHTTPClient.reason(error)))"
        }
        guard answer.status == 200 else { return "\(url) answers with status \(answer.status)" }
        guard let listed = try? decode(answer.body) else { return "\(url) does not have the form of such a file" }
        // Compared by bytes.
        func isListed(_ app: AppIdentity.App) -> Bool {
            listed.contains { $0.platform.utf8.elementsEqual(app.platform.rawValue.utf8) && $0.id.utf8.elementsEqual(app.id.utf8) }
        }
        guard let missing = identity.apps.first(where: { !isListed($0) }) else { return nil }
        return "\(url) does not list \(missing)"
    }
}
