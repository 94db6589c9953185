// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import RelayProtocol
import RelayTesting
import Testing

/// Join links and refresh tokens in the wrong hands, at the real service with live channels.
@Suite(.timeLimit(.minutes(10))) struct UsedLinkAttackTests {
    private let relayd: RelaydProcess
    private let phone: WireEndpoint
    private let other: WireEndpoint

    init() async throws {
        relayd = try await RelaydProcess()
        relayd.standardError = .nullDevice
        (phone, other) = (WireEndpoint("Phone", at: relayd), WireEndpoint("Other", at: relayd))
        _ = try await relayd.start()
        _ = try await relayd.run("account", "add", "Anna")
    }

    private func expectIsIn(_ endpoint: WireEndpoint) async throws {
        guard case .ok = try await endpoint.request({ .watch(.init(ref: $0)) }) else { throw WireEndpoint.Unexpected(message: "not in") }
        try await endpoint.refresh()
    }

    private func expectIsOut(_ endpoint: WireEndpoint) async throws {
        let code = try await endpoint.event { if case .authInvalidated(let invalidated) = $0 { invalidated.code } else { nil } }
        #expect(code == .tokenRevoked)
        #expect(await endpoint.closeCode() == 1008)
        await #expect(throws: WireEndpoint.Unexpected.self) { try await endpoint.refresh() }
        await #expect(throws: WireEndpoint.Unexpected.self) { try await endpoint.connect() }
    }

    @Test func usedLinkDoesNotEndTheLoginOfItsDevice() async throws {
        let link = try await relayd.run("invite", "Anna")
        try await phone.join(link)
        try await phone.connect()
        await #expect(throws: WireEndpoint.Unexpected.self) { try await other.join(link, isBound: false) }
        try await expectIsIn(phone)
        #expect(try await relayd.stop() == 0)
    }

    @Test func ownersUseOfAStolenLinkEndsTheThiefsLogin() async throws {
        let link = try await relayd.run("invite", "Anna")
        try await other.join(link)
        try await other.connect()
        await #expect(throws: WireEndpoint.Unexpected.self) { try await phone.join(link) }
        try await expectIsOut(other)
        #expect(try await relayd.stop() == 0)
    }

    /// The device's own old token, which a thief of its files has with the key.
    @Test func reuseOfAnOldTokenRevokesAfterARestore() async throws {
        let file = FileManager.default.temporaryDirectory.appending(path: "relayd-\(UUID().uuidString).tar")
        defer { try? FileManager.default.removeItem(at: file) }
        try await phone.join(try await relayd.run("invite", "Anna"))
        let stolen = phone.refreshToken
        for _ in 0..<2 { try await phone.refresh() }
        let directory = ["--data-directory", relayd.directory.path]
        #expect(try await RelaydProcess.run(["backup", file.path] + directory).status == 0)
        for _ in 0..<2 { try await phone.refresh() }
        #expect(try await relayd.stop() == 0)
        #expect(try await RelaydProcess.run(["restore", "--force", file.path] + directory).status == 0)
        _ = try await relayd.start()
        try await phone.refresh()
        try await phone.connect()
        try await expectIsIn(phone)
        await #expect(throws: WireEndpoint.Unexpected.self) { try await phone.refresh(with: stolen) }
        try await expectIsOut(phone)
        #expect(try await relayd.stop() == 0)
    }
}
