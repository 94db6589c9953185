// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Testing

@testable import DeviceRelay
@testable import RelayProtocol

/// A network that the test controls.
final class ScriptedNetwork: NearbyService {
    var onInstances: ([MulticastBrowser.Instance], Int) -> Void = { _, _ in }
    var onInterfaces: ([LinkInterface]) -> Void = { _ in }
    var kept: (Int) -> Set<DNSName> = { _ in [] }
    var onQuestion: ((DNSName) -> Void)?
    /// None, so that tests on one machine can dial it.
    var ownAddresses: Set<IPAddress> = []
    var hearsItself: Bool? { nil }
    var isOpen: Bool { isRunning }
    private(set) var isRunning = false
    private(set) var isWanted = false
    /// The text of each advertisement, and `nil` for none.
    let advertised: CurrentValue<[[[UInt8]]?]>

    init(_ advertised: CurrentValue<[[[UInt8]]?]> = CurrentValue([])) { self.advertised = advertised }

    func start() { isRunning = true }
    func advertise(_ advertisement: (port: UInt16, text: () -> [[UInt8]])?) {
        let text = advertisement?.text()
        advertised.update { $0.append(text) }
    }
    func want(_ isWanted: Bool) { self.isWanted = isWanted }
    func askAgain() {}
    func ask(_ question: DNSMessage) {}
    func stop() async { isRunning = false }

    /// The machine has these addresses, by the numbers of their interfaces, in networks of 24 bits.
    func attach(_ interfaces: [Int: String]) throws {
        onInterfaces(
            try interfaces.sorted { $0.key < $1.key }.map { index, address in
                let address = try #require(IPAddress(parsing: address.utf8))
                return LinkInterface(index: index, name: "eth\(index)", addresses: [.init(address, prefixLength: 24)])
            }
        )
    }
}
