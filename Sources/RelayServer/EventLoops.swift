// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import NIOCore
import NIOPosix

#if os(Linux)
import CLinux
#endif

/// The event loops of the relay's connections: one for each usable processor.
enum EventLoops {
    static let connections = MultiThreadedEventLoopGroup(numberOfThreads: count)

    /// NIO respects control groups, but not the processors that a process is bound to (`taskset`, `CPUAffinity=`). Two loops on one
    /// processor would only add thread switches.
    static let count: Int = {
        #if os(Linux)
        let processors = Int(clinux_processor_count())
        if processors > 0 { return min(processors, System.coreCount) }
        #endif
        return System.coreCount
    }()
}
