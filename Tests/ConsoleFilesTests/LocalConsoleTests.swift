// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import ConsoleFiles
import Foundation
import Testing

@Suite struct LocalConsoleTests {
    /// The folder of the files in the sources.
    private static let folder = URL(filePath: #filePath).deletingLastPathComponent()
        .appending(path: "../../Sources/ConsoleFiles/Web").standardizedFileURL
    /// What only the issuer's pages use.
    private static let issuerOnly = Set(["passkey.js", "times.js"] + PageLanguage.allCases.map { "i18n/pages/\($0.rawValue).json" })

    @Test func allFilesOfTheFolderAreEmbeddedAsTheyAre() throws {
        let paths = try FileManager.default.subpathsOfDirectory(atPath: Self.folder.path)
            .filter { !Self.folder.appending(path: $0).hasDirectoryPath && $0.contains("." as Character) }  // ASCII only
        #expect(Set(paths).subtracting(Self.issuerOnly) == Set(LocalConsole.files.keys))
        for file in Array(LocalConsole.files.values) + [.passkey, .times] + ConsoleFile.words {
            #expect(try Data(contentsOf: Self.folder.appending(path: file.path)) == Data(file.bytes), "\(file.path)")
            #expect(file.mediaType != "application/octet-stream", "\(file.path)")
        }
    }

    /// Without compression, in bytes: the browser gets it as gzip, about a third. Views are loaded when a person opens them, and words of one
    /// language alone.
    @Test(arguments: PageLanguage.allCases) func firstViewIsSmall(_ language: PageLanguage) {
        func isOf(_ language: PageLanguage, _ path: String) -> Bool {
            !path.utf8.starts(with: "i18n/".utf8) || path == "i18n/\(language.rawValue).json"
        }
        func size(_ isCounted: (String) -> Bool) -> Int {
            LocalConsole.files.values.filter { isCounted($0.path) && isOf(language, $0.path) }.reduce(0) { $0 + $1.bytes.count }
        }
        let first = size { path in
            let isView = path.utf8.starts(with: "views/".utf8)
            return isView ? ["views/devices.js", "views/requests.js"].contains(path) : !path.utf8.starts(with: "vendor/".utf8)
        }
        #expect(first < 104 << 10, "\(first) bytes")
        #expect(size { !$0.utf8.starts(with: "vendor/".utf8) } < 160 << 10)
    }

    /// A module that is not there would break a view only when a person opens it.
    @Test func everyModuleThatIsImportedIsThere() throws {
        for file in LocalConsole.files.values where file.mediaType.utf8.starts(with: "text/javascript".utf8) {
            let base = try #require(URL(string: "http://console/\(file.path)"))
            for name in file.text.matches(of: /(?:from|import\() ?"(\.[^"]+)"/).map({ String($0.1) }) {
                let path = try #require(URL(string: name, relativeTo: base)).path().dropFirst()
                #expect(LocalConsole.files[String(path)] != nil, "\(file.path) imports \(name)")
            }
        }
    }

    @Test func everyWordHasAText() throws {
        let words = try JSONDecoder().decode([String: String].self, from: Data(try #require(LocalConsole.files["i18n/en.json"]).bytes))
        for file in LocalConsole.files.values where file.mediaType.utf8.starts(with: "text/javascript".utf8) {
            for key in file.text.matches(of: /\b(?:t|parts)\("([A-Za-z.]+)"/).map({ String($0.1) }) {
                #expect(words[key] != nil || words[key + ".other"] != nil, "\(file.path): \(key)")
            }
        }
    }

    @Test func policyAllowsOwnFilesAlone() {
        let policy = LocalConsole.headers.first { $0.name == "Content-Security-Policy" }?.value ?? ""
        for part in ["default-src 'none'", "script-src 'self'", "trusted-types 'none'", "frame-ancestors 'none'"] {
            #expect(policy.contains(part))
        }
        for part in ["unsafe", "http:", "https:", "*", "data:", "blob:"] { #expect(!policy.contains(part)) }
    }

    @Test func unknownIconsAreDevices() {
        #expect(PageParts.icon("phone") != PageParts.icon("device"))
        for name in ["", "toaster", "\"><script>"] { #expect(PageParts.icon(name) == PageParts.icon("device")) }
        #expect(PageParts.mark.hasPrefix("<svg class=\"mark\"") && !PageParts.mark.contains("http:"))
    }
}
