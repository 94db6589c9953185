// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// A message of multicast DNS (RFC 6762 §18, RFC 1035 §4).
package struct DNSMessage: Hashable, Sendable {
    /// The limits for messages of others. RFC 6762 §17 has the first.
    package static let maximumBytes = 9_000
    package static let maximumRecords = 128

    /// Zero in multicast; a legacy query's id comes back in its answer.
    package var id: UInt16 = 0
    package var isResponse: Bool
    /// More known answers follow in another message (RFC 6762 §7.2).
    package var isTruncated = false
    package var questions: [DNSQuestion] = []
    package var answers: [DNSRecord] = []
    package var authorities: [DNSRecord] = []
    package var additionals: [DNSRecord] = []

    package init(isResponse: Bool) { self.isResponse = isResponse }

    package var records: [DNSRecord] { answers + authorities + additionals }
}

/// A question of class IN.
package struct DNSQuestion: Hashable, Sendable {
    package var name: DNSName
    package var type: DNSRecord.Kind
    /// Whether the answer may be sent to the asker alone (RFC 6762 §5.4).
    package var wantsUnicast = false

    package init(_ name: DNSName, _ type: DNSRecord.Kind, wantsUnicast: Bool = false) {
        self.name = name
        self.type = type
        self.wantsUnicast = wantsUnicast
    }
}

/// A record of class IN.
package struct DNSRecord: Hashable, Sendable {
    /// The types that this project uses; others are kept by their number.
    package struct Kind: RawRepresentable, Hashable, Sendable {
        package let rawValue: UInt16

        package init(rawValue: UInt16) { self.rawValue = rawValue }

        package static let a = Kind(rawValue: 1)
        package static let ptr = Kind(rawValue: 12)
        package static let txt = Kind(rawValue: 16)
        package static let aaaa = Kind(rawValue: 28)
        package static let srv = Kind(rawValue: 33)
        package static let any = Kind(rawValue: 255)
    }

    package enum Content: Hashable, Sendable {
        /// An A or AAAA record.
        case address(IPAddress)
        case pointer(DNSName)
        case service(port: UInt16, target: DNSName)
        /// At most 255 bytes each.
        case text([[UInt8]])
        case other(Kind, [UInt8])
    }

    package var name: DNSName
    package var content: Content
    /// In seconds. Zero says goodbye.
    package var timeToLive: UInt32
    /// Whether it replaces what others cached under this name and type (RFC 6762 §10.2).
    package var isUnique: Bool

    package init(_ name: DNSName, _ content: Content, timeToLive: UInt32, isUnique: Bool) {
        self.name = name
        self.content = content
        self.timeToLive = timeToLive
        self.isUnique = isUnique
    }

    package var kind: Kind {
        switch content {
        case .address(let address): address.bytes.count == 4 ? .a : .aaaa
        case .pointer: .ptr
        case .service: .srv
        case .text: .txt
        case .other(let kind, _): kind
        }
    }
}
