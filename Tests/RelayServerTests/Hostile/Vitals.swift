// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

#if os(Linux)
import Foundation
import RelayTesting

/// What a running `relayd` takes of its machine.
struct Vitals {
    private let directory: String
    private let log: URL

    /// - Parameter log: the file that it logs to.
    init(_ relayd: RelaydProcess, log: URL) {
        directory = "/proc/\(relayd.processIdentifier ?? 0)"
        self.log = log
    }

    /// Resident memory in KiB: now, and at most since `forgetPeak`.
    var memory: Int { status("VmRSS") }
    var peakMemory: Int { status("VmHWM") }

    func forgetPeak() { try? Data("5".utf8).write(to: URL(filePath: directory + "/clear_refs")) }

    /// What it has used of the processors.
    var processorTime: Duration {
        let text = (try? String(contentsOfFile: directory + "/stat", encoding: .utf8)) ?? ""
        // After the name, which may have spaces: the 12th and 13th field, in hundredths of a second.
        let fields = text.split(separator: ")").last?.split(separator: " ") ?? []
        guard fields.count > 12, let user = Int(fields[11]), let system = Int(fields[12]) else { return .zero }
        return .milliseconds(10 * (user + system))
    }

    var openFiles: Int { (try? FileManager.default.contentsOfDirectory(atPath: directory + "/fd").count) ?? -1 }

    /// How many lines were logged.
    var lines: Int { logged(after: 0).all }

    /// The most lines that were logged in one second, and how many there are in all, after the first ones: those of what the test prepared.
    func logged(after first: Int) -> (most: Int, all: Int) {
        let lines = ((try? String(contentsOf: log, encoding: .utf8)) ?? "").split(separator: "\n").dropFirst(first)
        // Each begins with its time, to the second.
        return (Dictionary(grouping: lines) { $0.prefix(19) }.values.map(\.count).max() ?? 0, lines.count)
    }

    private func status(_ field: String) -> Int {
        let text = (try? String(contentsOfFile: directory + "/status", encoding: .utf8)) ?? ""
        let line = text.split(separator: "\n").first { $0.hasPrefix(field + ":") }
        return line.flatMap { Int($0.filter(\.isNumber)) } ?? -1
    }
}
#endif
