// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

#if os(Linux)
import Foundation
import RelayTesting
import Synchronization
import Testing

@testable import RelayServer

#if canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#endif

/// A splice loop between two real sockets; what is on their other ends stands for the clients.
@Suite(.timeLimit(.minutes(5))) struct SpliceLoopTests {
    /// The two clients' sockets of a pair.
    final class Clients: Sendable {
        let one: CInt
        let other: CInt
        let loop: SpliceLoop
        let id: SpliceLoop.PairID
        private let gone: Gone
        /// Which sides have been closed, in order.
        var left: [Int] { gone.all }

        /// For as long as the tests run.
        private static let shared = SpliceLoop()

        init(in loop: SpliceLoop? = nil, early: (String, String) = ("", ""), hasEnded: Bool = false) throws {
            func sockets() throws -> (CInt, CInt) {
                var pair: [CInt] = [0, 0]
                guard socketpair(AF_UNIX, CInt(SOCK_STREAM.rawValue), 0, &pair) == 0 else { throw TestError("no sockets") }
                return (pair[0], pair[1])
            }
            let gone = Gone()
            self.gone = gone
            guard let loop = loop ?? Self.shared else { throw TestError("no loop") }
            self.loop = loop
            let (first, second) = (try sockets(), try sockets())
            (one, other) = (first.0, second.0)
            func end(_ side: Int, _ socket: CInt, _ early: String) -> DetachedSocket {
                DetachedSocket(socket: socket, early: Array(early.utf8), hasEnded: side == 0 && hasEnded) { gone.add(side) }
            }
            let ends = DetachedSockets(one: end(0, first.1, early.0), other: end(1, second.1, early.1))
            id = loop.add(ends, metrics: TunnelMetrics(factory: PrometheusMetrics()))
        }

        private final class Gone: Sendable {
            private let sides = Mutex<[Int]>([])
            var all: [Int] { sides.withLock { $0 } }
            func add(_ side: Int) { sides.withLock { $0.append(side) } }
        }

        /// What comes until so much is there, or the end.
        static func read(_ socket: CInt, _ count: Int = .max) -> String {
            var bytes: [UInt8] = []
            var block = [UInt8](repeating: 0, count: 65_536)
            while bytes.count < count {
                let got = recv(socket, &block, min(block.count, count - bytes.count), 0)
                guard got > 0 else { break }
                bytes += block.prefix(got)
            }
            return String(decoding: bytes, as: UTF8.self)
        }

        @discardableResult static func write(_ socket: CInt, _ text: String) -> Bool {
            Array(text.utf8).withUnsafeBytes { send(socket, $0.baseAddress, $0.count, CInt(MSG_NOSIGNAL)) == text.utf8.count }
        }

        /// Writes until the other side's sockets are full, and the loop keeps a rest. The reader takes nothing, so it stays so.
        /// - Returns: the number of bytes.
        func fill() async throws -> Int {
            let block = [UInt8](repeating: 65, count: 65_536)
            var sent = 0
            while true {
                let count = send(one, block, block.count, CInt(MSG_NOSIGNAL | MSG_DONTWAIT))
                if count > 0 {
                    sent += count
                } else if await loop.bytesInFlight(id, from: 0) > 0 {
                    return sent
                } else {
                    try await Task.sleep(for: .milliseconds(1))
                }
            }
        }

        deinit {
            close(one)
            close(other)
        }
    }

    @Test func earlyBytesAreSentFirst() async throws {
        let clients = try Clients(early: ("early ", "soon "))
        Clients.write(clients.one, "and late")
        #expect(Clients.read(clients.other, 14) == "early and late")
        Clients.write(clients.other, "after")
        #expect(Clients.read(clients.one, 10) == "soon after")
        shutdown(clients.one, CInt(SHUT_WR))
        #expect(Clients.read(clients.other) == "")
        #expect(clients.left == [])
        Clients.write(clients.other, "still")
        shutdown(clients.other, CInt(SHUT_WR))
        #expect(Clients.read(clients.one) == "still")
        #expect(try await eventually { clients.left == [0, 1] })
    }

    @Test func earlyEndIsPassedOn() async throws {
        let clients = try Clients(early: ("last words", ""), hasEnded: true)
        #expect(Clients.read(clients.other) == "last words")
        shutdown(clients.other, CInt(SHUT_WR))
        #expect(Clients.read(clients.one) == "")
        #expect(try await eventually { clients.left == [0, 1] })
    }

    @Test func abortClosesBothSidesOnce() async throws {
        let clients = try Clients()
        clients.loop.abort(clients.id)
        clients.loop.abort(clients.id)
        #expect(Clients.read(clients.one) == "")
        #expect(Clients.read(clients.other) == "")
        #expect(try await eventually { clients.left == [0, 1] })
        #expect(await clients.loop.bytesInFlight(clients.id, from: 0) == 0)
    }

    @Test func blockedSinkStopsItsSource() async throws {
        let clients = try Clients()
        let sent = try await clients.fill()
        let kept = await clients.loop.bytesInFlight(clients.id, from: 0)
        #expect(kept > 0 && kept <= SpliceLoop.blockSize)
        // The other way is free.
        Clients.write(clients.other, "free")
        #expect(Clients.read(clients.one, 4) == "free")
        shutdown(clients.one, CInt(SHUT_WR))
        #expect(Clients.read(clients.other).utf8.count == sent)
        #expect(await clients.loop.bytesInFlight(clients.id, from: 0) == 0)
    }

    /// Both directions of a socket have ended, while what came from it waits for a slow reader.
    @Test(arguments: [false, true]) func bytesThatWaitAtTheEndOfBothSidesArrive(readerEndsFirst: Bool) async throws {
        let clients = try Clients()
        func endReader() async throws {
            shutdown(clients.other, CInt(SHUT_WR))
            #expect(Clients.read(clients.one) == "")
        }
        if readerEndsFirst { try await endReader() }
        let sent = try await clients.fill()
        shutdown(clients.one, CInt(SHUT_WR))
        if !readerEndsFirst { try await endReader() }
        // Each answer comes after the events before it.
        for _ in 0..<3 { #expect(await clients.loop.bytesInFlight(clients.id, from: 0) > 0) }
        #expect(clients.left == [])
        #expect(Clients.read(clients.other).utf8.count == sent)
        #expect(try await eventually { clients.left == [0, 1] })
    }

    @Test func closedSideClosesTheOther() async throws {
        let clients = try Clients()
        shutdown(clients.one, CInt(SHUT_RDWR))
        for _ in 0..<100 where clients.left.isEmpty {
            Clients.write(clients.other, "more")
            try await Task.sleep(for: .milliseconds(5))
        }
        #expect(try await eventually { clients.left == [0, 1] })
    }

    // MARK: The threads' end

    private final class Weak: @unchecked Sendable {
        weak var loop: SpliceLoop?
        init(_ loop: SpliceLoop) { self.loop = loop }
    }

    /// A loop that has stopped, and its thread with it.
    private static func stopped() async throws -> Weak {
        let loop = try #require(SpliceLoop())
        let clients = try Clients(in: loop)
        Clients.write(clients.one, "before")
        #expect(Clients.read(clients.other, 6) == "before")
        await loop.stop()
        #expect(Clients.read(clients.one) == "")
        #expect(Clients.read(clients.other) == "")
        #expect(clients.left == [0, 1])
        // What comes too late ends at once.
        let late = try Clients(in: loop)
        #expect(Clients.read(late.one) == "")
        #expect(late.left == [0, 1])
        #expect(await loop.bytesInFlight(late.id, from: 0) == 0)
        await loop.stop()
        return Weak(loop)
    }

    @Test func stoppedLoopEndsItsThread() async throws {
        // The thread holds the loop as long as it runs.
        let ended = try await Self.stopped()
        #expect(try await eventually { ended.loop == nil })
    }

    /// In a process of its own: the threads of other tests' relays have the same name.
    private static func threads() throws -> Int {
        let tasks = try FileManager.default.contentsOfDirectory(atPath: "/proc/self/task")
        return tasks.count { (try? String(contentsOfFile: "/proc/self/task/\($0)/comm", encoding: .utf8)) == "splice\n" }
    }

    private static func runRelay() async throws {
        let configure = { (configuration: inout RelayConfiguration) in
            configuration.tunnelListen = [ListenAddress(host: "127.0.0.1", port: 0)]
        }
        let running = try await TestRelay.with(configure: configure) { _ in try threads() }
        guard running == EventLoops.count else { throw TestError("\(running) threads") }
        while try threads() > 0 { await Task.yield() }
    }

    @Test func threadsEndWithTheRelay() async {
        await #expect(processExitsWith: .success) { try await SpliceLoopTests.runRelay() }
    }
}
#endif
