// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import Foundation
import GRDB
import RelayProtocol
import RelayTesting
import Testing

/// An attacker tries to become a known device, by inviting others and with the relay's help.
@Suite(.timeLimit(.minutes(10))) struct TrustAttackTests {
    /// A device that joins by another device's link, and publishes an app with services.
    private func join(_ name: String, by link: JoinLink, in home: TestHome) async throws -> TestDevice {
        let device = try TestDevice(name, at: link, in: home)
        try await device.start()
        try await device.platform.accounts.add(device.account, joining: link)
        for await event in device.platform.remoteSystems() where event == .enumerationCompleted { break }
        try await device.platform.publish(SessionTestApp.app(), for: device.account)
        return device
    }

    @Test func unapprovedDeviceStaysNewForALaterInvitedDevice() async throws {
        let home = try await TestHome()
        let alpha = try await home.device("Alpha")
        try await alpha.platform.publish(player(log: Log()), for: alpha.account)
        let evil = try await home.device("Evil")
        try await evil.platform.publish(player(log: Log()), for: evil.account)
        try await alpha.sees("Evil") { $0.isNew }
        let gamma = try await join("Gamma", by: try await alpha.platform.accounts.invite(to: alpha.account), in: home)
        #expect(try await gamma.sees("Evil").isNew)
        #expect(try await !gamma.sees("Alpha").isNew)
        let gammaID = try gamma.id
        try await evil.sees("Gamma") { !$0.apps.isEmpty }
        await #expect { _ = try await evil.platform.open("echo", on: gammaID) } throws: {
            ($0 as? AppServiceError)?.code == .notAuthorized
        }
        // Still new after a restart, although the relay lists it again.
        try await gamma.restart()
        #expect(try await gamma.sees("Evil").isNew)
        for device in [alpha, evil, gamma] { await device.platform.shutdown() }
    }

    @Test func devicesKnownToTheInviterAreKnownToTheInvited() async throws {
        let home = try await TestHome()
        let alpha = try await home.device("Alpha")
        let beta = try await home.device("Beta")
        for device in [alpha, beta] { try await device.platform.publish(SessionTestApp.app(), for: device.account) }
        try await alpha.sees("Beta") { $0.isNew }
        // Beta joined without an inviter: it knows Alpha, but unverified.
        #expect(try await !beta.sees("Alpha") { !$0.isNew }.isVerified)
        #expect(await alpha.platform.confirm(try beta.id, for: alpha.account))
        let gamma = try await join("Gamma", by: try await alpha.platform.accounts.invite(to: alpha.account), in: home)
        // By Alpha's voucher, and in the other direction.
        try await gamma.sees("Beta") { $0.isVerified }
        try await gamma.sees("Alpha") { $0.isVerified }
        try await alpha.sees("Gamma") { $0.isVerified }
        try await beta.sees("Gamma") { !$0.isNew }
        // Gamma invites Delta: for Beta that is a chain of two vouchers.
        let delta = try await join("Delta", by: try await gamma.platform.accounts.invite(to: gamma.account), in: home)
        try await beta.sees("Delta") { !$0.isNew && !$0.isVerified }
        try await delta.sees("Beta") { $0.isVerified }
        // The chain also holds for a waiting message that Beta gets before the vouchers.
        let betaID = try beta.id
        for _ in 0..<3 {
            try await beta.restart { try $0.host(SessionTestApp.app(), for: beta.account) }
            let target = RemoteSystemConnectionRequest(endpoint: betaID, appID: SessionTestApp.appID)
            let answer = try await delta.platform.sendStatelessMessage(["N": 1], to: SessionTestApp.service("echo"), on: target)
            #expect(answer == ["N": 1])
        }
        for device in [alpha, beta, gamma, delta] { await device.platform.shutdown() }
    }

    @Test func revocationEndsTheSessionsOfADevice() async throws {
        let home = try await TestHome()
        let (alpha, beta) = (try await home.device("Alpha"), try await home.device("Beta"))
        try await alpha.platform.publish(SessionTestApp.app(), for: alpha.account)
        try await beta.platform.publish(player(log: Log()), for: beta.account)
        try await alpha.sees("Beta")
        #expect(await alpha.platform.confirm(try beta.id, for: alpha.account))
        try await beta.sees("Alpha") { !$0.apps.isEmpty }
        let connection = try await beta.platform.open("echo", on: try alpha.id)
        #expect(try await connection.send(["N": 1]) == ["N": 1])
        let betaID = try beta.id
        // Without the relay, the device still refuses it.
        try await home.relayd.kill()
        for await state in alpha.platform.connectionStates(for: alpha.account) where !state.isConnected { break }
        await #expect { try await alpha.platform.revoke(betaID, for: alpha.account) } throws: {
            ($0 as? AccountError)?.code == .networkNotAvailable
        }
        try await alpha.seesNot("Beta")
        try await alpha.restart()
        // The revocation is sent when the relay is back.
        _ = try await home.relayd.start()
        for await state in beta.platform.connectionStates(for: beta.account) where state.problem?.code == .endpointRevoked { break }
        try await alpha.seesNot("Beta")
        for device in [alpha, beta] { await device.platform.shutdown() }
    }

    /// Changes the relay's database, as a hostile relay could.
    @Test func endpointForgedByTheRelayIsNewToAnInvitedDevice() async throws {
        let home = try await TestHome()
        let alpha = try await home.device("Alpha")
        try await alpha.platform.publish(player(log: Log()), for: alpha.account)
        try await home.relayd.kill()
        let fake = try home.addFake(beside: try alpha.id)
        _ = try await home.relayd.start()
        try await alpha.connected()
        let gamma = try await join("Gamma", by: try await alpha.platform.accounts.invite(to: alpha.account), in: home)
        let endpoints = gamma.platform.endpoints(for: gamma.account)
        let listed = try #require(endpoints.first { $0.id == fake })
        #expect(listed.trust == .new)
        try await gamma.sees("Alpha") { !$0.isNew }
        for device in [alpha, gamma] { await device.platform.shutdown() }
    }
}

