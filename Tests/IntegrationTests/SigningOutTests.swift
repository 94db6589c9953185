// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import Foundation
import RelayProtocol
import RelayTesting
import Testing

@Suite(.timeLimit(.minutes(10))) struct SigningOutTests {
    @Test func removedAccountMakesRoomForAnotherEndpoint() async throws {
        let home = try await TestHome(arguments: ["--limit", "endpointsPerAccount=1"])
        func device(_ name: String) async throws -> (TestDevice, JoinLink) {
            let link = try await home.link(for: "Anna")
            let device = try TestDevice(name, at: link, in: home)
            try await device.start()
            return (device, link)
        }
        let (first, firstLink) = try await device("first")
        try await first.platform.accounts.add(first.account, joining: firstLink)
        try await first.connected()
        let (second, secondLink) = try await device("second")
        await #expect(throws: AccountError.self) { try await second.platform.accounts.add(second.account, joining: secondLink) }
        await second.platform.shutdown()
        try await first.platform.accounts.remove(first.account)
        let (third, thirdLink) = try await device("third")
        try await third.platform.accounts.add(third.account, joining: thirdLink)
        try await third.connected()
        for device in [first, third] { await device.platform.shutdown() }
        #expect(try await home.relayd.stop() == 0)
    }

    /// A thief copied the storage before the account was removed.
    @Test func removedAccountEndsItsLogin() async throws {
        let home = try await TestHome()
        func isSignedIn(_ device: TestDevice, _ copy: URL) async throws -> Bool {
            let storage = try StorageDirectory(path: copy.path, systemKey: device.settings.systemKey)
            let scope = try #require(try storage.scopes().first)
            var request = AccessTokenRequest(accountID: scope.accountID, relay: try #require(device.settings.relay))
            request.endpoint = try EndpointCredentials(
                try storage.open(scope, now: 0),
                address: try RelayAddress(try #require(device.settings.relay)),
                trust: RelayTrust(relay: scope.relay)
            )
            // The stored token is invalidated, so that the provider has to refresh it.
            let provider = JoinLinkAccessTokenProvider(clientID: "org.example.test")
            _ = try await provider.accessToken(for: request)
            await provider.accessTokenInvalidated(request)
            do throws(AccessTokenError) {
                _ = try await provider.accessToken(for: request)
                return true
            } catch {
                // Leaving revokes the endpoint.
                #expect(error.code == .endpointRevoked)
                return false
            }
        }
        func copy(_ device: TestDevice) throws -> URL {
            let copy = home.directory.appending(path: "copy of \(device.name)")
            try FileManager.default.copyItem(at: device.settings.storageDirectory, to: copy)
            return copy
        }
        let (leaving, staying) = (try await home.device("leaving"), try await home.device("staying"))
        let copies = (try copy(leaving), try copy(staying))
        #expect(try await leaving.platform.accounts.remove(leaving.account))
        #expect(try await !isSignedIn(leaving, copies.0))
        #expect(try await isSignedIn(staying, copies.1))
        for device in [leaving, staying] { await device.platform.shutdown() }
    }
}
