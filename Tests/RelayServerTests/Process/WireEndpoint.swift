// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import NIOCore
import RelayProtocol
import RelayTesting

/// An endpoint that speaks the wire by hand: joins by an invitation, says hello, publishes, sends and handles commands.
final class WireEndpoint {
    struct Unexpected: Error { var message: String }

    let identityKey = P256SigningKey()
    let systemKey = P256SigningKey()
    let agreementKey = P256AgreementKey()
    let instance = Blob<BlobKinds.Instance>.random()
    let name: String
    private let relayd: RelaydProcess
    private var token = ""
    private var refreshToken = ""
    private(set) var account = "unknown"
    private(set) var relay: RelayID?
    private var socket: TestWebSocket?
    private var ref = RequestRef.first
    private var events: [RelayMessage] = []

    var id: EndpointID { EndpointID(identityKey.publicKey) }

    init(_ name: String, at relayd: RelaydProcess) {
        self.name = name
        self.relayd = relayd
    }

    func record() throws -> Signed<EndpointRecord> {
        try Signed(
            EndpointRecord(
                version: 1,
                account: account,
                identityKey: identityKey.publicKey,
                systemKey: systemKey,
                agreementKey: agreementKey.publicKey,
                name: name,
                kind: "desktop",
                platform: "linux"
            ),
            key: identityKey
        )
    }

    private lazy var signedRecord = Result { try record() }

    /// Redeems an invitation for a token that only this endpoint's key can use.
    func join(_ link: String) async throws {
        let link = try JoinLink(parsing: link, plainHTTP: .allowed)
        relay = link.relay
        let now = Milliseconds(clamping: Int64(Date().timeIntervalSince1970 * 1_000))
        var random = SystemRandomNumberGenerator()
        let jti = (0..<16).map { _ in UInt8.random(in: 0...255, using: &random) }
        let proof = try DPoPProof.make(method: "POST", url: "\(link.origin)/auth/token", jti: jti, now: now, with: identityKey)
        let form =
            "grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Apre-authorized_code&client_id=org.example.test"
            + "&pre-authorized_code=\(link.invite.exposed)"
        let answer = try await post("/auth/token", form, fields: "DPoP: \(proof)\r\n")
        struct Answer: Decodable {
            var accessToken: String
            var refreshToken: String
            enum CodingKeys: String, CodingKey {
                case accessToken = "access_token"
                case refreshToken = "refresh_token"
            }
        }
        guard let start = answer.firstIndex(of: "{"), let end = answer.lastIndex(of: "}") else { throw Unexpected(message: "no object") }
        let tokens = try JSONDecoder().decode(Answer.self, from: Data(answer[start...end].utf8))
        (token, refreshToken) = (tokens.accessToken, tokens.refreshToken)
    }

    /// Ends the login, as somebody does who signs out.
    func revokeLogin() async throws {
        _ = try await post("/auth/revoke", "client_id=org.example.test&token=\(refreshToken)")
    }

    private func post(_ path: String, _ form: String, fields: String = "") async throws -> String {
        let socket = try await TestSocket(port: relayd.port)
        try await socket.send(
            "POST \(path) HTTP/1.1\r\nHost: \(relayd.host)\r\nConnection: close\r\n\(fields)"
                + "Content-Type: application/x-www-form-urlencoded\r\nContent-Length: \(form.utf8.count)\r\n\r\n\(form)"
        )
        let answer = await socket.textUntilClosed()
        guard answer.hasPrefix("HTTP/1.1 200") else { throw Unexpected(message: String(answer.prefix { $0 != "\r\n" })) }
        return answer
    }

    /// Takes another endpoint's token, but not its key.
    func steal(from other: WireEndpoint) {
        (token, relay, account) = (other.token, other.relay, other.account)
        signedRecord = Result { try self.record() }
    }

    /// Connects and says hello; learns its account the first time.
    func connect(role: EndpointMessage.Hello.Role = .host) async throws {
        for _ in 0..<2 {
            let socket = try await TestWebSocket.open(try await TestSocket(port: relayd.port), host: relayd.host)
            let challenge = try await socket.challenge()
            let record = try signedRecord.get()
            let statement = HelloStatement(
                relay: challenge.relay,
                origin: relayd.origin,
                nonce: challenge.nonce.bytes,
                token: token,
                record: record.encoded
            )
            try await socket.send(
                .hello(
                    EndpointMessage.Hello(
                        version: 1,
                        token: Secret(token),
                        record: Blob(record.encoded),
                        origin: relayd.origin,
                        signature: Blob(try statement.sign(with: identityKey)),
                        role: role,
                        instance: instance,
                        features: []
                    )
                )
            )
            switch try await socket.message(isWelcome: false) {
            case .welcome:
                self.socket = socket
                events = []
                return
            case .rejected(let rejected) where rejected.code == .wrongAccount && rejected.account != nil:
                account = rejected.account ?? ""
                signedRecord = Result { try self.record() }
                await socket.socket.close()
            case let message: throw Unexpected(message: "\(message)")
            }
        }
        throw Unexpected(message: "the account was not taken")
    }

