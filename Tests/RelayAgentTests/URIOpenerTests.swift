// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import RelayProtocol
import Testing

@testable import RelayAgent

@Suite(.timeLimit(.minutes(10))) struct URIOpenerTests {
    private struct Unexpected: Error { var answer: String }

    private func open(_ arguments: [String]) async throws -> (answer: LaunchAnswer, hasEnded: Bool) {
        let (ends, continuation) = AsyncStream.makeStream(of: Void.self)
        let opener = URIOpener(command: Program(arguments: arguments), environment: ProgramEnvironment())
        let answer = await opener.open(try LaunchURI("x-film:%41#a#b")) { continuation.yield() }
        for await _ in ends { return (answer, true) }
        return (answer, false)
    }

    /// The URI is an argument or the end of one, never the program, and no option.
    @Test(arguments: [
        (["open"], ["open", "@"]), (["open", "{uri}", "-a"], ["open", "@", "-a"]),
        (["open", "{uri}", "--u={uri}"], ["open", "@", "--u=@"]),
        (["open", "{URI}", "{ uri }"], ["open", "{URI}", "{ uri }", "@"]),
        // With a combining mark it is another text, which stays as it is.
        (["sh", "-c", "firefox {uri}\u{301}"], ["sh", "-c", "firefox {uri}\u{301}", "@"]),
    ]) func uriTakesThePlaceThatTheSettingsGiveIt(program: [String], expected: [String]) throws {
        for text in ["https://a.example/?q=$(id)&b='c'#;d", "x-a:--help", "x-a:%7Buri%7D"] {
            let arguments = URIOpener.program(Program(arguments: program), with: try LaunchURI(text)).arguments
            #expect(arguments == expected.map { $0.replacing("@", with: text) })
        }
    }

    @Test func exitCodeDecides() async throws {
        guard case .launched = try await open(["true"]).answer else { throw Unexpected(answer: "not launched") }
        guard
            case .failed(let why, let said) = try await open(["/bin/sh", "-c", "printf 'no\\033[31m\\nway: %s' \"$1\" >&2; exit 4", "sh"])
                .answer
        else {
            throw Unexpected(answer: "launched")
        }
        // What the program said goes to the sender only, on one line.
        #expect(why.contains("4") && !why.contains("film") && said == "no\u{FFFD}[31m way: x-film:%41#a#b")
        guard case .failed(let missing, _) = try await open(["/no/such/program"]).answer else { throw Unexpected(answer: "launched") }
        #expect(missing.contains("/no/such/program"))
    }

    @Test func outputIsBounded() async throws {
        let script = "i=0; while [ $i -lt 500 ]; do printf 0123456789 >&2; i=$((i+1)); done; exit 1"
        guard case .failed(_, let said) = try await open(["/bin/sh", "-c", script]).answer else { throw Unexpected(answer: "launched") }
        #expect(said.utf8.count == URIOpener.maximumReasonBytes && said.hasSuffix("789"))
    }

    @Test func programGetsNoSecretOfTheAgent() async throws {
        setenv("MY_SECRET_OF_THE_AGENT", "x", 1)
        let script = #"[ -z "$MY_SECRET_OF_THE_AGENT" ] && [ -n "$PATH" ]"#
        guard case .launched = try await open(["/bin/sh", "-c", script]).answer else { throw Unexpected(answer: "the variable was there") }
    }
}
