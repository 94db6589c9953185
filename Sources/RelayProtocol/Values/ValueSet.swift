// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// A message: named values that two apps exchange (the original's `ValueSet`).
///
/// Keys are unique and compared by their UTF-8 bytes. Iteration follows the order of the keys on the wire (shorter first, then bytewise:
/// RFC 8949 §4.2.1). A lookup costs O(log n), an insertion O(n). So create a set of many thousand keys from a sequence, not key by key.
public struct ValueSet: Hashable, Sendable {
    /// One key with its value.
    public typealias Element = (key: String, value: Value)

    struct Entry: Hashable, Sendable {
        let key: String
        var value: Value
    }

    /// Strictly ascending in wire order, so that encoding needs no sorting and decoding no hashing.
    var entries: [Entry]

    /// An empty set.
    public init() {
        self.entries = []
    }

    init(sortedEntries: [Entry]) {
        self.entries = sortedEntries
    }

    /// A set of the given pairs. If a key occurs more than once, its last value counts.
    public init(_ pairs: some Sequence<Element>) {
        var entries = pairs.map { Entry(key: $0.key, value: $0.value) }
        // `sort` is stable, so the last of several equal keys is the latest.
        entries.sort { ValueSet.precedes($0.key, $1.key) }
        self.entries = []
        self.entries.reserveCapacity(entries.count)
        for entry in entries {
            if let last = self.entries.last, ValueSet.areSame(last.key, entry.key) {
                self.entries[self.entries.count - 1] = entry
            } else {
                self.entries.append(entry)
            }
        }
    }

    /// The value of a key; `nil` if the key is missing. Setting `nil` removes the key.
    public subscript(key: String) -> Value? {
        get {
            let place = place(of: key)
            return place.isThere ? entries[place.index].value : nil
        }
        set {
            let place = place(of: key)
            switch (newValue, place.isThere) {
            case (let value?, true): entries[place.index].value = value
            case (let value?, false): entries.insert(Entry(key: key, value: value), at: place.index)
            case (nil, true): entries.remove(at: place.index)
            case (nil, false): break
            }
        }
    }

    /// Reads several keys. Keys that are read in wire order are found without a search.
    struct Fields {
        private let set: ValueSet
        /// The position after the key that was found last.
        private var next = 0

        init(_ set: ValueSet) { self.set = set }

        mutating func take(_ key: String) -> Value? {
            let isNext = next < set.entries.count && ValueSet.areSame(set.entries[next].key, key)
            let place = isNext ? (index: next, isThere: true) : set.place(of: key)
            guard place.isThere else { return nil }
            next = place.index + 1
            return set.entries[place.index].value
        }
    }

    /// The keys in wire order.
    public var keys: [String] { entries.map(\.key) }

    /// The position of a key, or the position at which to insert it.
    private func place(of key: String) -> (index: Int, isThere: Bool) {
        entries.withUnsafeBufferPointer { entries in
            var low = 0
            var high = entries.count
            while low < high {
                let middle = low + (high - low) / 2
                let order = ValueSet.order(entries[middle].key, key)
                if order == 0 { return (middle, true) }
                if order < 0 { low = middle + 1 } else { high = middle }
            }
            return (low, false)
        }
    }

    static func precedes(_ left: String, _ right: String) -> Bool { order(left, right) < 0 }

    static func areSame(_ left: String, _ right: String) -> Bool { order(left, right) == 0 }

    /// The wire order of text strings in deterministic CBOR: by encoded bytes, which begin with the length. The result is negative, zero or
    /// positive. This is several times as fast as a comparison of the UTF-8 views.
    private static func order(_ left: String, _ right: String) -> Int {
        let (leftCount, rightCount) = (left.utf8.count, right.utf8.count)
        guard leftCount == rightCount else { return leftCount < rightCount ? -1 : 1 }
        var (left, right) = (left, right)
        return left.withUTF8 { left in
            right.withUTF8 { right in
                for index in left.indices where left[index] != right[index] { return left[index] < right[index] ? -1 : 1 }
                return 0
            }
        }
    }
}

extension ValueSet: Sequence {
    /// The pairs in wire order.
    public func makeIterator() -> AnyIterator<Element> {
        var iterator = entries.makeIterator()
        return AnyIterator { iterator.next().map { ($0.key, $0.value) } }
    }

    /// The number of keys.
    public var count: Int { entries.count }

    /// Whether there is no key.
    public var isEmpty: Bool { entries.isEmpty }

    /// See `Sequence`.
    public var underestimatedCount: Int { entries.count }
}

extension ValueSet: ExpressibleByDictionaryLiteral {
    /// `["Type": "ping", "Count": 3]`. If a key occurs more than once, its last value counts.
    public init(dictionaryLiteral elements: (String, Value)...) {
        self.init(elements.lazy.map { (key: $0.0, value: $0.1) })
    }
}
