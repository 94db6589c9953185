// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

#if canImport(FoundationEssentials)
import FoundationEssentials
#else
import Foundation
#endif

#if canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#else
import Darwin
#endif

/// Marks all that one run of a program starts: it stands in the environment, which processes inherit, also those that leave the program's
/// session and process group.
struct ProgramMark: Hashable, Sendable {
    static let variable = "DEVICE_RELAY_RUN"

    let text = UUID().uuidString

    /// Ends what is left of the run: SIGTERM, and SIGKILL 2 s later. Also in a task that was cancelled.
    func endAll() async {
        #if os(Linux)
        await Task.detached {
            let clock = ContinuousClock()
            let (kind, last) = (clock.now + .seconds(2), clock.now + .seconds(4))
            var told: Set<pid_t> = []
            while clock.now < last {
                let left = processes()
                if left.isEmpty { return }
                if clock.now < kind {
                    for process in left where told.insert(process).inserted { kill(process, SIGTERM) }
                } else {
                    for process in left { kill(process, SIGKILL) }
                }
                try? await Task.sleep(for: .milliseconds(50))
            }
        }.value
        #endif
    }

    #if os(Linux)
    /// Those of this user whose environment has the mark.
    private func processes() -> [pid_t] {
        let names = (try? FileManager.default.contentsOfDirectory(atPath: "/proc")) ?? []
        let entry = Array("\(Self.variable)=\(text)".utf8)
        return names.compactMap { pid_t($0) }.filter { process in
            guard process != getpid(), let environment = FileManager.default.contents(atPath: "/proc/\(process)/environ") else {
                return false
            }
            return environment.split(separator: 0).contains { $0.elementsEqual(entry) }
        }
    }
    #endif
}
