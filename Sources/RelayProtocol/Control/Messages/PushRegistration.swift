// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// The push channel for a wake.
package enum PushRegistration: Hashable, Sendable {
    /// Apple Push Notification service: the device token in hexadecimal, and the environment that issued it.
    case apns(token: Secret<String>, environment: APNsEnvironment)
    /// Firebase Cloud Messaging.
    case fcm(token: Secret<String>)
    /// Windows Notification Service: the channel URI.
    case wns(channelURI: Secret<String>)
    /// Web Push, for browsers and UnifiedPush: the URL and the subscriber's keys (RFC 8291).
    case webPush(endpoint: Secret<String>, publicKey: Blob<BlobKinds.PushPublicKey>, secret: Secret<Blob<BlobKinds.PushAuthSecret>>)
    /// No push channel: the app polls, normally at this interval.
    case polling(interval: Milliseconds?)
    /// A channel that this version does not know, or that no longer exists, such as `gcm`. The answer is `unsupported`.
    case unknown(type: String)

    /// The environment that issued an Apple device token.
    package enum APNsEnvironment: String, JSONCodable, Sendable {
        case production, sandbox
    }
}

extension PushRegistration: JSONObjectCodable {
    /// Longer than any provider's token or address.
    package static let maximumTokenBytes = 4 << 10

    /// The type of a channel.
    package enum Kind: String, JSONCodable, CaseIterable, Sendable {
        case apns, fcm, wns, webPush, polling
    }

    /// `nil` for a type that this version does not know.
    package var kind: Kind? {
        switch self {
        case .apns: .apns
        case .fcm: .fcm
        case .wns: .wns
        case .webPush: .webPush
        case .polling: .polling
        case .unknown: nil
        }
    }

    /// The maximum length of the name of an unknown channel.
    static let maximumTypeBytes = 32

    package init(json: JSONValue) throws(JSONError) {
        func token() throws(JSONError) -> Secret<String> {
            let token: String = try json.member("token")
            guard (1...Self.maximumTokenBytes).contains(token.utf8.count) else { throw json.invalid("token") }
            return Secret(token)
        }
        let type: String = try json.member("type")
        guard let kind = Kind(rawValue: type) else {
            guard type.utf8.count <= Self.maximumTypeBytes else { throw json.invalid("type") }
            self = .unknown(type: type)
            return
        }
        switch kind {
        case .apns: self = .apns(token: try token(), environment: try json.member("environment"))
        case .fcm: self = .fcm(token: try token())
        case .wns: self = .wns(channelURI: try token())
        case .webPush:
            self = .webPush(endpoint: try token(), publicKey: try json.member("publicKey"), secret: try json.member("secret"))
        case .polling: self = .polling(interval: try json.optional("interval"))
        }
    }

    package func writeMembers(to json: inout JSONWriter) {
        switch self {
        case .apns(let token, let environment):
            json.member("type", Kind.apns)
            json.member("token", token)
            json.member("environment", environment)
        case .fcm(let token):
            json.member("type", Kind.fcm)
            json.member("token", token)
        case .wns(let channelURI):
            json.member("type", Kind.wns)
            json.member("token", channelURI)
        case .webPush(let endpoint, let publicKey, let secret):
            json.member("type", Kind.webPush)
            json.member("token", endpoint)
            json.member("publicKey", publicKey)
            json.member("secret", secret)
        case .polling(let interval):
            json.member("type", Kind.polling)
            json.member("interval", interval)
        case .unknown(let type): json.member("type", type)
        }
    }
}
