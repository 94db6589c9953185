// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import RelayProtocol
import RelayPush
import RelayServer

/// The token of a push credential in the store of several nodes. It is sealed: a copy of the database alone lets nobody send pushes.
struct StoreToken: SharedToken {
    /// What is sealed. Times are milliseconds since 1970.
    private struct Content: Codable {
        var token: String
        var made: Int64
        var renewal: Int64
    }

    /// How long a database that does not answer holds back wakes.
    private static let patience = Duration.seconds(2)

    /// The credential's id.
    let credential: String
    let store: any RelayStore
    let key: RelayKey

    func stored() async throws -> StoredToken {
        let credential = credential
        return opened(try await transact { try $0.pushToken(of: credential) })
    }

    func replace(_ version: Int64, by token: ProviderToken) async throws -> ProviderToken {
        let content = Content(token: token.text.exposed, made: token.made.count, renewal: token.renewal.count)
        let sealed = try key.seal(Array(JSONEncoder().encode(content)), label: PushTokenRow.label(of: credential))
        let credential = credential
        let row = try await transact { store in
            try store.replacePushToken(of: credential, version: version, by: sealed)
            return try store.pushToken(of: credential)
        }
        return opened(row).token ?? token
    }

    private func opened(_ row: PushTokenRow?) -> StoredToken {
        guard let row else { return StoredToken() }
        guard let bytes = key.open(row.sealed, label: PushTokenRow.label(of: credential)),
            let content = try? JSONDecoder().decode(Content.self, from: Data(bytes))
        else { return StoredToken(version: row.version) }
        let token = ProviderToken(
            text: Secret(content.token),
            made: Milliseconds(clamping: content.made),
            renewal: Milliseconds(clamping: content.renewal)
        )
        return StoredToken(version: row.version, token: token)
    }

    private func transact<Value: Sendable>(
        _ body: @escaping @Sendable (any GlobalTransaction) throws -> Value
    ) async throws -> Value {
        // The first answer counts.
        let (answers, answer) = AsyncStream.makeStream(of: Result<Value, any Error>.self, bufferingPolicy: .bufferingOldest(1))
        Task {  // Owner: the store, which answers all work when it closes
            do { answer.yield(.success(try await store.transactGlobally(body))) } catch { answer.yield(.failure(error)) }
        }
        let timer = Task {  // Owner: this function
            try? await Task.sleep(for: Self.patience)
            answer.yield(.failure(StoreError.unavailable("it does not answer")))
        }
        defer { timer.cancel() }
        for await first in answers { return try first.get() }
        throw CancellationError()
    }
}
