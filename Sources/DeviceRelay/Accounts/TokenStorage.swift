// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
package import RelayProtocol
package import RelayStorage

/// The tokens of an account, as the issuer sent them.
package struct StoredTokens: Codable, Hashable, Sendable {
    package var issuer: String
    package var clientID: String
    package var scopes: [String]
    package var accessToken: Secret<String>
    /// Milliseconds since 1970, by the local clock.
    package var accessTokenExpires: Int64
    /// How long the access token is valid from its issue, in milliseconds; absent in older files.
    package var accessTokenLife: Int64?
    package var refreshToken: Secret<String>?
    /// Whether the issuer is another one than the relay's own; absent in older files.
    package var isOtherIssuer: Bool?
    /// The scopes that the user has named for the issuer's API; see `IssuerClient.userScopes`. Absent if there are none, and in older files.
    package var userScopes: [String]?

    package init(
        issuer: String,
        clientID: String,
        scopes: [String],
        accessToken: Secret<String>,
        accessTokenExpires: Int64,
        accessTokenLife: Int64? = nil,
        refreshToken: Secret<String>?,
        isOtherIssuer: Bool? = nil,
        userScopes: [String]? = nil
    ) {
        self.issuer = issuer
        self.clientID = clientID
        self.scopes = scopes
        self.accessToken = accessToken
        self.accessTokenExpires = accessTokenExpires
        self.accessTokenLife = accessTokenLife
        self.refreshToken = refreshToken
        self.isOtherIssuer = isOtherIssuer
        self.userScopes = userScopes
    }
}

/// The storage of tokens.
package protocol TokenStorage: Sendable {
    /// The stored tokens; `nil` if there are none.
    func read() throws(StorageError) -> StoredTokens?

    /// Runs a closure under an exclusive lock over all tasks and processes. If several find the same token expired, only the first
    /// refreshes it, and the others find the new one.
    func withLock<Value: Sendable>(_ body: @Sendable (any LockedTokens) async throws -> Value) async throws -> Value
}

/// The stored tokens, while this task alone may change them.
package protocol LockedTokens: Sendable {
    func read() throws(StorageError) -> StoredTokens?

    /// Replaces the tokens, which are on disk when this returns.
    func write(_ tokens: StoredTokens?) throws(StorageError)

    /// Takes the space that the next `write` needs, so that a full disk is noticed before a secret is used up.
    func reserve() throws(StorageError)
}

extension TokenStorage {
    /// Changes the tokens under the lock.
    /// - Parameter body: Gets the tokens, read under the lock. They are stored when it returns, and not when it throws.
    package func withExclusiveAccess<Value: Sendable>(
        _ body: @Sendable (inout StoredTokens?) async throws -> Value
    ) async throws -> Value {
        try await withLock { locked in
            let before = try locked.read()
            var tokens = before
            let value = try await body(&tokens)
            if tokens != before { try locked.write(tokens) }
            return value
        }
    }
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

    package func withLock<Value: Sendable>(_ body: @Sendable (any LockedTokens) async throws -> Value) async throws -> Value {
        // A blocking lock would block a thread while the holder waits for the network.
        var lock = try FileLock(tryLocking: "\(path).lock")
        while lock == nil {
            try await Task.sleep(for: .milliseconds(20))
            lock = try FileLock(tryLocking: "\(path).lock")
        }
        defer { withExtendedLifetime(lock) {} }
        return try await body(Locked(storage: self))
    }

    private struct Locked: LockedTokens {
        /// More than the tokens of a response, whose size is limited.
        static let reservedBytes = 96 << 10

        let storage: FileTokenStorage

        private var reservePath: String { "\(storage.path).reserve" }

        func read() throws(StorageError) -> StoredTokens? { try storage.read() }

        func reserve() throws(StorageError) {
            guard !PrivateFile.exists(reservePath) else { return }
            try PrivateFile.replace(reservePath, with: [UInt8](repeating: 0, count: Self.reservedBytes))
        }

        func write(_ tokens: StoredTokens?) throws(StorageError) {
            try PrivateFile.delete(reservePath)
            guard let tokens else { return try PrivateFile.delete(storage.path) }
            guard let bytes = try? ValueSetEncoder().encode(tokens).encodedBytes() else {
                throw StorageError(.damaged, path: storage.path)
            }
            try PrivateFile.replace(storage.path, with: bytes)
        }
    }
}
