// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol
import Testing

@testable import RelayServer

/// Wakes of endpoints that sleep, as their senders and watchers see them.
@Suite struct WakingTests {
    let wakes = RecordingWakes()
    let sender = TestDevice(subject: "me")
    let target = TestDevice(subject: "me")
    let channel = PushRegistration.apns(token: Secret("a0b1"), environment: .production)

    private func world() async throws -> CoreWorld { try await CoreWorld(wakes: wakes) }

    private func register(_ session: Session, _ channel: PushRegistration? = nil, names: Bool = false) async throws -> [RelayMessage] {
        let request = EndpointMessage.NotificationsRegister(
            ref: testRef(3),
            appID: "player",
            displayName: "Player",
            channel: channel ?? self.channel,
            pushNames: names
        )
        return try await session.send(.notificationsRegister(request))
    }

    private func states(_ messages: [RelayMessage]) -> [RelayMessage.NotificationsState.State] {
        messages.compactMap { if case .notificationsState(let message) = $0 { message.state } else { nil } }
    }

    /// A target that has registered and sleeps.
    private func asleep(_ world: CoreWorld, _ channel: PushRegistration? = nil, names: Bool = false) async throws {
        let session = try await world.open(target)
        #expect(try await register(session, channel, names: names).first?.isOK == true)
        try await session.send(.leaving(.init(ref: testRef(), reason: .suspended)))
        try await session.disconnect()
    }

    private func launch(_ world: CoreWorld, _ number: UInt64 = 1, life: Int64 = 300_000) async throws -> SealedCommand {
        try await world.command(from: sender, to: target, number: number, life: life, kind: .launch)
    }

    private func report(_ outcome: WakeOutcome, _ world: CoreWorld) async throws {
        wakes.report(outcome)
        try await world.settle()
    }

    private func presence(_ messages: [RelayMessage]) -> Presence? { messages.compactMap(\.presence).last }

    // MARK: Registration

    @Test func registrationIsStoredAndStatedOnEachConnection() async throws {
        let world = try await world()
        let first = try await world.open(target)
        #expect(states(try await first.receive()).isEmpty)
        let answer = try await register(first)
        #expect(answer.first?.isOK == true && states(answer) == [.registered])
        #expect(states(try await world.open(target).receive()) == [.registered])
        try await world.restart()
        #expect(states(try await world.open(target).receive()) == [.registered])
        // A client receives nothing, so it registers nothing.
        let client = try await world.open(target, role: .client)
        #expect(try await register(client).first?.failure?.code == .notAuthorized)
    }

    @Test func typeWithoutAChannelIsRejected() async throws {
        let world = try await CoreWorld(wakes: RecordingWakes([.fcm]))
        let session = try await world.open(target)
        for channel in [channel, .wns(channelURI: Secret("https://w")), .unknown(type: "gcm")] {
            let failure = try #require(try await register(session, channel).first?.failure)
            #expect(failure.code == .unsupported && failure.message.contains("polling"))
        }
        #expect(try await register(session, .fcm(token: Secret("f"))).first?.isOK == true)
        #expect(try await register(session, .polling(interval: nil)).first?.isOK == true)
        // A relay without any channel takes polling.
        let other = try await CoreWorld()
        let alone = try await other.open(target)
        #expect(try await register(alone).first?.failure?.code == .unsupported)
        #expect(try await register(alone, .polling(interval: 60_000)).first?.isOK == true)
    }

    @Test func hostLearnsThatItsRegistrationExpires() async throws {
        let world = try await world()
        let session = try await world.open(target)
        _ = try await register(session, .wns(channelURI: Secret("https://w")))
        try await world.pass(27 * 86_400_000 - 1)
        #expect(states(try await session.receive()).isEmpty)
        try await world.pass(1)
        #expect(states(try await session.receive()) == [.expiring])
        try await world.pass(3 * 86_400_000)
        #expect(states(try await session.receive()) == [.expired])
        try await world.pass(1_000)
        #expect(states(try await session.receive()).isEmpty)
        #expect(states(try await register(session, .wns(channelURI: Secret("https://x")))) == [.registered])
    }

    // MARK: Wakes

