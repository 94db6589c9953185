// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
package import Foundation
import RelayProtocol
import RelayStorage

/// Lists the folder that another device shares, and downloads files from it.
package struct Fetch: Sendable {
    /// The output that means standard output.
    package static let standardOutput = "-"

    var target: String
    var path: String
    var output: String?
    var isRecursive: Bool
    var replaces: Bool

    /// - Parameters:
    ///   - target: A device, or one of its apps: `DEVICE/APP`.
    ///   - path: The path within the shared folder; empty for the folder itself.
    ///   - output: The destination: a file, an existing folder, or `-` for standard output; `nil` for the file's own name in
    ///     the working directory.
    ///   - isRecursive: Whether to download a folder with all its content. Otherwise a folder is listed.
    ///   - replaces: Whether to replace an existing file.
    package init(target: String, path: String, output: String?, isRecursive: Bool, replaces: Bool) {
        self.target = target
        let bytes = path.utf8
        self.path = bytes.count > 1 && bytes.last == Self.separator ? String(decoding: bytes.dropLast(), as: UTF8.self) : path
        self.output = output
        self.isRecursive = isRecursive
        self.replaces = replaces
    }

    /// How long a transfer that has begun waits for the other device.
    private static let patience = Duration.seconds(600)
    private static let separator = UInt8(ascii: "/")

    package struct Entry: Codable, Sendable {
        package var name: String
        package var kind: String
        package var size: Int64
        package var modified: Date
        /// From the API only.
        package var etag: String?

        /// - Parameter etag: Whether it has an etag.
        init(_ name: String, _ entry: RemoteEntry, etag: Bool = false) {
            self.name = DisplayText.sanitized(name)
            kind = entry.kind.rawValue
            size = entry.size
            modified = entry.modified
            self.etag = etag ? entry.tag : nil
        }
    }

    package struct Result: AgentResult, Codable {
        package var device: String
        package var deviceName: String
        package var app: String
        package var path: String
        /// The entries of a listed folder.
        package var entries: [Entry]?
        /// The path of the downloaded file on this machine.
        package var file: String?
        package var size: Int64?
        /// What was left out of a folder, and why.
        package var leftOut: [Omission]?
        /// The bytes that came in the last attempt; less than `size` if it resumed an earlier one.
        package var received: Int64?

        /// What the path names. From the API only, as the next field.
        package var entry: Entry?
        /// Whether the folder has more entries than are listed.
        package var more: Bool?

        package struct Omission: Codable, Sendable {
            package var path: String
            package var code: String
            package var message: String
            /// The number of entries, if it is more than 1: `path` is then their folder, and the other device does not give their names.
            package var count: Int?

            init(_ leftOut: LeftOut) {
                count = leftOut.count == 1 ? nil : leftOut.count
                path = leftOut.path
                code = leftOut.why.code
                message = leftOut.why.message
            }
        }

        init(_ system: RemoteSystem, _ app: RemoteSystemApp) {
            device = "\(system.id)"
            deviceName = DisplayText.sanitized(system.displayName)
            self.app = DisplayText.sanitized(app.appID)
            path = ""
        }

        /// A copy that describes a downloaded file.
        func with(_ file: Download.Finished) -> Result {
            var result = self
            result.path = DisplayText.sanitized(file.path)
            result.file = file.place
            result.size = file.size
            result.received = file.received
            return result
        }

        /// Standard output names the files that were fetched.
        package var notes: [String] { (leftOut ?? []).map { "relay: \($0.message)" } }

        package func lines(_ style: Style) -> [String] {
            if let file, let size, let received {
                let note = received == size ? "" : received == 0 ? ", was here" : ", \(ByteCount.text(size - received)) of it were here"
                return ["\(style.show(file, .strong))  \(ByteCount.text(size))\(note)"]
            }
            guard let entries, !entries.isEmpty else { return [] }
            var table = Table("NAME", "SIZE", "MODIFIED")
            for entry in entries {
                let isFolder = entry.kind == FileServiceMessages.Kind.folder.rawValue
                table.add(
                    .init(name: entry.name + (isFolder ? "/" : ""), isFolder ? .strong : nil),
                    .init(isFolder ? "-" : ByteCount.text(entry.size)),
                    .init(LocalTime.text(entry.modified))
                )
            }
            return table.lines(style)
        }
    }

    /// Prints the entries of a folder, or each downloaded file.
    package func run(_ context: AgentContext) async throws {
        let console = context.console
        let what = "it was interrupted\(isFile ? "; the same command continues the transfer" : "")"
        let report: @Sendable (Result) async throws -> Void = { result in
            console.clearProgress()
            try console.print(result)
        }
        try await CancellationSignal.cancelling(failingWith: { _ in AgentError("cancelled", what, .failed) }) {
            if context.usesAgent, let agent = await AgentClient.find(context.home, version: context.version) {
                let files = try await AgentFiles.find(target, by: agent)
                let line = WaitingLine(show: console.waitingLine)
                return try await run(on: files.folder, line, write: console.write, report: report) { try await $0(files) }
            }
            try await context.withAccount { try await run(on: $0, write: console.write, report: report) }
        }
    }

    /// Whether the output is a file or a folder. Then a transfer can continue.
    private var isFile: Bool { output != Self.standardOutput }

    /// - Parameters:
    ///   - write: Takes the content of a file that goes to standard output.
    ///   - report: Takes the entries of a folder, each downloaded file, and what was left out.
    func run(
        on local: LocalDevice,
        write: @escaping @Sendable ([UInt8]) async throws -> Void,
        report: @escaping @Sendable (Result) async throws -> Void
    ) async throws {
        try await local.waitForDevices()
        let (system, app) = try await local.sharedFolder(target)
        let line = WaitingLine(show: local.waitingLine)
        try await run(on: Result(system, app), line, write: write, report: report) { body in
            let opened = try await local.open(sharedFolder: app)
            defer { opened.connection.close() }
            try await body(ServiceFiles(opened))
        }
    }

    /// - Parameters:
    ///   - folder: Names the shared folder.
    ///   - line: Shows the progress.
    ///   - attempt: Reaches the folder for a closure. It is run again after an interruption.
    private func run(
        on folder: Result,
        _ line: WaitingLine,
        write: @escaping @Sendable ([UInt8]) async throws -> Void,
        report: @escaping @Sendable (Result) async throws -> Void,
        _ attempt: ((any RemoteFiles) async throws -> Void) async throws -> Void
    ) async throws {
        let progress = TransferProgress()
        let attempts = Attempts(report)
        do {
            try await line.whileWaiting(for: { progress.line() }) {
                try await repeated(progress) {
                    try await attempt { try await fetch(from: $0, folder, attempts, progress, write, attempts.report) }
                }
            }
        } catch {
            throw explained(error, hasBegun: progress.arrived > 0)
        }
    }

    /// What the attempts of one transfer share.
    private actor Attempts {
        private let present: @Sendable (Result) async throws -> Void
        private var presented: Set<String> = []
        private var folder: (folder: OpenFile, shown: String)?

        init(_ report: @escaping @Sendable (Result) async throws -> Void) { present = report }

        /// Presents what an earlier attempt has not presented.
        func report(_ result: Result) async throws {
            let key = [result.path, result.file ?? ""] + (result.leftOut ?? []).map(\.message)
            if presented.insert(key.joined(separator: "\0")).inserted { try await present(result) }
        }

        /// The destination of a folder. Once it is made, it is the same for all attempts.
        func destination(_ make: () throws -> (folder: OpenFile, shown: String)) throws -> (folder: OpenFile, shown: String) {
            if let folder { return folder }
            let made = try make()
            folder = made
            return made
        }
    }

    /// Repeats a transfer that has begun and whose connection is lost, until nothing has arrived for long.
    private func repeated(_ progress: TransferProgress, _ attempt: () async throws -> Void) async throws {
        var (pause, time, before) = (Duration.seconds(1), ContinuousClock.now, Int64(0))
        while true {
            do {
                return try await attempt()
            } catch  where isFile && Self.isBrokenOff(error) {
                // An attempt that got further is followed by another one soon.
                if progress.arrived > before {
                    (pause, time, before) = (.seconds(1), .now, progress.arrived)
                } else {
                    pause = min(pause * 2, .seconds(15))
                }
                guard before > 0, time.duration(to: .now) < Self.patience else { throw error }
            }
            progress.interrupted()
            try await Task.sleep(for: pause)
        }
    }

    static func isBrokenOff(_ error: any Error) -> Bool {
        if error is Interruption { return true }
        guard let error = error as? AppServiceError else { return false }
        return [.remoteSystemUnavailable, .appServiceConnectionClosed, .timedOut, .networkNotAvailable].contains(error.code)
    }

    private func fetch(
        from remote: any RemoteFiles,
        _ result: Result,
        _ attempts: Attempts,
        _ progress: TransferProgress,
        _ write: @escaping @Sendable ([UInt8]) async throws -> Void,
        _ report: @escaping @Sendable (Result) async throws -> Void
    ) async throws {
        let entry = try await remote.entry(path)
        func download(_ content: any RemoteReceiving) -> Download {
            Download(content: content, source: [result.device, result.app], replaces: replaces, progress: progress)
        }
        switch (entry.kind, isRecursive) {
        case (.file, _) where output == Self.standardOutput:
            try await remote.receiving { try await pass(entry, from: $0, progress, write) }
        case (.file, _):
            let file = RemoteFile(path: path, entry: entry, place: try Destination(output: output, name: try name))
            guard try !Download.isHere(file, replaces: replaces) else {
                return try await report(result.with(Download.finished(file, received: 0)))
            }
            try await remote.receiving { content in
                let finished = try await download(content).file(file)
                try await report(result.with(finished))
            }
        case (.folder, true):
            let (folder, shown) = try await attempts.destination(destination)
            var leftOut = 0
            try await remote.receiving { content in
                var all = FolderDownload(remote, download(content)) {
                    try await report(result.with($0))
                } leaveOut: { what in
                    leftOut += what.count
                    var event = result
                    (event.path, event.leftOut) = (what.path, [Result.Omission(what)])
                    try await report(event)
                }
                try await all.run(path, to: folder, shown)
            }
            guard leftOut == 0 else {
                throw AgentError(
                    "incomplete",
                    "\(leftOut == 1 ? "1 file or folder was" : "\(leftOut) files or folders were") left out; all others are there",
                    .incomplete
                )
            }
        case (.folder, false):
            guard output == nil else { throw AgentError("notAFile", "'\(path)' is a folder; fetch it with -r", .usage) }
            var (listing, entries, omissions) = (Listing(path, .whole), [Entry](), [LeftOut]())
            while let page = try await remote.next(&listing) {
                entries += page.entries.map { Entry($0.name.text, $0.entry) }
                omissions += page.leftOut
            }
            var result = result
            if !omissions.isEmpty { result.leftOut = omissions.map(Result.Omission.init) }
            result.path = DisplayText.sanitized(path)
            result.entries = entries
            try await report(result)
        }
    }

    /// Passes on the content of a file as it arrives.
    private func pass(
        _ entry: RemoteEntry,
        from content: any RemoteReceiving,
        _ progress: TransferProgress,
        _ write: @escaping @Sendable ([UInt8]) async throws -> Void
    ) async throws {
        let taker = BulkOutput(size: entry.size, write)
        let shown = ShownContent(taker, on: progress, path, size: entry.size, at: 0)
        let problems: [Int: FileServiceMessages.Problem]
        do {
            problems = try await content.receive([(path, entry)], have: [], into: shown)
        } catch is ShareFailure {
            throw Download.invalidContent
        }
        switch await taker.problem {
        case nil: return
        case .abandoned: throw RemoteFolder.error(problems[0], path)
        default: throw Download.damaged(path)
        }
    }

    /// The local name of the file or folder. The user's path decides it, not the other device.
    private var name: EntryName {
        get throws(AgentError) {
            let name = path.utf8.split(separator: Self.separator).last.map { String(decoding: $0, as: UTF8.self) } ?? ""
            guard let name = EntryName(name) else {
                throw AgentError("nameInvalid", "'\(name)' cannot be a file's name; give another with -o", .usage)
            }
            return name
        }
    }

    /// The destination of a folder: the named folder itself, or if it exists, a folder of the remote name inside it.
    private func destination() throws -> (folder: OpenFile, shown: String) {
        if path.isEmpty {
            guard let output else { throw AgentError("usage", "give the destination of the folder with -o", .usage) }
            return (try Destination.makeFolder(at: output), output)
        }
        if let output {
            guard (try? OpenFile.folder(at: output)) != nil else {
                // What is there and is no folder cannot become one.
                guard FileFacts(path: output, followsLinks: true) == nil else {
                    throw AgentError("notAFolder", "'\(output)' is not a folder", .usage)
                }
                return (try Destination.makeFolder(at: output), output)
            }
        }
        let place = try Destination(output: output, name: try name)
        return (try FolderDownload.makeFolder(place), place.shown)
    }

    private func explained(_ error: any Error, hasBegun: Bool) -> any Error {
        guard error is AppServiceError || error is Interruption else { return error }
        var failure = (error as? Interruption)?.failure ?? AgentError(error)
        if Self.isBrokenOff(error), isFile, hasBegun {
            failure.message += "; run it again to continue the transfer"
        }
        return failure
    }
}
