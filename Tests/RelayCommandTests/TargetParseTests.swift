// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Testing

@testable import RelayAgent

@Suite struct TargetParseTests {
    @Test func everySlashMaySeparateDeviceAndApp() {
        #expect(TargetParse.all(of: "TV") == [TargetParse(device: "TV", app: nil)])
        #expect(
            TargetParse.all(of: "a/b/c") == [
                TargetParse(device: "a/b/c", app: nil), TargetParse(device: "a/b", app: "c"), TargetParse(device: "a", app: "b/c"),
            ]
        )
        #expect(TargetParse.all(of: "TV/").last == TargetParse(device: "TV", app: ""))
    }

    @Test func slashInsideACharacterIsFound() {
        for text in ["TV/\u{301}app", "TV\u{0D4E}/app", "TV/\u{200D}app"] {
            #expect(TargetParse.all(of: text).count == 2, "\(text.unicodeScalars.map { $0.value })")
        }
    }
}
