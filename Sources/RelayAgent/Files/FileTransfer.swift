// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import RelayProtocol

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

/// Brings one file here. What has come is kept in `NAME.part` until it is whole, so that a transfer that broke off goes on where it was;
/// `NAME.part.etag` says which file it is of.
struct FileTransfer: Sendable {
    private static let chunk = 256 << 10
    private static let mostInFlight = 8
    /// Asked for and not written yet, also when one answer is late.
    private static let mostAhead = Int64(16 * chunk)

    let remote: RemoteFolder
    let path: String
    let entry: FileCalls.Entry
    let destination: String
    let progress: TransferProgress

    private var part: String { destination + ".part" }
    private var mark: String { part + ".etag" }

    /// Whether a file of this size and time is there already.
    var isDone: Bool {
        guard let facts = try? FileManager.default.attributesOfItem(atPath: destination), let size = facts[.size] as? Int,
            let modified = facts[.modificationDate] as? Date
        else { return false }
        return Int64(size) == entry.size && abs(modified.timeIntervalSince(entry.modified)) < 0.001
    }

    /// - Returns: How many bytes came, which are fewer than there are if some were here.
    func run() async throws -> Int64 {
        let file = open(part, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0o666)
        guard file >= 0 else { throw problem("be written", part) }
        defer { close(file) }
        guard flock(file, LOCK_EX | LOCK_NB) == 0 else {
            throw AgentError("fileBusy", "another process is fetching '\(destination)'", .failed)
        }
        let start = try beginning(of: file)
        progress.begin(entry.name, size: entry.size, at: start)
        try await receive(from: start, into: file)
        guard fsync(file) == 0 else { throw problem("be written", part) }
        try? FileManager.default.setAttributes([.modificationDate: entry.modified], ofItemAtPath: part)
        guard rename(part, destination) == 0 else { throw problem("be written", destination) }
        unlink(mark)
        return entry.size - start
    }

    /// How much of just this file is there.
    private func beginning(of file: Int32) throws -> Int64 {
        let size = Int64(lseek(file, 0, SEEK_END))
        let known = FileManager.default.contents(atPath: mark).map { String(decoding: $0, as: UTF8.self) }
        if known == entry.etag, (0...entry.size).contains(size) { return size }
        guard ftruncate(file, 0) == 0, (try? Data(entry.etag.utf8).write(to: URL(filePath: mark), options: .atomic)) != nil else {
            throw problem("be written", part)
        }
        return 0
    }

    /// Several parts are on their way at once; they are written in order, so that what is there is whole.
    private func receive(from start: Int64, into file: Int32) async throws {
        try await withThrowingTaskGroup(of: (at: Int64, bytes: [UInt8]).self) { group in
            var (asked, written, inFlight) = (start, start, 0)
            var early: [Int64: [UInt8]] = [:]
            while written < entry.size {
                while inFlight < Self.mostInFlight, asked < entry.size, asked - written < Self.mostAhead {
                    let (at, count) = (asked, Int(min(Int64(Self.chunk), entry.size - asked)))
                    group.addTask { (at, try await remote.read(path, entry, from: at, count: count)) }
                    asked += Int64(count)
                    inFlight += 1
                }
                guard let next = try await group.next() else { break }
                inFlight -= 1
                early[next.at] = next.bytes
                while let bytes = early.removeValue(forKey: written) {
                    try write(bytes, at: written, to: file)
                    written += Int64(bytes.count)
                    progress.reached(written)
                }
            }
        }
    }

    private func write(_ bytes: [UInt8], at offset: Int64, to file: Int32) throws {
        var done = 0
        while done < bytes.count {
            let count = bytes.withUnsafeBytes {
                pwrite(file, $0.baseAddress.map { $0 + done }, bytes.count - done, off_t(offset) + off_t(done))
            }
            if count < 0, errno == EINTR { continue }
            guard count > 0 else { throw problem("be written", part) }
            done += count
        }
    }

    private func problem(_ what: String, _ path: String) -> AgentError {
        let number = errno
        let why = number == ENOSPC ? ": the disk is full" : number == EACCES ? ": it is not allowed" : ""
        return AgentError("fileNotWritable", "'\(path)' cannot \(what)\(why)", .failed)
    }
}
