// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import Foundation
import RelayProtocol
import Testing

/// The screen on which a person approves or refuses new endpoints.
@Suite(.timeLimit(.minutes(10))) struct NewEndpointTests {
    /// Waits until the new endpoints of a device fulfil a condition.
    @discardableResult
    private func newEndpoints(
        of device: TestDevice,
        where isMet: ([NewEndpoint]) -> Bool
    ) async throws -> [NewEndpoint] {
        for await endpoints in device.platform.newEndpoints(for: device.account) where isMet(endpoints) { return endpoints }
        throw CancellationError()
    }

    @Test func newEndpointIsApproved() async throws {
        let home = try await TestHome()
        let pc = try await home.device("PC")
        try await newEndpoints(of: pc) { $0.isEmpty }
        let tablet = try await home.device("Tablet")
        try await pc.platform.approve(try await newEndpoints(of: pc) { $0.count == 1 }[0])
        try await newEndpoints(of: tablet) { $0.isEmpty }
        let phone = try await home.device("Phone") { $0.device.kind = .phone }
        let new = try await newEndpoints(of: pc) { !$0.isEmpty }
        #expect(new.count == 1)
        let endpoint = try #require(new.first)
        #expect(endpoint.id == (try phone.id))
        #expect(endpoint.systemID == (try phone.platform.accounts.systemID))
        #expect(endpoint.deviceName == "Phone" && endpoint.kind == .phone && endpoint.platform == .linux)
        #expect(endpoint.joining?.address == "127.0.0.1" && endpoint.joining?.invitedBy == nil && endpoint.inviterName == nil)
        #expect(endpoint.fingerprint == (try phone.platform.accounts.fingerprint(of: phone.account)))
        try await newEndpoints(of: tablet) { $0.map(\.id) == [endpoint.id] }
        try await pc.platform.approve(endpoint)
        try await newEndpoints(of: pc) { $0.isEmpty }
        try await newEndpoints(of: tablet) { $0.isEmpty }
        for device in [pc, tablet, phone] { await device.platform.shutdown() }
    }

    @Test func bothDevicesShowTheSameCode() async throws {
        let home = try await TestHome()
        let pc = try await home.device("PC")
        try await newEndpoints(of: pc) { $0.isEmpty }
        let phone = try await home.device("Phone")
        try await newEndpoints(of: pc) { !$0.isEmpty }
        try await newEndpoints(of: phone) { $0.isEmpty }
        let code = try #require(pc.platform.verificationCode(with: try phone.id, for: pc.account))
        #expect(phone.platform.verificationCode(with: try pc.id, for: phone.account) == code)
        #expect(code.words.count == 10)
        #expect(pc.platform.verificationCode(with: try pc.id, for: pc.account) == nil)
        for device in [pc, phone] { await device.platform.shutdown() }
    }

    /// The relay takes no revocation from an endpoint that nobody has approved. The endpoint is refused here all the same, also after a
    /// restart.
    @Test func rejectionHoldsWhenTheRelayRejectsIt() async throws {
        let home = try await TestHome()
        let pc = try await home.device("PC")
        try await newEndpoints(of: pc) { $0.isEmpty }
        let tablet = try await home.device("Tablet")
        try await newEndpoints(of: tablet) { $0.isEmpty }
        let phone = try await home.device("Phone")
        let new = try #require(try await newEndpoints(of: tablet) { !$0.isEmpty }.first)
        await #expect(throws: AccountError(.serviceFailed, message: "")) { try await tablet.platform.refuse(new) }
        try await newEndpoints(of: tablet) { $0.isEmpty }
        await #expect(throws: AccountError(.notFound, message: "")) { try await tablet.platform.approve(new) }
        try await tablet.restart()
        try await newEndpoints(of: tablet) { $0.isEmpty }
        // The relay still lists the phone for the PC, which may refuse it.
        try await pc.platform.refuse(
            try #require(try await newEndpoints(of: pc) { $0.contains { $0.id == new.id } }.first { $0.id == new.id })
        )
        for await state in phone.platform.connectionStates(for: phone.account) where state.problem?.code == .endpointRevoked { break }
        for device in [pc, tablet, phone] { await device.platform.shutdown() }
    }
}
