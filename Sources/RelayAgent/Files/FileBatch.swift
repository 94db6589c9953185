// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol

/// A file of another device, and where it goes.
struct RemoteFile: Sendable {
    let path: String
    let entry: RemoteEntry
    let place: Destination
}

/// Files that go to one folder and are received together, so that small files need no round trip each.
struct FileBatch: Sendable {
    /// The most bytes of several files.
    private static let bytes: Int64 = 64 << 20
    /// The most bytes of their paths.
    private static let pathBytes = 256 << 10

    private(set) var files: [RemoteFile] = []
    private(set) var bytes: Int64 = 0
    private var pathBytes = 0

    /// Adds a file, if it can be received with the others. The first one always can.
    mutating func add(_ file: RemoteFile) -> Bool {
        let (bytes, overflow) = bytes.addingReportingOverflow(file.entry.size)
        let pathBytes = pathBytes + file.path.utf8.count
        let isFull = overflow || bytes > Self.bytes || pathBytes > Self.pathBytes || files.count == FileServiceMessages.maximumEntries
        guard files.isEmpty || !isFull else { return false }
        (self.bytes, self.pathBytes) = (bytes, pathBytes)
        files.append(file)
        return true
    }

    /// The files as top entries.
    var entries: [ShareOffer.Entry] {
        files.map { ShareOffer.Entry(path: [$0.place.name], kind: .file(size: $0.entry.size), modified: $0.entry.modifiedMilliseconds) }
    }

    /// What it is, for the progress.
    var title: String { files.count == 1 ? files[0].place.name.text : "\(files.count) files" }
}
