// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Crypto
import Foundation
import NIOHTTP1
import RelayProtocol
import Synchronization

@testable import RelayPush

/// A push service for browsers and UnifiedPush, and a subscriber.
final class ScriptedWebPush: Sendable {
    struct State {
        var accepted: [ScriptedServer.Request] = []
        /// What was read of them.
        var contents: [String] = []
        /// Answers by path, each used once.
        var scripts: [String: [ScriptedServer.Answer]] = [:]
    }

    /// The relay's.
    let key = P256.Signing.PrivateKey()
    /// The subscriber's.
    let subscriber = P256.KeyAgreement.PrivateKey()
    let secret = (0..<16).map { UInt8($0) }
    private let state = Mutex(State())
    let http: ScriptedServer
    private let time: TestTime

    init(_ time: TestTime) async throws {
        self.time = time
        http = try await ScriptedServer()
        http.serve { [weak self] in self?.answer($0) ?? .hangUp }
    }

    var now: State { state.withLock { $0 } }

    func script(_ path: String, _ answers: ScriptedServer.Answer...) { state.withLock { $0.scripts[path] = answers } }

    func registration(_ path: String, host: String = "localhost") -> PushRegistration {
        .webPush(
            endpoint: Secret("https://\(host):\(http.port)\(path)"),
            publicKey: Blob(Array(subscriber.publicKey.x963Representation)),
            secret: Secret(Blob(secret))
        )
    }

    func channel(allowsPrivateAddresses: Bool = true, timeout: Duration = .seconds(60)) throws -> any PushChannel {
        var channels = try PushChannels.test(http, time, timeout: timeout)
        channels.webPush.allowsPrivateAddresses = allowsPrivateAddresses
        return channels.channel(for: .webPush(.init(key: Secret(key.pemRepresentation), contact: "mailto:admin@example.com")))
    }

    /// Runs a test with a service and a channel, and ends both.
    static func run(
        _ time: TestTime,
        allowsPrivateAddresses: Bool = true,
        timeout: Duration = .seconds(60),
        _ body: (ScriptedWebPush, any PushChannel) async throws -> Void
    ) async throws {
        let push = try await ScriptedWebPush(time)
        let channel = try push.channel(allowsPrivateAddresses: allowsPrivateAddresses, timeout: timeout)
        let result: Result<Void, any Error>
        do { result = .success(try await body(push, channel)) } catch { result = .failure(error) }
        await channel.shutdown()
        await push.http.stop()
        try result.get()
    }

    private func answer(_ request: ScriptedServer.Request) -> ScriptedServer.Answer {
        state.withLock { state in
            let headers = request.headers
            guard request.method == .POST else { return .reply(.methodNotAllowed) }
            guard headers.first(name: "ttl").flatMap({ Int64($0) }).map({ $0 >= 0 }) == true else { return .reply(.badRequest) }
            guard ["very-low", "low", "normal", "high"].contains(headers.first(name: "urgency") ?? "normal"),
                headers.first(name: "content-encoding") == "aes128gcm"
            else { return .reply(.badRequest) }
            if let topic = headers.first(name: "topic") {
                let allowed = Set("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_".utf8)
                guard (1...32).contains(topic.utf8.count), topic.utf8.allSatisfy(allowed.contains) else { return .reply(.badRequest) }
            }
            guard request.body.count <= 4_096 else { return .reply(.payloadTooLarge) }
            guard let authorization = headers.first(name: "authorization"), isSigned(authorization, headers.first(name: "host") ?? "")
            else {
                return .reply(.unauthorized)
            }
            if let scripted = state.scripts[request.path]?.first {
                state.scripts[request.path]?.removeFirst()
                return scripted
            }
            // A real push service cannot read the message. This one does it for the subscriber.
            guard let content = EncryptedContent.open(request.body, by: subscriber, secret: secret) else { return .reply(.badRequest) }
            state.contents.append(String(decoding: content, as: UTF8.self))
            state.accepted.append(request)
            return .reply(.created, ["Location": "https://localhost/message/1"])
        }
    }

    private func isSigned(_ authorization: String, _ host: String) -> Bool {
        guard authorization.hasPrefix("vapid t=") else { return false }
        let parts = authorization.dropFirst("vapid t=".count).components(separatedBy: ",k=")
        guard parts.count == 2, let token = ReadToken(parts[0]), let point = Base64.url.decode(parts[1]),
            point == Array(key.publicKey.x963Representation), let key = try? P256.Signing.PublicKey(x963Representation: point),
            token.isSigned(by: key), token.claims["aud"] as? String == "https://\(host)", let expiry = token.number("exp"),
            (0...86_400).contains(expiry - time.now.count / 1_000), token.claims["sub"] as? String == "mailto:admin@example.com"
        else { return false }
        return true
    }

    func stop() async { await http.stop() }
}
