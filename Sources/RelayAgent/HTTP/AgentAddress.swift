// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import Foundation
import RelayProtocol
import RelayStorage

/// Where the running agent of a home serves its API: the content of `agent.json` in the home. It counts only if `GET /v1` on the socket
/// answers with the same instance, because an agent that was killed leaves it behind.
struct AgentAddress: Codable, Hashable, Sendable {
    /// The path of the Unix socket.
    var socket: String
    /// A random name of the agent's process.
    var instance: String
    /// The home, without links. A copy of it elsewhere has another agent.
    var home: String

    init(socket: String, instance: String, home: Home) {
        (self.socket, self.instance, self.home) = (socket, instance, Self.place(of: home))
    }

    private static func place(of home: Home) -> String { URL(filePath: home.path).resolvingSymlinksInPath().path }

    private static func file(_ home: Home) -> String { home.path + "/agent.json" }

    /// What the last agent of a home has written; `nil` without one.
    static func read(_ home: Home) -> AgentAddress? {
        guard let bytes = try? PrivateFile.contents(of: file(home), upTo: 4_096) else { return nil }
        guard let address = try? JSONDecoder().decode(AgentAddress.self, from: Data(bytes)),
            address.home.utf8.elementsEqual(place(of: home).utf8)
        else { return nil }
        return address
    }

    func write(_ home: Home) throws {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        try PrivateFile.replace(Self.file(home), with: Array(try encoder.encode(self)))
    }

    static func remove(_ home: Home) { try? PrivateFile.delete(file(home)) }
}

/// The place of an agent's Unix socket: `XDG_RUNTIME_DIR/device-relay/HASH.sock`, where the hash is that of the home's path, else the home.
enum SocketPlace {
    /// The system's limit is 104 bytes on macOS, and 108 on Linux, with the final NUL.
    static let longest = 100

    /// - Parameter chosen: The path of the settings.
    /// - Throws: If the path is too long, or if another user can write to its directory.
    static func prepare(_ home: Home, chosen: String?, environment: [String: String]) throws -> String {
        let path = try path(home, chosen: chosen, environment: environment)
        guard path.utf8.count <= longest else {
            throw AgentError(
                "invalidSettings",
                "the path of the API's socket has more than \(longest) bytes: \(path). Set a shorter one in agent.yaml: `api: {socket: /path}`",
                .usage
            )
        }
        let directory = PrivateDirectory.parent(of: path)
        try PrivateDirectory.makeAll(directory)
        try PrivateDirectory.check(directory)
        // An agent that was killed leaves its socket. The host lock says that no other one runs.
        if let facts = FileFacts(path: path, followsLinks: false) {
            guard facts.isSocket, facts.isOwn else {
                throw AgentError("invalidSettings", "\(path) is not a socket of this user; remove it, or set another `api.socket`", .usage)
            }
            unlink(path)
        }
        return path
    }

    private static func path(_ home: Home, chosen: String?, environment: [String: String]) throws -> String {
        if let chosen { return chosen }
        guard let runtime = environment["XDG_RUNTIME_DIR"], runtime.utf8.first == UInt8(ascii: "/") else {
            return home.path + "/agent.sock"
        }
        let name = Digest256(hashing: Array(home.path.utf8)).bytes.prefix(8).map { String(format: "%02x", $0) }.joined()
        return "\(runtime)/device-relay/\(name).sock"
    }
}
