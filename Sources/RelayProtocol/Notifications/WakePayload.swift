// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// The content of a push notification: "connect and drain your mailbox", and nothing else. At most 256 bytes of JSON, under one key, so that
/// an app tells it from its own notifications:
///
///     {"deviceRelay":{"relay":"…","endpoint":"…","class":"urgent"}}
package struct WakePayload: Hashable, Sendable, Codable {
    package static let key = "deviceRelay"
    package static let maximumBytes = 256

    /// How soon the endpoint should connect.
    package enum Urgency: String, Codable, Hashable, Sendable, CaseIterable {
        /// A person waits, such as for a launch. The push may show an alert.
        case urgent
        /// Nothing is shown. Providers may delay or drop it.
        case background
    }

    package let relay: RelayID
    package let endpoint: EndpointID
    package let urgency: Urgency

    package init(relay: RelayID, endpoint: EndpointID, urgency: Urgency) {
        self.relay = relay
        self.endpoint = endpoint
        self.urgency = urgency
    }

    private enum CodingKeys: String, CodingKey {
        case relay, endpoint
        case urgency = "class"
    }

    /// The fields as strings, for providers that carry only strings.
    package var fields: [(name: String, value: String)] {
        [("relay", relay.description), ("endpoint", endpoint.description), ("class", urgency.rawValue)]
    }
}

/// The text of an alert that an urgent wake shows: a key of the app's own localised strings, and its arguments. The keys are those of the
/// original.
package enum WakeAlert: Hashable, Sendable {
    /// `%1$@` is the device that launches.
    case launch(device: String)
    /// `%1$@` is the app that launches, `%2$@` its device.
    case launchFromApp(app: String, device: String)
    /// Without arguments: several things wait, or no name may be shown.
    case general

    package var key: String {
        switch self {
        case .launch: "ROME_REMOTE_LAUNCH"
        case .launchFromApp: "ROME_REMOTE_LAUNCH_FROM_APP"
        case .general: "ROME_CONNECT_TEXT_MANY"
        }
    }

    package var arguments: [String] {
        switch self {
        case .launch(let device): [device]
        case .launchFromApp(let app, let device): [app, device]
        case .general: []
        }
    }
}

extension WakePayload {
    /// The payload as a JSON object. The identifiers are Base32 and need no escapes.
    package var json: String {
        "{" + fields.map { "\"\($0.name)\":\"\($0.value)\"" }.joined(separator: ",") + "}"
    }
}
