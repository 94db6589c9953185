// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import Foundation
import RelayProtocol
import Testing

/// What another process of the same installation learns about commands and endpoints.
@Suite(.timeLimit(.minutes(10))) struct CommandStatusTests {
    @Test func statusBeforeTheDirectoryIsKept() async throws {
        let home = try await TestHome()
        let (phone, pc) = (try await home.device("Phone"), try await home.device("PC"))
        try await pc.platform.publish(player(log: Log<String>()), for: pc.account)
        let system = try await phone.sees("PC")
        await pc.platform.shutdown()
        let submitted = try await RemoteLauncher(phone.platform).submit(try url("https://films.example/42"), on: .init(system))
        for await status in submitted.statuses where status == .accepted { break }
        #expect(submitted.status == .accepted)
        #expect(!submitted.isEnded)
        await phone.platform.shutdown()
        // The command ends while no process of the sender is connected.
        let log = Log<String>()
        let again = pc.sibling()
        try again.host(player(log: log), for: pc.account)
        try await again.start()
        _ = await log.wait(for: 1)
        let later = phone.sibling()
        try await later.start()
        var command: RemoteCommand?
        repeat {
            for await event in later.remoteSystems() where event == .enumerationCompleted { break }
            command = try await later.commands(for: phone.account).first
        } while command?.isEnded == false
        #expect(command?.id == submitted.id)
        #expect(command?.status == .final(.succeeded, attestedBy: .target))
        #expect(command?.isEnded == true)
        await later.shutdown()
        await again.shutdown()
    }

    /// A wait for changes has no time of its own: it ends with a change of any process, with its task, or with the platform.
    @Test func waitForChangesEnds() async throws {
        let home = try await TestHome()
        let (phone, pc) = (try await home.device("Phone"), try await home.device("PC"))
        try await pc.platform.publish(player(log: Log<String>()), for: pc.account)
        let system = try await phone.sees("PC")
        let (platform, account) = (phone.platform, phone.account)
        let last = try await platform.lastCommandChange(for: account)
        func waits() -> Task<RemoteLaunchError.Code?, any Error> {
            Task {
                do throws(RemoteLaunchError) {
                    return try await platform.commandChanges(for: account, after: last).changes.isEmpty ? .pending : nil
                } catch {
                    return error.code
                }
            }
        }
        let cancelled = waits()
        cancelled.cancel()
        #expect(try await cancelled.value == .pending)
        let changed = waits()
        let other = phone.sibling()
        try await other.start()
        _ = try await RemoteLauncher(other).submit(try url("https://films.example/42"), on: .init(system))
        #expect(try await changed.value == nil)
        await other.shutdown()
        let newest = try await platform.lastCommandChange(for: account)
        let ended = Task { () -> RemoteLaunchError.Code? in
            var last = newest
            do throws(RemoteLaunchError) {
                while true { last = try await platform.commandChanges(for: account, after: last).changes.last?.sequence ?? last }
            } catch {
                return error.code
            }
        }
        await platform.shutdown()
        #expect([.pending, .notSignedIn, .storageFailed].contains(await ended.value))
        await pc.platform.shutdown()
    }

    @Test func endpointsWithoutAnAppAreListed() async throws {
        let home = try await TestHome()
        let (phone, pc) = (try await home.device("Phone"), try await home.device("PC"))
        for await event in pc.platform.remoteSystems() where event == .enumerationCompleted { break }
        let endpoints = pc.platform.endpoints(for: pc.account)
        let phoneID = try phone.id
        let ids = [phoneID, try pc.id].sorted()
        #expect(endpoints.map(\.id) == ids)
        #expect(endpoints.filter(\.isLocal).map(\.id) == ids.filter { $0 != phoneID })
        #expect(endpoints.allSatisfy { $0.registrations.isEmpty })
        #expect(pc.platform.endpoints(for: ConnectedDevicesAccount(id: "other")).isEmpty)
        await phone.platform.shutdown()
        await pc.platform.shutdown()
    }
}
