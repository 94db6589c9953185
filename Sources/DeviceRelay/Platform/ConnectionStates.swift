// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// Whether an account is connected, as it changes. Each iteration is independent, and begins with the state of now; what changed
/// between two reads is passed over.
public struct ConnectionStates: AsyncSequence, Sendable {
    let link: CurrentValue<LocalEndpoint.Link>?

    /// Begins with the state of now.
    public func makeAsyncIterator() -> Iterator { Iterator(link: link) }

    /// Of one reader.
    public struct Iterator: AsyncIteratorProtocol {
        let link: CurrentValue<LocalEndpoint.Link>?
        private var seen: UInt64 = 0
        private var told: ConnectionState?

        init(link: CurrentValue<LocalEndpoint.Link>?) { self.link = link }

        /// The state, once it is another than the one that was told; `nil` at the end.
        public mutating func next(isolation: isolated (any Actor)?) async -> ConnectionState? {
            while let (value, revision) = await link?.next(after: seen) {
                seen = revision
                guard value.state != told else { continue }
                told = value.state
                return value.state
            }
            return nil
        }

        /// The same.
        public mutating func next() async -> ConnectionState? { await next(isolation: nil) }
    }
}
