// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import RelayStorage
import RelayTesting
import Testing

@Suite final class PrivateFileTests {
    private let directory = FileManager.default.temporaryDirectory.appending(path: "files-\(UUID().uuidString)").path
    private var path: String { directory + "/file" }

    init() throws { try PrivateDirectory.make(directory) }

    deinit { try? FileManager.default.removeItem(atPath: directory) }

    private func mode(_ path: String) throws -> Int? {
        try FileManager.default.attributesOfItem(atPath: path)[.posixPermissions] as? Int
    }

    private func problem(_ body: () throws -> Void) -> StorageError.Problem? {
        do {
            try body()
            return nil
        } catch {
            return (error as? StorageError)?.problem
        }
    }

    @Test func fileIsCreatedOnceReplacedAndPrivate() throws {
        #expect(try PrivateFile.contents(of: path) == nil)
        #expect(try PrivateFile.create(path, with: [1]))
        #expect(try PrivateFile.create(path, with: [2]) == false)
        #expect(try PrivateFile.contents(of: path) == [1])
        try PrivateFile.replace(path, with: Array(repeating: 3, count: 100_000))
        #expect(try PrivateFile.contents(of: path) == Array(repeating: 3, count: 100_000))
        #expect(try mode(path) == 0o600)
        #expect(try mode(directory) == 0o700)
        #expect(try PrivateDirectory.names(in: directory) == ["file"])
        try PrivateFile.delete(path)
        try PrivateFile.delete(path)
        #expect(try PrivateDirectory.names(in: directory).isEmpty)
        #expect(try PrivateDirectory.names(in: directory + "/none").isEmpty)
    }

    @Test func onlyOneConcurrentCreateSucceeds() async throws {
        let path = path
        let made = try await withThrowingTaskGroup(of: UInt8?.self) { group in
            for number in 0..<16 as Range<UInt8> { group.addTask { try PrivateFile.create(path, with: [number]) ? number : nil } }
            return try await group.reduce(into: [UInt8]()) { if let number = $1 { $0.append(number) } }
        }
        #expect(made.count == 1)
        #expect(try PrivateFile.contents(of: path) == made)
        #expect(try PrivateDirectory.names(in: directory) == ["file"])
    }

