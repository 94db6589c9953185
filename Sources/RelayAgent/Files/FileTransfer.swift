// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// Downloads the content of one file, in order.
struct FileTransfer: Sendable {
    private static let chunk = 256 << 10
    private static let maximumInFlight = 8
    /// The maximum number of bytes requested and not written yet, even if one response is late.
    private static let maximumAhead = Int64(16 * chunk)

    let remote: RemoteFolder
    let path: String
    let entry: RemoteEntry
    let progress: TransferProgress

    /// Requests several parts at once and writes them in order, so that the written part has no gaps.
    /// - Parameter write: takes the next bytes, and their offset in the file.
    func run(from start: Int64, named name: String, _ write: ([UInt8], Int64) async throws -> Void) async throws {
        progress.begin(name, size: entry.size, at: start)
        try await withThrowingTaskGroup(of: (at: Int64, bytes: [UInt8]).self) { group in
            var (asked, written, inFlight) = (start, start, 0)
            var early: [Int64: [UInt8]] = [:]
            while written < entry.size {
                while inFlight < Self.maximumInFlight, asked < entry.size, asked - written < Self.maximumAhead {
                    let (at, count) = (asked, Int(min(Int64(Self.chunk), entry.size - asked)))
                    group.addTask { (at, try await remote.read(path, entry, from: at, count: count)) }
                    asked += Int64(count)
                    inFlight += 1
                }
                guard let next = try await group.next() else { break }
                inFlight -= 1
                early[next.at] = next.bytes
                while let bytes = early.removeValue(forKey: written) {
                    try await write(bytes, written)
                    written += Int64(bytes.count)
                    progress.reached(written)
                }
            }
        }
    }
}