    @Test func launchWakesItsTargetAndSaysSoOnceTheProviderHasAccepted() async throws {
        let world = try await world()
        let near = try await world.open(sender)
        try await asleep(world)
        try await near.send(.watch(.init(ref: testRef())))
        let command = try await launch(world)
        #expect(try await near.send(command).map(\.okState) == [.accepted])
        let request = try #require(wakes.take().first)
        #expect(request.payload == WakePayload(relay: world.relay, endpoint: target.id, urgency: .urgent))
        #expect(request.channel == channel && request.appID == "player" && request.expires.count == command.header.expires)
        #expect(try await near.receive().isEmpty)

        try await report(.accepted, world)
        let told = try await near.receive()
        #expect(told.compactMap(\.status) == [.waking(CommandWake(channel: "apns"))])
        #expect(presence(told)?.state == .discoveringAvailability && presence(told)?.reason == .waking)

        // It answers. The next wake is expected to take as long.
        world.clock.pass(4_000)
        let far = try await world.open(target)
        #expect(try await far.receive().compactMap(\.offered) == [command.encoded])
        #expect(presence(try await near.receive())?.state == .available)
        try await far.send(.leaving(.init(ref: testRef(), reason: .suspended)))
        let left = try #require(presence(try await near.receive()))
        #expect(left.state == .unavailable && left.reason == .suspended && left.isWakeable)
        #expect(left.expectedWithin == .seconds(4))
    }

    @Test func statusWakingEndsWhenTheTargetDoesNotAnswer() async throws {
        let world = try await world()
        let near = try await world.open(sender)
        try await asleep(world)
        try await near.send(.watch(.init(ref: testRef())))
        try await near.send(try await launch(world))
        try await report(.accepted, world)
        #expect(presence(try await near.receive())?.reason == .waking)
        try await world.pass(59_999)
        #expect(presence(try await near.receive()) == nil)
        try await world.pass(1)
        let after = try #require(presence(try await near.receive()))
        #expect(after.state == .unavailable && after.reason == .suspended && after.isWakeable)
    }

    @Test(arguments: [false, true]) func alertNamesTheSenderIfTheEndpointAllowsIt(names: Bool) async throws {
        let world = try await world()
        let near = try await world.open(sender)
        try await asleep(world, names: names)
        let name = sender.name
        try await near.send(try await launch(world, 1))
        #expect(wakes.take().map(\.alert) == [names ? .launch(device: name) : .general])
        // Several things wait.
        try await near.send(try await launch(world, 2))
        try await world.pass(60_000)
        #expect(wakes.take().map(\.alert) == [.general])
    }

    @Test func alertNamesTheAppThatLaunches() async throws {
        let world = try await world()
        let near = try await world.open(sender)
        let registration = try sender.registration(near.account, appID: "remote", name: "Remote control")
        try await near.send(.publish(.init(ref: testRef(), registration: Blob(registration.encoded))))
        try await asleep(world, names: true)
        try await near.send(try await world.command(from: sender, to: target, kind: .launch, senderApp: "remote"))
        #expect(wakes.take().map(\.alert) == [.launchFromApp(app: "Remote control", device: sender.name)])
    }

    @Test(arguments: [WakeOutcome.failed(reason: "no"), .gone(since: 1), .suppressed(until: 1_900_000_000_000)])
    func wakeThatWasNotSentIsNotReported(_ outcome: WakeOutcome) async throws {
        let world = try await world()
        let near = try await world.open(sender)
        try await asleep(world)
        try await near.send(try await launch(world))
        try await report(outcome, world)
        #expect(try await near.receive().compactMap(\.status).isEmpty)
    }

    @Test func furtherCommandsDoNotWakeAgainWithinAMinute() async throws {
        let world = try await world()
        let near = try await world.open(sender)
        try await asleep(world)
        try await near.send(try await launch(world, 1))
        #expect(wakes.take().count == 1)
        // The provider has not answered, so nothing is known of a wake.
        #expect(try await near.send(try await launch(world, 2)).compactMap(\.status).isEmpty)
        try await report(.accepted, world)
        #expect(try await near.receive().compactMap(\.status).count == 2)
        let third = try await near.send(try await launch(world, 3))
        #expect(third.compactMap(\.status) == [.waking(CommandWake(channel: "apns"))])
        let message = try await world.command(from: sender, to: target, number: 4)
        #expect(try await near.send(message).compactMap(\.status).count == 1)
        #expect(wakes.take().isEmpty)
        world.clock.pass(60_000)
        try await near.send(try await launch(world, 5))
        #expect(wakes.take().count == 1)
    }

