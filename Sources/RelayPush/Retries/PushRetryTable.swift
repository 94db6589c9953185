// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

package import RelayProtocol

/// The retry table: the meaning of each reply of a provider. The first row that matches a reply decides.
package enum PushRetryTable {
    package struct Row: Hashable, Sendable {
        package let service: PushService
        package let statuses: ClosedRange<Int>
        /// The provider's name for the error; `nil` matches any.
        package let reason: String?
        package let meaning: Meaning

        init(_ service: PushService, _ statuses: ClosedRange<Int>, _ reason: String?, _ meaning: Meaning) {
            self.service = service
            self.statuses = statuses
            self.reason = reason
            self.meaning = meaning
        }

        init(_ service: PushService, _ status: Int, _ reason: String?, _ meaning: Meaning) {
            self.init(service, status...status, reason, meaning)
        }
    }

    package enum Meaning: Hashable, Sendable {
        case accepted
        case gone
        case credentialRejected
        case misconfigured
        case mismatched
        case dropped
        /// A pause as long as the provider asks for.
        case throttled(PushScope)
        /// A pause of a fixed time, in milliseconds.
        case paused(PushScope, for: Int64)
        /// A failure, or a pause if the provider asks for one.
        case failed(PushScope)
    }

    /// All rows. A registration that belongs to another credential says nothing about others. A device chooses its registration, and must
    /// not be able to stop a credential.
    package static let rows: [Row] = apns + fcm + wns + webPush + tokenEndpoint

    private static let apns: [Row] = [
        Row(.apns, 200, nil, .accepted),
        Row(.apns, 410, nil, .gone),
        Row(.apns, 400, "BadDeviceToken", .gone),
        Row(.apns, 400, "DeviceTokenNotForTopic", .gone),
        Row(.apns, 400, "TopicDisallowed", .misconfigured),
        Row(.apns, 400, "BadTopic", .misconfigured),
        Row(.apns, 400, "MissingTopic", .misconfigured),
        Row(.apns, 403, "ExpiredProviderToken", .credentialRejected),
        Row(.apns, 403, "InvalidProviderToken", .credentialRejected),
        Row(.apns, 403, "MissingProviderToken", .credentialRejected),
        // The device states the environment of its token.
        Row(.apns, 403, "BadEnvironmentKeyIdInToken", .mismatched),
        Row(.apns, 403, nil, .misconfigured),
        // Apple accepts a new token every 20 minutes.
        Row(.apns, 429, "TooManyProviderTokenUpdates", .paused(.credential, for: 20 * 60_000)),
        Row(.apns, 429, nil, .throttled(.registration)),
        Row(.apns, 500...599, nil, .failed(.credential)),
    ]

    private static let fcm: [Row] = [
        Row(.fcm, 200, nil, .accepted),
        Row(.fcm, 404, "UNREGISTERED", .gone),
        // Without this name, the credential may be wrong, so no registration is deleted.
        Row(.fcm, 404, nil, .mismatched),
        Row(.fcm, 403, "SENDER_ID_MISMATCH", .mismatched),
        // The project's credential for APNs or Web Push is wrong. FCM forwards some registrations to these services.
        Row(.fcm, 401, "THIRD_PARTY_AUTH_ERROR", .mismatched),
        Row(.fcm, 401, nil, .credentialRejected),
        Row(.fcm, 403, nil, .misconfigured),
        Row(.fcm, 429, nil, .throttled(.credential)),
        Row(.fcm, 500...599, nil, .failed(.credential)),
    ]

    private static let wns: [Row] = [
        // Status 200 alone does not mean success. For example, WNS drops notifications while they are off for the app.
        Row(.wns, 200, "dropped", .dropped),
        Row(.wns, 200, "channelthrottled", .throttled(.registration)),
        Row(.wns, 200, nil, .accepted),
        Row(.wns, 401, nil, .credentialRejected),
        // The channel URI belongs to another app.
        Row(.wns, 403, nil, .mismatched),
        Row(.wns, 404, nil, .gone),
        Row(.wns, 410, "DomainBlocked", .misconfigured),
        Row(.wns, 410, nil, .gone),
        Row(.wns, 406, nil, .throttled(.credential)),
        Row(.wns, 429, nil, .throttled(.credential)),
        Row(.wns, 500...599, nil, .failed(.credential)),
    ]

    private static let webPush: [Row] = [
        Row(.webPush, 200...299, nil, .accepted),
        // Each request has a new signature, so the registration was made with another key.
        Row(.webPush, 401, nil, .mismatched),
        Row(.webPush, 403, nil, .mismatched),
        Row(.webPush, 404, nil, .gone),
        Row(.webPush, 410, nil, .gone),
        Row(.webPush, 429, nil, .throttled(.registration)),
        // ntfy: the topic had no subscriber yet.
        Row(.webPush, 507, nil, .throttled(.registration)),
        Row(.webPush, 500...599, nil, .failed(.registration)),
    ]

    /// The endpoints where FCM and WNS issue access tokens. Status 200 is not in the table, because the token in the reply decides.
    private static let tokenEndpoint: [Row] = [
        // A token endpoint does not answer with another success or a redirect.
        Row(.tokenEndpoint, 201...399, nil, .failed(.credential)),
        Row(.tokenEndpoint, 429, nil, .throttled(.credential)),
        Row(.tokenEndpoint, 408, nil, .failed(.credential)),
        Row(.tokenEndpoint, 400...499, nil, .credentialRejected),
        Row(.tokenEndpoint, 500...599, nil, .failed(.credential)),
    ]

    /// Returns the row that decides about a reply. Without one, the request was wrong, and sending it again would fail in the same way.
    package static func row(for reply: PushReply, from service: PushService) -> Row? {
        rows.first { $0.service == service && $0.statuses.contains(reply.status) && ($0.reason == nil || $0.reason == reply.reason) }
    }

    package static func outcome(of reply: PushReply, from service: PushService) -> PushOutcome {
        let reason = reply.reason ?? (service == .tokenEndpoint ? "the token endpoint answered \(reply.status)" : "status \(reply.status)")
        return switch row(for: reply, from: service)?.meaning {
        case .accepted: .accepted(id: reply.id)
        case .gone: .gone(since: reply.since)
        case .credentialRejected: .credentialRejected(reason: reason)
        case .misconfigured: .misconfigured(reason: reason)
        case .mismatched: .mismatched(reason: reason)
        case .dropped: .dropped(reason: reason)
        case .throttled(let scope): .throttled(scope: scope, wait: reply.wait)
        case .paused(let scope, let time): .throttled(scope: scope, wait: time)
        case .failed(let scope):
            reply.wait.map { .throttled(scope: scope, wait: $0) }
                ?? .failed(scope: service.isAtChosenAddress ? .registration : scope, reason: reason)
        // The request was wrong.
        case nil: .invalid(reason: reason)
        }
    }
}

