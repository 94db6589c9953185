// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import RelayTesting

/// docs/cli-schema.json, for an independent validator.
enum JSONSchema {
    struct Definition: Decodable {
        var properties: [String: Ignored]
        var required: Set<String>

        struct Ignored: Decodable { init(from decoder: any Decoder) {} }
    }

    /// The definitions of all objects, including nested ones.
    static func definitions() throws -> [String: Definition] {
        struct Schema: Decodable {
            var definitions: [String: Definition]
            enum CodingKeys: String, CodingKey { case definitions = "$defs" }
        }
        return try JSONDecoder().decode(Schema.self, from: Data(Project.text("docs/cli-schema.json").utf8)).definitions
    }

    /// The faults of objects, each given with the name of its definition.
    static func faults(_ objects: [(name: String, text: String)], python: URL) async throws -> [String] {
        let validator = try RelayProcess(
            [Project.root.appending(path: "scripts/validate-json.py").path, Project.root.appending(path: "docs/cli-schema.json").path],
            executable: python,
            environment: [:],
            hasInput: true
        )
        try validator.write(objects.map { "\($0.name)\t\($0.text)\n" }.joined())
        try validator.endInput()
        let output = await validator.finish()
        return output.output + (output.status == 0 ? [] : output.error)
    }
}
