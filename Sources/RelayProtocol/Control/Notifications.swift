// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

extension EndpointMessage {
    /// Says how an app of this endpoint is woken; replaces what was registered for it before.
    package struct NotificationsRegister: NumberedControlMessage {
        package static let type = "notifications.register"
        package var ref: RequestRef
        package var appID: String
        package var displayName: String
        package var channel: PushRegistration

        package init(ref: RequestRef, appID: String, displayName: String, channel: PushRegistration) {
            self.ref = ref
            self.appID = appID
            self.displayName = displayName
            self.channel = channel
        }

        package init(from decoder: any Decoder) throws {
            let container = try decoder.container(keyedBy: CodingKeys.self)
            self.ref = try container.decode(RequestRef.self, forKey: .ref)
            self.appID = try container.decode(String.self, forKey: .appID)
            self.displayName = try container.decode(String.self, forKey: .displayName)
            self.channel = try container.decode(PushRegistration.self, forKey: .channel)
            do throws(RecordError) {
                try decoder.limits.checkIdentifier(appID, field: "appID")
                try decoder.limits.checkDisplayName(displayName, field: "displayName", mayBeEmpty: true)
            } catch {
                if case .limitExceeded(let exceeded) = error { throw exceeded }
                throw DecodingError.dataCorruptedError(forKey: .displayName, in: container, debugDescription: "not a name")
            }
        }

        private enum CodingKeys: String, CodingKey {
            case ref, appID, displayName, channel
        }
    }
}

/// Where a wake goes.
package enum PushRegistration: Hashable, Sendable {
    /// Apple's: the device token in hexadecimal, and which of Apple's two services issued it.
    case apns(token: Secret<String>, environment: APNsEnvironment)
    /// Google's.
    case fcm(token: Secret<String>)
    /// Windows': the channel URI.
    case wns(channelURI: Secret<String>)
    /// Browsers and UnifiedPush: the endpoint's URL and the subscriber's keys (RFC 8291).
    case webPush(endpoint: Secret<String>, publicKey: Blob<BlobKinds.PushPublicKey>, secret: Secret<Blob<BlobKinds.PushAuthSecret>>)
    /// None: the app asks by itself.
    case polling
    /// A channel that is not known here, or not any more such as `gcm`; the answer is `unsupported`.
    case unknown(type: String)

    /// The service that issued an Apple device token.
    package enum APNsEnvironment: String, Codable, Sendable {
        case production, sandbox
    }
}

extension PushRegistration: Codable {
    /// Longer than any provider's token or address.
    static let maximumTokenBytes = 4 << 10

    private enum CodingKeys: String, CodingKey {
        case type, token, environment, publicKey, secret
    }

    private enum Kind: String, Codable {
        case apns, fcm, wns, webPush, polling
    }

    /// Enough for the name of a channel that is not known.
    static let maximumTypeBytes = 32

    package init(from decoder: any Decoder) throws {
        let container = try decoder.container(keyedBy: CodingKeys.self)
        func token() throws -> Secret<String> {
            let token = try container.decode(String.self, forKey: .token)
            guard (1...Self.maximumTokenBytes).contains(token.utf8.count) else {
                throw DecodingError.dataCorruptedError(forKey: .token, in: container, debugDescription: "empty or too long")
            }
            return Secret(token)
        }
        let type = try container.decode(String.self, forKey: .type)
        guard let kind = Kind(rawValue: type) else {
            guard type.utf8.count <= Self.maximumTypeBytes else {
                throw DecodingError.dataCorruptedError(forKey: .type, in: container, debugDescription: "too long")
            }
            self = .unknown(type: type)
            return
        }
        switch kind {
        case .apns:
            self = .apns(token: try token(), environment: try container.decode(APNsEnvironment.self, forKey: .environment))
        case .fcm: self = .fcm(token: try token())
        case .wns: self = .wns(channelURI: try token())
        case .webPush:
            self = .webPush(
                endpoint: try token(),
                publicKey: try container.decode(Blob<BlobKinds.PushPublicKey>.self, forKey: .publicKey),
                secret: try container.decode(Secret<Blob<BlobKinds.PushAuthSecret>>.self, forKey: .secret)
            )
        case .polling: self = .polling
        }
    }

    package func encode(to encoder: any Encoder) throws {
        var container = encoder.container(keyedBy: CodingKeys.self)
        switch self {
        case .apns(let token, let environment):
            try container.encode(Kind.apns, forKey: .type)
            try container.encode(token, forKey: .token)
            try container.encode(environment, forKey: .environment)
        case .fcm(let token):
            try container.encode(Kind.fcm, forKey: .type)
            try container.encode(token, forKey: .token)
        case .wns(let channelURI):
            try container.encode(Kind.wns, forKey: .type)
            try container.encode(channelURI, forKey: .token)
        case .webPush(let endpoint, let publicKey, let secret):
            try container.encode(Kind.webPush, forKey: .type)
            try container.encode(endpoint, forKey: .token)
            try container.encode(publicKey, forKey: .publicKey)
            try container.encode(secret, forKey: .secret)
        case .polling: try container.encode(Kind.polling, forKey: .type)
        case .unknown(let type): try container.encode(type, forKey: .type)
        }
    }
}

extension RelayMessage {
    /// A push registration of this endpoint changed its state: it nears its end, or its provider no longer takes it.
    package struct NotificationsState: ControlMessage {
        package static let type = "notifications.state"
        package var appID: String
        package var state: State

        package init(appID: String, state: State) {
            self.appID = appID
            self.state = state
        }

        /// Whether a wake would arrive. A string on the wire, so that a newer relay may tell more.
        package struct State: RawRepresentable, Hashable, Sendable, Codable {
            package let rawValue: String

            package init(rawValue: String) { self.rawValue = rawValue }

            /// The provider does not take it any more.
            package static let unregistered = Self(rawValue: "unregistered")
            /// It would.
            package static let registered = Self(rawValue: "registered")
            /// It should be registered anew.
            package static let expiring = Self(rawValue: "expiring")
            /// It must be registered anew.
            package static let expired = Self(rawValue: "expired")
        }
    }
}
