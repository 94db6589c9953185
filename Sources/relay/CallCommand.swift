// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import ArgumentParser
import ProgramTexts
import RelayAgent

struct CallCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "call",
        abstract: localized("Send a message to an app service of another device, and print the answer."),
        discussion: localized(
            "Messages and answers are JSON objects. A value that JSON lacks is a tagged object, such as {\"$date\": 1767225600}."
        )
    )

    @OptionGroup var common: CommonOptions
    @Argument(
        help: ArgumentHelp(
            localized("A device's name, its id or at least the first 4 characters of it, and an app's id."),
            valueName: "device/app"
        ),
        completion: .devices
    )
    var target: String
    @Argument(help: .text("The service's name.")) var service: String
    @Argument(
        help: ArgumentHelp(localized("A JSON object, or - to read up to 64 MiB from standard input. Default: {}."), valueName: "json")
    )
    var message: String?
    @Flag(help: .text("Send each line of standard input over one connection, and print each answer on a line.")) var stream = false
    @Option(parsing: .unconditional, help: ArgumentHelp(localized("How long to wait for an answer."), valueName: "seconds")) var timeout =
        30.0

    func validate() throws {
        if stream, message.map({ $0 != "-" }) ?? false {
            throw ValidationError("--stream reads standard input; do not give a message.")
        }
        if !(0.001...86_400).contains(timeout) { throw ValidationError("--timeout must be above 0 and at most 86400 seconds.") }
    }

    func run() async throws {
        let input: Call.Input =
            switch message {
            case _ where stream: .stream
            case "-": .standardInput
            case let message: .message(message ?? "{}")
            }
        try await Call(target: target, service: service, timeout: .seconds(timeout)).run(try common.context, sending: input)
    }
}
