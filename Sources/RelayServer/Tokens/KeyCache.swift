// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol

/// The cached keys of one issuer, and when to fetch them again. Old keys stay valid while the issuer is not reachable.
struct KeyCache: Sendable {
    /// The minimum time between two requests to one issuer, in milliseconds, independent of the received tokens.
    static let pause: Int64 = 30_000
    static let minimumLife: Int64 = 300_000
    static let maximumLife: Int64 = 24 * 3_600_000
    /// Keys beyond this number are ignored.
    static let maximumKeys = 64

    private var keys: [TokenKey] = []
    /// When the keys are no longer fresh; `nil` if none were ever fetched.
    private var freshUntil: Int64?
    private var lastTry: (at: Int64, failed: Bool)?
    /// How often keys were fetched.
    private(set) var generation = 0

    enum Answer {
        case found([TokenKey])
        /// Fetch the issuer's keys, then call `answer` again.
        case fetch
        /// The issuer has no such key.
        case unknown
        /// The issuer may have the key but is not reachable.
        case unavailable
    }

    /// Whether the issuer may be asked now.
    func mayTry(at now: Milliseconds) -> Bool {
        // A clock that was set back must not block requests.
        lastTry.map { now.count - $0.at >= KeyCache.pause || now.count < $0.at } ?? true
    }

    /// The keys that may have signed a token with this header.
    func answer(id: String?, algorithm: TokenAlgorithm, now: Milliseconds) -> Answer {
        let mayTry = mayTry(at: now)
        guard let freshUntil else { return mayTry ? .fetch : .unavailable }
        if now.count >= freshUntil, mayTry { return .fetch }
        let fitting = keys.filter { $0.fits(algorithm) && (id == nil || $0.id == id) }
        // A token without a key id is only accepted if one key fits. Otherwise it could select its key by trial.
        if id == nil ? fitting.count == 1 : !fitting.isEmpty { return .found(fitting) }
        if mayTry { return .fetch }
        return lastTry?.failed == true ? .unavailable : .unknown
    }

    mutating func began(at now: Milliseconds) {
        lastTry = (now.count, false)
    }

    mutating func succeeded(_ fetched: FetchedKeys, at now: Milliseconds) {
        keys = fetched.keys.keys.prefix(KeyCache.maximumKeys).compactMap(TokenKey.init)
        let life = fetched.freshFor?.count ?? KeyCache.minimumLife
        generation += 1
        freshUntil = now.count + min(max(life, KeyCache.minimumLife), KeyCache.maximumLife)
    }

    mutating func failed(at now: Milliseconds) {
        lastTry = (now.count, true)
    }
}
