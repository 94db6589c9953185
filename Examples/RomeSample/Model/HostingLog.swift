// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation

/// What other devices asked of this app, the newest first. Bounded: the oldest entries go.
struct HostingLog: Sendable {
    struct Entry: Identifiable, Hashable, Sendable {
        let id: Int
        let time: Date
        let text: String
    }

    static let mostEntries = 200

    private(set) var entries: [Entry] = []
    private var count = 0

    mutating func add(_ text: String, at time: Date = .now) {
        count += 1
        entries.insert(Entry(id: count, time: time, text: ShownText.clean(text)), at: 0)
        if entries.count > Self.mostEntries { entries.removeLast() }
    }
}
