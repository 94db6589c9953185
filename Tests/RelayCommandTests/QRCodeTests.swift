// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import RelayTesting
import Synchronization
import Testing

@testable import RelayAgent

/// The QR codes of the real program, read by another one.
@Suite(.serialized, .timeLimit(.minutes(5))) struct QRCodeTests {
    static let isPossible = ["/usr/bin/qrencode", "/usr/bin/zbarimg"].allSatisfy(FileManager.default.isExecutableFile)

    struct NotReadable: Error {
        var lines: [String]
    }

    /// Reads a code as a camera reads it from a terminal with light letters.
    static func decoded(_ lines: [String]) async throws -> String {
        let square = 4
        let width = (lines.map { $0.unicodeScalars.count }.max() ?? 0) * square
        var pixels: [UInt8] = []
        for line in lines {
            let isLight: [(Bool, Bool)] = line.unicodeScalars.map { ("█▀".unicodeScalars.contains($0), "█▄".unicodeScalars.contains($0)) }
            for half in [\(Bool, Bool).0, \.1] {
                var row = isLight.flatMap { Array(repeating: $0[keyPath: half] ? UInt8(255) : 0, count: square) }
                row += Array(repeating: 0, count: width - row.count)
                for _ in 0..<square { pixels += row }
            }
        }
        let file = FileManager.default.temporaryDirectory.appending(path: "qr-\(UUID().uuidString).pgm")
        defer { try? FileManager.default.removeItem(at: file) }
        let header = "P5\n\(width) \(lines.count * 2 * square)\n255\n"
        try (Data(header.utf8) + Data(pixels)).write(to: file)
        let process = Process()
        process.executableURL = URL(filePath: "/usr/bin/zbarimg")
        process.arguments = ["-q", "--raw", "--nodbus", file.path]
        let ended = try await ProcessRun.run(process)
        guard ended.status == 0 else { throw NotReadable(lines: lines) }
        return ended.output.trimmingCharacters(in: .newlines)
    }

    @Test(.enabled(if: isPossible, "needs qrencode and zbar-tools, which scripts/test installs"), arguments: [0, 8])
    func codesAreReadable(places: Int) async throws {
        let at = (0..<places).map { ",at=fd12:3456:789a:bcde:f012:3456:789a:\($0)-54321" }.joined()
        let link = "device-relay-pair:#id=\(String(repeating: "a", count: 52)),secret=AAECAwQFBgcICQoLDA0ODw\(at)"
        let lines = try #require(await QRCode().lines(of: link))
        #expect(try await Self.decoded(lines) == link)
    }

    /// A console with a terminal of this width; `nil` for a pipe.
    private static func shown(_ columns: Int?, isJSON: Bool = false) async throws -> (output: String, errors: String) {
        let texts = Mutex<(String, String)>(("", ""))
        let console = Console(
            isJSON: isJSON,
            hasColours: false,
            isInteractive: true,
            columns: columns,
            output: { text in texts.withLock { $0.0 += text } },
            error: { text in texts.withLock { $0.1 += text } },
            data: { _ in }
        )
        try await console.showQRCode(of: "https://relay.example/#relay=a,invite=b")
        return texts.withLock { $0 }
    }

    @Test(.enabled(if: isPossible, "needs qrencode and zbar-tools, which scripts/test installs"))
    func codeIsForAWideTerminalAlone() async throws {
        #expect(try await Self.shown(80).output.contains("█"))
        for (columns, isJSON) in [(20, false), (nil, false), (80, true)] as [(Int?, Bool)] {
            let shown = try await Self.shown(columns, isJSON: isJSON)
            #expect(shown.output.isEmpty && shown.errors.isEmpty)
        }
    }
}
