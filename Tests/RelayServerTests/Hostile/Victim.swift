// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

#if os(Linux)
import Foundation
import RelayProtocol
import RelayTesting

/// Somebody else's two endpoints, at another address than the attackers: asks its relay, and sends through a tunnel.
final class Victim: @unchecked Sendable {
    // Used by one thread at a time: the one that asks.
    private let (phone, pc): (RawWebSocket, RawWebSocket)
    private let tunnel: RawTunnel
    private let endpoint: WireEndpoint
    static let address = "127.0.0.2"

    var tunnelPort: Int { tunnel.port }

    private init(_ phone: RawWebSocket, _ pc: RawWebSocket, _ tunnel: RawTunnel, _ endpoint: WireEndpoint) {
        (self.phone, self.pc) = (phone, pc)
        self.endpoint = endpoint
        self.tunnel = tunnel
    }

    static func join(_ relayd: RelaydProcess, account: String = "Anna") async throws -> Victim {
        let (one, other) = try await (endpoint("Phone", of: account, at: relayd), endpoint("PC", of: account, at: relayd))
        let (phone, pc) = try [one, other].map { endpoint in
            let socket = try RawWebSocket(port: relayd.port, from: address)
            try socket.greet(as: endpoint)
            return socket
        }.pair
        return Victim(phone, pc, try RawTunnel(from: phone, to: pc, target: other.id, address: address), one)
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
        let answer = try phone.ask { .publish(.init(ref: $0, registration: Blob(registration.encoded))) }
        guard case .ok = answer else { throw RawWebSocket.Broken(description: "\(answer)") }
    }

    /// Asks so many times, and sends 128 bytes through the tunnel and back as often.
    /// - Returns: Every one was answered.
    func ask(_ count: Int, pause: Duration) throws -> Times {
        var times = Times()
        let clock = ContinuousClock()
        let bytes = [UInt8](repeating: 7, count: 128)
        for _ in 0..<count {
            times.requests.append(
                try clock.measure {
                    let answer = try phone.ask { .unwatch(.init(ref: $0)) }
                    guard case .ok = answer else { throw RawWebSocket.Broken(description: "\(answer)") }
                } / .seconds(1)
            )
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
