// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

package import RelayProtocol

/// A wake for one endpoint.
package struct Wake: Hashable, Sendable {
    package let payload: WakePayload
    /// The alert that is shown if the wake is urgent.
    package let alert: WakeAlert
    /// The expiry of the newest command for the endpoint. The provider stores the push no longer than that.
    package let expiry: Milliseconds

    package init(_ payload: WakePayload, alert: WakeAlert = .general, expiry: Milliseconds) {
        self.payload = payload
        self.alert = alert
        self.expiry = expiry
    }

    /// Returns the whole seconds from a time to the expiry, within a provider's bounds.
    func lifetime(at now: Milliseconds, in range: ClosedRange<Int64>) -> Int64 {
        min(max((expiry.count - now.count) / 1_000, range.lowerBound), range.upperBound)
    }
}
