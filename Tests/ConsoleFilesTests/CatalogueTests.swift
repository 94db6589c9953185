// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import ConsoleFiles
import Foundation
import Testing

/// The words of the console and of the issuer's pages, in all languages.
@Suite struct CatalogueTests {
    /// What has words in each language.
    enum Catalogue: CaseIterable {
        case console, pages

        func file(_ language: PageLanguage) throws -> ConsoleFile {
            switch self {
            case .console: try #require(LocalConsole.files["i18n/\(language.rawValue).json"])
            case .pages: try #require(ConsoleFile.words.first { $0.path == "i18n/pages/\(language.rawValue).json" })
            }
        }

        func words(_ language: PageLanguage) throws -> [String: String] {
            try JSONDecoder().decode([String: String].self, from: Data(file(language).bytes))
        }
    }

    static let others = PageLanguage.allCases.filter { $0 != .english }

    /// The forms of a text with a number (Unicode CLDR). French has `many` for millions, which nothing here counts.
    private static func forms(_ language: PageLanguage) -> Set<String> { language == .chinese ? ["other"] : ["one", "other"] }

    /// The keys without the forms of numbers, and those that have forms.
    private static func keys(_ words: some Collection<String>) -> (plain: Set<String>, counted: Set<String>) {
        let isForm = { (key: String) in key.hasSuffix(".one") || key.hasSuffix(".other") }
        return (Set(words.filter { !isForm($0) }), Set(words.filter(isForm).map { $0.replacing(/\.(one|other)$/, with: "") }))
    }

