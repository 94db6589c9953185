// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import Foundation
import RelayProtocol
import RelayStorage

/// What a transfer from another device brought, as `relay receive` and the agent print it.
package struct Reception: AgentResult {
    package enum Kind: String, Encodable, Sendable {
        case received, declined
    }

    package var event: Kind
    package var app: String
    package var from: Host.Event.Caller
    /// The names of the files and folders: offered ones, or with `received` those that they have here.
    package var names: [String]
    package var folder: String?
    package var files: Int
    package var bytes: Int64
    /// The files that did not arrive.
    package var missing: [String]?
    /// Links and texts. The agent writes them to files instead.
    package var uris: [String]?
    package var texts: [String]?

    init(_ event: Kind, _ offer: SharingHandler.Offer, app: String) {
        self.event = event
        self.app = app
        from = Host.Event.Caller(offer.caller)
        names = offer.names.map(DisplayText.sanitized)
        files = offer.fileCount
        bytes = offer.bytes
    }

    init(_ received: SharingHandler.Received, folder: String, app: String) {
        self.init(.received, received.offer, app: app)
        names = received.urls.map { DisplayText.sanitized($0.lastPathComponent) }
        self.folder = folder
        files -= received.missing.count
        missing = received.missing.isEmpty ? nil : received.missing.map(DisplayText.sanitized)
    }

    package var notes: [String] { (missing ?? []).map { "relay: '\($0)' did not arrive" } }

    package func lines(_ style: Style) -> [String] {
        let name = style.show(from.name, .strong)
        switch event {
        case .declined: return ["declined \(names.joined(separator: ", ")) from \(name)"]
        case .received:
            let size = files == 0 ? "" : "  \(ByteCount.text(bytes))"
            let what = names.isEmpty ? [] : ["\(names.joined(separator: ", "))\(size)  from \(name)"]
            let lines = (texts ?? []).flatMap { $0.split(separator: "\n", omittingEmptySubsequences: false) }
            return what + (uris ?? []) + lines.map(String.init)
        }
    }
}

/// Receives what other devices send to this machine.
struct Receiving: Sendable {
    /// Who may send.
    enum Access: String, Hashable, Sendable, CaseIterable {
        /// Known devices, without a question.
        case known
        /// Known devices, each time after a question at the terminal.
        case ask
        case nothing
    }

    let appID: String
    let folder: String
    var access: Access
    /// Whether links and texts become files. Otherwise they are part of what is printed.
    let keepsNotes: Bool
    let answerers: Answerers
    let console: Console
    let report: @Sendable (Reception) -> Void
    /// Called after a transfer, with whether its sender knows the result.
    var ended: @Sendable (Bool) -> Void = { _ in }
    /// Takes a line about a transfer that could not be stored.
    let log: @Sendable (String) -> Void

    /// The sender waits for a minute.
    private static let patience = Duration.seconds(55)

    /// `nil` if nobody may send.
    var handler: SharingHandler? {
        guard access != .nothing else { return nil }
        var handler = SharingHandler(decide: decide, progress: progress, received: received)
        handler.ended = { ended($1) }
        handler.failed = { log(Self.failure($1, from: $0.caller)) }
        return handler
    }

    /// A line without names of files.
    private static func failure(_ code: NearShareError.Code, from caller: AppServiceCaller) -> String {
        let why =
            code == .remoteDiskFull
            ? "the disk has no room for it, of which a GiB stays free" : "the folder for received files cannot be written"
        return "a transfer from \(DisplayText.quoted(caller.deviceName)) was not stored: \(why)"
    }

