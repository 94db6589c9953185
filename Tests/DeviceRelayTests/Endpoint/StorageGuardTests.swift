// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Dispatch
import Logging
import NIOPosix
import RelayProtocol
import Testing

@testable import DeviceRelay

/// The tests of a storage that failed.
@Suite(.timeLimit(.minutes(5))) struct StorageGuardTests {
    private struct Full: Error {}

    /// A guard with a real journal. The test sets the time.
    private actor Bench {
        nonisolated let loop: EndpointLoop
        nonisolated var unownedExecutor: UnownedSerialExecutor { loop.unownedExecutor }
        nonisolated let time = Shared<Int64>(1_000_000)
        nonisolated let failures = CurrentValue(0)
        nonisolated let recoveries = CurrentValue(0)
        private let storage: StorageGuard

        init(_ journal: Journal) {
            let clock = PlatformClock(wall: { 0 }, steady: { [time] in time.value })
            loop = EndpointLoop(MultiThreadedEventLoopGroup.singleton.next(), clock: clock)
            storage = StorageGuard(loop, journal, Logger(label: "test") { _ in SwiftLogNoOpLogHandler() })
            storage.onFailure = { [failures] _ in failures.update { $0 += 1 } }
            storage.onRecovery = { [recoveries] in recoveries.update { $0 += 1 } }
        }

        var isUsable: Bool { storage.isUsable }

        /// Fails a number of times, some time apart.
        /// - Returns: The pauses, in milliseconds.
        func fail(_ times: Int = 1, after interval: Int64 = 0) -> [Int64?] {
            (0..<times).map { _ in
                time.withLock { $0 += interval }
                storage.fail(Full())
                return storage.until.map { $0 - time.value }
            }
        }

        func reset() { storage.reset() }

        func end() async {
            storage.end()
            await loop.end()
        }
    }

    private let directory: TemporaryDirectory
    private let endpoint = EndpointID(P256SigningKey().publicKey)

    init() throws { directory = try TemporaryDirectory() }

    private func journal() throws -> Journal {
        try Journal(path: "\(directory.path)/journal.sqlite", endpoint: endpoint, patience: 0.01)
    }

    @Test func pauseDoublesUpToAMinute() async throws {
        let bench = Bench(try journal())
        #expect(await bench.isUsable)
        #expect(await bench.fail(8) == [1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 60_000, 60_000])
        #expect(await !bench.isUsable)
        #expect(bench.failures.value == 8)
        // A failure long after the last one starts with the first pause.
        #expect(await bench.fail(after: 2 * StorageGuard.maximumPause - 1) == [60_000])
        #expect(await bench.fail(2, after: 2 * StorageGuard.maximumPause) == [1_000, 1_000])
        await bench.end()
    }

    @Test func recoveryIsReported() async throws {
        let bench = Bench(try journal())
        #expect(await bench.fail() == [1_000])
        #expect(await bench.recoveries.first { $0 == 1 } == 1)
        #expect(bench.failures.value == 1)
        await bench.end()
    }

    /// Another process locks the journal for a while.
    @Test func lockedStorageIsTestedAgain() async throws {
        let other = try journal()
        let bench = Bench(try journal())
        let (locked, mayGo) = (CurrentValue(false), DispatchSemaphore(value: 0))
        other.write { _ in
            locked.update { $0 = true }
            mayGo.wait()
        } completion: { _ in
        }
        _ = await locked.first { $0 }
        #expect(await bench.fail() == [1_000])
        #expect(await bench.failures.first { $0 == 2 } == 2)
        #expect(bench.recoveries.value == 0)
        mayGo.signal()
        #expect(await bench.recoveries.first { $0 == 1 } == 1)
        await bench.end()
    }

    @Test func resetEndsThePause() async throws {
        let bench = Bench(try journal())
        _ = await bench.fail()
        await bench.reset()
        #expect(await bench.isUsable)
        // The earlier failure counts for the next pause.
        #expect(await bench.fail() == [2_000])
        await bench.end()
        #expect(await bench.isUsable)
        #expect(await bench.fail() == [nil])
        #expect(bench.failures.value == 2)
    }
}
