// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import RelayTesting
import Testing

/// A Python implementation, with other libraries for CBOR, signatures and encryption, accepts and rejects the same vectors.
@Suite struct VectorExchangeTests {
    private static let python = ProcessInfo.processInfo.environment["DEVICE_RELAY_PYTHON"]

    @Test(.enabled(if: python != nil, "scripts/test sets DEVICE_RELAY_PYTHON to a Python that has cbor2 and cryptography"))
    func independentImplementationAgrees() async throws {
        let script = URL(filePath: #filePath).deletingLastPathComponent().appending(path: "../../../scripts/check-vectors.py")
        let process = Process()
        process.executableURL = URL(filePath: try #require(Self.python))
        process.arguments = [script.standardizedFileURL.path, VectorFolder.url.path]
        let ended = try await ProcessRun.run(process)
        #expect(ended.status == 0, "\(ended.error)")
        #expect(Int(ended.output.trimmingCharacters(in: .whitespacesAndNewlines)) ?? 0 > 300)
    }
}
