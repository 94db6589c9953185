// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// The connection states of an account. Each iteration is independent and starts with the current state. States between
/// two reads are skipped.
public struct ConnectionStates: AsyncSequence, Sendable {
    let link: CurrentValue<LocalEndpoint.Link>?

    /// Starts with the current state.
    public func makeAsyncIterator() -> Iterator { Iterator(link: link) }

    /// The iterator of one reader.
    public struct Iterator: AsyncIteratorProtocol {
        let link: CurrentValue<LocalEndpoint.Link>?
        private var seen: UInt64 = 0
        private var told: ConnectionState?

        init(link: CurrentValue<LocalEndpoint.Link>?) { self.link = link }

        /// The next state that differs from the last one; `nil` at the end.
        public mutating func next(isolation: isolated (any Actor)?) async -> ConnectionState? {
            while let (value, revision) = await link?.next(after: seen) {
                seen = revision
                guard value.state != told else { continue }
                told = value.state
                return value.state
            }
            return nil
        }

        /// The next state that differs from the last one; `nil` at the end.
        public mutating func next() async -> ConnectionState? { await next(isolation: nil) }
    }
}
