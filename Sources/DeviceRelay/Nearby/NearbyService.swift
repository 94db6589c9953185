// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import NIOCore
import RelayProtocol

#if canImport(Darwin)
import Darwin
#elseif canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#endif

/// DNS-SD on the local network, by the system's service or by an own one. It is used on one event loop.
protocol NearbyService: AnyObject {
    /// Called with the instances of an interface whenever they change.
    var onInstances: ([MulticastBrowser.Instance], _ interface: Int) -> Void { get set }
    /// Called when another network is there, or one is gone. The service reports itself that nothing is seen there any more.
    var onInterfaces: ([LinkInterface]) -> Void { get set }
    /// The instances that keep their place when there are too many.
    var kept: (_ interface: Int) -> Set<DNSName> { get set }

    /// Called with the name of each question that is heard, also of own ones; `nil` while nobody listens.
    var onQuestion: ((DNSName) -> Void)? { get set }
    /// Whether it can send questions for a test, and reports those that it hears.
    var canProbe: Bool { get }

    /// All addresses of this machine, also those of interfaces that are not used.
    var ownAddresses: Set<IPAddress> { get }
    /// Whether messages can be sent on an interface.
    var isOpen: Bool { get }
    /// Whether it receives what it sends to everybody; `nil` before it has sent something, or if that is not known.
    var hearsItself: Bool? { get }

    func start()
    /// Advertises under new names.
    /// - Parameter advertisement: The port, and what makes the text, which is called for each interface; `nil` to advertise nothing.
    func advertise(_ advertisement: (port: UInt16, text: () -> [[UInt8]])?)
    /// Whether to ask for instances.
    func want(_ isWanted: Bool)
    /// Asks again soon, if instances are wanted: some may have slept until now.
    func askAgain()
    /// Sends a question on all interfaces. What answers it is not told.
    func ask(_ question: DNSMessage)
    /// Says goodbye, and ends.
    func stop() async
}

extension NearbyService {
    var canProbe: Bool { true }
    var ownAddresses: Set<IPAddress> { Set(((try? System.enumerateDevices()) ?? []).compactMap { IPAddress($0.address) }) }
}

extension EndpointContext {
    /// The service of this platform: on Apple systems an app may not use multicast itself.
    /// - Parameter isOnce: Whether a network that several interfaces are connected to gets one advertisement. Only for those who have no
    ///   other way to find out that it is one device. The system's service always does so.
    func makeNearbyService(advertisesOnce isOnce: Bool = false) -> any NearbyService {
        #if canImport(dnssd)
        SystemNearbyService(loop, interfaces: settings.nearby.interfaces, logger: logger)
        #else
        MulticastService(loop, interfaces: settings.nearby.interfaces, advertisesOnce: isOnce, logger: logger)
        #endif
    }
}

/// What is advertised on each interface, under names of its own.
struct InterfaceAdvertisements {
    struct Advertised {
        let labels: ServiceInstance.Labels
        let port: UInt16
        let text: [[UInt8]]
    }

    /// What is advertised, if anything. Another one has new names everywhere.
    var common: (port: UInt16, text: () -> [[UInt8]])? { didSet { (made, repeated) = ([:], []) } }
    private var made: [Int: Advertised] = [:]
    /// The interfaces that lead to the network of an earlier one, which advertises there.
    private var repeated: Set<Int> = []
    private var random = SystemRandomNumberGenerator()

    /// The same until the interface is forgotten.
    mutating func on(_ interface: Int) -> Advertised? {
        guard !repeated.contains(interface) else { return nil }
        if let made = made[interface] { return made }
        guard let common else { return nil }
        let made = Advertised(labels: ServiceInstance.Labels(using: &random), port: common.port, text: common.text())
        self.made[interface] = made
        return made
    }

    /// The name of an earlier interface is heard, so both lead to one network. Nobody else there knows that name. It is heard in time:
    /// before an instance is announced, its name is asked for.
    /// - Returns: Whether that is new.
    mutating func heard(_ names: some Sequence<DNSName>, on interface: Int) -> Bool {
        let earlier = Set(
            made.filter { $0.key < interface && !repeated.contains($0.key) }.values.map { ServiceInstance.name(of: $0.labels) }
        )
        guard !earlier.isEmpty, names.contains(where: earlier.contains) else { return false }
        return repeated.insert(interface).inserted
    }

    /// Forgets which interfaces lead to one network.
    /// - Returns: Whether any did.
    @discardableResult mutating func startOver() -> Bool {
        defer { repeated = [] }
        return !repeated.isEmpty
    }

    /// Another network must not see the same names.
    mutating func forget(_ interface: Int) { made[interface] = nil }
}

/// The interfaces of this machine for multicast.
struct NetworkInterfaces {
    let links: [LinkInterface]
    /// As the system names them, for each family.
    let devices: [MulticastSocket.Key: NIONetworkDevice]

    /// Reads the connected interfaces that can multicast, except loopback and point-to-point ones, and the ports of a bridge.
    /// - Parameter names: Those that may be used; `nil` for all.
    static func read(_ names: [String]?) -> NetworkInterfaces {
        var found: [Int: (name: String, addresses: [LinkInterface.Address])] = [:]
        var devices: [MulticastSocket.Key: NIONetworkDevice] = [:]
        let names = (wanted: names, connected: connected())
        for device in (try? System.enumerateDevices()) ?? [] {
            guard device.interfaceIndex > 0, device.multicastSupported, device.pointToPointDestinationAddress == nil,
                names.wanted?.contains(device.name) ?? true, names.connected.contains(device.name), let address = IPAddress(device.address),
                !address.isLoopback, !isBridgePort(device.name)
            else { continue }
            let bits = IPAddress(device.netmask).map { $0.bytes.reduce(0) { $0 + $1.nonzeroBitCount } } ?? address.bytes.count * 8
            found[device.interfaceIndex, default: (device.name, [])].addresses.append(.init(address, prefixLength: bits))
            let key = MulticastSocket.Key(interface: device.interfaceIndex, address)
            devices[key] = devices[key] ?? device
        }
        let links = found.sorted { $0.key < $1.key }.map {
            LinkInterface(index: $0.key, name: $0.value.name, addresses: $0.value.addresses)
        }
        return NetworkInterfaces(links: links, devices: devices)
    }

    /// Whether an interface is a port of a bridge of this machine. The bridge has its network, and neighbours would see this machine twice.
    private static func isBridgePort(_ name: String) -> Bool {
        #if os(Linux)
        access("/sys/class/net/\(name)/brport", F_OK) == 0
        #else
        false
        #endif
    }

    /// The names of the interfaces that are switched on and have a network. Others keep their addresses.
    private static func connected() -> Set<String> {
        var first: UnsafeMutablePointer<ifaddrs>?
        guard getifaddrs(&first) == 0 else { return [] }
        defer { freeifaddrs(first) }
        let wanted = UInt32(IFF_UP) | UInt32(IFF_RUNNING)
        var names: Set<String> = []
        for entry in sequence(first: first, next: { $0?.pointee.ifa_next }) {
            guard let entry = entry?.pointee, entry.ifa_flags & wanted == wanted else { continue }
            names.insert(String(cString: entry.ifa_name))
        }
        return names
    }
}
