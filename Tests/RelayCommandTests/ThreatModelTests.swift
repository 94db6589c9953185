// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import RelayTesting
import Testing

/// Each claim of `docs/threat-model.md` names its tests.
@Suite struct ThreatModelTests {
    /// The names of all tests, by suite.
    private func suites() throws -> [String: Set<String>] {
        let folder = Project.root.appending(path: "Tests")
        let paths = try FileManager.default.subpathsOfDirectory(atPath: folder.path).filter { $0.hasSuffix(".swift") }
        var suites: [String: Set<String>] = [:]
        for path in paths {
            let text = try String(contentsOf: folder.appending(path: path), encoding: .utf8)
            let names = Set(text.matches(of: /func ([a-z]\w*)\(/).map { String($0.1) })
            for suite in text.matches(of: /(?:struct|class|actor) (\w+Tests)\b/) { suites[String(suite.1), default: []].formUnion(names) }
        }
        return suites
    }

    @Test func everyNamedTestExists() throws {
        let suites = try suites()
        let named = try Project.text("docs/threat-model.md").matches(of: /`(\w+Tests)(?:\/(\w+))?`/)
        #expect(named.count > 40)
        for name in named {
            let suite = String(name.1)
            guard let tests = suites[suite] else {
                Issue.record("there is no suite \(suite)")
                continue
            }
            if let test = name.2 { #expect(tests.contains(String(test)), "\(suite)/\(test)") }
        }
    }

    /// `scripts/attack` selects suites by this suffix.
    @Test func everyAttackSuiteIsNamed() throws {
        let text = try Project.text("docs/threat-model.md")
        for suite in try suites().keys where suite.hasSuffix("AttackTests") && suite != "UnderAttackTests" {
            #expect(text.contains("`\(suite)"), "\(suite) is not in the table")
        }
    }
}