/// The push provider that replies, or its token endpoint.
package enum PushService: String, Hashable, Sendable, CaseIterable {
    case apns, fcm, wns, webPush, tokenEndpoint

    /// Whether devices choose the address. A failure there says nothing about other registrations.
    var isAtChosenAddress: Bool { self == .wns || self == .webPush }
}

/// The parts of a reply that the retry table needs.
package struct PushReply: Hashable, Sendable {
    package let status: Int
    /// The provider's name for the error. Any other text is not kept, because it can contain data that must not be logged.
    package let reason: String?
    /// The provider's id of the notification.
    package let id: String?
    /// The time since which the registration is invalid.
    package let since: Milliseconds?
    /// The pause that the provider asks for, in milliseconds.
    package let wait: Int64?

    package init(status: Int, reason: String? = nil, id: String? = nil, since: Milliseconds? = nil, wait: Int64? = nil) {
        self.status = status
        let isName = reason.map { (1...64).contains($0.utf8.count) && $0.utf8.allSatisfy(Self.isPartOfName) }
        self.reason = isName == true ? reason : nil
        self.id = id.flatMap { $0.utf8.count <= 200 ? $0 : nil }
        self.since = since
        self.wait = wait
    }

    private static func isPartOfName(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
            UInt8(ascii: "_"):
            true
        default: false
        }
    }
}
