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

/// Why the system did not do what it was asked for.
struct SystemError: Error, Equatable {
    let number: Int32

    init(_ number: Int32 = errno) { self.number = number }
}

/// An open file or folder. What is in a folder is reached by its name in that open folder, one name after the other, and a link is never
/// followed: so no name leads out, and nothing that is moved or replaced meanwhile changes where it leads.
final class OpenFile: Sendable {
    let descriptor: Int32

    private init(_ descriptor: Int32) throws(SystemError) {
        guard descriptor >= 0 else { throw SystemError() }
        self.descriptor = descriptor
    }

    deinit { close(descriptor) }

    /// Opens a folder by a path that the person gave; links in it are the person's own.
    static func folder(at path: String) throws(SystemError) -> OpenFile {
        try OpenFile(openat(AT_FDCWD, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC))
    }

    func facts() throws(SystemError) -> FileFacts {
        guard let facts = FileFacts(descriptor) else { throw SystemError() }
        return facts
    }

    // MARK: In a folder

    /// What a name stands for; `nil` if there is nothing.
    func facts(of name: EntryName) throws(SystemError) -> FileFacts? {
        if let facts = FileFacts(name, in: descriptor) { return facts }
        guard errno == ENOENT else { throw SystemError() }
        return nil
    }

    /// Opens without waiting for the other end of a pipe.
    func open(_ name: EntryName, _ flags: Int32, mode: mode_t = 0) throws(SystemError) -> OpenFile {
        try OpenFile(openat(descriptor, name.text, flags | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, mode))
    }

    /// Opens a folder, which is made if there is nothing of that name.
    func makeFolder(_ name: EntryName) throws(SystemError) -> OpenFile {
        guard mkdirat(descriptor, name.text, 0o777) == 0 || errno == EEXIST else { throw SystemError() }
        return try open(name, O_RDONLY | O_DIRECTORY)
    }

    func remove(_ name: EntryName) { unlinkat(descriptor, name.text, 0) }

    /// Gives a file another name in the same folder, in the place of the file that has it.
    func replace(_ name: EntryName, with other: EntryName) throws(SystemError) {
        guard renameat(descriptor, other.text, descriptor, name.text) == 0 else { throw SystemError() }
    }

    /// Gives a file another name in the same folder, if nothing has it: `EEXIST`.
    func rename(_ name: EntryName, to other: EntryName) throws(SystemError) {
        if linkat(descriptor, name.text, descriptor, other.text, 0) == 0 { return remove(name) }
        let error = SystemError()
        guard [EPERM, ENOTSUP, EOPNOTSUPP, ENOSYS].contains(error.number) else { throw error }
        try renameOverReservation(name, to: other)
    }

    /// The same on a file system where a file has one name only: an empty file takes the name first, and is replaced then.
    func renameOverReservation(_ name: EntryName, to other: EntryName) throws(SystemError) {
        _ = try open(other, O_WRONLY | O_CREAT | O_EXCL, mode: 0o600)
        do throws(SystemError) {
            try replace(other, with: name)
        } catch {
            remove(other)
            throw error
        }
    }

    /// All names; those that are no text are left out, for they cannot be asked for.
    func names() throws(SystemError) -> [String] {
        // The stream closes its descriptor; this one is needed until then.
        let copy = fcntl(descriptor, F_DUPFD_CLOEXEC, 0)
        guard copy >= 0 else { throw SystemError() }
        guard let stream = fdopendir(copy) else {
            let error = SystemError()
            close(copy)
            throw error
        }
        defer { closedir(stream) }
        rewinddir(stream)
        var names: [String] = []
        while let next = readdir(stream) {
            let name = withUnsafePointer(to: &next.pointee.d_name) {
                $0.withMemoryRebound(to: CChar.self, capacity: MemoryLayout.size(ofValue: $0.pointee)) { String(validatingCString: $0) }
            }
            if let name { names.append(name) }
        }
        return names
    }

    // MARK: In a file

    /// - Returns: Fewer bytes only at the end of the file.
    func read(from offset: Int64, count: Int) throws(SystemError) -> [UInt8] {
        var bytes = [UInt8](repeating: 0, count: count)
        var filled = 0
        while filled < count {
            let got = bytes.withUnsafeMutableBytes { buffer in
                pread(descriptor, buffer.baseAddress.map { $0 + filled }, count - filled, off_t(offset) + off_t(filled))
            }
            if got < 0, errno == EINTR { continue }
            guard got >= 0 else { throw SystemError() }
            if got == 0 { break }
            filled += got
        }
        bytes.removeLast(count - filled)
        return bytes
    }

    func write(_ bytes: [UInt8], at offset: Int64) throws(SystemError) {
        var done = 0
        while done < bytes.count {
            let count = bytes.withUnsafeBytes {
                pwrite(descriptor, $0.baseAddress.map { $0 + done }, bytes.count - done, off_t(offset) + off_t(done))
            }
            if count < 0, errno == EINTR { continue }
            guard count > 0 else { throw SystemError() }
            done += count
        }
    }

    func truncate() throws(SystemError) {
        guard ftruncate(descriptor, 0) == 0, fsync(descriptor) == 0 else { throw SystemError() }
    }

    func synchronize() throws(SystemError) {
        guard fsync(descriptor) == 0 else { throw SystemError() }
    }

    /// Whether no other process holds it; it is let go with the last descriptor.
    func lock() -> Bool { flock(descriptor, LOCK_EX | LOCK_NB) == 0 }

    /// Says who may read, write and run it, where the file system can say that.
    func setPermissions(_ permissions: mode_t) { _ = fchmod(descriptor, permissions) }

    /// What a new file gets. Read once, for which it has to be changed: to one that gives others nothing.
    static let newFilePermissions: mode_t = {
        let mask = umask(0o077)
        umask(mask)
        return 0o666 & ~mask
    }()

    /// Says when it was written, as far as a date can be a time of a file.
    func setModified(_ date: Date) {
        let seconds = date.timeIntervalSince1970
        guard seconds.isFinite, abs(seconds) < 1e11 else { return }
        let whole = seconds.rounded(.down)
        let time = timespec(tv_sec: time_t(whole), tv_nsec: min(Int((seconds - whole) * 1e9), 999_999_999))
        _ = futimens(descriptor, [time, time])
    }
}
