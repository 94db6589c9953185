// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import ArgumentParser
import Foundation
import NIOCore
import NIOPosix
import RelayProtocol

/// Opens tunnels for another program, and prints the id and the tokens of both sides in hexadecimal for each. Keeps the
/// endpoints connected until standard input ends.
struct Tunnels: AsyncParsableCommand {
    @OptionGroup var setting: Setting
    @Option var count = 1

    func run() async throws {
        let (target, person, count) = (try setting.target(), try setting.thePerson(), count)
        let loop = MultiThreadedEventLoopGroup.singleton.next()
        let opener = LightEndpoint("URIOpener", at: target, person: person, on: loop)
        let other = LightEndpoint("Other", at: target, person: person, on: loop)
        let ways = Ways()
        await other.connect(
            .init(heard: { _, message in
                guard case .tunnelOffer(let offer) = message else { return }
                ways.came(offer.entrance, isOpener: false)
            })
        )
        await opener.connect(
            .init(heard: { _, message in
                switch message {
                case .tunnelReady(let ready): ways.came(ready.entrance, isOpener: true)
                case .tunnelFailed(let failed): fail("a tunnel failed: \(failed.message)")
                default: break
                }
            })
        )
        for _ in 0..<count {
            await opener.require { .tunnelOpen(.init(ref: $0, target: other.id, timeout: 10_000)) }
        }
        while readLine() != nil {}
    }

    /// Pairs the tokens of both sides of a tunnel. Used on one event loop.
    private final class Ways: @unchecked Sendable {
        private var halves: [TunnelID: (token: [UInt8], isOpener: Bool)] = [:]

        func came(_ entrance: TunnelEntrance, isOpener: Bool) {
            let token = entrance.token.exposed.bytes
            guard let half = halves.removeValue(forKey: entrance.tunnel) else {
                halves[entrance.tunnel] = (token, isOpener)
                return
            }
            let (first, second) = half.isOpener ? (half.token, token) : (token, half.token)
            say("\(hex(entrance.tunnel.bytes)) \(hex(first)) \(hex(second))")
        }

        private func hex(_ bytes: [UInt8]) -> String { bytes.map { String(0x100 + Int($0), radix: 16).dropFirst() }.joined() }
    }
}
