// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Crypto
import CryptoExtras
import Foundation
import NIOCore
import NIOHTTP1
import NIOPosix
import RelayProtocol
import RelayTesting
import Synchronization

/// An issuer of its own on loopback: publishes its metadata and keys, signs tokens, and answers about opaque ones.
final class IssuerServer: Sendable {
    /// A key that signs tokens, by its algorithm.
    struct Signer: Sendable {
        var algorithm: String
        var jwk: JSONWebKey
        var sign: @Sendable ([UInt8]) throws -> [UInt8]
    }

    struct Request: Sendable {
        var path: String
        var authorization: String?
        var form: String
    }

    private struct State {
        var signers: [Signer] = []
        /// What is said of opaque tokens; the others are not active.
        var active: [String: String] = [:]
        /// The name in the metadata; its own, if `nil`.
        var otherName: String?
        var requests: [Request] = []
        /// How long an answer about a token takes.
        var delay = TimeAmount.zero
        var listener: (any Channel)?
    }

    let port: Int
    private let state = Mutex(State())

    var url: String { "http://127.0.0.1:\(port)/tenant" }
    var requests: [Request] { state.withLock { $0.requests } }

    init(signers: [Signer] = []) async throws {
        state.withLock { $0.signers = signers }
        port = try FreePort.take()
        try await start()
    }

    deinit { state.withLock { $0.listener }?.close(promise: nil) }

    func start() async throws {
        let listener = try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .serverChannelOption(.socketOption(.so_reuseaddr), value: 1)
            .childChannelInitializer { [weak self] channel in
                channel.eventLoop.makeCompletedFuture {
                    try channel.pipeline.syncOperations.configureHTTPServerPipeline()
                    try channel.pipeline.syncOperations.addHandler(
                        RequestHandler { [weak self] request in
                            let delay = request.path.hasSuffix("/introspect") ? self?.state.withLock(\.delay) : nil
                            return (self?.answer(request) ?? (503, "{}"), delay ?? .zero)
                        }
                    )
                }
            }
            .bind(host: "127.0.0.1", port: port).get()
        state.withLock { $0.listener = listener }
    }

    /// Answers nothing any more, until it starts again.
    func stop() async throws {
        let listener = state.withLock { state in
            defer { state.listener = nil }
            return state.listener
        }
        try await listener?.close()
    }

    func setSigners(_ signers: [Signer]) { state.withLock { $0.signers = signers } }
    func setName(_ name: String) { state.withLock { $0.otherName = name } }
    func setClaims(_ claims: String?, of token: String) { state.withLock { $0.active[token] = claims } }
    func setDelay(_ delay: TimeAmount) { state.withLock { $0.delay = delay } }
    func count(_ path: String) -> Int { requests.count { $0.path == path } }

