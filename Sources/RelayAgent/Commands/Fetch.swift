// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import RelayProtocol

#if canImport(FoundationEssentials)
package import FoundationEssentials
#else
package import Foundation
#endif

/// Lists the folder that another device shares, and brings files from there.
package struct Fetch: Sendable {
    /// Deeper is no folder that a person made.
    private static let mostDepth = 64

    var target: String
    var path: String
    var output: String?
    var isRecursive: Bool
    var replaces: Bool

    /// - Parameters:
    ///   - target: A device, or one of its apps: `DEVICE/APP`.
    ///   - path: Within the folder; empty for the folder itself.
    ///   - output: Where the file goes: a file, or a folder that is there; `nil` for its own name in the working directory.
    ///   - isRecursive: Whether a folder is fetched with all that is in it; else it is listed.
    ///   - replaces: Whether what is there by that name may be replaced.
    package init(target: String, path: String, output: String?, isRecursive: Bool, replaces: Bool) {
        self.target = target
        self.path = path.hasSuffix("/") && path.count > 1 ? String(path.dropLast()) : path
        self.output = output
        self.isRecursive = isRecursive
        self.replaces = replaces
    }

    package struct Entry: Encodable, Sendable {
        package var name: String
        package var kind: String
        package var size: Int64
        package var modified: Date

        init(_ entry: FileCalls.Entry) {
            name = DisplayText.sanitized(entry.name)
            kind = entry.kind.rawValue
            size = entry.size
            modified = entry.modified
        }
    }

    package struct Result: AgentResult {
        package var device: String
        package var deviceName: String
        package var app: String
        package var path: String
        /// Of a folder that is listed.
        package var entries: [Entry]?
        /// Where a file is now.
        package var file: String?
        package var size: Int64?
        /// Bytes that came this time; fewer than the size when the transfer went on with what was here.
        package var received: Int64?

        init(_ system: RemoteSystem, _ app: RemoteSystemApp) {
            device = "\(system.id)"
            deviceName = DisplayText.sanitized(system.displayName)
            self.app = DisplayText.sanitized(app.appID)
            path = ""
        }

        package func lines(_ style: Style) -> [String] {
            if let file, let size, let received {
                let note = received == size ? "" : received == 0 ? ", was here" : ", \(ByteCount.text(size - received)) of it were here"
                return ["\(style.show(file, .strong))  \(ByteCount.text(size))\(note)"]
            }
            guard let entries, !entries.isEmpty else { return [] }
            var table = Table("NAME", "SIZE", "MODIFIED")
            for entry in entries {
                let isFolder = entry.kind == FileCalls.Kind.folder.rawValue
                table.add(
                    .init(entry.name + (isFolder ? "/" : ""), isFolder ? .strong : nil),
                    .init(isFolder ? "-" : ByteCount.text(entry.size)),
                    .init(
                        entry.modified.formatted(
                            .iso8601.year().month().day().dateTimeSeparator(.space).time(includingFractionalSeconds: false)
                        )
                    )
                )
            }
            return table.lines(style)
        }
    }

    /// Prints what is in a folder, or each file that has come.
    package func run(_ context: AgentContext) async throws {
        try await context.withAccount { session in
            try await session.waitForDirectory()
            let (system, app) = try session.sharedFolder(target)
            let progress = TransferProgress()
            let result = Result(system, app)
            do {
                try await context.console.whileWaiting {
                    progress.line()
                } _: {
                    let service = AppServiceInfo(name: FileCalls.serviceName, packageID: app.appID)
                    let connection = try await session.platform.openAppService(service, on: RemoteSystemConnectionRequest(app))
                    defer { connection.close() }
                    let remote = RemoteFolder(connection: connection)
                    try await run(remote, result, progress) {
                        if context.console.isInteractive { context.console.error("\r\u{1B}[K") }
                        try context.console.print($0)
                    }
                }
            } catch let error as AppServiceError {
                throw Self.explained(error)
            }
        }
    }

    private func run(
        _ remote: RemoteFolder,
        _ result: Result,
        _ progress: TransferProgress,
        _ print: (Result) throws -> Void
    ) async throws {
        let entry = try await remote.entry(path)
        // What a file is called here is for the person to say, not for the other device.
        let name = path.split(separator: "/").last.map(String.init) ?? ""
        guard path.isEmpty || Self.isName(name) else {
            throw AgentError("nameInvalid", "'\(name)' cannot be a file's name; give another with -o", .usage)
        }
        switch (entry.kind, isRecursive) {
        case (.file, _):
            try await fetch(path, entry, to: destination(name), remote, result, progress, print)
        case (.folder, true):
            let folder = path.isEmpty ? output : destination(name)
            guard let folder else { throw AgentError("usage", "say with -o where all of the folder goes", .usage) }
            try await fetchFolder(path, to: folder, 0, remote, result, progress, print)
        case (.folder, false):
            guard output == nil else { throw AgentError("notAFile", "'\(path)' is a folder; fetch it with -r", .usage) }
            var result = result
            result.path = DisplayText.sanitized(path)
            result.entries = try await remote.entries(path).map(Entry.init)
            try print(result)
        }
    }

    private func destination(_ name: String) -> String {
        guard let output else { return name }
        let type = try? FileManager.default.attributesOfItem(atPath: output)[.type] as? FileAttributeType
        return type == .typeDirectory ? (output.hasSuffix("/") ? output : output + "/") + name : output
    }

    private func fetch(
        _ path: String,
        _ entry: FileCalls.Entry,
        to destination: String,
        _ remote: RemoteFolder,
        _ result: Result,
        _ progress: TransferProgress,
        _ print: (Result) throws -> Void
    ) async throws {
        let transfer = FileTransfer(remote: remote, path: path, entry: entry, destination: destination, progress: progress)
        var result = result
        result.path = DisplayText.sanitized(path)
        result.file = destination
        result.size = entry.size
        if transfer.isDone {
            result.received = 0
        } else {
            guard replaces || !FileManager.default.fileExists(atPath: destination) else {
                throw AgentError(
                    "fileExists",
                    "'\(destination)' is there already; replace it with --force, or choose another with -o",
                    .failed
                )
            }
            result.received = try await transfer.run()
        }
        try print(result)
    }

    private func fetchFolder(
        _ path: String,
        to folder: String,
        _ depth: Int,
        _ remote: RemoteFolder,
        _ result: Result,
        _ progress: TransferProgress,
        _ print: (Result) throws -> Void
    ) async throws {
        guard depth < Self.mostDepth else { throw AgentError("tooDeep", "'\(path)' is too deep", .failed) }
        do {
            try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        } catch {
            throw AgentError("fileNotWritable", "the folder '\(folder)' cannot be made", .failed)
        }
        for entry in try await remote.entries(path) {
            guard Self.isName(entry.name) else {
                throw AgentError(
                    "nameNotAllowed",
                    "the other device has a name in '\(path)' that cannot be one here: '\(entry.name)'",
                    .failed
                )
            }
            let inner = path.isEmpty ? entry.name : "\(path)/\(entry.name)"
            let destination = "\(folder)/\(entry.name)"
            switch entry.kind {
            case .file: try await fetch(inner, entry, to: destination, remote, result, progress, print)
            case .folder: try await fetchFolder(inner, to: destination, depth + 1, remote, result, progress, print)
            }
        }
    }

    /// Whether a name that another device says can be one in a folder here, and nowhere else.
    static func isName(_ name: String) -> Bool {
        !name.isEmpty && name.utf8.count <= 255 && name != "." && name != ".." && !name.contains("/") && DisplayText.isPlain(name)
    }

    private static func explained(_ error: AppServiceError) -> AgentError {
        var failure = AgentError(error)
        if error.code == .remoteSystemUnavailable || error.code == .appServiceConnectionClosed || error.code == .timedOut {
            failure.message += "; run it again, and it goes on where it was"
        }
        return failure
    }
}

extension Session {
    /// The app that shares a folder: the one that is named, or else the agent, or else the only one.
    fileprivate func sharedFolder(_ text: String) throws -> (RemoteSystem, RemoteSystemApp) {
        let (system, app) = try place(text)
        if let app { return (system, app) }
        let all = system.apps.filter { $0.appServices.contains { $0.name == FileCalls.serviceName } }
        if let agent = all.first(where: { $0.appID == AgentConfiguration.appID }) { return (system, agent) }
        guard let first = all.first else {
            let name = DisplayText.sanitized(system.displayName)
            throw AgentError(
                "appServiceUnavailable",
                "'\(name)' shares no folder; set 'files' in agent.yaml and run `relay agent` there",
                .notFound
            )
        }
        guard all.count == 1 else {
            throw AgentError(
                "ambiguous",
                "several apps there share a folder: \(all.map { "\(text)/\($0.appID)" }.joined(separator: ", "))",
                .usage
            )
        }
        return (system, first)
    }
}
