// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import NIOCore

@testable import RelayProtocol

/// A sample of every message, with all optional fields.
enum ControlSamples {
    static let endpoint = EndpointID(digest: Digest256(bytes: Array(repeating: 1, count: 32)) ?? Digest256(hashing: []))
    static let relay = RelayID(digest: Digest256(bytes: Array(repeating: 2, count: 32)) ?? Digest256(hashing: []))
    static let command = CommandID("018f0000-0000-7000-8000-000000000001")
    static let tunnel = TunnelID("00112233445566778899aabbccddeeff")
    static let introduction = Introduction(record: Blob([1, 2, 3]), vouchers: [Blob([4]), Blob([5, 6])])
    static let presence = Presence(.unavailable, .suspended, since: 1_700_000_000_000, expectedWithin: 30_000)

    static func ref(_ number: Int64 = 7) -> RequestRef { RequestRef(number) ?? .first }

    static func bytes(_ count: Int) -> [UInt8] { (0..<count).map { UInt8(truncatingIfNeeded: $0) } }

    static var fromEndpoint: [EndpointMessage] {
        guard let command, let tunnel else { return [] }
        let secret = Secret(Blob<BlobKinds.PushAuthSecret>(bytes(16)))
        let channels: [PushRegistration] = [
            .apns(token: Secret("a0"), environment: .sandbox), .fcm(token: Secret("f")), .wns(channelURI: Secret("https://w")),
            .webPush(endpoint: Secret("https://p"), publicKey: Blob(bytes(65)), secret: secret), .polling(interval: nil),
            .polling(interval: 900_000), .unknown(type: "gcm"),
        ]
        return [
            .hello(
                .init(
                    version: 1,
                    token: Secret("token"),
                    record: Blob([1]),
                    origin: "https://relay.example",
                    signature: Blob(bytes(64)),
                    role: .host,
                    instance: Blob(bytes(16)),
                    features: ["a"]
                )
            ),
            .publish(.init(ref: ref(), registration: Blob([9]))),
            .unpublish(.init(ref: ref(), appID: "com.example.player")),
            .endpointUpdate(.init(ref: ref(), record: Blob([1, 2]))),
            .endpointApprove(.init(ref: ref(), endpoint: endpoint, voucher: Blob([3]))),
            .endpointRevoke(.init(ref: ref(), endpoint: endpoint, revocation: Blob([1, 2, 3]))),
            .leaving(.init(ref: ref(), reason: .suspended)),
            .watch(.init(ref: ref())),
            .unwatch(.init(ref: ref(RequestRef.first.number))),
            .commandSend(.init(ref: ref(), command: Blob(bytes(300)))),
            .commandSend(.init(ref: ref(), command: Blob(bytes(300)), again: true)),
            .commandCancel(.init(ref: ref(), id: command)),
            .commandReceived(.init(sender: endpoint, id: command)),
            .commandResult(.init(ref: ref(), sender: endpoint, id: command, receipt: Blob([1]), reply: Blob([]))),
            .commandResult(.init(ref: ref(), sender: endpoint, id: command, receipt: Blob([1]))),
            .commandAcknowledge(.init(id: command)),
            .mailboxDrain(.init(ref: ref())),
            .tunnelOpen(.init(ref: ref(), target: endpoint, timeout: 30_000)),
            .tunnelDecline(.init(tunnel: tunnel)),
            .tunnelCandidates(.init(tunnel: tunnel, candidates: Blob(bytes(100)))),
            .authRefresh(.init(ref: ref(Milliseconds.end - 1), token: Secret("token"))),
            .identityLink(.init(ref: ref(), token: Secret("token"))),
        ]
            + channels.map {
                .notificationsRegister(.init(ref: ref(), appID: "com.example.player", displayName: "Player", channel: $0))
            }
    }

