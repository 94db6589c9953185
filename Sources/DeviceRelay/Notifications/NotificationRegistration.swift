// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol

/// How an app is woken while it is not connected: a token of its platform's push service, or an interval at which it asks the relay itself.
public struct NotificationRegistration: Hashable, Sendable, CustomStringConvertible, CustomReflectable {
    /// The push service.
    public var type: NotificationType
    /// What the push service gave to the app. APNs: the device token in hexadecimal. FCM: the registration token. WNS: the channel URI.
    /// Web Push: the endpoint URL. Polling has none.
    public var token: String
    /// The id of the app that is woken, as it is published.
    public var appID: String
    /// The app's name, for the relay's operator: at most 64 characters; may be empty.
    public var displayName: String
    /// Whether the alert of a push notification may contain the names of the device and the app that launch, which the push service can then
    /// read. Default: false; the alert then has the text `ROME_CONNECT_TEXT_MANY` of the app, which has no arguments.
    public var showsNames: Bool

    /// Creates a registration.
    public init(type: NotificationType, token: String = "", appID: String, displayName: String = "", showsNames: Bool = false) {
        self.type = type
        self.token = token
        self.appID = appID
        self.displayName = displayName
        self.showsNames = showsNames
    }

    /// The type and the app, without the token.
    public var description: String { "\(type) for \(appID)" }

    /// Without the token, which a log must not contain.
    public var customMirror: Mirror { Mirror(self, children: ["type": "\(type)", "appID": appID]) }
}

/// The push service that wakes an app. A newer version may have more types.
public struct NotificationType: Hashable, Sendable, CustomStringConvertible {
    enum Kind: Hashable, Sendable {
        case apns(isSandbox: Bool)
        case fcm
        case wns
        case webPush(publicKey: [UInt8], secret: Secret<[UInt8]>)
        case polling(seconds: Int64)
    }

    let kind: Kind

    /// Apple Push Notification service, for an app from the App Store or TestFlight.
    public static let apns = Self(kind: .apns(isSandbox: false))
    /// Apple Push Notification service, for an app that Xcode installed (entitlement `aps-environment` is `development`).
    public static let apnsSandbox = Self(kind: .apns(isSandbox: true))
    /// Firebase Cloud Messaging.
    public static let fcm = Self(kind: .fcm)
    /// Windows Notification Service.
    public static let wns = Self(kind: .wns)
    /// Web Push (RFC 8030), for browsers and UnifiedPush.
    /// - Parameters:
    ///   - publicKey: The subscription's P-256 key `p256dh`, uncompressed, 65 bytes.
    ///   - authSecret: The subscription's secret `auth`, 16 bytes.
    public static func webPush(publicKey: [UInt8], authSecret: [UInt8]) -> Self {
        Self(kind: .webPush(publicKey: publicKey, secret: Secret(authSecret)))
    }
    /// No push service. While the platform is suspended, it connects by itself every 15 minutes and fetches what waits.
    public static let polling = polling(every: .seconds(900))
    /// No push service. While the platform is suspended, it connects by itself at this interval, of a second to a day.
    public static func polling(every interval: Duration) -> Self {
        Self(kind: .polling(seconds: min(max(interval.components.seconds, 1), 86_400)))
    }

    /// The type's name.
    public var description: String {
        switch kind {
        case .apns(let isSandbox): isSandbox ? "apns (sandbox)" : "apns"
        case .fcm: "fcm"
        case .wns: "wns"
        case .webPush: "webPush"
        case .polling(let seconds): "polling every \(seconds) s"
        }
    }

    /// The interval of polling, in milliseconds.
    var pollingInterval: Int64? { if case .polling(let seconds) = kind { seconds * 1_000 } else { nil } }
}

/// The state of a registration at the relay.
@nonexhaustive public enum NotificationRegistrationState: String, Hashable, Sendable {
    /// The relay cannot wake this device: nothing was registered, the relay did not take it, or the push service no longer accepts the token.
    case unregistered
    /// The relay can wake this device.
    case registered
    /// The registration ends soon: the app should register a new token. The platform repeats a token that does not change by itself.
    case expiring
    /// The registration has ended: the app must register a new token.
    case expired
}

/// Delivers the token of the push service, for apps that get it, or a new one, after the platform has started.
///
/// The platform asks at each start, and when the registration expires or the push service no longer accepts it.
public protocol NotificationProvider: Sendable {
    /// The current registration; `nil` if there is none now. The app may call `register` later.
    func notificationRegistration(for account: ConnectedDevicesAccount) async -> NotificationRegistration?
}

extension NotificationRegistration {
    /// The registration on the wire.
    func channel() throws(NotificationRegistrationError) -> PushRegistration {
        func invalid(_ what: String) -> NotificationRegistrationError { .init(.invalidRegistration, "\(what) is not valid") }
        if type.pollingInterval == nil, !(1...PushRegistration.maximumTokenBytes).contains(token.utf8.count) { throw invalid("the token") }
        do throws(RecordError) {
            try Limits().checkIdentifier(appID, field: "appID")
            try Limits().checkDisplayName(displayName, field: "displayName", mayBeEmpty: true)
        } catch {
            throw invalid("the app id or the display name")
        }
        switch type.kind {
        case .apns(let isSandbox): return .apns(token: Secret(token), environment: isSandbox ? .sandbox : .production)
        case .fcm: return .fcm(token: Secret(token))
        case .wns: return .wns(channelURI: Secret(token))
        case .webPush(let publicKey, let secret):
            guard publicKey.count == 65, publicKey.first == 4 else { throw invalid("the public key") }
            guard secret.exposed.count == 16 else { throw invalid("the secret") }
            return .webPush(endpoint: Secret(token), publicKey: Blob(publicKey), secret: Secret(Blob(secret.exposed)))
        case .polling: return .polling(interval: type.pollingInterval.map { Milliseconds(clamping: $0) })
        }
    }

    /// `nil` for a channel of a type that this version does not know.
    init?(_ channel: PushRegistration, appID: String, displayName: String, showsNames: Bool) {
        let (type, token): (NotificationType, String)
        switch channel {
        case .apns(let device, let environment): (type, token) = (environment == .sandbox ? .apnsSandbox : .apns, device.exposed)
        case .fcm(let device): (type, token) = (.fcm, device.exposed)
        case .wns(let uri): (type, token) = (.wns, uri.exposed)
        case .webPush(let url, let key, let secret):
            (type, token) = (.webPush(publicKey: key.bytes, authSecret: secret.exposed.bytes), url.exposed)
        case .polling(let interval): (type, token) = (.polling(every: .milliseconds(interval?.count ?? 900_000)), "")
        case .unknown: return nil
        }
        self.init(type: type, token: token, appID: appID, displayName: displayName, showsNames: showsNames)
    }
}
