// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol
import Testing

@testable import DeviceRelay

/// The estimate of the relay's time.
@Suite struct RelayClockTests {
    private actor Bench {
        nonisolated let endpoint: EndpointContext
        nonisolated var unownedExecutor: UnownedSerialExecutor { endpoint.loop.unownedExecutor }
        nonisolated let wall = Shared<Int64>(1_800_000_000_000)
        nonisolated let steady = Shared<Int64>(1_000)
        private let clock: RelayClock

        init(_ directory: TemporaryDirectory, offset: Int64) throws {
            let (wall, steady) = (wall, steady)
            endpoint = try .sample(directory) {
                $0.clock = PlatformClock(wall: { wall.value }, steady: { steady.value })
            }
            clock = RelayClock(endpoint.loop, endpoint.journal, offset: offset)
        }

        var time: Int64 { clock.time }
        func set(_ time: Int64) { clock.set(Milliseconds(clamping: time)) }

        nonisolated func pass(_ milliseconds: Int64) {
            for clock in [wall, steady] { clock.withLock { $0 += milliseconds } }
        }

        func end() async {
            await endpoint.loop.end()
            endpoint.journal.close()
        }
    }

    /// Such as by NTP, some minutes after the start of a device without a clock of its own.
    @Test(arguments: [-3_600_000, 3_600_000] as [Int64]) func changeOfTheDevicesClockChangesNothing(step: Int64) async throws {
        let bench = try Bench(try TemporaryDirectory(), offset: 50)
        #expect(await bench.time == 1_800_000_000_050)
        await bench.set(1_900_000_000_000)
        bench.pass(5)
        #expect(await bench.time == 1_900_000_000_005)
        bench.wall.withLock { $0 += step }
        bench.pass(5)
        #expect(await bench.time == 1_900_000_000_010)
        // The relay tells its time again with the next connection.
        await bench.set(1_900_000_000_020)
        #expect(await bench.time == 1_900_000_000_020)
        await bench.end()
    }

    @Test(arguments: [Int64.min, .max]) func extremeTimesDoNotTrap(offset: Int64) async throws {
        let bench = try Bench(try TemporaryDirectory(), offset: offset)
        _ = await bench.time
        await bench.set(Int64.max)
        bench.pass(1_000)
        _ = await bench.time
        await bench.end()
    }
}
