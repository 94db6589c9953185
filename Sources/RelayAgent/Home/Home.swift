// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import Foundation
import RelayStorage

/// The directory that holds the state of the command line for one account.
package struct Home: Sendable {
    package let path: String
    /// The account's name, if it is not the one in the home's own directory.
    private let account: String?

    /// - Parameter path: A path; a relative one is resolved against the working directory.
    package init(_ path: String) { self.init(path, account: nil) }

    init(_ path: String, account: String?) {
        self.path = URL(filePath: path, directoryHint: .isDirectory).standardizedFileURL.path
        self.account = account
    }

    /// `DEVICE_RELAY_HOME` if it is set, else the default location. An empty variable is an unset one.
    package init(environment: [String: String]) throws {
        if let set = environment["DEVICE_RELAY_HOME"], !set.isEmpty {
            self.init(set)
        } else {
            self.init(try Self.usual(environment))
        }
    }

    private static func usual(_ environment: [String: String]) throws -> String {
        #if canImport(Darwin)
        return URL.applicationSupportDirectory.path + "/device-relay"
        #else
        // The XDG base directory specification requires that a relative path is ignored.
        if let set = environment["XDG_STATE_HOME"], set.utf8.first == UInt8(ascii: "/") { return set + "/device-relay" }
        guard let home = HomeDirectory.path(environment: environment) else {
            throw StorageError(.homeUnknown, path: "DEVICE_RELAY_HOME, or give --home")
        }
        return home + "/.local/state/device-relay"
        #endif
    }

    private var file: String { path + "/relay.json" }

    /// Whether it holds an account.
    var exists: Bool {
        get throws { try PrivateFile.contents(of: file) != nil }
    }

    /// The relay that this device has joined.
    /// - Throws: `notSignedIn` if there is none.
    func membership() throws -> Membership {
        guard let membership = try storedMembership() else {
            if let account { throw HomeAccounts.unknown(account) }
            throw AgentError(
                "notSignedIn",
                "this device has not joined an account yet: run `relay login URL`, or `relay join` with a join link; without an account, run `relay pair`",
                .notSignedIn
            )
        }
        guard !(membership.isUnconfirmed ?? false) else { throw AgentError.joiningUnfinished }
        return membership
    }

    /// What is stored, also if joining was not finished.
    func storedMembership() throws -> Membership? {
        guard let bytes = try PrivateFile.contents(of: file) else { return nil }
        do {
            return try JSONDecoder().decode(Membership.self, from: Data(bytes))
        } catch {
            throw AgentError(
                "storageFailed",
                "\(file) is damaged; delete \(path) and join again, and revoke this device on another one",
                .failed
            )
        }
    }

    /// What is stored of a relay, also if joining was not finished.
    func storedRelay() throws -> Membership? { try storedMembership().flatMap { $0.hasRelay ? $0 : nil } }

    func store(_ membership: Membership) throws {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.prettyPrinted, .sortedKeys, .withoutEscapingSlashes]
        try PrivateDirectory.makeAll(path)
        try PrivateFile.replace(file, with: Array(try encoder.encode(membership)) + [UInt8(ascii: "\n")])
    }

    /// Lets one command at a time begin or end an account here. Otherwise a no to the question of one would end what another has begun.
    func changingAccount<Result>(_ body: () async throws -> Result) async throws -> Result {
        try PrivateDirectory.makeAll(path)
        let file = path + "/joining.lock"
        guard let lock = try FileLock(tryLocking: file) else {
            throw AgentError(
                "accountChanging",
                "\(FileLock.holder(of: file)) joins or leaves an account here; answer its question or end it, and run this again",
                .failed
            )
        }
        defer { lock.release() }
        lock.sign("process \(getpid())")
        return try await body()
    }

    /// Forgets the relay. The devices that this one was paired with stay.
    func removeMembership() throws {
        guard let membership = try storedMembership() else { return }
        let isPaired = try StoredEndpoint.read(.anonymous, in: path).map { try !$0.contents().directory.endpointIDs.isEmpty } ?? false
        guard isPaired else { return try PrivateFile.delete(file) }
        try store(Membership(withoutRelay: membership.name, kind: membership.kind))
    }
}
