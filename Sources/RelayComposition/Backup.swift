// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Logging
import RelayIssuer
package import RelayProtocol
import RelayServer

#if canImport(FoundationEssentials)
import FoundationEssentials
#else
import Foundation
#endif

#if canImport(Darwin)
import Darwin
#elseif canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#endif

/// Backups of a data directory, which may be in use, and back again.
package enum Backup {
    /// - Parameter replacing: whether another file may be replaced.
    /// - Returns: the relay's id.
    package static func make(
        of directory: DataDirectory,
        at path: String,
        replacing: Bool,
        now: Milliseconds
    ) throws -> RelayID {
        // Before the work; whether it is so at the end is looked at again.
        guard replacing || !FileManager.default.fileExists(atPath: path) else { throw BackupError.exists(path) }
        let key = try RelayKey.load(in: directory.path)
        let draft = try BackupDraft(beside: path)
        // The issuer's database comes last, and so is never older than the relay's. What it then knows more of is harmless: a login whose
        // device the relay has yet to see, or the end of a login whose revocation the relay's copy lacks. The other way round a device could
        // be revoked for the relay while its login goes on.
        for name in BackupArchive.names {
            let (source, copy) = ("\(directory.path)/\(name)", "\(draft.path)/\(name)")
            if name.hasSuffix(".sqlite") {
                try DatabaseCopy.make(of: source, at: copy)
            } else {
                try BackupArchive.copy(source, to: copy)
            }
        }
        try BackupArchive.write(
            BackupArchive.Description(relay: "\(key.id)", made: now.count),
            of: draft,
            to: path,
            replacing: replacing
        )
        return key.id
    }

    /// Puts a backup in a directory's place. All of it is checked before anything of the directory is touched.
    /// - Parameters:
    ///   - replacing: whether there may be something in the directory; a relay's files are then moved into a directory beside them.
    ///   - now: the relay's clock.
    /// - Returns: the relay's id, when the backup was made, and where the old files are.
    package static func restore(
        _ path: String,
        to directory: DataDirectory,
        replacing: Bool,
        now: Milliseconds
    ) async throws -> (relay: RelayID, made: Milliseconds, replaced: String?) {
        let directory = directory.path
        // Held until the end: no relay runs meanwhile.
        let lock = try StoreLock(directory: directory)
        defer { lock.release() }
        let files = FileManager.default
        let present = try files.contentsOfDirectory(atPath: directory).filter { !["relay.lock", "lost+found"].contains($0) }
        guard replacing || present.isEmpty else { throw BackupError.notEmpty(directory) }
        // What earlier attempts left.
        let (draft, ready) = ("\(directory)/restore.partial", "\(directory)/\(DataDirectory.restoring)")
        if files.fileExists(atPath: draft) { try files.removeItem(atPath: draft) }
        guard mkdir(draft, 0o700) == 0 else { throw BackupError.notWritable(draft, code: errno) }
        let (relay, made) = try await unpack(path, into: draft, now: now) {
            try? files.removeItem(atPath: draft)
        }
        // A mark of an earlier attempt stays, and so no relay starts on half of the files; what is in it is replaced.
        if files.fileExists(atPath: ready) {
            for name in BackupArchive.names { try move("\(draft)/\(name)", to: "\(ready)/\(name)") }
            try files.removeItem(atPath: draft)
        } else {
            try move(draft, to: ready)
        }
        // The mark is on the disk before anything is moved away.
        try BackupArchive.sync(directory)
        let replaced = try setAside(in: directory, now: now)
        for name in BackupArchive.names { try move("\(ready)/\(name)", to: "\(directory)/\(name)") }
        try BackupArchive.sync(directory)
        try files.removeItem(atPath: ready)
        return (relay, made, replaced)
    }

    /// Unpacks the files, and sees that they are a relay's and fit each other.
    private static func unpack(
        _ path: String,
        into directory: String,
        now: Milliseconds,
        failed: () -> Void
    ) async throws -> (RelayID, Milliseconds) {
        do {
            let description = try BackupArchive.unpack(path, into: directory)
            let key = try RelayKey.load(in: directory)
            guard "\(key.id)" == description.relay else { throw BackupError.damaged(path, "its key is another relay's") }
            let store = try SQLiteStore(directory: directory)
            // What the relay did since is not known: it may have offered each command that is in the copy.
            try await store.transact { try $0.setDatabaseBegan(now.count) }
            store.close()
            try Issuer(
                settings: .init(directory: directory, origins: [], audience: ""),
                now: { now },
                logger: Logger(label: "relayd") { _ in SwiftLogNoOpLogHandler() }
            ).close()
            unlink("\(directory)/relay.lock")
            return (key.id, Milliseconds(clamping: description.made))
        } catch {
            failed()
            throw error
        }
    }

    /// Moves a relay's files out of the way.
    private static func setAside(in directory: String, now: Milliseconds) throws -> String? {
        let names = BackupArchive.names.flatMap { [$0, $0 + "-wal", $0 + "-shm", $0 + "-journal"] } + [Serving.fileName]
        let present = names.filter { access("\(directory)/\($0)", F_OK) == 0 }
        guard !present.isEmpty else { return nil }
        let place = "\(directory)/replaced-\(now.count)"
        guard mkdir(place, 0o700) == 0 else { throw BackupError.notWritable(place, code: errno) }
        for name in present { try move("\(directory)/\(name)", to: "\(place)/\(name)") }
        return place
    }

    private static func move(_ path: String, to other: String) throws(BackupError) {
        guard rename(path, other) == 0 else { throw .notWritable(other, code: errno) }
    }
}
