// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import GRDB
import RelayTesting

/// Stored state that goes back: the database of a party is replaced by an earlier copy of it, as by a restored backup.
extension Drive {
    func database(of party: Party) throws -> URL {
        if case .relayd = party { return relays.sqlite }
        let accounts = home(of: party).appending(path: "storage/accounts")
        guard let account = try FileManager.default.contentsOfDirectory(atPath: accounts.path).first else {
            throw Failed(description: "\(party) has no account")
        }
        return accounts.appending(path: account).appending(path: "journal.sqlite")
    }

    private func copy(of party: Party) -> URL {
        directory.appending(path: "\(party).copy".replacingOccurrences(of: " ", with: "-"))
    }

    func copy(_ party: Party) throws {
        write("copy", "\(party)")
        let place = copy(of: party)
        try? FileManager.default.removeItem(at: place)
        var configuration = Configuration()
        configuration.busyMode = .timeout(5)
        let source = try DatabaseQueue(path: database(of: party).path, configuration: configuration)
        let destination = try DatabaseQueue(path: place.path)
        try source.backup(to: destination)
        try destination.close()
        try source.close()
    }

    /// Puts the last copy in place. The party does not run.
    func goBack(_ party: Party) throws {
        let (files, place) = (FileManager.default, copy(of: party))
        guard files.fileExists(atPath: place.path) else { return }
        write("restore", "\(party)")
        let database = try database(of: party)
        for suffix in ["", "-wal", "-shm"] { try? files.removeItem(atPath: database.path + suffix) }
        try files.copyItem(at: place, to: database)
        try files.setAttributes([.posixPermissions: 0o600], ofItemAtPath: database.path)
        ledger.wentBack(party, ordered: ordered)
        if case .sender = party { goneBack.insert(party) }
    }

    /// Compares what a restored sender has with what it had.
    func reconcile(_ commands: Set<String>, of sender: Int) {
        for issue in ledger.missing(from: commands, sender: sender) {
            let hasEnded = ledger.hasEnded(issue)
            ledger.lost(issue)
            if !hasEnded { close(issue) }
        }
        for command in commands {
            guard let issue = ledger.issue(of: command), ledger.hasEnded(issue) else { continue }
            ledger.reopened(issue)
            reopen(issue)
        }
    }
}