    static var fromRelay: [RelayMessage] {
        guard let command, let tunnel else { return [] }
        let entrance = TunnelEntrance(tunnel: tunnel, token: Secret(Blob(bytes(32))), urls: ["tcp://:4711", "wss:///v1/tunnels/x"])
        let exceeded = LimitExceeded(limit: .commandBytes, allowed: 1, requested: 2)
        var limits = Limits()
        limits[.commandBytes] = 5
        return [
            .challenge(.init(nonce: Blob(bytes(32)), relay: relay, time: 1_700_000_000_000, versions: [1, 2], features: ["x"])),
            .welcome(.init(limits: limits, intervals: .init(), urls: ["https://relay.example"], features: [], accountName: "Zoë")),
            .rejected(
                .init(
                    code: .wrongAccount,
                    message: "m",
                    retry: true,
                    retryAfter: 5,
                    limit: ExceededLimit(exceeded),
                    account: "a"
                )
            ),
            .ok(.init(ref: ref())),
            .ok(.init(ref: ref(), result: .init(state: .waking))),
            .ok(.init(ref: ref(), result: .init(tunnel: tunnel, isWaking: true))),
            .failure(.init(ref: ref(), code: .clockSkew, message: "m", retryAfter: 1, time: 2)),
            .failure(.init(ref: ref(), code: .numberPassed, message: "m", mayHaveRun: true, highest: 1 << 53 - 1)),
            .failure(.init(ref: ref(), exceeding: exceeded)),
            .endpointAdded(
                .init(endpoint: endpoint, introduction: introduction, registrations: [Blob([7]), Blob([8])], presence: presence)
            ),
            .endpointAdded(
                .init(
                    endpoint: endpoint,
                    introduction: introduction,
                    registrations: [],
                    presence: presence,
                    joining: Joining(time: 1_700_000_000_000, invitedBy: endpoint, address: "2001:db8::1")
                )
            ),
            .endpointUpdated(.init(endpoint: endpoint, presence: Presence(.available, .connected))),
            .endpointUpdated(.init(endpoint: endpoint, introduction: introduction, registrations: [])),
            .endpointRemoved(.init(endpoint: endpoint, isRevoked: true)),
            .endpointRemoved(.init(endpoint: endpoint, isRevoked: true, revocation: Blob([5]))),
            .enumerationCompleted(.init()),
            .notificationsState(.init(appID: "com.example.player", state: .expiring)),
            .identityChanged(.init(change: .linked, issuer: "https://issuer.example", endpoint: nil, time: 1_700_000_000_000)),
            .command(.init(command: Blob(bytes(300)), sender: introduction)),
            .command(.init(command: Blob([1]), sender: nil, wasReceived: true)),
            .commandCancel(.init(sender: endpoint, id: command)),
            .commandSettled(.init(ref: ref(), sender: endpoint, id: command)),
            .commandStatus(.init(id: command, status: .step(.delivered))),
            .commandStatus(.init(id: command, status: .waking(CommandWake()))),
            .commandStatus(.init(id: command, status: .waking(CommandWake(channel: "fcm", expectedWithin: 900)))),
            .commandStatus(.init(id: command, status: .attestedByTarget(Blob([1]), reply: Blob([2])))),
            .commandStatus(.init(id: command, status: .attestedByTarget(Blob([1]), reply: nil))),
            .commandStatus(.init(id: command, status: .attestedByRelay(.expired))),
            .commandStatus(.init(id: command, status: .attestedByRelay(.indeterminate(.targetLost)))),
            .tunnelOffer(.init(entrance: entrance, opener: introduction)),
            .tunnelReady(.init(entrance: entrance)),
            .tunnelFailed(.init(tunnel: tunnel, code: .declined, message: "m", retryAfter: 9)),
            .tunnelCandidates(.init(tunnel: tunnel, candidates: Blob(bytes(100)))),
            .authExpiring(.init(expires: 1_700_000_000_000)),
            .authInvalidated(.init(code: .tokenRevoked, message: "m")),
            .replaced(.init()),
            .restarting(.init(after: 1_000, spread: 5_000)),
        ]
    }
}

func controlFrame(_ text: String) -> ByteBuffer { ByteBuffer(string: text) }

func controlText(_ frame: ByteBuffer) -> String { String(buffer: frame) }