    @Test func wakesAreRepeatedUntilTheCommandExpires() async throws {
        let world = try await world()
        let near = try await world.open(sender)
        try await asleep(world)
        try await near.send(try await launch(world, life: 3_600_000))
        var times: [Int64] = []
        for second in Int64(0)..<4_000 {
            if !wakes.take().isEmpty { times.append(second) }
            if second % 10 == 0 { try await world.pass(10_000) }
        }
        // At 10 s steps.
        #expect(times.map { $0 / 10 * 10 } == [0, 50, 290, 1_790])
    }

    @Test func restartedRelayContinuesTheSchedule() async throws {
        let world = try await world()
        let near = try await world.open(sender)
        try await asleep(world)
        try await near.send(try await launch(world))
        #expect(wakes.take().count == 1)
        try await world.restart()
        try await world.pass(59_999)
        #expect(wakes.take().isEmpty)
        try await world.pass(1)
        #expect(wakes.take().count == 1)
    }

    @Test func endpointThatWasConnectedWhenTheRelayEndedIsWoken() async throws {
        let world = try await world()
        let (near, far) = (try await world.open(sender), try await world.open(target))
        _ = try await register(far)
        let command = try await launch(world)
        try await near.send(command)
        #expect(try await far.receive().compactMap(\.offered) == [command.encoded])
        try await world.restart()
        try await world.pass(74_999)
        #expect(wakes.take().isEmpty)
        try await world.pass(1)
        #expect(wakes.take().map(\.payload.endpoint) == [target.id])
        // Once is enough: from here on the schedule counts.
        try await world.pass(1_000)
        #expect(wakes.take().isEmpty)
        try await world.pass(60_000)
        #expect(wakes.take().count == 1)
    }

    /// The relay ends between the decision and the provider's answer. The next wake of the schedule would come 20 minutes later.
    @Test(arguments: [false, true]) func wakeThatNoProviderHadAcceptedIsSentAgain(isAccepted: Bool) async throws {
        let world = try await world()
        let near = try await world.open(sender)
        try await asleep(world)
        try await near.send(try await world.command(from: sender, to: target, number: 1, life: 86_400_000))
        #expect(wakes.take().map(\.payload.urgency) == [.background])
        if isAccepted { try await report(.accepted, world) }
        try await world.pass(1_000)
        try await world.restart()
        try await world.pass(75_000)
        #expect(wakes.take().map(\.payload.endpoint) == (isAccepted ? [] : [target.id]))
        // It is sent only once.
        try await world.pass(75_000)
        #expect(wakes.take().isEmpty)
    }

    @Test func messagesWakeInTheBackgroundAtMostEveryTwentyMinutes() async throws {
        let world = try await world()
        let near = try await world.open(sender)
        try await asleep(world)
        try await near.send(.watch(.init(ref: testRef())))
        try await near.send(try await world.command(from: sender, to: target, number: 1, life: 86_400_000))
        #expect(wakes.take().map(\.payload.urgency) == [.background])
        try await report(.accepted, world)
        let told = try await near.receive()
        // Nobody waits, so the device is not shown as about to come.
        #expect(told.compactMap(\.status).count == 1 && presence(told) == nil)
        for number in 2..<20 as Range<UInt64> {
            try await world.pass(60_000)
            try await near.send(try await world.command(from: sender, to: target, number: number, life: 86_400_000))
        }
        #expect(wakes.take().isEmpty)
        try await world.pass(119_999)
        #expect(wakes.take().isEmpty)
        try await world.pass(1)
        #expect(wakes.take().count == 1)
        // A launch does not wait for that.
        try await near.send(try await launch(world, 20))
        #expect(wakes.take().map(\.payload.urgency) == [.urgent])
    }

    @Test func lostTargetIsWokenUnlessItComesBackSoon() async throws {
        let world = try await world()
        let (near, far) = (try await world.open(sender), try await world.open(target))
        _ = try await register(far)
        let command = try await launch(world)
        try await near.send(command)
        try await far.disconnect(isSilent: true)
        try await world.pass(9_999)
        #expect(wakes.take().isEmpty)
        let back = try await world.open(target)
        try await back.send(.commandReceived(.init(sender: sender.id, id: command.header.id)))
        try await world.pass(60_000)
        #expect(wakes.take().isEmpty)
        try await back.disconnect(isSilent: true)
        try await world.pass(10_000)
        #expect(wakes.take().count == 1)
    }

