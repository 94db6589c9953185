// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import ArgumentParser
import DeviceRelay
import Foundation
import NIOCore
import RelayProtocol

/// An endpoint that is only a control channel, without storage and sessions, so that thousands fit in a process. It uses
/// the SDK's state machine and connection, including reconnection.
actor LightEndpoint {
    nonisolated let loop: any EventLoop
    nonisolated var unownedExecutor: UnownedSerialExecutor { loop.executor.asUnownedSerialExecutor() }

    /// Callbacks, all on the event loop.
    struct Delegate: Sendable {
        var connected: @Sendable (isolated LightEndpoint) -> Void = { _ in }
        var disconnected: @Sendable (isolated LightEndpoint, DisconnectReason) -> Void = { _, _ in }
        var heard: @Sendable (isolated LightEndpoint, RelayMessage) -> Void = { _, _ in }
    }

    typealias Answer = @Sendable (isolated LightEndpoint, ControlAnswer) -> Void

    nonisolated let identityKey = P256SigningKey()
    nonisolated let agreementKey: P256AgreementKey
    nonisolated let id: EndpointID
    nonisolated let relay: RelayID
    nonisolated let target: RelayTarget
    private let token: Secret<String>
    private let systemKey: P256SigningKey
    private let name: String
    private let instance = (0..<16).map { _ in UInt8.random(in: 0 ... .max) }
    private(set) var account: String
    private var record: Signed<EndpointRecord>?
    private var registration: Signed<AppRegistration>?
    private var channel: EndpointChannelStateMachine
    private var socket: ControlConnection?
    private(set) var dialled = NIODeadline.now()
    private var address: RelayAddress
    private var timer: (deadline: Int64, task: Scheduled<Void>)?
    private var answers: [RequestRef: Answer] = [:]
    private var delegate = Delegate()

    /// - Parameter account: The relay's name of the account, if it is already known; otherwise the welcome provides it.
    init(_ name: String, at target: RelayTarget, person: Person, account: String? = nil, keys: Keys = Keys(), on loop: any EventLoop) {
        self.name = name
        self.target = target
        address = target.address
        self.loop = loop
        self.account = account ?? "unknown"
        relay = target.id
        token = Secret(person.token)
        systemKey = keys.system
        agreementKey = keys.agreement
        id = EndpointID(identityKey.publicKey)
        channel = EndpointChannelStateMachine(role: .host, relay: target.id)
    }

    /// Keys that are expensive to create. Endpoints of a crowd may share them.
    struct Keys: Sendable {
        var system = P256SigningKey()
        var agreement = P256AgreementKey()
    }

    /// Connects, and reconnects after each loss.
    func start(_ delegate: Delegate) {
        self.delegate = delegate
        perform(channel.start(now: now))
    }

    /// Connects, and waits for the welcome.
    func connect(_ delegate: Delegate = Delegate()) async {
        await withCheckedContinuation { (continuation: CheckedContinuation<Void, Never>) in
            let once = Once(continuation)
            var delegate = delegate
            let connected = delegate.connected
            delegate.connected = { endpoint in
                connected(endpoint)
                once.resume()
            }
            start(delegate)
        }
    }

    /// Disconnects until `start`, as an app does that is suspended.
    func stop() async {
        await withCheckedContinuation { (continuation: CheckedContinuation<Void, Never>) in
            let once = Once(continuation)
            delegate = Delegate(disconnected: { _, _ in once.resume() })
            perform(channel.leave(.suspended, now: now))
        }
    }

    /// Sends a request, and waits for the answer.
    func ask(_ make: @Sendable (RequestRef) -> EndpointMessage) async throws {
        let answer = await withCheckedContinuation { continuation in request(make) { continuation.resume(returning: $1) } }
        switch answer {
        case .ok, .settled: break
        case .failure(let failure): throw ValidationError("a request was refused: \(failure.message)")
        case .connectionLost: throw ValidationError("the connection was lost")
        }
    }

    func currentRecord() throws -> Signed<EndpointRecord> {
        if let record { return record }
        let record = try Signed(
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
        self.record = record
        return record
    }

    /// Signed once: the same version with another signature would be another registration.
    func currentRegistration() throws -> Signed<AppRegistration> {
        if let registration { return registration }
        let fresh = AppRegistration(
            version: 1,
            account: account,
            endpoint: id,
            appID: benchmarkApp,
            displayName: "Player",
            schemes: [.init(name: "https", isDefault: true)]
        )
        let registration = try Signed(fresh, key: identityKey)
        self.registration = registration
        return registration
    }

    func request(_ make: @Sendable (RequestRef) -> EndpointMessage, answer: @escaping Answer) {
        do {
            let (ref, actions) = try channel.request(now: now, make)
            answers[ref] = answer
            perform(actions)
        } catch {
            fail("a request was not taken: \(error)")
        }
    }

    /// Sends a request that must succeed.
    func require(_ make: @Sendable (RequestRef) -> EndpointMessage) {
        request(make) { _, answer in
            switch answer {
            case .failure(let failure): fail("a request was refused: \(failure.message)")
            case .connectionLost: fail("the connection was lost")
            case .ok, .settled: break
            }
        }
    }

    func say(_ message: EndpointMessage) {
        do {
            perform(try channel.say(message))
        } catch {
            fail("a message was not taken: \(error)")
        }
    }

    // MARK: The channel

    private nonisolated var now: Int64 { Int64(NIODeadline.now().uptimeNanoseconds / 1_000_000) }

    private func perform(_ actions: [EndpointChannelStateMachine.Action]) {
        for action in actions { perform(action) }
        guard let deadline = channel.deadline else { return }
        // Cancelling a timer searches the timers of all endpoints on the loop, so a timer that fires too early is left in place;
        // it has no effect.
        if let timer, timer.deadline <= deadline { return }
        timer?.task.cancel()
        let task: Scheduled<Void> = loop.scheduleTask(in: .milliseconds(max(0, deadline - now))) { [weak self] in
            self?.assumeIsolated { endpoint in
                endpoint.timer = nil
                var random = SystemRandomNumberGenerator()
                endpoint.perform(endpoint.channel.handleDeadlines(now: endpoint.now, random: &random))
            }
        }
        timer = (deadline, task)
    }

    private func perform(_ action: EndpointChannelStateMachine.Action) {
        switch action {
        case .requestToken(let attempt):
            loop.execute { self.assumeIsolated { $0.perform($0.channel.tokenReady(attempt: attempt, $0.token, now: $0.now)) } }
        case .dial(let attempt, let url):
            dialled = .now()
            // Of another node of the relay.
            address = url.flatMap { URL(string: $0) }.flatMap { try? RelayAddress($0) } ?? target.address
            ControlChannelClient(group: loop).dial(address, trust: RelayTrust(relay: relay)) { [weak self] event in
                self?.assumeIsolated { $0.take(event, of: attempt) }
            }
        case .makeHello(let attempt, let challenge, let token): makeHello(attempt, challenge, token)
        case .send(_, let frame): socket?.send(frame)
        case .ping: socket?.ping()
        case .close(_, let code, let reason): socket?.close(code: code, reason: reason)
        case .connected: delegate.connected(self)
        case .disconnected(let reason): disconnected(reason)
        case .answer(let ref, let answer): answers.removeValue(forKey: ref)?(self, answer)
        case .event(let message): delegate.heard(self, message)
        case .invalidateToken, .roomAgain: break
        }
    }

    private func take(_ event: ControlConnection.Event, of attempt: Int) {
        var random = SystemRandomNumberGenerator()
        switch event {
        case .dialFailed(let failure): perform(channel.dialFailed(attempt: attempt, failure, now: now, random: &random))
        case .opened(let connection):
            socket = connection
            perform(channel.opened(attempt: attempt, now: now))
        case .text(let frame): perform(channel.received(attempt: attempt, frame, now: now, random: &random))
        case .bytesReceived: channel.receivedBytes(attempt: attempt, now: now)
        case .written(let bytes): perform(channel.written(attempt: attempt, bytes: bytes))
        case .closed(let code): perform(channel.closed(attempt: attempt, code: code, now: now, random: &random))
        }
    }

    private func makeHello(_ attempt: Int, _ challenge: RelayMessage.Challenge, _ token: Secret<String>) {
        do {
            let record = try currentRecord()
            let origin = address.origin
            let statement = HelloStatement(
                relay: challenge.relay,
                origin: origin,
                nonce: challenge.nonce.bytes,
                token: token.exposed,
                record: record.encoded
            )
            let hello = EndpointMessage.Hello(
                version: 1,
                token: token,
                record: Blob(record.encoded),
                origin: origin,
                signature: Blob(try statement.sign(with: identityKey)),
                role: .host,
                instance: Blob(instance),
                features: [ControlFeatures.moved]
            )
            var random = SystemRandomNumberGenerator()
            perform(channel.helloReady(attempt: attempt, hello, now: now, random: &random))
        } catch {
            fail("no hello: \(error)")
        }
    }

    private func disconnected(_ reason: DisconnectReason) {
        socket = nil
        if case .rejected(let rejected) = reason, rejected.code == .wrongAccount, let account = rejected.account {
            self.account = account
            record = nil
            perform(channel.start(now: now))
            var random = SystemRandomNumberGenerator()
            return perform(channel.networkChanged(now: now, random: &random))
        }
        delegate.disconnected(self, reason)
    }
}