    @Test func onlyPrivateRegularFilesAreRead() throws {
        #expect(try PrivateFile.create(path, with: [1, 2, 3]))
        #expect(try PrivateFile.contents(of: path, upTo: 3) == [1, 2, 3])
        #expect(problem { _ = try PrivateFile.contents(of: path, upTo: 2) } == .damaged)
        for mode in [0o640, 0o604, 0o601] {
            try FileManager.default.setAttributes([.posixPermissions: mode], ofItemAtPath: path)
            #expect(problem { _ = try PrivateFile.contents(of: path) } == .accessibleToOthers)
        }
        try PrivateFile.restrict(path)
        #expect(try PrivateFile.contents(of: path) == [1, 2, 3])
        let (link, pipe, folder) = (directory + "/link", directory + "/pipe", directory + "/folder")
        try FileManager.default.createSymbolicLink(atPath: link, withDestinationPath: path)
        #expect(problem { _ = try PrivateFile.contents(of: link) } == .notReadable)
        // Reading does not wait for a pipe without a writer.
        #expect(mkfifo(pipe, 0o600) == 0)
        try PrivateDirectory.make(folder)
        for other in [pipe, folder] { #expect(problem { _ = try PrivateFile.contents(of: other) } == .damaged) }
        #expect(problem { try PrivateFile.replace(folder, with: [1]) } != nil)
        #expect(try PrivateDirectory.names(in: directory) == ["file", "folder", "link", "pipe"])
    }

    @Test func directoryWritableByOthersIsRejected() throws {
        try PrivateDirectory.check(directory)
        try FileManager.default.setAttributes([.posixPermissions: 0o770], ofItemAtPath: directory)
        #expect(problem { try PrivateDirectory.check(directory) } == .accessibleToOthers)
        #expect(problem { try PrivateDirectory.check(directory + "/none") } == .notReadable)
        #expect(try PrivateFile.create(path))
        #expect(problem { try PrivateDirectory.make(path) } == .notADirectory)
        try PrivateDirectory.makeAll(directory + "/a/b/c")
        #expect(try mode(directory + "/a/b") == 0o700)
    }

    @Test func lockHasOneHolder() throws {
        let first = try #require(try FileLock(tryLocking: path))
        #expect(try FileLock(tryLocking: path) == nil)
        first.sign("the first")
        #expect(FileLock.holder(of: path) == "the first")
        first.release()
        let second = try #require(try FileLock(tryLocking: path))
        #expect(try FileLock(tryLocking: path) == nil)
        withExtendedLifetime((first, second)) {}
        #expect(try mode(path) == 0o600)
    }

    @Test func lockIsReleasedWithItsHolder() throws {
        do {
            let lock = try FileLock(tryLocking: path)
            #expect(lock != nil)
        }
        #expect(try FileLock(tryLocking: path) != nil)
    }

    @Test func replacedFileIsLockedBeforeItHasItsName() throws {
        #expect(FileLock.isHeld(path) == nil)
        do {
            let first = try FileLock(replacing: path, with: [1])
            #expect(FileLock.isHeld(path) == true)
            #expect(try PrivateFile.contents(of: path) == [1])
            let second = try FileLock(replacing: path, with: [2])
            // The lock of the replaced file does not count.
            first.release()
            #expect(FileLock.isHeld(path) == true)
            withExtendedLifetime((first, second)) {}
        }
        #expect(FileLock.isHeld(path) == false)
        #expect(try PrivateFile.contents(of: path) == [2])
        #expect(try mode(path) == 0o600)
        #expect(problem { _ = try FileLock(replacing: directory + "/none/file", with: []) } == .notWritable)
        #expect(try PrivateDirectory.names(in: directory) == ["file"])
    }

    /// A child process has copies of all descriptors until its program starts. They keep no lock.
    @Test func lockEndsWithItsHolderWhileAChildProcessStarts() throws {
        func copies(whileLocked path: String, by lock: () throws -> AnyObject?) throws -> DescriptorCopies {
            let holder = try lock()
            #expect(holder != nil)
            return withExtendedLifetime(holder) { DescriptorCopies(of: path) }
        }
        let file = path
        try PrivateFile.replace(file, with: [1])
        let locks: [(path: String, lock: () throws -> AnyObject?)] = [
            (file, { try FileLock(tryLocking: file) }),
            (file, { try FileLock(replacing: file, with: [1]) }),
            (directory, { try OpenFile.folder(at: self.directory).lock() }),
            (
                directory,
                {
                    let folder = try OpenDirectory(self.directory)
                    return folder.tryLock() ? folder : nil
                }
            ),
        ]
        for (path, lock) in locks {
            let copies = try copies(whileLocked: path, by: lock)
            #expect(copies.count > 0)
            if path == file { #expect(FileLock.isHeld(path) == false) }
            #expect(try lock() != nil)
            withExtendedLifetime(copies) {}
        }
    }

    @Test func directoryLockHasOneHolder() throws {
        do {
            let holder = try OpenDirectory(directory)
            #expect(holder.tryLock())
            #expect(try !OpenDirectory(directory).tryLock())
            withExtendedLifetime(holder) {}
        }
        #expect(try OpenDirectory(directory).tryLock())
        #expect(problem { try PrivateDirectory.create(directory) } == .failed(EEXIST))
    }

    /// Names in an open directory lead nowhere else, also when another user replaces them.
    @Test func openDirectoryFollowsNoLink() throws {
        let parent = try OpenDirectory(directory)
        try parent.create("own")
        _ = try PrivateFile.create(directory + "/own/file", with: [1])
        try PrivateDirectory.create(directory + "/other")
        _ = try PrivateFile.create(directory + "/other/file", with: [2])
        #expect(symlink(directory + "/other", directory + "/link") == 0)
        for name in ["link", "none", "own/file"] { #expect(OpenDirectory(name, in: parent) == nil, "\(name)") }
        let own = try #require(OpenDirectory("own", in: parent))
        #expect(own.isOwn && own.isStill("own", in: parent) && !own.isStill("link", in: parent) && !own.isStill("other", in: parent))
        // The name now is a link to the other directory.
        #expect(rename(directory + "/own", directory + "/moved") == 0 && rename(directory + "/link", directory + "/own") == 0)
        #expect(!own.isStill("own", in: parent) && own.isStill("moved", in: parent))
        own.removeFiles()
        parent.removeDirectory("own")
        #expect(try PrivateDirectory.names(in: directory + "/moved") == [])
        #expect(try PrivateDirectory.names(in: directory + "/other") == ["file"])
        parent.removeDirectory("other")
        #expect(try PrivateDirectory.names(in: directory) == ["moved", "other", "own"])
        #expect(chmod(directory + "/moved", 0o777) == 0)
        #expect(!own.isOwn && own.isUnprotected && !parent.isUnprotected)
        #expect(chmod(directory + "/moved", 0o1777) == 0)
        #expect(!own.isUnprotected)
    }

    @Test func draftIsPublishedOrDeleted() throws {
        for (content, replaces) in [([1], false), ([2], false), ([3], true)] as [([UInt8], Bool)] {
            let draft = directory + "/draft"
            let file = try StorageFile(creating: draft)
            try file.append(content)
            try file.flush()
            #expect(try PrivateFile.publish(draft, as: path, replacing: replaces) == (content != [2]))
            #expect(try PrivateDirectory.names(in: directory) == ["file"])
            #expect(try PrivateFile.contents(of: path) == (content == [3] ? [3] : [1]))
        }
    }

    @Test func fileIsReadInPiecesAndCreatedOnce() throws {
        let link = directory + "/link"
        try FileManager.default.createSymbolicLink(atPath: link, withDestinationPath: path)
        #expect(problem { _ = try StorageFile(creating: link) } == .failed(EEXIST))
        #expect(!PrivateFile.exists(path))
        try StorageFile(creating: path).append(Array(0..<10))
        #expect(try mode(path) == 0o600)
        #expect(problem { _ = try StorageFile(creating: path) } == .failed(EEXIST))
        #expect(problem { _ = try StorageFile(reading: link) } == .notReadable)
        let file = try StorageFile(reading: link, isChosen: true)
        guard let file else {
            Issue.record("the file is missing")
            return
        }
        #expect(try file.facts().size == 10)
        #expect(try [file.next(6), file.next(6), file.next(6)] == [Array(0..<6), Array(6..<10), []])
    }
}
