// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

public import RelayProtocol

/// A push notification of a relay: a hint to connect and to fetch what waits. It contains no launch, no message and no name.
///
/// Give every notification that the app receives to the initializer for its push service, and what it returns to
/// ``ConnectedDevicesPlatform/process(_:within:)``.
public struct ConnectedDevicesNotification: Hashable, Sendable {
    /// The relay that sent it.
    public let relay: RelayID
    /// The endpoint that it is for.
    public let endpoint: EndpointID
    /// Whether someone waits, such as for a launch.
    public let isUrgent: Bool

    private static let maximumBytes = 4_096

    private init(_ payload: WakePayload) {
        self.relay = payload.relay
        self.endpoint = payload.endpoint
        self.isUrgent = payload.urgency == .urgent
    }

    /// Reads a notification of Apple's service.
    /// - Parameter userInfo: What the app's delegate gets.
    /// - Returns: `nil` if it is not from a relay.
    public init?(parsing userInfo: [AnyHashable: Any]) {
        let content = userInfo[WakePayload.key]
        if let text = content as? String {
            self.init(object: text)
        } else if let fields = content as? [AnyHashable: Any] {
            self.init { fields[$0] as? String }
        } else {
            return nil
        }
    }

    /// Reads a notification of Firebase Cloud Messaging.
    /// - Parameter data: The message's data.
    /// - Returns: `nil` if it is not from a relay.
    public init?(parsing data: [String: String]) {
        guard let text = data[WakePayload.key] else { return nil }
        self.init(object: text)
    }

    /// Reads a notification of the Windows service, or of Web Push after its decryption.
    /// - Parameter body: The content of a raw notification or of a push message, or a toast's launch argument.
    /// - Returns: `nil` if it is not from a relay.
    public init?(parsing body: some Sequence<UInt8>) {
        var bytes: [UInt8] = []
        for byte in body {
            guard bytes.count < Self.maximumBytes else { return nil }
            bytes.append(byte)
        }
        guard let content: JSONValue = try? JSONValue(parsing: bytes).optional(WakePayload.key) else { return nil }
        self.init { name in try? content.optional(name) }
    }

    /// Reads a toast's launch argument of the Windows service.
    /// - Returns: `nil` if it is not from a relay.
    public init?(parsing text: String) { self.init(parsing: text.utf8) }

    /// - Parameter text: The payload as a JSON object.
    private init?(object text: String) {
        guard text.utf8.count <= Self.maximumBytes, let json = try? JSONValue(parsing: Array(text.utf8)) else { return nil }
        self.init { name in try? json.optional(name) }
    }

    private init?(_ field: (String) -> String?) {
        guard let relay = field("relay").flatMap({ RelayID($0) }), let endpoint = field("endpoint").flatMap({ EndpointID($0) }),
            let urgency = field("class").flatMap({ WakePayload.Urgency(rawValue: $0) })
        else { return nil }
        self.init(WakePayload(relay: relay, endpoint: endpoint, urgency: urgency))
    }
}
