// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import Foundation
import RelayProtocol
import RelayTesting
import Testing

/// An eavesdropper that steals a tunnel's tokens gains only a failing handshake. (The relay's own tests cover which tokens it accepts.)
@Suite(.timeLimit(.minutes(10))) struct TunnelTheftTests {
    /// A connector with a key that is not in the account.
    private static func otherConnector() throws -> SessionConnector {
        SessionConnector(certificate: try EndpointCertificate(P256SigningKey()), memory: SessionMemory()) { _, _ in
            .refuse(AppServiceError(.notAuthorized))
        }
    }

    /// A tunnel entrance, read from the network traffic of a device.
    private static func stolen(_ network: TestNetwork, _ home: TestHome) async throws -> TunnelTransport {
        while true {
            let heard = try await network.heard(.fromRelay)
            if let match = heard.firstMatch(of: /"entrance":\{"tunnel":"(?<tunnel>[^"]+)","token":"(?<token>[^"]+)"/) {
                let token = try #require(Data(base64Encoded: String(match.token)))
                let entrance = TunnelEntrance(
                    tunnel: try #require(TunnelID(String(match.tunnel))),
                    token: Secret(Blob(Array(token))),
                    urls: ["tcp://127.0.0.1:\(home.relayd.tunnelPort)"]
                )
                return TunnelTransport(entrance, relay: try RelayAddress(try url(home.relayd.origin)), trust: RelayTrust(relay: nil))
            }
            await Task.yield()
        }
    }

    private static func pair(_ phonePort: TestNetwork.TunnelPort, _ pcPort: TestNetwork.TunnelPort) async throws
        -> (home: TestHome, networks: [TestNetwork], phone: TestDevice, pc: TestDevice)
    {
        let home = try await TestHome(networks: ["127.0.0.11", "127.0.0.12"])
        let networks = [
            try await TestNetwork("127.0.0.11", to: home.relayd, tunnelPort: phonePort, watches: true),
            try await TestNetwork("127.0.0.12", to: home.relayd, tunnelPort: pcPort, watches: true),
        ]
        let phone = try await home.guests(in: [networks[0]])[0]
        let pc = try await home.device("PC") { settings in if let url = URL(string: networks[1].origin) { settings.relay = url } }
        try await pc.platform.publish(SessionTestApp.app(), for: pc.account)
        try await phone.sees("PC") { !$0.apps.isEmpty }
        return (home, networks, phone, pc)
    }

    @Test func thiefInPlaceOfTheOpenerIsRejected() async throws {
        // The opener cannot reach the tunnel for a while.
        let (home, networks, phone, pc) = try await Self.pair(.silent, .open)
        let (platform, target) = (phone.platform, try pc.id)
        async let opening = SessionTestApp.outcome { () async throws(AppServiceError) in try await platform.open("echo", on: target) }
        let (opener, other) = (try await Self.stolen(networks[0], home), try await Self.stolen(networks[1], home))
        let thief = try Self.otherConnector()
        #expect(
            await SessionTestApp.outcome { () async throws(AppServiceError) in try await thief.open(to: target, over: opener) }
                == "authenticationError"
        )
        // A used token is worthless on both sides.
        for transport in [opener, other] {
            let again = await SessionTestApp.outcome { () async throws(AppServiceError) in try await thief.open(to: target, over: transport)
            }
            #expect(again == "remoteSystemUnavailable")
        }
        #expect(await opening == "remoteSystemUnavailable")
        await phone.platform.shutdown()
        await pc.platform.shutdown()
        for network in networks { try await network.stop() }
    }

    @Test func thiefInPlaceOfTheTargetIsRejected() async throws {
        let (home, networks, phone, pc) = try await Self.pair(.open, .silent)
        let (platform, target) = (phone.platform, try pc.id)
        async let opening = SessionTestApp.outcome { () async throws(AppServiceError) in try await platform.open("echo", on: target) }
        let other = try await Self.stolen(networks[1], home)
        let thief = try Self.otherConnector()
        let accepted = await SessionTestApp.outcome { () async throws(AppServiceError) in try await thief.accept(over: other) { _ in true }
        }
        #expect(accepted == "authenticationError")
        #expect(await opening == "authenticationError")
        await phone.platform.shutdown()
        await pc.platform.shutdown()
        for network in networks { try await network.stop() }
    }
}
