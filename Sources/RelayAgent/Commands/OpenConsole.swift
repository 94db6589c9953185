// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
package import Foundation
import RelayProtocol
import RelayStorage

/// Opens the console of the running agent in a browser.
package struct OpenConsole: AgentOnlyCommand {
    package init() {}

    package struct Result: AgentResult, Codable {
        var id: String
        /// The link. It works once.
        package var url: String
        package var expires: Date
        /// `true` if an earlier link was used twice.
        var reused: Bool?

        package var notes: [String] {
            guard reused ?? false else { return [] }
            return ["an earlier link was used twice, so another program of this machine may have had it; its sessions were ended"]
        }
        package func lines(_ style: Style) -> [String] { [url] }
    }

    package func request() throws -> APIRequest { try APIRequest(.post, "console", "keys").with(body: [String: String]()) }

    /// Opens it, and waits until the browser has used the link.
    package func open(_ context: AgentContext) async throws {
        let result: Result
        do {
            result = try await run(context)
        } catch {
            if !context.console.isInteractive { await Self.show(AgentError(error), context) }
            throw error
        }
        for note in result.notes { context.console.note(note) }
        let port = URL(exactly: result.url)?.port ?? 0
        guard URIOpener.hasDisplay else {
            throw AgentError(
                "displayMissing",
                "there is no display here. Print the link with `relay console --print`; from another machine, first: "
                    + "ssh -L \(port):127.0.0.1:\(port) this-machine",
                .failed
            )
        }
        // The link is in a file, so that no list of processes shows it.
        let file = context.home.path + "/console.html"
        try PrivateFile.replace(file, with: Array(Self.page(leadingTo: result.url).utf8))
        defer { try? PrivateFile.delete(file) }
        let opened = await URIOpener(command: nil, environment: ProgramEnvironment()).open(try LaunchURI(URL(filePath: file))) {}
        if case .failed(let why, _) = opened { throw AgentError("browserFailed", "\(why); print the link: relay console --print", .failed) }
        let key = try await ConsoleKey(id: result.id).run(context)
        switch key.state {
        case .used: context.console.note("the console is open in the browser")
        case .usedTwice:
            throw AgentError(
                "keyUsedTwice",
                "the link was used twice, so another program of this machine may have had it; both sessions were ended",
                .failed
            )
        case .unused, .expired:
            throw AgentError("linkUnused", "no browser has used the link; print it: relay console --print", .failed)
        }
    }

    /// Shows why there is no console where it would be: who opens it from a desktop's menu sees no terminal.
    private static func show(_ failure: AgentError, _ context: AgentContext) async {
        guard URIOpener.hasDisplay else { return }
        // A device that has never joined has no home yet.
        let homes = [context.home.path, FileManager.default.temporaryDirectory.path]
        guard let folder = homes.first(where: { FileManager.default.fileExists(atPath: $0) }),
            let file = try? LaunchURI(URL(filePath: "\(folder)/console-\(getuid()).html")),
            (try? PrivateFile.replace("\(folder)/console-\(getuid()).html", with: Array(page(saying: failure.message).utf8))) != nil
        else { return }
        // It has no secret, and remains for the browser to read.
        _ = await URIOpener(command: nil, environment: ProgramEnvironment()).open(file) {}
    }

    /// A page without scripts. The link is of this program's own making.
    static func page(leadingTo url: String) -> String {
        page(
            head: "<meta http-equiv=\"refresh\" content=\"0; url=\(url)\">",
            "<p><a href=\"\(url)\">Open the console</a></p>"
        )
    }

    static func page(saying text: String) -> String {
        let sentence = text.prefix(1).uppercased() + text.dropFirst()
        let escaped = sentence.replacing("&", with: "&amp;").replacing("<", with: "&lt;")
        // Commands stand in backticks.
        let parts = escaped.split(separator: "`" as Character, omittingEmptySubsequences: false).enumerated()  // ASCII only
            .map { $0.offset.isMultiple(of: 2) ? String($0.element) : "<code>\($0.element)</code>" }
        return page(
            head:
                "<style>:root { color-scheme: light dark } body { max-width: 34rem; margin: 4rem auto; font: 1.1rem/1.5 system-ui }</style>",
            "<h1>The console is not open</h1>\n<p>\(parts.joined())</p>"
        )
    }

    private static func page(head: String, _ body: String) -> String {
        """
        <!doctype html>
        <html lang="en">
        <meta charset="utf-8">
        <meta name="viewport" content="width=device-width">
        <meta name="referrer" content="no-referrer">
        \(head)
        <title>Device Relay</title>
        \(body)
        </html>

        """
    }
}

/// Waits until a link to the console is used or over.
struct ConsoleKey: AgentOnlyCommand {
    var id: String

    enum State: String, Codable, Sendable {
        case unused, used, usedTwice, expired
    }

    struct Result: AgentResult, Codable {
        var state: State

        init(_ state: ConsoleAccess.KeyState) {
            self.state =
                switch state {
                case .unused: .unused
                case .used: .used
                case .usedTwice: .usedTwice
                case .expired: .expired
                }
        }

        func lines(_ style: Style) -> [String] { [state.rawValue] }
    }

    func request() throws -> APIRequest {
        var request = APIRequest(.get, "console", "keys", id)
        request.wait = ConsoleAccess.keyLife
        return request
    }

    func isFinal(_ result: Result) -> Bool { result.state != .unused }
    func waitingText(_ result: Result) -> String { "waiting for the browser" }
}
