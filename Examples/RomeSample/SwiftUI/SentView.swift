// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors
//
// For Xcode: not compiled on Linux, where only its syntax is checked.

#if canImport(SwiftUI) && os(iOS)
import SwiftUI

struct SentView: View {
    let sample: RomeSample
    let sent: SentCommands

    var body: some View {
        NavigationStack {
            List {
                if let notice = sent.notice { NoticeView(notice: notice) }
                ForEach(sent.rows) { row in
                    VStack(alignment: .leading) {
                        Text(row.content).lineLimit(3)
                        NoticeView(notice: row.notice)
                        if row.canCancel { Button("Cancel") { sample.work.run("cancel") { await sent.cancel(row.id) } } }
                    }
                }
            }
            .navigationTitle("Sent")
            .task { await sent.watch() }
        }
    }
}
#endif
