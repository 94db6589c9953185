// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import Foundation
import Observation

/// What this device does for the others: it opens addresses, and answers the services `pingpong` and `echo`.
@MainActor @Observable final class Hosting {
    /// Whether launches are opened. If not, the caller learns that they were declined.
    var acceptsLaunches = true
    private(set) var log = HostingLog()
    /// Whether other devices see this app.
    private(set) var notice = Notice.progress("Not published yet")

    private let system: SampleSystem

    init(_ system: SampleSystem) { self.system = system }

    /// The app as other devices see it. Its handlers run on any task, and come back here for the log.
    var registration: RemoteSystemAppRegistration {
        RemoteSystemAppRegistration(
            appID: SampleApp.id,
            displayName: SampleApp.name,
            attributes: SampleApp.attributes,
            launchHandler: LaunchHandler(schemes: SampleApp.schemes, defaultFor: [SampleApp.scheme]) { [weak self] request in
                await self?.opened(request) ?? .failed(reason: "the app is ending")
            },
            services: [
                service(SampleApp.pingService) { try Ping.answer($0) },
                service(SampleApp.echoService) { try Echo.answer($0) },
            ]
        )
    }

    /// Publishes the app, and waits until the relay has it. Without a network it is published later, by itself.
    func publish(on platform: ConnectedDevicesPlatform, for account: ConnectedDevicesAccount) async {
        notice = .progress("Publishing")
        do throws(PublishError) {
            try await platform.publish(registration, for: account)
            notice = .success("Other devices see this app", "It opens \(SampleApp.schemes.joined(separator: ", ")) addresses.")
        } catch {
            notice = Notice(error)
        }
    }

    private func opened(_ request: LaunchRequest) async -> LaunchHandler.Result {
        let result = await open(request)
        add("\(request.caller.deviceName) launched \(request.uri.text): \(Self.word(result))")
        return result
    }

    private func open(_ request: LaunchRequest) async -> LaunchHandler.Result {
        guard acceptsLaunches else { return .declined(reason: "this device takes no launches now") }
        // An address of this app is shown by the app itself: its log is the screen for it.
        guard request.uri.scheme != SampleApp.scheme else { return .launched }
        return await system.open(request.uri) ? .launched : .failed(reason: "no app has opened it; the sample may be in the background")
    }

    private static func word(_ result: LaunchHandler.Result) -> String {
        switch result {
        case .launched: "opened"
        case .unsupported: "not supported"
        case .declined: "declined"
        case .failed: "not opened"
        }
    }

    private func add(_ text: String) { log.add(text) }

    private func service(_ info: AppServiceInfo, _ answer: @escaping @Sendable (ValueSet) throws -> ValueSet) -> AppService {
        let log: @Sendable (String) async -> Void = { [weak self] in await self?.add($0) }
        return AppService(info.name) { connection, caller in
            await log("\(caller.deviceName) opened \(info.name)")
            try await connection.respond { request in
                do {
                    let response = try answer(request.message)
                    await log("\(caller.deviceName) sent a message to \(info.name): answered")
                    return response
                } catch {
                    await log("\(caller.deviceName) sent a message to \(info.name): refused")
                    throw error
                }
            }
            await log("\(caller.deviceName) closed \(info.name)")
        }
    }
}
