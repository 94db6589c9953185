// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors
//
// For Xcode: not compiled on Linux, where only its syntax is checked.

#if canImport(UIKit)
import UIKit

/// What other devices asked of this app.
final class HostingViewController: ListViewController {
    private let hosting: Hosting

    init(_ hosting: Hosting) {
        self.hosting = hosting
        super.init(style: .insetGrouped)
        title = "Hosting"
        tabBarItem.image = UIImage(systemName: "tray.and.arrow.down")
    }

    @available(*, unavailable) required init?(coder: NSCoder) { nil }

    override func content() -> [Part] {
        let hosting = hosting
        let takes = Row(title: hosting.acceptsLaunches ? "Takes launches. Tap to decline them" : "Declines launches. Tap to take them") {
            hosting.acceptsLaunches.toggle()
        }
        let entries = hosting.log.entries.map { Row(title: $0.text, detail: $0.time.formatted(date: .omitted, time: .standard)) }
        return [
            Part(header: nil, rows: rows(hosting.notice) + [takes]),
            Part(header: "What other devices asked", rows: entries.isEmpty ? [Row(title: "Nothing yet")] : entries),
        ]
    }
}
#endif
