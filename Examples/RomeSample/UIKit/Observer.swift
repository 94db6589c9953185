// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors
//
// For Xcode: not compiled on Linux, where only its syntax is checked.

#if canImport(UIKit)
import Observation

/// Calls a closure now, and again after each change of a model value that it has read.
@MainActor final class Observer {
    private let show: () -> Void

    init(_ show: @escaping () -> Void) {
        self.show = show
        track()
    }

    private func track() {
        withObservationTracking(show) {
            // The change comes after this closure.
            Task { @MainActor [weak self] in self?.track() }  // Owner: it ends at once
        }
    }
}
#endif
