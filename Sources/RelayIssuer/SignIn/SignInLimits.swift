// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol

/// The limits of attempts to sign in with a password or a recovery code. They count by the account that was found, and never by the typed
/// text: two texts that find the same account count together.
struct SignInLimits {
    /// The account that an attempt is for.
    enum Account: Hashable, Sendable {
        case user(subject: String)
        /// No account has the name. Attempts count by the digest of the key that was looked up, so that the answers are those of an
        /// existing name.
        case none(Digest256)

        fileprivate var name: String {
            switch self {
            case .user(let subject): subject
            case .none(let digest): "\(digest)"
            }
        }
    }

    /// The client that makes an attempt.
    enum Client: Hashable, Sendable {
        case new(ClientNetworks)
        /// A browser in which the same user has signed in before.
        case known(KnownBrowser, of: String)

        fileprivate var name: String {
            switch self {
            case .new(let networks): networks.smallest
            case .known(let browser, _): browser.name
            }
        }

        /// The client under which its places for hashes are counted. All known browsers of a user count as one.
        var ofHasher: PasswordHasher.Client {
            switch self {
            case .new: .init(name: name)
            case .known(_, let subject): .init(name: subject, isKnown: true)
            }
        }
    }

    /// Attempts of a network, for all names together.
    private var networks = BackOff(free: 20)
    /// Attempts of a client for an account.
    private var pairs: BackOff
    /// Attempts of all new clients for an account.
    private var accounts: RateLimiter
    /// Attempts of all new clients for names that no account has. The table is separate, so that made-up names displace no account.
    private var strangers: RateLimiter

    /// The number of names in memory.
    var count: Int { networks.count + pairs.count + accounts.count + strangers.count }

    init(attemptsPerHour: Int, pairs: BackOff = BackOff()) {
        self.pairs = pairs
        self.accounts = RateLimiter(perWindow: attemptsPerHour, capacity: 65_536, window: 3_600_000)
        self.strangers = accounts
    }

    private static func pair(_ account: Account, _ client: Client) -> String { "\(client.name) \(account.name)" }

    private func wait(_ account: Account, now: Milliseconds) -> Milliseconds? {
        switch account {
        case .user: accounts.wait(account.name, now: now)
        case .none: strangers.wait(account.name, now: now)
        }
    }

    private mutating func add(_ account: Account, now: Milliseconds) {
        switch account {
        case .user: _ = accounts.add(account.name, now: now)
        case .none: _ = strangers.add(account.name, now: now)
        }
    }

    /// Counts an attempt in all limits or in none, before it is tried, so that concurrent attempts cannot exceed them.
    /// - Returns: `nil` if it may be tried; otherwise the time to wait.
    mutating func attempt(_ account: Account, by client: Client, now: Milliseconds) -> Milliseconds? {
        let pair = Self.pair(account, client)
        guard case .new(let networks) = client else { return pairs.attempt(pair, now: now) }
        if let wait = wait(account, now: now) ?? pairs.wait(pair, now: now) ?? self.networks.attempt(networks, now: now) { return wait }
        add(account, now: now)
        return pairs.attempt(pair, now: now)
    }

    /// Forgets the client's failures for the account after a success.
    mutating func succeed(_ account: Account, by client: Client, now: Milliseconds) {
        pairs.succeed(Self.pair(account, client))
        if case .new(let networks) = client { self.networks.takeBack(networks, now: now) }
    }
}