    private static let root = URL(filePath: #filePath).deletingLastPathComponent().appending(path: "../..").standardizedFileURL

    /// Places of values, and commands.
    private static func places(_ text: String) -> [String] { text.matches(of: /\{\w+\}|`[^`]*`/).map { String($0.0) }.sorted() }

    /// Words that a language shares with English.
    private static let shared: [PageLanguage: Set<String>] = [
        .german: [
            "App", "Apps", "Browser", "Desktop", "Details", "Headset", "Laptop", "Link", "Multicast", "Name", "Offline", "Online",
            "Passkeys", "Relay", "Tablet", "Token {name}", "Tunnel", "Webhooks",
        ],
        .french: ["App", "Apps", "Message", "Service", "Tunnel", "Webhooks"],
    ]
    /// Names of products, and values between signs.
    private static let names: Set<String> = ["Device Relay", "Android", "iOS", "Linux", "macOS", "Windows"]

    @Test(arguments: Catalogue.allCases, others)
    func everyLanguageHasTheKeysAndPlacesOfEnglish(_ catalogue: Catalogue, _ language: PageLanguage) throws {
        let (english, words) = (try catalogue.words(.english), try catalogue.words(language))
        let (wanted, present) = (Self.keys(english.keys), Self.keys(words.keys))
        #expect(wanted.plain.symmetricDifference(present.plain) == [])
        #expect(wanted.counted.symmetricDifference(present.counted) == [])
        for key in wanted.counted {
            #expect(
                Set(words.keys.filter { $0.hasPrefix(key + ".") && Self.keys([$0]).counted == [key] })
                    == Set(Self.forms(language).map { "\(key).\($0)" })
            )
        }
        for (key, text) in words {
            let original = try #require(english[key])
            #expect(Self.places(text) == Self.places(original), "\(key)")
            #expect(text.contains { !$0.isWhitespace }, "\(key)")
            let isWord = original.replacing(/\{\w+\}/, with: "").contains(/\p{L}/)
            let isShared = !isWord || Self.names.contains(text) || Self.shared[language]?.contains(text) == true
            #expect(text != original || isShared, "\(key) is not translated: \(text)")
        }
        // What is allowed to be the same is so somewhere.
        #expect(words.count > 100)
    }

    @Test(arguments: Catalogue.allCases, PageLanguage.allCases)
    func textsAreInOrder(_ catalogue: Catalogue, _ language: PageLanguage) throws {
        let words = try catalogue.words(language)
        // A key that appears twice would lose a text.
        #expect(try catalogue.file(language).text.matches(of: /(?m)^  "[^"]+": "/).count == words.count)
        for (key, text) in words {
            #expect(!text.contains(/[<>&\u{200B}-\u{200F}\u{202A}-\u{202E}\u{FEFF}]/), "\(key)")
            #expect((key == "list.separator" || !text.hasSuffix(" ")) && !text.contains("  "), "\(key)")
            #expect(text.filter { $0 == "`" }.count.isMultiple(of: 2), "\(key)")
            // No line may begin with such a sign.
            if language == .french { #expect(!text.contains(#/ [:;!?]/#), "\(key)") }
            // One kind of sign in one sentence.
            if language == .chinese { #expect(!text.contains(/\p{Script=Han}[,;:?!]/) && !text.contains("。."), "\(key)") }
        }
    }

    /// A sentence in one language has letters of it.
    @Test func chineseHasNoWordsOfOthers() throws {
        let allowed: Set<String> = [
            "Device", "Relay", "Android", "iOS", "Linux", "macOS", "Windows", "JSON", "API", "Webhook", "ping", "Cookie", "https",
            "films", "example", "relay", "console", "agent", "join",
        ]
        for catalogue in Catalogue.allCases {
            for (key, text) in try catalogue.words(.chinese) {
                let latin = text.replacing(/\{\w+\}|`[^`]*`/, with: "").matches(of: /[A-Za-z]+/).map { String($0.0) }
                #expect(Set(latin).subtracting(allowed) == [], "\(key)")
            }
        }
    }

    /// The console's script and this list name the same languages.
    @Test func consoleKnowsAllLanguages() throws {
        let script = try #require(LocalConsole.files["text.js"]).text
        let list = String(try #require(script.firstMatch(of: /const LANGUAGES = \{([^}]+)\}/)).1)
        #expect(list.matches(of: /([a-z]+): "/).map { String($0.1) } == PageLanguage.allCases.map(\.rawValue).sorted())
    }

    /// Every key that code names has words, and no words are without use.
    @Test func pagesUseTheirWords() throws {
        let words = try Catalogue.pages.words(.english)
        let (plain, counted) = Self.keys(words.keys)
        var sources = [Self.root.appending(path: "Sources/DeviceRelay/Accounts/LoopbackRedirect.swift")]
        let folder = Self.root.appending(path: "Sources/RelayIssuer")
        sources += try FileManager.default.subpathsOfDirectory(atPath: folder.path).filter { $0.hasSuffix(".swift") }
            .map { folder.appending(path: $0) }
        var literals: Set<String> = []
        for source in sources {
            let text = try String(contentsOf: source, encoding: .utf8)
            literals.formUnion(text.matches(of: /"([A-Za-z.]+)"/).map { String($0.1) })
            for match in text.matches(of: /(?:[ .(]t|PageText|[ .(]html|RedirectPage)\("([A-Za-z.]+)"/) {
                let key = String(match.1)
                #expect(plain.contains(key) || counted.contains(key), "\(source.lastPathComponent): \(key)")
            }
        }
        // Keys that end with a code.
        let isMade = { (key: String) in ["event.", "kind.", "scope."].contains { key.hasPrefix($0) } }
        #expect(plain.union(counted).subtracting(literals).filter { !isMade($0) } == [])
    }

    @Test func placesAreFilledOnce() {
        let words = PageWords.english
        let text = words.text("setUp.title", ["name": "{name}"])
        #expect(text == "Welcome, {name}")
        #expect(words.text("no such key") == "no such key")
        #expect(PageText("password.short", ["characters": "10"]).english == "The password needs at least 10 characters.")
        #expect(words.parts("account.way.codes", count: 1) == [.value("count"), .words(" recovery code")])
        #expect(PageWords(.french).parts("account.way.codes", count: 0) == [.value("count"), .words(" code de secours")])
        #expect(PageWords(.german).parts("account.way.codes", count: 0) == [.value("count"), .words(" Wiederherstellungscodes")])
        #expect(PageWords(.chinese).parts("account.way.codes", count: 1) == [.value("count"), .words(" 个恢复码")])
    }
}
