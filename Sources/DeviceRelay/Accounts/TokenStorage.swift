// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

package import RelayProtocol

#if canImport(FoundationEssentials)
import FoundationEssentials
#else
import Foundation
#endif

/// What an issuer gave for an account.
package struct StoredTokens: Codable, Hashable, Sendable {
    package var issuer: String
    package var clientID: String
    package var scopes: [String]
    package var accessToken: Secret<String>
    /// Milliseconds since 1970, by the own clock.
    package var accessTokenExpires: Int64
    package var refreshToken: Secret<String>?

    package init(
        issuer: String,
        clientID: String,
        scopes: [String],
        accessToken: Secret<String>,
        accessTokenExpires: Int64,
        refreshToken: Secret<String>?
    ) {
        self.issuer = issuer
        self.clientID = clientID
        self.scopes = scopes
        self.accessToken = accessToken
        self.accessTokenExpires = accessTokenExpires
        self.refreshToken = refreshToken
    }
}

/// Where tokens are kept between launches.
package protocol TokenStorage: Sendable {
    /// What is there now; `nil` if nothing.
    func read() throws(StorageError) -> StoredTokens?

    /// For changing what is there. Nobody else, in this process or another, changes it meanwhile; so of several that find the same
    /// token too old only the first refreshes it, and the others find its successor.
    /// - Parameter body: Gets what is stored now, read after everybody else was done. What it leaves is stored when it returns, and
    ///   nothing is when it throws.
    func withExclusiveAccess<Value: Sendable>(
        _ body: @Sendable (inout StoredTokens?) async throws -> Value
    ) async throws -> Value
}

/// Tokens in a file of mode 0600, with a lock file beside it.
package struct FileTokenStorage: TokenStorage {
    private let path: String

    package init(directory: String) { self.path = "\(directory)/tokens" }

    package func read() throws(StorageError) -> StoredTokens? {
        guard let bytes = try PrivateFile.contents(of: path) else { return nil }
        guard let set = try? ValueSet(decoding: bytes), let tokens = try? ValueSetDecoder().decode(StoredTokens.self, from: set) else {
            throw StorageError(.damaged, path: path)
        }
        return tokens
    }

    package func withExclusiveAccess<Value: Sendable>(
        _ body: @Sendable (inout StoredTokens?) async throws -> Value
    ) async throws -> Value {
        // Not a blocking lock: whoever has it may be waiting for the network.
        var lock = try FileLock(tryLocking: "\(path).lock")
        while lock == nil {
            try await Task.sleep(for: .milliseconds(20))
            lock = try FileLock(tryLocking: "\(path).lock")
        }
        defer { withExtendedLifetime(lock) {} }
        let before = try read()
        var tokens = before
        let value = try await body(&tokens)
        if tokens != before { try write(tokens) }
        return value
    }

    private func write(_ tokens: StoredTokens?) throws(StorageError) {
        guard let tokens else { return try PrivateFile.delete(path) }
        guard let bytes = try? ValueSetEncoder().encode(tokens).encodedBytes() else { throw StorageError(.damaged, path: path) }
        try PrivateFile.replace(path, with: bytes)
    }
}
