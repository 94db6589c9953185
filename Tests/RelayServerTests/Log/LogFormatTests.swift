// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import CoreMetrics
import Foundation
import Logging
import RelayLog
import RelayTesting
import Synchronization
import Testing

/// Text from outside forges neither a line nor a field of the log.
@Suite struct LogFormatTests {
    private static let hostile: [String] =
        ["", " ", "a b", "\"", "\\", "\\\"", "a=b", "x address=192.0.2.1", "\" address=192.0.2.1 x=\"", "\",\"message\":\"sign-in failed"]
        + ((0..<0x20).map { $0 } + [
            0x7F, 0x80, 0x85, 0x9F, 0xA0, 0xAD, 0x200B, 0x200E, 0x2028, 0x2029, 0x202E, 0x2066, 0xFEFF, 0xE0001, 0x10FFFF,
        ])
        .map { (number: UInt32) in "a\(String(Unicode.Scalar(number) ?? "x"))b\nlevel=x" }

    /// Reads a line back, by the grammar of the format alone.
    private static func fields(_ line: Substring) -> [String: String]? {
        var rest = line
        var fields: [String: String] = [:]
        while !rest.isEmpty {
            guard rest.first == " ", let end = rest.firstIndex(of: "=") else { return nil }
            let name = String(rest[rest.index(after: rest.startIndex)..<end])
            rest = rest[rest.index(after: end)...]
            var value = ""
            if rest.first == "\"" {
                rest = rest.dropFirst()
                while let next = rest.first, next != "\"" {
                    rest = rest.dropFirst()
                    guard next == "\\" else {
                        value.append(next)
                        continue
                    }
                    guard let escaped = rest.popFirst() else { return nil }
                    if escaped == "u" {
                        guard rest.first == "{", let close = rest.firstIndex(of: "}"),
                            let scalar = UInt32(rest[rest.startIndex..<close].dropFirst(), radix: 16).flatMap(Unicode.Scalar.init)
                        else { return nil }
                        value.unicodeScalars.append(scalar)
                        rest = rest[rest.index(after: close)...]
                    } else {
                        value.append(escaped)
                    }
                }
                guard rest.popFirst() == "\"" else { return nil }
            } else {
                let bare = rest.prefix { $0 != " " }
                value = String(bare)
                rest = rest.dropFirst(bare.count)
            }
            guard fields.updateValue(value, forKey: name) == nil else { return nil }
        }
        return fields
    }

    @Test(arguments: hostile) func aValueIsReadBackAsItWas(value: String) throws {
        for other in ["z", "\"", "a b"] {
            let fields = [(name: "account", value: value), (name: "method", value: other)]
            let text = LogFormat.text.line(Date(timeIntervalSince1970: 0), level: "notice", "sign-in failed", fields)
            #expect(text.unicodeScalars.allSatisfy { $0.value >= 0x20 && !(0x7F...0xA0).contains($0.value) })
            #expect(!text.unicodeScalars.contains { [0x2028, 0x2029, 0x202E, 0x2066, 0xFEFF].contains($0.value) })
            let start = "1970-01-01T00:00:00.000Z notice sign-in failed"
            #expect(text.hasPrefix(start))
            let read = Self.fields(text.dropFirst(start.count))
            #expect(read?.keys.sorted() == ["account", "method"])
            #expect(read?["account"].map { Array($0.utf8) } == Array(value.utf8))
            #expect(read?["method"] == other)

            let json = LogFormat.json.line(Date(timeIntervalSince1970: 0), level: "notice", "sign-in failed", fields)
            #expect(json.unicodeScalars.allSatisfy { $0.value >= 0x20 && !(0x7F...0xA0).contains($0.value) })
            let object = try JSONDecoder().decode([String: String].self, from: Data(json.utf8))
            #expect(object.keys.sorted() == ["account", "level", "message", "method", "time"])
            #expect(object["message"] == "sign-in failed")
            #expect(object["account"].map { Array($0.utf8) } == Array(value.utf8))
        }
    }

