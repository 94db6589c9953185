// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import NIOCore
import NIOWebSocket
import RelayProtocol

@testable import DeviceRelay

/// A relay that follows a script: the account that it assigns, the endpoints that it lists, and its answers.
final class ScriptedRelay: Sendable {
    struct Script: Sendable {
        /// The account that it assigns the endpoint to.
        var account = "account"
        /// The messages of each enumeration, beside the endpoint itself.
        var enumeration: [RelayMessage] = []
        /// How it answers `endpoint.revoke`.
        var revoking = Revoking.ok
        /// Its answers to a message, instead of the usual ones; `nil` for the usual ones.
        var answers: @Sendable (EndpointMessage) -> [RelayMessage]? = { _ in nil }
        /// When the endpoint pings, and gives up a silent connection.
        var intervals = RelayMessage.Welcome.Intervals()
    }

    enum Revoking: Sendable {
        case ok
        case refused
        /// It closes the connection.
        case hangsUp
    }

    let id = RelayID(P256SigningKey().publicKey)
    let script = Shared(Script())
    /// The messages of the endpoint, in order.
    let received: AsyncStream<EndpointMessage>
    private let server: TestRelayServer
    private let channel = Shared<(any Channel)?>(nil)

    var url: String { "http://127.0.0.1:\(server.port)" }

    init() async throws {
        let (id, script, channel) = (id, script, channel)
        let (received, continuation) = AsyncStream.makeStream(of: EndpointMessage.self)
        self.received = received
        server = try await TestRelayServer(
            .plain,
            .webSocket(
                onOpen: { open in
                    channel.withLock { $0 = open }
                    let nonce = Blob<BlobKinds.Nonce>([UInt8](repeating: 7, count: 32))
                    let time = Milliseconds(clamping: EndpointCredentials.systemTime())
                    Self.send(.challenge(.init(nonce: nonce, relay: id, time: time, versions: [1], features: [])), on: open)
                },
                onFrame: { frame, channel in
                    switch frame.opcode {
                    case .text:
                        guard case .message(let message)? = try? EndpointMessage.decode(from: frame.unmaskedData, limits: Limits()) else {
                            return
                        }
                        continuation.yield(message)
                        Self.answer(message, by: script.value, on: channel)
                    case .ping: channel.writeAndFlush(WebSocketFrame(fin: true, opcode: .pong, data: frame.unmaskedData), promise: nil)
                    case .connectionClose: channel.close(promise: nil)
                    default: break
                    }
                }
            )
        )
    }

    func stop() async { await server.stop() }

    /// The number of connections that there were.
    var connectionCount: Int { server.connectionCount }

    /// Closes the connection of the endpoint that connected last.
    func hangUp() { channel.value?.close(promise: nil) }

    /// Leaves the next `leaving` for the test to answer. Later ones get their usual answer.
    func skipNextLeaving() {
        let isOver = Shared(false)
        script.withLock { script in
            script.answers = { message in
                guard case .leaving = message else { return nil }
                return isOver.withLock { isOver in
                    defer { isOver = true }
                    return isOver ? nil : []
                }
            }
        }
    }

    /// Waits for the next message of a kind, and drops those before it.
    func next<Found: Sendable>(_ find: (EndpointMessage) -> Found?) async throws -> Found {
        for await message in received { if let found = find(message) { return found } }
        throw CancellationError()
    }

    /// Sends a message to the endpoint that connected last.
    func send(_ message: RelayMessage) {
        if let channel = channel.value { Self.send(message, on: channel) }
    }

    private static func send(_ message: RelayMessage, on channel: any Channel) {
        guard let frame = try? message.encode() else { return }
        channel.writeAndFlush(WebSocketFrame(fin: true, opcode: .text, data: frame), promise: nil)
    }

    private static func answer(_ message: EndpointMessage, by script: Script, on channel: any Channel) {
        if let answers = script.answers(message) {
            for answer in answers { send(answer, on: channel) }
            return
        }
        switch message {
        case .hello(let hello):
            guard let record = try? Signed<EndpointRecord>(verifying: hello.record.bytes) else { return }
            guard record.payload.account == script.account else {
                let rejected = RelayMessage.Rejected(code: .wrongAccount, message: "", retry: true, account: script.account)
                return send(.rejected(rejected), on: channel)
            }
            send(.welcome(.init(limits: Limits(), intervals: script.intervals, urls: [], features: [])), on: channel)
        case .watch(let watch):
            send(.ok(.init(ref: watch.ref)), on: channel)
            for message in script.enumeration { send(message, on: channel) }
            send(.enumerationCompleted(.init()), on: channel)
        case .endpointRevoke(let revoke):
            switch script.revoking {
            case .ok: send(.ok(.init(ref: revoke.ref)), on: channel)
            case .refused: send(.failure(.init(ref: revoke.ref, code: .notFound, message: "no")), on: channel)
            case .hangsUp: channel.close(promise: nil)
            }
        default:
            if let ref = message.ref { send(.ok(.init(ref: ref)), on: channel) }
        }
    }
}

/// The SDK at a scripted relay, on a storage that outlives it.
final class ScriptedDevice {
    let relay: ScriptedRelay
    let account = ConnectedDevicesAccount(id: "me")
    private let directory: TemporaryDirectory
    private let clock: PlatformClock
    private(set) var platform: ConnectedDevicesPlatform

    init(clock: PlatformClock = .system) async throws {
        relay = try await ScriptedRelay()
        directory = try TemporaryDirectory()
        self.clock = clock
        platform = try Self.platform(relay, directory, clock)
        try await platform.start()
    }

    private static func platform(
        _ relay: ScriptedRelay,
        _ directory: TemporaryDirectory,
        _ clock: PlatformClock
    ) throws -> ConnectedDevicesPlatform {
        var settings = ConnectedDevicesPlatformSettings(
            relay: URL(string: relay.url) ?? URL(filePath: "/"),
            relayID: relay.id,
            storageDirectory: URL(filePath: "\(directory.path)/storage"),
            device: DeviceDescription(name: "Own", kind: .desktop, platform: .linux)
        )
        settings.systemKey = SystemKeyFile(path: "\(directory.path)/system.key")
        settings.clock = clock
        return ConnectedDevicesPlatform(settings: settings, accessTokens: StaticAccessTokenProvider(AccessToken("token")))
    }

    func endpoint() throws -> LocalEndpoint {
        guard let endpoint = platform.endpoint(of: account.id) else { throw CancellationError() }
        return endpoint
    }

    /// Waits until the enumeration on the present connection is complete.
    func enumerated() async throws { _ = try await endpoint().link.first { $0.isEnumerated } }

    /// A new process on the same storage.
    func restart() async throws {
        await platform.shutdown()
        platform = try Self.platform(relay, directory, clock)
        try await platform.start()
        try await enumerated()
    }

    func listed() -> [EndpointID: DeviceDirectory.Trust] {
        Dictionary(platform.endpoints(for: account).map { ($0.id, $0.trust) }) { first, _ in first }
    }

    /// Reads the journal after all earlier writes. The endpoint does not wait for its writes about peers.
    func stored<Value: Sendable>(_ body: @escaping @Sendable (JournalTransaction) throws -> Value) async throws -> Value {
        try await endpoint().journal.write(body)
    }

    func end() async {
        await platform.shutdown()
        await relay.stop()
    }
}
