// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import RelayProtocol
import Testing

@testable import RelayAgent

@Suite struct OutputTests {
    private struct Text: AgentResult {
        var text: String

        func lines(_ style: Style) -> [String] { [text] }
    }

    @Test func columnsAreAlignedByDisplayWidth() {
        var table = Table("NAME", "KIND")
        table.add(.init("Fernseher"), .init("desktop"))
        table.add(.init("客厅"), .init("tablet", .good))
        table.add(.init("📺 x"), .init("hub"))
        #expect(table.lines(Style()) == ["NAME       KIND", "Fernseher  desktop", "客厅       tablet", "📺 x       hub"])
        let style = Style(hasColours: true)
        #expect(style.rendered(table.lines(style)[2]) == "客厅       \u{1B}[32mtablet\u{1B}[0m")
    }

    @Test func jsonEscapesControlCharacters() throws {
        let text = "a\u{1B}[31m\u{7F}\u{9B}\u{202E}\u{E0001}é\n"
        let line = DisplayText.escaped(json: try JSONText.line(Text(text: text)))
        #expect(line == #"{"schema":1,"text":"a\u001b[31m\u007f\u009b\u202e\udb40\udc01é\n"}"#)
        let object = try JSONSerialization.jsonObject(with: Data(line.utf8)) as? [String: Any]
        #expect(object?["text"] as? String == text)
    }

    @Test func errorMessagesAreSanitized() {
        #expect(AgentError("x", "bad\u{1B}[31m", .failed).message == "bad\u{FFFD}[31m")
    }

    @Test(arguments: [(0, "0 s"), (59, "59 s"), (60, "1 min"), (7_199, "1 h"), (200_000, "2 d"), (-5, "0 s")])
    func agesUseTheirLargestUnit(seconds: Int, text: String) {
        let now = Date(timeIntervalSince1970: 1_000_000)
        #expect(Age.text(since: now.addingTimeInterval(-Double(seconds)), now: now) == text)
    }

    #if os(Linux)
    @Test(
        arguments: [
            (["DEVICE_RELAY_HOME": "/a/b", "XDG_STATE_HOME": "/s"], "/a/b"), (["XDG_STATE_HOME": "/s", "HOME": "/h"], "/s/device-relay"),
            (["XDG_STATE_HOME": "s", "HOME": "/h"], "/h/.local/state/device-relay"), (["HOME": "/h"], "/h/.local/state/device-relay"),
        ]
    )
    func homeFollowsTheEnvironment(environment: [String: String], path: String) throws {
        #expect(try Home(environment: environment).path == path)
    }
    #endif
}
