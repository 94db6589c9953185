// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Logging
import NIOCore
import RelayProtocol

#if canImport(FoundationEssentials)
import FoundationEssentials
#else
import Foundation
#endif

// The control channel: what its state machine says is done here, and what happens is told to it.
extension LocalEndpoint {
    /// Carries actions out in order. What comes of one of them meanwhile waits for its turn.
    func perform(_ more: [ControlChannelStateMachine.Action]) {
        actions += more
        guard !isPerforming else { return }
        isPerforming = true
        while !actions.isEmpty { perform(actions.removeFirst()) }
        isPerforming = false
        schedule()
        publishState()
    }

    private func perform(_ action: ControlChannelStateMachine.Action) {
        switch action {
        case .requestToken(let attempt): requestToken(attempt)
        case .invalidateToken: invalidateToken()
        case .dial(let attempt, let url): dial(attempt, url)
        case .makeHello(let attempt, let challenge, let token): makeHello(attempt, challenge, token)
        case .send(let attempt, let frame): if attempt == channel.attempt { socket?.send(frame) }
        case .ping(let attempt): if attempt == channel.attempt { socket?.ping() }
        case .close(let attempt, let code, let reason): close(attempt, code, reason)
        case .connected(let welcome): connected(welcome)
        case .disconnected(let reason): disconnected(reason)
        case .answer(let ref, let answer): answers.removeValue(forKey: ref)?(self, answer)
        case .event(let message): take(message)
        case .roomAgain:
            let waiting = waitingForRoom
            waitingForRoom = []
            for send in waiting { send(self) }
        }
    }

    /// Calls the machine when it wants to be called. Whatever is heard puts that off; so a timer that is too early stays, and sets the next.
    private func schedule() {
        let deadline = isShutDown ? nil : channel.deadline
        if let timer, let deadline, timer.due <= deadline { return }
        timer?.scheduled.cancel()
        timer = nil
        guard let deadline else { return }
        let scheduled = after(deadline - now) { endpoint in
            endpoint.timer = nil
            var random = SystemRandomNumberGenerator()
            endpoint.perform(endpoint.channel.timePassed(now: endpoint.now, random: &random))
        }
        timer = (deadline, scheduled)
    }

    /// The device has another network.
    func networkChanged() {
        var random = SystemRandomNumberGenerator()
        perform(channel.networkChanged(now: now, random: &random))
    }

    // MARK: The token

    var tokenRequest: AccessTokenRequest {
        var request = AccessTokenRequest(accountID: account.id, relay: settings.relay)
        request.endpoint = credentials
        return request
    }

    var trust: RelayTrust { RelayTrust(relay: relay, authorities: settings.authorities) }

    var credentials: EndpointCredentials {
        EndpointCredentials(
            identityKey: identityKey,
            tokens: storage.tokens,
            relay: relay,
            address: address,
            trust: trust,
            now: settings.clock.wall
        )
    }

    private func requestToken(_ attempt: Int) {
        let (provider, request) = (accessTokens, tokenRequest)
        spawn { endpoint in
            do throws(AccessTokenError) {
                let token = try await provider.accessToken(for: request)
                endpoint.tokenReady(attempt, token)
            } catch {
                endpoint.tokenFailed(attempt, error)
            }
        }
    }

    private func tokenReady(_ attempt: Int, _ token: AccessToken) {
        perform(channel.tokenReady(attempt: attempt, Secret(token.value), now: now))
    }

    private func tokenFailed(_ attempt: Int, _ error: AccessTokenError) {
        logger.info("no access token", metadata: ["reason": "\(error.code)"])
        tokenError = error
        var random = SystemRandomNumberGenerator()
        perform(channel.tokenFailed(attempt: attempt, isTransient: error.isTransient, now: now, random: &random))
        tokenError = nil
    }

    private func invalidateToken() {
        let (provider, request) = (accessTokens, tokenRequest)
        spawn { _ in await provider.accessTokenInvalidated(request) }
    }

    // MARK: The connection

