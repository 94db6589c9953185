// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import ProgramTexts
import RelayProtocol

/// Prints what each party does.
struct DemoScreen: Sendable {
    private let hasColours = isatty(STDOUT_FILENO) == 1 && ProcessInfo.processInfo.environment["NO_COLOR", default: ""].isEmpty

    private func show(_ text: String, _ code: String? = nil) -> StandardStream.Part { .init(text: text, code: hasColours ? code : nil) }

    private func write(_ parts: StandardStream.Part...) throws { try StandardStream.output.write(parts) }

    func title(_ english: String) throws { try write(show(localized(english), "1")) }

    func step(_ english: String) throws { try write(show("\n"), show("== \(localized(english))", "1")) }

    func note(_ english: String) throws { try write(show("   \(localized(english))")) }

    /// Prints a command as a user would type it.
    func command(_ place: String, _ words: [String]) throws {
        let line = words.map(ShellText.word).joined(separator: " ")
        try write(show(" "), show(padded(place), "36"), show(" $ "), show(line, "1"))
    }

    /// Prints a line of a program, which has the person's language already.
    func line(_ place: String, _ text: String) throws { try write(show(" "), show(padded(place), "36"), show("   \(text)")) }

    /// Prints what the demo sees at a place.
    func seen(_ place: String, _ english: String) throws { try line(place, localized(english)) }

    private func padded(_ place: String) -> String { place.padding(toLength: 5, withPad: " ", startingAt: 0) }
}
