// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol
import Yams

#if canImport(FoundationEssentials)
import FoundationEssentials
#else
import Foundation
#endif

/// The agent's settings on disk: YAML.
package struct ConfigurationFile: Sendable {
    private static let largest = 1 << 20

    package let path: String
    /// Without it there are the defaults.
    let isNeeded: Bool

    /// - Parameter path: `nil` for the one in the home, which need not be there.
    package init(path: String?, home: Home) {
        self.path = path ?? home.path + "/agent.yaml"
        isNeeded = path != nil
    }

    /// - Throws: `configurationInvalid`, with the line where there is one.
    package func read() throws -> AgentConfiguration {
        let attributes: [FileAttributeKey: Any]
        do {
            attributes = try FileManager.default.attributesOfItem(atPath: URL(filePath: path).resolvingSymlinksInPath().path)
        } catch {
            guard isNeeded || FileManager.default.fileExists(atPath: path) else { return AgentConfiguration() }
            throw problem("it cannot be read")
        }
        // Who can write it can run whatever they like.
        if let mode = attributes[.posixPermissions] as? Int, mode & 0o002 != 0 {
            throw problem("every user can write it; run: chmod o-w '\(path)'")
        }
        guard let size = attributes[.size] as? Int, size <= Self.largest, let data = FileManager.default.contents(atPath: path),
            let text = String(data: data, encoding: .utf8)
        else { throw problem("it cannot be read as a text of 1 MiB at most") }
        return try configuration(text)
    }

    func configuration(_ text: String) throws -> AgentConfiguration {
        let node: Node?
        do {
            node = try Yams.compose(yaml: text)
        } catch {
            throw Self.place(of: error).map { problem($1, line: $0) } ?? problem("it is no YAML")
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
            (context.mark.line, "'\(keys.sorted().joined(separator: ", "))' is there twice")
        default: nil
        }
    }

    private static func content(of error: DecodingError) -> (path: [any CodingKey], what: String) {
        switch error {
        case .dataCorrupted(let context): (context.codingPath, context.debugDescription)
        case .keyNotFound(let key, let context): (context.codingPath, "needs '\(key.stringValue)'")
        case .typeMismatch(_, let context), .valueNotFound(_, let context): (context.codingPath, "is of another kind than it has to be")
        @unknown default: ([], "cannot be understood")
        }
    }

    /// Where a setting stands; of one that has no line of its own, what it stands in.
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
