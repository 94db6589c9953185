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
    var isVisible: Bool

    /// - Parameters:
    ///   - items: Files, folders and URIs; `-` for standard input.
    ///   - texts: Texts.
    ///   - target: A device, or one of its apps: `DEVICE/APP`.
    ///   - name: The name for standard input as a file; `nil` sends a short text as a text.
    ///   - isVisible: Whether the target is a device that its person has made visible, whoever that is. Otherwise known devices come first, and
    ///     a person confirms the visible one.
    package init(items: [String], texts: [String], target: String, name: String?, isVisible: Bool) {
        (self.items, self.texts, self.target, self.name, self.isVisible) = (items, texts, target, name, isVisible)
    }

    package struct Result: AgentResult {
        package var device: String
        package var deviceName: String
        package var app: String
        /// Whether nothing is known of the device but the key that has answered, of which `device` has the fingerprint.
        package var stranger: Bool?
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
            let what = names.isEmpty ? style.show("sent", .good) : style.show(names.joined(separator: ", "), .strong)
            // Texts and links alone have no size.
            return [size.isEmpty && note.isEmpty ? "\(what) on \(deviceName)" : "\(what)\(size)\(note)  on \(deviceName)"]
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
            return try await send(contents, context)
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
                // Behind a space, one that begins with a hyphen would be an option.
                let hint = "; to send it as a text, write --text=\(ShellText.word(item))"
                throw AgentError("fileNotFound", "there is no file or folder '\(item)', and it is no URI\(hint)", .notFound)
            }
        }
        return contents + texts.map { .text($0) }
    }

    private func send(_ contents: [NearShareItem], _ context: AgentContext) async throws -> Result {
        if isVisible {
            return try await context.withPlatform(try context.anyDevice(), connects: false) { local in
                try await run(contents, to: try await stranger(on: local, context.console), on: local)
            }
        }
        do {
            return try await context.withAccount { local in
                do {
                    do { try await local.waitForDevices() } catch  where !Task.isCancelled {
                        throw ReceiverUnknown(reason: AgentError(error))
                    }
                    return try await run(contents, to: try await local.receiver(target), on: local)
                } catch let error as ReceiverUnknown {
                    // A stranger takes no name of a known device.
                    guard !(await local.mayMeanAKnownDevice(target, in: local.accounts)) else { throw error.reason }
                    return try await run(contents, to: try await stranger(on: local, context.console, otherwise: error.reason), on: local)
                }
            }
        } catch let error as AgentError where error.code == "notSignedIn" {
            guard try context.home.storedMembership() == nil else { throw error }
            return try await context.withPlatform(try context.anyDevice(), connects: false) { local in
                try await run(contents, to: try await stranger(on: local, context.console, otherwise: error), on: local)
            }
        }
    }

    /// The visible device that is meant. Unless the command line says that it is one, a person confirms it.
    /// - Parameter failure: Why there is no known device; thrown if no device is visible by this name.
    private func stranger(
        on local: LocalDevice,
        _ console: Console,
        otherwise failure: AgentError? = nil
    ) async throws -> VisibleDevice {
        let search = VisibleSearch(mode: .receive, name: target)
        let found: VisibleSearch.Found
        do {
            found = try await search.run(on: local, patience: failure == nil ? VisibleSearch.patience : VisibleSearch.shortPatience)
        } catch {
            // The network may not be used.
            if let failure, !Task.isCancelled { throw failure }
            throw error
        }
        guard let device = found.fitting.first else {
            if let failure { throw failure }
            let what = "no device called '\(target)' is visible on this network to receive; run `relay receive --visible` there"
            throw AgentError("remoteSystemUnavailable", what, .notFound)
        }
        guard found.fitting.count == 1 else {
            let candidates = found.fitting.map { "\($0.id) (\(DisplayText.quoted($0.name)), \(DisplayText.sanitized($0.kind.rawValue)))" }
            throw AgentError.ambiguous("several visible devices are called '\(target)'; the ids change each time", candidates)
        }
        let name = DisplayText.quoted(device.name)
        let warning = "\(name) is a stranger's device, visible on this network. Nothing proves whose it is: anyone here can use the name."
        guard !isVisible else {
            console.note(warning)
            return device
        }
        guard let question = console.question else {
            throw AgentError("notConfirmed", "\(warning) To send to it anyway, add --visible", .declined)
        }
        console.clearProgress()
        guard try await question([warning], "Send to it?") else { throw AgentError("notConfirmed", "nothing was sent", .declined) }
        return device
    }

    private func run(_ contents: [NearShareItem], to device: VisibleDevice, on local: LocalDevice) async throws -> Result {
        let operation = NearShareSender(local.platform).send(contents, to: device)
        let name = DisplayText.sanitized(device.name)
        let (report, bytes) = try await follow(operation, on: local) { error, _ in AgentError(error, onto: name) }
        var result = Result(
            device: operation.receivingEndpoint.map { "\($0)" } ?? "",
            name,
            app: NearShareSender.appIDOfStrangers,
            report,
            bytes: bytes
        )
        result.stranger = true
        return result
    }

    private func run(
        _ contents: [NearShareItem],
        to receiver: (system: RemoteSystem, app: RemoteSystemApp),
        on local: LocalDevice
    ) async throws -> Result {
        try local.checkIsNotOff(receiver.app)
        let operation = NearShareSender(local.platform).send(contents, to: RemoteSystemConnectionRequest(receiver.app))
        let name = DisplayText.sanitized(receiver.system.displayName)
        let (report, bytes) = try await follow(operation, on: local) { error, hasBegun in
            local.failure(error, sendingTo: receiver.app, called: name, hasBegun: hasBegun)
        }
        return Result(
            device: "\(receiver.system.id)",
            name,
            app: DisplayText.sanitized(receiver.app.appID),
            report,
            bytes: bytes
        )
    }

    /// Shows the progress until the end.
    private func follow(
        _ operation: NearShareOperation,
        on local: LocalDevice,
        failing failure: (NearShareError, _ hasBegun: Bool) -> AgentError
    ) async throws -> (NearShareReport, bytes: Int64) {
        let line = SendingLine()
        return try await withTaskCancellationHandler {
            async let following: Void = line.follow(operation.progress)
            do {
                let report = try await local.whileWaiting(for: { line.text }) { try await operation.result() }
                await following
                return (report, line.total)
            } catch let error as NearShareError {
                throw failure(error, line.hasBegun)
            }
        } onCancel: {
            operation.cancel()
        }
    }
}

