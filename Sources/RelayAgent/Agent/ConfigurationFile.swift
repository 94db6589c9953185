// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import RelayProtocol
import RelayStorage
import Yams

/// The agent's settings file, in YAML.
package struct ConfigurationFile: Sendable {
    private static let largest = 1 << 20

    package let path: String
    /// Whether a missing file is an error. Otherwise a missing file means the defaults.
    let isNeeded: Bool

    /// - Parameter path: The file; `nil` for `agent.yaml` in the home directory, which may be missing.
    package init(path: String?, home: Home) {
        self.path = path ?? home.path + "/agent.yaml"
        isNeeded = path != nil
    }

    /// - Throws: `configurationInvalid`, with the line number if it is known.
    package func read() throws -> AgentConfiguration {
        guard FileFacts(path: path, followsLinks: false) != nil else {
            guard isNeeded || errno != ENOENT else { return AgentConfiguration() }
            throw problem("it cannot be read")
        }
        // Write access to the directory of the link, or of its target, is enough to replace the file. Both directories are checked.
        guard let target = realpath(path, nil) else { throw problem("it cannot be read") }
        defer { free(target) }
        let file = URL(filePath: String(cString: target))
        for folder in Set([URL(filePath: path), file].map { $0.deletingLastPathComponent().path }) {
            guard let facts = FileFacts(path: folder, followsLinks: true) else { throw problem("it cannot be read") }
            try check(facts, folder, "the folder that it is in")
        }
        let descriptor = open(target, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK)
        guard descriptor >= 0 else { throw problem("it cannot be read") }
        defer { close(descriptor) }
        guard let facts = FileFacts(descriptor) else { throw problem("it cannot be read") }
        try check(facts, path, "it")
        guard facts.isFile, facts.size <= Self.largest,
            let text = BoundedFile.contents(of: descriptor, largest: Self.largest).flatMap({ String(validating: $0, as: UTF8.self) })
        else { throw problem("it cannot be read as a text of 1 MiB at most") }
        return try configuration(text)
    }

    /// Rejects a file or directory that other users can write: they could run any program as this user.
    private func check(_ facts: FileFacts, _ place: String, _ what: String) throws {
        guard facts.permissions & 0o022 == 0 else {
            throw problem("other users can write \(what); run: \(ShellText.command("chmod go-w", place))")
        }
        guard facts.isOwnOrRoots else {
            throw problem("\(what) belongs to another user; the agent takes only what is yours or root's: '\(place)'")
        }
    }

    /// The settings of a text.
    package func configuration(_ text: String) throws -> AgentConfiguration {
        let node: Node?
        do {
            node = try Yams.compose(yaml: text)
        } catch {
            throw Self.place(of: error).map { problem($1, line: $0) } ?? problem("it is not YAML")
        }
        guard let node else { return AgentConfiguration() }
        do {
            return try YAMLDecoder().decode(AgentConfiguration.self, from: node)
        } catch let error as DecodingError {
            let (path, what) = Self.content(of: error)
            let name = path.map { $0.intValue.map { "\($0 + 1)" } ?? $0.stringValue }.joined(separator: ".")
            throw problem(name.isEmpty ? what : "'\(name)' \(what)", line: Self.line(of: path, in: node))
        }
    }

    private func problem(_ what: String, line: Int? = nil) -> AgentError {
        AgentError("configurationInvalid", "\(path)\(line.map { ", line \($0)" } ?? ""): \(what)", .usage)
    }

    private static func place(of error: any Error) -> (line: Int, what: String)? {
        switch error {
        case YamlError.scanner(_, let problem, let mark, _), YamlError.parser(_, let problem, let mark, _),
            YamlError.composer(_, let problem, let mark, _):
            (mark.line, problem)
        case YamlError.duplicatedKeysInMapping(let keys, let context):
            (context.mark.line, "'\(keys.sorted().joined(separator: ", "))' occurs twice")
        default: nil
        }
    }

    private static func content(of error: DecodingError) -> (path: [any CodingKey], what: String) {
        switch error {
        case .dataCorrupted(let context): (context.codingPath, context.debugDescription)
        case .keyNotFound(let key, let context): (context.codingPath, "needs '\(key.stringValue)'")
        case .typeMismatch(_, let context), .valueNotFound(_, let context): (context.codingPath, "has the wrong type")
        @unknown default: ([], "cannot be decoded")
        }
    }

    /// The line of a setting; for a missing key, the line of the value that contains it.
    private static func line(of path: [any CodingKey], in root: Node) -> Int? {
        var node = root
        var line = root.mark?.line
        for key in path {
            if let mapping = node.mapping, let (name, value) = mapping.first(where: { $0.key.string == key.stringValue }) {
                line = name.mark?.line ?? line
                node = value
            } else if let index = key.intValue, let sequence = node.sequence, sequence.indices.contains(index) {
                node = sequence[index]
                line = node.mark?.line ?? line
            } else {
                break
            }
        }
        return line
    }
}