    private func dial(_ attempt: Int, _ url: String?) {
        var target = address
        if let url {
            guard let other = URL(string: url).flatMap({ try? RelayAddress($0, allowsPlaintext: settings.allowsPlainHTTP) }),
                // Without TLS nothing proves that it is the relay, and this device's own loopback is not the relay's.
                other.isEncrypted || !address.isEncrypted
            else {
                return dialFailed(attempt, .protocolError("the relay named an address that cannot be dialled"))
            }
            target = other
        }
        dialled = target
        dial = ControlChannelClient(group: loop).dial(target, trust: trust) { [weak self] event in
            // On the loop, since the client was given no other.
            self?.assumeIsolated { $0.take(event, of: attempt) }
        }
    }

    private func dialFailed(_ attempt: Int, _ failure: DialFailure) {
        var random = SystemRandomNumberGenerator()
        perform(channel.dialFailed(attempt: attempt, failure, now: now, random: &random))
    }

    private func take(_ event: ControlConnection.Event, of attempt: Int) {
        var random = SystemRandomNumberGenerator()
        switch event {
        case .dialFailed(let failure): dialFailed(attempt, failure)
        case .opened(let connection):
            openSockets.insert(attempt)
            guard attempt == channel.attempt, !isShutDown else { return connection.close(code: 1000, reason: "") }
            socket = connection
            perform(channel.opened(attempt: attempt, now: now))
        case .text(let frame): perform(channel.received(attempt: attempt, frame, now: now, random: &random))
        case .heard: channel.heard(attempt: attempt, now: now)
        case .written(let bytes): perform(channel.written(attempt: attempt, bytes: bytes))
        case .closed(let code):
            openSockets.remove(attempt)
            if attempt == channel.attempt { socket = nil }
            perform(channel.closed(attempt: attempt, code: code, now: now, random: &random))
            if openSockets.isEmpty { resumeWhenClosed() }
        }
    }

    private func close(_ attempt: Int, _ code: UInt16, _ reason: String) {
        guard attempt == channel.attempt else { return }
        dial?.cancel()
        dial = nil
        socket?.close(code: code, reason: reason)
        socket = nil
    }

    /// Waits until no connection is open. Each closes within seconds, whatever the relay does.
    func closed() async {
        guard !openSockets.isEmpty else { return }
        await withCheckedContinuation { whenClosed.append($0) }
    }

    private func resumeWhenClosed() {
        let waiting = whenClosed
        whenClosed = []
        for continuation in waiting { continuation.resume() }
    }

    // MARK: Hello

    private func makeHello(_ attempt: Int, _ challenge: RelayMessage.Challenge, _ token: Secret<String>) {
        setRelayTime(challenge.time)
        do {
            let record = try currentRecord()
            let statement = HelloStatement(
                relay: challenge.relay,
                origin: dialled.origin,
                nonce: challenge.nonce.bytes,
                token: token.exposed,
                record: record.encoded
            )
            let hello = EndpointMessage.Hello(
                version: 1,
                token: token,
                record: Blob(record.encoded),
                origin: dialled.origin,
                signature: Blob(try statement.sign(with: identityKey)),
                role: channel.role,
                instance: Blob(instance),
                features: []
            )
            var random = SystemRandomNumberGenerator()
            perform(channel.helloReady(attempt: attempt, hello, now: now, random: &random))
        } catch {
            storageFailed(error)
        }
    }

    /// The relay has told its time.
    func setRelayTime(_ time: Milliseconds) {
        let offset = time.count.subtractingReportingOverflow(wallTime).partialValue
        relayOffset = offset
        journal.write {
            try $0.setRelayOffset(offset)
        } completion: { _ in
        }
    }

    private func connected(_ welcome: RelayMessage.Welcome) {
        logger.info("connected to the relay")
        problem = nil
        outdatedRecords = 0
        // The relay has said which account it is; without another sign-in it may not say another one.
        mayChangeAccount = false
        remember(channel.urls)
        peers.allow(endpoints: channel.limits[.endpointsPerAccount])
        connectedAsSender()
        connectedAsTarget()
        watch()
        publishAll()
    }

    private func remember(_ urls: [String]) {
        guard urls != relayURLs else { return }
        relayURLs = urls
        // A failure costs nothing that the next connection does not bring again.
        journal.write {
            try $0.setRelayURLs(urls)
        } completion: { _ in
        }
    }

