// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

package import Foundation
package import RelayProtocol

/// The error of a system call.
package struct SystemError: Error, Equatable {
    package let number: Int32

    package init(_ number: Int32 = errno) { self.number = number }
}

/// An open file or folder. An entry is opened by its name relative to its open parent folder, one name at a time, and links are never
/// followed. So no name leads out of the folder, even if entries are moved or replaced meanwhile.
package final class OpenFile: Sendable {
    package let descriptor: Int32

    private init(_ descriptor: Int32) throws(SystemError) {
        guard descriptor >= 0 else { throw SystemError() }
        self.descriptor = descriptor
    }

    deinit { close(descriptor) }

    /// Opens a folder by a path that the user gave. Links in it are followed. A path beyond the system's limit is opened in parts.
    /// - Parameters:
    ///   - start: Where a relative path begins; `nil` for the working directory.
    ///   - creates: Whether missing folders of the path are created.
    package static func folder(at path: String, from start: OpenFile? = nil, creates: Bool = false) throws(SystemError) -> OpenFile {
        let slash = UInt8(ascii: "/")
        var rest = Array(path.utf8)[...]
        var folder = start
        repeat {
            var part = rest
            if part.count >= maximumPart {
                // At a slash, which stays with the first part: a path that begins with one is absolute.
                guard let end = part.prefix(maximumPart - 1).lastIndex(of: slash) else { throw SystemError(ENAMETOOLONG) }
                part = part[...end]
            }
            rest = rest[part.endIndex...].drop { $0 == slash }
            folder = try openFolder(String(decoding: part, as: UTF8.self), in: folder?.descriptor ?? AT_FDCWD, creates: creates)
        } while !rest.isEmpty
        guard let folder else { throw SystemError(ENOENT) }
        return folder
    }

    private static let maximumPart = Int(PATH_MAX)

    private static func openFolder(_ path: String, in folder: Int32, creates: Bool) throws(SystemError) -> OpenFile {
        if creates {
            let bytes = Array(path.utf8)
            for end in bytes.indices.dropFirst() where bytes[end] == UInt8(ascii: "/") || end == bytes.count - 1 {
                let last = bytes[end] == UInt8(ascii: "/") ? end : end + 1
                _ = mkdirat(folder, String(decoding: bytes[..<last], as: UTF8.self), 0o777)
            }
            if bytes.count == 1 { _ = mkdirat(folder, path, 0o777) }
        }
        return try OpenFile(openat(folder, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC))
    }

    /// The target of a link in this folder; `nil` if the name is not a link.
    package func target(of name: EntryName) -> String? {
        var bytes = [UInt8](repeating: 0, count: Self.maximumPart)
        let count = bytes.withUnsafeMutableBytes { buffer in
            buffer.withMemoryRebound(to: CChar.self) { text in
                text.baseAddress.map { readlinkat(descriptor, name.text, $0, text.count) } ?? -1
            }
        }
        return count > 0 ? String(validating: bytes.prefix(count), as: UTF8.self) : nil
    }

    package func facts() throws(SystemError) -> FileFacts {
        guard let facts = FileFacts(descriptor) else { throw SystemError() }
        return facts
    }

    // MARK: Folders

    /// The attributes of an entry; `nil` if it does not exist.
    package func facts(of name: EntryName) throws(SystemError) -> FileFacts? {
        if let facts = FileFacts(name, in: descriptor) { return facts }
        guard errno == ENOENT else { throw SystemError() }
        return nil
    }

    /// Opens an entry. Does not block on a pipe.
    package func open(_ name: EntryName, _ flags: Int32, mode: mode_t = 0) throws(SystemError) -> OpenFile {
        try OpenFile(openat(descriptor, name.text, flags | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, mode))
    }

    /// Opens a folder, and creates it if the name does not exist.
    package func makeFolder(_ name: EntryName) throws(SystemError) -> OpenFile {
        guard mkdirat(descriptor, name.text, 0o777) == 0 || errno == EEXIST else { throw SystemError() }
        return try open(name, O_RDONLY | O_DIRECTORY)
    }

    /// Makes a folder; fails with `EEXIST` if the name exists.
    package func makeNewFolder(_ name: EntryName) throws(SystemError) -> OpenFile {
        guard mkdirat(descriptor, name.text, 0o700) == 0 else { throw SystemError() }
        return try open(name, O_RDONLY | O_DIRECTORY)
    }

    /// Moves a file or folder into another folder of the file system; fails with `EEXIST` if the new name exists there.
    package func move(_ name: EntryName, to other: EntryName, in folder: OpenFile, isFolder: Bool) throws(SystemError) {
        guard isFolder else { return try rename(name, to: other, in: folder) }
        // Reserves the name: a folder replaces only an empty one.
        guard mkdirat(folder.descriptor, other.text, 0o700) == 0 else { throw SystemError() }
        guard renameat(descriptor, name.text, folder.descriptor, other.text) == 0 else {
            let error = SystemError()
            unlinkat(folder.descriptor, other.text, AT_REMOVEDIR)
            throw error.number == ENOTEMPTY ? SystemError(EEXIST) : error
        }
    }

    /// Removes a file, or a folder with all its content. Links are removed, and never followed.
    package func removeAll(_ name: EntryName) throws(SystemError) {
        guard unlinkat(descriptor, name.text, 0) != 0, errno != ENOENT else { return }
        guard errno == EISDIR || errno == EPERM else { throw SystemError() }
        let folder = try open(name, O_RDONLY | O_DIRECTORY)
        for inner in try folder.names() {
            // A name that is no text was not made by a transfer: the folder is not empty then, and stays.
            guard let text = String(validating: inner, as: UTF8.self), let name = EntryName(local: text) else { continue }
            try folder.removeAll(name)
        }
        guard unlinkat(descriptor, name.text, AT_REMOVEDIR) == 0 else { throw SystemError() }
    }

    /// The bytes that this user can still store on the file system of this folder; `nil` if the system does not say.
    package var freeBytes: Int64? {
        var facts = statvfs()
        guard fstatvfs(descriptor, &facts) == 0 else { return nil }
        let (bytes, overflow) = UInt64(facts.f_bavail).multipliedReportingOverflow(by: UInt64(facts.f_frsize))
        return overflow ? .max : Int64(clamping: bytes)
    }

    package func removeEmptyFolder(_ name: EntryName) { unlinkat(descriptor, name.text, AT_REMOVEDIR) }

    package func remove(_ name: EntryName) { unlinkat(descriptor, name.text, 0) }

    /// Moves a file into another folder of the file system, and replaces the file with its name there.
    package func replace(_ name: EntryName, in folder: OpenFile) throws(SystemError) {
        guard renameat(descriptor, name.text, folder.descriptor, name.text) == 0 else { throw SystemError() }
    }

    private func rename(_ name: EntryName, to other: EntryName, in folder: OpenFile) throws(SystemError) {
        if linkat(descriptor, name.text, folder.descriptor, other.text, 0) == 0 { return remove(name) }
        let error = SystemError()
        guard [EPERM, ENOTSUP, EOPNOTSUPP, ENOSYS].contains(error.number) else { throw error }
        try renameOverReservation(name, to: other, in: folder)
    }

    /// Renames without replacing on a file system without hard links: reserves the name with an empty file, and replaces that.
    package func renameOverReservation(_ name: EntryName, to other: EntryName, in folder: OpenFile) throws(SystemError) {
        _ = try folder.open(other, O_WRONLY | O_CREAT | O_EXCL, mode: 0o600)
        guard renameat(descriptor, name.text, folder.descriptor, other.text) == 0 else {
            let error = SystemError()
            folder.remove(other)
            throw error
        }
    }

    /// All names, as bytes: a name need not be UTF-8.
    package func names() throws(SystemError) -> [[UInt8]] {
        // `closedir` closes its descriptor, so the stream gets a copy.
        let copy = fcntl(descriptor, F_DUPFD_CLOEXEC, 0)
        guard copy >= 0 else { throw SystemError() }
        guard let stream = fdopendir(copy) else {
            let error = SystemError()
            close(copy)
            throw error
        }
        defer { closedir(stream) }
        rewinddir(stream)
        var names: [[UInt8]] = []
        while let next = readdir(stream) {
            let name = withUnsafeBytes(of: &next.pointee.d_name) { Array($0.prefix { $0 != 0 }) }
            if !name.elementsEqual(".".utf8), !name.elementsEqual("..".utf8) { names.append(name) }
        }
        return names
    }

    // MARK: Files

    /// - Returns: fewer bytes than requested only at the end of the file.
    package func read(from offset: Int64, count: Int) throws(SystemError) -> [UInt8] {
        var bytes = [UInt8](repeating: 0, count: count)
        let filled = try bytes.withUnsafeMutableBytes { memory in
            Result { () throws(SystemError) in try read(into: memory, from: offset) }
        }.get()
        bytes.removeLast(count - filled)
        return bytes
    }

    /// Reads into memory.
    /// - Returns: The number of bytes, which is smaller than the memory only at the end of the file.
    package func read(into memory: UnsafeMutableRawBufferPointer, from offset: Int64) throws(SystemError) -> Int {
        var filled = 0
        while filled < memory.count {
            let got = pread(descriptor, memory.baseAddress.map { $0 + filled }, memory.count - filled, off_t(offset) + off_t(filled))
            if got < 0, errno == EINTR { continue }
            guard got >= 0 else { throw SystemError() }
            if got == 0 { break }
            filled += got
        }
        return filled
    }

    package func write(_ bytes: [UInt8], at offset: Int64) throws(SystemError) {
        try bytes.withUnsafeBytes { memory in Result { () throws(SystemError) in try write(memory, at: offset) } }.get()
    }

    package func write(_ bytes: UnsafeRawBufferPointer, at offset: Int64) throws(SystemError) {
        var done = 0
        while done < bytes.count {
            let count = pwrite(descriptor, bytes.baseAddress.map { $0 + done }, bytes.count - done, off_t(offset) + off_t(done))
            if count < 0, errno == EINTR { continue }
            guard count > 0 else { throw SystemError() }
            done += count
        }
    }

    package func truncate() throws(SystemError) {
        guard ftruncate(descriptor, 0) == 0, fsync(descriptor) == 0 else { throw SystemError() }
    }

    package func synchronize() throws(SystemError) {
        guard fsync(descriptor) == 0 else { throw SystemError() }
    }

    /// The lock of an open file or folder, which it keeps open. It ends with this object.
    package final class Lock: Sendable {
        private let file: OpenFile

        fileprivate init(_ file: OpenFile) { self.file = file }

        deinit { FileLock.end(file.descriptor) }
    }

    /// Locks the file or folder.
    /// - Returns: `nil` if another holder has the lock.
    package func lock() throws(SystemError) -> Lock? {
        guard let number = FileLock.begin(descriptor) else { return Lock(self) }
        guard number == EWOULDBLOCK else { throw SystemError(number) }
        return nil
    }

    /// Sets the permissions, if the file system supports that.
    package func setPermissions(_ permissions: mode_t) { _ = fchmod(descriptor, permissions) }

    /// The permissions of a new file. Reading the mask requires setting it; the temporary mask gives other users no access.
    package static let newFilePermissions: mode_t = {
        let mask = umask(0o077)
        umask(mask)
        return 0o666 & ~mask
    }()

    /// Sets the modification time, if the date is in the range of file times.
    package func setModified(_ date: Date) {
        let seconds = date.timeIntervalSince1970
        guard seconds.isFinite, abs(seconds) < 1e11 else { return }
        let whole = seconds.rounded(.down)
        let time = timespec(tv_sec: time_t(whole), tv_nsec: min(Int((seconds - whole) * 1e9), 999_999_999))
        _ = futimens(descriptor, [time, time])
    }
}
