// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// The span at which a trace continues in another process: the `traceparent` of W3C Trace Context, version 00. It has the random ids of a
/// trace and of a span, and no content.
package struct TraceContext: RawRepresentable, Codable, JSONCodable, Hashable, Sendable {
    /// 55 characters.
    package let rawValue: String

    /// - Returns: `nil` if the text is not a `traceparent` of version 00.
    package init?(rawValue: String) {
        let parts = rawValue.utf8.split(separator: UInt8(ascii: "-"), omittingEmptySubsequences: false)
        guard parts.map(\.count) == [2, 32, 16, 2], parts[0].elementsEqual("00".utf8),
            parts.allSatisfy({ $0.allSatisfy { (0x30...0x39).contains($0) || (0x61...0x66).contains($0) } }),
            // All zeros stand for no trace and no span.
            parts[1...2].allSatisfy({ $0.contains { $0 != UInt8(ascii: "0") } })
        else { return nil }
        self.rawValue = rawValue
    }
}
