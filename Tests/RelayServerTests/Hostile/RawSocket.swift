// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

#if os(Linux)
import Foundation
import NIOCore

/// A blocking TCP socket for threads of the tests' own, from any address of loopback: no event loop, so that a victim's times are the
/// relay's, and an attacker is as fast as the system lets it be.
final class RawSocket {
    private let descriptor: Int32
    private(set) var isOpen = true

    /// - Parameters:
    ///   - source: the address that the relay sees.
    ///   - patience: how long a read or a write may take before it counts as failed.
    ///   - isSmall: whether the system keeps little of what is not read.
    /// - Returns: `nil` if the relay, or this process's file limit, does not let it.
    init?(port: Int, from source: String = "127.0.0.1", patience seconds: Int = 60, isSmall: Bool = false) {
        descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
        guard descriptor >= 0 else {
            isOpen = false
            return nil
        }
        set(SOL_SOCKET, SO_RCVTIMEO, timeval(tv_sec: seconds, tv_usec: 0))
        set(SOL_SOCKET, SO_SNDTIMEO, timeval(tv_sec: seconds, tv_usec: 0))
        set(Int32(IPPROTO_TCP), TCP_NODELAY, Int32(1))
        if isSmall { set(SOL_SOCKET, SO_RCVBUF, Int32(4_096)) }
        // The port is chosen when it connects: many sockets may share one if the other end differs.
        set(Int32(IPPROTO_IP), IP_BIND_ADDRESS_NO_PORT, Int32(1))
        guard Self.with(source, 0, { bind(descriptor, $0, $1) }) == 0,
            Self.with("127.0.0.1", port, { connect(descriptor, $0, $1) }) == 0
        else {
            close()
            return nil
        }
    }

    deinit { close() }

    func close() {
        guard isOpen else { return }
        isOpen = false
        _ = Glibc.close(descriptor)
    }

    /// Ends without a farewell, and leaves no port waiting.
    func reset() {
        set(SOL_SOCKET, SO_LINGER, linger(l_onoff: 1, l_linger: 0))
        close()
    }

    /// - Returns: whether all of it went.
    @discardableResult
    func send(_ bytes: [UInt8]) -> Bool {
        bytes.withUnsafeBytes { all in
            var rest = all[...]
            while let base = UnsafeRawBufferPointer(rebasing: rest).baseAddress, !rest.isEmpty {
                let count = Glibc.send(descriptor, base, rest.count, Int32(MSG_NOSIGNAL))
                guard count > 0 else { return false }
                rest = rest.dropFirst(count)
            }
            return true
        }
    }

    @discardableResult
    func send(_ text: String) -> Bool { send(Array(text.utf8)) }

    /// Sends what goes at once.
    /// - Returns: how many bytes that was; `nil` when the other side has closed.
    func offer(_ bytes: [UInt8]) -> Int? {
        let count = bytes.withUnsafeBytes { Glibc.send(descriptor, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL | MSG_DONTWAIT)) }
        if count >= 0 { return count }
        return errno == EAGAIN || errno == EWOULDBLOCK ? 0 : nil
    }

    /// The next bytes; `nil` at the end, or after the timeout.
    func receive(upTo limit: Int = 65_536) -> [UInt8]? {
        let bytes = [UInt8](unsafeUninitializedCapacity: limit) { buffer, count in
            count = max(0, recv(descriptor, buffer.baseAddress, limit, 0))
        }
        return bytes.isEmpty ? nil : bytes
    }

    /// Waits until there are bytes to read, or the end.
    /// - Returns: false after so many milliseconds.
    func isReadable(within milliseconds: Int32) -> Bool {
        var entry = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
        return poll(&entry, 1, milliseconds) > 0
    }

    /// The bytes that have come, at most so many; none if none have, or at the end.
    func receiveNow(upTo limit: Int = 65_536) -> [UInt8] {
        [UInt8](unsafeUninitializedCapacity: limit) { buffer, count in
            count = max(0, recv(descriptor, buffer.baseAddress, limit, Int32(MSG_DONTWAIT)))
        }
    }

    /// Reads and drops the available bytes.
    func discard() {
        withUnsafeTemporaryAllocation(byteCount: 65_536, alignment: 1) { buffer in
            while recv(descriptor, buffer.baseAddress, buffer.count, Int32(MSG_DONTWAIT)) > 0 {}
        }
    }

    private func set<Value>(_ level: Int32, _ option: Int32, _ value: Value) {
        withUnsafeBytes(of: value) { _ = setsockopt(descriptor, level, option, $0.baseAddress, socklen_t($0.count)) }
    }

    private static func with(_ host: String, _ port: Int, _ body: (UnsafePointer<sockaddr>, socklen_t) -> Int32) -> Int32 {
        guard let address = try? SocketAddress(ipAddress: host, port: port) else { return -1 }
        return address.withSockAddr { body($0, socklen_t($1)) }
    }
}

/// The scheduling of a client thread, which would run on another machine in reality.
enum Urgency {
    case usual
    /// Only while no other thread would run (`SCHED_IDLE`): an attacker elsewhere takes nothing of the relay's processor but what his packets
    /// cost. A thread that has just run may find itself behind such a one until the clock ticks, 4 ms later (Linux's EEVDF has it wait for
    /// its share), so these offer the processor again and again (`sched_yield`).
    case least
    /// At once (`SCHED_FIFO`), if the user may: a client on another machine does not wait for the relay's processor.
    case most

    /// Of the calling thread.
    func take() throws {
        var parameters = sched_param(sched_priority: self == .most ? 1 : 0)
        let policy: Int32 =
            switch self {
            case .usual: 0
            case .most: 1
            case .least: 5
            }
        // Zero is the calling thread.
        guard sched_setscheduler(0, policy, &parameters) == 0 || self == .most else {
            throw POSIXError(POSIXErrorCode(rawValue: errno) ?? .EPERM)
        }
    }
}

/// Runs on a thread of its own: what blocks must not keep tasks from running.
func onThread<Result: Sendable>(
    urgency: Urgency = .usual,
    _ work: @escaping @Sendable () throws -> Result
) async throws -> Result {
    try await withCheckedThrowingContinuation { continuation in
        Thread.detachNewThread {
            continuation.resume(
                with: Swift.Result {
                    try urgency.take()
                    return try work()
                }
            )
        }
    }
}

/// Keeps the processors from sleeping, and takes nothing from who has work for them. Those of a virtual machine may be woken milliseconds
/// late, which is many times what an answer needs in calm, and which an attack prevents.
func keepProcessorsAwake(until isEnough: @escaping @Sendable () -> Bool) {
    for _ in 0..<ProcessInfo.processInfo.activeProcessorCount {
        Thread.detachNewThread {
            guard (try? Urgency.least.take()) != nil else { return }
            while !isEnough() { sched_yield() }
        }
    }
}
#endif
