// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import ArgumentParser
import DeviceRelay
import Foundation
import RelayProtocol

/// A target: reports the start and the answer of each handler, and waits until each report is recorded.
struct Host: AsyncParsableCommand {
    static let configuration = CommandConfiguration(shouldDisplay: false)

    @OptionGroup var member: Member
    /// Its address at the push service.
    @Option var token: String
    /// The data of the push that has started it, as JSON.
    @Option var notification: String?

    func run() async throws {
        let driver = Driver()
        driver.listen()
        let platform = try member.platform()
        let app = RemoteSystemAppRegistration(
            appID: Member.app,
            displayName: "Player",
            launchHandler: LaunchHandler(schemes: ["film"]) { request in
                let number = try Int(request.uri.text.dropFirst("film:".count)).unwrapped
                switch await Self.handle(number, isMessage: false, driver) {
                case .succeeded: return .launched
                case .declined: return .declined
                case .unsupported: return .unsupported
                default: return .failed(reason: "no film in the camera")
                }
            },
            services: [
                AppService(Member.service.name) { connection, _ in
                    try await connection.respond { request in
                        let number = Int(try request.message["Issue"]?.int.unwrapped ?? 0)
                        switch await Self.handle(number, isMessage: true, driver) {
                        case .succeeded: return request.message
                        case .declined: throw AppServiceError(.notAuthorized)
                        default: throw AppServiceError(.failure)
                        }
                    }
                }
            ]
        )
        try platform.host(app, for: member.account)
        if let notification { Self.process(try JSONDecoder().decode([String: String].self, from: Data(notification.utf8)), platform) }
        let endpoint = try await member.start(platform)
        // At the first start the others must find the app, so publishing is awaited. Later starts may happen while the relay is away.
        if member.join != nil { try await publish(app, platform) }
        await driver.tell(.ready(endpoint: endpoint))
        if member.join == nil { Task { try await publish(app, platform) } }
        for await order in driver.orders {
            switch order {
            case .goOn, .submit: break
            case .networkChanged: await platform.networkChanged()
            case .approve:
                Task {
                    try await platform.approveAll(of: member.account)
                    await driver.tell(.approved)
                }
            case .notify(let data): Self.process(data, platform)
            case .fallAsleep:
                Task {
                    while !(await platform.poll()) { try await Task.sleep(for: .milliseconds(100)) }
                    await driver.tell(.drowsy)
                }
            case .stop:
                await platform.shutdown()
                return
            }
        }
    }

    private func publish(_ app: RemoteSystemAppRegistration, _ platform: ConnectedDevicesPlatform) async throws {
        try await platform.publish(app, for: member.account)
        try await platform.notifications.register(.init(type: .fcm, token: token, appID: Member.app), for: member.account)
    }

    /// The process may also have been started for it, before the platform has started.
    private static func process(_ data: [String: String], _ platform: ConnectedDevicesPlatform) {
        Task { if let notification = ConnectedDevicesNotification(parsing: data) { _ = await platform.process(notification) } }
    }

    private static func handle(_ number: Int, isMessage: Bool, _ driver: Driver) async -> Ending {
        await driver.tell(.started(issue: number, at: wallTime()))
        // Some handlers take time, so that processes are killed while handlers run.
        try? await Task.sleep(for: .milliseconds(number &* 7_919 % 16))
        let answer = Errand.answer(to: number, isMessage: isMessage)
        await driver.tell(.handled(issue: number, answer))
        return answer
    }
}
