// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
package import ProgramTexts
import RelayProtocol
import RelayStorage

/// The output of a command: results go to standard output, everything else to standard error.
///
/// All text leaves the program here, and here alone it is cleaned: no character of it controls the terminal or the writing
/// direction. And here it is translated: all other code has English texts, JSON stays English, and so do the lines of a log.
package struct Console: Sendable {
    /// Whether each result is one JSON object on one line.
    package var isJSON: Bool
    package var hasColours: Bool
    /// Whether standard error is a terminal.
    package var isInteractive: Bool
    /// The width of the terminal that standard output is; `nil` if it is none.
    package var columns: Int?
    package let translation: Translation
    private let output: @Sendable (String) throws -> Void
    private let error: @Sendable (String) -> Void
    private let data: @Sendable ([UInt8]) throws -> Void

    package init(
        isJSON: Bool,
        hasColours: Bool,
        isInteractive: Bool,
        columns: Int? = nil,
        translation: Translation = .english,
        output: @escaping @Sendable (String) throws -> Void,
        error: @escaping @Sendable (String) -> Void,
        data: @escaping @Sendable ([UInt8]) throws -> Void
    ) {
        self.isJSON = isJSON
        self.hasColours = hasColours
        self.isInteractive = isInteractive
        self.columns = columns
        self.translation = translation
        self.output = output
        self.error = error
        self.data = data
    }

    /// The streams of the process.
    package static func standard(isJSON: Bool, environment: [String: String]) -> Console {
        StandardDescriptor.openClosed()
        // https://no-color.org
        let wantsColours = (environment["NO_COLOR"] ?? "").isEmpty && environment["TERM"] != "dumb"
        return Console(
            isJSON: isJSON,
            hasColours: wantsColours && isatty(1) == 1,
            isInteractive: isatty(2) == 1,
            columns: terminalColumns,
            translation: .current,
            output: { try writeOutput($0.utf8) },
            error: { try? StandardDescriptor.error.write($0.utf8) },
            data: { try writeOutput($0) }
        )
    }

    private static var terminalColumns: Int? {
        guard isatty(1) == 1 else { return nil }
        var size = winsize()
        // Some terminals do not know their width.
        guard ioctl(1, UInt(TIOCGWINSZ), &size) == 0, size.ws_col > 0 else { return 80 }
        return Int(size.ws_col)
    }

    /// Prints a result.
    package func print(_ result: some AgentResult) throws {
        guard !isJSON else { return try outputOfDone(DisplayText.escaped(json: try result.json()) + "\n") }
        for text in result.notes { note(text) }
        let style = Style(hasColours: hasColours, translation: translation)
        let lines = result.lines(style)
        guard !lines.isEmpty else { return }
        try outputOfDone(lines.map { style.rendered($0) + "\n" }.joined())
    }

    /// Prints the result of a command that has succeeded. If that fails, the error says that the command itself is done.
    private func outputOfDone(_ text: String) throws {
        do {
            try output(text)
        } catch var failure as AgentError where failure.code == Self.outputFailed {
            failure.message += "; what the command has done stays done"
            throw failure
        }
    }

    /// Writes a part of a file to standard output.
    func write(_ bytes: [UInt8]) throws { try data(bytes) }

    /// Prints a text of several lines to standard output as it is, such as a script.
    package func print(text: String) throws { try output(DisplayText.sanitizedLines(text) + "\n") }

    /// Says that a list is the last known state.
    /// - Parameter problem: Why the relay could not be asked; `nil` if it was asked.
    package func noteLastKnown(_ problem: String?) {
        if let problem { note("the relay cannot be asked, this is the last known state: \(problem)") }
    }

    /// Prints a note to standard error. It may have several lines.
    package func note(_ text: String) { log(translation.text(text)) }

    /// Prints a line of a log to standard error, or a text that is translated.
    package func log(_ text: String) { error(DisplayText.sanitizedLines(text) + "\n") }

    /// Shows a line that the next one replaces, on a terminal. It is cut, because a line that wraps could not be replaced.
    func showProgress(_ text: String) { error("\r\u{1B}[K\(DisplayText.sanitized(Table.prefix(translation.text(text), columns: 79)))") }

    /// Removes the line that `showProgress` has shown.
    func clearProgress() { if isInteractive { error("\r\u{1B}[K") } }

    private static let outputClosed = "outputClosed"
    private static let outputFailed = "outputFailed"

    /// Prints a failure. With JSON it is a result on standard output, so that a script reads one stream. A closed output is
    /// not reported: its reader has gone.
    package func fail(_ failure: AgentError) {
        guard failure.code != Self.outputClosed else { return }
        if isJSON, failure.code != Self.outputFailed, let line = try? JSONText.line(FailureResult(failure)) {
            try? output(DisplayText.escaped(json: line) + "\n")
        } else {
            log("relay: \(translation.text(failure.message))")
        }
    }

    private static func writeOutput(_ bytes: some Sequence<UInt8>) throws(AgentError) {
        do throws(OutputError) {
            try StandardDescriptor.output.write(bytes)
        } catch {
            throw AgentError(error.isReaderGone ? outputClosed : outputFailed, "\(error)", .failed)
        }
    }
}
