// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import NIOHTTP1
import RelayProtocol
import RelayTesting
import Testing

@testable import DeviceRelay

/// A real relay with one account, and endpoints that join it.
final class JoiningBench {
    static let clientID = "org.example.test"

    let relayd: RelaydProcess
    private let directory: TemporaryDirectory
    private var endpoints = 0

    init(_ security: RelaydProcess.Security = .plain, arguments: [String] = []) async throws {
        directory = try TemporaryDirectory()
        relayd = try await RelaydProcess(security, arguments: arguments)
        _ = try await relayd.start()
        _ = try await relayd.run("account", "add", "Anna")
    }

    func link() async throws -> JoinLink { try JoinLink(parsing: try await relayd.run("invite", "Anna"), plainHTTP: .allowed) }

    /// A new endpoint, with nothing stored.
    func endpoint(
        relay: RelayID,
        now: @escaping @Sendable () -> Int64 = EndpointCredentials.systemTime
    ) throws -> EndpointCredentials {
        endpoints += 1
        return EndpointCredentials(
            identityKey: P256SigningKey(),
            tokens: try tokens("\(endpoints)"),
            relay: relay,
            address: try RelayAddress(try #require(URL(string: relayd.origin))),
            trust: RelayTrust(relay: relay, authorities: .certificates([])),
            now: now
        )
    }

    /// An endpoint that has joined.
    func joined(now: @escaping @Sendable () -> Int64 = EndpointCredentials.systemTime) async throws -> EndpointCredentials {
        let link = try await link()
        let endpoint = try endpoint(relay: link.relay, now: now)
        try await redeem(link, clientID: Self.clientID, as: endpoint)
        return endpoint
    }

    /// An endpoint of the relay, after its first connection.
    /// - Parameter link: By default, a link of the operator.
    func connected(by link: JoinLink? = nil) async throws -> EndpointCredentials {
        let link = if let link { link } else { try await self.link() }
        endpoints += 1
        var settings = ConnectedDevicesPlatformSettings(
            relay: try #require(URL(string: relayd.origin)),
            relayID: link.relay,
            storageDirectory: URL(filePath: "\(directory.path)/platform-\(endpoints)")
        )
        settings.systemKey = SystemKeyFile(path: "\(directory.path)/system-\(endpoints).key")
        let platform = ConnectedDevicesPlatform(settings: settings, accessTokens: JoinLinkAccessTokenProvider(clientID: Self.clientID))
        let account = ConnectedDevicesAccount(id: "me")
        try await platform.start()
        try await platform.accounts.add(account, joining: link)
        let endpoint = try #require(platform.endpoint(of: account.id))
        _ = await endpoint.link.first { $0.isEnumerated }
        let credentials = endpoint.credentials
        await platform.shutdown()
        return credentials
    }

    /// A new place for tokens.
    func tokens(_ name: String) throws -> FileTokenStorage {
        let path = "\(directory.path)/\(name)"
        try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: false)
        return FileTokenStorage(directory: path)
    }

    /// The status of the revocation endpoint's answer.
    func revoke(_ token: Secret<String>, at endpoint: EndpointCredentials) async throws -> Int {
        try await HTTPRequestClient().send(
            HTTPRequest(
                .POST,
                "/auth/revoke",
                headers: ["Content-Type": "application/x-www-form-urlencoded"],
                body: Array("token=\(token.exposed)&client_id=\(Self.clientID)".utf8)
            ),
            to: endpoint.address,
            trust: endpoint.trust
        ).status
    }
}

extension EndpointCredentials {
    /// The same endpoint with other tokens, or another clock.
    func with(tokens: (any TokenStorage)? = nil, key: (any IdentityKey)? = nil, now: (@Sendable () -> Int64)? = nil) -> Self {
        EndpointCredentials(
            identityKey: key ?? identityKey,
            tokens: tokens ?? self.tokens,
            relay: relay,
            address: address,
            trust: trust,
            now: now ?? self.now
        )
    }

    func request(device: String? = nil) throws -> AccessTokenRequest {
        var request = AccessTokenRequest(accountID: "me", relay: try #require(URL(string: address.origin)))
        request.endpoint = self
        request.device = device.map { DeviceDescription(name: $0, kind: .desktop, platform: .linux) }
        return request
    }

    /// Makes the stored access token too old.
    func expire() async throws { try await tokens.withExclusiveAccess { $0?.accessTokenExpires = 0 } }

    func stored() throws -> StoredTokens { try #require(try tokens.read()) }
}

/// What a body of an account's throws.
func accountError(_ body: () async throws(AccountError) -> Void) async -> AccountError.Code? {
    do throws(AccountError) {
        try await body()
        return nil
    } catch {
        return error.code
    }
}

/// What a provider throws instead of a token.
func tokenError(_ provider: some AccessTokenProvider, _ endpoint: EndpointCredentials) async throws -> AccessTokenError.Code? {
    let request = try endpoint.request()
    do throws(AccessTokenError) {
        _ = try await provider.accessToken(for: request)
        return nil
    } catch {
        return error.code
    }
}
