// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import RelayProtocol

/// What `relay copy` and `relay paste` print.
package struct ClipboardResult: AgentResult {
    package var device: String
    package var deviceName: String
    package var app: String
    /// The size of the text.
    package var bytes: Int
    /// With `paste --print`.
    package var text: String?
    fileprivate var words: String

    private enum CodingKeys: String, CodingKey { case device, deviceName, app, bytes, text }

    fileprivate init(_ system: RemoteSystem, _ app: RemoteSystemApp, _ text: String, prints: Bool, _ words: String) {
        device = "\(system.id)"
        deviceName = DisplayText.sanitized(system.displayName)
        self.app = DisplayText.sanitized(app.appID)
        bytes = text.utf8.count
        self.text = prints ? text : nil
        self.words = words
    }

    package func lines(_ style: Style) -> [String] {
        if let text { return text.split(separator: "\n", omittingEmptySubsequences: false).map(String.init) }
        return ["\(words) \(style.show(deviceName, .strong)): \(ByteCount.text(Int64(bytes)))"]
    }
}

/// Puts this machine's clipboard, or standard input, on the clipboard of another device.
package struct Copy: DeviceCommand {
    var target: String
    var readsInput: Bool

    package init(target: String, readsInput: Bool) { (self.target, self.readsInput) = (target, readsInput) }

    package func run(on local: LocalDevice) async throws -> ClipboardResult {
        let text: String
        if readsInput {
            let bytes = try await StandardInput().all("the text", most: Clipboard.maximumBytes) ?? []
            guard let input = String(validating: bytes, as: UTF8.self) else {
                throw AgentError("inputNotText", "standard input is not a text in UTF-8", .usage)
            }
            text = input
        } else {
            text = try await Clipboard().read()
        }
        guard !text.isEmpty else { throw AgentError("clipboardEmpty", "there is nothing to copy: the clipboard is empty", .usage) }
        return try await local.withClipboard(of: target) { connection, system, app in
            _ = try await connection.call(ClipboardService.Write(text: text))
            return ClipboardResult(system, app, text, prints: false, "copied to")
        }
    }
}

/// Takes the clipboard of another device: to this machine's clipboard, or to standard output.
package struct Paste: DeviceCommand {
    var target: String
    var prints: Bool

    package init(target: String, prints: Bool) { (self.target, self.prints) = (target, prints) }

    package func run(on local: LocalDevice) async throws -> ClipboardResult {
        let clipboard = Clipboard()
        guard prints || clipboard.isThere else {
            var missing = Clipboard.missing
            missing.message += "; --print prints it instead"
            throw missing
        }
        return try await local.withClipboard(of: target) { connection, system, app in
            let answer = try await connection.call(ClipboardService.Read())
            guard answer.problem == nil else {
                let what = "the agent there lets nobody read its clipboard; 'clipboard: all' in its settings permits that"
                throw AgentError("clipboardNotAllowed", what, .declined)
            }
            guard let text = answer.text, !text.isEmpty else {
                throw AgentError("clipboardEmpty", "the clipboard there is empty, or has no text", .notFound)
            }
            if !prints { try await clipboard.write(text) }
            return ClipboardResult(system, app, text, prints: prints, "pasted from")
        }
    }
}

extension LocalDevice {
    fileprivate func withClipboard(
        of text: String,
        _ body: (AppServiceConnection, RemoteSystem, RemoteSystemApp) async throws -> ClipboardResult
    ) async throws -> ClipboardResult {
        try await waitForDevices()
        let found: (RemoteSystem, RemoteSystemApp)
        do {
            found = try await app(offering: ClipboardService.name, on: text)
        } catch let error as AgentError where error.code == "appServiceUnavailable" {
            let what = "'\(text)' offers no clipboard: its agent needs a desktop, and wl-clipboard or xclip"
            throw AgentError(error.code, what, error.status)
        }
        let info = AppServiceInfo(name: ClipboardService.name, appID: found.1.appID)
        return try await platform.withAppService(info, on: RemoteSystemConnectionRequest(found.1)) { connection in
            try await body(connection, found.0, found.1)
        }
    }
}