    @Test func silentTargetIsWokenAfterTenSeconds() async throws {
        let world = try await world()
        let (near, far) = (try await world.open(sender), try await world.open(target))
        _ = try await register(far)
        let command = try await launch(world)
        try await near.send(command)
        try await world.pass(9_999)
        #expect(wakes.take().isEmpty)
        try await world.pass(1)
        #expect(wakes.take().count == 1)
        try await report(.accepted, world)
        #expect(try await near.receive().compactMap(\.status).count == 1)
        try await world.pass(20_000)
        #expect(wakes.take().isEmpty)

        // One that answers is not woken.
        let other = TestDevice(subject: "me")
        let live = try await world.open(other)
        _ = try await register(live)
        let second = try await world.command(from: sender, to: other, kind: .launch)
        try await near.send(second)
        try await live.send(.commandReceived(.init(sender: sender.id, id: second.header.id)))
        try await world.pass(30_000)
        #expect(wakes.take().allSatisfy { $0.payload.endpoint != other.id })
    }

    /// A suspended app continues with the connection that it had. It needs a wake when it sleeps again.
    @Test func silentTargetThatAnsweredIsWokenAgain() async throws {
        let world = try await world()
        let (near, far) = (try await world.open(sender), try await world.open(target))
        _ = try await register(far)
        func message(_ number: UInt64) async throws -> CommandHeader {
            let command = try await world.command(from: sender, to: target, number: number, life: 86_400_000)
            try await near.send(command)
            return command.header
        }
        let first = try await message(1)
        try await world.pass(10_000)
        #expect(wakes.take().count == 1)
        try await report(.accepted, world)
        try await far.send(.commandReceived(.init(sender: sender.id, id: first.id)))
        try await far.disconnect()
        // The first command has no result, so the target is woken unless it comes back.
        try await world.pass(10_000)
        #expect(wakes.take().map(\.payload.urgency) == [.background])
    }

    // MARK: Who is not woken

    @Test(arguments: [PushRegistration.polling(interval: 900_000), nil])
    func endpointWithoutAPushChannelIsNotWoken(_ channel: PushRegistration?) async throws {
        let world = try await world()
        let near = try await world.open(sender)
        if let channel {
            try await asleep(world, channel)
        } else {
            try await world.open(target).disconnect()
        }
        let told = try await near.send(.watch(.init(ref: testRef())))
        let presence = try #require(told.compactMap(\.presence).first { $0.state == .unavailable })
        #expect(!presence.isWakeable)
        // A polling endpoint says how soon it asks.
        #expect(presence.expectedWithin == (channel == nil ? nil : .seconds(900)))
        #expect(try await near.send(try await launch(world)).count == 1)
        try await world.pass(3_600_000)
        #expect(wakes.take().isEmpty)
    }

    /// Otherwise it could show an alert every minute.
    @Test func newcomerWakesInTheBackgroundOnly() async throws {
        let world = try await world()
        _ = try await world.open(sender)
        try await asleep(world)
        let newcomer = TestDevice(subject: "me")
        let near = try await world.open(newcomer)
        for number in 1...3 as ClosedRange<UInt64> {
            try await near.send(try await world.command(from: newcomer, to: target, number: number, kind: .launch))
            _ = try await openTunnel(near)
            try await world.pass(61_000)
        }
        #expect(wakes.take().map(\.payload.urgency) == [.background])
    }

    @Test func signedOutEndpointIsNotWoken() async throws {
        let world = try await world()
        let near = try await world.open(sender)
        let far = try await world.open(target)
        _ = try await register(far)
        try await far.send(.leaving(.init(ref: testRef(), reason: .signedOut)))
        try await near.send(try await launch(world))
        try await world.pass(3_600_000)
        #expect(wakes.take().isEmpty)
    }

    @Test func endpointOfADisabledAccountIsNotWoken() async throws {
        let world = try await world()
        let near = try await world.open(sender)
        try await asleep(world)
        try await near.send(try await launch(world, life: 86_400_000))
        #expect(wakes.take().count == 1)
        try await world.core.setDisabled(true, of: AccountID(near.account))
        try await world.pass(3_600_000)
        #expect(wakes.take().isEmpty)
    }

