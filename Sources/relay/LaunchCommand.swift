// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import ArgumentParser
import ProgramTexts
import RelayAgent

struct LaunchCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "launch",
        abstract: localized("Launch a URI on another device, and print the outcome.")
    )

    /// 28 days, in seconds.
    private static let longest = 28.0 * 86_400

    @OptionGroup var common: CommonOptions
    @Argument(help: .device, completion: .devices) var target: String
    @Argument(help: .text("The URI to launch, such as https://films.example/42, or - to read it from standard input.")) var uri: String
    @Option(help: ArgumentHelp(localized("The URI to launch if no app there accepts the first one."), valueName: "uri")) var fallback:
        String?
    @Option(help: ArgumentHelp(localized("An app that should open it, best first; may be repeated."), valueName: "app")) var prefer:
        [String] = []
    @Option(parsing: .unconditional, help: ArgumentHelp(localized("How long to wait for the outcome. Default: 30."), valueName: "seconds"))
    var wait: Double?
    @Flag(help: .text("Return as soon as the relay has stored the launch.")) var noWait = false
    @Option(
        parsing: .unconditional,
        help: ArgumentHelp(localized("How long the launch waits for a device that is not connected. Default: 300."), valueName: "seconds")
    ) var ttl: Double?

    func validate() throws {
        if noWait, wait != nil { throw ValidationError("--wait and --no-wait cannot be combined.") }
        if let wait, !(0...Self.longest).contains(wait) { throw ValidationError("--wait must be 0 to \(Int(Self.longest)) seconds.") }
        if let ttl, !(0.001...Self.longest).contains(ttl) {
            throw ValidationError("--ttl must be above 0 and at most \(Int(Self.longest)) seconds.")
        }
        if prefer.count > 64 { throw ValidationError("--prefer may be given at most 64 times.") }
    }

    func run() async throws {
        let context = try common.context
        let launch = try Launch(
            target: target,
            uri: try await TypedInput(context.console).text(uri),
            fallback: fallback,
            preferred: prefer,
            wait: noWait ? nil : .seconds(wait ?? 30),
            life: ttl.map { .seconds($0) }
        )
        try context.console.print(try await launch.run(context))
    }
}
