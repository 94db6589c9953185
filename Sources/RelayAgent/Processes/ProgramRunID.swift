// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation

/// Marks all processes of one program run. The mark is an environment variable, which processes inherit even when they
/// leave the program's session and process group.
struct ProgramRunID: Hashable, Sendable {
    static let variable = "DEVICE_RELAY_RUN"

    let text = UUID().uuidString

    /// Ends all remaining processes of the run: SIGTERM, then SIGKILL after 2 s. It also runs in a cancelled task.
    func endAll() async {
        #if os(Linux)
        await Task.detached {
            let clock = ContinuousClock()
            let (kind, last) = (clock.now + .seconds(2), clock.now + .seconds(4))
            var signalled: Set<pid_t> = []
            while clock.now < last {
                let left = processes()
                if left.isEmpty { return }
                if clock.now < kind {
                    for process in left where signalled.insert(process).inserted { kill(process, SIGTERM) }
                } else {
                    for process in left { kill(process, SIGKILL) }
                }
                try? await Task.sleep(for: .milliseconds(50))
            }
        }.value
        #endif
    }

    #if os(Linux)
    /// The processes of this user whose environment has the mark.
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
