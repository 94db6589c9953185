// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// The service that this project advertises with DNS-SD (RFC 6763).
package enum DeviceRelayService {
    package static let type = DNSName.local(["_device-relay", "_tcp"])
    /// The name under which all types of services are listed (RFC 6763 §9).
    package static let types = DNSName.local(["_services", "_dns-sd", "_udp"])
    package static let port = 5353

    /// The time to live of records with a host's name, in seconds (RFC 6762 §10).
    static let hostLife: UInt32 = 120
    static let otherLife: UInt32 = 75 * 60
}

extension DNSName {
    /// A name below `local.`, whose labels are short.
    package static func local(_ labels: [String]) -> DNSName { DNSName((labels + ["local"]).map { Array($0.utf8) }) ?? .root }
}

/// One advertised instance of the service, with names that tell nothing and change often.
package struct ServiceInstance: Hashable, Sendable {
    /// The names of an instance and of its host: 10 random bytes each, in base32.
    package struct Labels: Hashable, Sendable {
        package let instance: String
        package let host: String

        package init(using random: inout some RandomNumberGenerator) {
            func label() -> String { Base32.encode(randomBytes(10, using: &random)) }
            (instance, host) = (label(), label())
        }
    }

    package var labels: Labels
    package var port: UInt16
    package var text: [[UInt8]]
    package var addresses: [IPAddress]

    package init(_ labels: Labels, port: UInt16, text: [[UInt8]], addresses: [IPAddress]) {
        self.labels = labels
        self.port = port
        self.text = text
        self.addresses = addresses
    }

    package var name: DNSName { Self.name(of: labels) }
    package static func name(of labels: Labels) -> DNSName { .local([labels.instance, "_device-relay", "_tcp"]) }
    package var host: DNSName { .local([labels.host]) }

    /// The records that only this instance has.
    package var uniqueRecords: [DNSRecord] {
        [
            DNSRecord(name, .service(port: port, target: host), timeToLive: DeviceRelayService.hostLife, isUnique: true),
            DNSRecord(name, .text(text), timeToLive: DeviceRelayService.otherLife, isUnique: true),
        ] + addresses.map { DNSRecord(host, .address($0), timeToLive: DeviceRelayService.hostLife, isUnique: true) }
    }

    /// The record that leads to this instance, beside those of others.
    package var pointer: DNSRecord {
        DNSRecord(DeviceRelayService.type, .pointer(name), timeToLive: DeviceRelayService.otherLife, isUnique: false)
    }

    package var typePointer: DNSRecord {
        DNSRecord(DeviceRelayService.types, .pointer(DeviceRelayService.type), timeToLive: DeviceRelayService.otherLife, isUnique: false)
    }
}
