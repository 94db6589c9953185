// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Crypto
import CryptoExtras
import Foundation
import NIOHTTP1
import RelayProtocol
import Synchronization

@testable import RelayPush

/// Google's token endpoint and message service.
final class ScriptedFCM: Sendable {
    static let project = "films-1234"
    static let email = "relay@films-1234.iam.gserviceaccount.com"
    /// RSA keys take long to make: one for all tests.
    static let key = Result { try _RSA.Signing.PrivateKey(keySize: .bits2048) }

    struct State {
        var accepted: [[String: Any]] = []
        var assertions = 0
        /// When the access tokens that were given out expire.
        var tokens: [String: Int64] = [:]
        /// Answers by registration token, each used once.
        var scripts: [String: [ScriptedServer.Answer]] = [:]
        /// Answers of the token endpoint, each used once.
        var tokenScript: [ScriptedServer.Answer] = []
        var largestConcurrency = 0
    }

    private let state = Mutex(State())
    let http: ScriptedServer
    private let time: TestTime

    init(_ time: TestTime) async throws {
        self.time = time
        http = try await ScriptedServer()
        http.serve { [weak self] in self?.answer($0) ?? .hangUp }
    }

    func read<Value: Sendable>(_ body: @Sendable (borrowing State) -> Value) -> Value { state.withLock { body($0) } }
    func script(_ token: String, _ answers: ScriptedServer.Answer...) { state.withLock { $0.scripts[token] = answers } }
    func scriptTokens(_ answers: ScriptedServer.Answer...) { state.withLock { $0.tokenScript = answers } }
    func revokeTokens() { state.withLock { $0.tokens = [:] } }

    /// A rejection in Google's form.
    static func problem(_ status: Int, _ code: String, name: String? = nil, headers: HTTPHeaders = [:]) -> ScriptedServer.Answer {
        let detail = #"{"@type":"type.googleapis.com/google.firebase.fcm.v1.FcmError","errorCode":"\#(code)"}"#
        return .reply(
            HTTPResponseStatus(statusCode: status),
            headers,
            #"{"error":{"code":\#(status),"message":"…","status":"\#(name ?? code)","details":[\#(detail)]}}"#
        )
    }

    private func answer(_ request: ScriptedServer.Request) -> ScriptedServer.Answer {
        state.withLock { state in
            guard request.method == .POST else { return .reply(.methodNotAllowed) }
            switch request.path {
            case "/token": return token(request, &state)
            case "/v1/projects/\(Self.project)/messages:send": return message(request, &state)
            default: return .reply(.notFound, [:], "<html>")
            }
        }
    }

    private func token(_ request: ScriptedServer.Request, _ state: inout State) -> ScriptedServer.Answer {
        state.assertions += 1
        if !state.tokenScript.isEmpty { return state.tokenScript.removeFirst() }
        let rejection = ScriptedServer.Answer.reply(.badRequest, [:], #"{"error":"invalid_grant"}"#)
        guard request.headers.first(name: "content-type") == "application/x-www-form-urlencoded", let form = formFields(request.body),
            form["grant_type"] == "urn:ietf:params:oauth:grant-type:jwt-bearer", let assertion = form["assertion"].flatMap(ReadToken.init),
            assertion.header["alg"] as? String == "RS256", let key = try? Self.key.get().publicKey,
            key.isValidSignature(.init(rawRepresentation: assertion.signature), for: assertion.signed, padding: .insecurePKCS1v1_5),
            assertion.claims["iss"] as? String == Self.email, assertion.claims["aud"] as? String == "https://oauth2.googleapis.com/token",
            assertion.claims["scope"] as? String == "https://www.googleapis.com/auth/firebase.messaging",
            let issued = assertion.number("iat"), let expiry = assertion.number("exp"), expiry - issued <= 3_600,
            (-60...60).contains(time.now.count / 1_000 - issued)
        else { return rejection }
        let access = "access-\(state.assertions)"
        state.tokens[access] = time.now.count + 3_600_000
        return .reply(.ok, ["Content-Type": "application/json"], #"{"access_token":"\#(access)","expires_in":3600,"token_type":"Bearer"}"#)
    }

    private func message(_ request: ScriptedServer.Request, _ state: inout State) -> ScriptedServer.Answer {
        state.largestConcurrency = max(state.largestConcurrency, request.concurrency)
        guard let bearer = request.headers.first(name: "authorization"), bearer.hasPrefix("Bearer "),
            let end = state.tokens[String(bearer.dropFirst("Bearer ".count))], end > time.now.count
        else { return Self.problem(401, "UNAUTHENTICATED") }
        let rejection = Self.problem(400, "INVALID_ARGUMENT")
        guard request.headers.first(name: "content-type") == "application/json",
            let body = try? JSONSerialization.jsonObject(with: Data(request.body)) as? [String: Any], Set(body.keys) == ["message"],
            let message = body["message"] as? [String: Any], Set(message.keys) == ["token", "data", "android"],
            let token = message["token"] as? String, let data = message["data"] as? [String: String],
            data.reduce(0, { $0 + $1.key.utf8.count + $1.value.utf8.count }) <= 4_096, let android = message["android"] as? [String: Any],
            let priority = android["priority"] as? String, ["high", "normal"].contains(priority),
            let lifetime = (android["ttl"] as? String).flatMap({ $0.hasSuffix("s") ? Int64($0.dropLast()) : nil }),
            (0...2_419_200).contains(lifetime), android["collapse_key"] is String
        else { return rejection }
        if let scripted = state.scripts[token]?.first {
            state.scripts[token]?.removeFirst()
            return scripted
        }
        state.accepted.append(message)
        return .reply(.ok, [:], #"{"name":"projects/\#(Self.project)/messages/0:1"}"#)
    }

    func stop() async { await http.stop() }
}