    private func answer(_ request: Request) -> (Int, String) {
        let url = url
        return state.withLock { state in
            state.requests.append(request)
            switch request.path {
            case "/.well-known/oauth-authorization-server/tenant": return (404, "{}")
            case "/tenant/.well-known/openid-configuration":
                let name = state.otherName ?? url
                return (200, #"{"issuer":"\#(name)","jwks_uri":"\#(url)/keys","introspection_endpoint":"\#(url)/introspect"}"#)
            case "/tenant/keys":
                let keys = try? JSONEncoder().encode(JSONWebKeySet(keys: state.signers.map(\.jwk)))
                return (200, String(decoding: keys ?? Data(), as: UTF8.self))
            case "/tenant/introspect":
                // The secret holds a colon and a space, which are form-encoded before they are joined.
                guard request.authorization == "Basic " + Data("relay:a%3Asecret%20word".utf8).base64EncodedString() else {
                    return (401, "{}")
                }
                let token = request.form.split(separator: "&").first { $0.hasPrefix("token=") }?.dropFirst(6) ?? ""
                let claims = FormCoding.decode(token.utf8).flatMap { state.active[$0] }
                return (200, claims.map { #"{"active":true,\#($0)}"# } ?? #"{"active":false}"#)
            default: return (404, "{}")
            }
        }
    }

    /// A token with valid claims, except for the given ones.
    /// - Parameters:
    ///   - changes: JSON texts by name; an empty one leaves the claim out.
    ///   - name: Whose token it says it is; its own, if `nil`.
    func token(_ changes: [String: String] = [:], by signer: Signer? = nil, header: String? = nil, name: String? = nil) throws -> String {
        guard let signer = signer ?? state.withLock({ $0.signers.first }) else { throw WireEndpoint.Unexpected(message: "no key") }
        let header = header ?? #"{"alg":"\#(signer.algorithm)","typ":"at+jwt","kid":"\#(signer.jwk.kid ?? "")"}"#
        let claims = #"{"iss":"\#(name ?? url)",\#(Self.claims(changes))}"#
        let signed = Base64.url.encode(header.utf8) + "." + Base64.url.encode(claims.utf8)
        return try signed + "." + Base64.url.encode(signer.sign(Array(signed.utf8)))
    }

    /// The members of a JSON object.
    static func claims(_ changes: [String: String] = [:]) -> String {
        let now = Int(Date().timeIntervalSince1970)
        var claims = [
            "sub": #""anna""#, "aud": #""the-relay""#, "exp": "\(now + 900)", "iat": "\(now)", "client_id": #""org.example.app""#,
            "scope": "\"\(Self.allScopes)\"",
        ]
        claims.merge(changes) { $1 }
        return claims.filter { !$0.value.isEmpty }.map { "\"\($0.key)\":\($0.value)" }.joined(separator: ",")
    }

    static let allScopes = "relay.device.read relay.device.register relay.command relay.push"
}

extension IssuerServer.Signer {
    static func es256(_ id: String) -> Self {
        let key = P256SigningKey()
        var jwk = JSONWebKey(key.publicKey)
        jwk.kid = id
        return Self(algorithm: "ES256", jwk: jwk) { try key.signature(for: $0) }
    }

    /// One for each algorithm that relays accept.
    static func all() throws -> [Self] {
        let (p384, ed) = (P384.Signing.PrivateKey(), Curve25519.Signing.PrivateKey())
        let rsa = try _RSA.Signing.PrivateKey(keySize: .bits2048)
        let point = Array(p384.publicKey.rawRepresentation)
        let numbers = try rsa.publicKey.getKeyPrimitives()
        func rsaKey(_ id: String) -> JSONWebKey {
            JSONWebKey(kty: "RSA", kid: id, n: Base64.url.encode(numbers.modulus), e: Base64.url.encode(numbers.publicExponent))
        }
        let (x, y) = (Base64.url.encode(point.prefix(48)), Base64.url.encode(point.suffix(48)))
        return [
            .es256("1"),
            Self(algorithm: "ES384", jwk: JSONWebKey(kty: "EC", kid: "2", crv: "P-384", x: x, y: y)) {
                Array(try p384.signature(for: $0).rawRepresentation)
            },
            Self(
                algorithm: "EdDSA",
                jwk: JSONWebKey(kty: "OKP", kid: "3", crv: "Ed25519", x: Base64.url.encode(ed.publicKey.rawRepresentation))
            ) {
                Array(try ed.signature(for: $0))
            },
            Self(algorithm: "PS256", jwk: rsaKey("4")) { Array(try rsa.signature(for: $0, padding: .PSS).rawRepresentation) },
            Self(algorithm: "RS256", jwk: rsaKey("5")) {
                Array(try rsa.signature(for: $0, padding: .insecurePKCS1v1_5).rawRepresentation)
            },
        ]
    }
}

private final class RequestHandler: ChannelInboundHandler {
    typealias InboundIn = HTTPServerRequestPart
    typealias OutboundOut = HTTPServerResponsePart

    private let answer: (IssuerServer.Request) -> (answer: (Int, String), delay: TimeAmount)
    private var request = IssuerServer.Request(path: "", authorization: nil, form: "")

    init(_ answer: @escaping (IssuerServer.Request) -> (answer: (Int, String), delay: TimeAmount)) { self.answer = answer }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        switch unwrapInboundIn(data) {
        case .head(let head): request = .init(path: head.uri, authorization: head.headers.first(name: "authorization"), form: "")
        case .body(let part): request.form += String(buffer: part)
        case .end:
            let ((status, body), delay) = answer(request)
            let headers: HTTPHeaders = ["content-type": "application/json", "content-length": "\(body.utf8.count)", "connection": "close"]
            let head = HTTPResponseHead(version: .http1_1, status: .init(statusCode: status), headers: headers)
            let channel = context.channel
            context.eventLoop.scheduleTask(in: delay) {
                channel.write(HTTPServerResponsePart.head(head), promise: nil)
                channel.write(HTTPServerResponsePart.body(.byteBuffer(ByteBuffer(string: body))), promise: nil)
                channel.writeAndFlush(HTTPServerResponsePart.end(nil), promise: nil)
            }
        }
    }
}