extension TestHome {
    fileprivate var relayDatabase: DatabaseQueue {
        get throws { try DatabaseQueue(path: relayd.directory.appending(path: "relay.sqlite").path) }
    }

    /// Adds an endpoint with keys of the attacker to the account of another one. The relay must not be running.
    fileprivate func addFake(beside endpoint: EndpointID) throws -> EndpointID {
        try relayDatabase.write { database in
            let select = "SELECT * FROM endpoints WHERE id = ?"
            let row = try #require(try Row.fetchOne(database, sql: select, arguments: [Data(endpoint.digest.bytes)]))
            var values = [String: DatabaseValue](uniqueKeysWithValues: row.map { ($0.0, $0.1) })
            let account = try #require(values["account"].flatMap(String.fromDatabaseValue))
            let key = P256SigningKey()
            let record = try Signed(
                EndpointRecord(
                    version: 1,
                    account: account,
                    identityKey: key.publicKey,
                    systemKey: P256SigningKey(),
                    agreementKey: P256AgreementKey().publicKey,
                    name: "Ghost",
                    kind: "desktop",
                    platform: "linux"
                ),
                key: key
            )
            values["id"] = Data(record.payload.endpointID.digest.bytes).databaseValue
            values["record"] = Data(record.encoded).databaseValue
            values["version"] = 1.databaseValue
            let columns = values.keys.sorted()
            try database.execute(
                sql:
                    "INSERT INTO endpoints (\(columns.joined(separator: ", "))) VALUES (\(columns.map { _ in "?" }.joined(separator: ", ")))",
                arguments: StatementArguments(columns.map { values[$0] ?? .null })
            )
            return record.payload.endpointID
        }
    }
}