    private func decide(_ offer: SharingHandler.Offer) async -> SharingHandler.Answer {
        let place = URL(filePath: folder, directoryHint: .isDirectory)
        guard access == .ask else { return .accept(into: place) }
        let who =
            if offer.caller.isStranger { ", a stranger on this network whose name nothing proves," } else if offer.caller.isPaired {
                ", a paired device of another person,"
            } else { "" }
        let name = DisplayText.quoted(offer.caller.deviceName) + who
        var ask = Ask(.transfer, from: offer.caller, within: Self.patience, canAlways: true)
        ask.name = offer.names.first.map(DisplayText.sanitized)
        ask.count = offer.fileCount + offer.uris.count + offer.texts.count
        ask.size = offer.bytes
        let question = Answerers.Question(
            ask: ask,
            subject: .transfer,
            lines: ["\(name) wants to send \(Self.text(offer))"],
            terminal: "Take it? [y/N]",
            title: "Take what a device sends?",
            yes: .take,
            patience: Self.patience
        )
        switch await answerers.reply(to: question, of: offer.caller) {
        case .answer(.once), .answer(.always): return .accept(into: place)
        case .answer(.no), .none, .impossible:
            report(Reception(.declined, offer, app: appID))
            return .decline
        }
    }

    /// What an offer consists of.
    static func text(_ offer: SharingHandler.Offer) -> String {
        let shown = 5
        var parts = offer.names.prefix(shown).map { "'\(DisplayText.sanitized($0))'" }
        if offer.names.count > shown { parts.append("\(offer.names.count - shown) more") }
        if offer.fileCount > 0 {
            parts = [
                "\(parts.joined(separator: ", ")) (\(offer.fileCount == 1 ? "1 file" : "\(offer.fileCount) files"), \(ByteCount.text(offer.bytes)))"
            ]
        }
        if !offer.uris.isEmpty { parts.append(offer.uris.count == 1 ? "a link" : "\(offer.uris.count) links") }
        if !offer.texts.isEmpty { parts.append(offer.texts.count == 1 ? "a text" : "\(offer.texts.count) texts") }
        return parts.joined(separator: " and ")
    }

    private func progress(_ offer: SharingHandler.Offer, _ values: AsyncValues<NearShareProgress>) async {
        guard let show = console.waitingLine else { return }
        let bar = TransferProgress()
        bar.begin(offer.names.first ?? "", size: offer.bytes, at: 0)
        defer { show(nil) }
        var last = ContinuousClock.now
        for await value in values {
            bar.reached(value.bytesSent)
            guard last.duration(to: .now) > .milliseconds(200) else { continue }
            last = .now
            show(bar.line())
        }
    }

    private func received(_ received: SharingHandler.Received) throws {
        var reception = Reception(received, folder: folder, app: appID)
        if keepsNotes {
            let texts = received.offer.uris.map(\.text) + received.offer.texts
            if !texts.isEmpty { reception.names.append(try NoteFile.write(texts.joined(separator: "\n"), in: folder)) }
        } else {
            if !received.offer.uris.isEmpty { reception.uris = received.offer.uris.map(\.text) }
            if !received.offer.texts.isEmpty { reception.texts = received.offer.texts }
        }
        console.clearProgress()
        report(reception)
    }
}

/// The links and texts of a transfer as a file, because their content goes to no log.
enum NoteFile {
    /// - Returns: The name of the new file.
    static func write(_ text: String, in path: String) throws(SystemError) -> String {
        let folder = try OpenFile.folder(at: path, creates: true)
        guard let name = EntryName("Text.txt") else { throw SystemError(EINVAL) }
        for number in 1...999 {
            guard let free = number == 1 ? name : name.numbered(number) else { break }
            let file: OpenFile
            do throws(SystemError) {
                file = try folder.open(free, O_WRONLY | O_CREAT | O_EXCL, mode: 0o600)
            } catch {
                guard error.number == EEXIST else { throw error }
                continue
            }
            do throws(SystemError) {
                try file.write(Array(text.utf8), at: 0)
                try file.synchronize()
            } catch {
                folder.remove(free)
                throw error
            }
            return free.text
        }
        throw SystemError(EEXIST)
    }
}
