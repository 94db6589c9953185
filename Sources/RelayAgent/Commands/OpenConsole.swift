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
        let result = try await run(context)
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

    /// A page without scripts. The link is of this program's own making.
    static func page(leadingTo url: String) -> String {
        """
        <!doctype html>
        <html lang="en">
        <meta charset="utf-8">
        <meta name="referrer" content="no-referrer">
        <meta http-equiv="refresh" content="0; url=\(url)">
        <title>Device Relay</title>
        <p><a href="\(url)">Open the console</a></p>
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
