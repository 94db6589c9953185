// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol

/// What is known of one issuer's keys, and when to ask for them again. Old keys are kept while the issuer cannot be reached.
struct KeyCache: Sendable {
    /// Between two requests for the keys of one issuer, whatever tokens come.
    static let pause: Int64 = 30_000
    static let shortestLife: Int64 = 300_000
    static let longestLife: Int64 = 24 * 3_600_000
    /// More keys than this are passed over.
    static let maximumKeys = 64

    private var keys: [TokenKey] = []
    /// Until when the keys count as fresh; `nil` if there never were any.
    private var freshUntil: Int64?
    private var lastTry: (at: Int64, failed: Bool)?

    enum Answer {
        case found([TokenKey])
        /// Ask the issuer, then ask again here.
        case fetch
        /// The issuer has no such key.
        case unknown
        /// The issuer might have it, but cannot be reached.
        case unavailable
    }

    /// The keys that may have signed a token with this header.
    func answer(id: String?, algorithm: TokenAlgorithm, now: Milliseconds) -> Answer {
        // A clock that was set back must not stop the requests.
        let mayTry = lastTry.map { now.count - $0.at >= KeyCache.pause || now.count < $0.at } ?? true
        guard let freshUntil else { return mayTry ? .fetch : .unavailable }
        if now.count >= freshUntil, mayTry { return .fetch }
        let fitting = keys.filter { $0.fits(algorithm) && (id == nil || $0.id == id) }
        // Without a key id there must be no choice, or a token could pick its key by trial.
        if id == nil ? fitting.count == 1 : !fitting.isEmpty { return .found(fitting) }
        if mayTry { return .fetch }
        return lastTry?.failed == true ? .unavailable : .unknown
    }

    mutating func began(at now: Milliseconds) {
        lastTry = (now.count, false)
    }

    mutating func succeeded(_ fetched: FetchedKeys, at now: Milliseconds) {
        keys = fetched.keys.keys.prefix(KeyCache.maximumKeys).compactMap(TokenKey.init)
        let life = fetched.freshFor?.count ?? KeyCache.shortestLife
        freshUntil = now.count + min(max(life, KeyCache.shortestLife), KeyCache.longestLife)
    }

    mutating func failed(at now: Milliseconds) {
        lastTry = (now.count, true)
    }
}
