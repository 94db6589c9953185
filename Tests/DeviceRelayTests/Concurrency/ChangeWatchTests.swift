// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import NIOCore
import NIOPosix
import RelayProtocol
import Testing

@testable import DeviceRelay

#if canImport(Darwin)
import Darwin
#elseif canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#endif

/// The watch of what the system tells, with pipes and files in the place of the network.
@Suite(.timeLimit(.minutes(5))) struct ChangeWatchTests {
    /// A pipe through which a test tells of a change.
    private struct Pipe {
        let reader: CInt
        let writer: CInt

        init() {
            var ends: [CInt] = [-1, -1]
            _ = pipe(&ends)
            (reader, writer) = (ends[0], ends[1])
        }

        var isRead: Bool {
            var state = pollfd(fd: writer, events: Int16(POLLOUT), revents: 0)
            return poll(&state, 1, 0) == 1 && state.revents & Int16(POLLERR) == 0
        }

        func tell() { _ = write(writer, "x", 1) }
        func end() { _ = close(writer) }
    }

    private actor World {
        nonisolated let loop = EndpointLoop(MultiThreadedEventLoopGroup.singleton.next(), clock: .system)
        nonisolated var unownedExecutor: UnownedSerialExecutor { loop.unownedExecutor }
        /// How often a change was told.
        nonisolated let told = CurrentValue(0)
        nonisolated let opened = CurrentValue(0)
        private var watch: ChangeWatch?

        /// - Parameter descriptors: What is opened one after the other; then nothing can be opened.
        func watch(_ descriptors: [CInt], every interval: Int64) {
            watch = ChangeWatch(
                loop,
                every: interval,
                open: { [opened] in
                    defer { opened.update { $0 += 1 } }
                    return opened.value < descriptors.count ? descriptors[opened.value] : nil
                },
                onChange: { [told] in told.update { $0 += 1 } }
            )
            watch?.start()
        }

        func watch(file: String) {
            #if os(Linux)
            let interval = ChangeWatchTests.never
            #else
            let interval: Int64 = 1
            #endif
            watch = .file(file, loop, every: interval) { [told] in told.update { $0 += 1 } }
            watch?.start()
        }

        func watchClock() {
            watch = .clock(loop, every: ChangeWatchTests.never) { [told] in told.update { $0 += 1 } }
            watch?.start()
        }

        func start() { watch?.start() }
        func stop() async { try? await watch?.stop()?.get() }

        func end() async {
            await stop()
            await loop.end()
        }
    }

    /// Longer than a test.
    fileprivate static let never: Int64 = 3_600_000

    @Test func eachBurstIsToldOnce() async {
        let (world, pipes) = (World(), (Pipe(), Pipe()))
        for pipe in [pipes.0, pipes.1] { for _ in 0..<5 { pipe.tell() } }
        await world.watch([pipes.0.reader, pipes.1.reader], every: Self.never)
        _ = await world.told.first { $0 > 1 }
        #expect(world.told.value == 2 && world.opened.value == 3)
        #expect(!pipes.0.isRead && !pipes.1.isRead)
        await world.end()
        pipes.0.end()
        pipes.1.end()
    }

    /// A watch ends when more has changed than the system keeps.
    @Test func changesMayBeLostWithTheDescriptor() async {
        let (world, pipes) = (World(), (Pipe(), Pipe()))
        await world.watch([pipes.0.reader, pipes.1.reader], every: Self.never)
        pipes.0.end()
        _ = await world.told.first { $0 == 1 }
        #expect(world.opened.value == 2)
        pipes.1.tell()
        _ = await world.told.first { $0 == 2 }
        await world.end()
        pipes.1.end()
    }

    @Test func withoutTheSystemATimerTells() async {
        let world = World()
        await world.watch([], every: 1)
        _ = await world.told.first { $0 >= 3 }
        #expect(world.opened.value >= 3)
        await world.end()
    }

    @Test func stoppedWatchStartsAgain() async {
        let (world, pipes) = (World(), (Pipe(), Pipe()))
        await world.watch([pipes.0.reader, pipes.1.reader], every: Self.never)
        await world.stop()
        #expect(!pipes.0.isRead)
        await world.start()
        pipes.1.tell()
        _ = await world.told.first { $0 == 1 }
        await world.end()
        pipes.0.end()
        pipes.1.end()
    }

    @Test func writesOfAFileAreTold() async throws {
        let (world, directory) = (World(), try TemporaryDirectory())
        let path = "\(directory.path)/file"
        try Data("a".utf8).write(to: URL(filePath: path))
        await world.watch(file: path)
        for count in 1...2 {
            let file = try FileHandle(forWritingTo: URL(filePath: path))
            try file.seekToEnd()
            try file.write(contentsOf: Data("b".utf8))
            try file.close()
            _ = await world.told.first { $0 >= count }
        }
        await world.end()
    }

    /// The name leads to another file then.
    @Test func replacedFileIsWatched() async throws {
        let (world, directory) = (World(), try TemporaryDirectory())
        let (path, other) = ("\(directory.path)/file", "\(directory.path)/other")
        for path in [path, other] { try Data("a".utf8).write(to: URL(filePath: path)) }
        await world.watch(file: path)
        #expect(rename(other, path) == 0)
        _ = await world.told.first { $0 >= 1 }
        let file = try FileHandle(forWritingTo: URL(filePath: path))
        try file.write(contentsOf: Data("b".utf8))
        try file.close()
        _ = await world.told.first { $0 >= 2 }
        await world.end()
    }

    #if os(Linux)
    /// Sets the clock to what it says.
    fileprivate static func setClock() -> Bool {
        withUnsafeTemporaryAllocation(of: timespec.self, capacity: 1) { buffer in
            guard let now = buffer.baseAddress else { return false }
            return clock_gettime(CLOCK_REALTIME, now) == 0 && clock_settime(CLOCK_REALTIME, now) == 0
        }
    }

    @Test(.enabled(if: ChangeWatchTests.setClock(), "only root may set the clock, and not in every container")) func setClockIsTold() async
    {
        let world = World()
        await world.watchClock()
        for count in 1...2 {
            #expect(Self.setClock())
            _ = await world.told.first { $0 >= count }
        }
        await world.end()
    }
    #endif

    /// Another process of an endpoint has its own connection to the journal.
    @Test func commitsOfAnotherProcessAreTold() async throws {
        let (world, directory) = (World(), try TemporaryDirectory())
        let (path, endpoint) = ("\(directory.path)/journal.sqlite", EndpointID(P256SigningKey().publicKey))
        let journals = (try Journal(path: path, endpoint: endpoint), try Journal(path: path, endpoint: endpoint))
        await world.watch(file: journals.0.commitFile)
        let peer = EndpointID(P256SigningKey().publicKey)
        try await journals.1.write { try $0.store(.init(endpoint: peer, record: [1], pinned: 1)) }
        _ = await world.told.first { $0 >= 1 }
        #expect(try journals.0.read { try $0.pins().map(\.endpoint) } == [peer])
        await world.end()
        journals.0.close()
        journals.1.close()
    }
}
