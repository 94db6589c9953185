// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol

/// The limits of attempts to sign in with a password or a recovery code. They count by the account that was found, and never by the typed
/// text: two texts that find the same account count together.
struct SignInLimits: Sendable {
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

    /// What the attempts are made with.
    enum Kind: String, Sendable {
        case password
        case recoveryCode = "recovery code"
    }

    private let kind: Kind
    private let attemptsPerHour: Int?

    /// - Parameter attemptsPerHour: The limit of attempts of all new clients for an account; `nil` if there is none.
    init(_ kind: Kind, attemptsPerHour: Int? = nil) {
        self.kind = kind
        self.attemptsPerHour = attemptsPerHour
    }

    /// Returns the limits in which an attempt counts.
    func limits(of account: Account, by client: Client) -> [AttemptLimit] {
        let pair = AttemptLimit("\(kind.rawValue), client and account", "\(client.name) \(account.name)", success: .forgetsAll)
        guard case .new(let networks) = client else { return [pair] }
        // For all names together.
        let shared = networks.shares.map { network, factor in
            AttemptLimit("\(kind.rawValue), network", network, .growingWaits(free: 20 * factor), success: .takesOneBack)
        }
        let whole = attemptsPerHour.map { AttemptLimit("\(kind.rawValue), account", account.name, .perHour($0)) }
        return [pair] + shared + (whole.map { [$0] } ?? [])
    }
}
