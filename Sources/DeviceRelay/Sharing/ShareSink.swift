// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import NIOCore
import RelayProtocol
import RelayStorage

/// Writes the files of an accepted offer.
actor ShareSink {
    /// What must stay free on the file system.
    static let reserve: Int64 = 1 << 30
    /// What is read at once to hash a part that is here.
    private static let readBytes = 1 << 20

    private struct File {
        enum State {
            /// Bytes up to the position are in the place of the transfer.
            case arriving(position: Int64, DigestStream)
            /// A file of its size and time has its name in the destination folder already.
            case existing(DigestStream)
            case complete
            case failed(ShareMessages.EntryProblem)
        }

        var state: State
        let size: Int64
        /// Whether the place of the transfer has a file of this name. Otherwise it is made anew: on some systems other names mean the same.
        var isThere = false
    }

    private let executor = FileExecutor()
    nonisolated var unownedExecutor: UnownedSerialExecutor { executor.asUnownedSerialExecutor() }

    private let offer: ShareOffer
    private let sender: String
    private let path: String
    private let room: ShareRoom
    private var destination: OpenFile?
    /// The places of the top entries, by their names. A top entry that is here already has none.
    private var staging: [EntryName: ShareStaging] = [:]
    private var files: [Int: File] = [:]
    /// The file that is written now.
    private var open: (entry: Int, file: OpenFile)?
    /// How far the transfer is.
    nonisolated let progress: CurrentValue<NearShareProgress>

    /// - Parameters:
    ///   - sender: Identifies the sender.
    ///   - path: The destination folder. It is created if it does not exist.
    ///   - room: What all running transfers of this process need.
    init(_ offer: ShareOffer, from sender: String, to path: String, room: ShareRoom) {
        (self.offer, self.sender, self.path, self.room) = (offer, sender, path, room)
        progress = CurrentValue(
            NearShareProgress(bytesSent: 0, totalBytesToSend: offer.bytes, filesSent: 0, totalFilesToSend: offer.fileCount)
        )
    }

    // MARK: The start

    /// Opens the destination and finds what an earlier transfer has left.
    func prepare() throws(ShareFailure) -> [ShareMessages.Have] {
        var have: [ShareMessages.Have] = []
        do throws(SystemError) {
            let destination = try OpenFile.folder(at: path, creates: true)
            self.destination = destination
            ShareStaging.removeAbandoned(in: destination)
            for (entry, content) in offer.entries.enumerated() {
                guard let size = content.size else { continue }
                if content.isTop, let digest = try existing(content, size, in: destination) {
                    files[entry] = File(state: .existing(digest), size: size)
                    have.append(.init(entry: UInt32(entry), length: size, digest: digest.digest))
                    continue
                }
                let (position, digest, isThere) = try started(content, size)
                files[entry] = File(state: .arriving(position: position, digest), size: size, isThere: isThere)
                if position > 0 { have.append(.init(entry: UInt32(entry), length: position, digest: digest.digest)) }
            }
        } catch {
            throw ShareFailure(error)
        }
        let here = have.reduce(Int64(0)) { $0 + $1.length }
        guard room.take(offer.bytes - here, of: destination?.freeBytes, for: ObjectIdentifier(self)) else { throw ShareFailure(.diskFull) }
        progress.update { $0.add(here, files: 0) }
        return have
    }

    /// A top file with the name, size and time of an offered one.
    private func existing(_ entry: ShareOffer.Entry, _ size: Int64, in folder: OpenFile) throws(SystemError) -> DigestStream? {
        guard let name = entry.path.first, let there = try? folder.facts(of: name), there.isFile, there.size == size,
            let file = try? folder.open(name, O_RDONLY), let facts = try? file.facts(), facts.isFile, facts.isUnshared, facts.size == size,
            facts.modifiedMilliseconds == entry.modified
        else { return nil }
        return try? Self.digest(of: file, bytes: size)
    }

    /// How much of a file is in the place of the transfer.
    private func started(_ entry: ShareOffer.Entry, _ size: Int64) throws(SystemError) -> (Int64, DigestStream, isThere: Bool) {
        guard let name = entry.path.last, let place = try place(of: entry) else { throw SystemError(ENOENT) }
        guard let folder = try? place.folder(entry.path.dropLast(), creates: false), let facts = try? folder.facts(of: name) else {
            return (0, DigestStream(), false)
        }
        let file = try folder.open(name, O_RDONLY)
        // What is not continued is cut by the first write.
        guard facts.size > 0, facts.size <= size, let digest = try? Self.digest(of: file, bytes: facts.size) else {
            return (0, DigestStream(), true)
        }
        return (facts.size, digest, true)
    }

    /// The place of a top entry, which is taken when it is needed.
    private func place(of entry: ShareOffer.Entry) throws(SystemError) -> ShareStaging? {
        guard let top = entry.path.first, let destination else { return nil }
        if let place = staging[top] { return place }
        let place = try ShareStaging(top, from: sender, in: destination)
        var kinds: [[EntryName]: ShareOffer.Entry.Kind] = [:]
        for entry in offer.entries where entry.path.first == top { kinds[entry.path] = entry.kind }
        try place.prune(keeping: kinds)
        staging[top] = place
        return place
    }

    private static func digest(of file: OpenFile, bytes: Int64) throws(SystemError) -> DigestStream {
        var (digest, position) = (DigestStream(), Int64(0))
        let memory = UnsafeMutableRawBufferPointer.allocate(byteCount: readBytes, alignment: 16)
        defer { memory.deallocate() }
        while position < bytes {
            let part = UnsafeMutableRawBufferPointer(rebasing: memory[..<Int(min(Int64(readBytes), bytes - position))])
            let count = try file.read(into: part, from: position)
            guard count == part.count else { throw SystemError(EIO) }
            digest.add(UnsafeRawBufferPointer(part))
            position += Int64(count)
        }
        return digest
    }

    // MARK: The content

    /// Takes frames in the order in which they arrived.
    /// - Throws: What ends the transfer.
    func take(_ frames: [BulkFrame]) throws(ShareFailure) {
        var (bytes, ended) = (Int64(0), 0)
        defer {
            progress.update { $0.add(bytes, files: ended) }
            room.written(bytes, by: ObjectIdentifier(self))
        }
        for frame in frames {
            switch frame {
            case .data(let entry, let offset, let data):
                bytes += try write(data, to: Int(entry), at: offset)
            case .end(let entry, let size, let digest):
                try end(Int(entry), size, digest)
                ended += 1
            case .abandoned(let entry):
                let entry = Int(entry)
                guard files[entry] != nil else { throw ShareFailure(.invalid) }
                fail(entry, .abandoned)
                ended += 1
            case .complete: break
            }
        }
    }

    /// - Returns: The number of new bytes.
    private func write(_ data: ByteBuffer, to entry: Int, at offset: UInt64) throws(ShareFailure) -> Int64 {
        guard let file = files[entry], let offset = Int64(exactly: offset), offset <= file.size - Int64(data.readableBytes) else {
            throw ShareFailure(.invalid)
        }
        var (position, digest): (Int64, DigestStream)
        switch file.state {
        case .failed: return Int64(data.readableBytes)
        case .complete: throw ShareFailure(.invalid)
        case .existing: (position, digest) = (file.size, DigestStream())
        case .arriving(let at, let so): (position, digest) = (at, so)
        }
        // The sender did not accept the part that was here.
        let isRestart = offset == 0 && position > 0
        var new = Int64(data.readableBytes)
        if isRestart {
            new -= position
            (position, digest) = (0, DigestStream())
        }
        guard offset == position else { throw ShareFailure(.invalid) }
        let before = position
        do throws(SystemError) {
            let target = try target(entry, at: position)
            try data.withUnsafeReadableBytes { memory in
                digest.add(memory)
                return Result { () throws(SystemError) in try target.write(memory, at: position) }
            }.get()
            position += Int64(data.readableBytes)
            target.startFlushing(from: before, bytes: data.readableBytes)
            files[entry]?.state = .arriving(position: position, digest)
        } catch {
            try failed(entry, error)
        }
        return new
    }

    /// The open file of an entry, which has nothing behind a position. At its beginning it is emptied: a part that is not continued may be
    /// longer than the file.
    private func target(_ entry: Int, at position: Int64) throws(SystemError) -> OpenFile {
        if let open, open.entry == entry, position > 0 { return open.file }
        open = nil
        let content = offer.entries[entry]
        guard let name = content.path.last, let place = try place(of: content) else { throw SystemError(ENOENT) }
        let flags = files[entry]?.isThere == true ? O_RDWR : O_RDWR | O_CREAT | O_EXCL
        let file = try place.folder(content.path.dropLast(), creates: true).open(name, flags, mode: 0o600)
        guard let facts = try? file.facts(), facts.isFile, facts.isUnshared else { throw SystemError(EEXIST) }
        files[entry]?.isThere = true
        if position == 0 { try file.truncate() }
        open = (entry, file)
        return file
    }

    private func end(_ entry: Int, _ size: UInt64, _ expected: Digest256) throws(ShareFailure) {
        guard let file = files[entry], size == UInt64(file.size) else { throw ShareFailure(.invalid) }
        switch file.state {
        case .failed: return
        case .complete: throw ShareFailure(.invalid)
        case .existing(let digest):
            guard digest.digest == expected else { throw ShareFailure(.invalid) }
            files[entry]?.state = .complete
        case .arriving(let position, let digest):
            guard position == file.size, digest.digest == expected else {
                return fail(entry, .damaged)
            }
            do throws(SystemError) {
                let target = try target(entry, at: position)
                guard try target.facts().size == file.size else { return fail(entry, .damaged) }
                target.setModified(offer.entries[entry].modifiedDate)
                target.setPermissions(OpenFile.newFilePermissions)
                #if !os(Linux)
                try target.synchronize()
                #endif
                files[entry]?.state = .complete
            } catch {
                try failed(entry, error)
            }
        }
        open = nil
    }

    private func failed(_ entry: Int, _ error: SystemError) throws(ShareFailure) {
        switch error.number {
        case ENAMETOOLONG, EILSEQ, EINVAL: fail(entry, .nameNotPossible)
        case EACCES, EPERM, EEXIST, EISDIR, ENOTDIR, ELOOP: fail(entry, .notWritable)
        default: throw ShareFailure(error)
        }
    }

    private func fail(_ entry: Int, _ problem: ShareMessages.EntryProblem) {
        files[entry]?.state = .failed(problem)
        open = nil
        let content = offer.entries[entry]
        guard let name = content.path.last, let place = staging[content.path[0]] else { return }
        (try? place.folder(content.path.dropLast(), creates: false))?.remove(name)
    }

    // MARK: The end

    /// Gives all files their names, and returns when they are on the disk.
    func finish() throws(ShareFailure) -> ShareMessages.Finish.Response {
        var failed: [ShareMessages.Failed] = []
        for (entry, file) in files.sorted(by: { $0.key < $1.key }) {
            switch file.state {
            case .complete: break
            case .failed(let problem): failed.append(.init(entry: UInt32(entry), problem: problem))
            case .arriving, .existing: throw ShareFailure(.invalid)
            }
        }
        do throws(SystemError) {
            for entry in offer.entries where entry.size == nil {
                // Also those without any file.
                _ = try place(of: entry)?.folder(entry.path, creates: true)
            }
            #if os(Linux)
            // One call is much faster than one for each file.
            try destination?.synchronizeFileSystem()
            #endif
            var names: [String] = []
            for (entry, content) in offer.entries.enumerated() where content.isTop {
                do throws(SystemError) {
                    names.append(try publish(entry, content)?.text ?? "")
                } catch {
                    guard ![ENOSPC, EDQUOT, EIO].contains(error.number) else { throw error }
                    names.append("")
                    failed.append(.init(entry: UInt32(entry), problem: error.number == ENAMETOOLONG ? .nameNotPossible : .notWritable))
                }
            }
            try destination?.synchronize()
            return .init(names: names, failed: failed.isEmpty ? nil : failed)
        } catch {
            throw ShareFailure(error)
        }
    }

    private func publish(_ entry: Int, _ content: ShareOffer.Entry) throws(SystemError) -> EntryName? {
        let name = content.path[0]
        if case .failed? = files[entry]?.state {
            staging.removeValue(forKey: name)?.remove()
            return nil
        }
        // A file that is here already has no place.
        guard let place = staging.removeValue(forKey: name) else {
            guard let facts = try destination?.facts(of: name), facts.isFile, facts.size == content.size else { throw SystemError(ENOENT) }
            return name
        }
        return try place.publish(isFolder: content.size == nil)
    }

    /// Ends the transfer. What has arrived stays for the next attempt, except places without any content.
    func close() {
        open = nil
        room.release(ObjectIdentifier(self))
        for place in staging.values { place.removeIfEmpty() }
        staging = [:]
    }
}

extension ShareOffer.Entry {
    /// When its content was changed.
    var modifiedDate: Date { Date(timeIntervalSince1970: Double(modified) / 1_000) }
}

/// What ends a transfer on the receiving side.
struct ShareFailure: Error {
    let problem: ShareMessages.Problem

    init(_ problem: ShareMessages.Problem) { self.problem = problem }

    init(_ error: SystemError) {
        switch error.number {
        case ENOSPC, EDQUOT, EFBIG: problem = .diskFull
        case EWOULDBLOCK: problem = .busy
        default: problem = .notWritable
        }
    }
}
