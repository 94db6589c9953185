// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import ArgumentParser
import ProgramTexts
import RelayAgent

struct PingCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "ping",
        abstract: localized("Measure the round-trip time of messages to another device, until Ctrl-C.")
    )

    @OptionGroup var common: CommonOptions
    @Argument(help: .device, completion: .devices) var target: String
    @Option(parsing: .unconditional, help: .text("The number of messages. Default: no limit.")) var count: Int?
    @Option(parsing: .unconditional, help: ArgumentHelp(localized("The time between two messages."), valueName: "seconds")) var interval =
        1.0
    @Option(parsing: .unconditional, help: ArgumentHelp(localized("How long to wait for an answer."), valueName: "seconds")) var timeout =
        10.0

    func validate() throws {
        if let count, count < 1 { throw ValidationError("--count must be 1 or more.") }
        if !(0...86_400).contains(interval) { throw ValidationError("--interval must be 0 to 86400 seconds.") }
        if interval < 0.01, count == nil { throw ValidationError("--interval below 0.01 needs a --count.") }
        if !(0.001...86_400).contains(timeout) { throw ValidationError("--timeout must be above 0 and at most 86400 seconds.") }
    }

    func run() async throws {
        let ping = Ping(target: target, count: count, interval: .seconds(interval), timeout: .seconds(timeout))
        try await ping.run(try common.context)
    }
}
