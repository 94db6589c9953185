// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import NIOCore
import Testing

@testable import RelayProtocol

/// The control channel. Its messages contain the values of the other files.
extension VectorMaker {
    func control(_ identities: IdentityVectors, _ hellos: HelloVectors, _ commands: CommandVectors) throws -> ControlVectors {
        let fromEndpoint = try endpointMessages(identities, hellos, commands).map { name, message in
            let frame = String(buffer: try message.encode())
            return ControlVectors.Valid(name: name, from: .endpoint, type: type(of: message.content).type, frame: frame)
        }
        let fromRelay = try relayMessages(identities, hellos, commands).map { name, message in
            let frame = String(buffer: try message.encode())
            return ControlVectors.Valid(name: name, from: .relay, type: type(of: message.content).type, frame: frame)
        }
        return ControlVectors(valid: fromEndpoint + fromRelay, refused: try refusedFrames())
    }

    private func ref(_ number: Int64) throws -> RequestRef { try #require(RequestRef(number)) }

    private func endpointMessages(
        _ identities: IdentityVectors,
        _ hellos: HelloVectors,
        _ commands: CommandVectors
    ) throws -> [(String, EndpointMessage)] {
        let (phone, pc) = (try keys.endpoint("phone.identity"), try keys.endpoint("pc.identity"))
        let hello = try #require(hellos.valid.first)
        let header = try SealedCommand(decoding: hex(try #require(commands.commands.last).encoded)).header
        let answered = try #require(commands.receipts.first { $0.reply != nil })
        let tunnel = try #require(TunnelID("00112233445566778899aabbccddeeff"))
        let point = Array(try keys.agreement("phone.agreement").publicKey.bytes)
        func register(_ number: Int64, _ channel: PushRegistration) throws -> EndpointMessage {
            .notificationsRegister(.init(ref: try ref(number), appID: "com.example.player", displayName: "Player", channel: channel))
        }
        return [
            (
                "hello of a host",
                .hello(
                    .init(
                        version: 1,
                        token: Secret(hello.token),
                        record: Blob(hex(hello.record)),
                        origin: hello.origin,
                        signature: Blob(hex(hello.signature)),
                        role: .host,
                        instance: Blob(Array(0..<16)),
                        features: []
                    )
                )
            ),
            ("publish", .publish(.init(ref: try ref(1), registration: Blob(identities.encoded("player"))))),
            ("unpublish", .unpublish(.init(ref: try ref(2), appID: "com.example.player"))),
            ("a new record", .endpointUpdate(.init(ref: try ref(3), record: Blob(identities.encoded("phone with proof"))))),
            ("approve", .endpointApprove(.init(ref: try ref(4), endpoint: phone, voucher: Blob(identities.encoded("verified"))))),
            ("revoke", .endpointRevoke(.init(ref: try ref(5), endpoint: phone, revocation: Blob(identities.encoded("of another one"))))),
            ("leave", .leaving(.init(ref: try ref(6), reason: .suspended))),
            ("watch", .watch(.init(ref: try ref(7)))),
            ("unwatch", .unwatch(.init(ref: try ref((1 << 53) - 1)))),
            ("send", .commandSend(.init(ref: try ref(8), command: Blob(hex(try #require(commands.commands.first).encoded))))),
            (
                "send again",
                .commandSend(.init(ref: try ref(9), command: Blob(hex(try #require(commands.commands.last).encoded)), again: true))
            ),
            ("cancel", .commandCancel(.init(ref: try ref(10), id: header.id))),
            ("received", .commandReceived(.init(sender: phone, id: header.id))),
            (
                "a result with a reply",
                .commandResult(
                    .init(
                        ref: try ref(11),
                        sender: phone,
                        id: header.id,
                        receipt: Blob(hex(answered.encoded)),
                        reply: Blob(hex(answered.reply?.encoded ?? ""))
                    )
                )
            ),
            ("acknowledge", .commandAcknowledge(.init(id: header.id))),
            ("drain the mailbox", .mailboxDrain(.init(ref: try ref(19)))),
            ("open a tunnel", .tunnelOpen(.init(ref: try ref(12), target: pc, timeout: 30_000))),
            ("decline a tunnel", .tunnelDecline(.init(tunnel: tunnel))),
            ("candidates for a tunnel's target", .tunnelCandidates(.init(tunnel: tunnel, candidates: Blob(Array(0..<64))))),
            ("a new token", .authRefresh(.init(ref: try ref(13), token: Secret("another.access.token")))),
            ("link an identity", .identityLink(.init(ref: try ref(20), token: Secret("another.issuers.token")))),
            ("register apns", try register(14, .apns(token: Secret("a0b1c2"), environment: .sandbox))),
            ("register fcm", try register(15, .fcm(token: Secret("f")))),
            ("register wns", try register(16, .wns(channelURI: Secret("https://push.example/x")))),
            (
                "register webPush",
                try register(
                    17,
                    .webPush(endpoint: Secret("https://push.example/y"), publicKey: Blob(point), secret: Secret(Blob(Array(0..<16))))
                )
            ),
            ("register polling", try register(18, .polling(interval: 900_000))),
        ]
    }

    private func relayMessages(
        _ identities: IdentityVectors,
        _ hellos: HelloVectors,
        _ commands: CommandVectors
    ) throws -> [(String, RelayMessage)] {
        let (phone, pc) = (try keys.endpoint("phone.identity"), try keys.endpoint("pc.identity"))
        let hello = try #require(hellos.valid.first)
        let (blob, answered) = (
            hex(try #require(commands.commands.last).encoded), try #require(commands.receipts.first { $0.reply != nil })
        )
        let header = try SealedCommand(decoding: blob).header
        let tunnel = try #require(TunnelID("00112233445566778899aabbccddeeff"))
        let entrance = TunnelEntrance(
            tunnel: tunnel,
            token: Secret(Blob(Array(0..<32))),
            urls: ["tcp://:4711", "wss:///v1/tunnels/00112233445566778899aabbccddeeff"]
        )
        let introduction = Introduction(
            record: Blob(identities.record(of: "phone.identity")),
            vouchers: [Blob(identities.encoded("verified"))]
        )
        let now = Milliseconds(clamping: time)
        let exceeded = LimitExceeded(limit: .appRegistrationsBytes, allowed: 131_072, requested: 131_073)
        return [
            ("challenge", .challenge(.init(nonce: Blob(hex(hello.nonce)), relay: try relay, time: now, versions: [1], features: []))),
            ("welcome", .welcome(.init(limits: Limits(), intervals: .init(), urls: [hello.origin], features: []))),
            (
                "rejected for another account",
                .rejected(.init(code: .wrongAccount, message: "the record is for another account", retry: true, account: account))
            ),
            ("rejected for a while", .rejected(.init(code: .unavailable, message: "not now", retry: true, retryAfter: 5_000))),
            ("ok", .ok(.init(ref: try ref(1)))),
            (
                "a number that has passed",
                .failure(.init(ref: try ref(7), code: .numberPassed, message: "", highest: 1_792_000_000_000))
            ),
            ("ok of a command", .ok(.init(ref: try ref(8), result: .init(state: .accepted)))),
            ("ok of a tunnel", .ok(.init(ref: try ref(12), result: .init(tunnel: tunnel, isWaking: false)))),
            ("error", .failure(.init(ref: try ref(2), code: .notFound, message: "no such app"))),
            ("error of a limit", .failure(.init(ref: try ref(1), exceeding: exceeded))),
            ("error of a clock", .failure(.init(ref: try ref(8), code: .clockSkew, message: "the clock is wrong", time: now))),
            (
                "error in doubt",
                .failure(.init(ref: try ref(9), code: .idConflict, message: "another command has this id", mayHaveRun: true))
            ),
            (
                "an endpoint with an app",
                .endpointAdded(
                    .init(
                        endpoint: phone,
                        introduction: introduction,
                        registrations: [Blob(identities.encoded("smallest app"))],
                        presence: Presence(.available, .connected, since: now),
                        joining: Joining(time: now, invitedBy: pc, address: "2001:db8::1")
                    )
                )
            ),
            (
                "a presence that changed",
                .endpointUpdated(
                    .init(
                        endpoint: phone,
                        presence: Presence(.unavailable, .suspended, since: now, expectedWithin: 30_000, isWakeable: true)
                    )
                )
            ),
            ("apps that changed", .endpointUpdated(.init(endpoint: phone, introduction: introduction, registrations: []))),
            ("an endpoint that left", .endpointRemoved(.init(endpoint: phone, isRevoked: false))),
            (
                "an endpoint that was revoked",
                .endpointRemoved(.init(endpoint: phone, isRevoked: true, revocation: Blob(identities.encoded("of another one"))))
            ),
            ("all endpoints are told", .enumerationCompleted(.init())),
            ("the state of notifications", .notificationsState(.init(appID: "com.example.player", state: .expiring))),
            (
                "another way to sign in was linked",
                .identityChanged(.init(change: .linked, issuer: "https://issuer.example", endpoint: phone, time: now))
            ),
            ("a command", .command(.init(command: Blob(blob), sender: introduction))),
            ("a command that was received before", .command(.init(command: Blob(blob), sender: introduction, wasReceived: true))),
            ("please cancel", .commandCancel(.init(sender: phone, id: header.id))),
            ("settled", .commandSettled(.init(ref: try ref(11), sender: phone, id: header.id))),
            ("a step", .commandStatus(.init(id: header.id, status: .step(.delivered)))),
            (
                "a wake was sent",
                .commandStatus(.init(id: header.id, status: .waking(CommandWake(channel: "apns", expectedWithin: 4_000))))
            ),
            (
                "an outcome by the target",
                .commandStatus(
                    .init(
                        id: header.id,
                        status: .attestedByTarget(Blob(hex(answered.encoded)), reply: Blob(hex(answered.reply?.encoded ?? "")))
                    )
                )
            ),
            ("an outcome by the relay", .commandStatus(.init(id: header.id, status: .attestedByRelay(.expired)))),
            ("a lost target", .commandStatus(.init(id: header.id, status: .attestedByRelay(.indeterminate(.targetLost))))),
            ("a tunnel's offer", .tunnelOffer(.init(entrance: entrance, opener: introduction))),
            ("a tunnel's entrance", .tunnelReady(.init(entrance: entrance))),
            (
                "no tunnel",
                .tunnelFailed(
                    .init(tunnel: tunnel, code: .timedOut, message: "one endpoint did not join the tunnel in time", retryAfter: 1_000)
                )
            ),
            ("candidates of a tunnel's target", .tunnelCandidates(.init(tunnel: tunnel, candidates: Blob(Array(0..<64))))),
            ("a token that ends", .authExpiring(.init(expires: now))),
            ("a token that was revoked", .authInvalidated(.init(code: .tokenRevoked, message: "the login was revoked"))),
            ("replaced", .replaced(.init())),
            ("restarting", .restarting(.init(after: 1_000, spread: 5_000))),
        ]
    }

    private func refusedFrames() throws -> [ControlVectors.Refused] {
        let id = try keys.endpoint("pc.identity").description
        let watch = #"{"type":"watch","ref":1}"#
        let deep = #"{"type":"watch","ref":1,"x":"# + String(repeating: "[", count: 513) + String(repeating: "]", count: 513) + "}"
        let many = #"{"type":"watch","ref":1,"x":[0"# + String(repeating: ",0", count: 5_000) + "]}"
        let large = #"{"type":"publish","ref":5,"registration":""# + String(repeating: "AAAA", count: 5_462) + #""}"#
        let final = #"{"type":"command.status","id":"01a17776-8e00-7000-8000-000000000001","state":"final","attestedBy":"relay","outcome":"#
        let fromEndpoint: [(String, String)] = [
            ("no JSON", #"{"type":"watch","ref":1"#), ("an array", #"["watch"]"#), ("a byte behind the object", watch + "x"),
            ("a byte order mark", "\u{FEFF}" + watch), ("a zero byte", watch + "\0"), ("no type", #"{"ref":1}"#),
            ("a type that is a number", #"{"type":1,"ref":1}"#), ("513 levels", deep), ("5,000 values", many),
            ("a request without a ref", #"{"type":"watch"}"#), ("ref 0", #"{"type":"watch","ref":0}"#),
            ("ref 2^53", #"{"type":"watch","ref":9007199254740992}"#), ("an unknown request", #"{"type":"sing","ref":1}"#),
            ("an unknown statement", #"{"type":"sing"}"#), ("a request without a field", #"{"type":"unpublish","ref":5}"#),
            ("a field that is null", #"{"type":"unpublish","ref":5,"appID":null}"#),
            ("an id that is too short", #"{"type":"tunnel.open","ref":5,"target":"short","timeout":1}"#),
            ("a duration below zero", #"{"type":"tunnel.open","ref":5,"target":"\#(id)","timeout":-1}"#),
            ("base64 without padding", #"{"type":"command.send","ref":5,"command":"AA"}"#),
            ("base64 with bits set that are not used", #"{"type":"command.send","ref":5,"command":"QR=="}"#),
            ("a UUID of version 1", #"{"type":"command.cancel","ref":5,"id":"6ba7b810-9dad-11d1-80b4-00c04fd430c8"}"#),
            ("a statement without a field", #"{"type":"command.received","id":"01a17776-8e00-7000-8000-000000000001"}"#),
            ("a registration over its limit", large),
        ]
        let fromRelay: [(String, String)] = [
            ("an unknown event", #"{"type":"sing","ref":1}"#), ("an answer without a ref", #"{"type":"ok"}"#),
            ("an outcome that no relay can know", final + #""succeeded"}"#),
            ("a doubt that no relay can have", final + #""indeterminate","reason":"timedOut"}"#),
        ]
        let noText: [UInt8] = Array(watch.utf8.dropLast()) + Array(#","x":""#.utf8) + [0xFF] + Array(#""}"#.utf8)
        return try [refused("text that is no UTF-8", .endpoint, noText)]
            + fromEndpoint.map { try refused($0, .endpoint, Array($1.utf8)) } + fromRelay.map { try refused($0, .relay, Array($1.utf8)) }
    }

    private func refused(_ name: String, _ side: ControlVectors.Side, _ frame: [UInt8]) throws -> ControlVectors.Refused {
        let found = try #require(ControlVectors.judge(frame, from: side), "\(name)")
        return ControlVectors.Refused(
            name: name,
            from: side,
            frame: hex(frame),
            closes: found.closes,
            answers: found.answers,
            isIgnored: found.isIgnored
        )
    }
}
