// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// One direction of a spliced pair, without I/O: the bytes read and not written yet (at most one read), and whether the input has ended.
struct SpliceDirection {
    private(set) var rest: ArraySlice<UInt8>
    private(set) var hasEnded: Bool
    /// The sink was informed of the end.
    private(set) var isDone = false

    /// - Parameters:
    ///   - rest: bytes that were read before.
    ///   - hasEnded: whether the input ends after those bytes.
    init(rest: [UInt8] = [], hasEnded: Bool = false) {
        self.rest = rest[...]
        self.hasEnded = hasEnded
    }

    /// Reading pauses until the sink has taken the rest.
    var isReading: Bool { !hasEnded && rest.isEmpty }
    var isWriting: Bool { !rest.isEmpty }

    /// Keeps bytes that the sink could not take.
    mutating func keep(_ bytes: some Collection<UInt8>) { rest.append(contentsOf: bytes) }

    /// Removes bytes that the sink has taken.
    mutating func wrote(_ count: Int) {
        rest = rest.dropFirst(count)
        // Frees the memory with the last byte.
        if rest.isEmpty { rest = [] }
    }

    mutating func end() { hasEnded = true }

    /// - Returns: whether the sink must be informed of the end now.
    mutating func passOnEnd() -> Bool {
        guard hasEnded, rest.isEmpty, !isDone else { return false }
        isDone = true
        return true
    }
}