    func disconnect() async {
        await socket?.socket.close()
        socket = nil
    }

    /// Sends a request and waits for its answer; events that come meanwhile are kept.
    @discardableResult
    func request(_ make: (RequestRef) throws -> EndpointMessage) async throws -> RelayMessage {
        ref = ref.next
        let mine = ref
        try await say(try make(mine))
        while let socket {
            let message = try await socket.message()
            if message.ref == mine { return message }
            events.append(message)
        }
        throw Unexpected(message: "not connected")
    }

    func say(_ message: EndpointMessage) async throws { try await socket?.send(message) }

    /// The next event of a kind; others before it are passed over.
    func event<Event>(_ pick: (RelayMessage) -> Event?) async throws -> Event {
        while !events.isEmpty {
            if let event = pick(events.removeFirst()) { return event }
        }
        while let socket {
            if let event = pick(try await socket.message()) { return event }
        }
        throw Unexpected(message: "not connected")
    }

    // MARK: Commands

    func publish(_ appID: String) async throws -> RelayMessage {
        let registration = AppRegistration(
            version: 1,
            account: account,
            endpoint: id,
            appID: appID,
            displayName: "Player",
            schemes: [.init(name: "https", isDefault: true)]
        )
        let signed = try Signed(registration, key: identityKey)
        return try await request { .publish(.init(ref: $0, registration: Blob(signed.encoded))) }
    }

    func launch(_ uri: String, on target: EndpointRecord, appID: String, id: CommandID, number: UInt64) throws -> SealedCommand {
        guard let relay else { throw Unexpected(message: "not joined") }
        let now = Int64(Date().timeIntervalSince1970 * 1_000)
        return try SealedCommand(
            .launch(.init(uri: try LaunchURI(uri))),
            header: CommandHeader(
                id: id,
                account: account,
                relay: relay,
                sender: self.id,
                target: target.endpointID,
                senderApp: nil,
                targetApp: appID,
                keyID: target.agreementKey.keyID,
                kind: .launch,
                number: number,
                created: now,
                expires: now + 300_000
            ),
            target: target.agreementKey,
            key: identityKey
        )
    }

    /// Takes the next offered command, checks and opens it, and says that it succeeded.
    func handleNext() async throws -> CommandBody {
        guard let relay else { throw Unexpected(message: "not joined") }
        let offer = try await event { if case .command(let command) = $0 { command } else { nil } }
        guard let introduction = offer.sender else { throw Unexpected(message: "no sender") }
        let command = try SealedCommand(decoding: offer.command.bytes)
        let sender = try Signed<EndpointRecord>(verifying: introduction.record.bytes)
        let now = Int64(Date().timeIntervalSince1970 * 1_000)
        try command.verify(for: .init(account: account, relay: relay, endpoint: id), from: sender.payload, now: now)
        let body = try command.open(with: [agreementKey])
        try await say(.commandReceived(.init(sender: command.header.sender, id: command.header.id)))
        let receipt = try Signed(CommandReceipt(for: command.descriptor, outcome: .succeeded, time: now), key: identityKey)
        let answer = try await request {
            .commandResult(.init(ref: $0, sender: command.header.sender, id: command.header.id, receipt: Blob(receipt.encoded)))
        }
        guard case .commandSettled = answer else { throw Unexpected(message: "\(answer)") }
        return body
    }

    /// The outcome of a command of this endpoint, checked against the target's receipt; acknowledged.
    func outcome(of command: SealedCommand, target: EndpointRecord) async throws -> CommandOutcome {
        let receipt: Blob<BlobKinds.Receipt> = try await event {
            guard case .commandStatus(let status) = $0, status.id == command.header.id,
                case .attestedByTarget(let receipt, reply: _) = status.status
            else { return nil }
            return receipt
        }
        try await say(.commandAcknowledge(.init(id: command.header.id)))
        return try Signed<CommandReceipt>(verifying: receipt.bytes, for: command, from: target, reply: nil).payload.outcome
    }
}
