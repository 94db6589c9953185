// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import BuildVersion
import Foundation
import Logging
import RelayIssuer
package import RelayProtocol
package import RelayServer
import RelayStorage

/// Creates and restores backups of a data directory, which may be in use.
package enum Backup {
    /// - Parameter replacing: whether an existing file may be replaced.
    /// - Returns: the relay's id.
    package static func make(
        of directory: DataDirectory,
        at path: String,
        replacing: Bool,
        now: Milliseconds
    ) throws -> RelayID {
        // Fails early; the check is repeated at the end.
        guard replacing || !FileManager.default.fileExists(atPath: path) else { throw BackupError.exists(path) }
        let draft = try BackupDraft(beside: path)
        let (relay, archive) = try archive(directory, in: draft, now: now)
        guard try PrivateFile.publish(archive, as: path, replacing: replacing) else { throw BackupError.exists(path) }
        return relay
    }

    /// Passes on the bytes of a backup. Meanwhile its files are in the data directory, which is as private.
    /// - Returns: The relay's id.
    package static func stream(
        of directory: DataDirectory,
        now: Milliseconds,
        to write: ([UInt8]) throws -> Void
    ) throws -> RelayID {
        let draft = try BackupDraft(beside: directory.path + "/relay.tar")
        let (relay, archive) = try archive(directory, in: draft, now: now)
        try BackupArchive.read(archive, write)
        return relay
    }

    /// - Returns: The relay's id, and the path of the archive in the draft.
    private static func archive(_ directory: DataDirectory, in draft: BackupDraft, now: Milliseconds) throws -> (RelayID, String) {
        let key = try RelayKey.load(in: directory.path)
        // The issuer's database is copied last, so it is never older than the relay's. Newer data of the issuer is harmless: a login
        // whose device the relay does not know yet, or the end of a login whose revocation is missing in the relay's copy. In the other
        // order, a device could be revoked at the relay while its login stays valid.
        for name in BackupArchive.names {
            let (source, copy) = ("\(directory.path)/\(name)", "\(draft.path)/\(name)")
            if name.hasSuffix(".sqlite") {
                try DatabaseCopy.make(of: source, at: copy)
            } else {
                try BackupArchive.copy(source, to: copy)
            }
        }
        let description = BackupArchive.Description(relay: "\(key.id)", made: now.count, version: BuildVersion.text)
        return (key.id, try BackupArchive.write(description, of: draft))
    }

    /// Restores a backup into a directory. The backup is checked completely before the directory is changed.
    /// - Parameters:
    ///   - replacing: whether the directory may contain files; a relay's files are then moved to a subdirectory.
    ///   - now: the current time.
    /// - Returns: what was restored.
    package static func restore(
        _ path: String,
        to directory: DataDirectory,
        replacing: Bool,
        now: Milliseconds
    ) throws -> Restored {
        let directory = directory.path
        // Held until the end, so that no relay starts meanwhile.
        let lock = try StoreLock(directory: directory)
        defer { lock.release() }
        let files = FileManager.default
        let present = try files.contentsOfDirectory(atPath: directory).filter { !["relay.lock", "lost+found"].contains($0) }
        guard replacing || present.isEmpty else { throw BackupError.notEmpty(directory) }
        // Removes the remains of earlier attempts.
        let (draft, ready) = ("\(directory)/restore.partial", "\(directory)/\(DataDirectory.restoring)")
        if files.fileExists(atPath: draft) { try files.removeItem(atPath: draft) }
        try PrivateDirectory.create(draft)
        let description: BackupArchive.Description
        do {
            description = try unpack(path, into: draft, now: now)
        } catch {
            try? files.removeItem(atPath: draft)
            throw error
        }
        // The directory `restoring` of an earlier attempt stays, so that no relay starts with half of the files. Its content is replaced.
        if files.fileExists(atPath: ready) {
            for name in BackupArchive.names { try PrivateFile.move("\(draft)/\(name)", to: "\(ready)/\(name)") }
            try files.removeItem(atPath: draft)
        } else {
            try PrivateFile.move(draft, to: ready)
        }
        // `restoring` must be on disk before any file is moved away.
        try PrivateDirectory.flush(directory)
        let losses = BackupLosses(of: "\(directory)/relay.sqlite", without: "\(ready)/relay.sqlite")
        let replaced = try setAside(in: directory, now: now)
        for name in BackupArchive.names { try PrivateFile.move("\(ready)/\(name)", to: "\(directory)/\(name)") }
        try PrivateDirectory.flush(directory)
        try files.removeItem(atPath: ready)
        return Restored(
            relay: description.relay,
            made: Milliseconds(clamping: description.made),
            replaced: replaced,
            losses: replaced == nil ? nil : losses
        )
    }

    /// Checks a backup as `restore` does before it changes anything, so what passes can be restored by this build. The files are unpacked
    /// beside the backup meanwhile.
    /// - Returns: What the backup says of itself.
    package static func check(_ path: String, now: Milliseconds) throws -> BackupArchive.Description {
        // It is removed with its last use.
        let draft = try BackupDraft(beside: path)
        return try withExtendedLifetime(draft) { try unpack(path, into: draft.path, now: now) }
    }

    /// What was restored.
    package struct Restored: Sendable {
        package var relay: String
        /// When the backup was made.
        package var made: Milliseconds
        /// Where the old files are.
        package var replaced: String?
        /// What the old database had and the backup lacks; `nil` if there was no readable one.
        package var losses: BackupLosses?
    }

    /// Unpacks the files, and checks that they belong to one relay.
    private static func unpack(_ path: String, into directory: String, now: Milliseconds) throws -> BackupArchive.Description {
        let description = try BackupArchive.unpack(path, into: directory)
        let key = try RelayKey.load(in: directory)
        guard "\(key.id)" == description.relay else { throw BackupError.damaged(path, "its key is another relay's") }
        let store = try SQLiteStore(directory: directory)
        // The database is incomplete after the backup's time.
        try store.beginAgain()
        store.close()
        try Issuer.open(
            directory,
            settings: .init(origins: [], audience: ""),
            now: { now },
            logger: Logger(label: "relayd") { _ in SwiftLogNoOpLogHandler() }
        ).close()
        try PrivateFile.delete("\(directory)/relay.lock")
        return description
    }

    /// Moves the old files of a relay to a subdirectory.
    private static func setAside(in directory: String, now: Milliseconds) throws -> String? {
        let names = BackupArchive.names.flatMap { [$0, $0 + "-wal", $0 + "-shm", $0 + "-journal"] } + [Serving.fileName]
        let present = names.filter { PrivateFile.exists("\(directory)/\($0)") }
        guard !present.isEmpty else { return nil }
        let place = "\(directory)/replaced-\(now.count)"
        try PrivateDirectory.create(place)
        for name in present { try PrivateFile.move("\(directory)/\(name)", to: "\(place)/\(name)") }
        return place
    }
}
