// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import Foundation
import Observation
import RelayTesting
import Testing

@testable import RomeSampleModel

/// A real relay with the account Anna, and samples as its devices, each with its own directory and system key.
@MainActor final class SampleBench {
    /// What a sample's system did, and what it is to answer.
    @MainActor final class Phone {
        let sample: RomeSample
        let directory: URL
        var opened: [String] { calls.opened }
        var takesLaunches: Bool {
            get { calls.takesLaunches }
            set { calls.takesLaunches = newValue }
        }
        private let calls: Calls

        init(_ sample: RomeSample, _ directory: URL, _ calls: Calls) {
            (self.sample, self.directory, self.calls) = (sample, directory, calls)
        }
    }

    @MainActor final class Calls {
        var opened: [String] = []
        var takesLaunches = true
    }

    let relayd: RelaydProcess
    private let directory = FileManager.default.temporaryDirectory.appending(path: "rome-\(UUID().uuidString)")
    private var phones: [Phone] = []

    init() async throws {
        relayd = try await RelaydProcess()
        _ = try await relayd.start()
        _ = try await relayd.run("account", "add", "Anna")
    }

    /// A sample that has not started.
    /// - Parameters:
    ///   - directory: That of an earlier one, which has ended; `nil` for a new device.
    ///   - browser: What the person does with the sign-in page.
    func phone(
        _ name: String,
        in directory: URL? = nil,
        browser: @escaping @Sendable (URL) async throws -> Void = { _ in throw CancellationError() }
    ) -> Phone {
        let directory = directory ?? self.directory.appending(path: "\(phones.count)")
        let calls = Calls()
        let system = SampleSystem(
            directory: directory,
            configure: { settings in
                settings.device.name = name
                settings.systemKey = SystemKeyFile(path: directory.appending(path: "system.key").path)
            },
            showSignIn: browser,
            open: { uri in
                await MainActor.run {
                    calls.opened.append(uri.text)
                    return calls.takesLaunches
                }
            }
        )
        let phone = Phone(RomeSample(system), directory, calls)
        phones.append(phone)
        return phone
    }

    /// A sample in the account. Its person has confirmed the account.
    /// - Parameter inviter: The device that invites it; `nil` for the relay's operator, and then it is new to the devices that are there.
    func joined(_ name: String, by inviter: Phone? = nil) async throws -> Phone {
        let phone = phone(name)
        await phone.sample.start()
        try await join(phone, try await link(by: inviter))
        return phone
    }

    func link(by inviter: Phone? = nil) async throws -> String {
        guard let inviter else { return try await relayd.run("invite", "Anna") }
        let devices = try #require(inviter.sample.device?.newDevices)
        await devices.invite()
        return try #require(devices.invitation)
    }

    /// Joins, and says yes to the account.
    func join(_ phone: Phone, _ link: String) async throws {
        phone.sample.link = link
        await confirming(phone) { await phone.sample.join() }
        let device = try #require(phone.sample.device, "\(String(describing: phone.sample.notice))")
        try await until { device.connection.kind == .success && phone.sample.hosting.notice.kind == .success }
    }

    /// Signs in, and says yes if it is asked about the account.
    func confirming(_ phone: Phone, _ signIn: @MainActor () async -> Void) async {
        let answer = Task {
            try await until { phone.sample.question.account != nil }
            phone.sample.question.answer(true)
        }
        await signIn()
        answer.cancel()
    }

    /// Ends all samples and the relay.
    func end() async throws {
        for phone in phones { await phone.sample.end() }
        _ = try await relayd.stop()
        try? FileManager.default.removeItem(at: directory)
    }
}

/// Runs a closure with a bench, and ends the bench also after an error.
@MainActor func withBench(_ body: @MainActor (SampleBench) async throws -> Void) async throws {
    let bench = try await SampleBench()
    do {
        try await body(bench)
    } catch {
        try? await bench.end()
        throw error
    }
    try await bench.end()
}

/// Waits until a condition on observed values holds. The time limit of the suite ends it.
@MainActor func until(_ condition: @escaping @MainActor () -> Bool) async throws {
    while !condition() {
        let (changes, change) = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))
        withObservationTracking {
            _ = condition()
        } onChange: {
            change.yield()
        }
        for await _ in changes { break }
        try Task.checkCancellation()
    }
}

extension SampleBench.Phone {
    /// Runs a closure while the list of devices is followed, as its screen does.
    func watching(_ body: @MainActor (DeviceList) async throws -> Void) async throws {
        let list = try #require(sample.device?.devices)
        // It forgets the rows of the last watch before the closure runs.
        let watch = Task.immediate { await list.watch() }
        defer { watch.cancel() }
        try await body(list)
    }

    /// The row of a device, as soon as it is there and passes.
    func row(_ name: String, where isMeant: @escaping @MainActor (DeviceRow) -> Bool = { !$0.system.apps.isEmpty }) async throws
        -> DeviceRow
    {
        var found: DeviceRow?
        try await watching { list in
            try await until { list.rows.contains { $0.name == name && isMeant($0) } }
            found = list.rows.first { $0.name == name && isMeant($0) }
        }
        return try #require(found)
    }

    func launching(on name: String, _ uri: String) async throws -> Launching {
        let target = try #require(try await row(name).targets.first)
        let launching = try #require(sample.device?.launching(target))
        launching.uri = uri
        return launching
    }
}
