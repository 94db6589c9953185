// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import Foundation
import RelayTesting
import Testing

@testable import RelayAgent

#if os(Linux)
/// The clipboards of two real X displays.
@Suite(
    .serialized,
    .timeLimit(.minutes(10)),
    .enabled(if: ["/usr/bin/Xvfb", "/usr/bin/xclip"].allSatisfy(FileManager.default.isExecutableFile), "needs xvfb and xclip")
)
struct ClipboardTests {
    /// A display without a screen. It ends with its owner.
    private final class Display {
        let name: String
        private let process = Process()

        init() async throws {
            process.executableURL = URL(filePath: "/usr/bin/Xvfb")
            // It chooses a free display, and writes its number to its standard output.
            process.arguments = ["-displayfd", "1", "-screen", "0", "64x64x8", "-nolisten", "tcp"]
            process.standardError = FileHandle.nullDevice
            name = ":" + (try await RelaydProcess.lines(of: try ProcessStart.reading(process), 1).first ?? "")
        }

        deinit {
            // It inherits the signals that this process blocks.
            kill(process.processIdentifier, SIGKILL)
        }

        var clipboard: Clipboard {
            var environment = ProgramEnvironment()
            environment.own["DISPLAY"] = name
            environment.own["WAYLAND_DISPLAY"] = nil
            return Clipboard(environment: environment)
        }
    }

    @Test func textsMoveBetweenClipboards() async throws {
        let account = try await TestAccount()
        let (desk, tv) = (try await account.device(named: "Desk"), try await account.device(named: "TV"))
        let (near, far) = (try await Display(), try await Display())
        desk.variables["DISPLAY"] = near.name
        tv.variables["DISPLAY"] = far.name
        let agent = try await tv.agent()
        let empty = try await desk.relay("copy", "TV", "--json")
        #expect(try empty.status == 2 && code(empty) == "clipboardEmpty", "\(empty.text)")
        let text = "line one\nRome è bella\u{1F600}"
        try await near.clipboard.write(text)
        let copied = try await desk.relay("copy", "TV", "--json")
        #expect(try copied.status == 0 && copied.json["bytes"] as? Int == text.utf8.count, "\(copied.text)")
        #expect(try await far.clipboard.read() == text)
        let input = try desk.startReading("copy", "TV", "-", "--json")
        try input.write("piped")
        try input.endInput()
        #expect(await input.finish().status == 0)
        #expect(try await far.clipboard.read() == "piped")
        // Nobody reads it until the settings permit that.
        let secret = try await desk.relay("paste", "TV", "--json")
        #expect(try secret.status == 6 && code(secret) == "clipboardNotAllowed", "\(secret.text)")
        #expect(try await near.clipboard.read() == text)
        try tv.setAgent("clipboard: all\n")
        agent.send(SIGHUP)
        _ = try await agent.line { $0.contains(#""event":"reloaded""#) }
        #expect(try await desk.relay("paste", "TV", "--print").output == ["piped"])
        #expect(try await desk.relay("paste", "TV").status == 0)
        #expect(try await near.clipboard.read() == "piped")
        try tv.setAgent("clipboard: nothing\n")
        agent.send(SIGHUP)
        _ = try await agent.line { $0.contains(#""event":"reloaded""#) }
        #expect(try await desk.relay("copy", "TV").status == 4)
    }

    @Test func machinesWithoutADesktopSayWhatIsMissing() async throws {
        let account = try await TestAccount()
        let (desk, tv) = (try await account.device(named: "Desk"), try await account.device(named: "TV"))
        let agent = try await tv.agent()
        for words in [["copy", "TV"], ["paste", "TV"]] {
            let output = try await desk.run(words + ["--json"])
            #expect(try output.status == 4 && code(output) == "clipboardMissing", "\(output.text)")
        }
        let printed = try await desk.relay("paste", "TV", "--print", "--json")
        #expect(try printed.status == 4 && code(printed) == "appServiceUnavailable", "\(printed.text)")
        #expect(try await desk.relay("copy", "TV", "text").status == 2)
        _ = agent
    }

    /// A text that is too large, or none, leaves the clipboard as it was.
    @Test func clipboardTakesTextsUpToAMebibyte() async throws {
        let display = try await Display()
        let most = String(repeating: "x", count: Clipboard.maximumBytes)
        try await display.clipboard.write(most)
        #expect(try await display.clipboard.read() == most)
        try await display.clipboard.write(most + "x")
        await #expect { try await display.clipboard.read() } throws: { ($0 as? AgentError)?.code == "clipboardFailed" }
    }
}
#endif
