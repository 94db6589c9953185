// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import RelayStorage

/// The profiles of a home, each of which is one account at one relay. The profile `default` is in the home's own directory; each further one has a directory in it, with the same
/// content. A file names the profile that commands use.
package struct HomeAccounts: Sendable {
    package static let first = "default"

    /// The home's own directory.
    package let root: Home

    package init(_ root: Home) { self.root = root }

    private var folder: String { root.path + "/named" }
    private var choice: String { root.path + "/current-profile" }

    /// The directory of an account, which need not exist.
    /// - Parameter name: A checked name.
    func home(of name: String) -> Home { name == Self.first ? root : Home("\(folder)/\(name)", account: name) }

    /// Checks a name: 1 to 32 lower-case letters, digits, `-` and `_`, the first of them a letter or digit.
    @discardableResult
    package static func checked(_ name: String) throws -> String {
        let bytes = Array(name.utf8)
        func isPlain(_ byte: UInt8) -> Bool { (0x61...0x7A).contains(byte) || (0x30...0x39).contains(byte) }
        let isValid =
            (1...32).contains(bytes.count) && isPlain(bytes[0])
            && bytes.allSatisfy { isPlain($0) || $0 == UInt8(ascii: "-") || $0 == UInt8(ascii: "_") }
        guard isValid else {
            throw AgentError("profileInvalid", "a profile's name has 1 to 32 lower-case letters, digits, - and _", .usage)
        }
        return name
    }

    /// The accounts that exist, by name; `default` is the first.
    func names() throws -> [String] {
        let first = try root.exists ? [Self.first] : []
        guard FileManager.default.fileExists(atPath: folder) else { return first }
        let others = try PrivateDirectory.names(in: folder).sorted().filter { name in
            guard (try? Self.checked(name)) != nil, name != Self.first else { return false }
            return try home(of: name).exists
        }
        return first + others
    }

    /// The account that commands use: the chosen one, else `default`, else the only one.
    package func current() throws -> String {
        let names = try names()
        let chosen = try PrivateFile.contents(of: choice).map { String(decoding: $0.prefix { $0 != 0x0A }, as: UTF8.self) }
        if let chosen, names.contains(chosen) { return chosen }
        return names.first == Self.first || names.count != 1 ? Self.first : names[0]
    }

    /// Makes commands use an account.
    func use(_ name: String) throws {
        guard try names().contains(name) else { throw Self.unknown(name) }
        try PrivateFile.replace(choice, with: Array("\(name)\n".utf8))
    }

    static func unknown(_ name: String) -> AgentError {
        AgentError("notSignedIn", "there is no profile '\(name)' here. To list them, run: relay profiles", .notSignedIn)
    }
}
