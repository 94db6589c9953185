// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import RelayProtocol
import RelayTesting
import Testing

/// The real service, as a process: from an invitation to a launch that survives its death.
@Suite(.timeLimit(.minutes(10))) struct RelaydProcessTests {
    private func pair() async throws -> (RelaydProcess, phone: WireEndpoint, pc: WireEndpoint) {
        let relayd = try await RelaydProcess()
        let ready = try await relayd.start()
        #expect(ready.contains(relayd.origin))
        _ = try await relayd.run("account", "add", "Anna")
        let (phone, pc) = (WireEndpoint("Phone", at: relayd), WireEndpoint("PC", at: relayd))
        for endpoint in [phone, pc] {
            try await endpoint.join(try await relayd.run("invite", "Anna"))
            try await endpoint.connect()
        }
        return (relayd, phone, pc)
    }

    @Test func twoEndpointsJoinFindEachOtherAndLaunch() async throws {
        let (relayd, phone, pc) = try await pair()
        #expect(phone.account == pc.account)
        guard case .ok = try await phone.request({ .watch(.init(ref: $0)) }) else {
            Issue.record("not watching")
            return
        }
        guard case .ok = try await pc.publish("org.example.player") else {
            Issue.record("not published")
            return
        }
        // The phone sees the app, by a registration that the PC signed.
        var book = RecordBook(account: phone.account)
        let record = try book.add(endpointRecord: try pc.record().encoded)
        let registrations = try await phone.event { message -> [Blob<BlobKinds.AppRegistration>]? in
            switch message {
            case .endpointAdded(let added) where added.endpoint == pc.id && !added.registrations.isEmpty: added.registrations
            case .endpointUpdated(let updated) where updated.endpoint == pc.id: updated.registrations
            default: nil
            }
        }
        #expect(try book.set(appRegistrations: registrations.map(\.bytes), of: pc.id).map(\.payload.appID) == ["org.example.player"])

        var ids = CommandIDGenerator()
        var random = SystemRandomNumberGenerator()
        let id = ids.next(now: 1, using: &random)
        let command = try phone.launch("https://films.example/42", on: record.payload, appID: "org.example.player", id: id, number: 1)
        guard case .ok = try await phone.request({ .commandSend(.init(ref: $0, command: Blob(command.encoded))) }) else {
            Issue.record("not accepted")
            return
        }
        #expect(try await pc.handleNext() == .launch(.init(uri: try LaunchURI("https://films.example/42"))))
        #expect(try await phone.outcome(of: command, target: record.payload) == .succeeded)
        #expect(try await relayd.stop() == 0)
    }

    @Test func acceptedLaunchSurvivesAKilledRelay() async throws {
        let (relayd, phone, pc) = try await pair()
        guard case .ok = try await pc.publish("org.example.player") else {
            Issue.record("not published")
            return
        }
        let target = try pc.record().payload
        await pc.disconnect()
        var ids = CommandIDGenerator()
        var random = SystemRandomNumberGenerator()
        var commands: [SealedCommand] = []
        for number in 1...5 as ClosedRange<UInt64> {
            let id = ids.next(now: number, using: &random)
            let command = try phone.launch("film:\(number)", on: target, appID: "org.example.player", id: id, number: number)
            let answer = try await phone.request { .commandSend(.init(ref: $0, command: Blob(command.encoded))) }
            guard case .ok = answer else {
                Issue.record("not accepted: \(answer)")
                return
            }
            commands.append(command)
        }
        try await relayd.kill()
        _ = try await relayd.start()
        try await pc.connect()
        for number in 1...5 { #expect(try await pc.handleNext() == .launch(.init(uri: try LaunchURI("film:\(number)")))) }
        try await relayd.kill()
        _ = try await relayd.start()
        try await phone.connect()
        for command in commands { #expect(try await phone.outcome(of: command, target: target) == .succeeded) }
        #expect(try await relayd.stop() == 0)
    }

    @Test func endpointWithARevokedLoginIsRejected() async throws {
        let (relayd, phone, pc) = try await pair()
        try await phone.revokeLogin()
        let reason = try await phone.event { if case .authInvalidated(let invalidated) = $0 { invalidated.code } else { nil } }
        #expect(reason == .tokenRevoked)
        do {
            try await phone.connect()
            Issue.record("a revoked login's token was taken")
        } catch let error as WireEndpoint.Unexpected {
            #expect(error.message.contains("tokenRevoked"))
        }
        guard case .ok = try await pc.request({ .watch(.init(ref: $0)) }) else {
            Issue.record("another login suffers")
            return
        }
        #expect(try await relayd.stop() == 0)
    }

    @Test func invitationWorksOnceAndTokenWorksForItsOwnerOnly() async throws {
        let (relayd, phone, _) = try await pair()
        let (owner, thief) = (WireEndpoint("Owner", at: relayd), WireEndpoint("Thief", at: relayd))
        let link = try await relayd.run("invite", "Anna")
        try await owner.join(link)
        await #expect(throws: WireEndpoint.Unexpected.self) { try await thief.join(link) }
        thief.steal(from: phone)
        do {
            try await thief.connect()
            Issue.record("a stolen token was taken")
        } catch let error as WireEndpoint.Unexpected {
            #expect(error.message.contains("tokenBoundToOtherKey"))
        }
        #expect(try await relayd.stop() == 0)
    }
}
