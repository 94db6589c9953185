// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors
//
// For Xcode: not compiled on Linux, where only its syntax is checked.

#if canImport(UIKit)
import UIKit

/// What this device sent. A tap cancels what has not ended.
final class SentViewController: ListViewController {
    private let sent: SentCommands

    init(_ sent: SentCommands) {
        self.sent = sent
        super.init(style: .insetGrouped)
        title = "Sent"
        tabBarItem.image = UIImage(systemName: "paperplane")
    }

    @available(*, unavailable) required init?(coder: NSCoder) { nil }

    override func viewWillAppear(_ animated: Bool) {
        super.viewWillAppear(animated)
        work.run("watch") { [sent] in await sent.watch() }
    }

    override func content() -> [Part] {
        let commands = sent.rows.map { row in
            let hint = row.canCancel ? ". Tap to cancel" : ""
            return Row(
                title: row.content,
                detail: NoticeText.text(row.notice) + hint,
                spoken: "\(row.content). \(row.notice.spoken)\(hint)",
                select: row.canCancel ? { [weak self] in self?.cancel(row) } : nil
            )
        }
        return [Part(header: nil, rows: rows(sent.notice) + commands)]
    }

    private func cancel(_ row: SentCommands.Row) { work.run("cancel") { [sent] in await sent.cancel(row.id) } }
}
#endif
