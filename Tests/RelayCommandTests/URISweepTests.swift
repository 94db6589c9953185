// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import RelayTesting
import Testing

/// Generated URIs from the argument of `relay launch` to the argument of the program that opens them, through all processes.
@Suite(.timeLimit(.minutes(Sweep.isFull ? 600 : 10))) struct URISweepTests {
    @Test func uriArrivesByteForByteOrIsRefusedByName() async throws {
        let account = try await TestAccount()
        let (desk, tv) = (try await account.device(named: "Desk"), try await account.device(named: "TV"))
        let opened = tv.directory.path + "/opened"
        let program = try Settings.shell(#"printf '%s\0' "$2" > "$1""#, opened, "{uri}")
        let agent = try await tv.agent(
            "open:\n  schemes: [http, https, mailto, x-film, file, tel]\n  launchesPerMinute: 6000\n  command: \(program)"
        )
        _ = agent
        var uris = URIGenerator(seed: Sweep.seed)
        for number in 0..<Sweep.count(24, full: 10_000) {
            let (uri, what) = (uris.next(), "seed \(Sweep.seed), number \(number)")
            try? FileManager.default.removeItem(atPath: opened)
            let output = try await desk.run(["launch", "TV", uri])
            guard output.status == 0 else {
                #expect(output.status == 2, "\(what): \(uri): \(output.errorText)")
                #expect(
                    output.errorText.contains("U+") || output.errorText.contains("host") || output.errorText.contains("port"),
                    "\(what): \(output.errorText)"
                )
                #expect(!FileManager.default.fileExists(atPath: opened), "\(what): \(uri)")
                continue
            }
            let bytes = [UInt8](FileManager.default.contents(atPath: opened) ?? Data()).dropLast()
            if uri.utf8.allSatisfy({ $0 < 0x80 }) {
                #expect(bytes.elementsEqual(uri.utf8), "\(what): \(uri) became \(String(decoding: bytes, as: UTF8.self))")
            } else {
                // It was converted, and the command said to what.
                #expect(output.errorText.utf8.contains(Array(bytes)) && bytes.allSatisfy { $0 < 0x80 }, "\(what): \(uri)")
            }
        }
    }

    @Test func fallbackAndStandardInputKeepTheURIToo() async throws {
        let account = try await TestAccount()
        let (desk, tv) = (try await account.device(named: "Desk"), try await account.device(named: "TV"))
        let host = try await tv.host("--scheme", "https")
        let uri = "https://a.example/p%20q#f#g%20h"
        #expect(try await desk.relay("launch", "TV", "x-film:1", "--fallback", uri).status == 0)
        #expect(try JSON.object(try await host.line())["uri"] as? String == uri)
        let launch = try desk.startReading("launch", "TV", "-")
        try launch.write(uri + "\n")
        try launch.endInput()
        #expect(await launch.finish().status == 0)
        #expect(try JSON.object(try await host.line())["uri"] as? String == uri)
    }
}

extension Sequence<UInt8> {
    /// Whether the bytes contain others.
    fileprivate func contains(_ other: [UInt8]) -> Bool { !other.isEmpty && !Array(self).ranges(of: other).isEmpty }
}
