// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import RelayProtocol
import RelayTesting
import Testing

/// The files of the iOS sample that Linux does not compile.
@Suite(.timeLimit(.minutes(10))) struct SampleFilesTests {
    private static let root: URL = {
        var folder = URL(filePath: #filePath)
        while folder.lastPathComponent != "Tests" { folder.deleteLastPathComponent() }
        return folder.deletingLastPathComponent().appending(path: "Examples/RomeSample")
    }()

    private static func text(_ path: String) throws -> String { try String(contentsOf: root.appending(path: path), encoding: .utf8) }

    private static func sources(_ folder: String) throws -> [URL] {
        try FileManager.default.contentsOfDirectory(at: root.appending(path: folder), includingPropertiesForKeys: nil)
            .filter { $0.pathExtension == "swift" }.sorted { $0.path < $1.path }
    }

    /// The folders that are for Xcode.
    private static let folders = ["iOS", "SwiftUI", "UIKit"]

    private static func parse(_ file: URL) async throws -> (status: Int32, error: String) {
        let process = Process()
        process.executableURL = URL(filePath: "/usr/bin/env")
        process.arguments = ["swiftc", "-frontend", "-parse", "-swift-version", "6", file.path]
        let ended = try await ProcessRun.run(process)
        return (ended.status, ended.error)
    }

    @Test(arguments: folders) func filesParse(folder: String) async throws {
        let files = try Self.sources(folder)
        #expect(files.count >= 3)
        for file in files {
            let result = try await Self.parse(file)
            #expect(result.status == 0, "\(file.lastPathComponent): \(result.error)")
        }
    }

    /// The parser reads what an `#if` leaves out, too: otherwise `filesParse` would check nothing.
    @Test func syntaxErrorIsFound() async throws {
        let place = FileManager.default.temporaryDirectory.appending(path: "rome-\(UUID().uuidString).swift")
        defer { try? FileManager.default.removeItem(at: place) }
        let text = try Self.text("SwiftUI/SentView.swift")
        let broken = text.replacing("List {", with: "List {{", maxReplacements: 1)
        #expect(broken != text)
        try Data(broken.utf8).write(to: place)
        #expect(try await Self.parse(place).status != 0)
    }

    @Test(arguments: folders) func filesSayThatLinuxDoesNotCompileThem(folder: String) throws {
        let condition = folder == "SwiftUI" ? "#if canImport(SwiftUI) && os(iOS)" : "#if canImport(UIKit)"
        for file in try Self.sources(folder) {
            let lines = try String(contentsOf: file, encoding: .utf8).split(separator: "\n")
            #expect(lines.contains("// For Xcode: not compiled on Linux, where only its syntax is checked."), "\(file.lastPathComponent)")
            #expect(lines.first { !$0.hasPrefix("//") } == condition[...] && lines.last == "#endif", "\(file.lastPathComponent)")
        }
    }

    /// Screens show the model: they call no platform, and handle no error.
    @Test(arguments: ["SwiftUI", "UIKit"]) func screensHaveNoLogic(folder: String) throws {
        for file in try Self.sources(folder) {
            let text = try String(contentsOf: file, encoding: .utf8)
            for word in [
                "ConnectedDevicesPlatform", "device.platform", " catch", " try ", " try? ", "RemoteLauncher", "AppServiceConnection",
            ] {
                #expect(!text.contains(word), "\(file.lastPathComponent) has \(word)")
            }
        }
    }

    @Test func filesUseOnlyWhatTheModelHas() throws {
        let model = try Self.sources("Model").map { try String(contentsOf: $0, encoding: .utf8) }.joined(separator: "\n")
        let declared = Set(model.matches(of: /(?:var|let|func|case) `?(\w+)/).map { String($0.1) })
            // Of a declaration of two values, of tuples, and of the SDK.
            .union([
                "deviceName", "kind", "rawValue", "toggle", "count", "isEmpty", "map", "manufacturer", "progress", "success", "problem",
                "unknown",
                "mostRows",
            ])
        var seen = 0
        for folder in Self.folders {
            for file in try Self.sources(folder) {
                let text = try String(contentsOf: file, encoding: .utf8)
                let objects =
                    "sample|device|list|launching|service|hosting|push|newDevices|sent|question|row|target|notice|entry|membership|filters"
                let uses = try Regex("(?:^|[^\\w\"])\\$?(?:\(objects))\\??\\.([a-z]\\w*)", as: (Substring, Substring).self)
                for use in text.matches(of: uses) {
                    seen += 1
                    #expect(declared.contains(String(use.1)), "\(file.lastPathComponent): \(use.0)")
                }
            }
        }
        #expect(seen > 100)
    }

    @Test func readmeNamesWhatExists() throws {
        let readme = try Self.text("README.md")
        let table = try #require(readme.components(separatedBy: "## The steps of the guides").last)
        let rows = table.split(separator: "\n").filter { $0.hasPrefix("| ") }.dropFirst(2)
        #expect(rows.count >= 20)
        for row in rows {
            let cells = row.split(separator: "|").map { $0.matches(of: /`([^`]+)`/).map { String($0.1) } }
            #expect(cells.count == 4 || cells.count == 3, "\(row)")
            guard cells.count >= 3 else { continue }
            #expect(!cells[1].isEmpty && !cells[2].isEmpty, "\(row)")
            var found = Set<String>()
            for path in cells[1] {
                let text = try Self.text(path)
                for symbol in cells[2] where Self.declares(text, symbol) { found.insert(symbol) }
            }
            #expect(found == Set(cells[2]), "\(row)")
        }
        // Each file of the model is part of a step, or helps several.
        let helpers = ["ShownText", "Work", "SampleSystem", "Notice", "HostingLog", "SampleDevice"]
        for file in try Self.sources("Model") where !helpers.contains(file.deletingPathExtension().lastPathComponent) {
            #expect(table.contains("`Model/\(file.lastPathComponent)`"), "\(file.lastPathComponent)")
        }
    }

    private static func declares(_ text: String, _ symbol: String) -> Bool {
        let declarations = ["func \(symbol)", "var \(symbol)", "let \(symbol)", "struct \(symbol)", "class \(symbol)", "enum \(symbol)"]
        return (declarations + ["extension \(symbol)", "\"\(symbol)\" : {", ".\(symbol)("]).contains { text.contains($0) }
    }

    @Test func projectListsTheFolders() throws {
        let project = try Self.text("project.yml")
        for folder in ["Model"] + Self.folders { #expect(project.contains("- \(folder)\n"), "\(folder)") }
        for match in project.matches(of: /(?:INFOPLIST_FILE|CODE_SIGN_ENTITLEMENTS|path): (Resources\S+)/) {
            #expect(FileManager.default.fileExists(atPath: Self.root.appending(path: String(match.1)).path), "\(match.1)")
        }
        #expect(project.matches(of: /Resources/).count >= 3)
    }

    private static func propertyList(_ path: String) throws -> [String: Any] {
        let data = try Data(contentsOf: root.appending(path: path))
        return try #require(try PropertyListSerialization.propertyList(from: data, format: nil) as? [String: Any])
    }

    @Test func resourcesHaveTheKeysThatTheSDKNeeds() throws {
        let info = try Self.propertyList("Resources/Info.plist")
        #expect(info["UIBackgroundModes"] as? [String] == ["remote-notification"])
        #expect(info["NSBonjourServices"] as? [String] == ["_device-relay._tcp"])
        #expect((info["NSLocalNetworkUsageDescription"] as? String)?.isEmpty == false)
        let types = try #require(info["CFBundleURLTypes"] as? [[String: Any]])
        let model = try Self.text("Model/SampleApp.swift")
        let scheme = try #require((types.first?["CFBundleURLSchemes"] as? [String])?.first)
        #expect(model.contains("static let scheme = \"\(scheme)\""))
        #expect(try Self.propertyList("Resources/RomeSample.entitlements")["aps-environment"] as? String == "development")
    }

    /// A catalogue of texts, as Xcode writes it.
    private struct StringCatalogue: Decodable {
        struct Entry: Decodable {
            struct Localization: Decodable {
                struct Unit: Decodable {
                    var state: String
                    var value: String
                }

                var stringUnit: Unit
            }

            var localizations: [String: Localization]
        }

        var sourceLanguage: String
        var strings: [String: Entry]
    }

    @Test func alertsHaveTextsInAllLanguages() throws {
        let catalogue = try JSONDecoder().decode(StringCatalogue.self, from: Data(Self.text("Resources/Localizable.xcstrings").utf8))
        let alerts = [WakeAlert.launch(device: "TV"), .launchFromApp(app: "Player", device: "TV"), .general]
        #expect(catalogue.sourceLanguage == "en" && Set(catalogue.strings.keys) == Set(alerts.map(\.key)))
        for alert in alerts {
            let texts = try #require(catalogue.strings[alert.key]).localizations.mapValues(\.stringUnit)
            #expect(Set(texts.keys) == ["de", "en", "fr", "zh-Hans"] && Set(texts.values.map(\.value)).count == texts.count)
            for (language, text) in texts {
                // The text has the places for what the relay sends.
                let places = text.value.matches(of: /%(\d)\$@/).map { String($0.1) }.sorted()
                #expect(places == alert.arguments.indices.map { "\($0 + 1)" }, "\(alert.key), \(language)")
                #expect(text.state == "translated" && text.value.matches(of: /%/).count == places.count, "\(alert.key), \(language)")
            }
        }
    }
}
