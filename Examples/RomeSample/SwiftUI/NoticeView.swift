// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors
//
// For Xcode: not compiled on Linux, where only its syntax is checked.

#if canImport(SwiftUI) && os(iOS)
import SwiftUI

/// A result with its reason and the next step. VoiceOver reads it as one text.
struct NoticeView: View {
    let notice: Notice

    var body: some View {
        VStack(alignment: .leading, spacing: 4) {
            Label(notice.title, systemImage: symbol).font(.headline)
            if !notice.reason.isEmpty { Text(notice.reason).font(.subheadline) }
            if !notice.nextStep.isEmpty { Text(notice.nextStep).font(.subheadline).bold() }
            if !notice.code.isEmpty { Text(notice.code).font(.caption.monospaced()).foregroundStyle(.secondary) }
        }
        .accessibilityElement(children: .ignore)
        .accessibilityLabel(notice.spoken)
    }

    private var symbol: String {
        switch notice.kind {
        case .success: "checkmark.circle"
        case .progress: "clock"
        case .problem: "exclamationmark.triangle"
        case .unknown: "questionmark.circle"
        }
    }
}
#endif
