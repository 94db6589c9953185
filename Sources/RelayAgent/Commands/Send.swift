// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import Foundation
import RelayProtocol
import RelayStorage
import Synchronization

/// Sends files, folders, links and texts to another device.
package struct Send: Sendable {
    /// The item that means standard input.
    package static let standardInput = "-"
    /// What standard input may have to be sent as a text.
    private static let textBytes = 64 << 10

    var items: [String]
    var texts: [String]
    var target: String
    var name: String?

    /// - Parameters:
    ///   - items: Files, folders and URIs; `-` for standard input.
    ///   - texts: Texts.
    ///   - target: A device, or one of its apps: `DEVICE/APP`.
    ///   - name: The name for standard input as a file; `nil` sends a short text as a text.
    package init(items: [String], texts: [String], target: String, name: String?) {
        (self.items, self.texts, self.target, self.name) = (items, texts, target, name)
    }

    package struct Result: AgentResult {
        package var device: String
        package var deviceName: String
        package var app: String
        /// The names that the files and folders have there.
        package var names: [String]
        package var files: Int
        /// Of all files.
        package var bytes: Int64
        /// Sent in this run; fewer than `bytes` if the run continued an earlier transfer.
        package var sent: Int64
        package var leftOut: [Omission]?

        package struct Omission: Encodable, Sendable {
            package var path: String
            package var code: String
            package var message: String
        }

        package var notes: [String] { (leftOut ?? []).map { "relay: '\($0.path)' was left out: \($0.message)" } }

        package func lines(_ style: Style) -> [String] {
            let there = bytes - sent
            let size = files == 0 ? "" : "  \(ByteCount.text(bytes))"
            let note = there <= 0 ? "" : sent == 0 ? ", was there" : ", \(ByteCount.text(there)) of it were there"
            let what = names.isEmpty ? "sent" : names.joined(separator: ", ")
            return ["\(style.show(what, .strong))\(size)\(note)  on \(deviceName)"]
        }
    }

    /// Sends, with the progress on a terminal. An interrupted command can be run again, and continues.
    package func run(_ context: AgentContext) async throws {
        let input = StandardInputItem(name: name)
        defer { input.remove() }
        let what = "it was interrupted; the same command continues the transfer"
        let result = try await CancellationSignal.cancelling(failingWith: { _ in AgentError("cancelled", what, .failed) }) {
            let contents = try await contents(input)
            // After a signal, the rest of standard input is missing.
            try Task.checkCancellation()
            return try await context.withAccount { try await run(contents, on: $0) }
        }
        context.console.clearProgress()
        try context.console.print(result)
        guard let omitted = result.leftOut?.count else { return }
        throw AgentError(
            "incomplete",
            "\(omitted == 1 ? "1 file or folder was" : "\(omitted) files or folders were") left out; all others are there",
            .incomplete
        )
    }

    /// What the words of the command line mean. An existing file is a file, also if its name could be a URI.
    private func contents(_ input: StandardInputItem) async throws -> [NearShareItem] {
        var contents: [NearShareItem] = []
        for item in items {
            if item == Self.standardInput {
                contents.append(try await input.read(textBytes: Self.textBytes))
            } else if FileFacts(path: item, followsLinks: false) != nil {
                contents.append(.file(atPath: item))
            } else if let uri = try? LaunchURI(item) {
                contents.append(.uri(uri))
            } else {
                let hint = "; to send it as a text, write --text \(ShellText.word(item))"
                throw AgentError("fileNotFound", "there is no file or folder '\(item)', and it is no URI\(hint)", .notFound)
            }
        }
        return contents + texts.map { .text($0) }
    }

    private func run(_ contents: [NearShareItem], on local: LocalDevice) async throws -> Result {
        try await local.waitForDevices()
        let (system, app) = try await local.receiver(target)
        let operation = NearShareSender(local.platform).send(contents, to: RemoteSystemConnectionRequest(app))
        let line = SendingLine()
        return try await withTaskCancellationHandler {
            async let following: Void = line.follow(operation.progress)
            do {
                let report = try await local.whileWaiting(for: { line.text }) { try await operation.result() }
                await following
                return Result(system, app, report, bytes: line.total)
            } catch let error as NearShareError {
                throw AgentError(error, onto: DisplayText.sanitized(system.displayName))
            }
        } onCancel: {
            operation.cancel()
        }
    }
}

extension Send.Result {
    fileprivate init(_ system: RemoteSystem, _ app: RemoteSystemApp, _ report: NearShareReport, bytes: Int64) {
        self.init(
            device: "\(system.id)",
            deviceName: DisplayText.sanitized(system.displayName),
            app: DisplayText.sanitized(app.appID),
            names: report.names,
            files: report.files,
            bytes: bytes,
            sent: report.bytesSent,
            leftOut: report.leftOut.isEmpty ? nil : report.leftOut.map(Omission.init)
        )
    }
}

extension Send.Result.Omission {
    fileprivate init(_ leftOut: NearShareReport.LeftOut) {
        path = DisplayText.sanitized(leftOut.path)
        code = leftOut.reason.rawValue
        message =
            switch leftOut.reason {
            case .link: "it is a link; send what it leads to"
            case .special: "it is neither a file nor a folder"
            case .notReadable: "it cannot be read, or changed meanwhile; send it again"
            case .nameNotPossible: "its name cannot be sent, or it is nested too deep; rename it"
            case .notWritable: "the other device cannot write it"
            case .damaged: "it arrived damaged; send it again"
            }
    }
}

extension AgentError {
    fileprivate init(_ error: NearShareError, onto name: String) {
        if let cause = error.cause as? AppServiceError, let problem = cause.cause as? ConnectionError {
            // The connection problem is more precise.
            self.init(problem)
            return
        }
        var message = "to '\(name)': \(error.message)"
        if ExitStatus.of(error.code, in: ExitStatus.sharing) == .unreachable { message += "; run it again to continue the transfer" }
        self.init("\(error.code)", message, .of(error.code, in: ExitStatus.sharing))
    }
}

extension LocalDevice {
    /// The app that receives files.
    fileprivate func receiver(_ text: String) async throws -> (RemoteSystem, RemoteSystemApp) {
        do {
            // While `relay receive` runs, the agent does not.
            return try await app(offering: ShareMessages.serviceName, on: text, preferring: Receive.appID)
        } catch let error as AgentError where error.code == "appServiceUnavailable" {
            let what = "'\(text)' receives nothing now; run `relay receive` or `relay agent` there"
            throw AgentError(error.code, what, error.status)
        }
    }
}

/// The progress of a sending command as one line.
private final class SendingLine: Sendable {
    private let progress = TransferProgress()
    private let current = Mutex<NearShareProgress?>(nil)

    /// The bytes of all files.
    var total: Int64 { current.withLock { $0?.totalBytesToSend ?? 0 } }

    func follow(_ values: AsyncValues<NearShareProgress>) async {
        for await value in values {
            let before = current.withLock { current in
                defer { current = value }
                return current?.phase
            }
            if value.phase == .sending, before != .sending {
                let files = value.totalFilesToSend
                progress.begin(files == 1 ? "1 file" : "\(files) files", size: value.totalBytesToSend, at: value.bytesSent)
            }
            progress.reached(value.bytesSent)
        }
    }

    var text: String {
        switch current.withLock({ $0?.phase }) {
        case .sending: progress.line()
        case .interrupted: "the connection was lost; waiting for the other device"
        case .waiting, nil: "waiting for the other device"
        }
    }
}
