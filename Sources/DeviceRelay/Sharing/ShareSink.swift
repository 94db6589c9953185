// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import NIOCore
package import RelayProtocol
package import RelayStorage

/// Writes the files that another device sends.
package actor ShareSink: BulkTaking {
    /// Why a file does not get its name.
    package struct Failure: Sendable {
        package let entry: Int
        package let problem: ShareMessages.EntryProblem
        /// The error of this system, if it is the reason.
        package let error: SystemError?
    }

    /// What a transfer has brought.
    package struct Outcome: Sendable {
        /// The names of the top entries, in their order; `nil` for one that is not there.
        package var names: [EntryName?] = []
        package var failures: [Failure] = []
    }

    /// Where complete files go.
    private enum Target {
        /// Each top entry has a place of its own, and gets a free name.
        case new(source: String, path: String, usesExisting: Bool)
        /// All are files in one place, and get exactly their names.
        case exact(ShareStaging, replaces: Bool)
    }

    private struct File {
        enum State {
            /// What is here is in the place of the transfer.
            case arriving(BulkContent)
            /// A file of its size and time has its name in the destination folder already.
            case existing(BulkContent)
            case complete
            case failed(Failure)
        }

        var state: State
        let size: Int64
        /// The bytes that are used from an earlier transfer.
        var kept: Int64
        /// Whether the place of the transfer has a file of this name. Otherwise it is made anew: on some systems other names mean the same.
        var isThere = false
    }

    private let executor = FileExecutor()
    package nonisolated var unownedExecutor: UnownedSerialExecutor { executor.asUnownedSerialExecutor() }

    private let entries: [ShareOffer.Entry]
    private let goal: Target
    private let room: ShareRoom
    private var destination: OpenFile?
    /// The places of the top entries, by their names. A top entry that is here already, or got its name, has none.
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
    ///   - usesExisting: Whether a file that is in the folder already need not be sent. The sender learns so that it is there.
    init(_ offer: ShareOffer, from sender: String, to path: String, room: ShareRoom, usesExisting: Bool = true) {
        self.init(offer.entries, .new(source: sender, path: path, usesExisting: usesExisting), room)
    }

    /// A sink for files of one folder.
    /// - Parameters:
    ///   - files: Top entries.
    ///   - place: Where they arrive. Other transfers may use it for other files.
    ///   - replaces: Whether they replace files of their names.
    package init(_ files: [ShareOffer.Entry], in place: ShareStaging, replaces: Bool, room: ShareRoom) {
        self.init(files, .exact(place, replaces: replaces), room)
    }

    private init(_ entries: [ShareOffer.Entry], _ goal: Target, _ room: ShareRoom) {
        (self.entries, self.goal, self.room) = (entries, goal, room)
        let (bytes, files) = (entries.reduce(0) { $0 + ($1.size ?? 0) }, entries.count { $0.size != nil })
        progress = CurrentValue(NearShareProgress(bytesSent: 0, totalBytesToSend: bytes, filesSent: 0, totalFilesToSend: files))
    }

    // MARK: The start

    /// Opens the destination and finds what an earlier transfer has left.
    package func prepare() throws(ShareFailure) -> [ShareMessages.Have] {
        var have: [ShareMessages.Have] = []
        do throws(SystemError) {
            let destination = try openDestination()
            self.destination = destination
            for (entry, content) in entries.enumerated() {
                guard let size = content.size else { continue }
                let file: File
                if case .new(_, _, usesExisting: true) = goal, content.isTop, let digest = existing(content, size, in: destination) {
                    let there = BulkContent(size: size, position: size, hash: digest)
                    file = File(state: .existing(there), size: size, kept: size)
                    have.append(.init(entry: UInt32(entry), length: size, digest: there.digest))
                } else {
                    let (there, isThere) = try started(content, size)
                    file = File(state: .arriving(there), size: size, kept: there.position, isThere: isThere)
                    if there.position > 0 { have.append(.init(entry: UInt32(entry), length: there.position, digest: there.digest)) }
                }
                files[entry] = file
            }
        } catch {
            throw ShareFailure(error)
        }
        let here = have.reduce(Int64(0)) { $0 + $1.length }
        let needed = progress.value.totalBytesToSend - here
        guard room.take(needed, of: destination?.freeBytes, for: ObjectIdentifier(self)) else { throw ShareFailure(.diskFull) }
        progress.update { $0.add(here, files: 0) }
        return have
    }

    private func openDestination() throws(SystemError) -> OpenFile {
        switch goal {
        case .exact(let place, _): return place.destination
        case .new(_, let path, _):
            let folder = try OpenFile.folder(at: path, creates: true)
            ShareStaging.removeAbandoned(in: folder)
            return folder
        }
    }

    /// A top file with the name, size and time of an offered one.
    private func existing(_ entry: ShareOffer.Entry, _ size: Int64, in folder: OpenFile) -> DigestStream? {
        guard let name = entry.path.first, let there = try? folder.facts(of: name), there.isFile, there.size == size,
            let file = try? folder.open(name, O_RDONLY), let facts = try? file.facts(), facts.isFile, facts.isUnshared, facts.size == size,
            facts.modifiedMilliseconds == entry.modified
        else { return nil }
        return try? DigestStream(of: file, bytes: size)
    }

    /// How much of a file is in the place of the transfer.
    private func started(_ entry: ShareOffer.Entry, _ size: Int64) throws(SystemError) -> (BulkContent, isThere: Bool) {
        guard let name = entry.path.last, let place = try place(of: entry) else { throw SystemError(ENOENT) }
        guard let folder = try? place.folder(entry.path.dropLast(), creates: false), let facts = try? folder.facts(of: name) else {
            return (BulkContent(size: size), false)
        }
        // What is not continued is cut by the first write.
        guard facts.isFile, facts.isUnshared, facts.size > 0, facts.size <= size,
            let digest = try? DigestStream(of: try folder.open(name, O_RDONLY), bytes: facts.size)
        else { return (BulkContent(size: size), true) }
        return (BulkContent(size: size, position: facts.size, hash: digest), true)
    }

    /// The place of an entry, which is taken when it is needed.
    private func place(of entry: ShareOffer.Entry) throws(SystemError) -> ShareStaging? {
        guard let top = entry.path.first, let destination else { return nil }
        switch goal {
        case .exact(let place, _): return place
        case .new(let source, _, _):
            if let place = staging[top] { return place }
            let place = try ShareStaging(top, from: [source], in: destination, most: Self.places)
            var kinds: [[EntryName]: ShareOffer.Entry.Kind] = [:]
            for entry in entries where entry.path.first == top { kinds[entry.path] = entry.kind }
            try place.prune(keeping: kinds)
            staging[top] = place
            return place
        }
    }

    /// Transfers of equal names by one sender at the same time.
    private static let places = 8

    // MARK: The content

    /// Takes all frames of a stream, on the thread that writes the files.
    /// - Returns: Whether the stream has ended by its own word.
    /// - Throws: As `takeFrames`.
    nonisolated func receive(_ inbound: NIOAsyncChannelInboundStream<ByteBuffer>) async throws -> Bool {
        try await withTaskExecutorPreference(executor) { try await inbound.takeFrames { try await take($0) } }
    }

    /// Takes frames in the order in which they arrived.
    /// - Throws: What ends the transfer.
    package func take(_ frames: [BulkFrame]) throws(ShareFailure) {
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
        guard let file = files[entry] else { throw ShareFailure(.invalid) }
        var content: BulkContent
        switch file.state {
        case .failed: return Int64(data.readableBytes)
        case .complete: throw ShareFailure(.invalid)
        case .existing(let there), .arriving(let there): content = there
        }
        let new: Int64
        do throws(BulkError) { new = try content.add(data, at: offset) } catch { throw ShareFailure(.invalid) }
        let start = content.position - Int64(data.readableBytes)
        if start == 0 { files[entry]?.kept = 0 }
        do throws(SystemError) {
            let target = try target(entry, at: start)
            try data.withUnsafeReadableBytes { memory in
                Result { () throws(SystemError) in try target.write(memory, at: start) }
            }.get()
            flush(target, start..<content.position)
            files[entry]?.state = .arriving(content)
        } catch {
            try failed(entry, error)
        }
        return new
    }

    /// Lets the system begin to write the large parts of a file to the disk that these bytes complete. Small files wait for the end.
    private func flush(_ file: OpenFile, _ bytes: Range<Int64>) {
        let (first, end) = (bytes.lowerBound / Self.flushedBytes, bytes.upperBound / Self.flushedBytes)
        guard first < end else { return }
        file.startFlushing(from: first * Self.flushedBytes, bytes: Int((end - first) * Self.flushedBytes))
    }

    private static let flushedBytes = Int64(1 << 20)

    /// The open file of an entry, which has nothing behind a position. At its beginning it is emptied: a part that is not continued may be
    /// longer than the file.
    private func target(_ entry: Int, at position: Int64) throws(SystemError) -> OpenFile {
        if let open, open.entry == entry, position > 0 { return open.file }
        open = nil
        let content = entries[entry]
        guard let name = content.path.last, let place = try place(of: content) else { throw SystemError(ENOENT) }
        let flags = files[entry]?.isThere == true ? O_RDWR : O_RDWR | O_CREAT | O_EXCL
        let file = try place.folder(content.path.dropLast(), creates: true).open(name, flags, mode: 0o600)
        guard let facts = try? file.facts(), facts.isFile, facts.isUnshared else { throw SystemError(EEXIST) }
        files[entry]?.isThere = true
        // Emptying waits for the disk, so a new file is left alone.
        if position == 0, facts.size > 0 { try file.truncate() }
        open = (entry, file)
        return file
    }

    private func end(_ entry: Int, _ size: UInt64, _ expected: Digest256) throws(ShareFailure) {
        guard let file = files[entry], size == UInt64(file.size) else { throw ShareFailure(.invalid) }
        switch file.state {
        case .failed: return
        case .complete: throw ShareFailure(.invalid)
        case .existing(let content):
            guard content.isWhole(expected) else { throw ShareFailure(.invalid) }
            files[entry]?.state = .complete
        case .arriving(let content):
            guard content.isWhole(expected) else { return fail(entry, .damaged) }
            do throws(SystemError) {
                let target = try target(entry, at: content.position)
                guard try target.facts().size == file.size else { return fail(entry, .damaged) }
                target.setModified(entries[entry].modifiedDate)
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
        case ENAMETOOLONG, EILSEQ, EINVAL: fail(entry, .nameNotPossible, error)
        case EACCES, EPERM, EEXIST, EISDIR, ENOTDIR, ELOOP: fail(entry, .notWritable, error)
        default: throw ShareFailure(error)
        }
    }

    private func fail(_ entry: Int, _ problem: ShareMessages.EntryProblem, _ error: SystemError? = nil) {
        files[entry]?.state = .failed(Failure(entry: entry, problem: problem, error: error))
        open = nil
        let content = entries[entry]
        let place = if case .exact(let place, _) = goal { place } else { staging[content.path[0]] }
        guard let name = content.path.last, let place else { return }
        (try? place.folder(content.path.dropLast(), creates: false))?.remove(name)
    }

    // MARK: The end

    /// The bytes of files that are used from an earlier transfer, by entry.
    package var kept: [Int: Int64] { files.mapValues(\.kept) }

    /// Gives all files their names, and returns when they are on the disk.
    package func finish() throws(ShareFailure) -> Outcome {
        var outcome = Outcome()
        for (_, file) in files.sorted(by: { $0.key < $1.key }) {
            switch file.state {
            case .complete: break
            case .failed(let failure): outcome.failures.append(failure)
            case .arriving, .existing: throw ShareFailure(.invalid)
            }
        }
        do throws(SystemError) {
            for entry in entries where entry.size == nil {
                // Also those without any file.
                _ = try place(of: entry)?.folder(entry.path, creates: true)
            }
            #if os(Linux)
            // One call is much faster than one for each file.
            try destination?.synchronizeFileSystem()
            #endif
            for (entry, content) in entries.enumerated() where content.isTop {
                do throws(SystemError) {
                    outcome.names.append(try publish(entry, content))
                } catch {
                    guard ![ENOSPC, EDQUOT, EIO].contains(error.number) else { throw error }
                    let problem = error.number == ENAMETOOLONG ? ShareMessages.EntryProblem.nameNotPossible : .notWritable
                    outcome.names.append(nil)
                    outcome.failures.append(Failure(entry: entry, problem: problem, error: error))
                }
            }
            try destination?.synchronize()
            return outcome
        } catch {
            throw ShareFailure(error)
        }
    }

    private func publish(_ entry: Int, _ content: ShareOffer.Entry) throws(SystemError) -> EntryName? {
        let name = content.path[0]
        let isFailed = if case .failed? = files[entry]?.state { true } else { false }
        if case .exact(let place, let replaces) = goal {
            guard !isFailed else { return nil }
            try place.publish(name, replaces: replaces)
            return name
        }
        guard !isFailed else {
            staging.removeValue(forKey: name)?.remove()
            return nil
        }
        // A file that is here already has no place.
        guard let place = staging.removeValue(forKey: name) else {
            guard let facts = try destination?.facts(of: name), facts.isFile, facts.size == content.size else { throw SystemError(ENOENT) }
            return name
        }
        let free = try place.publish(name, isFolder: content.size == nil)
        place.remove()
        return free
    }

    /// Ends the transfer. What has arrived stays for the next attempt.
    package func close() {
        open = nil
        room.release(ObjectIdentifier(self))
        staging = [:]
    }
}

extension ShareOffer.Entry {
    /// When its content was changed.
    var modifiedDate: Date { Date(timeIntervalSince1970: Double(modified) / 1_000) }
}

/// What ends a transfer on the receiving side.
package struct ShareFailure: Error {
    package let problem: ShareMessages.Problem

    init(_ problem: ShareMessages.Problem) { self.problem = problem }

    init(_ error: SystemError) {
        switch error.number {
        case ENOSPC, EDQUOT, EFBIG: problem = .diskFull
        case EWOULDBLOCK: problem = .busy
        default: problem = .notWritable
        }
    }
}
