// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

#if canImport(FoundationEssentials)
import FoundationEssentials
#else
import Foundation
#endif

#if canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#else
import Darwin
#endif

/// One folder of this machine, read only. No path leads out of it: every name is opened in the folder before it, links are never
/// followed, and nothing but files and folders is opened.
struct SharedFolder: Sendable {
    typealias Problem = FileCalls.Problem

    struct Failure: Error {
        var problem: Problem
    }

    let root: String

    // MARK: What is asked

    func entry(_ path: String) throws(Failure) -> FileCalls.Entry {
        let names = try Self.names(path)
        let file = try open(names)
        return Self.entry(names.last ?? "", try file.facts())
    }

    /// - Returns: At most so many, and whether there are more.
    func entries(_ path: String, after: String?, most: Int) throws(Failure) -> ([FileCalls.Entry], more: Bool) {
        let folder = try open(try Self.names(path))
        guard try folder.facts().isFolder else { throw Failure(problem: .notAFolder) }
        // The stream closes its descriptor; the other one is needed until then.
        guard let stream = fdopendir(dup(folder.descriptor)) else { throw Failure(problem: .failed) }
        defer { closedir(stream) }
        rewinddir(stream)
        var names: [String] = []
        while let next = readdir(stream) {
            let name = withUnsafePointer(to: &next.pointee.d_name) {
                $0.withMemoryRebound(to: CChar.self, capacity: MemoryLayout.size(ofValue: $0.pointee)) { String(validatingCString: $0) }
            }
            // A name that is no text cannot be asked for either.
            guard let name, name != ".", name != "..", after.map({ Self.isOrdered($0, name) }) ?? true else { continue }
            names.append(name)
        }
        names.sort(by: Self.isOrdered)
        var entries: [FileCalls.Entry] = []
        for (index, name) in names.enumerated() {
            guard let facts = FileFacts(name, in: folder.descriptor), facts.isFile || facts.isFolder else { continue }
            entries.append(Self.entry(name, facts))
            if entries.count == most { return (entries, index < names.count - 1) }
        }
        return (entries, false)
    }

    func read(_ path: String, from offset: Int64, count: Int, etag: String?) throws(Failure) -> FileCalls.Read.Response {
        let file = try open(try Self.names(path))
        let before = try file.facts()
        guard before.isFile else { throw Failure(problem: .notAFile) }
        guard etag == nil || etag == before.etag else { throw Failure(problem: .changed) }
        var bytes = [UInt8](repeating: 0, count: count)
        var filled = 0
        while filled < count {
            let got = bytes.withUnsafeMutableBytes { buffer in
                pread(file.descriptor, buffer.baseAddress.map { $0 + filled }, count - filled, off_t(offset) + off_t(filled))
            }
            if got < 0, errno == EINTR { continue }
            guard got >= 0 else { throw Failure(problem: .failed) }
            if got == 0 { break }
            filled += got
        }
        // What was read while somebody wrote is neither the old nor the new.
        guard try file.facts().etag == before.etag else { throw Failure(problem: .changed) }
        bytes.removeLast(count - filled)
        return FileCalls.Read.Response(data: bytes, size: before.size, etag: before.etag)
    }

    // MARK: The way to it

    /// The names that a path consists of.
    static func names(_ path: String) throws(Failure) -> [String] {
        guard !path.isEmpty else { return [] }
        let names = path.split(separator: "/", omittingEmptySubsequences: false).map(String.init)
        for name in names {
            guard !name.isEmpty, name != ".", name != "..", !name.utf8.contains(0) else { throw Failure(problem: .notAllowed) }
        }
        return names
    }

    /// Opens one name after the other, each in the folder before it.
    private func open(_ names: [String]) throws(Failure) -> OpenFile {
        // The folder itself may be reached through a link: it is the person's own setting.
        var file = OpenFile(openat(AT_FDCWD, root, O_RDONLY | O_DIRECTORY | O_CLOEXEC))
        guard file.descriptor >= 0 else { throw Failure(problem: .failed) }
        for name in names {
            guard let facts = FileFacts(name, in: file.descriptor) else { throw Failure(problem: .notFound) }
            guard !facts.isLink else { throw Failure(problem: .notAllowed) }
            // To open a pipe or a device would wait, or do something.
            guard facts.isFile || facts.isFolder else { throw Failure(problem: .notFound) }
            let next = OpenFile(openat(file.descriptor, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC))
            guard next.descriptor >= 0 else {
                switch errno {
                case ELOOP, EMLINK: throw Failure(problem: .notAllowed)
                case ENOENT, ENOTDIR: throw Failure(problem: .notFound)
                default: throw Failure(problem: .failed)
                }
            }
            // It may have been replaced since.
            let opened = try next.facts()
            guard opened.isFile || opened.isFolder else { throw Failure(problem: .notFound) }
            file = next
        }
        return file
    }

    private static func entry(_ name: String, _ facts: FileFacts) -> FileCalls.Entry {
        FileCalls.Entry(
            name: name,
            kind: facts.isFolder ? .folder : .file,
            size: facts.isFolder ? 0 : facts.size,
            modified: facts.modified,
            etag: facts.etag
        )
    }

    /// By their bytes: the same order on every machine.
    private static func isOrdered(_ one: String, _ other: String) -> Bool { one.utf8.lexicographicallyPrecedes(other.utf8) }
}

/// A descriptor that is closed when it is no longer needed.
private final class OpenFile {
    let descriptor: Int32

    init(_ descriptor: Int32) { self.descriptor = descriptor }

    deinit { if descriptor >= 0 { close(descriptor) } }

    func facts() throws(SharedFolder.Failure) -> FileFacts {
        guard let facts = FileFacts(descriptor) else { throw SharedFolder.Failure(problem: .failed) }
        return facts
    }
}

/// What the system says of a file.
private struct FileFacts {
    let isFile: Bool
    let isFolder: Bool
    let isLink: Bool
    let size: Int64
    let modified: Date
    let etag: String

    init?(_ descriptor: Int32) {
        var facts = stat()
        guard fstat(descriptor, &facts) == 0 else { return nil }
        self.init(facts)
    }

    init?(_ name: String, in folder: Int32) {
        var facts = stat()
        guard fstatat(folder, name, &facts, AT_SYMLINK_NOFOLLOW) == 0 else { return nil }
        self.init(facts)
    }

    private init(_ facts: stat) {
        let type = facts.st_mode & S_IFMT
        isFile = type == S_IFREG
        isFolder = type == S_IFDIR
        isLink = type == S_IFLNK
        size = Int64(facts.st_size)
        #if canImport(Darwin)
        let (written, changed) = (facts.st_mtimespec, facts.st_ctimespec)
        #else
        let (written, changed) = (facts.st_mtim, facts.st_ctim)
        #endif
        modified = Date(timeIntervalSince1970: Double(written.tv_sec) + Double(written.tv_nsec) / 1e9)
        // The time of change cannot be set back as that of writing can.
        etag = [
            UInt64(facts.st_ino), UInt64(bitPattern: size), UInt64(bitPattern: Int64(written.tv_sec)), UInt64(clamping: written.tv_nsec),
            UInt64(bitPattern: Int64(changed.tv_sec)), UInt64(clamping: changed.tv_nsec),
        ].map { String($0, radix: 36) }.joined(separator: "-")
    }
}
