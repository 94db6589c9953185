// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

package import RelayProtocol
package import RelayStorage

#if canImport(FoundationEssentials)
import FoundationEssentials
#else
import Foundation
#endif

/// The tokens of an account, as the issuer sent them.
package struct StoredTokens: Codable, Hashable, Sendable {
    package var issuer: String
    package var clientID: String
    package var scopes: [String]
    package var accessToken: Secret<String>
    /// Milliseconds since 1970, by the local clock.
    package var accessTokenExpires: Int64
    package var refreshToken: Secret<String>?
    /// Whether the issuer is another one than the relay's own; absent in older files.
    package var isOtherIssuer: Bool?

    package init(
        issuer: String,
        clientID: String,
        scopes: [String],
        accessToken: Secret<String>,
        accessTokenExpires: Int64,
        refreshToken: Secret<String>?,
        isOtherIssuer: Bool? = nil
    ) {
        self.issuer = issuer
        self.clientID = clientID
        self.scopes = scopes
        self.accessToken = accessToken
        self.accessTokenExpires = accessTokenExpires
        self.refreshToken = refreshToken
        self.isOtherIssuer = isOtherIssuer
    }
}

/// The storage of tokens.
package protocol TokenStorage: Sendable {
    /// The stored tokens; `nil` if there are none.
    func read() throws(StorageError) -> StoredTokens?

    /// Changes the tokens under an exclusive lock over all tasks and processes. If several find the same token expired, only
    /// the first refreshes it, and the others find the new one.
    /// - Parameter body: Gets the tokens, read under the lock. They are stored when it returns, and not when it throws.
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
        // A blocking lock would block a thread while the holder waits for the network.
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
