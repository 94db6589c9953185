// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import RelayProtocol
import RelayTesting
import Testing

@testable import RelayServer

/// What the operator asks of a relay that runs.
@Suite(.timeLimit(.minutes(10))) struct OperatorTests {
    private func list(_ relayd: RelaydProcess) async throws -> [AdminEndpoint] {
        try JSONDecoder().decode([AdminEndpoint].self, from: Data(try await relayd.run("endpoint", "list", "--json").utf8))
    }

    /// The only device of an account was lost, and with it the only one that could revoke it.
    @Test func theOperatorRevokesALostDevice() async throws {
        let relayd = try await RelaydProcess()
        _ = try await relayd.start()
        for name in ["Anna", "Bert"] { _ = try await relayd.run("account", "add", name) }
        let (lost, other) = (WireEndpoint("Lost phone", at: relayd), WireEndpoint("PC", at: relayd))
        for (endpoint, person) in [(lost, "Anna"), (other, "Bert")] {
            try await endpoint.join(try await relayd.run("invite", person))
            try await endpoint.connect()
        }
        let listed = try await list(relayd)
        #expect(Set(listed.map(\.id)) == ["\(lost.id)", "\(other.id)"])
        let entry = try #require(listed.first { $0.id == "\(lost.id)" })
        #expect(entry.account == "Anna")
        #expect(entry.name == "Lost phone")
        #expect(entry.isConnected)
        #expect(entry.isEstablished)
        #expect(entry.address == "127.0.0.1")
        let text = try await relayd.run("endpoint", "list", "Anna")
        #expect(text.contains("\(lost.id)") && text.contains("Lost phone") && !text.contains("\(other.id)"))

        _ = try await relayd.run("endpoint", "revoke", "--yes", "\(lost.id)")
        #expect(await lost.closeCode() == 1008)
        guard case .rejected(let rejected) = try await lost.greet(role: .host).1 else { throw WireEndpoint.Unexpected(message: "let in") }
        #expect(rejected.code == .endpointRevoked)
        #expect(try await list(relayd).map(\.id) == ["\(other.id)"])
        // Twice is the same; what is no endpoint is an error.
        _ = try await relayd.run("endpoint", "revoke", "--yes", "\(lost.id)")
        for id in ["\(WireEndpoint("X", at: relayd).id)", "x"] {
            await #expect(throws: (any Error).self) { try await relayd.run("endpoint", "revoke", "--yes", id) }
        }
        await #expect(throws: (any Error).self) { try await relayd.run("endpoint", "list", "Nobody") }

        // The next device begins the account anew: it may revoke others.
        let (next, second) = (WireEndpoint("New phone", at: relayd), WireEndpoint("Second", at: relayd))
        for endpoint in [next, second] {
            try await endpoint.join(try await relayd.run("invite", "Anna"))
            try await endpoint.connect()
        }
        #expect(next.account == lost.account)
        guard case .ok = try await next.revoke(second) else { throw WireEndpoint.Unexpected(message: "not established") }
        #expect(try await relayd.stop() == 0)
    }

    @Test func theOperatorRevokesALostDeviceAndDevicesItLetIn() async throws {
        let relayd = try await RelaydProcess()
        _ = try await relayd.start()
        _ = try await relayd.run("account", "add", "Anna")
        let phone = WireEndpoint("Phone", at: relayd)
        let (lost, second, thief) = (
            WireEndpoint("Lost", at: relayd), WireEndpoint("Second", at: relayd), WireEndpoint("Thief", at: relayd)
        )
        for endpoint in [phone, lost, second, thief] {
            try await endpoint.join(try await relayd.run("invite", "Anna"))
            try await endpoint.connect()
        }
        for (voucher, other) in [(phone, lost), (phone, second), (lost, thief)] {
            guard case .ok = try await voucher.approve(other) else { throw WireEndpoint.Unexpected(message: "not approved") }
        }
        func revoke(_ arguments: String...) async throws -> AdminRevocation {
            let arguments = ["endpoint", "revoke", "--yes", "--json", "--data-directory", relayd.directory.path] + arguments
            let output = try await RelaydProcess.run(arguments).output
            return try JSONDecoder().decode(AdminRevocation.self, from: Data(output.utf8))
        }
        let first = try await revoke("\(lost.id)")
        #expect(first.revoked.map(\.name) == ["Lost"])
        #expect(first.letIn.map(\.name) == ["Thief"])
        #expect(first.letIn.map(\.isEstablished) == [false])
        guard case .failure(let failure) = try await thief.revoke(phone) else { throw WireEndpoint.Unexpected(message: "revoked") }
        #expect(failure.code == .notEstablished)

        guard case .ok = try await second.approve(thief) else { throw WireEndpoint.Unexpected(message: "not approved") }
        #expect(Set(try await revoke("\(second.id)", "--with-invited").revoked.map(\.name)) == ["Second", "Thief"])
        #expect(await thief.closeCode() == 1008)
        #expect(try await list(relayd).map(\.id) == ["\(phone.id)"])
        // For people.
        let text = try await relayd.run("endpoint", "revoke", "--yes", "\(phone.id)")
        #expect(text.hasPrefix("revoked \(phone.id)  Anna  Phone  "))
        #expect(try await relayd.stop() == 0)
    }

    @Test func onlyTheOwnerCanUseTheAdminSocket() async throws {
        let relayd = try await RelaydProcess()
        _ = try await relayd.start()
        let socket = AdminSocket.path(in: relayd.directory.path)
        let mode = try FileManager.default.attributesOfItem(atPath: socket)[.posixPermissions] as? Int
        #expect(mode == 0o600)
        #expect(try await relayd.stop() == 0)
        #expect(!FileManager.default.fileExists(atPath: socket))
        let error = await #expect(throws: AdminError.self) {
            try await AdminSocket.ask(.listEndpoints(account: nil), in: relayd.directory.path)
        }
        #expect(error?.description.contains("no relay runs") == true)
    }
}
