// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Logging
import NIOCore
import Synchronization

#if canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#else
import Darwin
#endif

/// The maximum number of files and connections that this process may have open, and what the log says of it.
final class OpenFiles: Sendable {
    /// Each device takes one connection, and each tunnel two.
    private static let enough = 1_024
    private static let pause = Duration.seconds(60)

    private let logger: Logger
    private let lastWarning = Mutex<ContinuousClock.Instant?>(nil)

    /// `nil` if there is no limit.
    static var limit: Int? {
        let limit = sysconf(Int32(_SC_OPEN_MAX))
        return limit < 0 ? nil : limit
    }

    init(logger: Logger) { self.logger = logger }

    func warnIfFew() {
        guard let limit = Self.limit, limit < Self.enough else { return }
        logger.warning("the relay may open few files; raise the limit (systemd: LimitNOFILE; a shell: ulimit -n)", metadata: Self.metadata)
    }

    /// No connection can be accepted now. At most once in a minute there is a line.
    func areExhausted(_ error: IOError) {
        let now = ContinuousClock.now
        let isDue = lastWarning.withLock { last in
            if let last, now - last < Self.pause { return false }
            last = now
            return true
        }
        guard isDue else { return }
        logger.warning(
            "new connections wait, since the system opens no more; raise the limit (systemd: LimitNOFILE; a shell: ulimit -n)",
            metadata: Self.metadata.merging(["reason": "\(error)"]) { $1 }
        )
    }

    private static var metadata: Logger.Metadata { ["openFiles": "\(limit.map(String.init) ?? "unlimited")"] }
}

/// The first handler of a listening channel. It rests for a second when the system can open no more connections: the connections that wait would
/// make the event loop try again without an end.
final class AcceptRestHandler: ChannelDuplexHandler {
    typealias InboundIn = any Channel
    typealias OutboundIn = Never

    private static let rest = TimeAmount.seconds(1)
    private let files: OpenFiles
    private var isResting = false

    init(_ files: OpenFiles) { self.files = files }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        guard let error = error as? IOError, [EMFILE, ENFILE, ENOBUFS, ENOMEM].contains(error.errnoCode) else {
            return context.fireErrorCaught(error)
        }
        files.areExhausted(error)
        guard !isResting else { return }
        isResting = true
        // It fails when the channel is closed.
        try? context.channel.syncOptions?.setOption(.autoRead, value: false)
        context.eventLoop.assumeIsolated().scheduleTask(in: Self.rest) {
            self.isResting = false
            try? context.channel.syncOptions?.setOption(.autoRead, value: true)
        }
    }

    /// The end of the rest reads, in place of the reads that come meanwhile.
    func read(context: ChannelHandlerContext) {
        if !isResting { context.read() }
    }
}
