// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Crypto
import Foundation
import NIOHTTP1
import RelayProtocol
import Synchronization

@testable import RelayPush

/// Apple's rules. One stream per connection until a first push was accepted by it.
final class ScriptedAPNs: Sendable {
    static let team = "TEAM123456"
    static let keyID = "KEYID12345"
    static let topic = "example.films"
    /// A device's token in Apple's form.
    static func token(_ number: Int) -> String { String(repeating: "0", count: 61) + String(1_000 + number).dropFirst() }

    struct State {
        var accepted: [ScriptedServer.Request] = []
        var tokens: [String] = []
        /// Answers by device token, each used once.
        var scripts: [String: [ScriptedServer.Answer]] = [:]
        var connectionsInUse: Set<Int> = []
        /// Breaches of the rules that a reply does not show.
        var violations: [String] = []
    }

    let key = P256.Signing.PrivateKey()
    private let state = Mutex(State())
    let http: ScriptedServer
    private let time: TestTime

    init(_ time: TestTime) async throws {
        self.time = time
        http = try await ScriptedServer(protocols: ["h2"], streams: 1)
        http.serve { [weak self] in self?.answer($0) ?? .hangUp }
    }

    var now: State { state.withLock { $0 } }

    func script(_ number: Int, _ answers: ScriptedServer.Answer...) { state.withLock { $0.scripts[Self.token(number)] = answers } }

    /// A rejection in Apple's form.
    static func problem(_ status: Int, _ reason: String, timestamp: Int64? = nil, headers: HTTPHeaders = [:]) -> ScriptedServer.Answer {
        let time = timestamp.map { #","timestamp":\#($0)"# } ?? ""
        return .reply(HTTPResponseStatus(statusCode: status), headers, #"{"reason":"\#(reason)"\#(time)}"#)
    }

    private func answer(_ request: ScriptedServer.Request) -> ScriptedServer.Answer {
        state.withLock { state in
            if !state.connectionsInUse.contains(request.connection), request.concurrency > 1 {
                state.violations.append("more than one stream before a first success")
            }
            if let rejection = rejection(of: request, &state) { return rejection }
            let device = String(request.path.dropFirst("/3/device/".count))
            if let scripted = state.scripts[device]?.first {
                state.scripts[device]?.removeFirst()
                return scripted
            }
            state.accepted.append(request)
            guard state.connectionsInUse.insert(request.connection).inserted else {
                return .reply(.ok, ["apns-id": "EC1BF194-B3B2-424A-89A9-5A918A6E6B4E"])
            }
            return .replyAndAllowStreams(.ok, ["apns-id": "EC1BF194-B3B2-424A-89A9-5A918A6E6B4E"])
        }
    }

    private func rejection(of request: ScriptedServer.Request, _ state: inout State) -> ScriptedServer.Answer? {
        let headers = request.headers
        guard request.method == .POST else { return Self.problem(405, "MethodNotAllowed") }
        guard request.path.hasPrefix("/3/device/") else { return Self.problem(404, "BadPath") }
        let device = request.path.dropFirst("/3/device/".count)
        guard device.utf8.count == 64, device.allSatisfy(\.isHexDigit) else { return Self.problem(400, "BadDeviceToken") }
        guard headers.filter({ $0.name.contains(where: \.isUppercase) }).isEmpty else { return Self.problem(400, "BadMessage") }
        guard let authorization = headers.first(name: "authorization"), authorization.hasPrefix("bearer ") else {
            return Self.problem(403, "MissingProviderToken")
        }
        let text = String(authorization.dropFirst("bearer ".count))
        guard let token = ReadToken(text), token.header["kid"] as? String == Self.keyID, token.isSigned(by: key.publicKey),
            token.claims["iss"] as? String == Self.team, Set(token.claims.keys) == ["iss", "iat"], let issued = token.number("iat")
        else { return Self.problem(403, "InvalidProviderToken") }
        let age = time.now.count / 1_000 - issued
        guard (-300...3_600).contains(age) else { return Self.problem(403, "ExpiredProviderToken") }
        if !state.tokens.contains(text) {
            if let last = state.tokens.last.flatMap({ ReadToken($0)?.number("iat") }), issued - last < 20 * 60 {
                return Self.problem(429, "TooManyProviderTokenUpdates")
            }
            state.tokens.append(text)
        }
        guard let topic = headers.first(name: "apns-topic") else { return Self.problem(400, "MissingTopic") }
        guard topic == Self.topic else { return Self.problem(400, "TopicDisallowed") }
        guard !request.body.isEmpty else { return Self.problem(400, "PayloadEmpty") }
        guard request.body.count <= 4_096 else { return Self.problem(413, "PayloadTooLarge") }
        guard let payload = try? JSONSerialization.jsonObject(with: Data(request.body)) as? [String: Any],
            let aps = payload["aps"] as? [String: Any]
        else { return Self.problem(400, "BadMessage") }
        guard let expiration = headers.first(name: "apns-expiration").flatMap({ Int64($0) }),
            expiration == 0 || expiration <= time.now.count / 1_000 + 30 * 86_400
        else { return Self.problem(400, "BadExpirationDate") }
        guard (headers.first(name: "apns-collapse-id") ?? "").utf8.count <= 64 else { return Self.problem(400, "BadCollapseId") }
        switch (headers.first(name: "apns-push-type"), headers.first(name: "apns-priority")) {
        case ("alert", "10"): guard aps["alert"] != nil else { return Self.problem(400, "InvalidPushType") }
        case ("background", "5"):
            guard aps["content-available"] as? Int == 1, aps.count == 1 else { return Self.problem(400, "InvalidPushType") }
        case ("alert", _), ("background", _): return Self.problem(400, "BadPriority")
        default: return Self.problem(400, "InvalidPushType")
        }
        return nil
    }

    func stop() async { await http.stop() }
}
