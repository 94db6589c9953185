// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

package import RelayProtocol
package import RelayStorage

/// What a storage directory holds of an account, read without a lock and without any write: it works also on a full disk and on a read-only
/// file system. Writes of others are atomic.
package struct StoredEndpoint: Sendable {
    package let id: EndpointID
    package let systemID: SystemID
    /// The account's name at the relay; `nil` if the relay has stated none.
    package let accountName: String?
    /// `nil` if the platform stores no login.
    package let login: AccountLogin?
    private let account: ConnectedDevicesAccount
    private let journalPath: String

    package var fingerprint: FingerprintWords { FingerprintWords(endpoint: id, system: systemID) }

    /// - Returns: `nil` if the directory has no such account.
    package static func read(
        _ account: ConnectedDevicesAccount,
        in path: String,
        systemKey: SystemKeyFile = .shared
    ) throws(StorageError) -> StoredEndpoint? {
        guard let scope = try StorageDirectory.scopes(in: path).first(where: { $0.accountID == account.id }) else { return nil }
        let storage = AccountStorage(
            scope: scope,
            directory: "\(path)/accounts/\(scope.name)",
            lock: "",
            keys: FileKeyStorage(reading: "\(path)/keys")
        )
        return StoredEndpoint(
            id: EndpointID(try storage.identityKey().publicKey),
            systemID: SystemID(try systemKey.load().publicKey),
            accountName: try storage.accountName(),
            login: try storage.tokens.read().map(AccountLogin.init),
            account: account,
            journalPath: storage.journalPath
        )
    }

    /// The last known state of the account's devices and commands.
    package struct Contents: Sendable {
        /// The pinned devices. Their presence is unknown.
        package let directory: DeviceDirectory
        /// All open commands, and the latest ended ones. They cannot be cancelled.
        package let commands: [RemoteCommand]
    }

    /// Reads the journal.
    package func contents() throws -> Contents {
        let journal = try Journal(reading: journalPath, endpoint: id)
        defer { journal.close() }
        return try journal.read { transaction in
            var book = try PeerBook(own: id, directoryName: account.id, stored: transaction.ownEndpoint(), transaction)
            _ = book.take(.relayLost(at: Milliseconds(clamping: EndpointCredentials.systemTime())))
            let commands = try transaction.sentCommands().map { RemoteCommand($0, CurrentValue($0.state), nil) }
            return Contents(directory: book.directory, commands: commands)
        }
    }
}
