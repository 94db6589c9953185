// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Testing

@testable import DeviceRelay
@testable import RelayProtocol

/// Where a request's target is looked for.
@Suite struct DeviceProviderTests {
    /// A provider that is no endpoint at a relay.
    private struct Provider: DeviceProvider {
        let account: ConnectedDevicesAccount
        /// What it knows before and after it has listed all devices.
        let (early, late): (DeviceDirectory, DeviceDirectory)
        /// What it knows besides, once its relay is out of reach.
        let stored: DeviceDirectory
        let listed = CurrentValue(false)
        let knowsStored = CurrentValue(false)
        /// Whether its relay can be reached. Without it there is no list.
        var isOnline = true
        /// Thrown in place of the list.
        var failure: CommandFailure?

        init(
            _ account: String,
            knows early: [DeviceDirectory.Endpoint] = [],
            stores stored: [DeviceDirectory.Endpoint] = [],
            finds late: [DeviceDirectory.Endpoint] = []
        ) {
            self.account = ConnectedDevicesAccount(id: account)
            var directory = DeviceDirectory(account: account)
            for endpoint in early { directory.add(endpoint) }
            self.early = directory
            var offline = directory
            for endpoint in stored { offline.add(endpoint) }
            self.stored = offline
            for endpoint in late { directory.add(endpoint) }
            self.late = directory
        }

        var directory: DeviceDirectory { isEnumerated ? late : knowsStored.value ? stored : early }
        var isEnumerated: Bool { listed.value }

        func hasDirectory(within patience: Duration) throws(CommandFailure) {
            if let failure { throw failure }
            if !isOnline { knowsStored.update { $0 = true } }
        }

        func enumerated(within patience: Duration) throws(CommandFailure) {
            if let failure { throw failure }
            guard isOnline else { throw .noDirectory(ConnectionState(phase: .stopped, problem: nil)) }
            listed.update { $0 = true }
        }

        func submit(
            _: CommandBody,
            to _: ResolvedTarget,
            life _: Duration,
            senderApp _: String?,
            key _: SubmissionKey?
        ) throws(CommandFailure) -> RemoteCommand {
            throw .shutDown
        }
        func submitted(_: SubmissionKey) throws(CommandFailure) -> RemoteCommand? { nil }
        func content(of _: CommandID) throws -> CommandBody? { nil }
        func cancel(_: CommandID) throws(CommandFailure) { throw .shutDown }
        func reply(to _: CommandID, _: CommandFinal) throws -> ValueSet? { nil }
        func open(
            _: AppServiceInfo,
            on _: ResolvedTarget,
            from _: String?,
            timeout _: Duration
        ) throws(AppServiceError) -> AppServiceConnection {
            throw AppServiceError(.notSupported)
        }
        func openBulk(_: BulkToken, on _: ResolvedTarget, timeout _: Duration) throws(AppServiceError) -> BulkStream {
            throw AppServiceError(.notSupported)
        }
    }

    /// An endpoint with an app that has a service.
    private struct Device {
        let endpoint: DeviceDirectory.Endpoint
        let service = AppServiceInfo(name: "echo", appID: "app")

        init() throws {
            let member = try Member("PC")
            let registration = AppRegistration(
                version: 1,
                account: "account",
                endpoint: member.id,
                appID: "app",
                displayName: "App",
                schemes: [],
                services: [.init(name: "echo")]
            )
            endpoint = DeviceDirectory.Endpoint(
                record: member.record.payload,
                registrations: [registration],
                presence: Presence(.available, .connected),
                trust: .pinned
            )
        }

        func resolve(_ providers: [any DeviceProvider], _ service: AppServiceInfo? = nil) async throws(CommandFailure) -> String {
            let request = RemoteSystemConnectionRequest(systemID: endpoint.systemID)
            let wanted = service ?? self.service
            return try await providers.resolve(within: .seconds(60)) { (directory) throws(TargetError) in
                try directory.resolve(wanted, on: request)
            }.0.account.id
        }
    }

    @Test func firstThatKnowsTheDeviceTakesTheRequest() async throws {
        let device = try Device()
        let (without, with) = (Provider("a"), Provider("b", knows: [device.endpoint]))
        #expect(try await device.resolve([without, with]) == "b")
        // Nobody had to wait.
        #expect(!without.isEnumerated && !with.isEnumerated)
    }

    @Test func deviceMayOnlyBeFoundInTheWholeList() async throws {
        let device = try Device()
        #expect(try await device.resolve([Provider("a"), Provider("b", finds: [device.endpoint])]) == "b")
    }

    @Test func storedDeviceIsFoundWithoutItsRelay() async throws {
        let device = try Device()
        var offline = Provider("b", stores: [device.endpoint])
        offline.isOnline = false
        #expect(try await device.resolve([Provider("a"), offline]) == "b")
        #expect(!offline.isEnumerated)
        // A device that is not stored needs the list.
        var empty = Provider("a")
        empty.isOnline = false
        await #expect(throws: CommandFailure.self) { try await device.resolve([empty]) }
    }

    @Test func mostSpecificErrorIsReported() async throws {
        let device = try Device()
        func target(_ providers: [any DeviceProvider], _ service: AppServiceInfo? = nil) async -> TargetError? {
            do throws(CommandFailure) {
                _ = try await device.resolve(providers, service)
                return nil
            } catch {
                guard case .target(let error) = error else { return nil }
                return error
            }
        }
        let other = AppServiceInfo(name: "other", appID: "app")
        let known = Provider("b", knows: [device.endpoint])
        #expect(await target([Provider("a"), known, Provider("c")], other) == .appServiceUnavailable)
        #expect(await target([Provider("a")]) == .remoteSystemUnavailable)
    }

    @Test func waitThatFailsEndsTheSearch() async throws {
        let device = try Device()
        var broken = Provider("a")
        broken.failure = .taskCancelled
        let found = Provider("b", finds: [device.endpoint])
        await #expect(throws: CommandFailure.self) { try await device.resolve([broken, found]) }
        #expect(!found.isEnumerated)
        await #expect(throws: CommandFailure.self) { try await device.resolve([]) }
    }
}
