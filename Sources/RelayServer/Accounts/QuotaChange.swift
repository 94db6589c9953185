// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

package import RelayProtocol

/// A change of an account's quotas, by the names of limits. Nodes pass it on as JSON, so a name may be one that this version does not know.
package struct QuotaChange: Codable, Hashable, Sendable {
    package var values: [String: Int]
    /// The account has the relay's own values of these again.
    package var reset: [String]

    package init(_ values: [String: Int] = [:], reset: [String] = []) { (self.values, self.reset) = (values, reset) }

    package var isEmpty: Bool { values.isEmpty && reset.isEmpty }

    /// Why a change is refused. The description says what to do.
    package struct Refused: Error, Hashable, Sendable, CustomStringConvertible {
        package var description: String
    }

    /// What resets every quota.
    private static let all = "all"

    /// Reads what an operator has written.
    /// - Parameters:
    ///   - set: Each as `NAME=VALUE`.
    ///   - reset: Names; `all` means each of them.
    package init(parsing set: [String], reset: [String]) throws(Refused) {
        self.init(reset: reset.contains(Self.all) ? AccountQuotas.limits.map(\.rawValue) : reset)
        for text in set {
            let parts = text.utf8.split(separator: UInt8(ascii: "="), maxSplits: 1, omittingEmptySubsequences: false).map {
                String($0) ?? ""
            }
            guard parts.count == 2 else {
                throw Refused(
                    description: "'\(DisplayText.sanitized(text))' is not NAME=VALUE, such as \(Limit.endpointsPerAccount.rawValue)=20"
                )
            }
            let limit = try Self.limit(parts[0])
            let isNumber = !parts[1].isEmpty && parts[1].utf8.allSatisfy { (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) }
            guard isNumber, let value = Int(parts[1]) else { throw Self.outside(limit, DisplayText.sanitized(parts[1])) }
            guard values.updateValue(value, forKey: parts[0]) == nil else {
                throw Refused(description: "\(limit.rawValue) is set twice: set it once")
            }
        }
        _ = try limits()
    }

    /// The new values; a value of `nil` resets the quota.
    package func limits() throws(Refused) -> [Limit: Int?] {
        var limits: [Limit: Int?] = [:]
        for name in reset { limits.updateValue(nil, forKey: try Self.limit(name)) }
        for (name, value) in values.sorted(by: { $0.key < $1.key }) {
            let limit = try Self.limit(name)
            guard AccountQuotas.range(of: limit).contains(value) else { throw Self.outside(limit, "\(value)") }
            guard limits.updateValue(value, forKey: limit) == nil else {
                throw Refused(description: "\(limit.rawValue) is both set and reset: choose one")
            }
        }
        return limits
    }

    private static func limit(_ name: String) throws(Refused) -> Limit {
        let limit = Limit(rawValue: name)
        if let limit, AccountQuotas.limits.contains(limit) { return limit }
        if let limit {
            throw Refused(description: "\(limit.rawValue) is the same for all accounts: set it with `relayd serve --limit`")
        }
        let names = AccountQuotas.limits.map(\.rawValue).joined(separator: ", ")
        throw Refused(description: "there is no quota '\(DisplayText.sanitized(name))': the quotas are \(names)")
    }

    private static func outside(_ limit: Limit, _ value: String) -> Refused {
        let range = AccountQuotas.range(of: limit)
        return Refused(description: "\(limit.rawValue): '\(value)' is not a number from \(range.lowerBound) to \(range.upperBound)")
    }
}
