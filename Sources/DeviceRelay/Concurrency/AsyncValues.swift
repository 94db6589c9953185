// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// An asynchronous sequence of the SDK. It does not throw, and ends when its source ends or the task that reads it is cancelled. The
/// declaration that returns it says what its elements are, and when it ends.
public struct AsyncValues<Element: Sendable>: AsyncSequence, Sendable {
    private let makeReader: @Sendable () -> Iterator.Reader

    /// - Parameter makeReader: Makes the function that returns the next element of one iteration; `nil` at the end.
    init(_ makeReader: @escaping @Sendable () -> Iterator.Reader) { self.makeReader = makeReader }

    /// Starts an iteration.
    public func makeAsyncIterator() -> Iterator { Iterator(makeReader()) }

    /// The iterator of one reader.
    public struct Iterator: AsyncIteratorProtocol {
        typealias Reader = () async -> Element?

        private let read: Reader

        init(_ read: @escaping Reader) { self.read = read }

        /// The next element; `nil` at the end.
        public mutating func next(isolation: isolated (any Actor)?) async -> Element? { await read() }

        /// The next element; `nil` at the end.
        public mutating func next() async -> Element? { await next(isolation: nil) }
    }
}

extension AsyncValues where Element: Equatable {
    /// The elements that a current value yields: the current one, then each new one. Elements between two reads are skipped.
    /// - Parameter shown: `nil` for a value that yields no element.
    package init<Value: Sendable>(_ source: CurrentValue<Value>?, _ shown: @escaping @Sendable (Value) -> Element?) {
        self.init {
            var seen: UInt64 = 0
            var last: Element?
            return {
                while let (value, revision) = await source?.next(after: seen) {
                    seen = revision
                    guard let element = shown(value), element != last else { continue }
                    last = element
                    return element
                }
                return nil
            }
        }
    }
}
