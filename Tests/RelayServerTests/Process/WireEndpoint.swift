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
    /// Each channel as if it were another process's.
    var instance: Blob<BlobKinds.Instance> { .random() }
    let name: String
    let relayd: RelaydProcess
    var token = ""
    private(set) var refreshToken = ""
    private(set) var account = "unknown"
    private(set) var relay: RelayID?
    private var socket: TestWebSocket?
    private var ref = RequestRef.first
    private var events: [RelayMessage] = []
    private var ids = CommandIDGenerator()

    var id: EndpointID { EndpointID(identityKey.publicKey) }

    init(_ name: String, at relayd: RelaydProcess) {
        self.name = name
        self.relayd = relayd
    }

    func record(version: UInt64 = 1, account: String? = nil) throws -> Signed<EndpointRecord> {
        try Signed(
            EndpointRecord(
                version: version,
                account: account ?? self.account,
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

    /// Redeems an invitation for a token.
    /// - Parameter isBound: so that only this endpoint's key can use it.
    /// - Parameter scope: Default: all.
    func join(_ link: String, isBound: Bool = true, scope: String? = nil) async throws {
        let link = try JoinLink(parsing: link, plainHTTP: .allowed)
        relay = link.relay
        let form =
            "grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Apre-authorized_code&client_id=org.example.test"
            + "&pre-authorized_code=\(link.invite.exposed)"
            + (scope.map { "&scope=" + $0.replacingOccurrences(of: " ", with: "+") } ?? "")
        let answer = try await post("/auth/token", form, fields: isBound ? "DPoP: \(try proof(for: "/auth/token"))\r\n" : "")
        try take(answer)
    }

    /// Keeps the tokens of an answer.
    func take(_ answer: String) throws {
        struct Answer: Decodable {
            var accessToken: String
            var refreshToken: String?
            enum CodingKeys: String, CodingKey {
                case accessToken = "access_token"
                case refreshToken = "refresh_token"
            }
        }
        guard let start = answer.firstIndex(of: "{"), let end = answer.lastIndex(of: "}") else { throw Unexpected(message: "no object") }
        let tokens = try JSONDecoder().decode(Answer.self, from: Data(answer[start...end].utf8))
        (token, refreshToken) = (tokens.accessToken, tokens.refreshToken ?? "")
    }

    /// Ends the login, as signing out does.
    func revokeLogin() async throws {
        _ = try await post("/auth/revoke", "client_id=org.example.test&token=\(refreshToken)")
    }

    /// Asks for new tokens, and keeps none.
    /// - Parameter token: Default: the newest refresh token.
    /// - Returns: The status.
    func refreshStatus(_ token: String? = nil) async throws -> String {
        let fields = try proof(for: "/auth/token")
        return try await answer(
            "/auth/token",
            "grant_type=refresh_token&client_id=org.example.test&refresh_token=\(token ?? refreshToken)",
            fields: "DPoP: \(fields)\r\n"
        ).status
    }

    func post(_ path: String, _ form: String, fields: String = "") async throws -> String {
        let (status, text) = try await answer(path, form, fields: fields)
        guard status == "HTTP/1.1 200 OK" else { throw Unexpected(message: text) }
        return text
    }

    /// Asks for an invitation.
    /// - Returns: The status.
    func invite() async throws -> String {
        let proof = try proof(for: "/auth/invitations", accessToken: token)
        return try await answer("/auth/invitations", "", fields: "Authorization: DPoP \(token)\r\nDPoP: \(proof)\r\n").status
    }

    private func answer(_ path: String, _ form: String, fields: String) async throws -> (status: String, text: String) {
        let socket = try await TestSocket(port: relayd.port)
        try await socket.send(
            "POST \(path) HTTP/1.1\r\nHost: \(relayd.host)\r\nConnection: close\r\n\(fields)"
                + "Content-Type: application/x-www-form-urlencoded\r\nContent-Length: \(form.utf8.count)\r\n\r\n\(form)"
        )
        let answer = await socket.textUntilClosed()
        return (String(answer.prefix { $0 != "\r\n" }), answer)
    }

    /// Takes another endpoint's token, but not its key.
    func steal(from other: WireEndpoint) {
        (token, relay, account) = (other.token, other.relay, other.account)
        signedRecord = Result { try self.record() }
    }

    /// Connects and says hello; learns its account the first time.
    func connect(role: EndpointMessage.Hello.Role = .host) async throws {
        socket = try await open(role: role)
        events = []
    }

    /// A welcomed channel beside the endpoint's own one.
    func open(role: EndpointMessage.Hello.Role) async throws -> TestWebSocket {
        for _ in 0..<2 {
            let (socket, answer) = try await greet(role: role)
            switch answer {
            case .welcome: return socket
            case .rejected(let rejected) where rejected.code == .wrongAccount && rejected.account != nil:
                account = rejected.account ?? ""
                signedRecord = Result { try self.record() }
                await socket.socket.close()
            case let message: throw Unexpected(message: "\(message)")
            }
        }
        throw Unexpected(message: "the account was not taken")
    }

    /// Says hello on a new channel.
    /// - Returns: The channel, and the relay's answer.
    func greet(role: EndpointMessage.Hello.Role) async throws -> (TestWebSocket, RelayMessage) {
        let socket = try await TestWebSocket.open(try await TestSocket(port: relayd.port), host: relayd.host)
        try await socket.send(try hello(to: try await socket.challenge(), role: role))
        return (socket, try await socket.message(isWelcome: false))
    }

    func hello(to challenge: RelayMessage.Challenge, role: EndpointMessage.Hello.Role) throws -> EndpointMessage {
        let record = try signedRecord.get()
        let statement = HelloStatement(
            relay: challenge.relay,
            origin: relayd.origin,
            nonce: challenge.nonce.bytes,
            token: token,
            record: record.encoded
        )
        return .hello(
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
    }

    /// The code with which the relay closes the channel.
    func closeCode() async -> UInt16? { await socket?.closeCode() }

    func disconnect() async {
        await socket?.socket.close()
        socket = nil
    }

    /// Sends a request and waits for its answer; events that come meanwhile are kept.
    @discardableResult
    func request(_ make: (RequestRef) throws -> EndpointMessage) async throws -> RelayMessage {
        ref = ref.next
        return try await ask(try make(ref))
    }

    /// Sends a request with a number of its own.
    func ask(_ message: EndpointMessage) async throws -> RelayMessage {
        try await send(message)
        while let socket {
            let answer = try await socket.message()
            if answer.ref == message.ref { return answer }
            events.append(answer)
        }
        throw Unexpected(message: "not connected")
    }

    /// The messages that the relay sent without a request, up to its answer to a request that changes nothing.
    func receivedMessages() async throws -> [RelayMessage] {
        let id = nextCommandID()
        let answer = try await request { .commandCancel(.init(ref: $0, id: id)) }
        guard case .failure(let failure) = answer, failure.code == .notFound else { throw Unexpected(message: "\(answer)") }
        defer { events = [] }
        return events
    }

    func revocation(of other: WireEndpoint, account: String? = nil) throws -> Blob<BlobKinds.Revocation> {
        let revocation = Revocation(of: other.id, by: id, account: account ?? self.account, time: 1)
        return Blob(try Signed(revocation, key: identityKey).encoded)
    }

    func revoke(_ other: WireEndpoint) async throws -> RelayMessage {
        let revocation = try revocation(of: other)
        return try await request { .endpointRevoke(.init(ref: $0, endpoint: other.id, revocation: revocation)) }
    }

    func approve(_ other: WireEndpoint) async throws -> RelayMessage {
        let voucher = try Signed(Voucher(by: id, for: try other.signedRecord.get(), time: 1), key: identityKey)
        return try await request { .endpointApprove(.init(ref: $0, endpoint: other.id, voucher: Blob(voucher.encoded))) }
    }

    func send(_ message: EndpointMessage) async throws { try await socket?.send(message) }

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

    func nextCommandID() -> CommandID {
        var random = SystemRandomNumberGenerator()
        return ids.next(now: UInt64(Date().timeIntervalSince1970 * 1_000), using: &random)
    }

    /// A launch on an app of another endpoint.
    func launch(_ uri: String, on target: WireEndpoint, number: UInt64, account: String? = nil) throws -> SealedCommand {
        let target = try target.record().payload
        return try launch(uri, on: target, appID: "org.example.player", id: nextCommandID(), number: number, account: account)
    }

    func send(_ command: SealedCommand) async throws -> RelayMessage {
        try await request { .commandSend(.init(ref: $0, command: Blob(command.encoded))) }
    }

    func publish(_ appID: String) async throws -> RelayMessage {
        let registration = try registration(appID)
        return try await request { .publish(.init(ref: $0, registration: Blob(registration.encoded))) }
    }

    func registration(_ appID: String, account: String? = nil) throws -> Signed<AppRegistration> {
        let registration = AppRegistration(
            version: 1,
            account: account ?? self.account,
            endpoint: id,
            appID: appID,
            displayName: "Player",
            schemes: [.init(name: "https", isDefault: true)]
        )
        return try Signed(registration, key: identityKey)
    }

    func launch(
        _ uri: String,
        on target: EndpointRecord,
        appID: String,
        id: CommandID,
        number: UInt64,
        account: String? = nil
    ) throws -> SealedCommand {
        guard let relay else { throw Unexpected(message: "not joined") }
        let now = Int64(Date().timeIntervalSince1970 * 1_000)
        return try SealedCommand(
            .launch(.init(uri: try LaunchURI(uri))),
            header: CommandHeader(
                id: id,
                account: account ?? self.account,
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
        try await send(.commandReceived(.init(sender: command.header.sender, id: command.header.id)))
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
        try await send(.commandAcknowledge(.init(id: command.header.id)))
        return try Signed<CommandReceipt>(verifying: receipt.bytes, for: command.descriptor, from: target, reply: nil).payload.outcome
    }
}
