// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

#if os(Linux)
import CLinux
import Synchronization

#if canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#endif

/// A thread that copies bytes between the sockets of paired tunnels, with one `epoll_wait`, one `recv` and one `send` per event. A NIO
/// channel takes up to twice the processor time, and here tunnel bytes wait for no other work.
final class SpliceLoop: Sendable {
    /// The maximum size of one read, and so of the bytes kept for a direction.
    static let blockSize = 256 << 10

    /// Identifies a pair in its loop. Ids are not reused.
    struct PairID: Hashable, Sendable {
        fileprivate let number: UInt64
    }

    fileprivate typealias Job = @Sendable (inout Pairs) -> Void

    private struct State {
        var work: [Job] = []
        /// The callers that wait for the end of the thread. The thread ends when there is one.
        var stopping: [CheckedContinuation<Void, Never>] = []
        var hasStopped = false
    }

    private let epoll: CInt
    /// An `eventfd` that is readable when there is work.
    private let wakeUp: CInt
    private let state = Mutex(State())
    private let lastPair = Atomic<UInt64>(0)

    /// Starts the thread, which runs until `stop`. `nil` if the system has no descriptors left.
    init?() {
        epoll = epoll_create1(CInt(EPOLL_CLOEXEC))
        wakeUp = eventfd(0, CInt(EFD_CLOEXEC | EFD_NONBLOCK))
        guard epoll >= 0, wakeUp >= 0, Pairs.wait(for: wakeUp, as: 0, EPOLLIN.rawValue, EPOLL_CTL_ADD, in: epoll) else {
            closeFiles()
            return nil
        }
        var thread = pthread_t()
        let context = Unmanaged.passRetained(self)
        let failure = pthread_create(
            &thread,
            nil,
            { context in context.flatMap { Unmanaged<SpliceLoop>.fromOpaque($0).takeRetainedValue().run() } },
            context.toOpaque()
        )
        guard failure == 0 else {
            context.release()
            closeFiles()
            return nil
        }
        pthread_detach(thread)
    }

    private func closeFiles() { for file in [epoll, wakeUp] where file >= 0 { close(file) } }

    // MARK: Calls from other threads

    func add(_ ends: DetachedSockets, metrics: TunnelMetrics) -> PairID {
        let id = PairID(number: lastPair.wrappingAdd(1, ordering: .relaxed).newValue)
        perform { $0.add(SplicedPair(ends, metrics: metrics), as: id) }
        return id
    }

    /// Closes both sockets immediately.
    func abort(_ id: PairID) { perform { $0.end(id) } }

    /// The bytes that were read from a side and are not yet written to the other.
    func bytesInFlight(_ id: PairID, from side: Int) async -> Int {
        await withCheckedContinuation { continuation in
            perform { continuation.resume(returning: $0.pairs[id]?.bytesInFlight(from: side) ?? 0) }
        }
    }

    /// Ends all pairs and the thread. A pair that is added later ends at once.
    func stop() async {
        await withCheckedContinuation { continuation in
            let hasStopped = state.withLock { state in
                guard !state.hasStopped else { return true }
                state.stopping.append(continuation)
                eventfd_write(wakeUp, 1)
                return false
            }
            if hasStopped { continuation.resume() }
        }
    }

    private func perform(_ job: @escaping Job) {
        let hasStopped = state.withLock { state in
            guard !state.hasStopped else { return true }
            state.work.append(job)
            // Under the lock, because the descriptor is closed when the thread ends.
            if state.work.count == 1 { eventfd_write(wakeUp, 1) }
            return false
        }
        guard hasStopped else { return }
        // Without the thread, every pair ends at once.
        var pairs = Pairs(epoll: -1)
        job(&pairs)
    }

    // MARK: On the thread

    /// The pairs of a loop. Used only on its thread.
    fileprivate struct Pairs {
        let epoll: CInt
        private(set) var pairs: [PairID: SplicedPair] = [:]

        init(epoll: CInt) { self.epoll = epoll }

        mutating func add(_ pair: SplicedPair, as id: PairID) {
            pairs[id] = pair
            for side in 0...1 where !wait(for: pair, id, side, EPOLL_CTL_ADD) { return end(id) }
            proceed(pair.begin(), of: pair, id)
        }

        mutating func end(_ id: PairID) { pairs.removeValue(forKey: id)?.end() }

        mutating func endAll() { for id in pairs.keys { end(id) } }

        mutating func happened(_ event: epoll_event, block: UnsafeMutableRawBufferPointer) {
            let id = PairID(number: event.data.u64 >> 1)
            // The pair may have ended earlier in this batch of events.
            guard let pair = pairs[id] else { return }
            proceed(pair.happened(event.events, at: Int(event.data.u64 & 1), block: block), of: pair, id)
        }

        private mutating func proceed(_ progress: SplicedPair.Progress, of pair: SplicedPair, _ id: PairID) {
            switch progress {
            case .continues: break
            case .waitsAnew: for side in 0...1 where !wait(for: pair, id, side, EPOLL_CTL_MOD) { return end(id) }
            case .isOver: end(id)
            }
        }

        private func wait(for pair: SplicedPair, _ id: PairID, _ side: Int, _ operation: CInt) -> Bool {
            guard let interest = pair.newInterest(side) else { return true }
            return Self.wait(for: pair.socket(side), as: id.number << 1 | UInt64(side), interest, operation, in: epoll)
        }

        static func wait(for file: CInt, as number: UInt64, _ interest: UInt32, _ operation: CInt, in epoll: CInt) -> Bool {
            var event = epoll_event()
            event.events = interest
            event.data.u64 = number
            return epoll_ctl(epoll, operation, file, &event) == 0
        }
    }

    private func run() -> UnsafeMutableRawPointer? {
        clinux_name_thread("splice")
        let block = UnsafeMutableRawBufferPointer.allocate(byteCount: Self.blockSize, alignment: 4_096)
        let events = UnsafeMutableBufferPointer<epoll_event>.allocate(capacity: 256)
        defer {
            block.deallocate()
            events.deallocate()
        }
        var pairs = Pairs(epoll: epoll)
        var continues = true
        while continues {
            let count = epoll_wait(epoll, events.baseAddress, CInt(events.count), -1)
            for event in events.prefix(max(0, Int(count))) {
                if event.data.u64 == 0 { continues = performWork(&pairs) } else { pairs.happened(event, block: block) }
            }
        }
        return nil
    }

    /// - Returns: whether the thread continues.
    private func performWork(_ pairs: inout Pairs) -> Bool {
        var value: eventfd_t = 0
        eventfd_read(wakeUp, &value)
        let (jobs, isStopping) = state.withLock { state in
            defer { state.work = [] }
            return (state.work, !state.stopping.isEmpty)
        }
        for job in jobs { job(&pairs) }
        guard isStopping else { return true }
        pairs.endAll()
        let (late, stopping) = state.withLock { state in
            defer { (state.work, state.stopping) = ([], []) }
            state.hasStopped = true
            closeFiles()
            return (state.work, state.stopping)
        }
        var none = Pairs(epoll: -1)
        for job in late { job(&none) }
        for continuation in stopping { continuation.resume() }
        return false
    }
}
#endif
