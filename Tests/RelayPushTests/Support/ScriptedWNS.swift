// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import NIOHTTP1
import RelayProtocol
import Synchronization

@testable import RelayPush

#if canImport(FoundationXML)
import FoundationXML
#endif

/// Windows' token endpoints and notification service. It offers HTTP/2 and refuses it, as well as bodies without a length.
final class ScriptedWNS: Sendable {
    static let client = "ms-app://s-1-15-2-1234"
    static let secret = "se/cr+et &=1"
    static let tenant = "3f0c-tenant"

    struct State {
        var accepted: [ScriptedServer.Request] = []
        var tokenRequests: [String] = []
        var tokens: Set<String> = []
        /// Answers by channel, each used once.
        var scripts: [String: [ScriptedServer.Answer]] = [:]
        var violations: [String] = []
    }

    private let state = Mutex(State())
    let http: ScriptedServer

    init() async throws {
        http = try await ScriptedServer()
        http.serve { [weak self] in self?.answer($0) ?? .hangUp }
    }

    var now: State { state.withLock { $0 } }

    func script(_ channel: String, _ answers: ScriptedServer.Answer...) { state.withLock { $0.scripts[channel] = answers } }
    func revokeTokens() { state.withLock { $0.tokens = [] } }

    /// A channel's address.
    func channel(_ name: String) -> PushRegistration { .test(wns: "\(http.origin)/w/?token=\(name)") }

    private func answer(_ request: ScriptedServer.Request) -> ScriptedServer.Answer {
        state.withLock { state in
            if request.isHTTP2 { state.violations.append("HTTP/2") }
            if request.headers.contains(name: "transfer-encoding") { state.violations.append("chunked") }
            if request.concurrency > 1 { state.violations.append("pipelined") }
            guard request.headers.first(name: "content-length") == "\(request.body.count)" else { return .reply(.lengthRequired) }
            guard request.method == .POST else { return .reply(.methodNotAllowed) }
            switch request.path {
            case "/accesstoken.srf": return token(request, "notify.windows.com", &state)
            case "/\(Self.tenant)/oauth2/v2.0/token": return token(request, "https://wns.windows.com/.default", &state)
            default: return notification(request, &state)
            }
        }
    }

    private func token(_ request: ScriptedServer.Request, _ scope: String, _ state: inout State) -> ScriptedServer.Answer {
        state.tokenRequests.append(request.path)
        guard request.headers.first(name: "content-type") == "application/x-www-form-urlencoded", let form = formFields(request.body),
            form == ["grant_type": "client_credentials", "client_id": Self.client, "client_secret": Self.secret, "scope": scope]
        else { return .reply(.badRequest, [:], #"{"error":"invalid_client"}"#) }
        let token = "EgAcAQMAAAAALYAAY/c+Huwi3Fv4Ck10UrKNmtxRO6Njk2MgA=\(state.tokenRequests.count)"
        state.tokens.insert(token)
        return .reply(.ok, [:], #"{"access_token":"\#(token)","token_type":"bearer","expires_in":86400}"#)
    }

    private func notification(_ request: ScriptedServer.Request, _ state: inout State) -> ScriptedServer.Answer {
        let headers = request.headers
        guard request.path.hasPrefix("/w/?token=") else { return .reply(.notFound) }
        let channel = String(request.path.dropFirst("/w/?token=".count))
        guard let bearer = headers.first(name: "authorization"), bearer.hasPrefix("Bearer "),
            state.tokens.contains(String(bearer.dropFirst("Bearer ".count)))
        else { return .reply(.unauthorized) }
        guard request.body.count <= 5_000 else { return .reply(.payloadTooLarge) }
        switch (headers.first(name: "x-wns-type"), headers.first(name: "content-type")) {
        case ("wns/raw", "application/octet-stream"): break
        case ("wns/toast", "text/xml"):
            guard XMLParser(data: Data(request.body)).parse() else { return .reply(.badRequest) }
        default: return .reply(.badRequest)
        }
        guard headers.first(name: "x-wns-cache-policy").map({ ["cache", "no-cache"].contains($0) }) ?? true,
            headers.first(name: "x-wns-ttl").map({ (Int64($0) ?? 0) >= 1 }) ?? true
        else { return .reply(.badRequest) }
        if let scripted = state.scripts[channel]?.first {
            state.scripts[channel]?.removeFirst()
            return scripted
        }
        state.accepted.append(request)
        return .reply(.ok, ["X-WNS-Status": "received", "X-WNS-DeviceConnectionStatus": "connected", "X-WNS-Msg-ID": "19D1C46D"])
    }

    func stop() async { await http.stop() }
}
