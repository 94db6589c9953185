// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import NIOCore
import NIOPosix

#if os(Linux)
import CLinux
#endif
#if canImport(Darwin)
import Darwin
#elseif canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#endif

/// Learns from the system that something may have changed, instead of a timer that looks for it. Who is told looks itself, so nothing that
/// the system says is kept: after each change, the descriptor is opened anew, so that it watches what is there then. It is used on the event
/// loop.
final class ChangeWatch {
    /// Changes come in bursts, which are told once: this long after their first, in milliseconds.
    private static let pause: Int64 = 100

    private let loop: EndpointLoop
    private let interval: Int64
    private let open: () -> CInt?
    private let onChange: () -> Void
    private var isRunning = false
    private var channel: (any Channel)?
    private var timer: Scheduled<Void>?

    /// - Parameters:
    ///   - interval: How often to tell where the system does not, in milliseconds.
    ///   - open: Opens a descriptor that can be read when something changes; `nil` where there is none.
    init(_ loop: EndpointLoop, every interval: Int64, open: @escaping () -> CInt?, onChange: @escaping () -> Void) {
        (self.loop, self.interval, self.open, self.onChange) = (loop, interval, open, onChange)
    }

    /// Tells of changes from now on.
    func start() {
        guard !isRunning else { return }
        isRunning = true
        begin()
    }

    private func begin() {
        guard let descriptor = open() else { return tell(after: interval) }
        let bound = NIOLoopBound(self, eventLoop: loop.eventLoop)
        NIOPipeBootstrap(group: loop.eventLoop)
            .channelInitializer { channel in
                channel.eventLoop.makeCompletedFuture { try channel.pipeline.syncOperations.addHandler(ChangeHandler(bound)) }
            }
            .takingOwnershipOfDescriptor(input: descriptor)
            .whenComplete { result in
                switch result {
                case .success(let channel): bound.value.opened(channel)
                case .failure:
                    _ = close(descriptor)
                    bound.value.tell(after: bound.value.interval)
                }
            }
    }

    private func opened(_ channel: any Channel) {
        guard isRunning, self.channel == nil, channel.isActive else { return channel.close(promise: nil) }
        self.channel = channel
    }

    /// Something has changed, or the system has told more changes than it keeps.
    fileprivate func ended(_ channel: any Channel) {
        if self.channel === channel { self.channel = nil }
        tell(after: Self.pause)
    }

    private func tell(after delay: Int64) {
        guard isRunning, timer == nil else { return }
        timer = loop.after(delay) { [weak self] in
            guard let self else { return }
            timer = nil
            if channel == nil { begin() }
            onChange()
        }
    }

    /// Tells of nothing more, until `start`.
    /// - Returns: When the descriptor is closed; `nil` if none is open.
    @discardableResult
    func stop() -> EventLoopFuture<Void>? {
        isRunning = false
        timer?.cancel()
        timer = nil
        let channel = channel
        self.channel = nil
        channel?.close(promise: nil)
        return channel?.closeFuture
    }
}

private final class ChangeHandler: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer

    private let watch: NIOLoopBound<ChangeWatch>

    init(_ watch: NIOLoopBound<ChangeWatch>) { self.watch = watch }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) { context.close(promise: nil) }

    func errorCaught(context: ChannelHandlerContext, error: any Error) { context.close(promise: nil) }

    func channelInactive(context: ChannelHandlerContext) { watch.value.ended(context.channel) }
}

// What the system tells.
extension ChangeWatch {
    /// Tells when the interfaces of this machine or their addresses may have changed.
    static func interfaces(_ loop: EndpointLoop, every interval: Int64, onChange: @escaping () -> Void) -> ChangeWatch {
        ChangeWatch(loop, every: interval, open: Source.interfaces.open, onChange: onChange)
    }

    /// Tells when the clock was set, or the machine has slept.
    static func clock(_ loop: EndpointLoop, every interval: Int64, onChange: @escaping () -> Void) -> ChangeWatch {
        ChangeWatch(loop, every: interval, open: Source.clock.open, onChange: onChange)
    }

    /// Tells when a file may have been written or replaced.
    static func file(_ path: String, _ loop: EndpointLoop, every interval: Int64, onChange: @escaping () -> Void) -> ChangeWatch {
        ChangeWatch(loop, every: interval, open: Source.file(path).open, onChange: onChange)
    }

    private enum Source {
        case interfaces
        case clock
        case file(String)

        /// - Returns: A descriptor that can be read when something changes; `nil` if the system offers none.
        func open() -> CInt? {
            #if os(Linux)
            let descriptor =
                switch self {
                case .interfaces: clinux_watch_interfaces()
                case .clock: clinux_watch_clock()
                case .file(let path): clinux_watch_file(path)
                }
            return descriptor < 0 ? nil : descriptor
            #else
            return nil
            #endif
        }
    }
}
