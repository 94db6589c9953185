// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import ConsoleFiles
import ProgramTexts
import Testing

@Suite struct ProgramLanguageTests {
    @Test(arguments: [
        ("de_DE.UTF-8", PageLanguage.german), ("de", .german), ("de_AT.utf8@euro", .german), ("DE_de", .german), ("fr_CA.UTF-8", .french),
        ("zh_CN.UTF-8", .chinese), ("zh_Hans_HK", .chinese), ("zh_TW.UTF-8", .english), ("zh_HK", .english), ("en_GB.UTF-8", .english),
        ("C", .english), ("POSIX", .english), ("C.UTF-8", .english), ("", .english), ("pt_BR.UTF-8", .english), ("deutsch", .english),
        ("de_DE.ISO-8859-1", .english), ("_", .english), (".", .english), ("@", .english), ("de-", .english), ("\u{0}", .english),
    ])
    func theLocaleNamesTheLanguage(_ locale: String, _ language: PageLanguage) {
        for name in ["LC_ALL", "LC_MESSAGES", "LANG"] {
            #expect(ProgramLanguage(environment: [name: locale]) == .language(language), "\(name)=\(locale)")
        }
    }

    @Test func theFirstVariableWithAValueCounts() {
        let all = ["LC_ALL": "fr_FR.UTF-8", "LC_MESSAGES": "de_DE.UTF-8", "LANG": "zh_CN.UTF-8"]
        #expect(ProgramLanguage(environment: all) == .language(.french))
        #expect(ProgramLanguage(environment: all.merging(["LC_ALL": ""]) { $1 }) == .language(.german))
        #expect(ProgramLanguage(environment: ["LC_ALL": "C", "LANG": "de_DE.UTF-8"]) == .language(.english))
        #expect(ProgramLanguage(environment: [:]) == .language(.english))
    }

    @Test(arguments: [
        ("fr:de", PageLanguage.french), ("pt:fr_CA:de", .french), ("en:de", .english), ("zh_TW:de", .german), ("pt", .english),
        ("", .german),
        (":", .english), (String(repeating: "x:", count: 10_000) + "fr", .english),
    ])
    func listsOfLanguagesCount(_ list: String, _ language: PageLanguage) {
        #expect(ProgramLanguage(environment: ["LANG": "de_DE.UTF-8", "LANGUAGE": list]) == .language(language))
        #expect(ProgramLanguage(environment: ["LANG": "C", "LANGUAGE": list]) == .language(.english))
    }

    @Test func theMadeLanguageHasALocale() {
        #expect(ProgramLanguage(environment: ["LC_ALL": "en_XA"]) == .pseudo)
        #expect(ProgramLanguage(environment: ["LC_ALL": "en_XA.UTF-8"]) == .pseudo)
        let texts = Translation(.pseudo)
        #expect(texts.text("not connected").hasPrefix("[!!! ñöŧ"))
        #expect(texts.text("not connected").hasSuffix("~~~ !!!]"))
    }

    @Test func englishHasNoCatalogue() { #expect(Translation(.language(.english)).isEnglish) }
}
