// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Synchronization

/// The clients of recently dialled push services, one for each host and address. Pushes to the same host and address share the connections
/// and the TLS context.
final class WebPushClients: Sendable {
    struct Place: Hashable {
        let host: String
        let address: String
    }

    private struct Kept {
        let client: ProviderClient
        var users = 1
        var lastUse: Int
    }

    private struct State {
        var kept: [Place: Kept] = [:]
        var uses = 0
        var isEnded = false
    }

    private let maximum: Int
    private let make: @Sendable (Place) -> ProviderClient
    private let state = Mutex(State())

    init(maximum: Int = 64, make: @escaping @Sendable (Place) -> ProviderClient) {
        self.maximum = maximum
        self.make = make
    }

    /// The number of clients that are kept.
    var count: Int { state.withLock { $0.kept.count } }

    func use<Value>(
        _ place: Place,
        _ body: (ProviderClient) async throws(ProviderClient.Failure) -> Value
    ) async throws(ProviderClient.Failure) -> Value {
        let (client, isKept, evicted) = take(place)
        await evicted?.shutdown()
        let result: Result<Value, ProviderClient.Failure>
        do throws(ProviderClient.Failure) { result = .success(try await body(client)) } catch { result = .failure(error) }
        if isKept {
            state.withLock { $0.kept[place]?.users -= 1 }
        } else {
            await client.shutdown()
        }
        return try result.get()
    }

    /// Returns a client, whether it is kept, and a client that was evicted for it.
    private func take(_ place: Place) -> (client: ProviderClient, isKept: Bool, evicted: ProviderClient?) {
        state.withLock { state in
            state.uses += 1
            if let kept = state.kept[place] {
                state.kept[place]?.users += 1
                state.kept[place]?.lastUse = state.uses
                return (kept.client, true, nil)
            }
            let client = make(place)
            var evicted: ProviderClient?
            if state.kept.count >= maximum {
                let oldest = state.kept.filter { $0.value.users == 0 }.min { $0.value.lastUse < $1.value.lastUse }
                evicted = oldest.flatMap { state.kept.removeValue(forKey: $0.key) }?.client
            }
            guard !state.isEnded, state.kept.count < maximum else { return (client, false, evicted) }
            state.kept[place] = Kept(client: client, lastUse: state.uses)
            return (client, true, evicted)
        }
    }

    /// Shuts the clients down. Requests in flight fail.
    func shutdown() async {
        let kept = state.withLock { state in
            state.isEnded = true
            defer { state.kept = [:] }
            return state.kept.values.map(\.client)
        }
        for client in kept { await client.shutdown() }
    }
}
