// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import Testing

@testable import RelayAgent

/// Runs the fuzzer's seeds and all inputs that once failed through the settings of a normal build.
@Suite struct FuzzCorpusTests {
    @Test func settingsAreReadOrRefused() throws {
        let fuzzing = URL(filePath: #filePath).deletingLastPathComponent().appending(path: "../../FuzzTesting").standardizedFileURL
        var settings: [AgentConfiguration] = []
        for kind in ["Corpus", "FailCases"] {
            let folder = fuzzing.appending(path: "\(kind)/FuzzSettings").path
            for name in (try? FileManager.default.contentsOfDirectory(atPath: folder)) ?? [] {
                let text = String(decoding: try Data(contentsOf: URL(filePath: "\(folder)/\(name)")), as: UTF8.self)
                // Most inputs are refused.
                if let read = try? ConfigurationFile(path: name, home: Home(folder)).configuration(text) { settings.append(read) }
            }
        }
        #expect(settings.contains { $0.name == "PC in the study" && $0.services.count == 2 })
    }
}
