// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation

#if canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#else
import Darwin
#endif

/// What the system knows of this process, by the names that Prometheus's own client libraries use. Memory and descriptors only on Linux.
package struct ProcessMetrics: Sendable {
    private let started = Date().timeIntervalSince1970

    /// Made at the start of the process.
    package init() {}

    package var samples: [MetricSample] {
        var samples = [MetricSample("process_start_time_seconds", started)]
        var usage = rusage()
        if getrusage(Self.ownUsage, &usage) == 0 {
            samples.append(MetricSample("process_cpu_seconds_total", usage.ru_utime.seconds + usage.ru_stime.seconds))
        }
        #if os(Linux)
        // The name of the program, in brackets, may contain spaces and brackets.
        let text = FileManager.default.contents(atPath: "/proc/self/stat").map { String(decoding: $0, as: UTF8.self) } ?? ""
        let fields = text.split(separator: ")").last?.split(separator: " ").map { Double($0) ?? 0 } ?? []
        // Fields 23 and 24 of proc(5); the third one is the first here.
        if fields.count > 21 {
            samples.append(MetricSample("process_virtual_memory_bytes", fields[20]))
            samples.append(MetricSample("process_resident_memory_bytes", fields[21] * Double(sysconf(CInt(_SC_PAGESIZE)))))
        }
        if let open = try? FileManager.default.contentsOfDirectory(atPath: "/proc/self/fd") {
            // Without the one that reads the folder.
            samples.append(MetricSample("process_open_fds", Double(max(0, open.count - 1))))
        }
        var limit = rlimit()
        if getrlimit(Self.openFiles, &limit) == 0 {
            samples.append(MetricSample("process_max_fds", Double(limit.rlim_cur)))
        }
        #endif
        return samples
    }

    #if canImport(Glibc)
    private static let ownUsage = RUSAGE_SELF.rawValue
    private static let openFiles = __rlimit_resource_t(RLIMIT_NOFILE.rawValue)
    #else
    private static let ownUsage = RUSAGE_SELF
    private static let openFiles = CInt(RLIMIT_NOFILE)
    #endif
}

extension timeval {
    fileprivate var seconds: Double { Double(tv_sec) + Double(tv_usec) / 1e6 }
}