    @Test(arguments: LogFormat.allCases) func randomValuesForgeNothing(format: LogFormat) throws {
        let seed = UInt64.random(in: .min ... .max)
        var random = SeededGenerator(seed: seed)
        let pieces: [String] = ["\"", "\\", "=", " ", "\n", "\r", "{", "}", ",", ":", "address=", "\u{85}", "\u{202E}", "x"]
        for _ in 0..<300 {
            let value = (0..<Int.random(in: 0...12, using: &random)).map { _ in pieces.randomElement(using: &random) ?? "" }.joined()
            let line = format.line(
                Date(),
                level: "info",
                "signed in",
                [(name: "address", value: "192.0.2.1"), (name: "account", value: value)]
            )
            #expect(!line.utf8.contains(UInt8(ascii: "\n")) && !line.utf8.contains(UInt8(ascii: "\r")), "seed \(seed)")
            let read: [String: String]? =
                switch format {
                case .text: line.range(of: " info signed in").flatMap { Self.fields(line[$0.upperBound...]) }
                case .json: try? JSONDecoder().decode([String: String].self, from: Data(line.utf8))
                }
            #expect(read?["address"] == "192.0.2.1", "seed \(seed)")
            #expect(read?["account"].map { Array($0.utf8) } == Array(value.utf8), "seed \(seed)")
        }
    }

    @Test func aLongValueIsCutOff() {
        let line = LogFormat.text.line(Date(), level: "info", "m", [(name: "a", value: String(repeating: "x", count: 10_000))])
        #expect(line.utf8.count < 1_000)
    }

    private final class Lines: Sendable {
        let all = Mutex<[String]>([])
        func logger(_ level: Logger.Level) -> (Logger, LogOutput) {
            let output = LogOutput(.text, level: level) { line in self.all.withLock { $0.append(line) } }
            return (Logger(label: "test") { _ in RelayLogHandler(output) }, output)
        }
    }

    @Test func levelOfARunningProcessChanges() {
        let lines = Lines()
        let (logger, output) = lines.logger(.warning)
        logger.info("one")
        output.level = .debug
        logger.debug("two", metadata: ["b": "1", "address": "192.0.2.1", "a": "2"])
        output.level = .error
        logger.warning("three")
        let all = lines.all.withLock { $0 }
        #expect(all.count == 1)
        #expect(all.first?.hasSuffix(" debug two address=192.0.2.1 a=2 b=1") == true)
    }

    @Test func aFloodOfFailuresWritesFewLines() {
        let lines = Lines()
        let now = Mutex(Duration.seconds(5))
        let log = EventLog(logger: lines.logger(.info).0, metrics: NOOPMetricsHandler.instance) { now.withLock { $0 } }
        let failure = RelayEvent.signInFailed(account: "a", .password, address: "192.0.2.1", .wrongCredentials)
        for _ in 0..<1_000 { log.record(failure) }
        #expect(lines.all.withLock { $0.count } == 3)
        // Refused devices are another kind, and hide no failed sign-in, nor the other way round.
        for _ in 0..<1_000 { log.record(.refused(endpoint: "e", address: "192.0.2.1", code: "notAuthorized")) }
        #expect(lines.all.withLock { $0.count { $0.contains("device refused") } } == 3)
        log.record(failure)
        lines.all.withLock { $0.removeLast(3) }
        // Successes are not held back by failures of others.
        log.record(.signedIn(account: "a", .password, address: "192.0.2.1"))
        #expect(lines.all.withLock { $0.count } == 4)
        now.withLock { $0 = .seconds(6) }
        log.record(failure)
        #expect(lines.all.withLock { $0.last }?.contains(" leftOut=998 ") == true)
        log.record(.refused(endpoint: "e", address: "192.0.2.1", code: "notAuthorized"))
        #expect(lines.all.withLock { $0.last }?.contains(" leftOut=997 ") == true)
    }
}
