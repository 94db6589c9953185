// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// One direction of a spliced pair, without I/O: what was read and not written yet, which is never more than one read, and whether more comes.
struct SpliceDirection {
    private(set) var rest: ArraySlice<UInt8>
    private(set) var hasEnded: Bool
    /// The sink knows that nothing more comes.
    private(set) var isDone = false

    /// - Parameters:
    ///   - rest: what was read before.
    ///   - hasEnded: whether nothing comes behind it.
    init(rest: [UInt8] = [], hasEnded: Bool = false) {
        self.rest = rest[...]
        self.hasEnded = hasEnded
    }

    /// Nothing more is read before the sink has taken what there is.
    var isReading: Bool { !hasEnded && rest.isEmpty }
    var isWriting: Bool { !rest.isEmpty }

    /// The sink could not take this.
    mutating func keep(_ bytes: some Collection<UInt8>) { rest.append(contentsOf: bytes) }

    /// The sink has taken so much of the rest.
    mutating func wrote(_ count: Int) {
        rest = rest.dropFirst(count)
        // Its memory goes with the last byte.
        if rest.isEmpty { rest = [] }
    }

    mutating func end() { hasEnded = true }

    /// - Returns: whether the sink has to be told now that nothing more comes.
    mutating func passOnEnd() -> Bool {
        guard hasEnded, rest.isEmpty, !isDone else { return false }
        isDone = true
        return true
    }
}