    /// A credential is missing for a while, because an operator replaces it. What waits is woken for as soon as there is a new one.
    @Test(arguments: [false, true]) func newCredentialWakesWhatWaits(isWokenBefore: Bool) async throws {
        let world = try await world()
        let near = try await world.open(sender)
        try await asleep(world)
        if isWokenBefore {
            try await near.send(try await launch(world, life: 86_400_000))
            #expect(wakes.take().count == 1)
            try await report(.accepted, world)
        }
        wakes.setKinds([])
        world.core.credentialsChanged()
        if !isWokenBefore { try await near.send(try await launch(world, life: 86_400_000)) }
        try await world.pass(3_600_000)
        #expect(wakes.take().isEmpty)
        wakes.setKinds([.apns])
        world.core.credentialsChanged()
        try await world.pass(1_000)
        #expect(wakes.take().map(\.payload.endpoint) == [target.id])
        try await world.pass(1_000)
        #expect(wakes.take().isEmpty)
    }

    @Test(arguments: [false, true]) func watchersLearnWhatNewCredentialsCanWake(isConnected: Bool) async throws {
        let world = try await world()
        let near = try await world.open(sender)
        let far = try await world.open(target)
        _ = try await register(far)
        try await near.send(.watch(.init(ref: testRef())))
        if !isConnected { try await far.disconnect() }
        for kinds in [[], [.apns]] as [Set<PushRegistration.Kind>] {
            _ = try await near.receive()
            wakes.setKinds(kinds)
            world.core.credentialsChanged()
            try await world.settle()
            guard !isConnected else { continue }
            #expect(presence(try await near.receive())?.isWakeable == !kinds.isEmpty)
        }
        guard isConnected else { return }
        wakes.setKinds([])
        world.core.credentialsChanged()
        try await world.settle()
        try await far.disconnect()
        let presence = try #require(presence(try await near.receive()))
        #expect(presence.state == .unavailable && !presence.isWakeable)
    }

    /// A credential of a push service counts again without a change, such as after a failed check of a domain.
    @Test func missingCredentialIsLookedForAgain() async throws {
        let world = try await world()
        let near = try await world.open(sender)
        try await asleep(world)
        wakes.setKinds([])
        world.core.credentialsChanged()
        try await near.send(try await launch(world, life: 86_400_000))
        try await world.pass(3_600_000)
        wakes.setKinds([.apns])
        try await world.pass(WakeSchedule.longestDelay)
        #expect(wakes.take().map(\.payload.endpoint) == [target.id])
    }

    /// A service that takes no wake from the old credential is asked again with the new one.
    @Test func newCredentialEndsAPauseOfTheOldOne() async throws {
        let world = try await world()
        let near = try await world.open(sender)
        try await asleep(world)
        try await near.send(try await launch(world, life: 86_400_000))
        #expect(wakes.take().count == 1)
        try await report(.suppressed(until: Milliseconds(clamping: world.clock.now + 36_000_000)), world)
        try await world.pass(3_600_000)
        #expect(wakes.take().isEmpty)
        world.core.credentialsChanged()
        try await world.pass(1_000)
        #expect(wakes.take().count == 1)
    }

    /// The connection ends while the store fails, so the time of the wake is not stored.
    @Test(arguments: [false, true]) func lostTargetIsWokenAfterAFailureOfTheStore(isReopened: Bool) async throws {
        let world = try await world()
        let (near, far) = (try await world.open(sender), try await world.open(target))
        _ = try await register(far)
        let command = try await launch(world)
        try await near.send(command)
        if isReopened {
            // The relay closes the channel of a host when it cannot store what the host says.
            world.store.fail(after: 0, .before)
            try await far.send(.commandReceived(.init(sender: sender.id, id: command.header.id)))
            #expect(far.peer.closeCode == 1013)
        } else {
            world.store.failAlways(true)
            try await far.disconnect()
            try await world.pass(1_000)
            world.store.failAlways(false)
        }
        try await world.pass(1_000)
        try await world.pass(10_000)
        #expect(wakes.take().map(\.payload.endpoint) == [target.id])
    }

    @Test func channelThatIsGoneIsNotUsedAgain() async throws {
        let world = try await world()
        let near = try await world.open(sender)
        try await asleep(world)
        let registered = world.clock.now
        try await near.send(.watch(.init(ref: testRef())))
        try await near.send(try await launch(world))
        // A statement about the time before the registration is not about this registration.
        try await report(.gone(since: Milliseconds(clamping: registered - 1)), world)
        #expect(presence(try await near.receive()) == nil)
        try await world.pass(60_000)
        #expect(wakes.take().count == 2)
        try await report(.gone(since: Milliseconds(clamping: registered + 1)), world)
        let after = try #require(presence(try await near.receive()))
        #expect(after.state == .unavailable && !after.isWakeable)
        try await near.send(try await launch(world, 2))
        try await world.pass(3_600_000)
        #expect(wakes.take().isEmpty)
        // The endpoint learns it, and registers again.
        let far = try await world.open(target)
        #expect(states(try await far.receive()) == [.unregistered])
        #expect(states(try await register(far)) == [.registered])
    }

