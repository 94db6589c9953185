// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import NIOCore
import RelayTesting
import Testing

@testable import RelayProtocol

@Suite struct CBORTests {
    /// The encoding of `["a": value]` without its first three bytes.
    private func encoding(_ value: ValueSet.Value) throws -> String {
        hex(try (["a": value] as ValueSet).encodedBytes().dropFirst(3))
    }

    private func decoding(_ text: String) throws -> ValueSet.Value? {
        try ValueSet(decoding: hex("a16161" + text))["a"]
    }

    private func rejection(_ text: String) -> ValueSetError? {
        do throws(ValueSetError) {
            _ = try ValueSet(decoding: hex(text))
            return nil
        } catch {
            return error
        }
    }

    /// The examples of RFC 8949 appendix A that messages support. Dates and UUIDs have their tags.
    static let appendixA: [(ValueSet.Value, String)] = [
        (0, "00"), (1, "01"), (10, "0a"), (23, "17"), (24, "1818"), (25, "1819"), (100, "1864"), (1000, "1903e8"),
        (1_000_000, "1a000f4240"),
        (1_000_000_000_000, "1b000000e8d4a51000"), (.uint(.max), "1bffffffffffffffff"), (-1, "20"), (-10, "29"), (-100, "3863"),
        (-1000, "3903e7"), (.int(.min), "3b7fffffffffffffff"), (.uint(1 << 63), "1b8000000000000000"),
        (0.0, "f90000"), (-0.0, "f98000"), (1.0, "f93c00"), (1.1, "fb3ff199999999999a"), (1.5, "f93e00"), (65504.0, "f97bff"),
        (100000.0, "fa47c35000"), (.double(3.4028234663852886e38), "fa7f7fffff"), (.double(1.0e300), "fb7e37e43c8800759c"),
        (.double(5.960464477539063e-8), "f90001"), (.double(0.00006103515625), "f90400"), (-4.0, "f9c400"), (-4.1, "fbc010666666666666"),
        (.double(.infinity), "f97c00"), (.double(.nan), "f97e00"), (.double(-.infinity), "f9fc00"),
        (false, "f4"), (true, "f5"),
        (.date(Date(timeIntervalSince1970: 1_363_896_240)), "c11a514b67b0"),
        (.date(Date(timeIntervalSince1970: 1_363_896_240.5)), "c1fb41d452d9ec200000"),
        (.data([]), "40"), (.data([1, 2, 3, 4]), "4401020304"),
        ("", "60"), ("a", "6161"), ("IETF", "6449455446"), ("\"\\", "62225c"), ("\u{FC}", "62c3bc"), ("\u{6C34}", "63e6b0b4"),
        ("\u{10151}", "64f0908591"),
        ([], "80"), ([1, 2, 3], "83010203"),
        (
            .array((1...25).map { .int($0) }),
            "98190102030405060708090a0b0c0d0e0f101112131415161718181819"
        ),
        ([:], "a0"), (["a": "A", "b": "B", "c": "C", "d": "D", "e": "E"], "a56161614161626142616361436164614461656145"),
        ([["b": "c"], ["b": "d"]], "82a161626163a161626164"),
    ]

