// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import RelayTesting
import Testing

@testable import RelayProtocol

/// Exchanges values with Python's cbor2 in both directions.
@Suite struct CBORExchangeTests {
    private static let python = ProcessInfo.processInfo.environment["DEVICE_RELAY_PYTHON"]

    @Test(.enabled(if: python != nil, "scripts/test sets DEVICE_RELAY_PYTHON to a Python that has cbor2"))
    func independentImplementationAgrees() async throws {
        let messages = (0..<1_000 as Range<UInt64>).map { seed in
            var random = SeededGenerator(seed: seed)
            return ValueSet.random(using: &random)
        }
        let encodings = try messages.map { hex(try $0.encodedBytes()) }
        let input = try zip(messages, encodings).map { "\($1)\t\(try $0.json())\n" }.joined()
        let lines = try await exchange(input)
        try #require(lines.count > messages.count)
        for (index, line) in lines.prefix(messages.count).enumerated() {
            #expect(line == encodings[index], "seed \(index)")
        }
        for line in lines.dropFirst(messages.count) {
            let parts = line.split(separator: "\t", maxSplits: 1)
            try #require(parts.count == 2)
            let message = try ValueSet(decoding: hex(String(parts[0])))
            let expected = try ValueSet(json: String(parts[1]))
            // Compared as JSON, where NaN equals itself.
            #expect(try message.json() == expected.json())
            #expect(try message.encodedBytes() == hex(String(parts[0])))
        }
    }

    private func exchange(_ input: String) async throws -> [Substring] {
        let script = URL(filePath: #filePath).deletingLastPathComponent().appending(path: "../../../scripts/cbor2-exchange.py")
        let process = Process()
        process.executableURL = URL(filePath: try #require(Self.python))
        process.arguments = [script.standardizedFileURL.path]
        let ended = try await ProcessRun.run(process, input: input)
        #expect(ended.status == 0, "\(ended.error)")
        return ended.output.split(separator: "\n")
    }
}
