// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import ArgumentParser
import RelayAgent

struct LaunchCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "launch",
        abstract: "Launch a URI on another device, and say how it went."
    )

    /// 28 days, in seconds.
    private static let longest = 28.0 * 86_400

    @OptionGroup var common: CommonOptions
    @Argument(
        help: ArgumentHelp(
            "A device's name, its id or at least the first 4 characters of it; with /APP one app there.",
            valueName: "device[/app]"
        ),
        completion: .devices
    )
    var target: String
    @Argument(help: "What to launch, such as https://films.example/42.") var uri: String
    @Option(help: ArgumentHelp("What to launch if nothing there takes the URI.", valueName: "uri")) var fallback: String?
    @Option(help: ArgumentHelp("The app that should take it, best first; may be repeated.", valueName: "app")) var prefer: [String] = []
    @Option(parsing: .unconditional, help: ArgumentHelp("How long to wait for the outcome. Default: 30.", valueName: "seconds")) var wait:
        Double?
    @Flag(help: "Return as soon as the relay has it.") var noWait = false
    @Option(
        parsing: .unconditional,
        help: ArgumentHelp("How long it waits for a device that is not there. Default: 300.", valueName: "seconds")
    ) var ttl: Double?

    func validate() throws {
        if noWait, wait != nil { throw ValidationError("--wait and --no-wait exclude each other.") }
        if let wait, !(0...Self.longest).contains(wait) { throw ValidationError("--wait must be 0 to \(Int(Self.longest)) seconds.") }
        if let ttl, !(0.001...Self.longest).contains(ttl) {
            throw ValidationError("--ttl must be above 0, and \(Int(Self.longest)) seconds at most.")
        }
        if prefer.count > 64 { throw ValidationError("--prefer may be given 64 times at most.") }
    }

    func run() async throws {
        let launch = Launch(
            target: target,
            uri: uri,
            fallback: fallback,
            preferred: prefer,
            wait: noWait ? nil : .seconds(wait ?? 30),
            life: ttl.map { .seconds($0) }
        )
        let context = common.context
        try context.console.print(try await launch.run(context))
    }
}
