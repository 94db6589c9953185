// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors
//
// For Xcode: not compiled on Linux, where only its syntax is checked.

#if canImport(SwiftUI) && os(iOS)
import SwiftUI

struct HostingView: View {
    @Bindable var hosting: Hosting

    var body: some View {
        NavigationStack {
            List {
                NoticeView(notice: hosting.notice)
                Toggle("Take launches", isOn: $hosting.acceptsLaunches)
                Section("What other devices asked") {
                    if hosting.log.entries.isEmpty { Text("Nothing yet").foregroundStyle(.secondary) }
                    ForEach(hosting.log.entries) { entry in
                        VStack(alignment: .leading) {
                            Text(entry.text)
                            Text(entry.time, style: .time).font(.caption).foregroundStyle(.secondary)
                        }
                        .accessibilityElement(children: .combine)
                    }
                }
            }
            .navigationTitle("Hosting")
        }
    }
}
#endif