    @Test func outcomeSaysNothingAboutALaterRegistration() async throws {
        let world = try await world()
        let near = try await world.open(sender)
        try await asleep(world)
        try await near.send(try await launch(world))
        world.clock.pass(1_000)
        let far = try await world.open(target)
        _ = try await register(far, .fcm(token: Secret("new")))
        try await report(.gone(since: nil), world)
        #expect(states(try await far.receive()).isEmpty)
        #expect(states(try await world.open(target).receive()) == [.registered])
    }

    /// The relay has forgotten the account in between.
    @Test func watcherThatCameLaterLearnsThatAChannelIsGone() async throws {
        let world = try await world()
        try await asleep(world)
        let near = try await world.open(sender)
        let first = try await near.send(.watch(.init(ref: testRef())))
        #expect(first.compactMap(\.presence).contains { $0.state == .unavailable && $0.isWakeable })
        try await near.send(try await launch(world))
        try await report(.gone(since: nil), world)
        let after = try #require(presence(try await near.receive()))
        #expect(after.state == .unavailable && !after.isWakeable)
    }

    @Test func wakeThatWasAcceptedWithoutAnOpenChannelIsShown() async throws {
        let world = try await world()
        // First, because the launch of an endpoint that is new to the target is not urgent.
        let near = try await world.open(sender)
        try await asleep(world)
        try await near.send(try await launch(world))
        try await near.disconnect()
        try await report(.accepted, world)
        let back = try await world.open(sender)
        let told = try await back.send(.watch(.init(ref: testRef())))
        #expect(told.compactMap(\.presence).contains { $0.reason == .waking })
        try await world.pass(60_000)
        #expect(presence(try await back.receive())?.reason == .suspended)
    }

    /// The device is told too, so that it can register another channel.
    @Test(arguments: [nil, 1_900_000_000_000] as [Milliseconds?]) func refusedRegistrationIsNotShownAsWakeable(until: Milliseconds?)
        async throws
    {
        let world = try await world()
        let near = try await world.open(sender)
        try await asleep(world)
        try await near.send(.watch(.init(ref: testRef())))
        try await near.send(try await launch(world))
        try await report(.refused(until: until), world)
        let after = try #require(presence(try await near.receive()))
        #expect(after.state == .unavailable && !after.isWakeable)
        try await world.restart()
        let far = try await world.open(target)
        #expect(states(try await far.receive()) == [.unregistered])
        // The same channel again is no other one.
        #expect(states(try await register(far)) == [.unregistered])
        #expect(states(try await register(far, .fcm(token: Secret("new")))) == [.registered])
    }

    @Test func acceptedWakeEndsARefusal() async throws {
        let world = try await world()
        let near = try await world.open(sender)
        try await asleep(world)
        try await near.send(.watch(.init(ref: testRef())))
        try await near.send(try await launch(world, life: 3_600_000))
        try await report(.refused(until: nil), world)
        _ = try await near.receive()
        try await world.pass(60_000)
        #expect(wakes.take().count == 2)
        try await report(.accepted, world)
        #expect(presence(try await near.receive())?.reason == .waking)
        try await world.pass(60_000)
        #expect(presence(try await near.receive())?.isWakeable == true)
    }

    @Test func rejectedCredentialWakesNothingAndBothSidesLearnIt() async throws {
        let world = try await world()
        let near = try await world.open(sender)
        let awake = TestDevice(subject: "me")
        let far = try await world.open(awake)
        _ = try await register(far)
        try await asleep(world)
        try await near.send(.watch(.init(ref: testRef())))
        try await near.send(try await launch(world, life: 3_600_000))
        for isRejected in [true, false] {
            wakes.setRejected(isRejected ? [.apns] : [])
            // The outcome of a wake is enough.
            try await report(.suppressed(until: Milliseconds(clamping: world.clock.now + 1_000)), world)
            if !isRejected { try await world.pass(1_000) }
            #expect(presence(try await near.receive())?.isWakeable == !isRejected)
            #expect(states(try await far.receive()) == [isRejected ? .unregistered : .registered])
        }
        // It is still tried, and an endpoint may register.
        wakes.setRejected([.apns])
        try await world.pass(60_000)
        #expect(wakes.take().count == 2)
        #expect(states(try await far.receive()) == [.unregistered])
        #expect(states(try await register(far)) == [.unregistered])
    }