extension Send.Result {
    fileprivate init(device: String, _ name: String, app: String, _ report: NearShareReport, bytes: Int64) {
        self.init(
            device: device,
            deviceName: name,
            app: app,
            names: report.names,
            files: report.files,
            bytes: bytes,
            sent: report.bytesSent,
            leftOut: report.leftOut.isEmpty ? nil : report.leftOut.map(Omission.init)
        )
    }
}

extension Send.Result.Omission {
    init(_ leftOut: NearShareReport.LeftOut) {
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
    init(_ error: NearShareError, onto name: String) {
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

/// No known device has the name, or it cannot be said which have.
struct ReceiverUnknown: Error {
    let reason: AgentError
}

extension LocalDevice {
    /// The app that receives files.
    func receiver(_ text: String) async throws -> (system: RemoteSystem, app: RemoteSystemApp) {
        do {
            // While `relay receive` runs, the agent does not.
            return try await app(offering: ShareMessages.serviceName, on: text, preferring: Receive.appID)
        } catch let error as AgentError where error.code == "appServiceUnavailable" {
            let what = "'\(text)' receives nothing now; run `relay receive` or `relay agent` there"
            throw AgentError(error.code, what, error.status)
        } catch let error as AgentError where ["remoteSystemUnavailable", "relayUnreachable"].contains(error.code) {
            throw ReceiverUnknown(reason: error)
        }
    }

    /// Why a transfer failed, with what is known of the device.
    /// - Parameter hasBegun: Whether the device has accepted it.
    func failure(_ error: NearShareError, sendingTo app: RemoteSystemApp, called name: String, hasBegun: Bool) -> AgentError {
        guard error.code == .remoteSystemUnavailable, (error.cause as? AppServiceError)?.code == .timedOut else {
            return AgentError(error, onto: name)
        }
        let advice = hasBegun ? "; run it again to continue the transfer" : ""
        return AgentError("\(error.code)", notReached(app) + advice, .unreachable)
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

    /// Whether the other device has accepted the transfer.
    var hasBegun: Bool { current.withLock { $0.map { $0.phase != .waiting } ?? false } }

    var text: String {
        switch current.withLock({ $0?.phase }) {
        case .sending: progress.line()
        case .interrupted: "the connection was lost; waiting for the other device"
        case .waiting, nil: "waiting for the other device"
        }
    }
}
