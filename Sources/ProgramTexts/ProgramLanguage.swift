// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

package import ConsoleFiles

/// The language of a program in a terminal.
package enum ProgramLanguage: Equatable, Sendable {
    /// English, or one that there are translations for.
    case language(PageLanguage)
    /// A made language that shows which texts have no template: the locale `en_XA`.
    case pseudo

    /// Chooses as POSIX and GNU gettext do: the locale is the first that is not empty of `LC_ALL`, `LC_MESSAGES` and `LANG`. If it is not
    /// that of C, `LANGUAGE` lists the languages, best first. English is for all others, and for a locale that is not UTF-8.
    /// - Parameter environment: The variables of the process.
    package init(environment: [String: String]) {
        let locale = ["LC_ALL", "LC_MESSAGES", "LANG"].lazy.compactMap { environment[$0] }.first { !$0.isEmpty } ?? "C"
        let (tag, encoding) = Self.parts(locale)
        guard tag != "C", tag != "POSIX", ["", "utf8", "utf-8"].contains(encoding.lowercased()) else {
            self = .language(.english)
            return
        }
        let list = environment["LANGUAGE"] ?? ""
        let names = list.isEmpty ? [tag] : list.split(separator: ":").prefix(PageLanguage.maximumRanges).map { Self.parts(String($0)).tag }
        self = names.lazy.compactMap(Self.init(tag:)).first ?? .language(.english)
    }

    private init?(tag: String) {
        guard tag.lowercased() != "en-xa" else {
            self = .pseudo
            return
        }
        guard let language = PageLanguage(tag: tag) else { return nil }
        self = .language(language)
    }

    /// Divides a name such as `de_AT.UTF-8@euro`.
    private static func parts(_ locale: String) -> (tag: String, encoding: String) {
        let name = locale.utf8.prefix { $0 != UInt8(ascii: "@") }
        let halves = name.split(separator: UInt8(ascii: "."), maxSplits: 1, omittingEmptySubsequences: false)
        let tag = (halves.first ?? name).map { $0 == UInt8(ascii: "_") ? UInt8(ascii: "-") : $0 }
        return (String(decoding: tag, as: UTF8.self), halves.count == 2 ? String(decoding: halves[1], as: UTF8.self) : "")
    }
}