    // MARK: Tunnels

    private func openTunnel(_ session: Session, timeout: Milliseconds = 30_000) async throws -> [RelayMessage] {
        try await session.send(.tunnelOpen(.init(ref: testRef(7), target: target.id, timeout: timeout)))
    }

    @Test func tunnelWakesItsTargetAndWaits() async throws {
        let world = try await world()
        let near = try await world.open(sender)
        try await asleep(world)
        guard case .ok(let ok)? = try await openTunnel(near).first else { throw TestError("no tunnel") }
        #expect(ok.result?.isWaking == nil)
        #expect(wakes.take().map(\.payload.urgency) == [.urgent])
        try await report(.accepted, world)
        // A second one knows that a wake was sent.
        guard case .ok(let second)? = try await openTunnel(near).first else { throw TestError("no tunnel") }
        #expect(second.result?.isWaking == true)
        let far = try await world.open(target)
        let offers = try await far.receive().compactMap { if case .tunnelOffer(let offer) = $0 { offer.entrance.tunnel } else { nil } }
        #expect(Set(offers) == Set([ok, second].compactMap(\.result?.tunnel)))
        // Without time to wait nobody is woken.
        try await far.disconnect()
        try await world.pass(120_000)
        _ = (wakes.take(), try await near.receive())
        #expect(try await openTunnel(near, timeout: 0).count == 2)
        #expect(wakes.take().isEmpty)
    }

    @Test func tunnelFailsAtOnceWhileNoWakeIsAllowed() async throws {
        let world = try await world()
        let near = try await world.open(sender)
        try await asleep(world)
        _ = try await openTunnel(near)
        let until = Milliseconds(clamping: world.clock.now + 90_000)
        try await report(.suppressed(until: until), world)
        let failed = try await near.receive().compactMap { if case .tunnelFailed(let failed) = $0 { failed } else { nil } }
        #expect(failed.map(\.code) == [.wakeSuppressed] && failed.first?.retryAfter == 90_000)
        world.clock.pass(10_000)
        let refused = try #require(try await openTunnel(near).first?.failure)
        #expect(refused.code == .wakeSuppressed && refused.retryAfter == 80_000)
        _ = wakes.take()
        try await near.send(try await launch(world))
        try await world.pass(79_999)
        #expect(wakes.take().isEmpty)
        try await world.pass(1)
        #expect(wakes.take().count == 1)
    }

    // MARK: Draining

    @Test func drainIsAnsweredWhenAllCommandsAreStored() async throws {
        let world = try await world()
        let near = try await world.open(sender)
        try await asleep(world)
        let commands = [try await launch(world, 1), try await launch(world, 2)]
        for command in commands { try await near.send(command) }
        let far = try await world.open(target)
        #expect(try await far.send(.mailboxDrain(.init(ref: testRef(9)))).compactMap(\.offered).count == 2)
        for (number, command) in commands.enumerated() {
            let answer = try await far.send(.commandReceived(.init(sender: sender.id, id: command.header.id)))
            #expect(answer.map(\.ref) == (number == 1 ? [testRef(9)] : []))
        }
        #expect(try await far.send(.mailboxDrain(.init(ref: testRef(10)))) == [.ok(.init(ref: testRef(10)))])
        try await far.send(.leaving(.init(ref: testRef(), reason: .suspended)))
        #expect(try await far.send(.mailboxDrain(.init(ref: testRef(11)))).first?.failure?.code == .unavailable)
    }

    @Test func fifthDrainAtOnceIsRefused() async throws {
        let world = try await world()
        let near = try await world.open(sender)
        let far = try await world.open(target)
        try await near.send(try await launch(world))
        var failures: [RelayMessage.Failure] = []
        for ref in 1...5 as ClosedRange<Int64> {
            failures += try await far.send(.mailboxDrain(.init(ref: testRef(ref)))).compactMap(\.failure)
        }
        #expect(failures.map(\.code) == [.unavailable] && failures.first?.retryAfter == 1_000 && failures.first?.ref == testRef(5))
    }
}