    @Test(arguments: appendixA) func appendixExamplesRoundTrip(_ value: ValueSet.Value, _ text: String) throws {
        #expect(try encoding(value) == text)
        let decoded = try #require(try decoding(text))
        if case .double(let number) = value, case .double(let other) = decoded, number.isNaN {
            #expect(other.isNaN)
        } else {
            #expect(decoded == value)
        }
        if case .double(let number) = value, case .double(let other) = decoded { #expect(number.sign == other.sign || number.isNaN) }
    }

    @Test func uuidIsEncodedWithTag37() throws {
        let id = try #require(UUID(uuidString: "00112233-4455-6677-8899-AABBCCDDEEFF"))
        #expect(try encoding(.uuid(id)) == "d8255000112233445566778899aabbccddeeff")
        #expect(try decoding("d8255000112233445566778899aabbccddeeff") == .uuid(id))
    }

    /// Every rejected form, in a map under the key "a" where possible.
    static let refused: [(String, ValueSetError.Code, Int, String)] = [
        ("", .truncated, 0, ""), ("a1", .truncated, 1, ""), ("a161", .truncated, 2, ""), ("a16161", .truncated, 3, "a"),
        ("01", .notAValueSet, 0, ""), ("80", .notAValueSet, 0, ""), ("f6", .notAValueSet, 0, ""), ("6161", .notAValueSet, 0, ""),
        ("a000", .trailingBytes, 1, ""), ("a161610100", .trailingBytes, 4, ""),
        ("a10102", .nonStringKey, 1, ""), ("a2010203 04", .nonStringKey, 1, ""), ("a1416101", .nonStringKey, 1, ""),
        ("a2616101616102", .duplicateKey, 4, "a"), ("a2616201616102", .unsortedKey, 4, ""), ("a262616101616101", .unsortedKey, 5, ""),
        ("a16161820161 61", .mixedArray, 5, "a[1]"), ("a1616182f501", .mixedArray, 5, "a[1]"), ("a161618201f93c00", .mixedArray, 5, "a[1]"),
        ("a16161 8301820203820405", .mixedArray, 5, "a[1]"),
        ("a16161c074323031332d30332d32315432303a30343a30305a", .unknownTag, 3, "a"),
        ("a16161c249010000000000000000", .unknownTag, 3, "a"), ("a16161d74401020304", .unknownTag, 3, "a"),
        ("a16161d818456449455446", .unknownTag, 3, "a"),
        ("a16161d82076687474703a2f2f7777772e6578616d706c652e636f6d", .unknownTag, 3, "a"), ("a16161d9d9f700", .unknownTag, 3, "a"),
        ("a16161c16161", .invalidTagContent, 4, "a"), ("a16161c1c100", .invalidTagContent, 4, "a"),
        ("a16161c1f5", .invalidTagContent, 4, "a"),
        ("a16161c1f97e00", .dateNotFinite, 4, "a"), ("a16161c1f97c00", .dateNotFinite, 4, "a"), ("a16161c1f93c00", .notShortest, 4, "a"),
        ("a16161c11b0020000000000000", .notShortest, 4, "a"), ("a16161d82541 00", .invalidTagContent, 5, "a"),
        ("a16161d8255100112233445566778899aabbccddeeff00", .invalidTagContent, 5, "a"),
        ("a16161f6", .unsupportedType, 3, "a"), ("a16161f7", .unsupportedType, 3, "a"), ("a16161f0", .unsupportedType, 3, "a"),
        ("a16161f8ff", .unsupportedType, 3, "a"), ("a16161ff", .unsupportedType, 3, "a"), ("a161611c", .unsupportedType, 3, "a"),
        ("a161615f42010243030405ff", .indefiniteLength, 3, "a"), ("a161617f6161ff", .indefiniteLength, 3, "a"),
        ("a161619fff", .indefiniteLength, 3, "a"), ("a16161bfff", .indefiniteLength, 3, "a"), ("bf616101ff", .indefiniteLength, 0, ""),
        ("a161611800", .notShortest, 3, "a"), ("a16161190018", .notShortest, 3, "a"), ("a161611a0000ffff", .notShortest, 3, "a"),
        ("a161611b00000000ffffffff", .notShortest, 3, "a"), ("a161613800", .notShortest, 3, "a"), ("a16161580100", .notShortest, 3, "a"),
        ("a16161fa3f800000", .notShortest, 3, "a"), ("a16161fb3ff8000000000000", .notShortest, 3, "a"),
        ("a16161f97e01", .notShortest, 3, "a"), ("a16161fa7fc00000", .notShortest, 3, "a"), ("b80161610 1", .notShortest, 0, ""),
        ("a1616161ff", .invalidText, 4, "a"), ("a161ff01", .invalidText, 1, ""), ("a1616163eda080", .invalidText, 4, "a"),
        ("a161613b8000000000000000", .integerOutOfRange, 3, "a"), ("a161613bffffffffffffffff", .integerOutOfRange, 3, "a"),
        ("a161611b00", .truncated, 5, "a"), ("a161614401", .truncated, 5, "a"), ("a16161 9b7fffffffffffffff", .truncated, 12, "a"),
        ("bbffffffffffffffff", .truncated, 9, ""), ("a161617b7fffffffffffffff", .truncated, 12, "a"),
        ("a16161bb00ffffffffffffff", .truncated, 12, "a"), ("a16161f93c", .truncated, 5, "a"),
        ("a1 65 70686f746f 84 a0 a0 a0 a1 64 6e616d65 f6", .unsupportedType, 17, "photo[3].name"),
    ]

    @Test(arguments: refused) func refuses(_ text: String, _ code: ValueSetError.Code, _ offset: Int, _ keyPath: String) {
        let error = rejection(text)
        #expect(error?.code == code)
        #expect(error?.offset == offset)
        #expect(error?.keyPath == keyPath)
    }

    @Test func maximumDepthIs32() throws {
        func nested(_ levels: Int) -> ValueSet { (1..<levels).reduce([:]) { set, _ in ["a": .valueSet(set)] } }
        func nestedArrays(_ levels: Int) -> ValueSet { ["a": (1..<levels).reduce(1) { value, _ in .array([value]) }] }
        for make in [nested, nestedArrays] {
            #expect(try ValueSet(decoding: make(32).encodedBytes()) == make(32))
            #expect(throws: ValueSetError.self) { try make(33).encodedBytes() }
        }
        let deepest = String(repeating: "a16161", count: 32) + "01"
        #expect(rejection(deepest) == nil)
        #expect(rejection("a16161" + deepest)?.code == .tooDeep)
        #expect(rejection(String(repeating: "a16161", count: 100_000))?.code == .tooDeep)
        #expect(rejection("a16161" + String(repeating: "81", count: 100_000))?.code == .tooDeep)
    }

    @Test func numberOfValuesInAMessageIsBounded() throws {
        let most = ValueSet.maximumValueCount
        let bytes = hex("a161619a") + [UInt8(most >> 24), UInt8(most >> 16 & 255), UInt8(most >> 8 & 255), UInt8(most & 255)]
        #expect(throws: ValueSetError(.tooManyValues, at: 3).inside(key: "a")) {
            try ValueSet(decoding: bytes + [UInt8](repeating: 0xF5, count: most))
        }
        #expect(throws: ValueSetError.self) {
            try (["a": .array([ValueSet.Value](repeating: true, count: most))] as ValueSet).encodedBytes()
        }
    }

    /// Each level claims more elements than exist. Reserving memory for the claims would take gigabytes.
    @Test func claimedCountsReserveNoMemory() {
        let levels = String(repeating: "b9ffff60", count: 31)
        let bytes = hex(levels) + [UInt8](repeating: 0x60, count: 200_000)
        #expect(throws: ValueSetError.self) { try ValueSet(decoding: bytes) }
        #expect(rejection("ba0020000060" + String(repeating: "00", count: 100))?.code == .truncated)
        #expect(throws: ValueSetError(.tooManyValues, at: 5)) {
            try ValueSet(decoding: hex("ba00200001") + [UInt8](repeating: 0x60, count: 5 << 20))
        }
    }

    @Test func encodingErrorsNameTheirPath() {
        func rejection(_ message: ValueSet) -> ValueSetError? {
            do throws(ValueSetError) {
                _ = try message.encodedBytes()
                return nil
            } catch {
                return error
            }
        }
        #expect(rejection(["a": ["b": [1, "x"]]])?.description == "mixedArray in a.b[1]")
        #expect(rejection(["a": .date(Date(timeIntervalSince1970: .infinity))])?.code == .dateNotFinite)
        #expect(rejection(["a b": .date(Date(timeIntervalSince1970: .nan))])?.keyPath == "\"a b\"")
        #expect(rejection(["a": [.uint(.max), .int(1)]]) == nil)
    }

    @Test func failedEncodingDoesNotChangeTheBuffer() throws {
        var buffer = ByteBuffer(string: "before")
        #expect(throws: ValueSetError.self) { try (["a": [1, true]] as ValueSet).encode(into: &buffer) }
        #expect(buffer == ByteBuffer(string: "before"))
        let size = try (["a": 1] as ValueSet).encode(into: &buffer)
        #expect(size == 4)
        #expect(try ValueSet(decoding: try #require(buffer.getSlice(at: 6, length: 4))) == ["a": 1])
    }

    @Test func randomMessagesRoundTrip() throws {
        for seed in 0..<3_000 as Range<UInt64> {
            var random = SeededGenerator(seed: seed)
            let message = ValueSet.random(using: &random)
            let bytes = try message.encodedBytes()
            #expect(bytes.count == (try message.encodedSize()), "seed \(seed)")
            let decoded = try ValueSet(decoding: bytes)
            #expect(decoded == message, "seed \(seed)")
            #expect(try decoded.encodedBytes() == bytes, "seed \(seed)")
        }
    }

    @Test func everyHalfPrecisionNumberRoundTrips() {
        for bits in UInt16.min...UInt16.max {
            let value = HalfPrecision.value(bits)
            if value.isNaN { continue }
            #expect(HalfPrecision.bits(exactly: Float(value)) == bits)
            #if !(os(macOS) && arch(x86_64))
            #expect(value == Double(Float16(bitPattern: bits)))
            #endif
        }
        #expect(HalfPrecision.bits(exactly: 65_505) == nil)
        #expect(HalfPrecision.bits(exactly: 0x1p-25) == nil)
        #expect(HalfPrecision.bits(exactly: .leastNonzeroMagnitude) == nil)
    }

    @Test func changedBytesRoundTripOrAreRejected() throws {
        for seed in 0..<2_000 as Range<UInt64> {
            var random = SeededGenerator(seed: seed)
            var bytes = try ValueSet.random(using: &random).encodedBytes()
            for _ in 0..<3 {
                let index = Int.random(in: 0..<bytes.count, using: &random)
                bytes[index] = UInt8.random(in: 0...255, using: &random)
            }
            guard let message = try? ValueSet(decoding: bytes) else { continue }
            // A message has one encoding, so decoded bytes are encoded identically. (Dates lose precision that their type cannot hold.)
            let again = try message.encodedBytes()
            if again != bytes { #expect(try ValueSet(decoding: again) == message, "seed \(seed)") }
        }
    }
}
