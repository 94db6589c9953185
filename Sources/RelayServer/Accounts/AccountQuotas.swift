// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

package import RelayProtocol

/// The limits that the operator sets for one account, in place of the relay's own. They are those of what the relay stores for it.
package struct AccountQuotas: Hashable, Sendable {
    /// What can be set, in the order in which it is shown.
    package static let limits: [Limit] = [
        .endpointsPerAccount, .endpointsEverPerAccount, .mailboxCommands, .mailboxBytes, .mailboxCommandsPerSender, .mailboxBytesPerSender,
        .accountBytes,
    ]

    /// The values that are set, each within its range.
    package private(set) var values: [Limit: Int] = [:]

    package init() {}

    package var isEmpty: Bool { values.isEmpty }

    /// The values that a quota can have. Devices list no more endpoints than its end.
    package static func range(of limit: Limit) -> ClosedRange<Int> {
        1...(limit == .endpointsPerAccount ? DeviceDirectory.maximumEndpoints : Limits.ceiling)
    }

    /// `nil`: the account has the relay's own value. A value outside the range is replaced by the nearest one. A limit that all accounts share
    /// stays so.
    package subscript(limit: Limit) -> Int? {
        get { values[limit] }
        set {
            guard Self.limits.contains(limit) else { return }
            let range = Self.range(of: limit)
            values[limit] = newValue.map { min(max($0, range.lowerBound), range.upperBound) }
        }
    }

    /// The account's limits.
    package func applied(to limits: Limits) -> Limits {
        guard !isEmpty else { return limits }
        return values.reduce(into: limits) { $0[$1.key] = $1.value }
    }
}
