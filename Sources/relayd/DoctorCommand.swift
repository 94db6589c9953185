// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import ArgumentParser
import Foundation
import ProgramTexts
import RelayComposition
import RelayServer

struct DoctorCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "doctor",
        abstract: localized("Examine the relay and what it depends on, and say what to do next."),
        discussion: localized(
            """
            Give it the settings of `relayd serve`: the same flags, variables or file. It reaches each URL as a device does, and changes nothing. \
            The exit code is 1 if a check failed.
            """
        )
    )

    @Option(help: ArgumentHelp(localized("The folder of the relay's backups."), valueName: "folder")) var backups: String?
    @Option(
        help: ArgumentHelp(
            localized("Authorities in PEM that devices check the relay's certificate with, instead of the system's."),
            valueName: "file"
        )
    )
    var caFile: String?
    @Flag(help: .text("Print a JSON object.")) var json = false
    @OptionGroup var settings: ConfigurationOptions

    func run() async throws {
        let doctor = RelayDoctor(
            try settings.read(),
            backups: backups,
            authorities: caFile.map { URL(filePath: $0) },
            now: RelayClock.system.now().time
        )
        let report = await doctor.run()
        if json {
            try printJSON(report)
        } else {
            for line in report.lines(localized) { try print(asIs: line) }
        }
        if report.exit != 0 { throw ExitCode(report.exit) }
    }
}
