// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

#if os(Linux)
import Foundation
import RelayProtocol
import RelayTesting

/// Two endpoints of another account, at another address than the attackers. They send requests, and bytes through a tunnel.
final class Victim: @unchecked Sendable {
    // Held by the thread that uses the sockets: the one that asks, or the one that answers pings.
    private let lock = NSLock()
    private let (phone, pc): (RawWebSocket, RawWebSocket)
    private let tunnel: RawTunnel
    private let (endpoint, other): (WireEndpoint, WireEndpoint)
    private let target: EndpointRecord
    private var number: UInt64 = 0
    static let address = "127.0.0.2"

    var tunnelPort: Int { tunnel.port }

    private init(_ phone: RawWebSocket, _ pc: RawWebSocket, _ tunnel: RawTunnel, _ endpoint: WireEndpoint, _ other: WireEndpoint) throws {
        (self.phone, self.pc) = (phone, pc)
        (self.endpoint, self.other) = (endpoint, other)
        target = try other.record().payload
        self.tunnel = tunnel
        phone.whileWaiting = { [unowned pc] in try? pc.answerPings() }
        pc.whileWaiting = { [unowned phone] in try? phone.answerPings() }
        answerPings()
    }

    /// The relay pings both channels, also the one that nobody reads just now.
    private func answerPings() {
        Thread.detachNewThread { [weak self] in
            while let self {
                lock.withLock { for socket in [phone, pc] { try? socket.answerPings() } }
                Thread.sleep(forTimeInterval: 1)
            }
        }
    }

    static func join(_ relayd: RelaydProcess, account: String = "Anna") async throws -> Victim {
        let (one, other) = try await (endpoint("Phone", of: account, at: relayd), endpoint("PC", of: account, at: relayd))
        let (phone, pc) = try [one, other].map { endpoint in
            // A busy machine is slow, and its times are not what the tests without measurement are about.
            let socket = try RawWebSocket(port: relayd.port, from: address, patience: 600)
            try socket.greet(as: endpoint)
            return socket
        }.pair
        return try Victim(phone, pc, try RawTunnel(from: phone, to: pc, target: other.id, address: address), one, other)
    }

    /// An endpoint that has joined and knows its account.
    static func endpoint(_ name: String, of account: String, at relayd: RelaydProcess) async throws -> WireEndpoint {
        let endpoint = WireEndpoint(name, at: relayd)
        try await endpoint.join(try await relayd.run("invite", account))
        try await endpoint.connect()
        await endpoint.disconnect()
        return endpoint
    }

    /// How long answers took, in seconds.
    struct Times: Sendable {
        var requests: [Double] = []
        var trips: [Double] = []
    }

    /// Has the relay store something.
    func publish(_ number: Int) throws {
        let registration = try endpoint.registration("org.example.app\(number)")
        let answer = try lock.withLock { try phone.ask { .publish(.init(ref: $0, registration: Blob(registration.encoded))) } }
        guard case .ok = answer else { throw RawWebSocket.Broken(description: "\(answer)") }
    }

    /// Launches on the other endpoint, which says that it succeeded, and hears of it.
    func launch() throws { try lock.withLock { try launchAlone() } }

    private func launchAlone() throws {
        number += 1
        let command = try endpoint.launch("film:\(number)", on: target, appID: "player", id: endpoint.nextCommandID(), number: number)
        let id = command.header.id
        let answer = try phone.ask { .commandSend(.init(ref: $0, command: Blob(command.encoded))) }
        guard case .ok = answer else { throw RawWebSocket.Broken(description: "\(answer)") }
        let offered = try pc.event { if case .command(let offer) = $0 { offer.command.bytes } else { nil } }
        guard offered == command.encoded else { throw RawWebSocket.Broken(description: "another command was offered") }
        try pc.send(.commandReceived(.init(sender: endpoint.id, id: id)))
        let receipt = try Signed(
            CommandReceipt(for: command.descriptor, outcome: .succeeded, time: command.header.created),
            key: other.identityKey
        )
        let settled = try pc.ask { .commandResult(.init(ref: $0, sender: endpoint.id, id: id, receipt: Blob(receipt.encoded))) }
        guard case .commandSettled = settled else { throw RawWebSocket.Broken(description: "\(settled)") }
        try phone.event { (message) -> Void? in
            guard case .commandStatus(let status) = message, status.id == id, case .attestedByTarget = status.status else { return nil }
            return ()
        }
        try phone.send(.commandAcknowledge(.init(id: id)))
    }

    /// Opens a tunnel to the other endpoint, and sends something there and back.
    func call() throws {
        let tunnel = try lock.withLock { try RawTunnel(from: phone, to: pc, target: other.id, address: Self.address) }
        try tunnel.trip([UInt8](repeating: 7, count: 1_024))
        tunnel.close()
    }

    /// Asks so many times, and sends 128 bytes through the tunnel and back as often.
    /// - Returns: Every one was answered.
    func ask(_ count: Int, pause: Duration) throws -> Times {
        var times = Times()
        let clock = ContinuousClock()
        let bytes = [UInt8](repeating: 7, count: 128)
        for _ in 0..<count {
            try lock.withLock {
                times.requests.append(
                    try clock.measure {
                        let answer = try phone.ask { .unwatch(.init(ref: $0)) }
                        guard case .ok = answer else { throw RawWebSocket.Broken(description: "\(answer)") }
                    } / .seconds(1)
                )
            }
            times.trips.append(try clock.measure { try tunnel.trip(bytes) } / .seconds(1))
            Thread.sleep(forTimeInterval: pause / .seconds(1))
        }
        return times
    }
}

extension Array {
    fileprivate var pair: (Element, Element) { (self[0], self[1]) }
}
#endif