    private func disconnected(_ reason: DisconnectReason) {
        problem = ConnectionProblem(reason, tokenError)
        logger.info("not connected to the relay", metadata: ["reason": "\(problem?.code.description ?? "")"])
        dial = nil
        waitingForRoom = []
        loseTunnels()
        // They are offered again on the next connection.
        heldCommands = []
        sent.disconnected()
        disconnectedAsTarget()
        peers.lostRelay(at: Milliseconds(clamping: relayTime))
        if let problem, reason != .suspended { peers.report(RemoteSystemWatcherError(problem)) }
        publishDirectory()
        link.update { $0.isEnumerated = false }
        if case .rejected(let rejected) = reason { recover(from: rejected) }
    }

    /// Some refusals only ask for another record.
    private func recover(from rejected: RelayMessage.Rejected) {
        switch rejected.code {
        case .wrongAccount:
            // Which account it is, the token alone says; so the relay tells it the first time. A token of another person later is a mistake.
            guard relayAccount == nil || mayChangeAccount, let account = rejected.account, ProgramText.isValid(account) else { return }
            mayChangeAccount = false
            setRelayAccount(account)
            problem = nil
            perform(channel.start(now: now))
            retryNow()
        case .recordOutdated where outdatedRecords < 2:
            outdatedRecords += 1
            do {
                // Another process may have signed a newer one; or the storage was restored from a copy, and the count with it.
                if outdatedRecords > 1 { try storage.raiseVersion(to: UInt64(clamping: max(0, wallTime))) }
                outdatedVersion = record?.payload.version ?? 0
                _ = try currentRecord()
                problem = nil
                perform(channel.start(now: now))
            } catch {
                storageFailed(error)
            }
        default: break
        }
    }

    /// What was in the way is mended.
    private func retryNow() {
        var random = SystemRandomNumberGenerator()
        perform(channel.networkChanged(now: now, random: &random))
    }

    // MARK: What others see of it

    func publishState() {
        func waiting(_ until: Int64) -> ConnectionState.Phase {
            .waiting(until: Date(timeIntervalSince1970: Double(wallTime + until - now) / 1_000))
        }
        let phase: ConnectionState.Phase =
            switch channel.status {
            case .stopped: storageTrouble.until.map { waiting($0) } ?? .stopped
            case .connecting: .connecting
            case .connected: .connected
            case .waiting(let until): waiting(until)
            }
        let state = ConnectionState(phase: phase, problem: phase == .connected ? nil : problem)
        if state != link.value.state { link.update { $0.state = state } }
    }

    // MARK: Sending

    /// What happens on an answer.
    typealias Answer = @Sendable (isolated LocalEndpoint, ControlAnswer) -> Void

    /// Sends a request, as soon as there is room. Without a connection it is dropped: what matters is said again on the next one.
    func request(_ make: @escaping @Sendable (RequestRef) -> EndpointMessage, answer: @escaping Answer) {
        do throws(ControlSendError) {
            let (ref, actions) = try channel.request(now: now, make)
            answers[ref] = answer
            perform(actions)
        } catch {
            switch error {
            case .busy: waitingForRoom.append { $0.request(make, answer: answer) }
            case .notConnected: answer(self, .connectionLost)
            case .tooLarge, .malformed:
                logger.error("a request cannot be sent", metadata: ["reason": "\(error)"])
                answer(self, .connectionLost)
            }
        }
    }

    func say(_ message: EndpointMessage) {
        do throws(ControlSendError) {
            perform(try channel.say(message))
        } catch {
            if error == .busy { waitingForRoom.append { $0.say(message) } }
        }
    }

    private func take(_ message: RelayMessage) {
        switch message {
        case .endpointAdded(let message):
            readInvitations(for: message.endpoint)
            change { $0.added(message) }
        case .endpointUpdated(let message):
            if message.introduction != nil { readInvitations(for: message.endpoint) }
            change { $0.updated(message) }
        case .endpointRemoved(let message): change { $0.removed(message) }
        case .enumerationCompleted: enumerated()
        case .command(let message): offered(message)
        case .commandCancel(let message): cancelled(message)
        case .commandStatus(let message): sentWork.append(.status(message))
        case .tunnelOffer(let message): offered(message)
        case .tunnelReady(let message): ready(message)
        case .tunnelFailed(let message): failed(message)
        case .notificationsState: break
        // The channel's own.
        case .challenge, .welcome, .rejected, .ok, .failure, .commandSettled, .authExpiring, .authInvalidated, .replaced, .restarting: break
        }
        workOnSent()
    }
}
