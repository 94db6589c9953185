// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Testing

@testable import RelayAgent

@Suite struct TargetReadingTests {
    @Test func everySlashCanBeTheOne() {
        #expect(TargetReading.all(of: "TV") == [TargetReading(device: "TV", app: nil)])
        #expect(
            TargetReading.all(of: "a/b/c") == [
                TargetReading(device: "a/b/c", app: nil), TargetReading(device: "a/b", app: "c"), TargetReading(device: "a", app: "b/c"),
            ]
        )
        #expect(TargetReading.all(of: "TV/").last == TargetReading(device: "TV", app: ""))
    }

    @Test func aSlashThatACharacterHidesIsOne() {
        for text in ["TV/\u{301}app", "TV\u{0D4E}/app", "TV/\u{200D}app"] {
            #expect(TargetReading.all(of: text).count == 2, "\(text.unicodeScalars.map { $0.value })")
        }
    }
}
