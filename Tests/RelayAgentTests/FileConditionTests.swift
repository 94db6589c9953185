// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Testing

@testable import RelayAgent

/// What conditions and ranges of a request mean, without a file.
@Suite struct FileConditionTests {
    private func condition(_ range: String?, size: Int64 = 10, ifRange: String? = nil) -> FileCondition {
        FileCondition(.init(ifRange: ifRange, range: range), tag: "t", size: size)
    }

    @Test func rangesAreRead() {
        let cases: [(String, Int64, FileCondition)] = [
            ("bytes=0-0", 10, .part(0..<1)), ("bytes=0-", 10, .part(0..<10)), ("bytes=9-", 10, .part(9..<10)),
            ("bytes=2-4", 10, .part(2..<5)), ("bytes=2-400", 10, .part(2..<10)), ("Bytes=2-4", 10, .part(2..<5)),
            ("bytes=-3", 10, .part(7..<10)), ("bytes=-300", 10, .part(0..<10)),
            ("bytes=0-99999999999999999999", 10, .part(0..<10)), ("bytes=-99999999999999999999", 10, .part(0..<10)),
            ("bytes=0-9223372036854775807", .max, .part(0..<(.max))),
            ("bytes=10-", 10, .unsatisfiable), ("bytes=10-12", 10, .unsatisfiable), ("bytes=-0", 10, .unsatisfiable),
            ("bytes=0-", 0, .unsatisfiable), ("bytes=-1", 0, .unsatisfiable), ("bytes=99999999999999999999-", 10, .unsatisfiable),
        ]
        for (text, size, expected) in cases { #expect(condition(text, size: size) == expected, "\(text) of \(size)") }
    }

    @Test func whatIsNoRangeIsIgnored() {
        for text in [
            "", "bytes", "bytes=", "bytes=-", "bytes=a-b", "bytes=1", "bytes=4-2", "bytes=1-2,4-5", "bytes=--1", "bytes=+1-2", "lines=1-2",
            "bytes=1-2-3",
        ] {
            #expect(condition(text) == .whole, "\(text)")
        }
        #expect(condition(nil) == .whole)
    }

    @Test func etagsDecide() {
        #expect(condition("bytes=1-2", ifRange: "\"t\"") == .part(1..<3))
        for other in ["\"u\"", "W/\"t\"", "t", "Sun, 06 Nov 1994 08:49:37 GMT"] {
            #expect(condition("bytes=1-2", ifRange: other) == .whole)
        }
        for match in ["\"t\"", "*", "\"a\", \"t\"", "W/\"t\""] {
            #expect(FileCondition(.init(ifNoneMatch: match, range: "bytes=1-2"), tag: "t", size: 10) == .notModified, "\(match)")
        }
        #expect(FileCondition(.init(ifNoneMatch: "\"u\", t"), tag: "t", size: 10) == .whole)
        #expect(FileCondition(.init(ifMatch: "\"u\""), tag: "t", size: 10) == .changed)
        #expect(FileCondition(.init(ifMatch: "W/\"t\""), tag: "t", size: 10) == .changed)
        #expect(FileCondition(.init(ifMatch: "\"t\""), tag: "t", size: 10) == .whole)
    }
}
